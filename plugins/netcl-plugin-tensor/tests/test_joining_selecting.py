"""Joining, cutting, selecting, scanning: what their cases do not say, and errors."""

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError
from netcl_core.inspect.streams import StreamWrapper, stream_of, use_stream

RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((4, 5, 6))


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_arg_extremes_of_ties_and_nan(device: nc.Device) -> None:
    ties = nc.Tensor.from_host(np.array([1, 3, 3, 0, 0]), device)
    assert (ag.argmax(ties).item(), ag.argmin(ties).item()) == (1, 3)
    nan = nc.Tensor.from_host(np.array([1, np.nan, 3], "float32"), device)
    assert (ag.argmax(nan).item(), ag.argmin(nan).item()) == (1, 1)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_equal_indices_add_up_in_the_gradient(device: nc.Device) -> None:
    weight = nc.Tensor.ones((3, 2), device=device, requires_grad=True)
    ag.sum(ag.embedding(np.array([1, 1, 1, 0]), weight)).backward()
    assert weight.grad.to_host().tolist() == [[1, 1], [3, 3], [0, 0]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_many_equal_indices_add_up(device: nc.Device, dtype: str) -> None:
    """In bfloat16 256 + 1 is 256, so that sums must not be rounded at each step."""
    with nc.use_device(device):
        places = nc.tensor(np.zeros(4096, np.int64))
        for take in (
            lambda x: x[places],
            lambda x: ag.index_select(x, 0, places),
            lambda x: ag.gather(x, 0, places),
            lambda x: ag.embedding(places, ag.reshape(x, (3, 1))),
        ):
            x = nc.ones(3, dtype=dtype, requires_grad=True)
            take(x).sum().backward()
            assert x.grad is not None and x.grad.astype("float32").tolist() == [4096, 0, 0]
        ones = nc.ones(4096, dtype=dtype)
        found = ag.scatter_add(nc.ones(3, dtype=dtype), 0, places, ones)
        np.testing.assert_allclose(found.astype("float32"), [4097, 1, 1], rtol=4e-3)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_one_hot(device: nc.Device) -> None:
    index = nc.Tensor.from_host(np.array([[0, 2]]), device)
    assert ag.one_hot(index).to_host().tolist() == [[[1, 0, 0], [0, 0, 1]]]
    assert ag.one_hot(index, 4).shape == (1, 2, 4)
    assert ag.one_hot(index).dtype == "int64"
    with pytest.raises(AttributeValueError, match="one_hot: the index 2; expected 0 to 1"):
        ag.one_hot(index, 2)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_masked_fill_with_infinity(device: nc.Device) -> None:
    x = nc.Tensor.from_host(X.astype("float32"), device)
    found = ag.masked_fill(x, X > 0, -np.inf).to_host()
    np.testing.assert_array_equal(np.isinf(found), X > 0)


@pytest.mark.parametrize("wrong", [5, -1])
@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_an_index_out_of_range_raises(wrong: int, device: nc.Device) -> None:
    x = nc.Tensor.zeros((4, 5), device=device)
    index = nc.Tensor.from_host(np.array([0, wrong]), device)
    with pytest.raises(AttributeValueError, match=f"index_select: the index {wrong}"):
        ag.index_select(x, 1, index)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.cat([x, x[0]]), ShapeError, "cat: shapes"),
        (lambda x: ag.cat([ag.sum(x), x]), ShapeError, "cat: the tensor 0 has no dimensions"),
        (lambda x: ag.split(x, [1, 1]), ShapeError, "sizes that sum to 4"),
        (lambda x: ag.pad(x, (1,)), AttributeValueError, "pairs"),
        (lambda x: ag.pad(x, (1, 1), mode="mirror"), AttributeValueError, "'constant'"),
        (
            lambda x: ag.masked_fill(x.astype("int32"), ag.gt(x, 0), np.inf),
            AttributeValueError,
            "masked_fill: value=inf; expected a whole number",
        ),
        (lambda x: ag.gather(x, 0, np.zeros((9, 9, 9), int)), ShapeError, "no larger than x"),
        (lambda x: ag.index_select(x, 0, np.zeros(2, "float32")), DtypeError, "integer dtype"),
    ],
)
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.from_host(X, dtype="float32"))


