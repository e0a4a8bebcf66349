"""What an implementation says it will launch, and the bound form that runs it.

A `Kernel` is one launch of a template: entry point, template variables,
arguments and geometry. `Kernels` is a sequence of launches with the scratch
memory between them. `Bound` renders the templates and runs them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeAlias, final

from netcl_core.cache import Memo
from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, message
from netcl_core.hardware.device import Device
from netcl_core.hardware.programs import Recipe, Rewrite, SharedKernel, shared_kernel
from netcl_core.runtime import rendering
from netcl_core.runtime.geometry import Geometry
from netcl_core.runtime.memory import memory_of
from netcl_core.runtime.opencl_stream import (
    Asked,
    Launch,
    Packer,
    pack_all,
    packers_of,
)
from netcl_core.runtime.rendering import program
from netcl_core.runtime.stream import stream_of

#: ("in" | "out" | "scratch", index), ("zeros", 0), ("scalar", index), or
#: ("ulong" | "long" | "uint" | "int" | "float" | "double", number) or ("int16" | "long8", tuple)
Arg: TypeAlias = tuple[str, Any]
_BUFFERS = ("in", "out", "scratch", "zeros")
_RANK = {**dict.fromkeys(_BUFFERS, 0), "scalar": 1}  # all others, the constant numbers: 2

#: A launch, its buffers, and which of the call's scalars it takes.
_Step: TypeAlias = tuple[Launch, tuple[Arg, ...], tuple[int, ...]]
#: The same with what picks its buffers out of a list of all.
_Picking: TypeAlias = tuple[Launch, Callable[[Sequence[Any]], Sequence[Any]], tuple[int, ...]]
_BYTE: Final = DTYPES["uint8"]
#: The kernel, where in its arguments the scalars and the constant numbers begin, and what
#: packs the numbers.
_Lowered: TypeAlias = tuple[SharedKernel, int, int, Sequence[Packer]]
_lowerings: Final[Memo[Any, _Lowered]] = Memo(1024)


@final
@dataclass(frozen=True, slots=True)
class Spec:
    """The shape and dtype of a tensor.

    >>> x = nc.Spec((2, 3), "float32")
    >>> x.size, x.ndim
    (6, 2)
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)


