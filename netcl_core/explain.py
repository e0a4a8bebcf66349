"""Why: which provider and implementation of an op is used on a device, and why not the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from netcl_core.autograd.operators import Operator, Request
from netcl_core.autograd.ops import missing
from netcl_core.device import Device
from netcl_core.device_table import default_device, get_device
from netcl_core.registry import registry
from netcl_core.runtime.kernels import Spec


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to compute the op: who brings it, and whether it is used."""

    provider: str
    label: str
    priority: int
    chosen: bool
    reason: str


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """The candidates for an op on a device and in a dtype; `str` makes a readable text."""

    op: str
    device: str
    dtype: str
    candidates: tuple[Candidate, ...]

    def __str__(self) -> str:
        lines = [f"{self.op} in {self.dtype} on {self.device}"]
        for each in self.candidates:
            mark = "->" if each.chosen else "  "
            lines.append(f"{mark} {each.label} ({each.provider}, priority {each.priority}): "
                         f"{each.reason}")  # fmt: skip
        return "\n".join(lines)


def explain(
    op: str, device: str | Device | None, dtype: str, request: Request | None = None
) -> Explanation:
    """See `netcl_core.plugins.why`; with a request, its shapes count too."""
    row = registry.find_op(op)
    if row is None:
        raise missing(op)
    target = default_device() if device is None else get_device(device)
    candidates = [
        Candidate(each.provider, f"{each.kind} {each.record.name}", each.priority,
                  each is row, "highest priority" if each is row else "lower priority")
        for each in registry.op_rows(op)
    ]  # fmt: skip
    if isinstance(row.record, Operator):
        candidates += _implementations(row.record, row.provider, target, dtype, request)
    return Explanation(op, repr(target), dtype, tuple(candidates))


def _implementations(
    operator: Operator, provider: str, device: Device, dtype: str, exact: Request | None
) -> list[Candidate]:
    """The verdict on each implementation, without a request as far as it follows without shapes."""
    if device.backend == "numpy":
        reason = "the NumPy path computes every operator by its reference"
        return [Candidate(provider, "reference in NumPy", 0, True, reason)]
    request = exact or Request(operator.name, device, (), Spec((), dtype), {})
    found: list[tuple[Any, str, str | None]] = []
    for brought_by, each in operator.candidates():
        unmet = each.requires.unmet(request) if exact else each.requires.unmet_by_device(request)
        found.append((each, brought_by, unmet))
    fitting = [each.priority for each, _, unmet in found if unmet is None]
    best = max(fitting, default=None)
    return [
        Candidate(
            provider if brought_by == "with the operator" else brought_by,
            each.label,
            each.priority,
            unmet is None and each.priority == best,
            unmet or _verdict(each, best, exact is not None),
        )
        for each, brought_by, unmet in found
    ]


def _verdict(each: Any, best: int | None, exact: bool) -> str:
    if each.priority != best:
        return "fits, but another has a higher priority"
    if each.requires.reject is not None and not exact:
        return "highest priority, where the shapes suit it"
    return "highest priority of those that fit"
