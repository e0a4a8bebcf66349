"""jit_compile gives what the function gives: values, gradients, structure, errors."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices
from threads import in_threads, turns

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.autograd.compiler import register_primitive
from netcl_core.errors import FusionError, FusionSkipped, GradientError, MutationError
from netcl_core.hardware import programs as cache
from netcl_core.plugins.registry import registry

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")
pytest.importorskip("netcl_plugin_linalg")
pytest.importorskip("netcl_plugin_nn")


@pytest.fixture(params=usable_devices(), ids=lambda device: device.platform.split()[0])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Every usable device in turn."""
    with nc.use_device(request.param):
        yield request.param


@pytest.fixture
def cpu() -> Iterator[None]:
    """The NumPy path, for what no device has a part in."""
    with nc.use_device("numpy"):
        yield


def data(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def leaf(array: Any) -> nc.Tensor:
    return nc.Tensor.from_host(np.asarray(array), requires_grad=True)


def host(value: Any) -> Any:
    return value.to_host().tolist()


def outcome(function: Callable[..., Any], *arrays: np.ndarray, **kwargs: Any) -> list[np.ndarray]:
    """The results and then the gradients for leaves of these arrays, None as zeros."""
    leaves = [nc.tensor(x) for x in arrays]
    for x in leaves:
        x.requires_grad_(x.dtype.startswith("float"))
    results = function(*leaves, **kwargs)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    for i, result in enumerate(results):
        if result.requires_grad:
            result.backward(np.full(result.shape, 1.0 + i, result.dtype), retain_graph=True)
    found = [x.to_host() for x in results]
    return found + [np.zeros(x.shape) if x.grad is None else x.grad.to_host() for x in leaves]


def agree(function: Any, *arrays: np.ndarray, rtol: float = 1e-5, **kwargs: Any) -> Any:
    """The function gives the same compiled and as it is; returns it compiled."""
    compiled = ag.jit_compile(function)
    wanted = outcome(function, *arrays, **kwargs)
    for _ in range(2):  # traced, and from the cache
        found = outcome(compiled, *arrays, **kwargs)
        assert [x.dtype for x in found] == [x.dtype for x in wanted]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol, rtol)
    assert compiled.cache_info().hits >= 1
    return compiled


# -- the documented examples ----------------------------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def test_the_chain_of_the_documents(device: Any) -> None:
    @ag.jit_compile
    def fused(x: Any) -> Any:
        y = ag.relu(x)
        z = ag.gelu(y) + 0.5
        return ag.sigmoid(z)

    x = data(3, 700)
    result = fused(nc.tensor(x))
    np.testing.assert_allclose(result.to_host(), sigmoid(gelu(np.maximum(x, 0)) + 0.5), 1e-5)
    agree(fused.__wrapped__, x)
    assert fused.lower(nc.tensor(x)).launches == 1


def test_the_mlp_block_of_the_documents(device: Any) -> None:
    def fused_mlp_block(x: Any, w: Any, b: Any) -> Any:
        h = ag.add(ag.matmul(x, w), b)
        h = ag.relu(h)
        return ag.add(h, 1.0)

    x, w, b = data(4, 5), data(5, 6, seed=1), data(6, seed=2)
    compiled = agree(fused_mlp_block, x, w, b)
    found = compiled(nc.tensor(x), nc.tensor(w), nc.tensor(b)).to_host()
    np.testing.assert_allclose(found, np.maximum(x @ w + b, 0) + 1, 1e-5, 1e-6)


def test_the_generated_kernel_of_the_documents(device: Any) -> None:
    compiled = agree(lambda x: ag.relu(x * 0.5) + 1.0, data(33))
    lowered = compiled.lower(nc.tensor(data(33)))
    assert lowered.launches == 1
    word = "def" if device.backend == "numpy" else "kernel"
    assert word in lowered.forward_source and word in lowered.backward_source


@pytest.fixture
def my_op() -> Iterator[Callable[..., None]]:
    """`my_op(a, b)` is a * b; the fixture replaces it by another."""

    def replace(forward: str, *backward: str) -> None:
        register_primitive(
            "my_op",
            lambda args, attrs: forward.format(*args),
            lambda args, grad, attrs, out: [each.format(*args, grad=grad) for each in backward],
            arity=2,
            override=True,
        )

    register_primitive(
        "my_op",
        lambda args, attrs: f"MUL({args[0]}, {args[1]})",
        lambda args, grad, attrs, out: [f"MUL({grad}, {args[1]})", f"MUL({grad}, {args[0]})"],
        arity=2,
    )
    try:
        yield replace
    finally:
        registry.remove_provider("user")


