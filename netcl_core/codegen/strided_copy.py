"""Copies between views: the region of one conversion to the same dtype, with strides."""

from __future__ import annotations

from typing import Any, Final

from netcl_core.codegen.lowering import offsets_of, plan, views_of
from netcl_core.codegen.region import SAME, PrimitiveStep, Region, Signature
from netcl_core.dtypes import DTYPES
from netcl_core.tensors.storage import copy_by

COPY: Final = Region(1, 0, (PrimitiveStep(SAME, (("in", 0),)),), (("step", 0),))


#: What elements of so many bytes are copied as: no bit of theirs changes.
_BITS: Final = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def _copy(source: Any, target: Any) -> bool:
    bits = _BITS[DTYPES[source.dtype].itemsize]
    planned = plan(COPY, target.device, Signature(((source.shape, bits),), ()))
    seen = (source,) if target.geometry is None else (source, target)
    stage = planned.of_views(views_of(seen))
    stage([source.memory], (), (), [target.memory], offsets_of(seen))
    return True


copy_by(_copy)
