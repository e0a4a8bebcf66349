"""Implementations: how one kind of device computes an op.

A `Request` is all that an implementation plans from; `Requirements` say which requests it takes;
a `Space` what may be tried to make it faster; `Slots` what is computed in its kernels besides what
it is there for; `Saved` is what a backward finds of the call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

from netcl_core.errors import RegistrationError, coded, message
from netcl_core.hardware import programs
from netcl_core.hardware.device import Device
from netcl_core.hardware.programs import Recipe, Rewrite
from netcl_core.runtime.geometry import Geometry
from netcl_core.runtime.host_calls import HostCall
from netcl_core.runtime.kernels import Arg, Kernels, Spec
from netcl_core.runtime.rendering import program
from netcl_core.tape.gradients import unchanged

Attrs: TypeAlias = Mapping[str, Any]
#: A value for each name of a space's choices; nobody may change it.
Settings: TypeAlias = Mapping[str, Any]
NO_SETTINGS: Final[Settings] = MappingProxyType({})


class Slots:
    """What an implementation renders into its kernel: nothing, unless a plugin fills them.

    >>> ag.NO_SLOTS.prologue is None, ag.NO_SLOTS.args([("in", 0)], [("ulong", 3)])
    (True, (('in', 0), ('ulong', 3)))

    Attributes:
        prologue: What computes the elements of input 0; None: they are read.
        epilogue: What works on the elements of output 0; None: they are written.
        scalars: The compute types of the numbers of each call, whether a kernel reads them or not.
    """

    prologue: Any = None
    epilogue: Any = None
    scalars: Any = ()

    def context(self, width: int, aligned: bool = False) -> dict[str, Any]:
        """What a template needs.

        `slot_functions` stand above the kernel, `slot_buffers` and `slot_numbers` in its
        parameter list after its own buffers; `prologue` and `epilogue` (None: the kernel
        reads in0 and writes out0 itself) have `call(width, index, value)`, and so has each of the
        functions, by its name.
        """
        nothing = {"slot_functions": "", "slot_buffers": (), "slot_numbers": ()}
        return {**nothing, "prologue": None, "epilogue": None}

    def args(self, buffers: Sequence[Arg], numbers: Sequence[Arg]) -> tuple[Arg, ...]:
        """A kernel's arguments: its own buffers, those of the slots, the slots' and its numbers.

        Of its own buffers the input that the prologue replaces and the output that the
        epilogue writes are left out.
        """
        return (*buffers, *numbers)

    def split(self) -> tuple[Slots, Slots]:
        """Those of a first launch, with the prologue, and of a last one, with the epilogue."""
        return self, self


NO_SLOTS: Final = Slots()


@final
@dataclass(frozen=True, slots=True)
class Request:
    """What is to be computed where: all that an implementation may base its plan on.

    >>> x = nc.Spec((2, 3), "float32")
    >>> request = ag.Request("total", nc.get_device("numpy"), (x,), (nc.Spec((2,), "float32"),), {})
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
        settings: A value for each name of the implementation's `space`, from a record or its
            default; empty for an implementation without one, and while one is being chosen.
        layouts: Of each input the strides and the offset to read it by, where the implementation
            `reads` such; None, or no entries at all: in C order from the start of its buffer.
    """

    operator: str
    device: Device
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    attrs: Attrs
    given: tuple[bool, ...] = ()
    keep: bool = False
    slots: Slots = NO_SLOTS
    settings: Settings = field(default_factory=lambda: NO_SETTINGS)
    layouts: tuple[Geometry | None, ...] = ()

    def layout(self, i: int) -> Geometry | None:
        """Where the elements of input i lie in its buffer; None: in C order from its start."""
        return self.layouts[i] if self.layouts else None

    @property
    def output(self) -> Spec:
        """The first result, for most the only one."""
        return self.outputs[0]


@final
@dataclass(frozen=True, slots=True)
class Requirements:
    """What an implementation needs; empty sets and None mean: anything.

    >>> needs = ag.Requirements(device_kinds=("gpu",), dtypes=("float32",))
    >>> needs.unmet_everywhere(nc.get_device("numpy"))
    'it needs a gpu, numpy is a cpu'

    Args:
        device_kinds: "gpu", "cpu" or "accelerator".
        dtypes: The dtypes that the first result may have.
        extensions: What the device advertises, such as "cl_khr_fp64".
        compiles: A template, rendered without variables, that the device's compiler has to take:
            for what no extension tells, such as instructions of one vendor. It is compiled once
            for each device and driver, and only where all else fits.
        standard: The OpenCL C of that template, as `-cl-std` names it.
        rewrite: What is done to that program then, and has to succeed, too.
        reject: `(request) -> reason or None`: looks at the whole request.
    """

    device_kinds: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    reject: Callable[[Request], str | None] | None = None
    compiles: str = ""
    standard: str = "CL1.2"
    rewrite: Rewrite | None = None

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
        if missing:
            return f"{device} lacks {', '.join(missing)}"
        return self._uncompiled(device) if self.compiles else None

    def _uncompiled(self, device: Device) -> str | None:
        """What the device's compiler says against the template, or None."""
        if not device.has_kernels:
            return f"it needs OpenCL, {device} is NumPy"
        if device.cl_device is None:  # to plan for; nothing runs on it
            return None
        recipe = Recipe(self.standard, self.rewrite)
        said = programs.refusal(device, program(self.compiles), self.compiles, recipe)
        what = f"{self.compiles} as {self.standard}"
        return f"{device} does not compile {what}: {said}" if said else None


