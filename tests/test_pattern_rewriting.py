"""What takes the place of a group: values, gradients, captures; planners that fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from daily import examples
from grown import FLOATS, GRAPH, GROWN, compiler_of, data, pattern, written
from hypothesis import given, settings
from hypothesis import strategies as st

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import MatchedOp, TrainingPattern
from netcl_core.errors import FusionError, FusionSkipped

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")
pytestmark = pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")


# -- values and gradients ----------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (7,), (5, 17)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_replaced_group(either: nc.Device, shape: tuple[int, ...], dtype: str) -> None:
    if dtype == "float64" and not either.supports_fp64:
        pytest.skip("no float64")
    function = ag.jit_compile(
        lambda x, y: ag.sum(written(x, y) * 2), patterns=compiler_of(pattern())
    )
    grads = []
    for each in (function, function.__wrapped__):
        x, y = data(*shape, dtype=dtype), data(*shape, seed=1, dtype=dtype)
        loss = each(x, y)
        loss.backward()
        grads.append(
            [np.asarray(g, "float64") for g in (loss.item(), x.grad.numpy(), y.grad.numpy())]
        )
    assert "pattern grown_pattern (user) in place of add -> exp -> mul" in function.explain(x, y)
    tolerance = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}[dtype]
    for found, right in zip(*grads, strict=True):
        np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance)


def test_second_derivatives(either: nc.Device) -> None:
    function = ag.jit_compile(written, patterns=compiler_of(pattern()))
    found = []
    for each in (function, written):
        x, y = data(6), data(6, seed=1)
        (first,) = ag.grad(ag.sum(each(x, y)), [x], create_graph=True)
        found.append([g.numpy() for g in ag.grad(ag.sum(first * first), [x, y])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_capture(fast: nc.Device) -> None:
    """What stands in the place of a group is captured as any op is."""
    compiler = compiler_of(
        TrainingPattern(
            "swapped",
            MatchedOp("sum", (GRAPH,)),
            lambda x, y: ag.sum(ag.mul(ag.add(y, x), ag.exp(x))),
        )
    )
    loss_of = ag.jit_compile(lambda x, y: ag.sum(written(x, y)), patterns=compiler)
    x, y = data(9), data(9, seed=1)
    assert "pattern swapped (user)" in loss_of.explain(x, y)
    graph = ag.CompiledGraph([x])
    with graph:
        loss = loss_of(x, y)
        loss.backward()
    graph.compile([y])
    other = data(9, seed=2)
    replayed = graph.replay([other]).item()
    found = x.grad.numpy().copy()
    x.grad = None
    eager = ag.sum(written(x, other))
    eager.backward()
    np.testing.assert_allclose(replayed, eager.item(), rtol=1e-5)
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=1e-5)


def test_several_groups(either: nc.Device) -> None:
    """One may read another's value, and be read by what is not replaced."""
    x, y = data(4), data(4, seed=1)
    function = ag.jit_compile(
        lambda x, y: written(ag.tanh(written(x, y)), written(y, x)),
        patterns=compiler_of(pattern()),
    )
    assert function.explain(x, y).count("pattern grown_pattern (user)") == 3
    np.testing.assert_allclose(
        function(x, y).numpy(), function.__wrapped__(x, y).numpy(), rtol=1e-5
    )


def test_a_pattern_does_not_match_its_own_replacement(on_numpy: None) -> None:
    calls: list[int] = []

    def again(x: Any, y: Any) -> Any:
        calls.append(1)
        return written(y, x) * 0 + written(x, y)

    function = ag.jit_compile(written, patterns=compiler_of(pattern(planner=again)))
    x, y = data(4), data(4, seed=1)
    np.testing.assert_allclose(function(x, y).numpy(), written(x, y).numpy(), rtol=1e-6)
    assert len(calls) == 1


def test_a_captured_value_may_be_the_value(either: nc.Device) -> None:
    twice = TrainingPattern("twice", MatchedOp("neg", (MatchedOp("neg", ("x",)),)), lambda x: x)
    function = ag.jit_compile(
        lambda x: ag.neg(ag.neg(ag.neg(ag.neg(x)))), patterns=compiler_of(twice)
    )
    x = data(3)
    y = function(x)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    ag.sum(y).backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.ones(3))


def test_the_larger_group_goes_first(on_numpy: None) -> None:
    small = TrainingPattern("small", MatchedOp("exp", ("x",)), lambda x: ag.exp(x))
    x, y = data(4), data(4, seed=1)
    for order in ((small, pattern()), (pattern(), small)):
        assert compiler_of(*order).match(written, x, y).name == "grown_pattern"
    declined = pattern(planner=lambda x, y: None)
    said = ag.jit_compile(written, patterns=compiler_of(declined, small)).explain(x, y)
    assert "pattern small (user) in place of exp" in said
    assert "pattern grown_pattern (user) did not apply: its planner declined" in said


def test_sizes_that_a_planner_looks_at(on_numpy: None) -> None:
    def only_three(x: Any, y: Any) -> Any:
        return ag.mul(ag.add(y, x), ag.exp(x)) if x.shape[0] == 3 else None

    function = ag.jit_compile(written, patterns=compiler_of(pattern(planner=only_three)))
    for size in (5, 3, 6, 3):
        x, y = data(size), data(size, seed=1)
        np.testing.assert_allclose(function(x, y).numpy(), written(x, y).numpy(), rtol=1e-6)
        assert ("(user) in place of" in function.explain(x, y)) is (size == 3)


# -- random programs ---------------------------------------------------------------------

