"""Whole models, written once: each library computes the same, and takes the same steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from harness import model_case
from harness.cases import RaceCase
from harness.peers import PEERS, absences
from harness.running import off_by

import netcl_core as nc

CPU = nc.get_device("numpy")


@cache
def absence(name: str) -> str:
    return absences(CPU, {name: PEERS[name]})[name]


def need(*names: str) -> None:
    for name in names:
        if why := absence(name):
            pytest.skip(f"{name}: {why}")


def words(nn: Any) -> Any:
    """Each layer that needs no picture."""
    parts = [nn.Embedding(7, 8), nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 5)]
    return nn.ModuleList([*parts, nn.Sequential(nn.GELU("tanh"), nn.Identity(), nn.ReLU())])


def loss_of_words(ops: Any, parts: Any, tokens: Any, wanted: Any) -> Any:
    embed, norm, widen, head, after = parts
    x = norm(embed(tokens)) + embed.weight[0]
    mixed = ops.permute(ops.reshape(widen(x), (2, 6, 3, 2, 4)), (2, 0, 3, 1, 4))
    x = ops.reshape(ops.permute(attention(ops, *mixed), (0, 2, 1, 3)), (12, 8))
    return ops.cross_entropy(head(after(x)), wanted)


def attention(ops: Any, query: Any, key: Any, value: Any) -> Any:
    if hasattr(ops, "scaled_dot_product_attention"):
        return ops.scaled_dot_product_attention(query, key, value, is_causal=True)
    later = ops.as_operand(np.triu(np.ones((6, 6), np.bool_), 1), query.device)
    scores = ops.matmul(query, key, trans_b=True) * 0.5
    return ops.matmul(ops.softmax(ops.masked_fill(scores, later, float("-inf")), -1), value)


def data() -> list[Any]:
    tokens = np.random.default_rng(0).integers(0, 7, (2, 7))
    return [tokens[:, :-1].copy(), tokens[:, 1:].reshape(-1) % 5]


def case(optimizer: str = "AdamW") -> RaceCase:
    return model_case("words", words, loss_of_words, data, optimizer=optimizer)


def number(loss: Any) -> float:
    return float(loss.item())


@pytest.mark.parametrize("name", ["netcl", "netcl-compiled", "torch", "jax"])
def test_the_first_loss_and_its_gradients_are_right(name: str) -> None:
    need("torch", name)
    made = case()
    assert made.reference is not None
    assert off_by(made.makers[name](CPU).results(), made.reference()) < 1e-5


@pytest.mark.parametrize("name", ["netcl-replay", "torch", "jax"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_steps_are_alike(optimizer: str, name: str) -> None:
    need("torch", name)
    ours, other = (case(optimizer).makers[each](CPU) for each in ("netcl", name))
    losses = [number(ours.call()) for _ in range(30)]
    assert losses[0] - losses[-1] > 1e-4
    assert [number(other.call()) for _ in range(30)] == pytest.approx(losses, rel=1e-5)


def pictures(nn: Any) -> Any:
    """The layers of a residual network."""
    layers = [nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def loss_of_pictures(ops: Any, model: Any, x: Any, y: Any) -> Any:
    return ops.cross_entropy(model(x), y)


def test_layers_of_pictures_are_right_in_jax() -> None:
    need("torch", "jax")
    random = np.random.default_rng(0)
    x, y = random.standard_normal((4, 2, 7, 7), np.float32), random.integers(0, 3, 4)
    made = model_case("pictures", pictures, loss_of_pictures, lambda: [x, y], optimizer="SGD")
    assert made.reference is not None
    assert off_by(made.makers["jax"](CPU).results(), made.reference()) < 1e-4


def test_what_netcl_lacks_is_said() -> None:
    made = model_case("m", words, loss_of_words, data, needs=["relu", "nn.Linear", "warp", "nn.W"])
    assert made.needs == "needs warp, nn.W"