@final
@dataclass(frozen=True, eq=False)
class Space:
    """What of an implementation may be tried on a device: names, and the values of each.

    >>> space = ag.Space(
    ...     choices={"rows": (1, 2, 4, 8), "wide": (4, 8)},
    ...     default=lambda request: {"rows": 4, "wide": 8 if request.output.size > 4096 else 4})
    >>> len(space.combinations)
    8

    A plan reads `request.settings["rows"]`. Every combination gives the same results, except for
    rounding; `netcl tune` measures which is fastest on a device, and keeps a record of it.

    Args:
        choices: Name -> the values that may be tried: whole numbers, finite floats, texts, bools.
        default: `(request) -> {name: value}`, good values for the device and these shapes, chosen
            without any measurement. They are among the choices, and fit.
        fits: `(request, settings) -> reason or None`: why a combination cannot run, such as too
            little local memory. Without it all can.
        shape_class: `(request) -> text`: which requests share a record. Without it: requests
            of equal dtypes and ranks whose sizes round up to the same powers of two.
    """

    choices: Mapping[str, Sequence[Any]]
    default: Callable[[Request], Settings]
    fits: Callable[[Request, Settings], str | None] | None = None
    shape_class: Callable[[Request], str] | None = None

    @property
    def combinations(self) -> list[Settings]:
        """All combinations, those that fit no request among them."""
        rows = itertools.product(*self.choices.values())
        return [MappingProxyType(dict(zip(self.choices, row, strict=True))) for row in rows]

    def fault(self, settings: Any) -> str:
        """Why something is no value for each name of the choices; empty: it is."""
        if not isinstance(settings, Mapping):
            return f"{settings!r} is no mapping of names to values"
        if settings.keys() != self.choices.keys():
            given = ", ".join(map(str, settings)) or "no name"
            return f"{given} instead of {', '.join(self.choices)}"
        for name, values in self.choices.items():
            if not any(_same(settings[name], value) for value in values):
                return f"{name}={settings[name]!r} is not among {', '.join(map(repr, values))}"
        return ""

    def refuse_wrong(self, who: str) -> None:
        """Raise RegistrationError, which says what is wrong, unless all can be used."""
        fault = self._wrong()
        if fault:
            expected = "names, each with values of which any may be tried"
            raise coded("NP308", RegistrationError(message(f"the space of {who}", fault, expected)))

    def _wrong(self) -> str:
        if not isinstance(self.choices, Mapping) or not self.choices:
            return "it has no choices"
        for name, values in self.choices.items():
            fault = _wrong_values(values)
            if not isinstance(name, str) or not name.isidentifier():
                return f"the name {name!r} among its choices is no identifier"
            if fault:
                return f"{name} {fault}"
        for part in ("default", "fits", "shape_class"):
            given = getattr(self, part)
            if not callable(given) and (given is not None or part == "default"):
                return f"{part}={given!r} is no function of a request"
        return ""


