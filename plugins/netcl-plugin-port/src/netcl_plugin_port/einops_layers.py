"""`einops.layers.torch` over netcl's Module: Rearrange, Reduce, EinMix.

`netcl port` writes this module's name in the place of that one's.
"""

from __future__ import annotations

from typing import Any

from einops.layers import RearrangeMixin, ReduceMixin
from einops.layers._einmix import _EinmixMixin

import netcl_core as nc
from netcl_core import nn

__all__ = ["EinMix", "Rearrange", "Reduce"]


class Rearrange(RearrangeMixin, nn.Module):  # type: ignore[misc, unused-ignore]
    """A layer that rearranges axes: `Rearrange("b c h w -> b (c h w)")`."""

    def forward(self, input: Any) -> Any:
        """The elements in the shape of the pattern's right side."""
        return self._apply_recipe(input)  # type: ignore[no-untyped-call, unused-ignore]


class Reduce(ReduceMixin, nn.Module):  # type: ignore[misc, unused-ignore]
    """A layer that reduces axes: `Reduce("b c h w -> b c", "mean")`."""

    def forward(self, input: Any) -> Any:
        """The reduced elements."""
        return self._apply_recipe(input)  # type: ignore[no-untyped-call, unused-ignore]


class EinMix(_EinmixMixin, nn.Module):  # type: ignore[misc, unused-ignore]
    """A linear layer along the axes of a pattern."""

    def _create_parameters(
        self, weight_shape: Any, weight_bound: float, bias_shape: Any, bias_bound: float
    ) -> None:
        self.weight = _uniform(weight_shape, weight_bound)
        self.bias = None if bias_shape is None else _uniform(bias_shape, bias_bound)

    def _create_rearrange_layers(
        self,
        pre_reshape_pattern: str | None,
        pre_reshape_lengths: Any,
        post_reshape_pattern: str | None,
        post_reshape_lengths: Any,
    ) -> None:
        self.pre_rearrange = self.post_rearrange = None
        if pre_reshape_pattern is not None:
            self.pre_rearrange = Rearrange(pre_reshape_pattern, **(pre_reshape_lengths or {}))
        if post_reshape_pattern is not None:
            self.post_rearrange = Rearrange(post_reshape_pattern, **(post_reshape_lengths or {}))

    def forward(self, input: Any) -> Any:
        """The mixed elements."""
        x = input if self.pre_rearrange is None else self.pre_rearrange(input)
        x = nc.einsum(self.einsum_pattern, x, self.weight)
        x = x if self.bias is None else x + self.bias
        return x if self.post_rearrange is None else self.post_rearrange(x)


def _uniform(shape: Any, bound: float) -> Any:
    weight: Any = nc.zeros(tuple(shape))
    return nn.Parameter(weight.uniform_(-bound, bound))
