"""Attention beside PyTorch in float64, in all its forms: for CPUs, for GPUs, as a chain of ops."""

from __future__ import annotations

import threading
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
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, NetclError, ShapeError

torch = pytest.importorskip("torch")
attention = ag.scaled_dot_product_attention
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "float64": 1e-11}
OPENCL = [device for device in usable_devices() if device.backend == "opencl"]
#: Items and local memory of the GPUs that are played.
GPUS = {"large": (256, 49152), "small": (64, 32768)}
#: Scales so close to each other that results are equal: no form is planned under another's key.
SCALES = {form: 0.3 + 1e-12 * i for i, form in enumerate(("cpu", *GPUS))}


@pytest.fixture(params=OPENCL, ids=str)
def opencl(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as device:
        yield device


@pytest.fixture
def fast() -> Iterator[nc.Device]:
    with nc.use_device(OPENCL[0]) as device:
        yield device


@pytest.fixture(params=[nc.get_device("numpy"), OPENCL[0]], ids=str)
def either(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as device:
        yield device


@pytest.fixture(params=SCALES)
def form(request: pytest.FixtureRequest, opencl: nc.Device, monkeypatch: pytest.MonkeyPatch) -> str:
    """The form for CPUs, and that for GPUs with the limits of several."""
    if request.param in GPUS:
        items, local = GPUS[request.param]
        monkeypatch.setattr(opencl, "kind", "gpu")
        monkeypatch.setattr(opencl, "max_work_group_size", items)
        monkeypatch.setattr(opencl, "local_mem_bytes", local)
    return str(request.param)


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    found = np.random.default_rng(seed).standard_normal(shape)
    return found.astype(nc.DTYPES[dtype].numpy)


def compare(shapes: Any, dtype: str = "float32", mask: Any = None, **attrs: Any) -> None:
    """The result and all gradients equal those of PyTorch's decomposition in float64."""
    arrays = [drawn(shape, dtype, i) for i, shape in enumerate(shapes)]
    arrays += [mask] if mask is not None and mask.dtype != np.bool_ else []
    leaves = [nc.tensor(x, requires_grad=True) for x in arrays]
    theirs = [torch.tensor(x.astype(np.float64), requires_grad=True) for x in arrays]
    masks = (
        (nc.tensor(mask), torch.tensor(mask))
        if mask is not None and mask.dtype == np.bool_
        else (leaves[3], theirs[3])
        if mask is not None
        else (None, None)
    )
    math = torch.nn.attention.SDPBackend.MATH
    with torch.nn.attention.sdpa_kernel(math):
        expected = torch.nn.functional.scaled_dot_product_attention(*theirs[:3], masks[1], **attrs)
    found = attention(*leaves[:3], masks[0], **attrs)
    upstream = drawn(tuple(expected.shape), dtype, 9)
    wanted = torch.autograd.grad(expected, theirs, torch.tensor(upstream.astype(np.float64)))
    given = ag.grad(found, leaves, nc.tensor(upstream))
    for one, other in zip((found, *given), (expected, *wanted), strict=True):
        other = other.detach().numpy()
        assert one.shape == other.shape
        within = TOLERANCE[dtype] * max(1.0, float(np.abs(other).max(initial=0.0)))
        np.testing.assert_allclose(one.to_host().astype(np.float64), other, rtol=0, atol=within)


@pytest.mark.sample(2)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 130), (67, 130), (130, 67)])
def test_lengths_that_are_no_multiples(form: str, queries: int, keys: int, causal: bool) -> None:
    shapes = [(2, queries, 20), (2, keys, 20), (2, keys, 12)]
    compare(shapes, is_causal=causal, scale=SCALES[form])


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(form: str, opencl: nc.Device, dtype: str) -> None:
    if dtype == "float64" and not opencl.supports_fp64:
        pytest.skip("no float64")
    compare([(3, 37, 20), (3, 53, 20), (3, 53, 12)], dtype, scale=SCALES[form])


