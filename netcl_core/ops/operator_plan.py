"""OperatorPlan: a structured op for shapes and a device: what serves it, and how it runs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, Self

from netcl_core.cache import Memo
from netcl_core.dtypes import DTYPES
from netcl_core.errors import DeviceError, PluginError, message
from netcl_core.hardware.device import Device
from netcl_core.ops.implementations import Attrs, Implementation, Request
from netcl_core.ops.operators import OTHERS, Operator, several
from netcl_core.ops.references import by_reference
from netcl_core.ops.tuning import (
    UNDECIDED,
    ChosenSettings,
    FirstUse,
    Offered,
    decide_settings,
    tuner_for,
)
from netcl_core.ops.view_rules import listed
from netcl_core.runtime.geometry import Geometry, dense
from netcl_core.runtime.host_calls import HostBound, HostCall
from netcl_core.runtime.kernels import Bound, Kernels, Spec
from netcl_core.runtime.opencl_stream import Launch
from netcl_core.runtime.recording import check_data
from netcl_core.runtime.stream import stream_of
from netcl_core.tape.apply import Layouts, Needs
from netcl_core.tape.state import thread
from netcl_core.tensors.host_data import check_dtype
from netcl_core.tensors.tensor import Tensor, View

#: For so many layouts of its operands a call is kept.
_LAYOUTS: Final = 64
_memory: Final = attrgetter("memory")


class OperatorPlan:
    """An operator for one device, shapes, dtypes and attributes: a call but for its gradients.

    Attributes:
        specs: Shape and dtype of each operand, None for an absent one.
        present: The numbers of the operands that are there: the call's inputs.
        decided: The implementation's settings, once it is chosen.
        results_of: Gives the results for other operands, where the operator has no rule.
        tuner: Who may try other settings when it runs next; None almost always.
    """

    __slots__ = (
        "_bound", "_implementation", "_lines", "_places", "_reading", "attrs", "chosen", "decided",
        "device", "known", "launches", "layouts", "name", "operator", "packs",
        "present", "results", "results_of", "specs", "tuner", "view",
    )  # fmt: skip

    keeps = True
    at_result = False

    def __init__(
        self,
        operator: Operator,
        device: Device,
        specs: tuple[Spec | None, ...],
        attrs: Attrs,
        results: tuple[Spec, ...] | None = None,
        layouts: Layouts = (),
    ) -> None:
        self.operator = operator
        self.name = operator.name
        self.device = device
        self.specs = specs
        self.attrs = attrs
        if results is None:
            assert operator.infer is not None  # else the results are given
            results = several(operator.infer(*specs, **attrs))
        self.results = results
        self.results_of: Callable[..., tuple[Spec, ...] | None] | None = None
        for result in results:
            check_dtype(result.dtype, device)
        self.view = operator.view is not None
        self.packs = not self.view
        self.present = tuple([i for i, spec in enumerate(specs) if spec is not None])
        elements = any(result.size for result in results)
        self.launches = device.has_kernels and not self.view and elements
        self.layouts = layouts
        self._places: dict[Geometry | None, Any] = {}
        self._reading: Memo[Layouts, Self] | None = None
        self.known: dict[Needs, Any] = {}
        self.chosen = thread.chosen  # those in force when the call is made, not when it runs
        self._implementation: Implementation | None = None
        self.decided: ChosenSettings = UNDECIDED
        self.tuner: FirstUse | None = None
        self._bound: dict[bool, Bound | HostBound] = {}
        self._lines: list[Any] = [None, None]

    def resized(self, specs: tuple[Spec | None, ...]) -> Self | None:
        """The call for operands of other sizes; None if another implementation serves there."""
        results = None if self.results_of is None else self.results_of(specs, self.attrs)
        if results is None and self.operator.infer is None:
            return None
        call = type(self)(self.operator, self.device, specs, self.attrs, results)
        call.chosen, call.results_of = self.chosen, self.results_of
        served = call.launches == self.launches
        if not served or (call.launches and call.implementation is not self.implementation):
            return None
        return call

    # -- the implementation ------------------------------------------------------------

    @property
    def request(self) -> Request:
        """What an implementation is asked for."""
        inputs = tuple([spec for spec in self.specs if spec is not None])
        given = tuple([spec is not None for spec in self.specs])
        own, settings = (self.name, self.device, inputs, self.results), self.decided.settings
        return Request(*own, self.attrs, given, settings=settings, layouts=self.layouts)

    @property
    def implementation(self) -> Implementation:
        """The one that is chosen, found on first use; raises as `Operator.select` does."""
        return self._implementation or self._choose(self.request)

    def _choose(self, request: Request) -> Implementation:
        implementation = self.operator.select(request, self.chosen)
        assert implementation is not None  # who takes the operator's own function makes no call
        try:
            self.decided = decide_settings(self.operator, implementation, request)
        except Exception as error:
            self._tell(
                error, f"{self.operator.source_of(implementation)} was asked for its settings"
            )
            raise
        self.tuner = tuner_for(self.decided)
        self._implementation = implementation
        return implementation

    def reading(self, layouts: Layouts) -> Self:
        """The call for operands that lie so, as far as the implementation reads them so."""
        own = self.implementation if self.launches else None
        if own is None or own.reads is None:
            return self
        if self._reading is None:
            self._reading = Memo(_LAYOUTS)
        call = self._reading.get(layouts)
        if call is None:
            call = self._reading.put(layouts, self._reading_by(own, own.reads, layouts))
        return call

    def _reading_by(self, own: Implementation, reads: Any, layouts: Layouts) -> Self:
        try:
            read = reads(replace(self.request, layouts=layouts))
        except Exception as error:
            self._tell(error, f"{self.operator.source_of(own)} was asked what it reads")
            raise
        kept = tuple([layout if yes else None for layout, yes in zip(layouts, read, strict=True)])
        if not any(kept):
            return self
        common = (self.operator, self.device, self.specs, self.attrs, self.results)
        call = type(self)(*common, kept)
        call.chosen, call.decided, call._implementation = self.chosen, self.decided, own
        return call

    def bound(self, keep: bool) -> Bound | HostBound:
        """What runs the implementation; with `keep` it writes the residuals, too."""
        keep = keep and bool(self.residuals)
        bound = self._bound.get(keep)
        if bound is None:
            if self._implementation is None:
                self._choose(self.request)
            bound = self._bound[keep] = self.bound_for(self.request, keep)
        return bound

    def bound_for(self, request: Request, keep: bool) -> Bound | HostBound:
        """The same for this call's request with other settings."""
        kept = self._kept_by(self.implementation, request) if keep else ()
        request = replace(request, keep=True) if kept else request
        return self.prepared(request, self.results + kept)

    def prepared(self, request: Request, outputs: Sequence[Spec]) -> Bound | HostBound:
        """What runs the implementation's plan for a request; its errors tell whose it is."""
        try:
            planned: Any = self.implementation.plan(request)
            if isinstance(planned, HostCall):
                return HostBound(self.device, planned, request.inputs, outputs)
            if not isinstance(planned, Kernels):
                given = f"its plan gave a {type(planned).__name__}"
                raise PluginError(message(self.name, given, "Kernels or a HostCall"))
            if request.slots.scalars:
                planned = replace(planned, scalars=request.slots.scalars)
            return Bound(self.device, planned, request.inputs, outputs)
        except Exception as error:
            self._tell(error, f"{self.operator.source_of(self.implementation)} was planned")
            raise

    def _tell(self, error: Exception, what: str) -> None:
        """Note in an error of a plugin's code whose code it is, and how to do without it."""
        error.add_note(f"{self.name}: while {what}")
        error.add_note(OTHERS.format(op=self.name))

    @property
    def residuals(self) -> tuple[Spec, ...]:
        """What is written after the results for the gradients alone."""
        own = self.implementation if self.launches else None  # now chosen, with its settings
        return self._kept_by(own, self.request)

    def _kept_by(self, own: Implementation | None, request: Request) -> tuple[Spec, ...]:
        if own is None or own.backward is None:
            declared = self.operator.residuals
            return () if declared is None else several(declared(*self.specs, **self.attrs))
        if own.residuals is None:
            return ()
        try:
            return several(own.residuals(request))
        except Exception as error:
            self._tell(error, f"{self.operator.source_of(own)} was asked what it keeps")
            raise

    @property
    def launched(self) -> list[Launch]:
        """What a run launches; a host call and a view launch nothing."""
        bound = self.bound(False) if self.launches else None
        return bound.launches if isinstance(bound, Bound) else []

    # -- running -----------------------------------------------------------------------

    def offer(self, inputs: Sequence[Tensor], keep: bool) -> None:
        """Let the tuner meet this call, which is about to run."""
        assert self.tuner is not None  # else nobody offers it
        if self.tuner(Offered(self, inputs, keep)):
            self.tuner = None

    def run(self, inputs: Sequence[Tensor], scalars: Sequence[Any] = ()) -> Any:
        """The result, or a list of several; raises if the values of an input cannot be used."""
        if self.view:
            return self._viewed(inputs[0])
        results = self._computed(inputs, False)
        return results if len(self.results) > 1 else results[0]

    def run_keeping(self, inputs: Sequence[Tensor], scalars: Sequence[Any]) -> tuple[Any, Any]:
        """The same, and all results with the residuals behind them."""
        if self.view:
            values = self._viewed(inputs[0])
            return values, values if type(values) is list else [values]
        values = self._computed(inputs, True)
        count = len(self.results)
        return (values[:count] if count > 1 else values[0]), values

    def operands(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs with None for every absent operand."""
        if len(self.present) == len(self.specs):
            return list(inputs)
        operands: list[Any] = [None] * len(self.specs)
        for i, value in zip(self.present, inputs, strict=True):
            operands[i] = value
        return operands

    def _computed(self, inputs: Sequence[Tensor], keep: bool) -> list[Tensor]:
        if self.operator.check is not None:
            check_data(self.operator.check, self.operands(inputs), self.attrs)
        line = self._lines[keep]
        if line is None or self.tuner is not None:
            return self._in_general(inputs, keep)
        rooms, bound = line
        device = self.device
        allocate, results = stream_of(device).allocate, []
        for size, dtype, shape, name in rooms:
            results.append(Tensor(allocate(size, dtype), shape, name, device))
        bound([*map(_memory, inputs)], [*map(_memory, results)])
        return results

    def _in_general(self, inputs: Sequence[Tensor], keep: bool) -> list[Tensor]:
        """The results, with a tuner, by NumPy, or for the first time."""
        device = self.device
        if not device.has_kernels:
            specs = self.results + self.residuals
            return by_reference(self, inputs, specs)
        specs = self.results + (self.residuals if keep else ())
        rooms = [(spec.size, DTYPES[spec.dtype]) for spec in specs]
        allocate = stream_of(device).allocate
        buffers = [allocate(size, dtype) for size, dtype in rooms]
        layouts: Layouts = ()
        if self.launches:
            bound = self.bound(keep)
            if self.tuner is not None:
                self.offer(inputs, keep)
            bound([x.memory for x in inputs], buffers)
            if self.layouts and isinstance(bound, Bound):
                layouts = bound.layouts
            if not layouts:
                placed = [
                    (spec.shape, dtype.name) for spec, (_, dtype) in zip(specs, rooms, strict=True)
                ]
                self._lines[keep] = [(*x, *y) for x, y in zip(rooms, placed, strict=True)], bound
        rows = itertools.zip_longest(buffers, specs, layouts)
        return [_placed(buffer, spec, layout, device) for buffer, spec, layout in rows]

    def _viewed(self, x: Tensor) -> Any:
        """The result as a view, or a list of several; a copy where it can be none."""
        views = self._places.get(x.geometry, self)
        if views is self:
            views = self._placed(x.geometry or dense(x.shape))
            if len(self._places) >= _LAYOUTS:
                self._places.clear()
            self._places[x.geometry] = views
        if views is None:
            (spec,) = self.results
            return Tensor(x.duplicate().memory, spec.shape, spec.dtype, self.device)
        if len(views) == 1:
            return x.viewed(*views[0])
        return [x.viewed(place, in_order) for place, in_order in views]

    def _placed(self, given: Geometry) -> list[tuple[Geometry, bool]] | None:
        """Where each result of a view lies, and whether in C order; None: it has to be a copy."""
        assert self.operator.view is not None  # else it has kernels
        geometries = self.operator.view(given, **self.attrs)
        if geometries is None:
            return None
        return [(y, y == dense(y.shape)) for y in listed(geometries)]


def kernels_of(operator: Operator, *operands: Spec | None, device: Device, **attrs: Any) -> Kernels:
    """The launches of an op, for a plan of another op that contains them.

    The implementation and its settings are those that a call would get.

    >>> def plan(request):
    ...     args = (("in", 0), ("out", 0), ("ulong", request.output.size))
    ...     return nc.Kernels((nc.Kernel("mine/copy.cl.j2", "copy", args, (request.output.size,)),))
    >>> record = ag.composite(lambda x: x, ("x",), name="same", infer=lambda x: x,
    ...                       implementations=(ag.Implementation("same", "a copy", plan),))
    >>> if nc.default_device().has_kernels:  # not the NumPy path
    ...     kernels = ag.kernels_of(record, nc.Spec((2,), "float32"), device=nc.default_device())
    ...     assert kernels.launches[0].entry == "copy"

    Args:
        operator: The op.
        operands: Shape and dtype of each of its operands, None for an absent one.
        device: Where it runs.
        attrs: Its metadata.

    Raises DeviceError where no kernels serve it.
    """
    call = OperatorPlan(operator, device, operands, attrs)
    planned: Any = call.implementation.plan(call.request) if call.launches else None
    if isinstance(planned, Kernels):
        return planned
    given, expected = f"launches on {device!r}", "a device on which kernels serve it"
    raise DeviceError(message(operator.name, given, expected))


def _placed(buffer: Any, spec: Spec, layout: Geometry | None, device: Device) -> Tensor:
    """A result that lies in a buffer as a layout says; None: in C order."""
    if layout is None:
        return Tensor(buffer, spec.shape, spec.dtype, device)
    return View(buffer, layout, spec.dtype, device)
