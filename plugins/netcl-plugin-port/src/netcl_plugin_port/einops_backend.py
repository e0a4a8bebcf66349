"""What einops asks of a library: its operations on netcl's tensors.

einops looks among the subclasses of its own AbstractBackend; netcl_core imports this module once
einops is there.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from einops import _backends

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor


class NetclBackend(_backends.AbstractBackend):  # type: ignore[misc, unused-ignore]  # where einops is missing
    """The backend `netcl_core` of einops."""

    framework_name = "netcl_core"

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Whether it is one of netcl's tensors."""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Any:
        """A tensor of an array."""
        return nc.Tensor.from_host(x)

    def to_numpy(self, x: Any) -> Any:
        """An array of a tensor."""
        return x.to_host()

    def arange(self, start: int, stop: int) -> Any:
        """Whole numbers."""
        return nc.arange(start, stop)

    def transpose(self, x: Any, axes: Sequence[int]) -> Any:
        """Axes in another order."""
        return ag.permute(x, tuple(axes))

    def reduce(self, x: Any, operation: str, axes: Sequence[int]) -> Any:
        """One of `min max sum mean prod any all` along axes."""
        name = {"min": "amin", "max": "amax"}.get(operation, operation)
        if name in ("amin", "amax", "sum", "mean"):
            return getattr(ag, name)(x, tuple(axes))
        for axis in sorted(axes, reverse=True):
            x = getattr(ag, name)(x, axis)
        return x

    def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
        """Tensors of one shape along a new first axis."""
        return ag.stack(tensors)

    def add_axis(self, x: Any, new_position: int) -> Any:
        """A new axis of size 1."""
        return ag.unsqueeze(x, new_position)

    def add_axes(self, x: Any, n_axes: int, pos2len: Mapping[int, int]) -> Any:
        """New axes of several sizes, along which the elements are repeated."""
        for position in pos2len:
            x = ag.unsqueeze(x, position)
        return ag.expand(x, tuple(pos2len.get(i, -1) for i in range(n_axes)))

    def tile(self, x: Any, repeats: Sequence[int]) -> Any:
        """The tensor again and again."""
        return ag.tile(x, tuple(repeats))

    def concat(self, tensors: Sequence[Any], axis: int) -> Any:
        """Tensors one after the other."""
        return ag.cat(tensors, axis)

    def is_float_type(self, x: Any) -> bool:
        """Whether the dtype is floating."""
        return DTYPES[x.dtype].floating

    def layers(self) -> Any:
        """The module with Rearrange, Reduce and EinMix."""
        return importlib.import_module("netcl_plugin_port.einops_layers")  # after einops itself

    def einsum(self, pattern: str, *x: Any) -> Any:
        """A sum of products."""
        return ag.einsum(pattern, *x)
