"""Parametrizations, spectral norms and pruning as PyTorch's, from the same state."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.utils.prune")

RANDOM = np.random.default_rng(0)
WEIGHTS = {name: RANDOM.normal(size=shape).astype(np.float32)
           for name, shape in (("4x3", (4, 3)), ("3x4", (3, 4)), ("conv", (4, 3, 2, 2)),
                               ("turned", (3, 4, 2, 2)))}  # fmt: skip
X = RANDOM.normal(size=(2, 3, 5, 5)).astype(np.float32)


def layer(t: Any, shape: str) -> Any:
    made = {"4x3": lambda: t.nn.Linear(3, 4), "3x4": lambda: t.nn.Linear(4, 3),
            "conv": lambda: t.nn.Conv2d(3, 4, 2),
            "turned": lambda: t.nn.ConvTranspose2d(3, 4, 2)}[shape]()  # fmt: skip
    made.load_state_dict({"weight": t.tensor(WEIGHTS[shape]), "bias": t.ones_like(made.bias)})
    return made


def called(t: Any, made: Any, shape: str) -> Any:
    x = t.tensor(X if len(WEIGHTS[shape].shape) == 4 else X[:, 0, :, : WEIGHTS[shape].shape[1]])
    return made(x)


def state(made: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(x.detach()) for name, x in made.state_dict().items()}


#: What changes a layer, by a function of the library and of the layer, and of which shapes.
CHANGES: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "weight_norm": ("conv", lambda u, m: u.parametrizations.weight_norm(m)),
    "weight_norm of all": ("4x3", lambda u, m: u.parametrizations.weight_norm(m, dim=None)),
    "spectral_norm": ("4x3", lambda u, m: u.parametrizations.spectral_norm(m)),
    "spectral_norm conv": ("turned", lambda u, m: u.parametrizations.spectral_norm(m, "weight", 3)),
    "spectral_norm vector": ("4x3", lambda u, m: u.parametrizations.spectral_norm(m, "bias")),
    "old": ("conv", lambda u, m: u.spectral_norm(m)),
    **{
        f"orthogonal {how} {shape}": (
            shape, lambda u, m, how=how: u.parametrizations.orthogonal(m, orthogonal_map=how)
        )
        for how in ("matrix_exp", "cayley", "householder", None) for shape in ("4x3", "3x4")
    },
    **{
        f"orthogonal {how} alone": (
            "4x3", lambda u, m, how=how: u.parametrizations.orthogonal(
                m, orthogonal_map=how, use_trivialization=False)
        )
        for how in ("matrix_exp", "householder")
    },
    "l1": ("conv", lambda u, m: u.prune.l1_unstructured(m, "weight", 0.3)),
    "l1 twice": ("conv", lambda u, m: u.prune.l1_unstructured(
        u.prune.l1_unstructured(m, "weight", 0.3), "weight", 5)),
    "ln": ("conv", lambda u, m: u.prune.ln_structured(m, "weight", 0.5, 2, 0)),
    "ln after l1": ("conv", lambda u, m: u.prune.ln_structured(
        u.prune.l1_unstructured(m, "weight", 9), "weight", 1, 1, 1)),
    "ln twice": ("conv", lambda u, m: u.prune.ln_structured(
        u.prune.ln_structured(m, "weight", 1, 2, 0), "weight", 1, float("inf"), 0)),
    "identity": ("4x3", lambda u, m: u.prune.identity(m, "bias")),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_layers_computed_from_others(name: str) -> None:
    """Same state, results, gradients, and what a further call in training leaves."""
    shape, change = CHANGES[name]
    theirs, ours = (change(t.nn.utils, layer(t, shape)) for t in (torch, nc))
    assert {k: v.shape for k, v in state(ours).items()} == {
        k: v.shape for k, v in state(theirs).items()
    }
    if "prune" not in str(change.__code__.co_names):  # what was drawn at random, as PyTorch's
        ours.load_state_dict({k: v.clone() for k, v in theirs.state_dict().items()})
    for made, t in ((theirs, torch), (ours, nc)):
        (called(t, made, shape) ** 2).mean().backward()
    for key, value in state(theirs).items():
        np.testing.assert_allclose(state(ours)[key], value, atol=1e-5, err_msg=key)
    mine = dict(ours.named_parameters())
    for key, value in theirs.named_parameters():
        np.testing.assert_allclose(mine[key].grad.numpy(), value.grad, atol=2e-4, err_msg=key)
    for made in (theirs, ours):
        made.eval()
    expected = called(torch, theirs, shape).detach()
    np.testing.assert_allclose(called(nc, ours, shape).detach().numpy(), expected, atol=2e-5)
    hooked = name == "old" or nn.utils.prune.is_pruned(ours)  # then there is no copy in PyTorch
    twin = ours if hooked else copy.deepcopy(ours)
    ended(name, ours)
    assert sorted(ours.state_dict()) == ["bias", "weight"] and type(ours) in (
        nn.Linear, nn.Conv2d, nn.ConvTranspose2d)  # fmt: skip
    assert isinstance(ours.weight, nn.Parameter)
    np.testing.assert_allclose(called(nc, ours, shape).detach().numpy(), expected, atol=2e-5)
    np.testing.assert_allclose(called(nc, twin, shape).detach().numpy(), expected, atol=2e-5)


def ended(name: str, made: Any) -> None:
    which = "bias" if name in ("identity", "spectral_norm vector") else "weight"
    if name == "old":
        nn.utils.remove_spectral_norm(made)
    elif nn.utils.prune.is_pruned(made):
        nn.utils.prune.remove(made, which)
    else:
        assert nn.utils.parametrize.is_parametrized(made, which)
        nn.utils.parametrize.remove_parametrizations(made, which)


def chains(t: Any) -> tuple[Any, ...]:
    """Two parametrizations of one's own, assignment, one computation in `cached`, and training."""
    p, calls = t.nn.utils.parametrize, []

    class Skew(t.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            calls.append(0)
            a = x.triu(1)
            return a - a.transpose(0, 1)

        def right_inverse(self, x: Any) -> Any:
            return x.triu(1)

    class Exp(t.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return t.linalg.matrix_exp(x)

    made = t.nn.Linear(3, 3)
    made.weight.data.copy_(t.tensor(WEIGHTS["4x3"][:3]))
    weight = made.weight
    p.register_parametrization(made, "weight", Skew())
    made.weight = t.tensor([[0.0, 0.3, 0.1], [-0.3, 0.0, 0.2], [-0.1, -0.2, 0.0]])
    first = made.weight.detach().clone()
    p.register_parametrization(made, "weight", Exp())
    calls.clear()
    with p.cached():
        first = first + made.weight + made.weight
    assert len(calls) == 1
    made.bias.data.zero_()
    for _ in range(3):
        weight.grad = None  # the parameter is the same one, so that optimizers keep it
        ((made(t.tensor(WEIGHTS["4x3"])) - 1) ** 2).mean().backward()
        with t.no_grad():
            weight.sub_(0.1 * weight.grad)
    assert p.is_parametrized(made) and not p.is_parametrized(made, "bias")
    assert p.type_before_parametrizations(made) is t.nn.Linear and "ParametrizedLinear" in repr(
        made
    )
    value = made.weight
    p.remove_parametrizations(made, "weight", leave_parametrized=False)
    return first, value, made.weight, made.bias


def test_chains_of_parametrizations() -> None:
    for ours, theirs in zip(chains(nc), chains(torch), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-5)


def pruned(t: Any) -> list[Any]:
    """A net pruned as one, by a mask, and by a method of one's own."""
    prune = t.nn.utils.prune

    class EveryOther(prune.BasePruningMethod):  # type: ignore[misc]
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    net = t.nn.Sequential(layer(t, "4x3"), layer(t, "3x4"))
    assert not prune.is_pruned(net)
    places = [(net[0], "weight"), (net[1], "weight")]
    prune.global_unstructured(places, pruning_method=prune.L1Unstructured, amount=0.4)
    EveryOther.apply(net[1], "weight")
    prune.custom_from_mask(net[0], "bias", t.tensor([1, 0, 1, 0]))
    assert prune.is_pruned(net)
    net(t.ones(2, 3)).sum().backward()
    return [net[0].weight, net[0].bias, net[1].weight, net[1].weight_mask, net[0].weight_orig.grad]


def test_pruning_of_several() -> None:
    for ours, theirs in zip(pruned(nc), pruned(torch), strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1e-6)
    prune, made = nn.utils.prune, layer(nc, "conv")
    prune.random_unstructured(prune.random_structured(made, "weight", 1, 0), "weight", 0.5)
    mask = made.weight_mask.numpy()
    assert (mask.sum((1, 2, 3)) == 0).sum() >= 1 and mask.sum() == 18
    with pytest.raises(AttributeValueError, match=r"amount=1\.5"):
        prune.l1_unstructured(made, "weight", 1.5)
    with pytest.raises(AttributeValueError, match="at most 12"):
        prune.l1_unstructured(layer(nc, "4x3"), "weight", 13)
    with pytest.raises(ArgumentError, match="without a pruned 'bias'"):
        prune.remove(made, "bias")


def test_what_is_refused() -> None:
    p, made = nn.utils.parametrize, layer(nc, "4x3")
    with pytest.raises(ArgumentError, match="without a parameter or buffer 'w'"):
        p.register_parametrization(made, "w", nn.ReLU())
    with pytest.raises(ShapeError, match="unsafe=True"):
        p.register_parametrization(made, "weight", nn.Linear(3, 2))
    assert not p.is_parametrized(made)
    with pytest.raises(ArgumentError, match="without a parametrization"):
        p.remove_parametrizations(made, "weight")
    nn.utils.parametrizations.weight_norm(made)
    with pytest.raises(ArgumentError, match="several tensors"):
        p.remove_parametrizations(made, "weight", leave_parametrized=False)
    with pytest.raises(AttributeValueError, match="orthogonal_map"):
        nn.utils.parametrizations.orthogonal(layer(nc, "4x3"), orthogonal_map="x")


def test_buffers_and_batch_norms_of_several_processes() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4, affine=False)))
    model.kept, model.own = nn.Buffer(nc.ones(2)), nn.Buffer(nc.zeros(1), persistent=False)
    assert [name for name, _ in model.named_buffers()][:2] == ["kept", "own"]
    assert "kept" in model.state_dict() and "own" not in model.state_dict()
    before = model[1][0].running_mean
    made = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert made is model and made[1][0].running_mean is before
    assert isinstance(made[1][0], nn.SyncBatchNorm) and made[1][0].weight is None
    x = nc.tensor(X[0, :, 0, :3])
    wanted = nn.BatchNorm1d(4)(made[0](x))
    np.testing.assert_allclose(made(x).detach().numpy(), wanted.detach().numpy(), atol=1e-6)
