"""OperatorCall: a structured op prepared for shapes and a device, as a call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, final

from netcl_core.cache import Memo
from netcl_core.dtypes import DTYPES
from netcl_core.errors import DeviceError, PluginError, message
from netcl_core.hardware.device import Device
from netcl_core.ops.implementations import Attrs, Implementation, Request, Saved
from netcl_core.ops.operators import OTHERS, Operator, several
from netcl_core.ops.references import by_reference
from netcl_core.ops.residuals import give_away, is_given_away
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
from netcl_core.tape.apply import Layouts, Needs, result_nodes
from netcl_core.tape.gradients import checked, no_second_derivative, refuse_unrecorded, whole
from netcl_core.tape.node import Node
from netcl_core.tape.recorded_gradients import recomputed_gradients
from netcl_core.tape.state import thread
from netcl_core.tape.unread import Unread
from netcl_core.tensors.host_data import check_dtype
from netcl_core.tensors.tensor import Tensor, View

#: For so many layouts of its operands a call is kept.
_LAYOUTS: Final = 64


@final
class OperatorCall:
    """An operator for one device, shapes, dtypes and attributes, as a call (see `apply.Call`).

    Attributes:
        specs: Shape and dtype of each operand, None for an absent one.
        present: The numbers of the operands that are there: the call's inputs.
        decided: The implementation's settings, once it is chosen.
        results_of: Gives the results for other operands, where the operator has no rule.
        tuner: Who may try other settings when it runs next; None almost always.
    """

    __slots__ = (
        "_bound", "_implementation", "_lines", "_places", "_reading", "_rule", "attrs", "chosen",
        "decided", "device", "known", "launches", "layouts", "name", "operator", "packs",
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
        self._reading: Memo[Layouts, OperatorCall] | None = None
        self.known: dict[Needs, Any] = {}
        self.chosen = thread.chosen  # those in force when the call is made, not when it runs
        self._implementation: Implementation | None = None
        self.decided: ChosenSettings = UNDECIDED
        self.tuner: FirstUse | None = None
        self._bound: dict[bool, Bound | HostBound] = {}
        self._lines: list[Any] = [None, None]
        self._rule: tuple[Callable[..., Sequence[Any]] | None] | None = None

    def resized(self, specs: tuple[Spec | None, ...]) -> OperatorCall | None:
        """The call for operands of other sizes; None if another implementation serves there."""
        results = None if self.results_of is None else self.results_of(specs, self.attrs)
        if results is None and self.operator.infer is None:
            return None
        call = OperatorCall(self.operator, self.device, specs, self.attrs, results)
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

    def reading(self, layouts: Layouts) -> OperatorCall:
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

    def _reading_by(self, own: Implementation, reads: Any, layouts: Layouts) -> OperatorCall:
        try:
            read = reads(replace(self.request, layouts=layouts))
        except Exception as error:
            self._tell(error, f"{self.operator.source_of(own)} was asked what it reads")
            raise
        kept = tuple([layout if yes else None for layout, yes in zip(layouts, read, strict=True)])
        if not any(kept):
            return self
        common = (self.operator, self.device, self.specs, self.attrs, self.results)
        call = OperatorCall(*common, kept)
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
        rooms, results, bound = line
        device = self.device
        allocate = stream_of(device).allocate
        buffers = [allocate(size, dtype) for size, dtype in rooms]
        bound([x.memory for x in inputs], buffers)
        if len(buffers) == 1:
            ((shape, dtype),) = results
            return [Tensor(buffers[0], shape, dtype, device)]
        return [
            Tensor(buffer, shape, dtype, device)
            for buffer, (shape, dtype) in zip(buffers, results, strict=True)
        ]

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
                placed = [(spec.shape, DTYPES[spec.dtype].name) for spec in specs]
                self._lines[keep] = rooms, placed, bound
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

    # -- gradients -----------------------------------------------------------------------

    def rule(self) -> Callable[..., Sequence[Any]] | None:
        """The implementation's own backward, else the operator's, else its decomposition's."""
        if self._rule is None:
            self._rule = (self._found_rule(),)
        return self._rule[0]

    def _found_rule(self) -> Callable[..., Sequence[Any]] | None:
        own = self.implementation.backward if self.launches else None
        if own is not None or self.operator.backward is not None:
            return own or self.operator.backward
        return self._decomposed if self.operator.function is not None else None

    def flows(self, needs: Needs) -> Needs:
        """Of each result, whether its gradient reaches an input that needs one."""
        reached = True in needs and self.rule() is not None
        return tuple([reached and DTYPES[spec.dtype].floating for spec in self.results])

    def saves(self, needs: Needs) -> tuple[int, ...]:
        """Which inputs must not change: those that the gradients read, and all where a residual
        may be given away as a gradient, since a second pass computes it again."""
        inputs = self.request.inputs
        again = any(spec in inputs for spec in self.residuals)
        return tuple(range(len(inputs))) if again else self.reads(needs)

    def reads(self, needs: Needs) -> tuple[int, ...]:
        """Which inputs the gradients read."""
        rule = self.rule()
        saves: Sequence[int] | None = None
        if self.launches and rule is self.implementation.backward:
            asked = self.implementation.saves
            wanted = [bool(operand) for operand in self.operands(needs)]
            saves = None if asked is None else asked(self.request, wanted)
        elif rule is self.operator.backward:
            saves = self.operator.saves
        return tuple([k for k, i in enumerate(self.present) if saves is None or i in saves])

    def unread(self, needs: Needs) -> Unread:
        """What neither the gradients read nor gradients of these, by the operator's backward."""
        operator, rule = self.operator, self.rule()
        operands, results = {*self.saves(needs)}, set[int]()
        for record in (self.implementation if self.launches else operator, operator):
            if record.backward is not None and (record is operator or record.backward is rule):
                every = range(len(self.results))
                results.update(every if record.saves_results is None else record.saves_results)
        if operator.backward is None and operator.function is not None:
            operands.update(range(len(needs)))  # it is computed again
        elif operator.backward is not rule:
            read = operator.saves
            operands.update(k for k, i in enumerate(self.present) if read is None or i in read)
        return (
            tuple([k for k in range(len(needs)) if k not in operands]),
            tuple([i for i in range(len(self.results)) if i not in results]),
        )

    @property
    def adds(self) -> bool:
        """Whether gradients may be added to the inputs' sums so far."""
        return self.launches and self.implementation.adds

    def gradients(
        self, node: Node, grads: Sequence[Any], needs: Needs, held: Sequence[Any] = ()
    ) -> list[Any]:
        """The gradients of the inputs; `held` are the sums that they may be added to."""
        values = [x.value for x in node.inputs]
        return self.gradients_from(values, node.kept, grads, needs, held)

    def gradients_from(
        self,
        inputs: Sequence[Any],
        kept: Sequence[Any],
        grads: Sequence[Any],
        needs: Needs,
        held: Sequence[Any] = (),
    ) -> list[Any]:
        """The same from what the gradients read: the inputs, and the results with residuals."""
        backward = self.rule()
        assert backward is not None  # else nothing flows
        given = [grad if grad is None or type(grad) is Tensor else whole(grad) for grad in grads]
        again = is_given_away(kept)
        kept_now = self._computed(inputs, True) if again else kept
        saved = self._saved(inputs, kept_now, needs, held)
        try:
            parts = checked(self.name, backward(saved, *given), self.operands(inputs))
        except Exception as error:
            self._tell_gradients(error)
            raise
        if not again:
            give_away(kept, len(self.results), saved.residuals, parts)
        return [parts[i] for i in self.present]

    def _saved(
        self, inputs: Sequence[Any], kept: Sequence[Any], needs: Needs, held: Sequence[Any] = ()
    ) -> Saved:
        count = len(self.results)
        if len(self.present) < len(self.specs):
            inputs, needs = self.operands(inputs), tuple(map(bool, self.operands(needs)))
            held = self.operands(held) if held else ()
        return Saved(
            self.name,
            tuple(inputs),
            kept[:count],
            self.attrs,
            needs,
            tuple(kept[count:]) if len(kept) > count else (),
            tuple(held),
        )

    def _tell_gradients(self, error: Exception) -> None:
        own = self.implementation if self.launches and self.implementation.backward else None
        self._tell(error, f"{self.operator.source_of(own)} computed gradients")

    def recorded_gradients(self, node: Node, grads: Sequence[Any], needs: Needs) -> list[Any]:
        """The same by the operator's backward or its function, whose ops are recorded.

        An implementation's own backward is for speed, and serves where there is neither. What is
        kept for a backward alone has no graph, so that one which reads it cannot serve.
        """
        inputs = self.operands(node.inputs)
        if self.operator.backward is None and self.operator.function is not None:
            wanted = [bool(operand) for operand in self.operands(needs)]
            parts = recomputed_gradients(self._again, inputs, grads, wanted, record=True)
            return [parts[i] for i in self.present]
        backward = self._differentiable_rule()
        results = result_nodes(node, node.kept[: len(self.results)])
        try:
            gradients = backward(self._saved(node.inputs, results, needs), *grads)
            parts = checked(self.name, gradients, inputs, recorded=True)
            refuse_unrecorded(self.name, parts, (*grads, *node.inputs))
        except Exception as error:
            self._tell_gradients(error)
            raise
        return [parts[i] for i in self.present]

    def _differentiable_rule(self) -> Callable[..., Sequence[Any]]:
        operator = self.operator
        own = None if operator.backward is not None else self.implementation
        backward = operator.backward if own is None else own.backward
        if (operator.residuals if own is None else own.residuals) is not None:
            raise no_second_derivative(self.name, "its gradient reads what is kept for it alone")
        assert backward is not None  # else nothing flows
        return backward

    def _decomposed(self, saved: Saved, *grads: Any) -> list[Any]:
        """Gradients by the operator's own function, computed again."""
        return recomputed_gradients(self._again, saved.inputs, grads, saved.needs, record=False)

    def _again(self, *operands: Any) -> Any:
        """The results by the operator's own function."""
        return self.operator.decomposed(operands, self.attrs)


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
    call = OperatorCall(operator, device, operands, attrs)
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
