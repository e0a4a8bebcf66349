"""mse_loss and cross_entropy: values, gradients, ignored targets, errors."""

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError
from netcl_core.testing import check_op, usable_devices

RANDOM = np.random.default_rng(6)
REDUCTIONS = ["mean", "sum", "none"]


def _functional(name: str, **options: object) -> object:
    return lambda x, t: getattr(__import__("torch").nn.functional, name)(x, t, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_mse_loss_equals_pytorch(reduction: str) -> None:
    arrays = [RANDOM.standard_normal((5, 7)), RANDOM.standard_normal((5, 7))]
    op = lambda x, t: ag.mse_loss(x, t, reduction=reduction)  # noqa: E731 - one of many
    check_op(op, arrays, _functional("mse_loss", reduction=reduction), tolerance=3)


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize(
    "shape", [(5, 7), (33, 10), (4, 40), (3, 5, 6), (2, 3, 4, 5), (9,)], ids=str
)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_cross_entropy_equals_pytorch(
    reduction: str, shape: tuple[int, ...], ignored: bool
) -> None:
    classes = shape[1] if len(shape) > 1 else shape[0]
    target = np.asarray(RANDOM.integers(0, classes, (shape[0], *shape[2:])[: len(shape)]))
    target = target if len(shape) > 1 else np.asarray(target.flat[0])
    if ignored and target.ndim:
        target.flat[0] = -100
    arrays = [3 * RANDOM.standard_normal(shape), target]
    op = lambda x, t: ag.cross_entropy(x, t, reduction=reduction)  # noqa: E731 - one of many
    check_op(op, arrays, _functional("cross_entropy", reduction=reduction), tolerance=3)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_cross_entropy_in_other_dtypes(dtype: str) -> None:
    arrays = [RANDOM.standard_normal((6, 19)), RANDOM.integers(0, 19, 6)]
    check_op(ag.cross_entropy, arrays, _functional("cross_entropy"), dtype=dtype)


def test_large_logits_do_not_overflow() -> None:
    for device in usable_devices():
        x = nc.Tensor.from_host(np.array([[1e4, -1e4]], "float32"), device)
        assert ag.cross_entropy(x, np.array([0])).item() == 0
        assert ag.cross_entropy(x, np.array([1])).item() == 2e4


@pytest.mark.parametrize("wrong", [7, -1, -99])
def test_a_class_index_out_of_range_raises(wrong: int) -> None:
    for device in usable_devices():
        x = nc.Tensor.zeros((3, 7), device=device)
        target = nc.Tensor.from_host(np.array([0, wrong, 1]), device)
        with pytest.raises(AttributeValueError, match=f"class index {wrong} in target"):
            ag.cross_entropy(x, target)
        with pytest.raises(AttributeValueError, match="class index"):
            ag.cross_entropy(x, ag.add(target, 0))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ag.cross_entropy(x, np.zeros(4, int)), ShapeError, r"target of shape \(3,\)"),
        (lambda x: ag.cross_entropy(x, np.zeros(3, "float32")), DtypeError, "integer class"),
        (lambda x: ag.cross_entropy(x, np.zeros(3, int), reduction="avg"), AttributeValueError,
         "mean, sum or none"),
        (lambda x: ag.mse_loss(x, np.zeros((3, 1), "float32")), ShapeError, "equal shapes"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call: object, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        call(nc.Tensor.zeros((3, 7)))
