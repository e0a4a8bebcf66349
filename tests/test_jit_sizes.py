"""Programs for any sizes: one trace serves all calls that are broadcast alike."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.jit import jit as jits
from netcl_core.jit.entries import MAX_PROGRAMS
from netcl_core.jit.partition import _SMALL

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")
pytest.importorskip("netcl_plugin_linalg")


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """The NumPy path, where a test does not choose another."""
    with nc.use_device("numpy"), warnings.catch_warnings():
        warnings.simplefilter("ignore", nc.errors.FusionSkipped)
        yield


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows with every trace."""
    found: list[Any] = []
    real = jits.Trace

    def counted(*args: Any, **kwargs: Any) -> Any:
        found.append(args)
        return real(*args, **kwargs)

    monkeypatch.setattr(jits, "Trace", counted)
    return found


def data(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape)).astype("float32")


def outcome(function: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """The results and then the gradients."""
    leaves = [nc.Tensor.from_host(x, requires_grad=True) for x in arrays]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    for i, result in enumerate(results):
        if result.requires_grad:
            result.backward(np.full(result.shape, 1.0 + i, np.float32), retain_graph=True)
    found = [x.to_host() for x in results]
    return found + [np.zeros(1) if x.grad is None else x.grad.to_host() for x in leaves]


def same(compiled: Any, *arrays: np.ndarray) -> None:
    wanted = outcome(compiled.__wrapped__, *arrays)
    for _ in range(2):
        for one, other in zip(outcome(compiled, *arrays), wanted, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)


def chain(x: Any, y: Any) -> Any:
    return ag.tanh(x * 2) * y + x, ag.exp(-ag.square(y)) - x


# -- one trace ---------------------------------------------------------------------------------


@pytest.mark.parametrize("device", usable_devices(), ids=lambda each: each.platform.split()[0])
def test_a_new_size_of_a_chain_traces_nothing(device: Any, traces: list[Any]) -> None:
    with nc.use_device(device):
        compiled = ag.jit_compile(chain)
        for batch in (5, 7, 64, 1000):
            same(compiled, data(batch, 8), data(1, 8, seed=1))
            same(compiled, data(batch, 3), data(1, 3, seed=1))
        assert len(traces) == 1


W, B, V = data(5, 7, seed=1), data(7, seed=2), data(7, 3, seed=3)


def dense(x: Any) -> Any:
    w, b, v = (nc.Tensor.from_host(each, x.device) for each in (W, B, V))
    return ag.softmax(ag.relu(x @ w + b) @ v, -1), ag.mean(ag.square(x @ w))


def windows(x: Any) -> Any:
    """Sizes that follow from others: 2 less, and half of that."""
    one, other = nc.ones(2, 1, 3, 3, device=x.device), nc.ones(2, 2, 2, 2, device=x.device)
    y = ag.relu(ag.conv2d(x, one))
    return ag.sum(ag.conv2d(y, other, stride=2), 1) * 2, ag.amax(y, (2, 3))


@pytest.mark.parametrize("device", usable_devices(), ids=lambda each: each.platform.split()[0])
def test_a_new_batch_size_of_products_traces_nothing(device: Any, traces: list[Any]) -> None:
    with nc.use_device(device):
        compiled = ag.jit_compile(dense)
        for n in (16, 17, 40, 2, 200):
            same(compiled, data(n, 5))
        assert len(traces) == 1
        same(compiled, data(1, 5))  # what is broadcast is another function
        same(compiled, data(7, 5))  # as many rows as the weights have columns
        assert len(traces) == 2


def test_sizes_that_follow_from_others(traces: list[Any]) -> None:
    """All are worked out; where one that was one would be two a new trace says what is right."""
    compiled = ag.jit_compile(windows)
    for shape in ((4, 1, 12, 16), (6, 1, 20, 30), (8, 1, 20, 16)):
        same(compiled, data(*shape))
    assert len(traces) == 1
    same(compiled, data(10, 1, 12, 8))  # 10 rows and 12 - 2
    same(compiled, data(4, 1, 12, 16))
    # (5, 1, 7, 9): of the batch 5 is 5, of the heights 7 - 2 is 5
    for shape in ((5, 1, 7, 9), (6, 1, 9, 11), (3, 1, 4, 5)):
        same(compiled, data(*shape))


def test_a_size_that_follows_and_is_looked_at() -> None:
    def scaled(x: Any, w: Any) -> Any:
        y = x @ w
        part = y[:, : y.shape[1] // 2] if y.ndim == 2 else y
        return part * y.shape[0]

    compiled = ag.jit_compile(scaled)
    for n, m in ((4, 6), (5, 6), (5, 8), (4, 6), (9, 2)):
        same(compiled, data(n, 3), data(3, m))


def test_what_is_broadcast_otherwise_is_another_program(traces: list[Any]) -> None:
    compiled = ag.jit_compile(chain)
    shapes = [((4, 5), (4, 5)), ((4, 5), (5,)), ((4, 5), (1, 5)), ((4, 5), (4, 1)), ((4, 5), ()),
              ((4, 4), (4,)), ((1, 5), (4, 5)), ((0, 5), (5,)), ((0, 5), (1, 5))]  # fmt: skip
    for one, other in shapes:
        same(compiled, data(*one), data(*other, seed=1))
    assert len(traces) == len(shapes)
    for one, other in shapes:
        bigger = [tuple(size + 2 if size > 1 else size for size in each) for each in (one, other)]
        same(compiled, *(data(*shape, seed=i) for i, shape in enumerate(bigger)))
    assert len(traces) == len(shapes)


@settings(
    max_examples=examples(150), deadline=None, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.data())
def test_random_shapes_of_one_signature_agree_with_eager(draw: st.DataObject) -> None:
    """Three operands, each dimension one of them all, 1, or absent; all sizes change at will."""
    ndim = draw.draw(st.integers(0, 4))
    letters = draw.draw(st.lists(st.integers(0, 3), min_size=ndim, max_size=ndim))
    shapes = []
    for _ in range(3):
        own = draw.draw(st.integers(0, ndim))
        shapes.append([(k if draw.draw(st.booleans()) else None) for k in letters[ndim - own :]])
    held = nc.Tensor.from_host(data(3, 1), requires_grad=False)
    compiled = ag.jit_compile(
        lambda x, y, z: (
            (ag.tanh(x * y) + z, ag.exp(-z * z) * y, ag.where(x > 0, z, x), x * held)
            if draw_held
            else (ag.tanh(x * y) + z, ag.exp(-z * z) * y, ag.where(x > 0, z, x))
        )
    )
    draw_held = draw.draw(st.booleans())
    for turn in range(3):
        sizes = draw.draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 7]), min_size=4, max_size=4))
        arrays = [
            data(*[1 if k is None else sizes[k] for k in shape], seed=turn * 3 + i)
            for i, shape in enumerate(shapes)
        ]
        try:
            wanted = outcome(compiled.__wrapped__, *arrays)
        except ValueError as error:
            with pytest.raises(type(error)):
                outcome(compiled, *arrays)
            continue
        for one, other in zip(outcome(compiled, *arrays), wanted, strict=True):
            np.testing.assert_allclose(one, other, 1e-4, 1e-5)


