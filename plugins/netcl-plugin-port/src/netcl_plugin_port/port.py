"""The namespace `netcl_core.port`: what a name of PyTorch's is here, and why there is none."""

from __future__ import annotations

import importlib
from functools import reduce
from typing import Any

import netcl_core as nc
from netcl_plugin_port.absent import pytorchs, reason
from netcl_plugin_port.arguments import without_foreign
from netcl_plugin_port.functions import _assert
from netcl_plugin_port.names import NAMES, target
from netcl_plugin_port.rewriting import Absence, absences, rewritten
from netcl_plugin_port.tensor_methods import METHODS

__all__ = [
    "NAMES",
    "Absence",
    "_assert",
    "absences",
    "find",
    "introduce_to_einops",
    "reason",
    "rewritten",
    "without_foreign",
]


def introduce_to_einops() -> None:
    """Let einops know netcl's tensors; called once einops is imported."""
    importlib.import_module("netcl_plugin_port.einops_backend")


def find(place: str, name: str) -> Any:
    """What a name of PyTorch's is here, beside what netcl has by that name anyway.

    >>> nc.port.find("torch", "pi"), nc.port.find("nn.modules", "Linear") is None
    (3.141592653589793, True)

    `place` is `torch`, `Tensor`, or a module's path below torch. None for a name without a value.
    """
    if place == "Tensor":
        return METHODS.get(name)
    port = target(place, name)
    if port is None:
        return _by_method(name) if place in ("torch", "nn.functional") else None
    module, _, attribute = port.partition(":")
    value: Any = importlib.import_module(module)
    return reduce(getattr, filter(None, attribute.split(".")), value)


def _by_method(name: str) -> Any:
    """A function of PyTorch's that a tensor has as a method: `torch.relu_(x)` is `x.relu_()`."""
    known = name in pytorchs()["torch"] or name in pytorchs()["nn.functional"]
    if not known or not callable(getattr(nc.zeros(1, device="numpy"), name, None)):
        return None

    def call(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"`input.{name}(...)`."
    return call
