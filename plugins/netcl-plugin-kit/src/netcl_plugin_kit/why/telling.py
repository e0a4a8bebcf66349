"""What `netcl plugins why` prints: the candidates of a name, the rules, and measured speed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from netcl_market.tables import print_text

from netcl_core import Device, default_device, dtype_name, get_device, use_device
from netcl_core.autograd import Operator
from netcl_core.cli import print_json, print_table
from netcl_core.errors import MissingOpError
from netcl_core.inspect.recorded import OperatorCall
from netcl_core.plugins.protocol import decision_on, registry
from netcl_plugin_kit.shapes import attribute, specs
from netcl_plugin_kit.speed import records
from netcl_plugin_kit.speed.records import SpeedRecord
from netcl_plugin_kit.testing.forcing import noted_calls
from netcl_plugin_kit.testing.op_runs import has_space, run_op
from netcl_plugin_kit.why.decisions import Explanation, of_offers, why

_WHO: Final = "plugins why"
#: So many calls, the latest, are shown of an op.
_MOST: Final = 8
_MICRO: Final = 1e6


def show(
    op: str,
    device: str | None,
    dtype: str,
    shapes: str | None,
    attrs: Sequence[str],
    as_json: bool,
) -> int:
    """Print each candidate for a name and the rules that decided; 1 if nobody serves it."""
    dtype = dtype_name(dtype, "--dtype")
    given = [] if shapes is None else specs(_WHO, shapes, dtype)
    named = dict(attribute(_WHO, attr) for attr in attrs)
    place = default_device() if device is None else get_device(device)
    try:
        said = why(op, *given, device=place, dtype=dtype, attrs=named)
    except MissingOpError as error:
        offers, decision = decision_on(op)
        if not offers:
            print(f"netcl: {error}", file=sys.stderr)
            return 1
        said = of_offers(op, offers, decision)
    if shapes is not None and not said.settings:
        said = replace(said, settings=_settings_of_parts(op, place, shapes, dtype, named))
    records_of_speed = _measured(said, place, dtype, shapes)
    if as_json:
        print_json(_data(said, records_of_speed))
    else:
        _print(said, records_of_speed, place)
    return 0 if said.decided else 1


def _measured(
    said: Explanation, device: Device, dtype: str, shapes: str | None
) -> list[SpeedRecord]:
    """The records of an op's candidates; where shapes are given, of those."""
    if not _has_rivals(said):
        return []
    measured = records.of(said.op, device, dtype)
    if shapes is not None:
        wanted = ",".join(part.strip().partition(":")[0] for part in shapes.split(","))
        measured = [speed for speed in measured if speed.shapes == wanted]
    return measured


def _has_rivals(said: Explanation) -> bool:
    """Whether several implementations offer to compute it: then speed is worth a look."""
    return sum(candidate.implementation for candidate in said.candidates) > 1


def _data(said: Explanation, speeds: Sequence[SpeedRecord]) -> dict[str, Any]:
    names = ("provider", "label", "priority", "chosen", "reason")
    candidates = [{name: getattr(one, name) for name in names} for one in said.candidates]
    data: dict[str, Any] = {"op": said.op, "device": said.device, "dtype": said.dtype}
    data |= {"candidates": candidates, "rules": list(said.rules)}
    measured = [
        {**asdict(speed), "times": [asdict(one) for one in speed.times]} for speed in speeds
    ]
    return {**data, "settings": list(said.settings), "measured": measured}


def _print(said: Explanation, speeds: Sequence[SpeedRecord], device: Device) -> None:
    print(f"{said.title}\n")
    rows = [
        ("->" if one.chosen else "", one.label, one.provider, str(one.priority), one.reason)
        for one in said.candidates
    ]
    print_table(("", "candidate", "from", "priority", "verdict"), rows, ("verdict",))
    print()
    for rule in dict.fromkeys(said.rules):
        print(f"rule: {rule}")
    for line in said.settings:
        print_text(line)
    if speeds:
        print()
        _print_speed(speeds)
    elif _has_rivals(said) and device.has_kernels:
        print_text(f"speed: not measured here; `netcl plugins bench {said.op}` measures it")


def _print_speed(speeds: Sequence[SpeedRecord]) -> None:
    """A row for each call: the microseconds of each candidate."""
    labels = list(dict.fromkeys(one.label for speed in speeds for one in speed.times))
    rows = [
        (speed.shapes, *_row(speed, labels), speed.call, speed.date) for speed in speeds[:_MOST]
    ]
    header = ("measured", *(f"{label}, us" for label in labels), "call", "date")
    print_table(header, rows, ("measured", "call"))
    if len(speeds) > _MOST:
        print(f"and {len(speeds) - _MOST} more: --json shows all, --shapes those of some shapes")


def _row(record: SpeedRecord, labels: Sequence[str]) -> Iterator[str]:
    taken = {speed.label: f"{_MICRO * speed.seconds:.1f}" for speed in record.times}
    return (taken.get(label, "") for label in labels)


# -- settings of parts -------------------------------------------------------------------


def _settings_of_parts(
    op: str, device: Device, shapes: str, dtype: str, attrs: Mapping[str, Any]
) -> tuple[str, ...]:
    """A line for each part with settings that the op and its gradients use for these shapes.

    None for an op that is no function of others, or whose parts have no settings.
    """
    row = registry.find_op(op)
    record = None if row is None else row.record
    if not isinstance(record, Operator) or record.function is None or not has_space(record):
        return ()
    with use_device(device), noted_calls() as calls:
        run_op(_WHO, op, shapes, dtype, attrs)
    return tuple(dict.fromkeys(line for call in calls for line in _decided(call)))


def _decided(call: OperatorCall) -> Iterator[str]:
    own = call.implementation
    yield f"settings of {own.operator}, {own.label}: {call.decided}"
    yield from (f"ignored: {reason}" for reason in call.decided.ignored)