_STEPS: dict[str, Callable[..., Any]] = {
    "written": written,
    "exp": lambda x, y: ag.exp(x) * y,
    "add": lambda x, y: x + y,
    "tanh": lambda x, y: ag.tanh(x),
    "kept": lambda x, y: (lambda e: e * (x + y) + e)(ag.exp(x)),
    "cut": lambda x, y: ag.exp(x) * (x + y).detach(),
    "swapped": lambda x, y: (y + x) * ag.exp(x),
    "mean": lambda x, y: x - ag.mean(y, dim=-1, keepdim=True),
}


@given(
    steps=st.lists(st.tuples(st.sampled_from([*_STEPS]), st.booleans()), min_size=1, max_size=6),
    shape=st.sampled_from([(1,), (3,), (2, 5), (0, 2)]),
)
@settings(max_examples=examples(60), deadline=None)
def test_random_programs(steps: list[tuple[str, bool]], shape: tuple[int, ...]) -> None:
    """With the pattern somewhere in it a program gives what it gives as it stands."""

    def program(x: Any, y: Any) -> Any:
        values = [x, y]
        for name, swap in steps:
            one, other = values[-2:][:: -1 if swap else 1]
            values.append(ag.tanh(_STEPS[name](one, other)))
        return values[-1], values[len(values) // 2]

    compiled = ag.jit_compile(program, patterns=compiler_of(pattern()))
    found = []
    with nc.use_device("numpy"):
        for function in (compiled, program):
            x, y = data(*shape, dtype="float64"), data(*shape, seed=1, dtype="float64")
            one, other = function(x, y)
            if one.requires_grad:
                ag.sum(one * 3 + other).backward()
            grads = [np.zeros(shape) if g.grad is None else g.grad.numpy() for g in (x, y)]
            found.append([one.numpy(), other.numpy(), *grads])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


# -- planners that fail ------------------------------------------------------------------


def _raises(x: Any, y: Any) -> Any:
    raise KeyError("lost")


def _changes(x: Any, y: Any) -> Any:
    x.copy_(y)
    return ag.exp(x)


def _swallows(x: Any, y: Any) -> Any:
    with contextlib.suppress(BaseException):
        x.numpy()
    return ag.mul(x, y)


_KEPT: list[Any] = []


def _keeps(x: Any, y: Any) -> Any:
    if not _KEPT:
        _KEPT.append(ag.mul(x, y))
        raise ValueError("once")
    return _KEPT[0]


def _cuts(x: Any, y: Any) -> Any:
    with ag.no_grad():
        return GROWN(x, y)


_HOSTILE: dict[str, tuple[Any, str]] = {
    "raises": (_raises, "its planner raised KeyError: 'lost'"),
    "junk": (lambda x, y: 3, "its planner gave a int; expected an operand, float32 of shape (4,)"),
    "text": (lambda x, y: "grown", "its planner gave a str"),
    "pair": (lambda x, y: (x, y), "its planner gave a tuple"),
    "shape": (lambda x, y: ag.sum(x), "its planner gave float32 of shape ()"),
    "dtype": (lambda x, y: ag.astype(x, "float64"), "its planner gave float64 of shape (4,)"),
    "data": (lambda x, y: nc.tensor(x.numpy()), "its planner raised TraceBreak"),
    "swallowed": (_swallows, "its planner raised TraceBreak"),
    "change": (_changes, "its planner raised TraceBreak"),
    "no gradient": (_cuts, "its planner gave a value without a gradient"),
    "detached": (lambda x, y: GROWN(x, y).detach(), "its planner gave a value without a gradient"),
    "arguments": (lambda x: x, "its planner raised TypeError"),
    "attribute": (lambda x, y: x.nothing, "its planner raised MissingNameError"),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_planner_that_fails(name: str, on_numpy: None) -> None:
    """It costs its own group the pattern, and nobody a result; it is said once."""
    planner, text = _HOSTILE[name]
    compiler = compiler_of(pattern(planner=planner))
    function = ag.jit_compile(written, patterns=compiler)
    x, y = data(4), data(4, seed=1)
    with pytest.warns(FusionSkipped) as told:
        found = function(x, y)
    (warning,) = told
    assert "the pattern grown_pattern at" in str(warning.message) and text in str(warning.message)
    assert "pattern 'grown_pattern' of user" in str(warning.message) and "NP406" in str(
        warning.message
    )
    np.testing.assert_allclose(found.numpy(), written(x, y).numpy(), rtol=1e-6)
    assert function(x, y).shape == (4,)  # and nothing more is said
    assert f"did not apply: NP406: pattern 'grown_pattern' of user: {text}" in function.explain(
        x, y
    )
    with pytest.raises(FusionError, match="NP406"):
        ag.jit_compile(written, strict=True, patterns=compiler)(x, y)
    ag.sum(found).backward()
    assert x.grad is not None


def test_a_value_of_an_earlier_trace(on_numpy: None) -> None:
    _KEPT.clear()
    x, y = data(4), data(4, seed=1)
    for text in ("ValueError: once", "that was kept from a trace"):
        function = ag.jit_compile(written, patterns=compiler_of(pattern(planner=_keeps)))
        with pytest.warns(FusionSkipped, match=text):
            np.testing.assert_allclose(function(x, y).numpy(), written(x, y).numpy(), rtol=1e-6)


def test_an_op_that_refuses_is_no_failure(on_numpy: None) -> None:
    """A planner need not ask what its op asks."""
    function = ag.jit_compile(written, strict=True, patterns=compiler_of(pattern()))
    x, y = data(4), data(1)
    np.testing.assert_allclose(function(x, y).numpy(), written(x, y).numpy(), rtol=1e-6)
    assert "did not apply: its planner declined: grown: " in function.explain(x, y)
