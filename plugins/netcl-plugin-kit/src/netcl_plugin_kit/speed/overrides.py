"""The check `speed`: an implementation beside the one that it goes before."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from netcl_core import Device, Tensor, use_device
from netcl_core.errors import UnfitError
from netcl_core.inspect.data import Array
from netcl_core.plugins.protocol import Offer, Row, registry
from netcl_plugin_kit.speed import records
from netcl_plugin_kit.speed.comparing import shapes_of
from netcl_plugin_kit.speed.racing import Contender, Raced, race
from netcl_plugin_kit.speed.serving import others_of, serving
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.findings import KINDS
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.running import Progress

#: By how much slower it may seem: that much two runs of one kernel differ on a busy machine.
_SLOWER: Final = 1.25
_DTYPE: Final = "float32"
#: Of how many of a case's shapes, the largest first.
_VARIANTS: Final = 2


def check_overrides(
    table: Table,
    devices: Sequence[Device],
    progress: Progress = lambda what, done, total: None,
) -> list[Outcome]:
    """Each implementation of another one's operator beside the best of the others.

    One outcome per op and device; one that goes before nothing that is faster passes, and its
    reason has the figures.
    """
    places = [each for each in devices if each.has_kernels and not each.simulator]
    outcomes: list[Outcome] = []
    for row, offer in overrides(table.provider):
        for device in places:
            progress(f"speed: {offer.label} of {offer.op} on {device}", 0, 1)
            start = time.perf_counter()
            state, reason, remedy = _judged(row, offer, table.cases_of(offer.op), device)
            seconds = round(time.perf_counter() - start, 3)
            outcomes.append(
                Outcome("speed", state, offer.op, device.id, _DTYPE, reason, remedy, seconds)
            )
    return outcomes


def overrides(provider: str) -> list[tuple[Row, Offer]]:
    """What a distribution offers for operators of others."""
    rows = [row for row in registry.rows("operator") if row.provider != provider]
    return [
        (row, offer)
        for row in rows
        for offer in row.record.offers()
        if offer.provider == provider and offer.item is not None
    ]


def _judged(row: Row, offer: Offer, cases: Sequence[Case], device: Device) -> Any:
    """State, reason and remedy."""
    lines: list[str] = []
    slower, unfused = "", ""
    for case, arrays in _samples(cases):
        other, raced = _beside(row, offer, case, arrays, device)
        if other is None:
            continue
        shapes = shapes_of(arrays)
        times = [
            (x.provider, x.label, y.seconds) for x, y in zip((other, offer), raced, strict=True)
        ]
        records.write(offer.op, device, _DTYPE, str(case), shapes, times)
        line = f"{case} of {shapes}: {raced[1].ratio:.2f} of the time of {other.label}"
        lines.append(f"{line} ({other.provider})")
        if offer.priority > other.priority:
            if raced[1].exceeds(_SLOWER):
                slower = slower or lines[-1]
            lost = _lost(offer.item, other.item)
            unfused = unfused or (f"no {lost}, as {other.label} has" if lost else "")
    for code, text in (("NC705", slower), ("NC706", unfused)):
        if text:
            told = "\n".join([f"{code}: {offer.label} on {device}: {text}", *lines])
            return "failed", told, KINDS[code].remedy.replace("OP", offer.op)
    if not lines:
        return "skipped", "nothing else computes what it takes", ""
    return "passed", "\n".join(lines), ""


def _lost(own: Any, other: Any) -> str:
    """The neighbours that one takes into its kernel and the other does not."""
    names = ("prologue", "epilogue")
    kept = [name for name in names if getattr(other, name, False) and not getattr(own, name)]
    return " and no ".join(kept)


def _samples(cases: Sequence[Case]) -> Iterator[tuple[Case, list[Array]]]:
    for case in cases:
        if _DTYPE not in case.takes:
            continue
        samples = [case.sample(shapes, _DTYPE) for shapes in case.variants]
        samples = [arrays for arrays in samples if all(array.size for array in arrays)]
        samples.sort(key=lambda arrays: -sum(array.size for array in arrays))
        for arrays in samples[:_VARIANTS]:
            yield case, arrays


def _beside(
    row: Row, offer: Offer, case: Case, arrays: Sequence[Array], device: Device
) -> tuple[Offer | None, Sequence[Raced]]:
    """The first of the others that takes a call, and both their times; None: neither does."""
    with use_device(device):
        own = contender(row, offer, case, arrays, device)
        if own is None:
            return None, ()
        for other in others_of(row, offer.provider):
            rival = contender(row, other, case, arrays, device)
            if rival is not None:
                return other, race([rival, own], device)
    return None, ()


def contender(
    row: Row, offer: Offer, case: Case, arrays: Sequence[Array], device: Device
) -> Contender | None:
    """A call of a case by one candidate; None if that refuses it."""
    tensors = [Tensor.from_host(array, device) for array in arrays]
    entry = Contender(lambda: case.run(*tensors), lambda: serving(row, offer))
    try:
        with entry.scope():
            entry.run()
    except UnfitError:
        return None
    return entry
