"""Derivatives of functions equal PyTorch's; other parameters leave a module as it was."""

from __future__ import annotations

import doctest
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


def pair(v: Any) -> Any:
    return {"s": v.sum(), "p": [v**2, v[1:]]}


def drawn(*shape: int) -> Any:
    """The same numbers for both libraries."""
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def ensemble(t: Any, f: Any) -> Any:
    """Three layers of one class on one input, and the gradients of each for each sample."""
    layers = [t.nn.Linear(3, 2) for _ in range(3)]
    for i, layer in enumerate(layers):
        layer.load_state_dict({"weight": t.tensor(drawn(3, 2, 3)[i]), "bias": t.zeros(2)})
    x, y = t.tensor(drawn(5, 3)), t.tensor(drawn(5, 2))
    parameters, buffers = f.stack_module_state(layers)

    def call(p: Any, b: Any, x: Any) -> Any:
        return f.functional_call(layers[0], (p, b), (x,))

    def loss(p: Any, x: Any, y: Any) -> Any:
        return ((call(p, {}, x.unsqueeze(0)) - y) ** 2).mean()

    outputs = f.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    own = {name: value.detach() for name, value in layers[1].named_parameters()}
    sample = f.vmap(f.grad(loss), in_dims=(None, 0, 0))(own, x, y)
    both = f.vmap(f.vmap(f.grad(loss), (None, 0, 0)), (0, None, None))(parameters, x, y)
    return outputs, sample["weight"], sample["bias"], both["weight"]


def flat(found: Any) -> list[float]:
    """All numbers of a nest in order."""
    if isinstance(found, dict):
        return flat(list(found.values()))
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
    "jacrev of a nest": lambda f, g, x, y: g.jacrev(
        lambda d: {"a": d["x"].sin(), "b": (d["x"] * d["y"]).sum()}
    )({"x": x, "y": y}),
    "jacfwd": lambda f, g, x, y: g.jacfwd(both, argnums=(0, 1))(x, y),
    "jacfwd, aux": lambda f, g, x, y: g.jacfwd(lambda x: (x[:2] ** 3, x), has_aux=True)(x),
    "jacfwd of jacrev": lambda f, g, x, y: g.jacfwd(g.jacrev(energy))(x, y),
    "jacrev of jacfwd": lambda f, g, x, y: g.jacrev(g.jacfwd(energy, 1), 0)(x, y),
    "vjp, aux": lambda f, g, x, y: g.vjp(lambda x: (x * 2, y), x, has_aux=True)[2],
    "jvp, aux": lambda f, g, x, y: g.jvp(lambda x: (x * x, y), (x,), (y,), has_aux=True),
    "vmap": lambda f, g, x, y: g.vmap(lambda a, b: a.dot(b), (0, 1), 0)(x.outer(y), y.outer(x)),
    "vmap to": lambda f, g, x, y: g.vmap(pair, 1, {"s": 0, "p": [1, 0]})(x.outer(y)),
    "vmap of a nest": lambda f, g, x, y: g.vmap(
        lambda d, b: d["a"] * d["b"] + b, ({"a": 0, "b": None}, -1)
    )({"a": x, "b": y}, x.outer(y)),
    "vmap of vmap": lambda f, g, x, y: g.vmap(g.vmap(lambda a, b: a * b, (0, None)), (None, 0))(
        x, y
    ),
    "vmap of jacrev": lambda f, g, x, y: g.vmap(g.jacrev(lambda v: v.sin() * v[0]))(x.outer(y)),
    "grad of vmap": lambda f, g, x, y: g.grad(lambda v: g.vmap(lambda a: a**3)(v).sum())(x),
    "ensemble": lambda f, g, x, y: ensemble(nc if g is autodiff.func else torch, g),
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


def test_what_vmap_refuses_and_draws() -> None:
    vmap, x = autodiff.func.vmap, nc.ones(3, 2)
    for call, text in (
        (lambda: vmap(lambda a, b: a)(x, nc.ones(2)), "batches of sizes .2, 3."),
        (lambda: vmap(lambda a: a, None)(x), "no argument with a batch"),
        (lambda: vmap(lambda a: a, 2)(x), "in_dims 2 of shape"),
        (lambda: vmap(lambda a: 1.0)(x), "a float as result"),
        (lambda: vmap(lambda a, b: a, (0,))(x, x), "1 in_dims"),
        (lambda: vmap(lambda a: a + nc.rand(2))(x), "draws numbers"),
    ):
        with pytest.raises((ArgumentError, ShapeError), match=text):
            call()
    same = vmap(lambda a: a * nc.rand(2), randomness="same")(x).numpy()
    different = vmap(lambda a: a * nc.rand(2), randomness="different")(x).numpy()
    assert (same[0] == same[1]).all() and (different[0] != different[1]).all()
    with pytest.raises(ArgumentError, match="2 kinds of modules"):
        autodiff.func.stack_module_state([nn.Linear(2, 2), nn.ReLU()])
    value, grads = autodiff.func.value_and_grad(lambda v: (v * v).sum())(nc.ones(2))
    assert value.item() == 2 and grads.tolist() == [2, 2]


@pytest.mark.parametrize("module", [autodiff.func, autodiff.functional])
def test_examples(module: Any) -> None:
    names = {"nc": nc, "nn": nn, "autodiff": autodiff}
    assert not doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS).failed


@pytest.mark.parametrize("module", [torch, nc], ids=["pytorch", "netcl"])
def test_gradcheck_finds_what_is_off(module: Any) -> None:
    check, again = module.autograd.gradcheck, module.autograd.gradgradcheck
    x = module.tensor([[0.3, 2.0]], dtype=module.float64, requires_grad=True)
    y = module.tensor([1.5], dtype=module.float64)
    assert check(lambda x, y: (x.exp() * y, x.sum()), (x, y), check_undefined_grad=False)
    assert again(lambda x, y: x.sin() * y, (x, y))
    assert not check(lambda x: x.detach() * x, x, raise_exception=False)
    with pytest.raises(RuntimeError):
        check(lambda x: x.detach() * x, (x,))
    with pytest.raises(RuntimeError):
        again(lambda x: x.detach() * x * x, x)
    with pytest.raises(ValueError, match="requires"):
        check(lambda y: y, (y,))
    with pytest.raises((TypeError, ValueError), match="epss"):
        check(lambda x: x, (x,), epss=1e-6)
