"""bfloat16: exact conversions, what it promotes to, and ops against PyTorch's own bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from daily import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from netcl_plugin_kit.testing import usable_devices
from netcl_plugin_kit.testing.collection import table_of
from netcl_plugin_kit.testing.running import perform
from netcl_plugin_kit.testing.steps import steps_of
from netcl_plugin_kit.testing.suite import report

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff

BRAIN = np.dtype(ml_dtypes.bfloat16)
DEVICES = usable_devices()
#: Every bit pattern: zeros and infinities of both signs, subnormal numbers, all kinds of NaN.
PATTERNS = np.arange(1 << 16, dtype=np.uint16)
#: What may follow in a float: nothing, next to nothing, around the tie, all but the next number.
REST = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)


def same_bits(given: Any, wanted: Any) -> None:
    """Equal bits but for NaN, of which only being one is kept."""
    assert given.dtype == wanted.dtype
    kind = np.dtype(f"u{given.dtype.itemsize}")
    one, two = given.view(kind), wanted.view(kind)
    with np.errstate(invalid="ignore"):  # NumPy is told of NaN that signal
        wrong = (one != two) & ~(np.isnan(given) & np.isnan(wanted))
    assert not wrong.any(), (int(wrong.sum()), one[wrong][:3], two[wrong][:3])


def nearest(x: Any) -> Any:
    """To the nearest bfloat16, ties to even, by whole numbers."""
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16).view(BRAIN)


# -- conversion ------------------------------------------------------------------------


def test_the_host_keeps_every_pattern(device: Any) -> None:
    found = nc.tensor(PATTERNS.view(BRAIN)).to_host()
    np.testing.assert_array_equal(found.view(np.uint16), PATTERNS)


@pytest.mark.parametrize("cut", [0, 1, 15, 17], ids="from {}".format)
def test_every_pattern_to_float32(device: Any, cut: int) -> None:
    given = PATTERNS[cut:]
    wanted = (given.astype(np.uint32) << 16).view(np.float32)
    same_bits(nc.tensor(given.view(BRAIN)).astype("float32").to_host(), wanted)


@pytest.mark.parametrize("cut", [0, 3], ids="from {}".format)
def test_every_float_around_a_pattern_to_bfloat16(device: Any, cut: int) -> None:
    bits = (PATTERNS.astype(np.uint32)[:, None] << 16) | REST
    x = bits.reshape(-1).view(np.float32)[cut:]
    same_bits(nc.tensor(x).astype("bfloat16").to_host(), nearest(x))


def test_copies_keep_every_pattern(device: Any) -> None:
    square = PATTERNS.reshape(256, 256)
    x = nc.tensor(square.view(BRAIN))
    for found, wanted in ((ag.permute(x, (1, 0)), square.T), (x[3:, ::2], square[3:, ::2])):
        np.testing.assert_array_equal(found.to_host().view(np.uint16), wanted)


def test_whole_numbers(device: Any) -> None:
    whole = np.array([0, 1, 255, 257, 259, 2**24 + 1, -(2**31) + 1])
    wanted = nearest(whole.astype(np.float32))
    for name in ("int32", "int64"):
        same_bits(nc.tensor(whole.astype(name)).astype("bfloat16").to_host(), wanted)
    np.testing.assert_array_equal(
        nc.tensor(wanted).astype("int64").to_host(), wanted.astype(np.int64)
    )


# -- a tensor ----------------------------------------------------------------------------


def test_a_tensor_from_numbers_and_back(device: Any) -> None:
    x = nc.Tensor.from_host([1.0, 2.7, -0.1], dtype="bfloat16")
    assert (x.dtype, x.numpy().dtype) == ("bfloat16", BRAIN)
    assert x[1].item() == 2.703125 and float(x[0]) == 1.0
    assert (
        repr(x)
        == f"Tensor([ 1.    ,  2.7031, -0.1001], shape=(3,), dtype=bfloat16, device={device})"
    )
    assert nc.tensor(ml_dtypes.bfloat16(3.0)).dtype == "bfloat16"


def test_filled_tensors(device: Any) -> None:
    for value in (0, 1, True, 2.7, -np.inf, 2**70, 1e40):
        found = nc.Tensor.full((2, 5), value, "bfloat16").to_host()
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(found, np.float32(value).astype(BRAIN))
    assert np.isnan(nc.Tensor.full((3,), np.nan, "bfloat16").to_host()).all()
    assert nc.Tensor.zeros((0,), "bfloat16").to_host().dtype == BRAIN


def test_a_number_of_ml_dtypes_is_a_number() -> None:
    x = nc.tensor([1.0, 2.0])
    doubled = ag.jit_compile(lambda x, k: x * k)
    for found in (x * ml_dtypes.bfloat16(2), doubled(x, ml_dtypes.bfloat16(2))):
        assert found.dtype == "float32"
        np.testing.assert_array_equal(found.to_host(), [2, 4])


def test_other_dtypes_of_ml_dtypes_are_refused() -> None:
    with pytest.raises(nc.errors.DtypeError, match="float8_e4m3"):
        nc.tensor(np.ones(3, ml_dtypes.float8_e4m3))


@pytest.mark.parametrize("other", list(nc.DTYPES))
def test_promotion_is_pytorchs(other: str) -> None:
    torch = pytest.importorskip("torch")
    x, y = nc.Tensor.ones((2,), "bfloat16", "numpy"), nc.Tensor.ones((2,), other, "numpy")
    wanted = torch.promote_types(torch.bfloat16, getattr(torch, other))
    assert str(wanted) == f"torch.{ag.add(x, y).dtype}" == f"torch.{ag.add(y, x).dtype}"


# -- ops ---------------------------------------------------------------------------------

FINITE = st.floats(-8, 8, width=32)
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, max_side=19)


def of_torch(torch: Any, x: Any) -> Any:
    return torch.from_numpy(np.asarray(x).view(np.int16).copy()).view(torch.bfloat16)


def to_numpy(x: Any) -> Any:
    return x.detach().to(dtype=x.dtype).float().numpy()


def agree(function: Callable[..., Any], theirs: Callable[..., Any], *data: Any) -> None:
    """Value and gradients, on every device, eager and compiled; gradients come out of cancellation
    in PyTorch's, so that they are held to the size of the whole."""
    torch = pytest.importorskip("torch")
    leaves = [of_torch(torch, x).requires_grad_() for x in data]
    wanted = theirs(torch, *leaves)
    wanted.sum().backward()
    for device in DEVICES:
        for call in (function, ag.jit_compile(function)):
            given = [nc.tensor(x, device, requires_grad=True) for x in data]
            found = call(*given)
            ag.sum(found).backward()
            assert found.dtype == "bfloat16"
            pairs = [(found, to_numpy(wanted))]
            pairs += [(x.grad, to_numpy(y.grad)) for x, y in zip(given, leaves, strict=True)]
            for one, two in pairs:
                assert one.dtype == "bfloat16"
                largest = max(0.1, float(np.abs(two).max(initial=0)))
                np.testing.assert_allclose(nc.widened(one.to_host()), two, 2e-2, 2e-2 * largest)


