"""Training patterns: what matches, what just does not, and what takes the place of a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Captured, MatchedOp, TrainingGraphCompiler, TrainingPattern

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")
pytest.importorskip("netcl_plugin_losses")


@pytest.fixture(autouse=True)
def _on_numpy() -> Iterator[None]:
    """What matches does not depend on the device."""
    with nc.use_device("numpy"):
        yield


BIAS_GELU = MatchedOp("gelu", (MatchedOp("add", ("x", "bias")),))


def tensor(*shape: int, dtype: str = "float32", seed: int = 0) -> nc.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    needs = dtype.startswith("float")
    return nc.tensor(np.asarray(values * 3, dtype), device="numpy", requires_grad=needs)


X, Y, Z = tensor(3, 4), tensor(3, 4, seed=1), tensor(3, 4, seed=2)


class Probe:
    """A pattern that notes what it captures and declines, so that nothing is replaced."""

    def __init__(self, matcher: Any, dtypes: Any = ()) -> None:
        self.captured: list[dict[str, Any]] = []
        self.compiler = TrainingGraphCompiler.private()
        self.compiler.register(TrainingPattern("probe", matcher, self.plan, dtypes=dtypes))

    def plan(self, **captured: Any) -> None:
        self.captured.append(
            {k: x.shape if hasattr(x, "shape") else x for k, x in captured.items()}
        )

    def matches(self, function: Callable[..., Any], *args: Any) -> bool:
        self.captured.clear()
        assert self.compiler.match(function, *args) is None  # it declines
        return bool(self.captured)

    def said(self, function: Callable[..., Any], *args: Any) -> str:
        return ag.jit_compile(function, patterns=self.compiler).explain(*args)


# -- graphs: each rule with what fits and what does not ----------------------------------

OP = MatchedOp
ADD_MUL = OP("add", (OP("mul", ("x", "y")), "z"))
SHARED = OP("sigmoid", ("x",))
_HALF = OP("mul", ("x", 0.5))
_RULES: dict[str, tuple[Any, Callable[..., Any], Callable[..., Any]]] = {
    "another op": (ADD_MUL, lambda x, y, z: x * y + z, lambda x, y, z: x / y + z),
    "another root": (ADD_MUL, lambda x, y, z: x * y + z, lambda x, y, z: x * y - z),
    "a swapped commutative op": (ADD_MUL, lambda x, y, z: z + y * x, lambda x, y, z: (z + y) * x),
    "a swapped other op": (
        OP("sub", (OP("exp", ("x",)), "y")),
        lambda x, y, z: ag.exp(x) - y,
        lambda x, y, z: y - ag.exp(x),
    ),
    "one name, two values": (
        OP("mul", ("x", OP("sigmoid", ("x",)))),
        lambda x, y, z: ag.sigmoid(x) * x,
        lambda x, y, z: ag.sigmoid(x) * y,
    ),
    "one op, two values": (
        OP("mul", (SHARED, OP("sub", (1, SHARED)))),
        lambda x, y, z: (lambda s: s * (1 - s))(ag.sigmoid(x)),
        lambda x, y, z: ag.sigmoid(x) * (1 - ag.sigmoid(x)),
    ),
    "another number": (_HALF, lambda x, y, z: 0.5 * x, lambda x, y, z: x * 0.25),
    "a tensor for a number": (_HALF, lambda x, y, z: x * 0.5, lambda x, y, z: x * y),
    "a number for a tensor": (OP("mul", ("x", "y")), lambda x, y, z: x * y, lambda x, y, z: x * 3),
    "a tensor for any number": (
        OP("mul", ("x", Captured("by"))),
        lambda x, y, z: x * 3,
        lambda x, y, z: x * y,
    ),
    "another attribute": (
        OP("gelu", ("x",), (("approximate", "tanh"),)),
        lambda x, y, z: ag.gelu(x, approximate="tanh"),
        lambda x, y, z: ag.gelu(x, approximate="none"),
    ),
    "an attribute of a reduction": (
        OP("sum", ("x",), (("dim", (1,)),)),
        lambda x, y, z: ag.sum(x, dim=1),
        lambda x, y, z: ag.sum(x, dim=0),
    ),
    "an attribute that there is not": (
        OP("gelu", ("x",)),
        lambda x, y, z: ag.gelu(x),
        lambda x, y, z: ag.relu(x),
    ),
    "an absent operand": (
        OP("layer_norm", ("x", "weight")),
        lambda x, y, z: ag.layer_norm(x, (4,), y[0]),
        lambda x, y, z: ag.layer_norm(x, (4,), y[0], z[0]),
    ),
    "an operand that is there": (
        OP("layer_norm", ("x", None, "bias")),
        lambda x, y, z: ag.layer_norm(x, (4,), None, y[0]),
        lambda x, y, z: ag.layer_norm(x, (4,)),
    ),
    "an op made of others": (
        OP("mse_loss", (OP("relu", ("x",)), "y")),
        lambda x, y, z: ag.mse_loss(ag.relu(x), y),
        lambda x, y, z: ag.l1_loss(ag.relu(x), y),
    ),
    "an attribute of an op made of others": (
        OP("mse_loss", ("x", "y"), (("reduction", "sum"),)),
        lambda x, y, z: ag.mse_loss(x, y, reduction="sum"),
        lambda x, y, z: ag.mse_loss(x, y),
    ),
    "a value inside is used outside": (
        ADD_MUL,
        lambda x, y, z: x * y + z,
        lambda x, y, z: (lambda m: (m + z) * m)(x * y),
    ),
    "a value inside is returned": (
        ADD_MUL,
        lambda x, y, z: (x * y + z, x),
        lambda x, y, z: (lambda m: (m + z, m))(x * y),
    ),
    "a value inside is captured": (
        ADD_MUL,
        lambda x, y, z: x * y + x,
        lambda x, y, z: (lambda m: m + m)(x * y),
    ),
    "a value detached inside": (
        ADD_MUL,
        lambda x, y, z: x.detach() * y + z,
        lambda x, y, z: (x * y).detach() + z,
    ),
    "part of it under no_grad": (
        ADD_MUL,
        lambda x, y, z: x * y + z,
        lambda x, y, z: _cut(x, y) + z,
    ),
    "another result": (
        OP("exp", (OP("max", ("x",), (("dim", 1),)),)),
        lambda x, y, z: ag.exp(ag.max(x, dim=1).values),
        lambda x, y, z: ag.exp(ag.max(x, dim=1).indices),
    ),
}  # fmt: skip


def _cut(x: Any, y: Any) -> Any:
    with ag.no_grad():
        return x * y


@pytest.mark.parametrize("rule", _RULES)
def test_what_a_graph_matches(rule: str) -> None:
    matcher, fits, misses = _RULES[rule]
    probe = Probe(matcher)
    assert probe.matches(fits, X, Y, Z)
    assert not probe.matches(misses, X, Y, Z)


def test_two_names_may_be_one_value() -> None:
    assert Probe(ADD_MUL).matches(lambda x: x * x + x, X)


def test_a_whole_group_under_no_grad_is_taken() -> None:
    """Its value passes no gradient on either way."""
    compiler = TrainingGraphCompiler.private()
    compiler.register(TrainingPattern("p", OP("exp", (_HALF,)), lambda x: ag.exp(0.5 * x)))

    def function(x: Any) -> Any:
        with ag.no_grad():
            scale = ag.exp(x * 0.5)
        return scale * x

    assert compiler.match(function, X) is not None
    x = tensor(3, 4)
    ag.sum(ag.jit_compile(function, patterns=compiler)(x)).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(x.numpy() / 2), rtol=1e-6)


@pytest.mark.parametrize(
    ("dtypes", "given", "fits"),
    [
        (("float32",), ("float32", "float32"), True),
        (("float64",), ("float32", "float32"), False),
        (("float32", "float64"), ("float32", "float64"), False),
        ((), ("float32", "float64"), True),
        (("float32",), ("int32", "int32"), False),
        (("int32",), ("int32", "int32"), True),
    ],
)
def test_dtypes(dtypes: Any, given: tuple[str, str], fits: bool) -> None:
    """One dtype of the pattern's, for the value and all floating tensors; without any: all."""
    probe = Probe(OP("mul", ("x", "y")), dtypes)
    x, y = (tensor(3, dtype=dtype) for dtype in given)
    assert probe.matches(lambda x, y: x * y, x, y) is fits
    if not fits:
        assert "pattern probe (user) did not apply: " in probe.said(lambda x, y: x * y, x, y)


