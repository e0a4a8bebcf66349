"""Distributions give PyTorch's numbers, and samples with the moments that they should have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core.errors import ArgumentError

torch = pytest.importorskip("torch")

P = [[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]]
#: The parameters of two, and a value.
MADE: dict[str, tuple[list[Any], list[Any], Any]] = {
    "Normal": ([0.5, [1.0, 2.0]], [[0.0, -1.0], 1.5], [0.3, -2.0]),
    "Laplace": ([[0.5, 0.0], 1.5], [0.0, [1.0, 2.0]], [0.3, -2.0]),
    "Uniform": ([[0.0, -1.0], 1.0], [-2.0, [3.0, 0.5]], [0.5, 2.0]),
    "Exponential": ([[0.5, 2.0]], [[1.5, 1.0]], [0.3, 2.0]),
    "Bernoulli": ([[0.3, 0.9]], [[0.5, 0.2]], [1.0, 0.0]),
    "Categorical": ([P], [P[::-1]], [1, 2]),
    "OneHotCategorical": ([P], [P[::-1]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
}


def of(t: Any, name: str, given: list[Any]) -> tuple[Any, list[Any]]:
    leaves = [t.tensor(each, requires_grad=True) for each in given]
    return getattr(t.distributions, name)(*leaves), leaves


@pytest.mark.parametrize("name", MADE)
def test_formulas_and_their_gradients(name: str) -> None:
    first, second, value = MADE[name]
    found = []
    for t in (torch, nc):
        (p, leaves), (q, _) = of(t, name, first), of(t, name, second)
        if t is torch:
            p._validate_args = False
        results = [p.log_prob(t.tensor(value)), p.entropy(), t.distributions.kl_divergence(p, q)]
        results += [] if name == "Categorical" else [p.mean, p.variance, p.stddev]
        finite = [each for each in results if np.isfinite(each.detach().numpy()).all()]
        sum(each.sum() for each in finite).backward()  # type: ignore[union-attr]
        found.append([*results, *(leaf.grad for leaf in leaves)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(
            ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-4, atol=1e-5
        )


@pytest.mark.parametrize("name", MADE)
def test_samples_have_their_moments(name: str) -> None:
    nc.manual_seed(3)
    p, leaves = of(nc, name, MADE[name][0])
    drawn = p.sample((4000,))
    assert drawn.shape == (4000, *p.batch_shape, *p.event_shape) and not drawn.requires_grad
    if name == "Categorical":
        counts = [(drawn.numpy() == kind).mean(0) for kind in range(3)]
        np.testing.assert_allclose(np.stack(counts, -1), P, atol=0.04)
        return
    data = drawn.numpy().astype(np.float64)
    np.testing.assert_allclose(data.mean(0), p.mean.detach().numpy(), atol=0.15)
    np.testing.assert_allclose(data.var(0), p.variance.detach().numpy(), rtol=0.15, atol=0.02)
    if p.has_rsample:
        p.rsample().sum().backward()
        assert leaves[0].grad is not None


def test_events_and_what_is_refused() -> None:
    normal = nc.distributions.Normal(nc.zeros(2, 3), 1.0)
    joint = nc.distributions.Independent(normal, 1)
    assert joint.batch_shape == (2,) and joint.event_shape == (3,)
    value = nc.ones(2, 3)
    np.testing.assert_allclose(joint.log_prob(value).numpy(), normal.log_prob(value).numpy().sum(1))
    assert nc.distributions.kl_divergence(joint, joint).tolist() == [0, 0]
    with pytest.raises(ArgumentError, match="both of probs and logits"):
        nc.distributions.Categorical(nc.ones(2), nc.ones(2))
    with pytest.raises(NotImplementedError, match="Normal and Bernoulli"):
        nc.distributions.kl_divergence(normal, nc.distributions.Bernoulli(0.5))
