"""Normalisation, embedding and dropout equal PyTorch's; running statistics; states both ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, nn
from netcl_core.errors import AttributeValueError, ShapeError
from netcl_core.inspect.streams import StreamWrapper, stream_of, use_stream

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(8)
everywhere = pytest.mark.parametrize("device", usable_devices(), ids=str)
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
CASES: list[tuple[str, Arguments, tuple[int, ...]]] = [
    ("LayerNorm", ((6,), {}), (5, 6)),
    ("LayerNorm", (((4, 6),), {"eps": 0.1}), (2, 4, 6)),
    ("LayerNorm", ((6,), {"elementwise_affine": False}), (5, 6)),
    ("LayerNorm", ((6,), {"bias": False}), (5, 6)),
    ("RMSNorm", ((6,), {}), (5, 6)),
    ("RMSNorm", (((4, 6),), {"eps": 0.1}), (2, 4, 6)),
    ("RMSNorm", ((6,), {"elementwise_affine": False}), (5, 6)),
    ("GroupNorm", ((2, 6), {}), (3, 6, 5)),
    ("GroupNorm", ((3, 6), {"eps": 0.1, "affine": False}), (3, 6, 2, 2)),
    ("BatchNorm1d", ((6,), {}), (5, 6)),
    ("BatchNorm1d", ((6,), {"momentum": 0.3, "eps": 0.1}), (5, 6, 4)),
    ("BatchNorm1d", ((6,), {"momentum": None}), (5, 6)),
    ("BatchNorm2d", ((3,), {"affine": False}), (4, 3, 5, 2)),
    ("BatchNorm2d", ((3,), {"track_running_stats": False}), (4, 3, 5, 2)),
    ("BatchNorm2d", ((3,), {"momentum": None}), (4, 3, 5, 2)),
    ("BatchNorm3d", ((3,), {}), (4, 3, 5, 2, 3)),
    ("InstanceNorm1d", ((3,), {}), (4, 3, 5)),
    ("InstanceNorm2d", ((3,), {"affine": True, "eps": 0.1}), (4, 3, 5, 2)),
    ("InstanceNorm3d", ((3,), {"track_running_stats": True}), (4, 3, 5, 2, 3)),
]
cases = pytest.mark.parametrize(("name", "arguments", "shape"), CASES, ids=str)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws its own, whichever ran before: in float32 a running mean that happens to be
    1e-4 beside numbers of 2 has lost its fifth digit, in PyTorch as here.
    """
    RANDOM.bit_generator.state = np.random.default_rng(0).bit_generator.state


def pair(name: str, arguments: Arguments, device: Device, dtype: str = "float32") -> Any:
    """The layer here and in PyTorch, with the same random weights."""
    args, settings = arguments
    ours = getattr(nn, name)(*args, **settings, device=device, dtype=dtype)
    theirs = getattr(torch.nn, name)(*args, **settings, dtype=torch.float64)
    random = np.random.default_rng(1)
    state = theirs.state_dict()
    for key in ("weight", "bias"):
        if key in state:
            state[key] = torch.tensor(random.standard_normal(state[key].shape).astype(dtype))
    theirs.load_state_dict(state)
    ours.load_state_dict({key: value.numpy() for key, value in state.items()})
    return ours, theirs


def compare(ours: Any, theirs: Any, shape: tuple[int, ...], device: Device, atol: float) -> None:
    """One forward and backward of both."""
    dtype = next(iter([*ours.parameters()]), None)
    x = (2 * RANDOM.standard_normal(shape) + 1).astype("float32" if dtype is None else dtype.dtype)
    given = nc.Tensor.from_host(x, device, requires_grad=True)
    wanted = torch.tensor(x.astype(np.float64), requires_grad=True)
    result, expected = ours(given), theirs(wanted)
    upstream = RANDOM.standard_normal(expected.shape).astype(x.dtype)
    np.testing.assert_allclose(result.to_host(), expected.detach(), atol=atol, rtol=atol)
    ours.zero_grad()
    theirs.zero_grad()
    ag.backward(result, upstream)
    expected.backward(torch.tensor(upstream.astype(np.float64)))
    np.testing.assert_allclose(given.grad.to_host(), wanted.grad, atol=4 * atol, rtol=atol)
    for key, parameter in ours.named_parameters():
        gradient = theirs.get_parameter(key).grad
        np.testing.assert_allclose(parameter.grad.to_host(), gradient, atol=20 * atol, rtol=atol)


