"""Structured ops: Operator, its Implementations, and how one is chosen and run.

An Operator says what an op means (shape and dtype rule, NumPy reference,
backward); an Implementation says how one kind of device computes it. The core
picks, per device and shape, the implementation of highest priority whose
requirements hold.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core.autograd.engine import apply_op
from netcl_core.autograd.inline import NO_SLOTS, Slots
from netcl_core.autograd.mistakes import MISTAKES, names_an_op, raise_named
from netcl_core.autograd.thread import thread
from netcl_core.backends import backend_of
from netcl_core.device import Device
from netcl_core.device_table import default_device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import DeviceError, RegistrationError, message
from netcl_core.hostdata import check_dtype
from netcl_core.registry import registry, winner_of
from netcl_core.resolution import Choice, Decision, Offer, decide
from netcl_core.runtime.host import HostBound, HostCall
from netcl_core.runtime.kernels import Bound, Kernels, Spec
from netcl_core.tensors import Operand, Tensor

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
        owner = next(
            (row.provider for row in registry.op_rows(self.name) if row.record is self), UNKNOWN
        )
        return [
            Offer(owner, self.name, each.label, each.priority, each)
            for each in self.implementations
        ] + [
            Offer(row.provider, self.name, row.record.label, row.record.priority, row.record)
            for row in registry.rows("implementation", self.name)
        ]

    def decide(self, request: Request, chosen: Sequence[Choice] = ()) -> Decision:
        """Which implementation serves a request, by which rule, and why not the others."""
        return decide(
            self.name,
            self.offers(),
            chosen,
            lambda offer: (
                registry.limit(offer.provider, request.device) or offer.item.requires.unmet(request)
            ),
            registry.locked(self.name, request.device, request.output.dtype),
        )

    def select(self, request: Request, chosen: Sequence[Choice] = ()) -> Implementation:
        """The implementation for a request.

        Raises DeviceError that lists why each candidate is out, or AmbiguousOpError for
        a tie.
        """
        offers = self.offers()
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


@final
@dataclass(frozen=True, eq=False)
class Composite:
    """An op that is a Python function of other ops: its gradient follows from theirs."""

    name: str
    function: Callable[..., Any]
    doc: str = ""


@final
class OperatorPlan:
    """An operator prepared for one device, shapes, dtypes and attributes."""

    def __init__(self, operator: Operator, device: Device, specs: tuple[Any, ...], attrs: Attrs):
        self.operator = operator
        self.device = device
        self.specs = specs
        self.attrs = attrs
        self.output = operator.infer(*specs, **attrs)
        check_dtype(self.output.dtype, device)
        self.differentiable = operator.backward is not None and DTYPES[self.output.dtype].floating
        self.launches = device.backend == "opencl" and not operator.view and self.output.size > 0
        self._chosen = thread.chosen  # those in force when the plan is made, not when it runs
        self._bound: Bound | HostBound | None = None

    @property
    def request(self) -> Request:
        """What an implementation is asked for."""
        inputs = tuple(spec for spec in self.specs if spec is not None)
        return Request(self.operator.name, self.device, inputs, self.output, self.attrs)

    @property
    def implementation(self) -> Implementation:
        """The one that is chosen; raises as `Operator.select` does."""
        return self.operator.select(self.request, self._chosen)

    @property
    def bound(self) -> Bound | HostBound:
        """What runs the chosen implementation; made on first use."""
        if self._bound is None:
            request = self.request
            planned = self.implementation.plan(request)
            self._bound = (
                HostBound(self.device, planned, request.inputs, (self.output,))
                if isinstance(planned, HostCall)
                else Bound(self.device, planned, request.inputs, (self.output,))
            )
        return self._bound

    @property
    def launch_count(self) -> int:
        """How many kernels a run launches (a host call: none)."""
        bound = self.bound if self.launches else None
        return len(bound.kernels.launches) if isinstance(bound, Bound) else 0

    @property
    def sources(self) -> list[str]:
        """The rendered kernels, for readers."""
        bound = self.bound if self.launches else None
        if isinstance(bound, Bound):
            return [kernel.source for kernel in bound.kernels.launches]
        return []

    def run(self, *inputs: Tensor | None) -> Tensor:
        """The result for inputs of these shapes."""
        out, device = self.output, self.device
        present = [tensor for tensor in inputs if tensor is not None]
        if self.operator.view:
            return present[0].alias(out.shape)
        if device.backend == "numpy":
            return self._reference(inputs)
        buffer = backend_of(device).allocate(out.size, DTYPES[out.dtype])
        if self.launches:
            self.bound([tensor.buffer for tensor in present], [buffer])
        return Tensor(buffer, out.shape, out.dtype, device)

    def _reference(self, inputs: Sequence[Tensor | None]) -> Tensor:
        out = self.output
        arrays = [None if t is None else t.buffer.reshape(t.shape) for t in inputs]
        with np.errstate(all="ignore"):
            result = np.asarray(self.operator.reference(*arrays, **self.attrs))
        if result.shape != out.shape:
            raise RegistrationError(
                message(
                    self.operator.name,
                    f"its reference returned shape {result.shape}",
                    f"{out.shape}, as its shape rule says",
                )
            )
        flat = np.array(result, DTYPES[out.dtype].numpy, order="C").reshape(-1)
        return Tensor(flat, out.shape, out.dtype, self.device)


_PLANS: Final = 8192


def operator_function(operator: Operator) -> Callable[..., Any]:
    """The public function of an operator."""
    plans: dict[Any, OperatorPlan] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            inputs, attrs = operator.bind(*args, **kwargs)
            device = common_device(operator.name, inputs) or default_device()
            operands = [as_operand(x, device) for x in inputs]
            key = (
                device,
                tuple([None if x is None else (x.shape, x.dtype) for x in operands]),
                tuple(attrs.values()),
                thread.chosen,
            )
            made = plans.get(key)
            if made is None:
                specs = tuple(None if x is None else Spec(x.shape, x.dtype) for x in operands)
                if len(plans) >= _PLANS:
                    plans.clear()
                made = plans[key] = OperatorPlan(operator, device, specs, attrs)
        except MISTAKES as error:
            if names_an_op(error):
                raise
            raise_named(error, operator.name, operator.bind, args, kwargs)
        return apply_operator(made, operands)

    call.__name__ = call.__qualname__ = operator.name
    call.__doc__ = operator.doc
    functools.update_wrapper(call, operator.bind, assigned=("__annotations__",), updated=())
    return call


def apply_operator(made: OperatorPlan, operands: Sequence[Any]) -> Any:
    """Run a planned operator and record it."""
    run = OperatorRun(made, operands)
    return apply_op(
        run,
        run.gradients if made.differentiable else None,
        *operands,
        op_name=made.operator.name,
        attrs=dict(made.attrs),
        saves=made.operator.saves,
    )


@final
class OperatorRun:
    """One run of a planned operator: its forward, and the gradients from what it kept."""

    __slots__ = ("_operands", "_output", "made")

    def __init__(self, made: OperatorPlan, operands: Sequence[Any]) -> None:
        self.made = made
        self._operands = operands
        self._output: Tensor | None = None

    @property
    def result(self) -> Spec:
        """Shape and dtype of the result."""
        return self.made.output

    @property
    def device(self) -> Device:
        """Where it runs."""
        return self.made.device

    def __call__(self, *values: Tensor | None) -> Tensor:
        """The forward; raises if the values of an input cannot be used."""
        made = self.made
        if made.operator.check is not None:
            made.operator.check(values, made.attrs)
        self._output = made.run(*values)
        return self._output

    def gradients(self, grad: Tensor) -> Sequence[Any]:
        """The gradients of the inputs."""
        made = self.made
        assert made.operator.backward is not None  # it is differentiable
        assert self._output is not None  # the forward has run
        needs = tuple(isinstance(x, Operand) and x.requires_grad for x in self._operands)
        values = tuple(None if x is None else x.value for x in self._operands)
        return made.operator.backward(Saved(values, self._output, made.attrs, needs), grad)


def common_device(who: str, operands: Sequence[Any]) -> Device | None:
    """The device of all operands that have one; raises DeviceError if they differ."""
    device: Device | None = None
    for operand in operands:
        if isinstance(operand, Operand):
            own = operand.device
            if device is None:
                device = own
            elif own is not device:
                raise DeviceError(
                    message(
                        who,
                        f"operands on {device!r} and on {own!r}",
                        "all on one device",
                        f"Move one of them with .to('{device}')",
                    )
                )
    return device


def as_operand(value: Any, device: Device) -> Any:
    """A Node or Tensor as it is, None as None, host data as a Tensor on the device."""
    if value is None or isinstance(value, Operand):
        return value
    return Tensor.from_host(value, device)