# -- functions that look at sizes ----------------------------------------------------------------

LOOKS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda x: x * x.shape[0],
    "size": lambda x: x / x.size,
    "len": lambda x: x * len(x),
    "of a result": lambda x: x * (x + 1).shape[0],
    "of a result that is not used": lambda x: x * ag.exp(x).shape[0],
    "loop": lambda x: sum([x for _ in range(x.shape[0])], x),
    "branch": lambda x: x * 2 if x.shape == (4,) else x * 3,
    "array of the shape": lambda x: x + np.arange(len(x), dtype=np.float32),
    "tensor of the shape": lambda x: x + nc.Tensor.ones(x.shape) * x.shape[0],
    "value": lambda x: x * x.value.shape[0],
    "size of the value": lambda x: x * x.value.size,
    "mean": lambda x: x - ag.mean(x),
    "reshape": lambda x: ag.reshape(x, (-1, 1)) * 2,
    "items": lambda x: x * x[0] + x[-1],
    "iterate": lambda x: sum(x, x),
    "refused": lambda x: _first_that_works(x),
    "refused by a structured op": lambda x: _product_or(x),
    "by a helper of NumPy": lambda x: x * np.prod(x.shape),
}


def _first_that_works(x: Any) -> Any:
    try:
        return x + nc.Tensor.ones((4,))
    except ValueError:
        return x * 7


def _product_or(x: Any) -> Any:
    try:
        x @ nc.Tensor.ones((4,))
    except ValueError:
        return x * 7
    return x * 2


@pytest.mark.parametrize("name", LOOKS)
def test_a_function_that_looks_at_sizes_depends_on_them(name: str) -> None:
    compiled = ag.jit_compile(LOOKS[name])
    for size in (4, 5, 3, 4, 6):
        same(compiled, data(size))


def test_sizes_that_are_not_looked_at_stay_free(traces: list[Any]) -> None:
    weight = nc.Tensor.from_host(data(8))
    compiled = ag.jit_compile(lambda x: ag.tanh(x * weight) + x.ndim)
    looks = ag.jit_compile(lambda x, w: ag.tanh(x * w) * w.shape[0])
    for batch in (2, 3, 4, 5):
        same(compiled, data(batch, 8))
        same(looks, data(batch, 8), data(8, seed=1))
    assert len(traces) == 2
    same(looks, data(5, 9), data(9, seed=1))
    assert len(traces) == 3


