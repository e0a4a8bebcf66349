"""Cases of whole models: written once, built of each library's layers, with equal weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeAlias

import netcl_core as nc
import netcl_core.autograd as ag
from harness.cases import Array, RaceCase, RaceLimit
from harness.jax_training import jax_step
from harness.peers import library, torch_ops
from harness.training import Training, training_case
from harness.weights import drawn
from netcl_core import Tensor

#: Makes a model of a module of layers, `netcl_core.nn` or `torch.nn`.
Build: TypeAlias = Callable[[Any], Any]
#: The loss of inputs by ops, `netcl_core.autograd` or PyTorch's functions, and a model.
Loss: TypeAlias = Callable[..., Any]


def model_case(
    name: str,
    build: Build,
    loss: Loss,
    data: Callable[[], Sequence[Array]],
    *,
    optimizer: str = "Adam",
    limit: RaceLimit | None = None,
    tolerance: float = 1e-4,
    needs: Iterable[str] = (),
    by_jax: bool = True,
    gradients: bool = True,
) -> RaceCase:
    """A step of training of a model that is written once for both libraries.

    >>> data = lambda: [np.ones((2, 3), np.float32)]
    >>> loss = lambda ops, model, x: ops.mean(model(x))
    >>> model_case("linear", lambda nn: nn.Linear(3, 1), loss, data, needs=["warp"]).needs
    'needs warp'

    Args:
        name: The model, with its size.
        build: Makes the model of a module of layers: netcl's, PyTorch's, or ours for JAX.
        loss: Takes ops, the model and the inputs.
        data: Makes the inputs; floating ones are cast where float64 is wanted.
        optimizer: Its name in both libraries; with a learning rate of 1e-4.
        limit: What a step is compared with besides the peers.
        tolerance: Of the loss and of each gradient, by norm.
        needs: Names of ops and layers without which netcl has no such model.
        by_jax: Whether the loss can be computed by JAX, too.
        gradients: As of `training_case`.
    """
    missing = [need for need in needs if not _has(need)]
    return training_case(
        name,
        partial(ours, build, loss, data, optimizer),
        partial(theirs, build, loss, data, optimizer),
        limit=limit,
        tolerance=tolerance,
        needs=f"needs {', '.join(missing)}" if missing else "",
        others={"jax": partial(jax_step, build, loss, data, optimizer)} if by_jax else {},
        gradients=gradients,
    )


def _has(name: str) -> bool:
    """Whether netcl has an op, or a layer `nn.Name`."""
    place: Any = nc.nn if name.startswith("nn.") else ag
    return hasattr(place, name.removeprefix("nn."))


def loaded(model: Any, tensor: Callable[[Array], Any]) -> list[Any]:
    """Give a model its weights, and return its parameters."""
    named = dict(model.named_parameters())
    weights = drawn({name: tuple(parameter.shape) for name, parameter in named.items()})
    model.load_state_dict({**model.state_dict(), **{n: tensor(x) for n, x in weights.items()}})
    return list(named.values())


def ours(build: Build, loss: Loss, data: Callable[[], Sequence[Array]], optimizer: str) -> Training:
    """netcl's training of a model, on the default device."""
    model = build(nc.nn)
    parameters = loaded(model, lambda array: array)
    inputs = tuple(map(Tensor.from_host, data()))
    optimizing = getattr(nc.optim, optimizer)(parameters, lr=1e-4)
    return Training(lambda *xs: loss(ag, model, *xs), parameters, optimizing, inputs)


def theirs(
    build: Build,
    loss: Loss,
    data: Callable[[], Sequence[Array]],
    optimizer: str,
    place: str,
    dtype: str,
    fused: bool,
) -> Training:
    """PyTorch's training of it, with the same weights."""
    torch, ops = library("torch"), torch_ops()
    kind = getattr(torch, dtype)
    model = build(torch.nn)
    parameters = loaded(model, torch.from_numpy)
    model.to(place, kind)
    given = [torch.from_numpy(array).to(place) for array in data()]
    inputs = tuple(tensor.to(kind) if tensor.is_floating_point() else tensor for tensor in given)
    optimizing = getattr(torch.optim, optimizer)(parameters, lr=1e-4, fused=fused or None)
    return Training(lambda *xs: loss(ops, model, *xs), parameters, optimizing, inputs)
