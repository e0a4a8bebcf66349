"""Programs: what a recipe makes of a source on a device, kept in memory and on disk.

A recipe is the version of OpenCL C, whether each group is a single item, and a Rewrite or none.
Equal sources and entry points share a `SharedKernel`. It has a kernel object for each thread,
because an OpenCL kernel object holds its arguments: shared between threads, one would launch with
the buffers of another.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import get_ident
from typing import Any, Final, final

from netcl_core import cache
from netcl_core.cache import Memo
from netcl_core.errors import BuildError, first_line, message
from netcl_core.hardware import builders
from netcl_core.hardware.builders import builders_of
from netcl_core.hardware.device import Device, is_simulator, opencl_module

# -- rewrites: a step between the driver's compiler and the program ------------------------


@final
@dataclass(frozen=True, slots=True)
class Rewrite:
    """A function that changes a program after it was compiled, for `Kernel(rewrite=...)`.

    Some instructions are refused by a driver's OpenCL compiler and taken by what stands behind it:
    NVIDIA's targets `sm_90`, so that it knows no `wgmma`; but its binaries are PTX, in text, and it
    loads PTX for `sm_90a` as well. So a kernel carries such a line as a comment, and a Rewrite
    makes an instruction of it.

    >>> def unmarked(device, binary):  # on NVIDIA's devices, PTX
    ...     return binary.replace(b"//@@ ", b"").replace(b".target sm_90", b".target sm_90a")
    >>> print(nc.Rewrite("unmark", "1", unmarked))
    the rewriting step 'unmark' (version 1)

    It runs once for each source on a device: what comes out is kept on disk like any program.

    Args:
        name: What errors call it, and part of the name on disk.
        version: Another one for each change of the function: what was kept before is not used
            any more then.
        function: `(device, binary) -> bytes or str`: another binary, which the driver loads, or the
            source of another program, which it compiles.
    """

    name: str
    version: str
    function: Callable[[Device, bytes], bytes | str]

    def __str__(self) -> str:
        return f"the rewriting step {self.name!r} (version {self.version})"

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells its programs on disk from others of the same source."""
        return ("rewritten", self.name, self.version)


@final
class Rewriting:
    """A Rewrite on its way: what it made is known if the driver refuses it."""

    __slots__ = ("device", "made", "rewrite", "who")

    def __init__(self, rewrite: Rewrite, device: Device, who: str) -> None:
        self.rewrite = rewrite
        self.device = device
        self.who = who
        self.made: bytes | str | None = None

    def run(self, binary: bytes) -> bytes | str:
        """The function's result; raises BuildError with its name where it fails."""
        try:
            rewritten: Any = self.rewrite.function(self.device, binary)
        except Exception as error:
            raise self._failed(first_line(error)) from error
        if not isinstance(rewritten, (bytes, str)):
            raise self._failed(f"it gave a {type(rewritten).__name__}")
        self.made = rewritten
        return rewritten

    def _failed(self, what: str) -> BuildError:
        given = f"{self.rewrite} failed on {self.device!r}: {what}"
        return BuildError(message(self.who, given, "a binary (bytes) or a source (str)"))

    @property
    def text(self) -> str:
        """What it made, to be read."""
        if isinstance(self.made, bytes):
            return self.made.decode("utf-8", "replace")
        return self.made or ""


@final
@dataclass(frozen=True, slots=True)
class Recipe:
    """The version of OpenCL C, as `-cl-std` has it, and a Rewrite or none.

    `single`: its kernels run in groups of one item. Then the compiler is told that they compute in
    vectors of their own; Intel's for CPUs takes twice as long where it also makes a form that
    computes several items at once, which nobody would launch.
    """

    standard: str = "CL1.2"
    rewrite: Rewrite | None = None
    single: bool = False

    def applied(self, source: str) -> str:
        """The source as the compiler gets it."""
        return _KERNEL.sub(rf"\g<0> {_VECTORS}", source) if self.single else source


PLAIN: Final = Recipe()
#: So many programs a process builds itself first: one that needs no more starts no builder, and a
#: wrong source raises where its op is called.
_FIRST: Final = 2
_KERNEL: Final = re.compile(r"\b_{2}kernel\b(?= *void)")
_VECTORS: Final = "__attribute__((vec_type_hint(float16)))"

# -- in memory -----------------------------------------------------------------------------

#: A program that came from a binary holds 10 to 50 KB of the host's memory.
MEMORY_ENTRIES: Final = 1024

_Key = tuple[Device, str, Recipe]
_programs: Final[Memo[_Key, Any]] = Memo(MEMORY_ENTRIES)
_refusals: Final[Memo[_Key, str]] = Memo(MEMORY_ENTRIES)
_building: Final = threading.RLock()