def test_a_size_that_a_captured_tensor_has_is_fixed() -> None:
    weight = nc.Tensor.from_host(data(8))
    compiled = ag.jit_compile(lambda x: x * weight)
    same(compiled, data(8))
    same(compiled, data(3, 8))
    same(compiled, data(4, 8))
    for shape in ((9,), (4, 9)):
        with pytest.raises(nc.errors.ShapeError):
            compiled(nc.tensor(data(*shape)))


def test_large_and_small_are_shared_out_as_in_a_trace(traces: list[Any]) -> None:
    """A costly small value is computed in the kernel of a large one only up to some size."""
    compiled = ag.jit_compile(lambda x, y: x * ag.exp(y))
    wide = 1 + _SMALL // 4
    for batch in (2, 3, 8, 9):
        arrays = data(batch, wide), data(1, wide, seed=1)
        same(compiled, *arrays)
        fresh = ag.jit_compile(compiled.__wrapped__)
        given_ = [nc.tensor(x) for x in arrays]
        assert compiled.lower(*given_).launches == fresh.lower(*given_).launches
    assert len(traces) == 2 + 2 + 4  # recorded, not recorded, fresh


def test_an_op_whose_result_is_not_used_still_refuses_its_operands() -> None:
    def function(x: Any) -> Any:
        ag.reshape(x, (2, 2))
        return x * 2

    compiled = ag.jit_compile(function)
    same(compiled, data(4))
    with pytest.raises(nc.errors.ShapeError, match="reshape"):
        compiled(nc.Tensor.ones((5,)))


def test_numbers_vary_beside_sizes(traces: list[Any]) -> None:
    compiled = ag.jit_compile(lambda x, k, n: x * k + (x if n > 2 else -x))
    plain = compiled.__wrapped__
    for size in (2, 3, 4):
        for k, n in ((1.5, 1.0), (2.5, 1.0), (1.5, 3.0)):
            x = nc.tensor(data(size))
            assert compiled(x, k, n).to_host().tolist() == plain(x, k, n).to_host().tolist()
    assert len(traces) == 2


def test_a_size_that_is_looked_at_counts_beside_a_number() -> None:
    compiled = ag.jit_compile(lambda x, k: x * k * x.shape[0])
    for size in (4, 5):
        found = compiled(nc.Tensor.ones((size,)), 2.0)
        assert found.to_host().tolist() == [2 * size] * size


def test_a_changed_global_holds_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [2.0]
    compiled = ag.jit_compile(lambda x: x * held[0])
    for value in (2.0, 3.0):
        held[0] = value
        for size in (2, 3):
            assert compiled(nc.Tensor.ones((size,))).to_host().tolist() == [value] * size


def test_explain_and_lower_ask_the_program_that_runs(traces: list[Any]) -> None:
    compiled = ag.jit_compile(chain)
    for batch in (3, 5):
        x, y = nc.tensor(data(batch, 8)), nc.tensor(data(1, 8))
        text = compiled.explain(x, y)
        assert f"float32[{batch}, 8], float32[1, 8] => " in text
        compiled(x, y)
        assert compiled.explain(x, y) == text
        assert compiled.lower(x, y).launches == len(compiled.explain(x, y).split("from ")) - 1
    assert len(traces) == 1


# -- the cache -----------------------------------------------------------------------------------


def test_a_function_that_reads_a_number_keeps_its_programs(traces: list[Any]) -> None:
    """After more shapes than programs are kept, the latest ones still hit."""
    compiled = ag.jit_compile(lambda x, n: x / len(x) * (2 if n > 0 else 3))
    xs = [nc.Tensor.ones((size + 1, 1)) for size in range(MAX_PROGRAMS + 20)]
    for x in xs:
        compiled(x, 1.0)
    before = len(traces)
    for x in xs[-100:]:
        compiled(x, 1.0)
        compiled(x, 1.0)
    assert len(traces) == before
    assert compiled.cache_info().currsize == MAX_PROGRAMS
    compiled(xs[0], 1.0)
    compiled(xs[0], 1.0)
    assert len(traces) == before + 1
    compiled(xs[-1], -1.0)
    compiled(xs[-1], -1.0)
    assert len(traces) == before + 2


def test_the_least_recently_used_program_goes_first() -> None:
    compiled = ag.jit_compile(lambda x, word: x * len(word))
    x = nc.tensor([1.0])
    for size in range(MAX_PROGRAMS):
        compiled(x, "a" * size)
    compiled(x, "")  # the oldest is used again
    compiled(x, "b")
    misses = compiled.cache_info().misses
    compiled(x, "")
    assert compiled.cache_info().misses == misses
    compiled(x, "a")
    assert compiled.cache_info().misses == misses + 1
