"""Every loss and its gradients equal PyTorch's on every device: one row per loss and form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import netcl_core.autograd as ag
from netcl_core.testing import check_op, usable_devices

#: PyTorch's kl_div announces another meaning of 'mean' for its next major release.
pytestmark = pytest.mark.filterwarnings("ignore:reduction. 'mean':UserWarning")
torch = pytest.importorskip("torch")
F = torch.nn.functional

RANDOM = np.random.default_rng(6)
REDUCTIONS = ["mean", "sum", "none"]


def normal(*shape: int) -> Any:
    return RANDOM.standard_normal(shape)


def uniform(*shape: int) -> Any:
    return RANDOM.uniform(0.05, 0.95, shape)


def distribution(*shape: int) -> Any:
    """Probabilities of classes along axis 1."""
    values = RANDOM.uniform(0.1, 1, shape)
    return values / values.sum(min(1, len(shape) - 1), keepdims=True)


def indices(classes: int, *shape: int, ignored: int | None = None) -> Any:
    found = np.asarray(RANDOM.integers(0, classes, shape))
    if ignored is not None:
        found.flat[::3] = ignored
    return found


def detection_bce(pred: Any, target: Any, weight: Any, reduction: str = "mean") -> Any:
    """`weighted_bce` in PyTorch."""
    p = pred.clamp(1e-7, 1 - 1e-7)
    losses = -weight * (target * p.log() + (1 - target) * (-p).log1p())
    return losses if reduction == "none" else getattr(losses, reduction)()


def detection_l1(
    pred: Any, target: Any, weight: Any, beta: float = 1.0, reduction: str = "mean"
) -> Any:
    """`weighted_smooth_l1` in PyTorch."""
    losses = weight * F.smooth_l1_loss(pred, target, beta=beta, reduction="none")
    return losses if reduction == "none" else getattr(losses, reduction)()


@dataclass(frozen=True)
class Row:
    """A loss, the inputs that get a gradient, what is captured, and its PyTorch counterpart."""

    name: str
    inputs: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    torch_op: Callable[..., Any] | None = None
    note: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, [self.name, *self.options, self.note]))

    def check(self, reduction: str, dtype: str) -> None:
        theirs = self.torch_op or getattr(F, self.name)

        arrays = {k: v.astype(dtype) for k, v in self.options.items() if isinstance(v, np.ndarray)}
        exact = {name: torch.tensor(array.astype(np.float64)) for name, array in arrays.items()}
        check_op(
            lambda *x: getattr(ag, self.name)(*x, **self.options | arrays, reduction=reduction),
            self.inputs,
            lambda *x: theirs(*x, **self.options | exact, reduction=reduction),
            dtype=dtype,
        )


POSITIVE, CLASSES = uniform(5, 7), np.array([0.5, 1.0, 2.0, 0.25, 1.5, 1.0, 3.0])
ROWS = [
    Row("mse_loss", (normal(5, 7), normal(5, 7))),
    Row("l1_loss", (normal(5, 7), normal(5, 7))),
    Row("l1_loss", (np.array([1.0, 2.0]), np.array([1.0, 0.5])), note="equal"),
    Row("smooth_l1_loss", (normal(5, 7), normal(5, 7))),
    Row("smooth_l1_loss", (normal(5, 7), normal(5, 7)), {"beta": 0.3}),
    Row("smooth_l1_loss", (normal(5, 7), normal(5, 7)), {"beta": 1}, note="int"),
    Row("smooth_l1_loss", (np.array([1.0, 2.0]), np.array([1.0, 0.5])), {"beta": 0}, note="zero"),
    Row("huber_loss", (normal(5, 7), normal(5, 7))),
    Row("huber_loss", (normal(5, 7), normal(5, 7)), {"delta": 0.4}),
    Row("binary_cross_entropy", (uniform(5, 7), uniform(5, 7))),
    Row("binary_cross_entropy", (uniform(5, 7), uniform(5, 7)), {"weight": POSITIVE}),
    Row("binary_cross_entropy_with_logits", (3 * normal(5, 7), uniform(5, 7))),
    Row(
        "binary_cross_entropy_with_logits",
        (3 * normal(5, 7), uniform(5, 7)),
        {"weight": POSITIVE, "pos_weight": CLASSES},
    ),
    Row("kl_div", (-uniform(5, 7), distribution(5, 7))),
    Row("kl_div", (-uniform(5, 7), -uniform(5, 7)), {"log_target": True}),
    Row("cross_entropy", (3 * normal(5, 7), indices(7, 5)), note="rows"),
    Row("cross_entropy", (3 * normal(33, 10), indices(10, 33)), note="odd"),
    Row("cross_entropy", (3 * normal(4, 40), indices(40, 4)), note="vectors"),
    Row("cross_entropy", (3 * normal(3, 5, 6), indices(5, 3, 6)), note="sequence"),
    Row("cross_entropy", (3 * normal(2, 3, 4, 5), indices(3, 2, 4, 5)), note="images"),
    Row("cross_entropy", (3 * normal(9), np.array(4)), note="single"),
    Row("cross_entropy", (3 * normal(9, 7), indices(7, 9, ignored=-100)), note="ignored"),
    Row("cross_entropy", (normal(9, 7), indices(7, 9, ignored=2)), {"ignore_index": 2}),
    Row("cross_entropy", (normal(9, 7), indices(7, 9)), {"weight": CLASSES}),
    Row("cross_entropy", (normal(9, 7), indices(7, 9)), {"label_smoothing": 0.1}),
    Row(
        "cross_entropy",
        (normal(9, 7), indices(7, 9, ignored=-100)),
        {"weight": CLASSES, "label_smoothing": 0.2},
    ),
    Row(
        "cross_entropy",
        (normal(4, 40), indices(40, 4, ignored=3)),
        {"weight": RANDOM.uniform(0.5, 2, 40), "label_smoothing": 0.2, "ignore_index": 3},
        note="vectors",
    ),
    Row(
        "cross_entropy",
        (normal(3, 7, 6), indices(7, 3, 6, ignored=-100)),
        {"weight": CLASSES, "label_smoothing": 0.2},
        note="sequence",
    ),
    Row("cross_entropy", (normal(9), np.array(4)), {"label_smoothing": 0.3}, note="single"),
    Row("cross_entropy", (normal(5, 7), distribution(5, 7)), note="probabilities"),
    Row(
        "cross_entropy",
        (normal(3, 7, 2), distribution(3, 7, 2)),
        {"weight": CLASSES, "label_smoothing": 0.1},
        note="probabilities",
    ),
    Row("cross_entropy", (normal(7), distribution(7)), {"weight": CLASSES}, note="probabilities"),
    Row("nll_loss", (-uniform(9, 7), indices(7, 9))),
    Row("nll_loss", (-uniform(9, 7), indices(7, 9, ignored=-100)), {"weight": CLASSES}),
    Row("nll_loss", (-uniform(2, 7, 3), indices(7, 2, 3, ignored=1)), {"ignore_index": 1}),
    Row("nll_loss", (-uniform(7), np.array(3)), {"weight": CLASSES}, note="single"),
    Row("weighted_bce", (uniform(5, 7), uniform(5, 7), uniform(5, 7)), torch_op=detection_bce),
    Row("weighted_smooth_l1", (normal(5, 7), normal(5, 7), uniform(5, 7)), {"beta": 0.5},
        detection_l1),
]  # fmt: skip
rows = pytest.mark.parametrize("row", ROWS, ids=str)


@rows
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_loss_and_its_gradients_equal_pytorch(row: Row, reduction: str) -> None:
    row.check(reduction, "float32")


@rows
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_losses_in_other_dtypes(row: Row, dtype: str) -> None:
    row.check("mean", dtype)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(3, 23), (3, 23, 5)], ids=str)
def test_the_form_for_gpus(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU runtime runs the kernels that GPUs get; no other test has these shapes."""
    for device in usable_devices():
        if device.backend == "opencl":
            monkeypatch.setattr(device, "kind", "gpu")
    target = indices(23, shape[0], *shape[2:], ignored=-100)
    weight = RANDOM.uniform(0.5, 2, 23)
    for settings in ({}, {"weight": weight, "label_smoothing": 0.2}):
        Row("cross_entropy", (normal(*shape), target), settings).check("mean", dtype)
    Row("nll_loss", (normal(*shape), target), {"weight": weight}).check("mean", dtype)


def test_kl_div_per_batch() -> None:
    inputs = (-uniform(5, 7), distribution(5, 7))
    check_op(
        lambda x, t: ag.kl_div(x, t, reduction="batchmean"),
        inputs,
        lambda x, t: F.kl_div(x, t, reduction="batchmean"),
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("scales", [{}, {"heat_scale": 2.5, "reg_scale": 0.5, "beta": 0.2}])
def test_the_fused_loss_is_the_sum_of_its_parts(scales: dict[str, float], dtype: str) -> None:
    target, heat, reg = (uniform(8, 9).astype(dtype) for _ in range(3))

    def reference(pred: Any) -> Any:
        t, h, r = (torch.tensor(x.astype(np.float64)) for x in (target, heat, reg))
        heat_scale, reg_scale = scales.get("heat_scale", 1), scales.get("reg_scale", 1)
        bce = detection_bce(pred, t, h, "sum")
        return heat_scale * bce + reg_scale * detection_l1(
            pred, t, r, scales.get("beta", 0.05), "sum"
        )

    check_op(
        lambda pred: ag.fused_weighted_bce_smooth_l1_loss(pred, target, heat, reg, **scales),
        [uniform(8, 9)],
        reference,
        dtype=dtype,
    )
