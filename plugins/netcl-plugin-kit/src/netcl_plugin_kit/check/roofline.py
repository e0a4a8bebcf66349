"""Roofline: how fast an op's forward is beside a plain copy of as many bytes, in the same run.

An elementwise op can be no faster than its memory, so that a fraction near 1 is all there is to
gain. Sizes are drawn by a seed that the record keeps: no author has chosen them. An op fails that
is far slower than a copy and slower than NumPy, too.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from netcl_core import DTYPES, Device, Tensor, get_device, use_device
from netcl_core.autograd import no_grad
from netcl_core.errors import KernelFindingError
from netcl_core.inspect.recorded import cast_region, run_plan
from netcl_core.inspect.sources import Signature, plan
from netcl_core.inspect.streams import stream_of
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.findings import KINDS
from netcl_plugin_kit.testing.records import Outcome, Roofline
from netcl_plugin_kit.testing.running import Progress
from netcl_plugin_kit.testing.streams import recorded
from netcl_plugin_kit.timing import Clock, Timed, best_times

_DTYPE: Final = "float32"
#: Fewer elements than this tell the speed of launches, not of kernels.
ENOUGH: Final = 1_000_000
#: So many elements that caches hold none of them for the next round.
_ELEMENTS: Final = {"gpu": 1 << 24, "cpu": 1 << 22, "accelerator": 1 << 22}
#: Seconds that the rounds of one op and its copy take together; and if the verdict is close.
_BUDGET, _LONG = 0.1, 0.8
#: Below these parts of a copy's speed and of NumPy's an op is too slow, and how close is close.
_SLOW, _BEHIND, _CLOSE = 0.01, 0.5, 1.5
#: Seconds that a call may take, as calls with fewer elements foretell.
_TRIAL: Final = 3.0
_Shapes = list[tuple[int, ...]]


def rooflines(
    table: Table,
    devices: Sequence[Device],
    progress: Progress = lambda what, done, total: None,
    *,
    ops: Sequence[str] = (),
    seed: int | None = None,
    clock: Clock = time.perf_counter,
) -> list[Roofline]:
    """The fraction of a copy's speed of each op that has a case, on each OpenCL device.

    Inputs have a million elements and more where the op takes such. One that cannot run on a
    device in float32 has no figure. `seed` draws the sizes, and `clock` tells the time.
    """
    seed = random.randrange(1 << 32) if seed is None else seed
    first: dict[str, Case] = {}
    for case in table.cases:
        if _DTYPE in case.takes and (not ops or case.op in ops):
            first.setdefault(case.op, case)
    places = [each for each in devices if each.has_kernels and not each.simulator]
    measured: list[Roofline] = []
    for number, device in enumerate(places):
        for done, case in enumerate(first.values()):
            total = len(first) * len(places)
            progress(f"roofline: {case.op} on {device}", number * len(first) + done, total)
            measured += _measured(case, device, seed, clock)
    return measured


def verdicts(measured: Sequence[Roofline]) -> list[Outcome]:
    """What is too slow, and of what too little was measured to say."""
    return [outcome for roofline in measured if (outcome := _verdict(roofline)) is not None]


def _verdict(one: Roofline) -> Outcome | None:
    if one.elements < ENOUGH:
        reason = f"{one.elements:,} elements ({one.shapes}) are too few for a verdict"
        return Outcome("roofline", "skipped", one.op, one.device, one.dtype, reason)
    if one.fraction >= _SLOW or not 0 < one.reference < _BEHIND:
        return None
    items = f"{one.items:,} work-items" if one.items != 1 else "one work-item"
    text = (
        f"{items} for {one.elements:,} elements ({one.shapes}, seed {one.seed}): "
        f"{one.fraction:.2g} of a copy's speed, {1 / one.reference:.1f} times NumPy's time"
    )
    error = KernelFindingError("NC707", text)
    remedy = KINDS[error.code].remedy
    return Outcome("roofline", "failed", one.op, one.device, one.dtype, str(error), remedy)


def _measured(case: Case, device: Device, seed: int, clock: Clock) -> Iterator[Roofline]:
    try:
        with use_device(device), no_grad():
            arrays = _inputs(case, device, random.Random(f"{seed} {case}"), clock)
            tensors = [Tensor.from_host(array, device) for array in arrays]
            with recorded(device) as stream:
                result = case.run(*tensors)
            counted = [*tensors, result]
            nbytes = sum(tensor.size * DTYPES[tensor.dtype].itemsize for tensor in counted)
            if not nbytes:
                return
            functions = [lambda: case.run(*tensors), _copy(device, nbytes)]
            ours, copy = _best(functions, device, _BUDGET, clock)
            reference = _reference(case, arrays, clock) if copy / ours < _SLOW * _CLOSE else 0.0
            if reference and _close(copy / ours, reference / ours):
                ours, copy = _best(functions, device, _LONG, clock)
    except Exception:  # it lacks a dtype or an implementation, or is wrong, as the checks say
        return
    yield Roofline(
        case.op,
        device.id,
        _DTYPE,
        sum(tensor.size for tensor in counted),
        round(copy / ours, 6),
        round(reference / ours, 6),
        ", ".join("x".join(map(str, array.shape)) or "one" for array in arrays),
        seed,
        stream.items,
    )


def _close(fraction: float, reference: float) -> bool:
    """Whether a busy machine could have decided."""
    pairs = ((fraction, _SLOW), (reference, _BEHIND))
    return any(limit / _CLOSE < ratio < limit * _CLOSE for ratio, limit in pairs)


def _reference(case: Case, arrays: Sequence[Any], clock: Clock) -> float:
    """Seconds of the NumPy path."""
    device = get_device("numpy")
    with use_device(device), no_grad():
        tensors = [Tensor.from_host(array, device) for array in arrays]
        return _best([lambda: case.run(*tensors)], device, 0.0, clock)[0]


def _inputs(case: Case, device: Device, draw: random.Random, clock: Clock) -> list[Any]:
    """Large inputs, of sizes that are drawn; the largest of the case itself if it takes none."""
    if case.primitive is not None and not case.shapes:
        size = _ELEMENTS[device.kind] + draw.randrange(1, 4096, 2)
        return case.sample([(size,)] * len(case.inputs), _DTYPE)
    samples = [case.sample(shapes, _DTYPE) for shapes in case.variants]
    largest = max(samples, key=lambda arrays: sum(x.size for x in arrays))
    for size in _sizes([array.shape for array in largest], draw):
        many = _larger(largest, size, ENOUGH, draw.randrange(64))
        try:
            less, more = (
                _seconds(case, _larger(largest, size, ENOUGH // part, 0), device, clock)
                for part in (64, 16)
            )
            if more * (more / less) ** 2 < _TRIAL:  # as many times again, twice
                _seconds(case, many, device, clock)
                return list(case.sample(many, _DTYPE))
        except Exception:  # sizes that do not fit each other, or the op
            continue
    return list(largest)


def _seconds(case: Case, shapes: _Shapes, device: Device, clock: Clock) -> float:
    """How long the second of two calls takes: the first builds."""
    tensors = [Tensor.from_host(array, device) for array in case.sample(shapes, _DTYPE)]
    start = 0.0
    for _ in range(2):
        start = clock()
        case.run(*tensors)
        stream_of(device).finish()
    return clock() - start


def _sizes(shapes: Sequence[tuple[int, ...]], draw: random.Random) -> list[int]:
    """The sizes that may grow: those that few inputs have, and first axes, before all others."""
    sizes = sorted({size for shape in shapes for size in shape if size > 1})
    draw.shuffle(sizes)
    first = {shape[0] for shape in shapes[:1] if shape}
    return sorted(sizes, key=lambda size: (sum(size in x for x in shapes), size not in first))


def _larger(arrays: Sequence[Any], size: int, enough: int, more: int) -> _Shapes:
    """Shapes with another size for one wherever it stands, so that one has so many elements."""
    shapes = [array.shape for array in arrays]
    power = max(shape.count(size) for shape in shapes)
    rest = max(_product(x) / size**power for x in shapes if x.count(size) == power)
    wanted = max(size, int((enough / rest) ** (1 / power)) + 1 + more)
    return [tuple(wanted if x == size else x for x in shape) for shape in shapes]


def _product(shape: Sequence[int]) -> float:
    total = 1.0
    for size in shape:
        total *= max(size, 1)
    return total


def _copy(device: Device, nbytes: int) -> Callable[[], Any]:
    """A kernel that reads and writes as many bytes together.

    Not the runtime's own copy, which some do with one thread.
    """
    size = max(1, nbytes // (2 * DTYPES[_DTYPE].itemsize))
    source = Tensor.full((size,), 1, _DTYPE, device)
    copying = plan(cast_region(_DTYPE), device, Signature((((size,), _DTYPE),), ()))
    return lambda: run_plan(copying, [source], ())


def _best(
    functions: Sequence[Callable[[], Any]], device: Device, budget: float, clock: Clock
) -> list[float]:
    """The shortest time of each, measured in turn."""
    finish = stream_of(device).finish
    timed = {i: Timed(function, lambda _: finish(), False) for i, function in enumerate(functions)}
    best, failed = best_times(timed, budget, clock)
    for error in failed.values():
        raise error
    return [best[i] for i in range(len(functions))]