@pytest.mark.parametrize(
    ("function", "theirs"),
    [
        (ag.gelu, lambda t, x: t.nn.functional.gelu(x)),
        (lambda x: ag.softmax(x * 0.5, -1), lambda t, x: t.softmax(x * 0.5, -1)),
        (lambda x: ag.tanh(x) * x + 1, lambda t, x: t.tanh(x) * x + 1),
        (lambda x: ag.amax(x, -1), lambda t, x: t.amax(x, -1)),
        (lambda x: ag.var(x, 0, 0), lambda t, x: t.var(x, 0, correction=0)),
    ],
    ids=["gelu", "softmax", "chain", "amax", "var"],
)
@settings(deadline=None, max_examples=examples(25))
@given(data=st.data())
def test_ops(function: Callable[..., Any], theirs: Callable[..., Any], data: Any) -> None:
    made = data.draw(arrays.arrays(np.float32, SHAPES, elements=FINITE))
    agree(function, theirs, made.astype(BRAIN))


@settings(deadline=None, max_examples=examples(20))
@given(rows=st.integers(1, 33), inner=st.integers(1, 70), columns=st.integers(1, 40))
def test_products(rows: int, inner: int, columns: int) -> None:
    random = np.random.default_rng(rows * 1000 + inner)
    x = random.standard_normal((rows, inner)).astype(BRAIN)
    w = random.standard_normal((columns, inner)).astype(BRAIN)
    b = random.standard_normal(columns).astype(BRAIN)
    agree(ag.linear, lambda t, x, w, b: t.nn.functional.linear(x, w, b), x, w, b)