@pytest.mark.parametrize("device", usable_devices(), ids=str)
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_many_tensors_join(device: nc.Device, kind: str, dim: int, monkeypatch: Any) -> None:
    """More than one launch takes, contiguous and apart, some of them empty."""
    if device.has_kernels:
        monkeypatch.setattr(device, "kind", kind)
    whole = (slice(None),) * dim
    for count in (17, 40):
        arrays = [RANDOM.standard_normal((3, 4, 6)).astype("float32") for _ in range(count)]
        parts = [nc.Tensor.from_host(array, device) for array in arrays]
        for step in (parts, arrays):
            step[:] = [x[*whole, : i % 4] if i % 3 else x for i, x in enumerate(step)]
        np.testing.assert_array_equal(ag.cat(parts, dim).numpy(), np.concatenate(arrays, dim))


@pytest.mark.parametrize("device", usable_devices(), ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_stack_of_views_and_its_gradients(device: nc.Device, dim: int) -> None:
    arrays = [RANDOM.standard_normal((2, 5, 3)).astype("float32") for _ in range(3)]
    tensors = [nc.Tensor.from_host(array, device, requires_grad=True) for array in arrays]
    stacked = ag.stack([x[:, i] for i, x in enumerate(tensors)], dim)
    wanted = np.stack([x[:, i] for i, x in enumerate(arrays)], dim)
    np.testing.assert_array_equal(stacked.numpy(), wanted)
    stacked.backward(nc.Tensor.from_host(wanted, device))
    for i, (x, array) in enumerate(zip(tensors, arrays, strict=True)):
        expected = np.zeros_like(array)
        expected[:, i] = array[:, i]
        np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_index_and_gradient_lie_apart(device: nc.Device, kind: str, monkeypatch: Any) -> None:
    """As in a DLRM: columns of one tensor name rows, whose gradients are slices of another one."""
    if device.has_kernels:
        monkeypatch.setattr(device, "kind", kind)
    for count, rows, width in ((5, 7, 3), (33, 4, 8), (130, 9, 17)):
        places = RANDOM.integers(0, rows, (count, 3))
        index = nc.Tensor.from_host(places, device)
        table = nc.Tensor.from_host(RANDOM.standard_normal((rows, width)).astype("float32"), device)
        table.requires_grad_()
        turned = ag.flip(index, (0,))
        for shown, wanted in ((index[:, 1], places[:, 1]), (turned[:, 2], places[::-1, 2])):
            table.grad = None
            picked = ag.embedding(shown, table)
            np.testing.assert_array_equal(picked.numpy(), table.numpy()[wanted])
            grad = RANDOM.integers(-3, 4, (count, 2, width)).astype("float32")
            ag.stack([picked.detach(), picked], 1).backward(nc.Tensor.from_host(grad, device))
            expected = np.zeros((rows, width))
            np.add.at(expected, wanted, grad[:, 1])
            np.testing.assert_array_equal(table.grad.numpy(), expected)


class Reading(StreamWrapper):
    """Counts how often the host reads."""

    reads = 0

    def download(self, *args: Any) -> Any:
        self.reads += 1
        return self.inner.download(*args)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_a_column_of_known_integers_is_not_read(device: nc.Device) -> None:
    index = nc.Tensor.from_host(np.array([[0, 9], [2, -1]]), device)
    table, square = nc.ones(3, 2, device=device), nc.ones(3, 3, device=device)
    with use_stream(Reading(stream_of(device))) as stream:
        ag.embedding(index[:, 0], table)
        assert square[index[:, 0], index[:, 0]].shape == (2,)
    assert not stream.reads or not device.has_kernels  # NumPy reads where it stands
    for wrong, found in ((index[:, 1], -1), (index[0], 9)):
        with pytest.raises(AttributeValueError, match=f"the index {found}; expected 0 to 2"):
            ag.embedding(wrong, table)
    with nc.no_grad():
        index[0, 0] = 5
    with pytest.raises(AttributeValueError, match="the index 5"):
        ag.embedding(index[:, 0], table)
