"""All candidates of an op beside each other on one device: what `netcl plugins bench` prints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES, Device, Tensor, default_device, get_device, use_device
from netcl_core.autograd import Operator
from netcl_core.cli import print_json, print_table
from netcl_core.errors import ArgumentError, UnfitError, message
from netcl_core.inspect.choices import functions, missing
from netcl_core.inspect.data import Array
from netcl_core.plugins.protocol import Offer, Row, registry
from netcl_plugin_kit.bars import progress_bar
from netcl_plugin_kit.shapes import attribute, specs
from netcl_plugin_kit.speed import records
from netcl_plugin_kit.speed.racing import Contender, Raced, race
from netcl_plugin_kit.speed.serving import served_by_the_rules, serving
from netcl_plugin_kit.testing.collection import table_of
from netcl_plugin_kit.testing.samples import in_dtype, normal

_WHO: Final = "plugins bench"
_MICRO: Final = 1e6


@final
@dataclass(frozen=True, slots=True)
class TimedCall:
    """What is timed: the op on tensors of some arrays; `name` is its case's, or its attributes."""

    name: str
    arrays: Sequence[Array]
    run: Callable[..., Any]

    @property
    def shapes(self) -> str:
        """Those of the inputs, as `--shapes` takes them."""
        return shapes_of(self.arrays)

    def __str__(self) -> str:
        return f"{self.name} of {self.shapes}" if self.name else self.shapes


@final
@dataclass(frozen=True, slots=True)
class TimedCandidate:
    """One of those that could compute a call; without seconds it refuses."""

    provider: str
    label: str
    priority: int
    used: bool
    seconds: float | None = None
    ratio: float | None = None
    refused: str = ""


@final
@dataclass(frozen=True, slots=True)
class Measured:
    """The candidates of some calls of an op on a device, measured in one run."""

    op: str
    device: Device
    dtype: str
    calls: Sequence[tuple[TimedCall, Sequence[TimedCandidate]]]


def show(
    op: str,
    shapes: str | None,
    attrs: Sequence[str],
    dtype: str,
    device: str | None,
    as_json: bool,
) -> int:
    """Print the candidates of an op with their times; 1 if there is none that can compute it."""
    measurement = measured(op, shapes, attrs, dtype, device)
    if as_json:
        print_json(data_of(measurement))
    else:
        print_measured(measurement)
    return 0 if any(x.seconds is not None for _, all_ in measurement.calls for x in all_) else 1


def measured(
    op: str, shapes: str | None, attrs: Sequence[str], dtype: str, device: str | None
) -> Measured:
    """Time the candidates of an op in turn; what came of it is recorded, too."""
    row = _row(op)
    place = default_device() if device is None else get_device(device)
    if not place.has_kernels:
        given = "the NumPy path, on which an op is its reference"
        raise ArgumentError(message(_WHO, given, "an OpenCL device"))
    named = dict(attribute(_WHO, attr) for attr in attrs)
    calls: list[tuple[TimedCall, Sequence[TimedCandidate]]] = []
    with use_device(place), progress_bar() as told:
        wanted = list(_calls(op, shapes, named, dtype))
        for number, call in enumerate(wanted):
            told(f"{op}: {call}", number, len(wanted))
            calls.append((call, compared(row, call, place)))
    for call, candidates in calls:
        times = [(x.provider, x.label, x.seconds) for x in candidates if x.seconds]
        records.write(op, place, dtype, call.name, call.shapes, times)
    return Measured(op, place, dtype, calls)


def data_of(measurement: Measured) -> dict[str, Any]:
    """What was measured, for JSON."""
    calls = [
        {"inputs": str(c), "candidates": [asdict(x) for x in all_]} for c, all_ in measurement.calls
    ]
    return {
        "op": measurement.op,
        "device": measurement.device.id,
        "dtype": measurement.dtype,
        "calls": calls,
    }