@everywhere
@cases
def test_a_norm_equals_pytorch_in_training_and_after(
    name: str, arguments: Arguments, shape: tuple[int, ...], device: Device
) -> None:
    ours, theirs = pair(name, arguments, device)
    for mode in (True, True, False):
        ours.train(mode)
        theirs.train(mode)
        compare(ours, theirs, shape, device, 1e-5)
        for key, tensor in ours.named_buffers():
            np.testing.assert_allclose(tensor.to_host(), theirs.get_buffer(key), rtol=1e-5)
    assert list(ours.state_dict()) == list(theirs.state_dict())


@pytest.mark.parametrize(("dtype", "atol"), [("float16", 1e-2), ("float64", 1e-11)])
@pytest.mark.parametrize("name", ["LayerNorm", "RMSNorm", "BatchNorm1d"])
def test_norms_in_other_dtypes(name: str, dtype: str, atol: float) -> None:
    for device in usable_devices(dtype):
        ours, theirs = pair(name, ((6,), {"eps": 1e-3}), device, dtype)
        for mode in (True, False):
            ours.train(mode)
            theirs.train(mode)
            compare(ours, theirs, (8, 6), device, atol)


@everywhere
def test_batch_norm_moves_and_counts(device: Device) -> None:
    layer = nn.BatchNorm1d(2).to(device)
    assert layer.num_batches_tracked.dtype == "int64"
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    layer(nc.Tensor.ones((4, 2), device=device))
    assert int(layer.num_batches_tracked) == 1
    layer.eval()
    layer(nc.Tensor.ones((1, 2), device=device))
    assert int(layer.num_batches_tracked) == 1
    layer.to("float16")
    assert layer.running_mean.dtype == "float16" and layer.num_batches_tracked.dtype == "int64"
    layer.reset_running_stats()
    assert int(layer.num_batches_tracked) == 0 and layer.running_var.to_host().tolist() == [1, 1]


def test_batch_norm_states_go_both_ways() -> None:
    ours, theirs = nn.BatchNorm2d(3), torch.nn.BatchNorm2d(3)
    theirs(torch.randn(4, 3, 2, 2))
    ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
    assert int(ours.num_batches_tracked) == 1
    saved = {key: torch.tensor(value.to_host()) for key, value in ours.state_dict().items()}
    torch.nn.BatchNorm2d(3).load_state_dict(saved)
    np.testing.assert_array_equal(saved["running_var"], theirs.running_var)


@everywhere
@pytest.mark.parametrize("padding_idx", [None, 2, -1])
def test_an_embedding_equals_pytorch(padding_idx: int | None, device: Device) -> None:
    ours = nn.Embedding(5, 3, padding_idx, device=device)
    theirs = torch.nn.Embedding(5, 3, padding_idx)
    weight = RANDOM.standard_normal((5, 3)).astype(np.float32)
    ours.load_state_dict({"weight": weight})
    theirs.load_state_dict({"weight": torch.tensor(weight)})
    index = np.array([[0, 2, 2], [4, 1, 0]])
    result, expected = ours(index), theirs(torch.tensor(index))
    np.testing.assert_array_equal(result.to_host(), expected.detach())
    ag.sum(ag.square(result)).backward()
    expected.square().sum().backward()
    np.testing.assert_allclose(ours.weight.grad.to_host(), theirs.weight.grad, rtol=1e-6)


def test_an_embedding_starts_with_a_row_of_zeros_and_checks_indices() -> None:
    layer = nn.Embedding(400, 9, padding_idx=-1)
    values = layer.weight.to_host()
    assert layer.padding_idx == 399 and not values[399].any()
    assert abs(values[:-1].std() - 1) < 0.1
    with pytest.raises(AttributeValueError):
        layer(np.array([400]))
    with pytest.raises(AttributeValueError, match="padding_idx=9"):
        nn.Embedding(3, 2, 9)