def _wrong_values(values: Any) -> str:
    """What is wrong with the values of one name; empty: nothing."""
    if not isinstance(values, (list, tuple, range)) or not values:
        return "has no values"
    for i, value in enumerate(values):
        if type(value) not in (bool, int, float, str) or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            return f"has the value {value!r}, which a record cannot hold"
        if value in values[:i]:
            return f"has the value {value!r} twice"
    return ""


def _same(given: Any, value: Any) -> bool:
    """Whether a value is the one meant: True is not 1, as a template may tell them apart."""
    return type(given) is type(value) and bool(given == value)


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
    that it `reads` as they lie are an exception: of these it gets the whole memory, with the
    geometry in `request.layouts`. Inputs are read only, and one buffer may be two of them. Outputs
    (and residuals, where `keep` asks for these) share memory with nothing, and every element of
    them is written.

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
        saves: With a `backward` of its own, `(request, needs) -> (i, ...)`: which operands it reads
            (default: all) where `needs` says of each operand whether its gradient is wanted.
        saves_results: Which results it reads (default: all), as of an Operator.
        adds: Whether its own `backward` looks at `saved.held`, and gives an `ag.Added` for what it
            has added to that.
        reads: `(request) -> (bool, ...)`: which inputs its kernels read as they lie, where
            `request.layouts` has strides. Of all others it gets copies in C order. Such a plan may
            also say in `Kernels.layouts` where it puts the elements of its outputs.
        parts: Operators and primitives that this `backward` alone uses, as of an Operator.
        space: What may be tried to make it faster; the functions above but `requires` find one
            combination as `request.settings`.

    A residual that a `backward` returns as a gradient, as it is, is given away: the walk may write
    to it, and a second pass over the same graph runs the kernels again. See `ag.is_one`.
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
    saves: Callable[[Request, Sequence[bool]], Sequence[int]] | None = None
    saves_results: Sequence[int] | None = None
    reads: Callable[[Request], Sequence[bool]] | None = None
    adds: bool = False
    parts: Sequence[Any] = ()
    space: Space | None = None

    def __post_init__(self) -> None:
        if self.space is not None:
            self.space.refuse_wrong(f"{self.operator}: {self.label}")

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

    These are the call's own tensors, and others hold them, too: none may be written to. What
    `saves` and `saves_results` leave out may have been changed since, or freed, and only its shape
    and dtype count.

    Attributes:
        operator: The op's name.
        inputs: The operands as Tensors, None for an absent one.
        results: The results as they were kept; to be read as `outputs`.
        attrs: The metadata.
        needs: For each operand whether its gradient is wanted.
        residuals: What was kept for the backward alone.
        held: For each operand the sum of its gradients so far, where this one may be added to it
            by the kernel that computes it; None where there is none. Empty: nowhere.
    """

    operator: str
    inputs: tuple[Any, ...]
    results: Sequence[Any]
    attrs: Attrs
    needs: tuple[bool, ...]
    residuals: tuple[Any, ...] = ()
    held: tuple[Any, ...] = ()

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The results; raises MutationError if one was changed in place since."""
        return unchanged(self.operator, self.results)

    @property
    def output(self) -> Any:
        """The first result, for most the only one."""
        return self.outputs[0]