def test_an_op_of_the_user_in_a_chain_and_replaced(device: Any, my_op: Any) -> None:
    compiled = agree(lambda a, b: ag.relu(ag.my_op(a, b) + 0.5) * 2, data(40), data(40, seed=1))
    x = nc.tensor(np.float32([1, 2]))
    assert host(compiled(x, x)) == [3, 9]
    my_op("{0} + {1}", "{grad}", "{grad}")
    assert host(compiled(x, x)) == [5, 9]


def test_one_input_for_both_operands(device: Any) -> None:
    """The gradient of add_relu reads its result, and comes from both operands."""
    x = leaf([2.0, -2.0])
    ag.sum(ag.jit_compile(lambda x: ag.add_relu(x, x))(x)).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 0.0])


def test_a_comparison_with_two_consumers(device: Any) -> None:
    """The gradient of relu is a choice; added to another one it needs its parentheses."""
    x = leaf([1.0, -1.0])
    ag.sum(ag.jit_compile(lambda x: ag.relu(x) + x * 2)(x)).backward()
    assert host(x.grad) == [3, 2]


def test_words_as_attributes(device: Any) -> None:
    def function(x: Any, how: str) -> Any:
        return ag.gelu(x * 2, approximate=how) + 1

    compiled = ag.jit_compile(function)
    x = nc.tensor(np.linspace(-3, 3, 50, dtype=np.float32))
    found = {how: compiled(x, how).to_host() for how in ("tanh", "none", "tanh", "none")}
    for how, value in found.items():
        np.testing.assert_allclose(value, function(x, how).to_host(), 1e-5, 1e-6)
    assert np.abs(found["tanh"] - found["none"]).max() > 1e-4


# -- the decorator ---------------------------------------------------------------------------


def test_bare_and_with_options_and_wraps(cpu: None) -> None:
    @ag.jit_compile
    def bare(x: Any) -> Any:
        """Twice."""
        return x * 2

    @ag.jit_compile(strict=True)
    def strict(x: Any) -> Any:
        return x * 2

    for function, name in ((bare, "bare"), (strict, "strict")):
        assert host(function(nc.tensor([1.0]))) == [2]
        assert function.__name__ == name
        assert function.__wrapped__.__name__ == name
    assert bare.__doc__ == "Twice."
    assert ag.jit_compile(bare) is bare


class Scaled:
    factor = 2.0

    def __init__(self, offset: float) -> None:
        self.offset = offset

    @ag.jit_compile
    def __call__(self, x: Any) -> Any:
        return x * self.factor + self.offset

    @ag.jit_compile
    def twice(self, x: Any) -> Any:
        return self(self(x))


def test_as_a_method(device: Any) -> None:
    one, two = Scaled(1.0), Scaled(10.0)
    x = nc.tensor([1.0, 2.0])
    assert host(one(x)) == [3, 5]
    assert host(two(x)) == [12, 14]
    assert host(two.twice(x)) == [34, 38]
    two.offset = 0.0
    assert host(two.twice(x)) == [4, 8]
    assert host(Scaled.twice(one, x)) == [7, 11]


def test_nested_compiled_functions_become_one_program(device: Any) -> None:
    inner = ag.jit_compile(lambda x, k: ag.tanh(x) * k)
    outer = ag.jit_compile(lambda x: inner(inner(x, 2.0), 3.0) + 1)
    x = nc.tensor(data(50))
    wanted = 3 * np.tanh(2 * np.tanh(data(50))) + 1
    np.testing.assert_allclose(outer(x).to_host(), wanted, 1e-5)
    assert outer.lower(x).launches == 1
    assert inner.cache_info().misses == 0


def test_explain_names_ops_shapes_and_lines(cpu: None) -> None:
    compiled = ag.jit_compile(lambda x, w: ag.relu(x @ w) * 2)
    text = compiled.explain(nc.tensor(data(2, 3)), nc.tensor(data(3, 4)))
    for part in ("matmul", "relu -> mul", "float32[2, 3]", "test_jit.py"):
        assert part in text


