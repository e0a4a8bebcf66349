"""The form of a reduction for GPUs: teams of work-items per output, and trees in local memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core import DTYPES, Device, Kernel
from netcl_core.inspect.data import NUMPY_OF_COMPUTE
from netcl_plugin_tensor.reducing_job import ReducedSpace, Reduction
from netcl_plugin_tensor.teams import busy_groups, group_items, load_width, power_of_two

TEMPLATE: Final = "tensor/reduce_gpu.cl.j2"
#: Loads of a member that are under way at the same time.
_UNROLL: Final = 4
#: How often a member loads so many: at least this often before work is cut into slices,
#: which cost a second launch; in each slice; and at most, since a member adds them up in a row.
_BEFORE_SLICING, _IN_A_SLICE, _IN_A_ROW = 8, 2, 16
#: Neighbouring vectors of outputs that make one long access to memory.
_ACROSS: Final = 32


@final
@dataclass(frozen=True, slots=True)
class _Layout:
    """How one pass is spread over a device.

    A unit is one load of a member: a vector of reduced elements, or of the elements that
    belong to neighbouring outputs.
    """

    width: int
    group: int
    team: int
    teams: int  # without slices
    units: int  # of one team, without slices
    lost: tuple[tuple[int, int], ...]  # the dimensions of the units
    one_run: bool  # the units are those of one run of reduced elements


def _layout(job: Reduction, device: Device) -> _Layout:
    space = job.space
    width = load_width(DTYPES[job.source.dtype].itemsize)
    if not space.inner_lost:
        return _kept_inside(job, space, device, width)
    aligned = _aligned(job, space.kept, space.lost, width)
    one_run = len(space.lost) < 2
    lost = space.lost or ((1, 1),)
    if one_run:  # it is read in aligned vectors wherever it starts
        units = -(-lost[0][0] // width)
    else:
        width = width if aligned else 1
        units = space.reduced // width
        lost = (*lost[:-1], (lost[-1][0] // width, width))
    group = group_items(device, NUMPY_OF_COMPUTE[job.acc].itemsize)
    team = min(group, power_of_two(-(-units // _UNROLL)))
    return _Layout(width, group, team, space.outputs, units, lost, one_run)


def _aligned(job: Reduction, others: Any, own: Any, width: int) -> bool:
    """Whether every run of the dimensions `own` begins and ends at a whole vector."""
    steps = [step for _, step in (*others, *own[:-1])]
    return not any(n % width for n in (job.places.offset, own[-1][0], *steps)) if own else True


def _kept_inside(job: Reduction, space: ReducedSpace, device: Device, width: int) -> _Layout:
    columns = space.kept[-1][0]
    width = width if _aligned(job, space.lost, space.kept, width) else 1
    group = group_items(device, NUMPY_OF_COMPUTE[job.acc].itemsize * width)
    across = min(group, _ACROSS, power_of_two(columns // width))
    team = min(group // across, power_of_two(-(-space.reduced // _UNROLL)))
    teams = space.outputs // width
    return _Layout(width, group, team, teams, space.reduced, space.lost, False)


def slices(job: Reduction, device: Device) -> int:
    """How many teams share the reduction of one output: enough for all of the device."""
    layout = _layout(job, device)
    at_once = _UNROLL * layout.team
    loads = -(-layout.units // at_once)
    if loads <= _BEFORE_SLICING:
        return 1
    wanted = -(-busy_groups(device) * layout.group // (layout.team * layout.teams))
    number = max(1, min(wanted, loads // _IN_A_SLICE), -(-loads // _IN_A_ROW))
    return -(-layout.units // _per_slice(layout, number))


def _per_slice(layout: _Layout, slices: int) -> int:
    """The units of a slice: a whole number of loads of all members, if there are several."""
    if slices == 1:
        return layout.units
    at_once = _UNROLL * layout.team
    return -(-layout.units // (slices * at_once)) * at_once


def kernel(job: Reduction, device: Device, slices: int) -> Kernel:
    """The launch that reduces each of so many slices."""
    space, layout = job.space, _layout(job, device)
    scale = layout.width if layout.one_run else 1  # a run's indices are elements
    total = space.reduced if layout.one_run else layout.units
    numbers = [space.outputs, total, slices, _per_slice(layout, slices) * scale]
    numbers += [number for pair in (*space.kept, *layout.lost) for number in pair]
    context: dict[str, Any] = {
        "width": layout.width,
        "aligned": True,
        "counter": "uint" if job.source.size < 2**32 else "size_t",
        "kept": len(space.kept),
        "lost": len(layout.lost),
        "inner": "reduced" if space.inner_lost else "kept",
        "group": layout.group,
        "team": layout.team,
        "unroll": _UNROLL,
        "sliced": slices > 1,
    }
    groups = -(-layout.teams * slices // (layout.group // layout.team))
    return job.kernel(TEMPLATE, numbers, context, groups * layout.group, layout.group)