@everywhere
def test_dropout_zeroes_a_share_and_scales_the_rest(device: Device) -> None:
    nc.manual_seed(0)
    layer, x = nn.Dropout(0.25), nc.Tensor.ones((40000,), device=device, requires_grad=True)
    result = layer(x)
    values = result.to_host()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((values == 0).mean() - 0.25) < 0.01
    ag.sum(result).backward()
    np.testing.assert_array_equal(x.grad.to_host(), values)
    assert layer.eval()(x) is x
    nc.manual_seed(0)
    np.testing.assert_array_equal(layer.train()(x).to_host(), values)


def test_a_seed_reaches_initial_values_and_dropout() -> None:
    results = []
    for seed in (5, 5, 6):
        nc.manual_seed(seed)
        net = nn.Sequential(nn.Linear(4, 40), nn.Dropout(0.5))
        results.append(net(np.ones((1, 4), np.float32)).to_host())
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()


def test_mistakes_are_named() -> None:
    x = nc.Tensor.ones((4, 3))
    with pytest.raises(ShapeError, match=r"BatchNorm1d: x of shape \(4, 3\).*\(N, 5\)"):
        nn.BatchNorm1d(5)(x)
    with pytest.raises(ShapeError, match=r"\(N, 3, H, W\)"):
        nn.BatchNorm2d(3)(x)
    with pytest.raises(AttributeValueError, match="multiple of the groups"):
        nn.GroupNorm(2, 5)
    with pytest.raises(AttributeValueError, match="p=2"):
        nn.Dropout(2)
    with pytest.raises(AttributeValueError, match="num_features=0"):
        nn.BatchNorm1d(0)
    assert repr(nn.LayerNorm(3)) == "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"
    assert repr(nn.Embedding(4, 2, 0)) == "Embedding(4, 2, padding_idx=0)"


@everywhere
def test_a_compiled_norm_takes_the_relu_behind_it(device: Device) -> None:
    """It moves, counts and differentiates as the two do, in one kernel each way."""
    layers = [nn.BatchNorm2d(3, device=device) for _ in range(2)]
    rows = RANDOM.standard_normal((4, 3, 5, 2)).astype("f4")
    x = [nc.tensor(rows, device=device, requires_grad=True) for _ in range(2)]
    compiled = ag.jit_compile(lambda x: ag.relu(layers[1](x)))
    for _ in range(2):
        results = ag.relu(layers[0](x[0])), compiled(x[1])
        for result in results:
            ag.sum(result * result).backward()
    text = str(compiled.explain(x[1]))
    assert "batch_norm_relu" in text and text.count("op: ") == 1 and "kernel: " not in text
    np.testing.assert_allclose(results[1].numpy(), results[0].numpy(), 1e-5, 1e-5)
    np.testing.assert_allclose(x[1].grad.numpy(), x[0].grad.numpy(), 1e-4, 1e-4)
    for first, second in zip(*(layer.state_dict().values() for layer in layers), strict=True):
        np.testing.assert_allclose(second.numpy(), first.numpy(), 1e-5)
    for first, second in zip(*(layer.parameters() for layer in layers), strict=True):
        np.testing.assert_allclose(second.grad.numpy(), first.grad.numpy(), 1e-4, 1e-4)


@everywhere
def test_running_statistics_move_without_copies(device: nc.Device) -> None:
    """They take the buffers that the norm has written, unless somebody else has theirs."""
    with nc.use_device(device):
        layer, x = nn.BatchNorm2d(3), nc.rand(4, 3, 2, 2)
        layer.load_state_dict(layer.state_dict())
        mean = x.numpy().mean((0, 2, 3))
        with use_stream(Copying(stream_of(device))) as stream:
            for _ in range(2):
                layer(x)
        assert stream.copies == 0
        np.testing.assert_allclose(layer.running_mean.numpy(), 0.19 * mean, rtol=1e-5)
        held = layer.state_dict()
        layer(x)
        np.testing.assert_allclose(held["running_mean"].numpy(), 0.271 * mean, rtol=1e-5)
        assert held["num_batches_tracked"].item() == 3


class Copying(StreamWrapper):
    """Counts copies."""

    copies = 0

    def copy(self, *args: Any) -> None:
        self.copies += 1
        self.inner.copy(*args)