# -- results ---------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "left right")


def test_structures_of_arguments_and_results(device: Any) -> None:
    def function(pair: Any, table: Any, *, rest: Any) -> Any:
        total = pair.left * table["w"] + rest[0][0]
        return Pair(total, [pair.right, (total * 2, None)]), {"k": total, "n": 3}

    x, y, w, r = (nc.tensor(data(5, seed=i)) for i in range(4))
    given = (Pair(x, y), {"w": w})
    (pair, table) = ag.jit_compile(function)(*given, rest=[(r,)])
    wanted = x.to_host() * w.to_host() + r.to_host()
    assert type(pair) is Pair and type(pair.right) is list and type(pair.right[1]) is tuple
    np.testing.assert_allclose(pair.left.to_host(), wanted, 1e-6)
    np.testing.assert_allclose(pair.right[1][0].to_host(), 2 * wanted, 1e-6)
    assert pair.right[0] is y
    assert pair.right[1][1] is None
    assert table["n"] == 3 and host(table["k"]) == host(pair.left)


def test_an_argument_a_constant_a_number_and_nothing_as_results(cpu: None) -> None:
    constant, x = nc.tensor([5.0]), nc.tensor([1.0])
    function = ag.jit_compile(lambda x, k: (x, constant, k, None, "word", k * 2))
    for k in (2.0, 3.0):
        found = function(x, k)
        assert found[0] is x and found[1] is constant
        assert found[2:] == (k, None, "word", 2 * k)
        assert type(found[2]) is float
        assert type(ag.jit_compile(Pair)(x, k).right) is float
    assert ag.jit_compile(lambda x: None)(x) is None
    assert ag.jit_compile(lambda: 3.0)() == 3


class Output:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (Output, lambda found: found.value),
        (lambda y: (each for each in (y,)), next),
        (lambda y: collections.defaultdict(int, a=y), lambda found: found["a"]),
        (lambda y: {y}, lambda found: found.pop()),
        (lambda y: lambda: y, lambda found: found()),
    ],
    ids=["object", "generator", "defaultdict", "set", "function"],
)
def test_results_that_cannot_be_made_anew(cpu: None, make: Any, read: Any) -> None:
    function = ag.jit_compile(lambda x: make(x * 2))
    with pytest.warns(FusionSkipped, match="cannot be made anew"):
        assert host(read(function(nc.tensor([1.0])))) == [2]
    assert host(read(function(nc.tensor([4.0])))) == [8]


def test_a_value_kept_from_the_trace_says_so(cpu: None) -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        kept.append(x * 2)
        return kept[-1] + 1

    ag.jit_compile(function)(nc.tensor([1.0]))
    with pytest.raises(FusionError, match=r"kept from a trace of jit_compile.*Return it"):
        kept[0].to_host()


