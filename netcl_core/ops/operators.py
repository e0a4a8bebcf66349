"""Structured ops: Operator, its Implementations, and how one is chosen.

An Operator says what an op means (shape and dtype rule, NumPy reference,
backward); an Implementation says how one kind of device computes it. The core
picks, per device and shape, the implementation of highest priority whose
requirements hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeAlias, final
from weakref import WeakKeyDictionary

from netcl_core.codegen.inline import NO_SLOTS, Slots
from netcl_core.device.device import Device
from netcl_core.errors import DeviceError, message
from netcl_core.plugins.registry import registry, winner_of
from netcl_core.plugins.resolution import Choice, Decision, Offer, decide
from netcl_core.runtime.host_calls import HostCall
from netcl_core.runtime.kernels import Kernels, Spec
from netcl_core.tensors.tensor import Tensor

#: The provider of an operator's own implementations where the operator is not registered.
UNKNOWN: Final = "with the operator"
Attrs: TypeAlias = Mapping[str, Any]
Bind: TypeAlias = Callable[..., tuple[Sequence[Any], dict[str, Any]]]


@final
@dataclass(frozen=True, slots=True)
class Request:
    """What is to be computed where: all that an implementation may base its plan on.

    `slots` are neighbours to render into the kernel; there are some only for an
    implementation that offers them.
    """

    operator: str
    device: Device
    inputs: tuple[Spec, ...]
    output: Spec
    attrs: Attrs
    slots: Slots = NO_SLOTS


@final
@dataclass(frozen=True, slots=True)
class Requirements:
    """What an implementation needs; empty sets and None mean: anything.

    `reject` looks at the whole request and returns a reason against it, or None.
    """

    device_kinds: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    reject: Callable[[Request], str | None] | None = None

    def unmet(self, request: Request) -> str | None:
        """Why a request cannot be served, or None."""
        reason = self.unmet_by_device(request)
        return self.reject(request) if reason is None and self.reject is not None else reason

    def unmet_by_device(self, request: Request) -> str | None:
        """Why the device or the dtype of a request does not do, or None; shapes do not count."""
        reason = self.unmet_everywhere(request.device)
        dtype = request.output.dtype
        if reason is None and self.dtypes and dtype not in self.dtypes:
            return f"it computes {', '.join(self.dtypes)}, not {dtype}"
        return reason

    def unmet_everywhere(self, device: Device) -> str | None:
        """Why a device does not do for any request at all, or None."""
        if self.device_kinds and device.kind not in self.device_kinds:
            return f"it needs a {' or '.join(self.device_kinds)}, {device} is a {device.kind}"
        missing = [name for name in self.extensions if name not in device.extensions]
        return f"{device} lacks {', '.join(missing)}" if missing else None


@final
@dataclass(frozen=True, eq=False)
class Implementation:
    """One way to compute an operator on OpenCL devices.

    `plan(request)` returns the launches, or a HostCall; it is called once per device, shapes,
    dtypes and attributes, and never for an output without elements. An input without
    elements reaches a kernel as NULL.

    `prologue` and `epilogue` say whether its template calls `request.slots` where it reads
    input 0 (a floating one) and where it has computed an element of its floating output.
    `stretch` gives, of a request, how many contiguous elements a vector that it passes never
    leaves (the length of a line, say): neighbours may broadcast along them; without it they
    may not broadcast. With `rereads` it reads input 0 more than once: only
    what is cheap to compute again becomes its prologue.
    """

    operator: str
    label: str
    plan: Callable[[Request], Kernels | HostCall]
    requires: Requirements = field(default_factory=Requirements)
    priority: int = 0
    prologue: bool = False
    epilogue: bool = False
    stretch: Callable[[Request], int] | None = None
    rereads: bool = False

    @property
    def name(self) -> str:
        """The operator's name, under which the registry keeps it."""
        return self.operator


@final
@dataclass(frozen=True, slots=True)
class Saved:
    """What a backward may read: the op's inputs, its output, its attributes.

    `needs` says for each input whether its gradient is wanted.
    """

    inputs: tuple[Any, ...]
    output: Tensor
    attrs: Attrs
    needs: tuple[bool, ...]


