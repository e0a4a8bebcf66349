"""Implementations: how one kind of device computes an op.

A `Request` is all that an implementation plans from; `Requirements` say which requests it takes;
`Saved` is what a backward finds of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from netcl_core.codegen.inline import NO_SLOTS, Slots
from netcl_core.device.device import Device
from netcl_core.errors import MutationError, message
from netcl_core.runtime.host_calls import HostCall
from netcl_core.runtime.kernels import Kernels, Spec

Attrs: TypeAlias = Mapping[str, Any]


@final
@dataclass(frozen=True, slots=True)
class Request:
    """What is to be computed where: all that an implementation may base its plan on.

    >>> x = nc.Spec((2, 3), "float32")
    >>> request = ag.Request("total", nc.get_device("cpu"), (x,), (nc.Spec((2,), "float32"),), {})
    >>> request.inputs[0].shape, request.output.shape
    ((2, 3), (2,))

    Attributes:
        operator: The op's name.
        device: Where.
        inputs: The operands that are there, in order: a kernel's `("in", i)`.
        outputs: The results, `("out", i)`; the residuals follow them where `keep` asks for these.
        attrs: The metadata, as `bind` gave it.
        given: Of each operand that `bind` gave, whether it is there (not None).
        keep: Whether the residuals are to be written too: somebody will compute gradients.
        slots: Neighbours to render into the kernel; there are some only for an implementation
            that offers them.
    """

    operator: str
    device: Device
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    attrs: Attrs
    given: tuple[bool, ...] = ()
    keep: bool = False
    slots: Slots = NO_SLOTS

    @property
    def output(self) -> Spec:
        """The first result, for most the only one."""
        return self.outputs[0]


@final
@dataclass(frozen=True, slots=True)
class Requirements:
    """What an implementation needs; empty sets and None mean: anything.

    >>> needs = ag.Requirements(device_kinds=("gpu",), dtypes=("float32",))
    >>> needs.unmet_everywhere(nc.get_device("cpu"))
    'it needs a gpu, cpu is a cpu'

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

    >>> def plan(request):
    ...     args = (("in", 0), ("out", 0), ("ulong", request.output.size))
    ...     return nc.Kernels((nc.Kernel("mine/copy.cl.j2", "copy", args, (request.output.size,)),))
    >>> one_pass = ag.Implementation("layer_norm", "one pass", plan, priority=1)
    >>> one_pass.requires.unmet_everywhere(nc.default_device())

    Its kernels get contiguous buffers in C order, of the shapes and dtypes in the request. Inputs
    are read only, and one buffer may be two of them; outputs (and residuals, where `keep` asks for
    these) share memory with nothing, and every element of them is written.

    Args:
        operator: The name of anybody's operator.
        label: Its own name, for readers: "tree reduction".
        plan: `(request) -> Kernels`, the launches, or a HostCall. It is called once per device,
            shapes, dtypes and attributes, and never for outputs without elements. An input without
            elements reaches a kernel as NULL.
        requires: What it needs; a request that does not fit goes to the next one.
        priority: The highest that fits serves.
        prologue, epilogue: Whether its template calls `request.slots` where it reads input 0 (a
            floating one), and where it has computed an element of its only, floating output.
        stretch: `(request) -> int`, how many contiguous elements a vector that it passes never
            leaves (the length of a line, say): neighbours may broadcast along them. None: they
            may not broadcast.
        rereads: It reads input 0 more than once: only what is cheap to compute again becomes its
            prologue.
        backward: `(saved, *grads) -> [gradient or None per operand]`, gradients of its own in the
            place of the operator's.
        residuals: With a `backward` of its own, `(request) -> (Spec, ...)`: what the kernels write
            after the outputs for it alone, such as row statistics; `saved.residuals` holds them.
        parts: Operators and primitives that this `backward` alone uses, as of an Operator.
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
    backward: Callable[..., Sequence[Any]] | None = None
    residuals: Callable[[Request], tuple[Spec, ...]] | None = None
    parts: Sequence[Any] = ()

    @property
    def name(self) -> str:
        """The operator's name, under which the registry keeps it."""
        return self.operator


@final
@dataclass(frozen=True, slots=True)
class Saved:
    """What a backward may read.

    >>> x, y = nc.tensor([1.0, 2.0]), nc.tensor([1.0, 4.0])
    >>> saved = ag.Saved("power", (x,), (y,), {"p": 2}, (True,))
    >>> saved.output is y, saved.attrs["p"], saved.needs
    (True, 2, (True,))

    The tensors are those of the call, and others hold them, too: none may be written to. What
    `saves` leaves out may have been changed since, and only its shape and dtype count.

    Attributes:
        operator: The op's name.
        inputs: The operands as Tensors, None for an absent one.
        results: The results as they were kept; to be read as `outputs`.
        attrs: The metadata.
        needs: For each operand whether its gradient is wanted.
        residuals: What was kept for the backward alone.
    """

    operator: str
    inputs: tuple[Any, ...]
    results: tuple[Any, ...]
    attrs: Attrs
    needs: tuple[bool, ...]
    residuals: tuple[Any, ...] = ()

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The results; raises MutationError if one was changed in place since."""
        for each in self.results:
            if each.version:  # that of a tensor that nobody has changed is 0
                given = f"a result of shape {each.shape} was changed in place"
                remedy = "Call backward before the change, or change a copy"
                who = f"backward of {self.operator}"
                raise MutationError(message(who, given, "results as they were", remedy))
        return self.results

    @property
    def output(self) -> Any:
        """The first result, for most the only one."""
        return self.outputs[0]
