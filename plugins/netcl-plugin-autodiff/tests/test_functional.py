"""Derivatives of functions equal PyTorch's; other parameters leave a module as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core import autodiff, nn
from netcl_core.errors import ArgumentError, ShapeError

torch = pytest.importorskip("torch")


def both(x: Any, y: Any) -> Any:
    return (x * y.sum()).sin(), (y**2).sum() * x[0]


def energy(x: Any, y: Any) -> Any:
    return (x.sin() * y).sum() + (x[0] * y[1]) ** 2


def flat(found: Any) -> list[float]:
    """All numbers of a nest in order."""
    if isinstance(found, (tuple, list)):
        return [number for each in found for number in flat(each)]
    return np.asarray(found.detach().cpu().numpy(), np.float64).reshape(-1).tolist()  # type: ignore[no-any-return]


CALLS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "jacobian": lambda f, g, x, y: f.jacobian(both, (x, y)),
    "jacobian of one": lambda f, g, x, y: f.jacobian(lambda x: x**2, x),
    "hessian": lambda f, g, x, y: f.hessian(energy, (x, y)),
    "vjp": lambda f, g, x, y: f.vjp(both, (x, y), (x * 2, y[0])),
    "jvp": lambda f, g, x, y: f.jvp(both, (x, y), (y, x)),
    "vhp": lambda f, g, x, y: f.vhp(energy, (x, y), (y, x)),
    "hvp": lambda f, g, x, y: f.hvp(energy, (x, y), (y, x)),
    "grad": lambda f, g, x, y: g.grad(energy, argnums=(0, 1))(x, y),
    "grad of grad": lambda f, g, x, y: g.grad(lambda v: g.grad(energy)(v, y).sin().sum())(x),
    "value": lambda f, g, x, y: g.grad_and_value(lambda x: (energy(x, y), x * 3), has_aux=True)(x),
    "func.vjp": lambda f, g, x, y: (g.vjp(both, x, y)[0], g.vjp(both, x, y)[1]((x, y[0]))),
    "func.jvp": lambda f, g, x, y: g.jvp(both, (x, y), (y, x)),
    "jacrev": lambda f, g, x, y: g.jacrev(lambda x, y: both(x, y)[0], 1)(x, y),
    "func.hessian": lambda f, g, x, y: g.hessian(energy)(x, y),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_as_pytorchs(name: str) -> None:
    data = [[0.5, -0.3, 0.8], [1.5, 0.2, -0.7]]
    theirs = CALLS[name](torch.autograd.functional, torch.func, *map(torch.tensor, data))
    ours = CALLS[name](autodiff.functional, autodiff.func, *map(nc.tensor, data))
    np.testing.assert_allclose(flat(ours), flat(theirs), rtol=1e-4, atol=1e-5)


def test_jacobians_can_be_differentiated_again() -> None:
    x = nc.tensor([0.5, 2.0], requires_grad=True)
    autodiff.functional.jacobian(lambda v: v**3, x, create_graph=True).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [3, 12], rtol=1e-5)


def test_a_module_keeps_its_own_parameters() -> None:
    first = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(first, first)
    before, weight = first.weight, nc.eye(2).mul_(2).requires_grad_()
    found = autodiff.func.functional_call(model, {"0.weight": weight}, nc.ones(1, 2))
    found.sum().backward()
    assert found.tolist() == [[4, 4]] and weight.grad is not None and first.weight is before
    with pytest.raises(ArgumentError, match="the name 'bias'"):
        autodiff.func.functional_call(model, {"bias": weight}, nc.ones(1, 2))
    with pytest.raises(ShapeError):
        autodiff.func.functional_call(first, {"weight": weight}, nc.ones(1, 3))
    assert first.weight is before
