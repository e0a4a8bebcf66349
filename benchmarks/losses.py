"""Losses with their gradients, which ours computes in one pass: cross_entropy, a detection loss."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from harness import RaceCase, copying, function_cases

#: Rows and classes.
SHAPES = {"cpu": (4096, 1000), "gpu": (65536, 1024)}
POWERS = {"cpu": 22, "gpu": 26}
BETA = 0.05


def _entropy_by_numpy(np: Any, x: Any, labels: Any) -> Any:
    rows, counted = np.arange(len(x)), labels >= 0
    shifted = x - x.max(1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(1)) - shifted[rows, np.where(counted, labels, 0)]
    return losses[counted].mean()


def _entropy_by_jax(jax: Any, x: Any, labels: Any) -> Any:
    np, counted = jax.numpy, labels >= 0
    picked = np.take_along_axis(jax.nn.log_softmax(x), np.where(counted, labels, 0)[:, None], 1)
    return -np.where(counted, picked[:, 0], 0).sum() / counted.sum()


ENTROPY = {
    "netcl": lambda ag, x, labels: ag.cross_entropy(x, labels),
    "torch": lambda torch, x, labels: torch.nn.functional.cross_entropy(x, labels),
    "jax": _entropy_by_jax,
    "numpy": _entropy_by_numpy,
}


def _detection_by_torch(torch: Any, p: Any, t: Any, heat: Any, reg: Any) -> Any:
    c = p.clamp(1e-7, 1 - 1e-7)
    bce = -(t * c.log() + (1 - t) * (-c).log1p())
    l1 = torch.nn.functional.smooth_l1_loss(p, t, beta=BETA, reduction="none")
    return (heat * bce + reg * l1).sum()


def _detection(np: Any, p: Any, t: Any, heat: Any, reg: Any) -> Any:
    c, d = np.clip(p, 1e-7, 1 - 1e-7), p - t
    bce = -(t * np.log(c) + (1 - t) * np.log1p(-c))
    l1 = np.where(np.abs(d) < BETA, d * d / (2 * BETA), np.abs(d) - BETA / 2)
    return (heat * bce + reg * l1).sum()


DETECTION = {
    "netcl": lambda ag, *given: ag.fused_weighted_bce_smooth_l1_loss(*given),
    "torch": _detection_by_torch,
    "jax": lambda jax, *given: _detection(jax.numpy, *given),
    "numpy": _detection,
}


def _classes(shape: tuple[int, int]) -> list[Any]:
    """Logits and labels, every tenth of them ignored."""
    random = np.random.default_rng(0)
    labels = random.integers(0, shape[1], shape[0])
    labels[::10] = -100
    return [random.standard_normal(shape, dtype=np.float32), labels]


def _heat(size: int) -> list[Any]:
    """Predictions, targets and both weights."""
    random = np.random.default_rng(0)
    return [random.random(size, np.float32) * np.float32(0.9) + np.float32(0.05) for _ in range(4)]


def cases(kind: str) -> Iterator[RaceCase]:
    """With the gradient of the prediction: one more array of its size is written."""
    shape, size = SHAPES[kind], 1 << POWERS[kind]
    logits = 4 * shape[0] * shape[1]
    yield from function_cases(
        f"cross_entropy {shape[0]}x{shape[1]}",
        ENTROPY,
        partial(_classes, shape),
        forward=copying(logits),
        both=copying(2 * logits),
    )
    yield from function_cases(
        f"detection 2^{POWERS[kind]}",
        DETECTION,
        partial(_heat, size),
        forward=copying(16 * size),
        both=copying(20 * size),
        tolerance=1e-4,
    )