WIDTHS = [(64, 70), (32, 71), (16, 72)]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("dtype", "vector_bytes", "queries"),
    [(dtype, *at) for dtype in ("float32", "float64", "float16") for at in WIDTHS],
)
def test_vectors_of_every_width(
    dtype: str,
    vector_bytes: int,
    queries: int,
    opencl: nc.Device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a CPU; a plan is kept by sizes, so that each has its own."""
    if dtype == "float64" and not opencl.supports_fp64:
        pytest.skip("no float64")
    monkeypatch.setattr(opencl, "vector_bytes", vector_bytes)
    compare([(2, queries, 48), (2, 53, 48), (2, 53, 16)], dtype, is_causal=True, scale=0.3)


@pytest.mark.sample(1)
@pytest.mark.parametrize("size", [(256, 256), (1, 3)], ids=str)
def test_heads_of_all_sizes(form: str, size: tuple[int, int]) -> None:
    compare([(19, size[0]), (33, size[0]), (33, size[1])], scale=SCALES[form])


def fully_masked(rows: tuple[int, ...], kind: str) -> Any:
    """A mask that hides all keys from query 1 of each matrix."""
    open_to = np.random.default_rng(4).uniform(size=rows) < 0.6
    open_to[..., 1, :] = False
    added = np.where(open_to, np.random.default_rng(5).standard_normal(rows), -np.inf)
    return open_to if kind == "bool" else added.astype(np.float32)


@pytest.mark.sample(1)
@pytest.mark.parametrize("lead", [(), (2, 3)], ids=str)
@pytest.mark.parametrize("kind", ["bool", "added"])
def test_a_query_without_a_key_gives_zero(form: str, kind: str, lead: tuple[int, ...]) -> None:
    mask = fully_masked((*lead, 19, 40), kind)
    compare([(2, 3, 19, 20), (2, 3, 40, 20), (2, 3, 40, 12)], mask=mask, scale=SCALES[form])
    x = nc.Tensor.ones((2, 3, 40, 20))
    values = nc.Tensor.ones((2, 3, 40, 12))  # as many as before: the same kernel
    found = attention(x[:, :, :19], x, values, nc.tensor(mask), scale=SCALES[form]).to_host()
    assert not found[:, :, 1].any()


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [(1, 40), (19, 1), (2, 1, 1, 40), (3, 1, 1), (40,)], ids=str)
def test_masks_are_broadcast(form: str, shape: tuple[int, ...]) -> None:
    mask = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    compare([(2, 3, 19, 20), (2, 3, 40, 20), (2, 3, 40, 12)], mask=mask, scale=SCALES[form])


@pytest.mark.sample(1)
def test_groups_of_heads_and_broadcasting(form: str) -> None:
    scale = SCALES[form]
    mask = np.random.default_rng(2).uniform(size=(6, 19, 40)) < 0.7
    compare([(2, 6, 19, 20), (2, 2, 40, 20), (2, 6, 40, 12)], mask=mask, enable_gqa=True,
            scale=scale)  # fmt: skip
    compare([(2, 1, 1, 19, 20), (3, 1, 40, 20), (4, 40, 12)], is_causal=True, scale=scale)


@pytest.mark.parametrize("shapes", [
    [(2, 0, 8), (2, 5, 8), (2, 5, 6)], [(2, 5, 8), (2, 0, 8), (2, 0, 6)],
    [(0, 5, 8), (0, 5, 8), (0, 5, 6)], [(2, 5, 0), (2, 4, 0), (2, 4, 6)],
    [(2, 5, 8), (2, 4, 8), (2, 4, 0)],
], ids=str)  # fmt: skip
def test_nothing_at_all(either: nc.Device, shapes: Any) -> None:
    compare(shapes)


def _mask_of(kind: str, shape: tuple[int, ...]) -> Any:
    if kind == "none":
        return None
    drawn = np.random.default_rng(3).standard_normal(shape)
    return drawn > -1 if kind == "bool" else drawn.astype(np.float32)


@settings(
    max_examples=examples(12), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
@given(
    st.integers(1, 3), st.integers(1, 80), st.integers(1, 150), st.sampled_from([8, 20]),
    st.sampled_from(["none", "bool", "added"]), st.sampled_from(["float16", "float32"]),
)  # fmt: skip
def test_any_sizes(
    fast: nc.Device, batch: int, queries: int, keys: int, size: int, kind: str, dtype: str
) -> None:
    shapes = [(batch, queries, size), (batch, keys, size), (batch, keys, 12)]
    compare(shapes, dtype, _mask_of(kind, (queries, keys)))


def gradients_with(seed: int, device: nc.Device, shapes: Any, **attrs: Any) -> list[Any]:
    """What a seed gives on a device: the result, and the gradients of its sum of squares."""
    with nc.use_device(device):
        nc.manual_seed(seed)
        leaves = [nc.tensor(drawn(x, "float32", i), requires_grad=True)
                  for i, x in enumerate(shapes)]  # fmt: skip
        found = [attention(*leaves, **attrs) for _ in range(2)][1]
        grads = ag.grad(found, leaves, nc.tensor(drawn(found.shape, "float32", 7)))
        return [each.to_host() for each in (found, *grads)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_drops_the_same_in_every_form(form: str, opencl: nc.Device, causal: bool) -> None:
    """The NumPy path computes by a chain of ops; forward and gradient have the same numbers."""
    attrs = {"dropout_p": 0.3, "is_causal": causal, "scale": SCALES[form]}
    for keys in (40, 53):
        shapes = [(2, 1, 37, 20), (3, keys, 20), (2, 1, keys, 12)]
        wanted = gradients_with(5, nc.get_device("numpy"), shapes, **attrs)
        for one, other in zip(gradients_with(5, opencl, shapes, **attrs), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)


def test_dropout_drops_so_many(fast: nc.Device) -> None:
    """With equal weights and values of 1 a result is the share that is left, over 1 - p."""
    zeros, ones = nc.Tensor.zeros((4, 64, 8)), nc.Tensor.ones((4, 200, 8))
    found = attention(zeros, ones, ones, dropout_p=0.25).to_host()
    assert abs(float(found.mean()) - 1) < 0.02
    assert found.std() > 0.01
    assert not attention(zeros, ones, ones, dropout_p=1.0).to_host().any()


def test_replays_draw_new_numbers(fast: nc.Device) -> None:
    x = nc.tensor(drawn((2, 20, 8), "float32", 0))
    nc.manual_seed(5)
    eager = [attention(x, x, x, dropout_p=0.5).to_host() for _ in range(3)]
    nc.manual_seed(5)
    graph = ag.capture(lambda x: attention(x, x, x, dropout_p=0.5), x)
    found = [graph.outputs.numpy(), graph(x).numpy(), graph(x).numpy()]
    np.testing.assert_array_equal(found, eager)
    assert len({each.tobytes() for each in found}) == 3


def test_gradients_of_gradients(either: nc.Device) -> None:
    """They are a chain of ops, on every device."""
    arrays = [drawn((2, 5, 8), "float64", i) for i in range(3)]
    leaves = [nc.tensor(x, requires_grad=True) for x in arrays]
    theirs = [torch.tensor(x, requires_grad=True) for x in arrays]
    first = ag.grad(ag.sum(attention(*leaves, is_causal=True) ** 2), leaves, create_graph=True)
    second = ag.grad(sum(ag.sum(g * g) for g in first[1:]) + ag.sum(first[0]), leaves)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        out = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=True)
    other = torch.autograd.grad((out**2).sum(), theirs, create_graph=True)
    wanted = torch.autograd.grad(sum((g * g).sum() for g in other[1:]) + other[0].sum(), theirs)
    for one, two in zip(second, wanted, strict=True):
        np.testing.assert_allclose(one.to_host(), two.numpy(), atol=1e-10)


def test_no_matrix_of_weights_in_memory(opencl: nc.Device) -> None:
    """1,024 by 1,024 weights of 2 heads would be 8 MB; all operands and gradients are 2 MB."""
    leaves = [nc.tensor(drawn((2, 1024, 8), "float32", i), requires_grad=True) for i in range(3)]
    ag.sum(attention(*leaves)).backward()
    opencl.reset_peak_memory_stats()
    before = opencl.memory_stats()["allocated"]
    ag.sum(attention(*leaves)).backward()
    assert opencl.memory_stats()["peak"] - before < 1 << 20


def test_amp_computes_in_half(fast: nc.Device) -> None:
    leaves = [nc.tensor(drawn((2, 5, 8), "float32", i), requires_grad=True) for i in range(3)]
    halves = ag.AmpPolicy("halves", "float16", {"scaled_dot_product_attention": "allow"})
    with ag.casting(halves):
        found = attention(*leaves)
    assert found.dtype == "float16"
    assert [g.dtype for g in ag.grad(ag.sum(found.astype("float32")), leaves)] == ["float32"] * 3


@pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")
def test_compiled_with_neighbours(either: nc.Device) -> None:
    compiled = ag.jit_compile(lambda x: attention(x * 2.0, x, x, is_causal=True) + 1.0)
    x = nc.tensor(drawn((2, 5, 8), "float32", 0))
    expected = attention(x * 2.0, x, x, is_causal=True) + 1.0
    np.testing.assert_allclose(compiled(x).to_host(), expected.to_host(), atol=1e-6)


def test_threads(fast: nc.Device) -> None:
    found: dict[int, Any] = {}

    def run(seed: int) -> None:
        with nc.use_device(fast):
            leaves = [nc.tensor(drawn((2, 70, 8), "float32", seed + i), requires_grad=True)
                      for i in range(3)]  # fmt: skip
            result = attention(*leaves, is_causal=True)
            grads = ag.grad(result, leaves, result.value)
            found[seed] = [each.to_host() for each in (result, *grads)]

    for seed in range(4):
        run(10 * seed)
    alone, found = found, {}
    workers = [threading.Thread(target=run, args=(10 * seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for seed, each in alone.items():
        for one, other in zip(each, found[seed], strict=True):
            np.testing.assert_array_equal(one, other)


X = nc.Tensor.zeros
BAD: list[tuple[Callable[[], Any], type[NetclError], str]] = [
    (lambda: attention(X((4,)), X((3, 4)), X((3, 4))), ShapeError, "2 dimensions at least"),
    (lambda: attention(X((2, 4)), X((3, 5)), X((3, 4))), ShapeError, r"query \(\.\.\., L, E\)"),
    (lambda: attention(X((2, 2, 4)), X((3, 3, 4)), X((3, 3, 4))), ShapeError, "equal or 1"),
    (lambda: attention(X((2, 4)), X((3, 4)), X((3, 4)), X((5, 3))), ShapeError, r"to \(2, 3\)"),
    (lambda: attention(X((2, 4)), X((3, 4)), X((3, 4)), X((2, 3)), is_causal=True),
     ArgumentError, "a mask and is_causal"),
    (lambda: attention(X((2, 4)), X((3, 4), "float16"), X((3, 4))), DtypeError, "one floating"),
    (lambda: attention(X((2, 4)), X((3, 4)), X((3, 4)), X((2, 3), "float16")), DtypeError,
     "a float16 mask; expected bool or float32"),
    (lambda: attention(X((2, 4)), X((3, 4)), X((3, 4)), dropout_p=1.5), AttributeValueError,
     "dropout_p=1.5"),
    (lambda: attention(X((2, 4)), X((3, 4)), X((3, 4)), scale="x"), AttributeValueError, "'x'"),
    (lambda: attention(X((5, 2, 4)), X((2, 3, 4)), X((2, 3, 4)), enable_gqa=True), ShapeError,
     "2 heads of key or value for 5"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), BAD)
def test_bad_input_is_named(
    either: nc.Device, call: Callable[[], Any], error: type[NetclError], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert str(caught.value).startswith("scaled_dot_product_attention: ")
