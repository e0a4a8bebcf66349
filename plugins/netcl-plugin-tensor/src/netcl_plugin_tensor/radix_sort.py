"""The launches of a stable radix sort of long lines, on devices with work-groups."""

from __future__ import annotations

import math
from typing import Any, Final

from netcl_core import DTYPES, Device, Kernel, Kernels
from netcl_core.autograd import Request
from netcl_plugin_tensor.views import BITS

TEMPLATE: Final = "tensor/radix_sort.cl.j2"
#: Bits of a digit at most, and items of a group: as many as digits.
_DIGIT: Final = 8
_GROUP: Final = 256
#: So many blocks an item adds up by itself.
_FEW: Final = 16
#: Neighbours of an item, where local memory has room for a group's keys and places.
_EACH: Final = (16, 8, 4, 2)
#: Lines that are worth a group each.
_LONG: Final = 1 << 11
#: What counts elements of a line.
_INT_MAX: Final = 1 << 31


def _each(device: Device, key_bytes: int) -> int:
    """How many neighbours an item has; 0: the device has too little of everything."""
    group = _GROUP
    if device.kind == "cpu" or device.max_work_group_size < group:
        return 0
    fits = (
        length for length in _EACH
        if (length + 1) * group * (key_bytes + 4) + group * (32 + 4 + 4) <= device.local_mem_bytes
    )  # fmt: skip
    return next(fits, 0)


def is_radix_sorted(request: Request, bits: int | None = None) -> bool:
    """Whether lines are long enough, and the device has what a group needs."""
    x = request.inputs[0]
    size = x.shape[request.attrs["dim"]] if x.shape else 1
    wanted = bits or DTYPES[x.dtype].itemsize * 8
    return _LONG <= size < _INT_MAX and _each(request.device, 4 if wanted <= 32 else 8) > 0


def key_context(request: Request, bits: int | None = None) -> dict[str, Any]:
    """How keys are made of elements."""
    dtype, attrs = DTYPES[request.inputs[0].dtype], request.attrs
    width = dtype.itemsize * 8
    sign = 1 << (width - 1)
    kinds = {"f": "float", "i": "signed", "u": "unsigned", "b": "unsigned"}
    kind = "float" if dtype.floating else kinds[dtype.numpy.kind]
    fraction = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}.get(dtype.name, 0)
    infinity = (sign - 1) >> fraction << fraction
    suffix = "u" if (bits or width) <= 32 else "ul"
    return {
        "bits": BITS[dtype.itemsize],
        "key": "uint" if (bits or width) <= 32 else "ulong",
        "kind": "place" if bits else kind,
        "sign": sign,
        "mask": (1 << width) - 1,
        "infinity": infinity,
        "suffix": suffix,
        "largest": attrs.get("largest", False),
        "nan_first": attrs.get("nan_first", False),
    }


def plan_radix(request: Request, bits: int | None = None) -> Kernels:
    """Passes from the lowest digit to the highest; the last writes results.

    With `bits` the elements are places from -1 on, of which one more has so many bits.
    """
    (x,), dim, k = request.inputs, request.attrs["dim"], request.attrs["k"]
    size = x.shape[dim] if x.shape else 1
    inner = math.prod(x.shape[dim + 1 :])
    lines = x.size // max(size, 1)
    wanted = bits or DTYPES[x.dtype].itemsize * 8
    key_bytes = 4 if wanted <= 32 else 8
    each = _each(request.device, key_bytes)
    blocks = -(-size // (_GROUP * each))
    context = {**key_context(request, bits), "group": _GROUP, "each": each}
    numbers = [("ulong", n) for n in (size, k, inner, inner, blocks)]
    groups, counts, totals = ((lines * blocks * _GROUP,), (_GROUP,)), ("scratch", 0), ("scratch", 1)
    passes = -(-wanted // _DIGIT)
    width = -(-wanted // passes)
    digits = 1 << width
    rows, shared = lines * digits, blocks > _FEW
    adding = {"group": _GROUP, "each": 1, "shift": 0, "width": width, "shared": shared}
    sums = (rows if shared else -(-rows // _GROUP)) * _GROUP
    starts = Kernel(TEMPLATE, "radix_starts",
                    (counts, totals, ("ulong", blocks), ("ulong", rows)), (sums,), (_GROUP,),
                    adding)  # fmt: skip
    given: Any = (("in", 0),)
    launches = []
    for i in range(passes):
        first, last = i == 0, i + 1 == passes
        here = {**context, "first": first, "last": last, "shift": width * i, "width": width}
        keys, origins = (("scratch", 2 + 2 * (i % 2)), ("scratch", 3 + 2 * (i % 2)))
        source = given if first else (keys, origins)
        launches.append(Kernel(TEMPLATE, "radix_count", (source[0], counts, *numbers), *groups,
                               {**here, "last": False}))  # fmt: skip
        launches.append(starts)
        after = 2 + 2 * ((i + 1) % 2)
        target = (("out", 0), ("out", 1)) if last else (("scratch", after), ("scratch", after + 1))
        read = (*(given if last and not first else ()), *source)
        launches.append(Kernel(TEMPLATE, "radix_move", (*read, counts, totals, *target, *numbers),
                               *groups, here))  # fmt: skip
    pair = (x.size * key_bytes, x.size * 4)
    needed = (pair * 2)[: 0 if passes == 1 else 4]
    return Kernels(tuple(launches), (lines * blocks * digits * 4, rows * 4, *needed))
