"""Launches that standardise the columns of a matrix: batch normalisation without an inner axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import Request

TEMPLATE: Final = "tensor/norm_columns.cl.j2"
#: Rows that are added up before sums are combined: few, since each sum is one long chain.
_BLOCK: Final = 32
#: Columns that an item of a CPU takes.
_LANES: Final = 16
_GROUP: Final = 64


def columns(
    request: Request, entry: str, outputs: Sequence[Any], flags: Mapping[str, Any]
) -> Kernels:
    """One launch, for x (N, C, 1, ...); a GPU's item takes a column."""
    x, gpu = request.inputs[0], request.device.kind == "gpu"
    rows, count = x.shape[:2]
    width = 1 if gpu else _LANES
    dtype = DTYPES[x.dtype]
    items = -(-count // _GROUP) * _GROUP if gpu else count // width + count % width
    numbers = [("ulong", rows), ("ulong", count), ("ulong", _BLOCK)]
    inputs = [("in", i) for i in range(len(request.inputs))]
    rates = [(dtype.compute, request.attrs.get(name, 0.0)) for name in ("eps", "momentum")]
    args = (*inputs, *outputs, *numbers, *rates)
    context = {"storage": dtype.storage, "acc": dtype.compute, "width": width, **flags}
    return Kernels((Kernel(TEMPLATE, entry, args, (items,), (_GROUP,) if gpu else None, context),))