def test_what_is_captured() -> None:
    graph = OP(
        "clamp", (OP("mul", ("x", Captured("by"))),), (("min", 0.0), ("max", Captured("top")))
    )
    probe = Probe(graph)
    assert probe.matches(lambda x, k: ag.clamp(k * x, 0.0, 6.0), X, 3)
    assert {k: v for k, v in probe.captured[0].items() if k != "by"} == {"x": (3, 4), "top": 6.0}
    assert int(probe.captured[0]["by"]) == 3
    assert graph.names == ["x", "by", "top"] and [op.op for op in graph.ops] == ["mul", "clamp"]


def test_numbers_of_a_call_stay_free() -> None:
    """A captured number builds and traces nothing when it changes; a literal is compared."""
    compiler = TrainingGraphCompiler.private()

    def plan(x: Any, by: Any) -> Any:
        return ag.mul(ag.exp(x), by)

    compiler.register(TrainingPattern("p", OP("mul", (OP("exp", ("x",)), Captured("by"))), plan))
    scaled = ag.jit_compile(lambda x, k: ag.exp(x) * k, patterns=compiler)
    for k in (2.0, 3.0, -1.5):
        np.testing.assert_allclose(scaled(X, k).numpy(), np.exp(X.numpy()) * k, rtol=1e-6)
    assert scaled.cache_info().misses == 1 and "pattern p (user)" in scaled.explain(X, 2.0)

    probe = Probe(OP("mul", (OP("exp", ("x",)), 0.5)))
    function = ag.jit_compile(lambda x, k: ag.exp(x) * k, patterns=probe.compiler)
    for k in (0.5, 0.25, 0.5, 4.0):
        np.testing.assert_allclose(function(X, k).numpy(), np.exp(X.numpy()) * k, rtol=1e-6)
    assert len(probe.captured) == 1