def test_ops_count(cpu: None) -> None:
    """No op, one op, and more than a kernel holds; nothing recurses."""
    x = data(3)
    agree(lambda x: x, x)
    agree(lambda x: x * 2, x)

    def long(x: Any) -> Any:
        for _ in range(1000):
            x = x * 1.0001 + 0.0001
        return x

    limit = sys.getrecursionlimit()
    compiled = agree(long, x)
    assert sys.getrecursionlimit() == limit
    assert compiled.lower(nc.tensor(x)).launches == -(-2000 // 128)


def test_two_thousand_ops_on_a_device() -> None:
    with nc.use_device(usable_devices()[0]):

        def long(x: Any) -> Any:
            for i in range(2000):
                x = x + 0.5 if i % 2 else x * 0.999
            return x

        x = data(20)
        wanted = x.astype(np.float64)
        for i in range(2000):
            wanted = wanted + 0.5 if i % 2 else wanted * 0.999
        found = outcome(ag.jit_compile(long), x)
        np.testing.assert_allclose(found[0], wanted, 1e-4)
        np.testing.assert_allclose(found[1], np.full(20, 0.999**1000), 1e-4)


# -- gradients -------------------------------------------------------------------------------


def test_gradients_of_some_of_several_results(device: Any) -> None:
    compiled = ag.jit_compile(lambda x, y: (x * y, ag.exp(x), ag.floor(y) > 0, ag.sum(x * x)))
    for wanted, seeds in (
        (lambda x, y: (3 * y, 3 * x), (0,)),
        (lambda x, y: (3 * np.exp(x), 0 * y), (1,)),
        (lambda x, y: (3 * y + 3 * np.exp(x) + 6 * x, 3 * x), (0, 1, 3)),
    ):
        x, y = data(2, 30), data(2, 30, seed=1)
        s, t = leaf(x), leaf(y)
        results = compiled(s, t)
        assert [each.requires_grad for each in results] == [True, True, False, True]
        for i in seeds:
            results[i].backward(np.full(results[i].shape, 3, np.float32), retain_graph=True)
        for given, right in zip((s, t), wanted(x, y), strict=True):
            grad = np.zeros(x.shape) if given.grad is None else given.grad.to_host()
            np.testing.assert_allclose(grad, right, 1e-5, 1e-5)


#: Functions whose first result does not depend on their second argument, or not differentiably.
INDEPENDENT = {
    "unused": lambda x, y: (x * 2,),
    "a comparison": lambda x, y: (ag.where(y > 0, x * x, x),),
    "a step": lambda x, y: (ag.exp(x) + ag.zeros_like(y), y),
    "another result": lambda x, y: (ag.exp(x), ag.exp(x) * y),
    "another result of another kernel": lambda x, y: (ag.exp(x) * x, ag.sum(ag.exp(x) * y)),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", INDEPENDENT)
def test_an_unused_input_has_no_gradient(kind: str, device: Any) -> None:
    function, (first, second) = INDEPENDENT[kind], (data(7), data(7, seed=1))
    found = []
    for each in (function, ag.jit_compile(function)):
        x, y = leaf(first), leaf(second)
        ag.sum(each(x, y)[0]).backward(retain_graph=True)
        assert y.grad is None
        total = ag.sum(each(x, y)[0])
        for records in (False, True):
            with pytest.raises(GradientError, match="allow_unused=True") as error:
                ag.grad(total, [x, y], retain_graph=True, create_graph=records)
            dx, dy = ag.grad(
                total, [x, y], retain_graph=True, create_graph=records, allow_unused=True
            )
            assert dy is None
            assert host(dx) == host(x.grad)
        second_dx = [None, None]
        if dx.requires_grad:
            second_dx = ag.grad(ag.sum(dx), [x, y], allow_unused=True)
            assert second_dx[1] is None
        found.append((x.grad, second_dx[0], str(error.value)))
    eager, compiled = found
    assert compiled[2] == eager[2]
    for one, other in zip(compiled[:2], eager[:2], strict=True):
        assert (one is None) is (other is None)
        if one is not None:
            np.testing.assert_allclose(one.to_host(), other.to_host(), 1e-6, 1e-6)


def test_an_unused_input_has_no_gradient_in_a_capture(device: Any) -> None:
    compiled = ag.jit_compile(lambda x, y: x * 2)
    x, y = nn.Parameter(nc.tensor(data(7))), nn.Parameter(nc.tensor(data(2, 3)))

    def step(factor: Any) -> Any:
        x.grad = y.grad = None
        loss = ag.sum(compiled(x, y) * factor)
        loss.backward()
        return loss

    graph = ag.capture(step, data(7), params=[x, y])
    for seed in (1, 2):
        graph(data(7, seed=seed))
        np.testing.assert_allclose(x.grad.to_host(), 2 * data(7, seed=seed), 1e-6)
        assert y.grad is None


def test_requires_grad_of_some_inputs(device: Any) -> None:
    compiled = ag.jit_compile(lambda x, y: x * y)
    for needs in ((True, True), (True, False), (False, True), (False, False)):
        pair = [nc.tensor(data(5, seed=i)).requires_grad_(need) for i, need in enumerate(needs)]
        result = compiled(*pair)
        assert result.requires_grad is any(needs)
        if any(needs):
            ag.sum(result).backward()
        for mine, other, need in zip(pair, pair[::-1], needs, strict=True):
            assert (mine.grad is not None) is need
            assert not need or host(mine.grad) == host(other)
    x = nc.tensor(data(5))
    with pytest.raises(GradientError):
        ag.sum(compiled(x, x)).backward()


def test_no_grad_outside_and_the_mode_of_the_first_call(device: Any) -> None:
    def function(x: Any) -> Any:
        with ag.no_grad():
            weight = x * 2
        return ag.sum(weight * x)

    for first in (True, False):
        compiled = ag.jit_compile(function)
        for grad in (first, not first, first):
            x = leaf([1.0, 2.0])
            if grad:
                compiled(x).backward()
                assert host(x.grad) == [2, 4]
            else:
                with ag.no_grad():
                    found = compiled(x)
                assert isinstance(found, nc.Tensor) and not found.requires_grad
                assert found.item() == 10


def test_a_function_that_asks_for_the_grad_mode(cpu: None) -> None:
    compiled = ag.jit_compile(lambda x: x * 2 if ag.is_grad_enabled() else x * 3)
    x = nc.tensor([1.0])
    assert host(compiled(x)) == [2]
    with ag.no_grad():
        assert host(compiled(x)) == [3]


def test_enable_grad_inside_a_call_under_no_grad(cpu: None) -> None:
    def function(x: Any) -> Any:
        with ag.enable_grad():
            return x * 2

    compiled = ag.jit_compile(function)
    x = leaf([1.0])
    with ag.no_grad(), pytest.warns(FusionSkipped, match="enable_grad"):
        result = compiled(x)
    result.backward()
    assert host(x.grad) == [2]


def test_detach_and_no_grad_cut_the_gradient(device: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        with ag.no_grad():
            scale = ag.exp(y)
        cut = (x * y).detach()
        return x * scale + cut * y, cut, scale

    compiled = agree(function, data(6), data(6, seed=1))
    results = compiled(leaf(data(6)), leaf(data(6)))
    assert [each.requires_grad for each in results] == [True, False, False]


def test_detach_alone_launches_nothing(device: Any) -> None:
    """An op that detaches its operands costs a compiled function no copies of them."""

    def function(x: Any, y: Any) -> Any:
        return ag.sum(x.detach()), ag.matmul(y.detach(), y).detach(), x.detach()

    compiled = agree(function, data(6), data(4, 4, seed=1))
    for size in (6, 7, 6):
        x = leaf(data(size))
        results = compiled(x, leaf(data(4, 4, seed=1)))
        assert [each.requires_grad for each in results] == [False, False, False]
        np.testing.assert_array_equal(host(results[2]), host(x))
    kernels = 0 if device.queue is None else 2
    assert compiled.lower(leaf(data(6)), leaf(data(4, 4))).launches == kernels
    assert ": detach" not in compiled.explain(leaf(data(6)), leaf(data(4, 4)))


def test_dropout_is_fresh_at_each_call_and_its_gradient_has_the_mask(device: Any) -> None:
    compiled = ag.jit_compile(lambda x: (ag.dropout(x * 3, 0.5), ag.dropout(x, 0.5)))
    masks = []
    for _ in range(3):
        x = leaf(np.ones(400))
        first, second = compiled(x)
        for result in (first, second):
            x.grad = None
            ag.sum(result).backward()
            np.testing.assert_allclose(x.grad.to_host(), result.to_host())
            masks.append(tuple((result.to_host() > 0).tolist()))
    assert len(set(masks)) == 6
    assert all(100 < sum(mask) < 300 for mask in masks)


def test_one_tensor_as_two_arguments_and_as_a_constant(device: Any) -> None:
    x = leaf([3.0])
    compiled = ag.jit_compile(lambda a, b: a * b * x)
    compiled(x, x).backward()
    assert host(x.grad) == [27]


def test_a_second_backward(device: Any) -> None:
    x = leaf([2.0])
    first, second = ag.jit_compile(lambda x: (x * x * x, x * 5))(x)
    loss = ag.sum(first + second)
    for turn in (1, 2):
        loss.backward(retain_graph=True)
        assert host(x.grad) == [17 * turn]


def test_a_mutated_input_of_a_region_is_noticed(device: Any) -> None:
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    for function in (lambda x: ag.tanh(x * w), lambda x: (ag.tanh(x * w), x * w)):
        result = ag.jit_compile(function)(x)
        result = result if isinstance(result, ag.Node) else ag.sum(result[0] + result[1])
        w.overwrite(np.zeros(2, np.float32))
        with pytest.raises(MutationError, match="changed in place"):
            ag.sum(result).backward()
    loss = ag.sum(ag.jit_compile(lambda x: x + w + 1)(x))
    w.overwrite(np.ones(2, np.float32))
    loss.backward()
    assert host(x.grad) == [1, 1]


def test_tape_nodes(cpu: None) -> None:
    compiled = ag.jit_compile(lambda x: ag.log(x * 2) + 1)
    with ag.Tape() as tape:
        compiled(leaf([1.0]))
    assert [node.op_name for node in tape.nodes] == ["fused(mul, log, add)"]
    assert "test_jit.py" in tape.nodes[0].made_at


# -- shapes and dtypes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shapes",
    [((0, 3), (3,)), ((), ()), ((), (4,)), ((2, 1, 3, 1, 2, 1), (1, 2, 1, 3, 1, 2)),
     ((5, 1), (1, 7)), ((1,), (3, 1, 33))],
    ids=str,
)  # fmt: skip
def test_shapes(device: Any, shapes: Any) -> None:
    x, y = (data(*shape, seed=i) for i, shape in enumerate(shapes))
    agree(lambda x, y: (ag.tanh(x * 2) * y + x, ag.exp(-ag.square(y)) - x), x, y)


@pytest.mark.parametrize("one", ["bfloat16", "float16", "float32", "int32", "uint8", "bool"])
@pytest.mark.parametrize("other", ["bfloat16", "float16", "float32", "int64"])
def test_mixed_dtypes(cpu: None, one: str, other: str) -> None:
    x, y = np.abs(data(9) * 3).astype(one), (data(9, seed=1) * 3).astype(other)
    agree(lambda x, y: (x * y + 1, x > y, ag.where(y > 0, x * 2.5, y)), x, y, rtol=1e-2)


def test_mixed_dtypes_on_devices(device: Any) -> None:
    wide = "float64" if device.supports_fp64 else "float32"
    x, y, n = data(19, dtype="float16"), data(19, seed=1, dtype=wide), np.arange(19)

    def function(x: Any, y: Any, n: Any) -> Any:
        return x * y + n, (n % 2 if False else n * 3) - 1, ag.sigmoid(n) * x, y.astype("float32")

    agree(function, x, y, n, rtol=1e-2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_cast_to_16_bits_rounds(device: Any, dtype: str) -> None:
    x = np.float32([1.0001, 2049.0, 70000.0, 1e-9])
    compiled = ag.jit_compile(lambda x: (x * 1).astype(dtype).astype("float32") + 0)
    with np.errstate(over="ignore"):
        wanted = x.astype(dtype).astype("float32")
    np.testing.assert_array_equal(compiled(nc.tensor(x)).to_host(), wanted)


def test_not_a_number_and_infinity(device: Any) -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
    for k in (np.inf, -np.inf, np.nan, -0.0):
        function = lambda x, k=k: (ag.relu(x) + k, ag.maximum(x, k), ag.where(x > 0, x, k))  # noqa: E731
        for eager, fused in zip(
            function(nc.tensor(x)), ag.jit_compile(function)(nc.tensor(x)), strict=True
        ):
            np.testing.assert_array_equal(fused.to_host(), eager.to_host())
    assert np.isnan(host(ag.jit_compile(lambda x: ag.relu(x) * 1)(nc.tensor(x)))[0])


def test_a_new_batch_size_builds_nothing() -> None:
    for device in usable_devices():
        if device.backend == "opencl":
            with nc.use_device(device):
                compiled = ag.jit_compile(lambda x: ag.sigmoid(ag.gelu(x * 0.5)) + 1.5)
                outcome(compiled, data(16, 8))
                before = len(cache._programs)
                for batch in (1, 3, 64, 1031):
                    outcome(compiled, data(batch, 8))
                assert len(cache._programs) == before


# -- threads and memory --------------------------------------------------------------------------


def test_eight_threads_call_one_function(device: Any) -> None:
    compiled = ag.jit_compile(lambda x, k: (ag.tanh(x) * k, ag.sum(x * k)))

    def work(seed: int) -> None:
        for turn in range(12):
            x = data(seed + 1, turn % 3 + 1, seed=turn)
            s = leaf(x)
            k = float(seed + turn)
            first, second = compiled(s, k)
            (ag.sum(first) + second).backward()
            np.testing.assert_allclose(first.to_host(), np.tanh(x) * k, 1e-4, 1e-5)
            slope = k * (1 - np.tanh(x) ** 2) + k
            np.testing.assert_allclose(s.grad.to_host(), slope, 1e-4, 1e-5)

    with nc.use_device(device), turns():
        in_threads(work, 8)
    assert compiled.cache_info().currsize == 24
