"""matmul, bmm and linear: values, gradients, batches, tails, errors."""

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import DtypeError, ShapeError
from netcl_core.testing import check_op, usable_devices

RANDOM = np.random.default_rng(5)
SHAPES = [
    ((5, 7), (7, 3)),
    ((1, 1), (1, 1)),
    ((33, 65), (65, 34)),
    ((9, 301), (301, 70)),
    ((7,), (7, 3)),
    ((5, 7), (7,)),
    ((7,), (7,)),
    ((2, 5, 7), (7, 33)),
    ((5, 7), (4, 7, 3)),
    ((2, 1, 5, 7), (1, 3, 7, 40)),
    ((64,), (3, 64, 5)),
    ((3, 1, 64), (64,)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_matmul_equals_pytorch(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    arrays = [RANDOM.standard_normal(a), RANDOM.standard_normal(b)]
    check_op(ag.matmul, arrays, lambda a, b: a @ b, tolerance=5)


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)], ids=str)
def test_transposed_operands(flags: tuple[bool, bool]) -> None:
    a, b = RANDOM.standard_normal((2, 5, 7)), RANDOM.standard_normal((2, 7, 4))
    arrays = [a.swapaxes(1, 2) if flags[0] else a, b.swapaxes(1, 2) if flags[1] else b]

    def torch_op(a: object, b: object) -> object:
        return (a.mT if flags[0] else a) @ (b.mT if flags[1] else b)

    check_op(lambda a, b: ag.matmul(a, b, *flags), arrays, torch_op, tolerance=3)


def test_bmm_equals_pytorch() -> None:
    arrays = [RANDOM.standard_normal((3, 5, 7)), RANDOM.standard_normal((3, 7, 20))]
    check_op(ag.bmm, arrays, lambda a, b: a @ b, tolerance=3)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x", "out"), [((5, 7), 3), ((7,), 3), ((2, 3, 7), 40), ((128, 64), 10)])
def test_linear_equals_pytorch(x: tuple[int, ...], out: int, bias: bool) -> None:
    arrays = [RANDOM.standard_normal(s) for s in (x, (out, x[-1]), (out,))][: 3 if bias else 2]

    def torch_op(*tensors: object) -> object:
        return __import__("torch").nn.functional.linear(*tensors)

    check_op(ag.linear, arrays, torch_op, tolerance=5)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floating_dtypes(dtype: str) -> None:
    arrays = [RANDOM.standard_normal((9, 31)) / 4, RANDOM.standard_normal((31, 21)) / 4]
    check_op(ag.matmul, arrays, lambda a, b: a @ b, dtype=dtype, tolerance=2)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_integers_are_exact(dtype: str) -> None:
    a, b = (RANDOM.integers(0, 5, s).astype(dtype) for s in ((9, 10), (10, 35)))
    for device in usable_devices():
        found = ag.matmul(nc.Tensor.from_host(a, device), nc.Tensor.from_host(b, device))
        np.testing.assert_array_equal(found.to_host(), a @ b)


def test_empty_operands() -> None:
    for device in usable_devices():
        zeros = nc.Tensor.zeros
        assert ag.matmul(zeros((0, 5), device=device), zeros((5, 3), device=device)).shape == (0, 3)
        none = ag.matmul(zeros((2, 0), device=device), zeros((0, 3), device=device))
        np.testing.assert_array_equal(none.to_host(), np.zeros((2, 3)))


def test_the_operator_and_its_reflected_form() -> None:
    a = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal((nc.tensor(a) @ a.T).to_host(), a @ a.T)
    np.testing.assert_array_equal((a @ nc.tensor(a.T)).to_host(), a @ a.T)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.matmul(x, x), ShapeError, "equal inner sizes, not 3 and 2"),
        (lambda x: ag.matmul(x, nc.Tensor.zeros((4, 5, 3, 2))[0, 0, 0, 0]), ShapeError, "0-d"),
        (lambda x: ag.matmul(x, x.T.astype("float16")), DtypeError, "float32 and float16"),
        (lambda x: ag.linear(x, nc.Tensor.zeros((4, 2))), ShapeError, r"weight \(out, in\)"),
        (lambda x: ag.linear(x, x, nc.Tensor.zeros(3)), ShapeError, r"bias of shape \(3,\)"),
        (lambda x: ag.bmm(x, x), ShapeError, "bmm: 2 and 2 dimensions"),
    ],
)
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.zeros((2, 3)))
