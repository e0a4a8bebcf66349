"""Roofline: how fast an op's forward is beside a plain copy of as many bytes, in the same run.

An elementwise op can be no faster than its memory, so that a fraction near 1 is all there
is to gain. The figure is information: nothing fails by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Device, Tensor, use_device
from netcl_core.autograd import no_grad
from netcl_core.inspect.recorded import cast_region, run_plan
from netcl_core.inspect.sources import Signature, plan
from netcl_core.inspect.streams import stream_of
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.records import Roofline
from netcl_plugin_kit.testing.running import Progress
from netcl_plugin_kit.timing import Timed, best_times

_DTYPE: Final = "float32"
#: So many elements that caches hold none of them for the next round.
_ELEMENTS: Final = {"gpu": 1 << 24, "cpu": 1 << 22, "accelerator": 1 << 22}
#: How many numbers are drawn; they are repeated to the full size.
_DRAWN: Final = 4099
#: Seconds that the rounds of one op and its copy take together.
_BUDGET: Final = 0.1


def rooflines(
    table: Table,
    devices: Sequence[Device],
    progress: Progress = lambda what, done, total: None,
    *,
    ops: Sequence[str] = (),
) -> list[Roofline]:
    """The fraction of a copy's speed of each op that has a case, on each OpenCL device.

    An elementwise op gets large inputs, a structured one those of its largest variant. One
    that cannot run on a device in float32 has no figure.
    """
    first: dict[str, Case] = {}
    for case in table.cases:
        if _DTYPE in case.takes and (not ops or case.op in ops):
            first.setdefault(case.op, case)
    places = [each for each in devices if each.has_kernels and not each.simulator]
    found: list[Roofline] = []
    for number, device in enumerate(places):
        for done, case in enumerate(first.values()):
            total = len(first) * len(places)
            progress(f"roofline: {case.op} on {device}", number * len(first) + done, total)
            found += _measured(case, device)
    return found


def _measured(case: Case, device: Device) -> Iterator[Roofline]:
    try:
        with use_device(device), no_grad():
            tensors = [Tensor.from_host(array, device) for array in _inputs(case, device)]
            result = case.run(*tensors)
            nbytes = sum(each.size * DTYPES[each.dtype].itemsize for each in [*tensors, result])
            if not nbytes:
                return
            ours, copy = _best([lambda: case.run(*tensors), _copy(device, nbytes)], device)
    except Exception:  # it lacks a dtype or an implementation, or is wrong, as the checks say
        return
    yield Roofline(case.op, device.id, _DTYPE, result.size, round(copy / ours, 3))


def _inputs(case: Case, device: Device) -> list[Any]:
    if case.primitive is None or case.shapes:
        samples = [case.sample(shapes, _DTYPE) for shapes in case.variants]
        return max(samples, key=lambda arrays: sum(x.size for x in arrays))
    drawn = case.sample([(_DRAWN,)] * len(case.inputs), _DTYPE)
    return [np.resize(array, _ELEMENTS[device.kind]) for array in drawn]


def _copy(device: Device, nbytes: int) -> Callable[[], Any]:
    """A kernel that reads and writes as many bytes together.

    Not the runtime's own copy, which some do with one thread.
    """
    size = max(1, nbytes // (2 * DTYPES[_DTYPE].itemsize))
    source = Tensor.full((size,), 1, _DTYPE, device)
    made = plan(cast_region(_DTYPE), device, Signature((((size,), _DTYPE),), ()))
    return lambda: run_plan(made, [source], ())


def _best(functions: Sequence[Callable[[], Any]], device: Device) -> list[float]:
    """The shortest time of each, measured in turn."""
    finish = stream_of(device).finish
    timed = {i: Timed(each, lambda _: finish(), False) for i, each in enumerate(functions)}
    best, failed = best_times(timed, _BUDGET)
    for error in failed.values():
        raise error
    return [best[i] for i in range(len(functions))]
