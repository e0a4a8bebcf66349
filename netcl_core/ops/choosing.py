"""Ops that several plugins offer: `prefer`, and the function that asks at each call who serves.

Only such an op pays for the choice. Its function is the same object wherever it was
looked up, so that a choice also counts for what a program looked up long before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from netcl_core.errors import DeviceError, PluginError, coded, message
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device
from netcl_core.ops.operators import Operator
from netcl_core.plugins.kinds import SERVING_OPS
from netcl_core.plugins.registry import Row, registry, winner_of
from netcl_core.plugins.resolution import Choice, Decision, Offer, canonical, decide
from netcl_core.tape.held import held
from netcl_core.tape.state import Entries, thread
from netcl_core.tensors.tensor import Tensor


@final
class prefer:  # noqa: N801 - a function to its users, and a context manager
    """Let one plugin serve an op in this thread, whatever the priorities say.

    >>> provider = nc.plugins.why("gelu").candidates[0].provider
    >>> with nc.prefer(f"{provider}:gelu"):
    ...     y = ag.gelu(nc.tensor([0.0]))

    Args:
        choices: `<distribution>:<op>` each. A distribution that brings an operator, a primitive
            or only an implementation of somebody's operator can be chosen alike.

    Blocks nest, the innermost wins, and each is left again when an exception passes. A
    choice that cannot run on the device is an error and not a silent change of mind.

    Raises:
        PluginError: nobody of that name offers the op; where the block begins.
    """

    def __init__(self, *choices: str) -> None:
        self._choices = choices
        self._outer = Entries()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return held(lambda: self, "prefer", function)

    def __enter__(self) -> None:
        added = tuple(_choice(text) for text in self._choices)
        self._outer.push(thread.chosen)
        thread.chosen = (*added, *thread.chosen)

    def __exit__(self, *exc: object) -> None:
        thread.chosen = self._outer.restored(thread.chosen)


def _choice(text: str) -> Choice:
    distribution, _, op = text.partition(":")
    choice = (canonical(distribution.strip()), op.strip())
    registry.load(SERVING_OPS, choice[1])
    if not _is_offered(choice):
        registry.load()  # it may be of a part, of which no manifest tells
    if not _is_offered(choice):
        known = sorted({offer.id for offer in offers_of(choice[1])})
        expected = f"one of {', '.join(known)}" if known else "<distribution>:<op> of a known op"
        raise coded(
            "NP402",
            PluginError(
                message(
                    "prefer",
                    f"{text!r} is offered by no active plugin",
                    expected,
                    "netcl plugins why OP shows who offers an op",
                )
            ),
        )
    return choice


def _is_offered(choice: Choice) -> bool:
    return any(canonical(offer.provider) == choice[0] for offer in offers_of(choice[1]))


def offers_of(op: str) -> list[Offer]:
    """Everything that could serve an op, or a part of one, implementations included."""
    rows = registry.op_rows(op, parts=True)
    offers = [row.offer for row in rows]
    for row in rows:
        if isinstance(row.record, Operator):
            offers += row.record.offers()
    return offers


def unfit(offer: Offer, device: Device | None) -> str | None:
    """Why a device cannot run anything of a provider's record, or None."""
    if device is None or not device.has_kernels:  # NumPy runs every reference
        return None
    reason = registry.limit(offer.owner, device)
    record = offer.item.record
    if reason is not None or not isinstance(record, Operator) or _runs_anywhere(record):
        return reason
    reasons = [
        (offered.label, offered.item.requires.unmet_everywhere(device))
        for offered in record.offers()
    ]
    if any(reason is None for _, reason in reasons):
        return None
    return (
        "; ".join(f"{label}: {reason}" for label, reason in reasons) or "it has no implementation"
    )


def resolve(
    op: str, offers: Sequence[Offer], device: Device | None, chosen: Sequence[Choice]
) -> Decision:
    """Which provider's record (the offers' items are rows) serves an op on a device."""
    locked = registry.locked(op, device)
    return decide(op, offers, chosen, lambda offer: unfit(offer, device), locked)


def contested(
    op: str, rows: Sequence[Row], function_of: Callable[[Row], Callable[..., Any]]
) -> Callable[..., Any]:
    """The public function of an op that several providers offer.

    Raises AmbiguousOpError at once for a tie that no device would break.
    """
    by_device = any(row.owner in registry.limits or _is_limited(row.record) for row in rows)
    by_device |= registry.choices is not None and registry.choices.knows(op)
    served: dict[Any, Callable[..., Any]] = {}

    def serving(device: Device | None) -> Callable[..., Any]:
        key = (device, thread.chosen)
        function = served.get(key)
        if function is None:
            decision = resolve(op, [row.offer for row in rows], device, thread.chosen)
            if decision.winner is None and not decision.tied:
                raise _nobody(op, rows, decision, device)
            function = served[key] = function_of(winner_of(op, decision))
        return function

    if not by_device:
        serving(None)

    def call(*args: Any, **kwargs: Any) -> Any:
        device = _device_of((*args, *kwargs.values())) or default_device() if by_device else None
        return serving(device)(*args, **kwargs)

    call.__name__ = call.__qualname__ = op
    call.__doc__ = f"The op {op}, which {' and '.join(sorted(row.id for row in rows))} offer."
    return call


def _is_limited(record: Any) -> bool:
    """Whether there may be devices on which no implementation of an operator runs."""
    if not isinstance(record, Operator) or _runs_anywhere(record):
        return False
    requirements = [offer.item.requires for offer in record.offers()]
    return all(
        requirement.device_kinds or requirement.extensions or requirement.compiles
        for requirement in requirements
    )


def _runs_anywhere(record: Operator) -> bool:
    """Whether an operator needs no implementation."""
    return record.view is not None or record.function is not None


def _device_of(values: Iterable[Any]) -> Device | None:
    for value in values:
        if isinstance(value, Tensor):
            return value.device
        if isinstance(value, (list, tuple)):
            device = _device_of(value)
            if device is not None:
                return device
    return None


def _nobody(op: str, rows: Iterable[Row], decision: Decision, device: Device | None) -> DeviceError:
    reasons = [
        f"{row.id}: {text}" for row, text in zip(rows, decision.verdicts, strict=True)
    ]  # fmt: skip
    return DeviceError(
        message(
            op,
            f"no plugin that offers it can run it on {device!r}: {'; '.join(reasons)}",
            "one that can",
            "Use the NumPy path with nc.use_device('numpy')",
        )
    )
