"""Runs structured ops: an Operator planned for shapes on a device, and its public function."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from netcl_core.device.device import Device
from netcl_core.device.device_table import default_device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import DeviceError, RegistrationError, message
from netcl_core.ops.mistakes import MISTAKES, names_an_op, raise_named
from netcl_core.ops.operators import Attrs, Implementation, Operator, Request, Saved
from netcl_core.runtime.host_calls import HostBound, HostCall
from netcl_core.runtime.kernels import Bound, Spec
from netcl_core.runtime.memo import Memo
from netcl_core.runtime.stream import stream_of
from netcl_core.tape.state import thread
from netcl_core.tape.tape import apply_op
from netcl_core.tensors.host_data import check_dtype
from netcl_core.tensors.tensor import Operand, Tensor

#: How many plans an op keeps: another one costs little more than to find it.
_PLANS: Final = 1024


@final
class OperatorPlan:
    """An operator prepared for one device, shapes, dtypes and attributes."""

    __slots__ = ("_bound", "_chosen", "attrs", "device", "differentiable", "launches", "operator",
                 "output", "specs")  # fmt: skip

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
            planned = self.operator.select(request, self._chosen).plan(request)
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
        return len(bound.launches) if isinstance(bound, Bound) else 0

    @property
    def sources(self) -> list[str]:
        """The rendered kernels, for readers."""
        bound = self.bound if self.launches else None
        if isinstance(bound, Bound):
            return [kernel.source for kernel in bound.launches]
        return []

    def run(self, *inputs: Tensor | None) -> Tensor:
        """The result for inputs of these shapes."""
        out, device = self.output, self.device
        present = [tensor for tensor in inputs if tensor is not None]
        if self.operator.view:
            return present[0].alias(out.shape)
        if device.backend == "numpy":
            return self._reference(inputs)
        buffer = stream_of(device).allocate(out.size, DTYPES[out.dtype])
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
        # What owns its memory is fresh, since the inputs are views here.
        copy = None if result.flags.owndata else True
        flat = np.array(result, DTYPES[out.dtype].numpy, order="C", copy=copy).reshape(-1)
        return Tensor(flat, out.shape, out.dtype, self.device)


def operator_function(operator: Operator) -> Callable[..., Any]:
    """The public function of an operator."""
    plans: Memo[Any, OperatorPlan] = Memo(_PLANS)

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
            made = plans.look(key)
            if made is None:
                specs = tuple(None if x is None else Spec(x.shape, x.dtype) for x in operands)
                made = plans.put(key, OperatorPlan(operator, device, specs, attrs))
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
