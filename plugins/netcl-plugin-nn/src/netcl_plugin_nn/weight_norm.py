"""Weight norm: a layer's weight as a direction and a length, which are trained apart."""

from __future__ import annotations

from typing import Any, final

import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, message
from netcl_plugin_nn.parameters import Parameter


@final
class WeightNorm:
    """The hook that computes the weight before each call of its layer."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = dim

    def compute_weight(self, module: Any) -> Any:
        """length * direction / |direction|."""
        length, direction = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return direction * (length / self.length(direction))

    def length(self, direction: Any) -> Any:
        """The norm over all dimensions but one; of all, where that is None."""
        if self.dim is None:
            return ag.norm(direction)
        kept = self.dim % direction.ndim
        over = tuple(i for i in range(direction.ndim) if i != kept)
        return ag.norm(direction, 2, over, True) if over else ag.abs(direction)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Train a layer's weight as its lengths `weight_g` and its directions `weight_v`.

    >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> sorted(layer.state_dict()), layer.weight_g.shape
    (['bias', 'weight_g', 'weight_v'], (2, 1))

    Args:
        module: The layer, which is changed and returned.
        name: The parameter.
        dim: The dimension whose slices have a length each; None: one for all.

    Salimans, Kingma 2016, "Weight normalization". Raises ArgumentError where there is no such
    parameter, or it has weight norm already.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Parameter):
        given = f"{type(module).__name__} without a parameter {name!r}"
        raise ArgumentError(message("weight_norm", given, "one that has no weight norm yet"))
    hook = WeightNorm(name, dim)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(hook.length(weight.detach())))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.__dict__.setdefault("_weight_norms", {})[name] = (
        hook, module.register_forward_pre_hook(hook)
    )  # fmt: skip
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight one parameter again, with the value that it has.

    >>> layer = nn.utils.weight_norm(nn.Linear(3, 2))
    >>> layer = nn.utils.remove_weight_norm(layer)
    >>> sorted(name for name, _ in layer.named_parameters())
    ['bias', 'weight']

    Args:
        module: The module.

    Raises:
        ArgumentError: Unless given a layer that has it.
    """
    hook, handle = module.__dict__.get("_weight_norms", {}).pop(name, (None, None))
    if hook is None:
        given = f"{type(module).__name__} without weight norm of {name!r}"
        raise ArgumentError(message("remove_weight_norm", given, "a layer that has it"))
    weight = hook.compute_weight(module).detach()
    handle.remove()
    for attribute in (name, name + "_g", name + "_v"):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module