def build(device: Device, source: str, who: str, recipe: Recipe = PLAIN) -> Any:
    """The built program of a source on a device: what `pyopencl.Kernel` takes.

    Raises BuildError with the numbered source and the compiler's log.
    """
    key = (device, source, recipe)
    program = _programs.get(key)
    if program is None:
        with _building:
            program = _programs.get(key) or _build(device, source, who, recipe)
            _programs.put(key, program)
    return program


def ahead(device: Device, source: str, who: str, recipe: Recipe = PLAIN) -> bool:
    """Whether a program that is needed soon is being built by others; `build` gives it then.

    False: it is here already, or on disk, or nobody else can build it sooner.
    """
    key = (device, source, recipe)
    if _programs.get(key) is not None or recipe.rewrite is not None:
        return False
    if builders.count.built < _FIRST or not builders.help_with(device):
        return False
    text, options, own = recipe.applied(source), _options(recipe), builders_of(device)
    name = _name_of(device.context, text, options)
    if own.busy(name):
        return True
    if cache.read(name) is not None:
        return False
    own.ask(name, text, options, partial(build, *key[:2], who, recipe))
    return True


def refusal(device: Device, source: str, who: str, recipe: Recipe = PLAIN) -> str:
    """What the compiler of a device says against a source, in one line; empty: it takes it.

    Kept on disk, too: asked again, a driver compiles nothing.
    """
    key = (device, source, recipe)
    complaint = _refusals.get(key)
    if complaint is None:
        with _building:
            complaint = _refusals.put(key, _refusal(device, source, who, recipe))
    return complaint


def _refusal(device: Device, source: str, who: str, recipe: Recipe) -> str:
    more = ("refusal", *(() if recipe.rewrite is None else recipe.rewrite.key))
    name = _name_of(device.context, source, _options(recipe), more)
    known = cache.read(name)
    if known is not None:
        return known.decode()
    try:
        build(device, source, who, recipe)
    except BuildError as error:
        said = first_line(error.__cause__ or error)
        cache.write(name, said.encode())
        return said
    return ""


def clear() -> None:
    """Forget the programs in memory (those on disk stay)."""
    _programs.clear()
    _refusals.clear()


def _options(recipe: Recipe) -> str:
    return f"-cl-std={recipe.standard}"


def _build(device: Device, source: str, who: str, recipe: Recipe) -> Any:
    cl = opencl_module()
    step = None if recipe.rewrite is None else Rewriting(recipe.rewrite, device, who)
    text, options = recipe.applied(source), _options(recipe)
    if step is None and builders.asked:
        builders_of(device).settle(_name_of(device.context, text, options))
    try:
        return load(cl, device.context, text, options, step)
    except cl.Error as error:
        failed = None if step is None or step.made is None else step
        given = "the OpenCL program" if failed is None else f"what {failed.rewrite} made of it"
        shown = source if failed is None else failed.text
        numbered = "\n".join(
            f"{number:4d}  {line}" for number, line in enumerate(shown.splitlines(), start=1)
        )
        raise BuildError(
            message(
                who,
                f"{given} did not build on {device!r}",
                "a program that the driver compiles",
                "The source and the compiler's log follow",
            )
            + f"\n{numbered}\n{error}"
        ) from error


# -- kernels of built programs ----------------------------------------------------------------


#: pyopencl looks up code in a database on disk when it makes a kernel object, and threads
#: that do this together have crashed in it.
_creation: Final = threading.Lock()
#: So many threads may have a kernel object of one kernel before all are made anew.
_THREADS: Final = 64


@final
class KernelObject:
    """A thread's kernel object, and the launch whose constants are set in it."""

    __slots__ = ("args", "kernel", "last", "set_arg")

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.set_arg = kernel.set_arg
        self.args: int = kernel.num_args
        self.last: Any = None


@final
class SharedKernel:
    """An entry point of a source on a device, with a kernel object for each thread.

    Attributes:
        apart: How many launches have a kernel object of their own beside these.
    """

    __slots__ = ("apart", "device", "entry", "of_thread", "recipe", "source")

    def __init__(self, device: Device, source: str, entry: str, recipe: Recipe = PLAIN) -> None:
        self.device = device
        self.source = source
        self.entry = entry
        self.recipe = recipe
        self.of_thread: dict[int, KernelObject] = {}
        self.apart = 0

    def make(self, who: str) -> KernelObject:
        """This thread's kernel object."""
        own_kernel = KernelObject(self.new(who))
        if len(self.of_thread) > _THREADS:  # threads come and go
            self.of_thread.clear()
        self.of_thread[get_ident()] = own_kernel
        return own_kernel

    def new(self, who: str) -> Any:
        """A kernel object that nobody else has; the program is built if it is not."""
        program = self.build(who)
        with _creation:
            return opencl_module().Kernel(program, self.entry)

    def build(self, who: str) -> Any:
        """The built program."""
        return build(self.device, self.source, who, self.recipe)

    def ahead(self, who: str) -> bool:
        """Whether others are building the program."""
        return ahead(self.device, self.source, who, self.recipe)


