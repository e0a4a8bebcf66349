"""Joining, cutting, selecting, scanning: values, gradients, errors."""

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError
from netcl_core.testing import check_op, usable_devices

RANDOM = np.random.default_rng(8)
A, B, C = (RANDOM.standard_normal(s) for s in ((2, 3, 4), (2, 1, 4), (2, 5, 4)))
X = RANDOM.standard_normal((4, 5, 6))


def _torch() -> object:
    return __import__("torch")


CASES = {
    "cat": (lambda *t: ag.cat(t, 1), lambda *t: _torch().cat(t, 1), [A, B, C]),
    "cat empty": (lambda *t: ag.cat(t), lambda *t: _torch().cat(t), [A, A[:0]]),
    "stack": (lambda *t: ag.stack(t, -1), lambda *t: _torch().stack(t, -1), [A, A + 1]),
    "split": (lambda x: ag.split(x, 2, 1)[1], lambda x: x.split(2, 1)[1], [C]),
    "sections": (lambda x: ag.split(x, [1, 4], 1)[1], lambda x: x.split([1, 4], 1)[1], [C]),
    "chunk": (lambda x: ag.chunk(x, 3, 1)[2], lambda x: x.chunk(3, 1)[2], [C]),
    "flip": (lambda x: ag.flip(x, (0, 2)), lambda x: x.flip((0, 2)), [C]),
    "pad": (
        lambda x: ag.pad(x, (1, 2, 0, 3), value=1.5),
        lambda x: _torch().nn.functional.pad(x, (1, 2, 0, 3), value=1.5),
        [C],
    ),
    "crop": (
        lambda x: ag.pad(x, (-1, 2, 3, -2)),
        lambda x: _torch().nn.functional.pad(x, (-1, 2, 3, -2)),
        [C],
    ),
    "index_select": (
        lambda x, i: ag.index_select(x, 1, i),
        lambda x, i: x.index_select(1, i),
        [X, RANDOM.integers(0, 5, 9)],
    ),
    "gather": (
        lambda x, i: ag.gather(x, 1, i),
        lambda x, i: x.gather(1, i),
        [X, RANDOM.integers(0, 5, (3, 7, 2))],
    ),
    "gather first": (
        lambda x, i: ag.gather(x, 0, i),
        lambda x, i: x.gather(0, i),
        [X[0], RANDOM.integers(0, 5, (9, 6))],
    ),
    "embedding": (
        ag.embedding,
        lambda i, w: _torch().nn.functional.embedding(i, w),
        [RANDOM.integers(0, 11, (4, 5)), RANDOM.standard_normal((11, 6))],
    ),
    "masked_fill": (
        lambda x, m: ag.masked_fill(x, m, 7.0),
        lambda x, m: x.masked_fill(m, 7.0),
        [X, X > 0.5],
    ),
    "cumsum": (lambda x: ag.cumsum(x, 1), lambda x: x.cumsum(1), [X]),
    "cumsum last": (lambda x: ag.cumsum(x, -1), lambda x: x.cumsum(-1), [X]),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_pytorch(name: str) -> None:
    op, torch_op, arrays = CASES[name]
    check_op(op, arrays, torch_op)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("name", ["cat", "pad", "gather", "embedding", "cumsum"])
def test_other_floating_dtypes(name: str, dtype: str) -> None:
    op, torch_op, arrays = CASES[name]
    check_op(op, arrays, torch_op, dtype=dtype, tolerance=2)


@pytest.mark.parametrize("dim", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_arg_extremes(name: str, dim: int | None) -> None:
    check_op(lambda x: getattr(ag, name)(x, dim), [X], lambda x: getattr(x, name)(dim))


def test_arg_extremes_of_ties_and_nan() -> None:
    for device in usable_devices():
        ties = nc.Tensor.from_host(np.array([1, 3, 3, 0, 0]), device)
        assert (ag.argmax(ties).item(), ag.argmin(ties).item()) == (1, 3)
        nan = nc.Tensor.from_host(np.array([1, np.nan, 3], "float32"), device)
        assert (ag.argmax(nan).item(), ag.argmin(nan).item()) == (1, 1)


def test_equal_indices_add_up_in_the_gradient() -> None:
    for device in usable_devices():
        weight = nc.Tensor.ones((3, 2), device=device, requires_grad=True)
        ag.sum(ag.embedding(np.array([1, 1, 1, 0]), weight)).backward()
        assert weight.grad.to_host().tolist() == [[1, 1], [3, 3], [0, 0]]


def test_one_hot() -> None:
    for device in usable_devices():
        index = nc.Tensor.from_host(np.array([[0, 2]]), device)
        assert ag.one_hot(index).to_host().tolist() == [[[1, 0, 0], [0, 0, 1]]]
        assert ag.one_hot(index, 4).shape == (1, 2, 4)
        assert ag.one_hot(index).dtype == "int64"
        with pytest.raises(AttributeValueError, match="one_hot: the index 2; expected 0 to 1"):
            ag.one_hot(index, 2)


def test_masked_fill_with_infinity() -> None:
    for device in usable_devices():
        x = nc.Tensor.from_host(X.astype("float32"), device)
        found = ag.masked_fill(x, X > 0, -np.inf).to_host()
        np.testing.assert_array_equal(np.isinf(found), X > 0)


@pytest.mark.parametrize("wrong", [5, -1])
def test_an_index_out_of_range_raises(wrong: int) -> None:
    for device in usable_devices():
        x = nc.Tensor.zeros((4, 5), device=device)
        index = nc.Tensor.from_host(np.array([0, wrong]), device)
        with pytest.raises(AttributeValueError, match=f"index_select: the index {wrong}"):
            ag.index_select(x, 1, index)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.cat([x, x[0]]), ShapeError, "cat: shapes"),
        (lambda x: ag.cat([x, x.astype("float16")]), DtypeError, "float32 and float16"),
        (lambda x: ag.split(x, [1, 1]), ShapeError, "sizes that sum to 4"),
        (lambda x: ag.pad(x, (1,)), AttributeValueError, "pairs"),
        (lambda x: ag.pad(x, (1, 1), mode="reflect"), AttributeValueError, "'constant'"),
        (lambda x: ag.gather(x, 0, np.zeros((9, 9, 9), int)), ShapeError, "no larger than x"),
        (lambda x: ag.index_select(x, 0, np.zeros(2, "float32")), DtypeError, "integer dtype"),
    ],
)
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.from_host(X, dtype="float32"))