# -- ops that are made of others ---------------------------------------------------------


def test_an_op_made_of_others_is_one() -> None:
    """With its operands in the order of its signature and its other arguments as attributes."""
    graph = OP("layer_norm", (OP("add", ("x", "y")), "w", "b"), (("eps", Captured("eps")),))
    probe = Probe(graph)
    w, b = tensor(4), tensor(4, seed=1)

    def function(x: Any, y: Any, w: Any, b: Any) -> Any:
        return ag.layer_norm(x + y, (4,), w, b, eps=1e-3) * 2

    assert probe.matches(function, X, Y, w, b)
    assert probe.captured[0] == {"x": (3, 4), "y": (3, 4), "w": (4,), "b": (4,), "eps": 1e-3}
    assert "its add is used elsewhere too" in probe.said(
        lambda x, y, w, b: (lambda s: ag.layer_norm(s, (4,), w, b) + s)(x + y), X, Y, w, b
    )


def test_dropout_keeps_its_random_numbers() -> None:
    """What a planner draws comes in the order in which the function drew it."""
    graph = OP("add", (OP("dropout", ("x",), (("p", Captured("p")), ("training", True))), "y"))
    compiler = TrainingGraphCompiler.private()
    compiler.register(
        TrainingPattern("p", graph, lambda x, y, p: ag.add(y, ag.dropout(x, p))),
    )

    def function(x: Any, y: Any) -> Any:
        first = ag.dropout(x, 0.5)
        second = ag.dropout(y, 0.25)
        return second * 2, first + y

    fused = ag.jit_compile(function, patterns=compiler)
    assert "pattern p (user) in place of dropout -> add" in fused.explain(X, Y)
    for _ in range(2):
        nc.manual_seed(5)
        wanted = [x.numpy() for x in function(X, Y)]
        nc.manual_seed(5)
        for found, right in zip(fused(X, Y), wanted, strict=True):
            np.testing.assert_array_equal(found.numpy(), right)
    evaluated = Probe(graph)
    assert not evaluated.matches(lambda x, y: ag.dropout(x, 0.5, training=False) + y, X, Y)