_kernels: Final[Memo[Any, SharedKernel]] = Memo(MEMORY_ENTRIES)


def shared_kernel(device: Device, source: str, entry: str, recipe: Recipe = PLAIN) -> SharedKernel:
    """The kernel of this name, the same object for equal sources."""
    key = (device, source, entry, recipe)
    return _kernels.get(key) or _kernels.put(key, SharedKernel(*key))


# -- from disk, or by the driver's compiler --------------------------------------------------


def load(
    cl: Any, context: Any, source: str, options: str = "", step: Rewriting | None = None
) -> Any:
    """The built `pyopencl._cl._Program` of a source, for the one device of a context.

    Raises the driver's `pyopencl.Error`, with the compiler's log in its text.
    """
    name = _name_of(context, source, options, () if step is None else step.rewrite.key)
    binary = cache.read(name)
    program = None if binary is None else from_binary(cl, context, binary)
    if program is not None:
        return program
    with builders.told():
        program = from_source(cl, context, source, options)
    if step is not None:
        program = _made(cl, context, step.run(_binary(cl, program)), options)
    binary = _binary(cl, program)
    cache.write(name, binary)
    return _lean(cl, context, program, binary)


def serve(wanted: list[str]) -> None:
    """What a builder does: build each source that comes in for the device meant."""
    cl = opencl_module()
    devices = (device for platform in cl.get_platforms() for device in platform.get_devices())
    context = cl.Context([next(device for device in devices if _facts(device) == wanted)])
    for line in sys.stdin:
        with suppress(cl.Error):
            load(cl, context, *json.loads(line))
        print(flush=True)


def _facts(device: Any) -> list[str]:
    facts = (device.platform.name, device.name, device.driver_version)
    return [fact.strip() for fact in facts]


def _name_of(context: Any, source: str, options: str, more: tuple[str, ...] = ()) -> str:
    """A name on disk: it says the source, how it is built, the platform, device and driver."""
    (device,) = context.devices
    driver = device.platform.name, device.name, device.driver_version
    return cache.digest(source, options, *driver, *more)


def _binary(cl: Any, program: Any) -> bytes:
    (binary,) = program.get_info(cl.program_info.BINARIES)
    return binary  # type: ignore[no-any-return]  # bytes, as OpenCL says


def _made(cl: Any, context: Any, rewritten: bytes | str, options: str) -> Any:
    """The program of what a Rewrite made."""
    if isinstance(rewritten, str):
        return from_source(cl, context, rewritten, options)
    return _built(cl, cl._cl._Program(context, context.devices, [rewritten]), "")


def from_binary(cl: Any, context: Any, binary: bytes) -> Any:
    """The program of a binary; None if this driver does not take it (any more)."""
    try:
        program = cl._cl._Program(context, context.devices, [binary])
        program._build(options=b"", devices=None)
    except cl.Error:
        return None
    return program


def from_source(cl: Any, context: Any, source: str, options: str) -> Any:
    """The program as the compiler makes it.

    It goes past `pyopencl.Program`, whose cache on disk has no bound and one lock for all
    processes, and which warns of whatever a compiler says of a program that it takes.
    """
    return _built(cl, cl._cl._Program(context, source), options)


def _built(cl: Any, program: Any, options: str) -> Any:
    """A program, built; raises the driver's error with the log."""
    try:
        program._build(options=options.encode(), devices=None)
    except cl.Error as error:
        logs = "".join(f"\n\nBuild on {device}:\n\n{log}" for device, log in _logs(cl, program))
        text = f"{error}{logs}"
        record = cl._cl._ErrorRecord(msg=text, code=error.code, routine=error.routine)
        raise cl.RuntimeError(record) from error
    return program


def _logs(cl: Any, program: Any) -> Any:
    """What the compiler says for each device."""
    try:
        return program._get_build_logs()
    except cl.Error:  # some drivers have none for what they did not even begin
        return []


def _lean(cl: Any, context: Any, program: Any, binary: bytes) -> Any:
    """A program without what its compiler remembers of it, where that is the host's memory.

    Intel's runtime keeps 3 MB for each program that it compiled, and 8 KB for the same
    program from its binary. A simulator's binary is no program of its own. What counts is the
    hardware: a test may let a CPU play a GPU.
    """
    (device,) = context.devices
    on_host = device.type & cl.device_type.CPU
    if not on_host or is_simulator(device):
        return program
    return from_binary(cl, context, binary) or program
