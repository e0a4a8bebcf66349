"""The loss and its gradient against PyTorch's cross entropy, where PyTorch is installed."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
import numpy as np
import pytest
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError

LOGITS = np.linspace(-6, 6, 24, dtype=np.float32).reshape(4, 6)
LABELS = np.arange(24).reshape(4, 6) % 3 == 0


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 2.0), (0.5, 0.0), (0.9, 0.5)])
def test_as_in_pytorch(alpha: float, gamma: float, reduction: str) -> None:
    torch: Any = pytest.importorskip("torch")
    x = torch.tensor(LOGITS, dtype=torch.float64, requires_grad=True)
    t = torch.tensor(LABELS, dtype=torch.float64)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(x, t, reduction="none")
    missed = (torch.sigmoid(x) - t).abs()
    elements = (alpha * t + (1 - alpha) * (1 - t)) * missed**gamma * entropy
    wanted = elements if reduction == "none" else getattr(elements, reduction)()
    wanted.sum().backward()

    ours = ag.tensor(LOGITS, requires_grad=True)
    loss = ag.focal_loss(ours, LABELS, alpha, gamma, reduction)
    ag.backward(loss, np.ones(loss.shape, np.float32))
    np.testing.assert_allclose(loss.numpy(), wanted.detach().numpy(), rtol=1e-5)
    np.testing.assert_allclose(ours.grad.numpy(), x.grad.numpy(), rtol=1e-5, atol=1e-7)


def test_extreme_logits() -> None:
    """The naive formula takes the logarithm of 0 here."""
    loss = ag.focal_loss(np.float32([-200, 200]), np.array([True, True]), reduction="none")
    np.testing.assert_allclose(loss.numpy(), [50, 0])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((LOGITS, LABELS[0]), ShapeError),
        ((LABELS, LABELS), DtypeError),
        ((LOGITS, LABELS, 1.5), AttributeValueError),
        ((LOGITS, LABELS, 0.5, -1), AttributeValueError),
        ((LOGITS, LABELS, 0.5, 2, "max"), AttributeValueError),
    ],
)
def test_mistakes_are_refused(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="focal_loss: "):
        ag.focal_loss(*arguments)
