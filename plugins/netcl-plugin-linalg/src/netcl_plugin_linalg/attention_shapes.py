"""The sizes of an attention, and how its kernels find the matrices of each batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from netcl_core import Spec
from netcl_core.autograd import Geometry
from netcl_core.errors import ShapeError, message
from netcl_plugin_linalg.attention_layouts import side_by_side

NAME: Final = "scaled_dot_product_attention"
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes of an attention: (..., queries, size), (..., keys, size), (..., keys, value_size).

    `lead` are the leading sizes of the result; `grouped` are the same, and `leads` each operand's
    own ones, with groups of heads in a dimension of their own, so that they are broadcast like all
    others; `steps` are the elements from one to the next along each of these.
    """

    lead: Shape
    queries: int
    keys: int
    size: int
    value_size: int
    grouped: Shape
    leads: tuple[Shape, ...]
    steps: tuple[Shape, ...]

    @property
    def count(self) -> int:
        """The matrices of the result."""
        return math.prod(self.lead)

    @property
    def strides(self) -> list[tuple[int, ...]]:
        """Per dimension its size, and the elements from one matrix of each operand to the next.

        0 where an operand is broadcast; neighbours that all operands pass alike are one.
        """
        strides_of: list[tuple[int, ...]] = []
        steps = [
            _steps(lead, own, self.grouped)
            for lead, own in zip(self.leads, self.steps, strict=True)
        ]
        for size, *steps_of_axis in zip(self.grouped, *steps, strict=True):
            if size == 1:
                continue
            if strides_of and all(
                a == b * size for a, b in zip(strides_of[-1][1:], steps_of_axis, strict=True)
            ):
                strides_of[-1] = (strides_of[-1][0] * size, *steps_of_axis)
            else:
                strides_of.append((size, *steps_of_axis))
        return strides_of


def attention_shape(
    query: Spec,
    key: Spec,
    value: Spec,
    mask: Spec | None,
    enable_gqa: bool,
    layouts: Sequence[Geometry | None] = (None, None, None),
) -> AttentionShape:
    """The sizes; raises ShapeError where they do not fit together."""
    least = 3 if enable_gqa else 2
    if min(query.ndim, key.ndim, value.ndim) < least:
        given = f"shapes {query.shape}, {key.shape} and {value.shape}"
        raise ShapeError(message(NAME, given, f"{least} dimensions at least"))
    (queries, size), (keys, key_size), (rows, value_size) = (
        operand.shape[-2:] for operand in (query, key, value)
    )
    if size != key_size or keys != rows:
        given = f"query {query.shape}, key {key.shape} and value {value.shape}"
        raise ShapeError(
            message(NAME, given, "query (..., L, E), key (..., S, E), value (..., S, V)")
        )
    leads = [operand.shape[:-2] for operand in (query, key, value)]
    lead = _broadcast(_with_all_heads(leads) if enable_gqa else leads)
    if mask is not None:
        _check_mask(mask, (*lead, queries, keys))
        leads.append(mask.shape[:-2])
    operands = [query, key, value, *([] if mask is None else [mask])]
    steps = [
        (layout or side_by_side(operand.shape, 1)).strides[:-2]
        for operand, layout in zip(operands, (*layouts[:3], None), strict=False)
    ]
    grouped = lead
    few = min(leads[1][-1], leads[2][-1]) if enable_gqa else 0
    if few and few != lead[-1]:
        grouped = _grouped(lead, lead[-1], few)
        steps = [
            _grouped_steps(step, own, lead[-1], few) for step, own in zip(steps, leads, strict=True)
        ]
        leads = [_grouped(each, lead[-1], few) for each in leads]
    own = (queries, keys, size, value_size)
    return AttentionShape(lead, *own, grouped, tuple(leads), tuple(steps))


def groups_nest(key: Spec, value: Spec, query: Spec) -> bool:
    """Whether key and value have as many heads as each other, or one of them all of the query's."""
    heads = query.shape[-3]
    return key.shape[-3] == value.shape[-3] or heads in (key.shape[-3], value.shape[-3])


def _with_all_heads(leads: Sequence[Shape]) -> list[Shape]:
    heads = leads[0][-1]
    for lead in leads[1:]:
        if not lead[-1] or heads % lead[-1]:
            given = f"{lead[-1]} heads of key or value for {heads} of the query"
            raise ShapeError(message(NAME, given, "a divisor of the query's"))
    return [(*lead[:-1], heads) for lead in leads]


def _grouped(lead: Shape, heads: int, few: int) -> Shape:
    """The heads, the last of the leading dimensions, as groups of heads."""
    if not lead:
        return lead
    own = lead[-1]
    return (*lead[:-1], *((few, own // few) if own == heads else (own, 1)))


def _grouped_steps(steps: Shape, lead: Shape, heads: int, few: int) -> Shape:
    """The elements from one to the next along the same."""
    if not lead:
        return steps
    own, step = lead[-1], steps[-1]
    return (*steps[:-1], *((step * (own // few), step) if own == heads else (step, 0)))


def _broadcast(leads: Sequence[Shape]) -> Shape:
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        given = f"leading dimensions {' and '.join(map(str, leads))}"
        raise ShapeError(message(NAME, given, "sizes that are equal or 1")) from None


def _check_mask(mask: Spec, scores: Shape) -> None:
    try:
        fits = np.broadcast_shapes(mask.shape, scores) == scores
    except ValueError:
        fits = False
    if not fits:
        given = f"a mask of shape {mask.shape}"
        raise ShapeError(message(NAME, given, f"one that is broadcast to {scores}"))


def _steps(lead: Shape, own: Shape, whole: Shape) -> list[int]:
    """The elements from one matrix of an operand to the next, per dimension of all."""
    missing = len(whole) - len(lead)
    return [0] * missing + [0 if n == 1 else step for n, step in zip(lead, own, strict=True)]