@final
@dataclass(frozen=True, eq=False)
class Operator:
    """A structured op.

    Args:
        name: The op's name.
        bind: The public signature: `(*args, **kwargs) -> (inputs, attrs)`; `inputs` are the
            operands (None for an absent one), `attrs` hashable metadata.
        infer: `(*specs, **attrs) -> Spec`, the result's shape and dtype; raises
            ShapeError or DtypeError that names the op.
        reference: `(*arrays, **attrs) -> array`, the op in NumPy.
        backward: `(saved, grad) -> [gradient or None per input]`, computed with other ops;
            None: not differentiable.
        saves: Which inputs `backward` reads (default: all).
        check: `(inputs, attrs)`, called before each run: raises if the *values* of an input
            cannot be used (class indices out of range).
        implementations: Those that come with the operator.
        view: The result is the input's buffer in another shape; no kernel is launched.
        doc: A text for the documentation.
    """

    name: str
    bind: Bind
    infer: Callable[..., Spec]
    reference: Callable[..., Any]
    backward: Callable[[Saved, Tensor], Sequence[Any]] | None = None
    saves: Sequence[int] | None = None
    check: Callable[[Sequence[Any], Attrs], None] | None = None
    implementations: Sequence[Implementation] = ()
    view: bool = False
    doc: str = ""

    def offers(self) -> list[Offer]:
        """All implementations that are registered for this operator, with who brings each."""
        version, found = _offers.get(self, (-1, []))
        if version != registry.version:
            version, found = registry.version, self._offers()
            _offers[self] = version, found
        return found

    def _offers(self) -> list[Offer]:
        provider, owner = next(
            (
                (row.provider, row.owner)
                for row in registry.op_rows(self.name)
                if row.record is self
            ),
            (UNKNOWN, ""),
        )
        found = [(provider, each, owner) for each in self.implementations]
        found += [
            (row.provider, row.record, row.owner)
            for row in registry.rows("implementation", self.name)
        ]
        return [
            Offer(provider, self.name, each.label, each.priority, each, owner)
            for provider, each, owner in found
        ]

    def decide(self, request: Request, chosen: Sequence[Choice] = ()) -> Decision:
        """Which implementation serves a request, by which rule, and why not the others."""
        locked = registry.locked(self.name, request.device, request.output.dtype)
        return decide(self.name, self.offers(), chosen, partial(_unfit, request), locked)

    def select(self, request: Request, chosen: Sequence[Choice] = ()) -> Implementation:
        """The implementation for a request.

        Raises DeviceError that lists why each candidate is out, or AmbiguousOpError for
        a tie.
        """
        offers = self.offers()
        if not chosen:  # then one that is alone needs no rule
            fitting = [offer for offer in offers if _unfit(request, offer) is None]
            if len(fitting) == 1:
                return fitting[0].item  # type: ignore[no-any-return]  # an Implementation
        decision = self.decide(request, chosen)
        if decision.winner is None and not decision.tied:
            reasons = [
                f"{offer.label} ({offer.provider}): {verdict.removeprefix('dropped: ')}"
                for offer, verdict in zip(offers, decision.verdicts, strict=True)
            ]
            raise DeviceError(
                message(
                    self.name,
                    f"no implementation fits {request.output.dtype} on {request.device!r} "
                    f"(decided by {decision.rule})",
                    "one of: " + ("; ".join(reasons) or "none is registered"),
                    "Use the NumPy path with nc.use_device('cpu')",
                )
            )
        found: Implementation = winner_of(self.name, decision)
        return found


#: The offers of each operator, with the registry's version of them.
_offers: Final[WeakKeyDictionary[Operator, tuple[int, list[Offer]]]] = WeakKeyDictionary()


def _unfit(request: Request, offer: Offer) -> str | None:
    """Why an offered implementation cannot serve a request, or None."""
    limit = registry.limit(offer.owner, request.device)
    return limit or offer.item.requires.unmet(request)


@final
@dataclass(frozen=True, eq=False)
class Composite:
    """An op that is a Python function of other ops: its gradient follows from theirs."""

    name: str
    function: Callable[..., Any]
    doc: str = ""