def _row(op: str) -> Row:
    row = registry.find_op(op)
    if row is None:
        raise missing(op)
    if not isinstance(row.record, Operator):
        given = f"{op} is one C expression, which has no implementations"
        raise ArgumentError(message(_WHO, given, "a structured op, such as softmax"))
    return row


def _calls(op: str, shapes: str | None, attrs: dict[str, Any], dtype: str) -> Iterator[TimedCall]:
    if shapes is not None:
        arrays = [_random(spec.shape, spec.dtype) for spec in specs(_WHO, shapes, dtype)]
        yield TimedCall(_named(attrs), arrays, lambda *given: functions[op](*given, **attrs))
        return
    providers = sorted({row.provider for row in registry.op_rows(op)})
    cases = [case for provider in providers for case in table_of(provider).cases_of(op)]
    for case in cases:
        if dtype in case.takes:
            samples = [case.sample(variant, dtype) for variant in case.variants]
            arrays = max(samples, key=lambda given: sum(x.size for x in given))
            yield TimedCall(str(case), arrays, case.run)


def _random(shape: tuple[int, ...], dtype: str) -> Array:
    """Normal numbers, or zeros, which are an index of anything."""
    if not DTYPES[dtype].floating:
        return np.zeros(shape, DTYPES[dtype].numpy)
    return in_dtype(normal()(np.random.default_rng(0), shape), dtype)


def _named(attrs: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in attrs.items())


def shapes_of(arrays: Sequence[Array]) -> str:
    """The shapes of some arrays, as `--shapes` takes them."""
    return ",".join("x".join(map(str, array.shape)) or "()" for array in arrays)


def compared(row: Row, call: TimedCall, device: Device) -> list[TimedCandidate]:
    """The candidates of a call, the one that serves by the rules first, then the fastest."""
    tensors = [Tensor.from_host(array, device) for array in call.arrays]

    def run() -> Any:
        return call.run(*tensors)

    refused: list[TimedCandidate] = []
    fitting: list[Offer] = []
    for offer in row.record.offers():
        try:
            with serving(row, offer):
                run()
        except UnfitError as error:
            ((_, _, reason),) = error.refusals
            refused.append(_candidate(offer, refused=reason))
        else:
            fitting.append(offer)
    if not fitting:
        return refused
    used = served_by_the_rules(row, run)[0]
    fitting.sort(key=lambda offer: offer.item is not used)  # ratios are to the first
    raced = race([Contender(run, partial(serving, row, offer)) for offer in fitting], device)
    candidates = [
        _candidate(offer, speed, used=i == 0)
        for i, (offer, speed) in enumerate(zip(fitting, raced, strict=True))
    ]
    return [candidates[0], *sorted(candidates[1:], key=lambda each: each.seconds or 0.0), *refused]


def _candidate(
    offer: Offer, raced: Raced | None = None, *, used: bool = False, refused: str = ""
) -> TimedCandidate:
    return TimedCandidate(
        offer.provider,
        offer.label,
        offer.priority,
        used,
        None if raced is None else raced.seconds,
        None if raced is None else round(raced.ratio, 3),
        refused,
    )


def print_measured(measurement: Measured) -> None:
    """A table for each call."""
    for number, (call, candidates) in enumerate(measurement.calls):
        print(f"{chr(10) if number else ''}{measurement.op} on {measurement.device.id}: {call}")
        rows = [
            (
                "*" if candidate.used else "",
                candidate.label,
                candidate.provider,
                str(candidate.priority),
                "" if candidate.seconds is None else f"{_MICRO * candidate.seconds:.1f}",
                "" if candidate.ratio is None else f"{candidate.ratio:.2f}",
                candidate.refused,
            )
            for candidate in candidates
        ]
        header = ("", "candidate", "distribution", "priority", "us", "ratio", "refuses")
        print_table(header, rows, ("candidate", "distribution", "refuses"))
