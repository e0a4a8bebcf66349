"""Averages of models as PyTorch's, and norms of gradients that are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import nn, optim
from netcl_core.errors import AttributeValueError

torch = pytest.importorskip("torch")

RANDOM = np.random.default_rng(0)
WEIGHT, X = (RANDOM.normal(size=shape).astype(np.float32) for shape in ((4, 3), (5, 3)))


def averaged(t: Any, how: str) -> list[Any]:
    """Means of a model in training, with a schedule; then the batch norm's statistics anew."""
    u = t.optim.swa_utils
    model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4))
    model[0].load_state_dict({"weight": t.tensor(WEIGHT), "bias": t.ones(4)})
    options = {"swa": {},
               "ema": {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9), "use_buffers": True},
               "own": {"avg_fn": lambda mean, now, count: 0.3 * mean + 0.7 * now}}  # fmt: skip
    means = u.AveragedModel(model, **options[how])
    optimizer = t.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    schedule = u.SWALR(optimizer, 0.05, 3, {"swa": "cos", "ema": "linear", "own": "cos"}[how])
    x, rates = t.tensor(X), []
    for _ in range(5):
        optimizer.zero_grad()
        ((model(x) - 1) ** 2).mean().backward()
        optimizer.step()
        means.update_parameters(model)
        schedule.step()
        rates += schedule.get_last_lr()
    if how != "ema":
        u.update_bn([(x, 0), (x * 2, 1)], means)
    assert means.training and means.n_averaged.item() == 5
    return [
        t.tensor(rates),
        *means.eval().state_dict().values(),
        means(x),
        list(means.state_dict()),
    ]


@pytest.mark.parametrize("how", ["swa", "ema", "own"])
def test_averaged_models(how: str) -> None:
    *ours, mine = averaged(nc, how)
    *theirs, names = averaged(torch, how)
    assert sorted(mine) == sorted(names)
    for name, a, b in zip(["rates", *names, "result"], ours, theirs, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-5, err_msg=name)
    with pytest.raises(AttributeValueError, match="anneal_strategy"):
        optim.swa_utils.SWALR(optim.SGD([nc.ones(1, requires_grad=True)], 1.0), 0.1, 1, "sin")


def test_norms_that_are_known() -> None:
    layer = nn.Linear(3, 4)
    norm = nn.utils.get_total_norm([nc.tensor([3.0]), nc.tensor([4.0])])
    layer.bias.grad = nc.full((4,), 10.0)
    nn.utils.clip_grads_with_norm_(layer.parameters(), 1.0, norm)
    np.testing.assert_allclose(layer.bias.grad.numpy(), 2.0, rtol=1e-6)
