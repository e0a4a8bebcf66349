"""What may be tuned of pooling and resampling: lines and vectors on CPUs, groups on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from netcl_core import Spec
from netcl_core.autograd import Request, Requirements, Space

#: Who computes lines of results in vectors, and who a result per item.
CPU: Final = Requirements(device_kinds=("cpu",))
OTHERS: Final = Requirements(device_kinds=("gpu", "accelerator"))
#: Lanes that vectors may have.
LANES: Final = (16, 8, 4, 1)
#: Items of a work-group, and results of an item, on anything but a CPU.
_GROUPS: Final = (64, 1, 32, 128, 256)
_EACH: Final = (1, 2, 4)

#: A platform whose compiler ends the process at some vectors of halves, and their length.
_CRASHES: Final = "Portable Computing Language"
_HALVES: Final = 8

Named = Callable[[Request], str]


def crashes(request: Request, width: int) -> bool:
    """Whether a driver cannot build what takes vectors of so many elements."""
    halves = request.inputs[0].dtype == "float16" and width == _HALVES
    return halves and request.device.platform.startswith(_CRASHES)


def lines_space(
    results: tuple[int, ...], usual: int, widest: Callable[[Request], int], class_of: Named
) -> Space:
    """How many results an item of a CPU takes at least, and how many in a vector.

    Args:
        results: The numbers that may be tried.
        usual: The one among them that is taken untuned.
        widest: `(request) -> lanes` that a vector of its results may have at most.
        class_of: Which requests share a record.
    """

    def default(request: Request) -> dict[str, int]:
        width = widest(request)
        return {"results": usual, "width": 1 if crashes(request, width) else width}

    def fits(request: Request, settings: Mapping[str, Any]) -> str | None:
        most, width = widest(request), settings["width"]
        if crashes(request, width):
            return f"{_CRASHES} 3.1 crashes while it builds vectors of {width} halves"
        return f"vectors of {most} at most" if width > most else None

    return Space({"results": results, "width": LANES}, default, fits, class_of)


def items_space(class_of: Named) -> Space:
    """How many items a group has, and how many results an item computes, a group apart."""

    def default(request: Request) -> dict[str, int]:
        most = request.device.max_work_group_size
        return {"group": next(size for size in _GROUPS if size <= most), "each": 1}

    def fits(request: Request, settings: Mapping[str, Any]) -> str | None:
        most, device = request.device.max_work_group_size, request.device
        few = settings["group"] > most
        return f"groups of {settings['group']}, where {device} has {most}" if few else None

    return Space({"group": _GROUPS, "each": _EACH}, default, fits, class_of)


def in_groups(
    request: Request, results: int
) -> tuple[tuple[tuple[int], tuple[int]], dict[str, int]]:
    """The global and local size for so many results, and what the template has to know."""
    group, each = request.settings["group"], request.settings["each"]
    items = -(-results // (group * each)) * group
    return ((items,), (group,)), {"group": group, "each": each}


def sizes_of(spec: Spec) -> str:
    """A dtype and sizes, these rounded up to powers of two, as records of settings name them."""
    rounded = (1 << max(0, size - 1).bit_length() for size in spec.shape)
    return f"{spec.dtype}[{'x'.join(map(str, rounded))}]"