def test_two_draws_are_not_one() -> None:
    twice = OP("add", (OP("dropout", ("x",)), OP("dropout", ("x",))))
    probe = Probe(twice)
    assert probe.matches(lambda x: ag.dropout(x, 0.5) + ag.dropout(x, 0.5), X)
    assert not probe.matches(lambda x: (lambda d: d + d)(ag.dropout(x, 0.5)), X)
    one = OP("dropout", ("x",))
    probe = Probe(OP("add", (one, one)))
    assert probe.matches(lambda x: (lambda d: d + d)(ag.dropout(x, 0.5)), X)
    assert not probe.matches(lambda x: ag.dropout(x, 0.5) + ag.dropout(x, 0.5), X)


def test_inside_an_op_made_of_others() -> None:
    """Its own ops are those of the function, too."""
    assert Probe(OP("square", (OP("sub", ("x", "y")),))).matches(
        lambda x, y: ag.mean(ag.square(x - y)), X, Y
    )


# -- functions as matchers ---------------------------------------------------------------


def silu_pair(value: Any) -> Any:
    """silu(a) * b in either order, for a at least two-dimensional."""
    if value.op != "mul" or value.ndim < 2:
        return None
    for one, other in (value.inputs, value.inputs[::-1]):
        if getattr(one, "op", "") == "swish":  # the first of its names
            return {"gate": one.inputs[0], "x": other}
    return None


def test_a_matching_function() -> None:
    probe = Probe(silu_pair, ("float32",))
    assert probe.matches(lambda x, y: y * ag.silu(x), X, Y)
    assert probe.captured == [{"gate": (3, 4), "x": (3, 4)}]
    assert not probe.matches(lambda x, y: y * ag.relu(x), X, Y)
    assert not probe.matches(lambda x, y: ag.silu(x) * y, tensor(4), tensor(4))
    assert "is used elsewhere too" in probe.said(
        lambda x, y: (lambda s: s * y + s)(ag.silu(x)), X, Y
    )


def test_a_view_of_a_value() -> None:
    seen: list[Any] = []

    def look(value: Any) -> None:
        seen.append(value)

    Probe(look).matches(lambda x, y: ag.mse_loss(x * 2, y, reduction="sum"), X, Y)
    loss = seen[-1].as_op("mse_loss")
    assert [x.op for x in loss.inputs] == ["mul", "input"] and loss.attrs == {"reduction": "sum"}
    assert seen[-1].as_op("l1_loss") is None and seen[-1].op == "sum" and seen[-1] == loss
    product = loss.inputs[0]
    assert product.inputs[1] == 2 and product.shape == (3, 4) and product.dtype == "float32"
    assert (
        product.requires_grad and product.device is nc.get_device("numpy") and product.result == 0
    )
    assert repr(product) == "TracedValue(mul, shape=(3, 4), dtype=float32)"


@pytest.mark.parametrize(
    ("matcher", "text"),
    [
        (lambda value: {"x": value.inputs[0]} if value.op == "add" else None, "left out"),
        (lambda value: {"x": value}, "its ops do nothing here"),
        (lambda value: 3, "it gave 3 in place of captured values"),
        (lambda value: {3: value}, "in place of captured values"),
        (lambda value: value.nothing, "its matcher raised AttributeError"),
    ],
)
def test_a_matching_function_that_is_wrong(matcher: Any, text: str) -> None:
    said = Probe(matcher).said(lambda x, y: x + y, X, Y)
    assert (text in said and "in 1 forward launches" in said) or "in 0 forward launches" in said


def test_sizes_that_a_matcher_looks_at() -> None:
    """A program for any sizes is not taken where the matcher's answer may differ."""
    compiler = TrainingGraphCompiler.private()

    def matcher(value: Any) -> Any:
        if value.op == "exp" and value.shape[0] == 3:
            return {"x": value.inputs[0]}
        return None

    compiler.register(TrainingPattern("p", matcher, lambda x: ag.exp(x) * 1))
    function = ag.jit_compile(lambda x: ag.exp(x), patterns=compiler)
    for size in (5, 3, 6, 3):
        x = tensor(size)
        assert ("pattern p" in function.explain(x)) is (size == 3)
        np.testing.assert_allclose(function(x).numpy(), np.exp(x.numpy()), rtol=1e-6)