@final
@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: in `args`, as in the kernel's parameters, buffers come first, then the
    scalars of each call, then constant numbers.

    >>> args = (("in", 0), ("out", 0), ("ulong", 8))
    >>> kernel = nc.Kernel("mine/copy.cl.j2", "copy", args, (8,))

    `template` is the name of the template, `entry` the name of the kernel in it, and `context` has
    the variables that the template is rendered with. `global_size` counts work-items and is a
    multiple of `local_size`. Without a local size a CPU gets groups of one item (it runs each on
    one core, in the kernel's own vectors), any other device what its driver chooses. `standard` is
    the OpenCL C that it is written in, as `-cl-std` names it; `rewrite` changes the program after
    the driver has compiled it. `screen` gets the rendered source, and gives that which is built, or
    raises an error. `in_place` has pairs of positions in `args`, of a buffer that is read and one
    that is written: both may be the same memory, so that a captured step which copies the second
    over the first can do without the copy.
    """

    template: str
    entry: str
    args: tuple[Arg, ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...] | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    standard: str = "CL1.2"
    rewrite: Rewrite | None = None
    screen: Callable[[str], str] | None = None
    in_place: tuple[tuple[int, int], ...] = ()

    def recipe_on(self, device: Device) -> Recipe:
        """How the program is made of the source for a device."""
        single = device.kind == "cpu" and math.prod(self.local_on(device) or ()) == 1
        return Recipe(self.standard, self.rewrite, single)

    @property
    def source(self) -> str:
        """The rendered OpenCL C."""
        text = program(self.template, entry=self.entry, **self.context)
        return text if self.screen is None else self.screen(text)

    def local_on(self, device: Device) -> tuple[int, ...] | None:
        """The local size on a device; None: its driver chooses."""
        if self.local_size is None and device.kind == "cpu":
            return (1,) * len(self.global_size)
        return self.local_size


@final
@dataclass(frozen=True, slots=True)
class Kernels:
    """Launches in order, and what they share: scratch buffers (sizes in bytes) and scalars.

    >>> sums = nc.Kernel("mine/sum.cl.j2", "sum", (("in", 0), ("scratch", 0)), (64,))
    >>> nc.Kernels((sums,), scratch=(256,)).scratch
    (256,)

    `scalars` are the OpenCL C types of the numbers that each call brings anew, so that
    a new value builds nothing. The argument `("zeros", 0)` is a buffer of `ZEROS_BYTES` that all
    launches of a device share: they find zeros there, and leave zeros. `layouts` say of the outputs
    where their elements lie (None: in C order), for a request that has layouts itself.
    """

    launches: tuple[Kernel, ...]
    scratch: tuple[int, ...] = ()
    scalars: tuple[str, ...] = ()
    layouts: tuple[Geometry | None, ...] = ()

    def then(self, others: Kernels, places: Mapping[Arg, Arg]) -> Kernels:
        """These launches and then others, whose buffers `places` replaces with those meant here.

        The others' scratch buffers follow the own ones, so that `("scratch", i)` as a
        replacement is one of these launches'.
        """
        own = len(self.scratch)
        moved = {("scratch", i): ("scratch", own + i) for i in range(len(others.scratch))}
        moved |= places
        launches = tuple(
            replace(launch, args=tuple(moved.get(arg, arg) for arg in launch.args))
            for launch in others.launches
        )
        scratch = self.scratch + others.scratch
        return replace(self, launches=self.launches + launches, scratch=scratch)


def _lowered(device: Device, kernel: Kernel) -> _Lowered:
    """What launches of one template, context and kinds of arguments have in common."""
    kinds = tuple([kind for kind, _ in kernel.args])
    rendered = rendering.key_of(kernel.template, kernel.context)
    if rendered is None:
        return _lower(device, kernel, kinds)
    recipe = kernel.recipe_on(device)
    key = (device, kernel.entry, kinds, rendering.edition(), rendered, recipe, kernel.screen)
    return _lowerings.get(key) or _lowerings.put(key, _lower(device, kernel, kinds))


def _lower(device: Device, kernel: Kernel, kinds: Sequence[str]) -> _Lowered:
    ranks = [_RANK.get(kind, 2) for kind in kinds]
    if ranks != sorted(ranks):
        expected = "buffers, then scalars, then numbers"
        raise ArgumentError(message(kernel.entry, "args out of order", expected))
    shared = shared_kernel(device, kernel.source, kernel.entry, kernel.recipe_on(device))
    numbers = len(ranks) - ranks.count(2)
    return shared, ranks.count(0), numbers, packers_of(kinds[numbers:], kernel.entry)


def _picker(numbers: Sequence[int]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes the items of these numbers out of a list."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda items: [items[i] for i in numbers]


@final
class Bound:
    """Kernels for tensors of given shapes on a device: call with input and output buffers.

    >>> nc.Bound(nc.default_device(), nc.Kernels(()), (), ()).launches
    []

    `kernels` are the launches of one call, `inputs` and `outputs` the Specs of its tensors.

    A tensor without elements has no buffer; a kernel gets NULL for it and must not read it.
    """

    __slots__ = (
        "_packers", "_picking", "_steps", "device", "layouts", "outputs", "scalars", "scratch",
        "zeros",
    )  # fmt: skip

    def __init__(
        self, device: Device, kernels: Kernels, inputs: Sequence[Spec], outputs: Sequence[Spec]
    ) -> None:
        self.device = device
        self.outputs = tuple(outputs)
        self.scratch = kernels.scratch
        self.layouts = kernels.layouts
        self.zeros = any(("zeros", 0) in kernel.args for kernel in kernels.launches)
        self.scalars = kernels.scalars
        who = kernels.launches[0].entry if kernels.launches else ""
        self._packers = packers_of(kernels.scalars, who)
        self._steps = tuple([self._step(kernel) for kernel in kernels.launches])
        self._picking: dict[tuple[int, int], list[_Picking]] = {}

    def _step(self, kernel: Kernel) -> _Step:
        args = kernel.args
        shared, scalars, numbers, packers = _lowered(self.device, kernel)
        packed = pack_all(args[numbers:], packers, kernel.entry)
        launch = Launch(shared, kernel.global_size, kernel.local_on(self.device), packed)
        launch.in_place = kernel.in_place
        wanted = () if scalars == numbers else tuple([i for _, i in args[scalars:numbers]])
        return launch, args[:scalars], wanted

    def _with_pickers(self, inputs: int, outputs: int) -> list[_Picking]:
        """The steps for a list of so many inputs, outputs, scratch buffers and the zeros."""
        sizes = {"in": inputs, "out": outputs, "scratch": len(self.scratch), "zeros": 1}
        first = dict(zip(sizes, itertools.accumulate(sizes.values(), initial=0), strict=False))
        steps = [
            (launch, _picker([first[kind] + i for kind, i in buffers]), wanted)
            for launch, buffers, wanted in self._steps
        ]
        self._picking[inputs, outputs] = steps
        return steps

    @property
    def launches(self) -> list[Launch]:
        """The launches in order."""
        return [launch for launch, _, _ in self._steps]

    def __call__(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        scalars: Sequence[Any] = (),
        again: Callable[[], Sequence[Any]] | None = None,
    ) -> None:
        """Enqueue all launches; `scalars` are this call's numbers, one per `Kernels.scalars`.

        Each replay of a capture asks `again` for those of then; without it they stay.
        """
        stream = stream_of(self.device)
        counts = len(inputs), len(outputs)
        steps = self._picking.get(counts) or self._with_pickers(*counts)
        memory = [*inputs, *outputs]
        if self.scratch:
            memory += [stream.allocate(max(1, n), _BYTE) for n in self.scratch]
        if self.zeros:
            memory.append(memory_of(self.device).zeros)
        if not self.scalars:
            for launch, pick, _ in steps:
                stream.launch(launch, pick(memory))
            return
        packed = self._packed(scalars)
        for launch, pick, wanted in steps:
            chosen: Sequence[bytes] = [packed[i] for i in wanted] if wanted else ()
            if again is not None:
                chosen = Asked(chosen, partial(self._asked, again, wanted))
            stream.launch(launch, pick(memory), chosen)

    def _packed(self, scalars: Sequence[Any]) -> list[bytes]:
        numbers = list(zip(self.scalars, scalars, strict=True))
        return pack_all(numbers, self._packers, self._steps[0][0].entry)

    def _asked(self, ask: Callable[[], Sequence[Any]], wanted: Sequence[int]) -> list[bytes]:
        packed = self._packed(ask())
        return [packed[i] for i in wanted]