def test_sums_are_made_in_float32(device: Any) -> None:
    """In bfloat16 the sum of ones stands still at 256."""
    x = nc.Tensor.ones((4096, 3), "bfloat16")
    for found in (
        ag.sum(x, 0),
        ag.cumsum(x, 0)[-1],
        ag.matmul(nc.Tensor.ones((4096,), "bfloat16"), x),
    ):
        np.testing.assert_array_equal(found.to_host(), np.full(3, 4096, BRAIN))
    assert ag.mean(x).item() == 1.0


def test_order_keeps_ties_and_not_a_number(device: Any) -> None:
    x = nc.tensor(np.array([1, np.nan, 3, 3, -np.inf, np.inf], BRAIN))
    values, places = ag.topk(x, 4)
    np.testing.assert_array_equal(places.to_host(), [1, 5, 2, 3])
    np.testing.assert_array_equal(nc.widened(values.to_host()), [np.nan, np.inf, 3, 3])
    assert (ag.argmax(x).item(), ag.argmin(x).item()) == (1, 1)


def test_a_model_learns(device: Any) -> None:
    """Parameters in bfloat16, the states of Adam in float32."""
    nn, optim = nc.nn, nc.optim
    nc.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 17), nn.GELU(), nn.LayerNorm(17), nn.Linear(17, 3))
    model.to("bfloat16")
    optimizer = optim.AdamW(model.parameters(), lr=0.01)
    random = np.random.default_rng(0)
    x = nc.tensor(random.standard_normal((64, 6)).astype(BRAIN))
    y = nc.tensor(random.integers(0, 3, 64))
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ag.cross_entropy(model(x), y)
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert {p.dtype for p in model.parameters()} == {"bfloat16"}


def test_a_second_derivative(device: Any) -> None:
    x = nc.tensor(np.array([0.5, -1.5, 2.0], BRAIN), requires_grad=True)
    (first,) = ag.grad(ag.sum(x * x * x), [x], create_graph=True)
    (second,) = ag.grad(ag.sum(first), [x])
    assert (first.dtype, second.dtype) == ("bfloat16", "bfloat16")
    np.testing.assert_array_equal(second.to_host(), np.array([3.0, -9.0, 12.0], BRAIN))


def test_a_chain_is_captured_and_recomputed(device: Any) -> None:
    x = nc.tensor(np.linspace(-2, 2, 33).astype(BRAIN), requires_grad=True)
    chain = lambda x: ag.gelu(x) * 2 + x  # noqa: E731
    ag.sum(autodiff.checkpoint(chain, x)).backward()
    kept, x.grad = x.grad, None
    ag.sum(chain(x)).backward()
    same_bits(x.grad.to_host(), kept.to_host())
    with ag.no_grad():
        graph = ag.capture(chain, x.detach())
        same_bits(graph(x.detach()).to_host(), chain(x).to_host())


@pytest.mark.nightly
@pytest.mark.parametrize("plugin", ["elementwise", "linalg", "losses", "tensor"])
def test_every_case_in_every_shape(plugin: str) -> None:
    """What the plugin's own tests do in one shape."""
    steps = steps_of(table_of(f"netcl-plugin-{plugin}"), DEVICES)
    mine = [step for step in steps if step.dtype == "bfloat16"]
    assert mine
    report([outcome for step in mine for outcome in perform(step)])
