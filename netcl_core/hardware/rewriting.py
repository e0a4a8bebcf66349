"""Rewrites: a step between the driver's compiler and the program that a kernel is taken from.

Some instructions are refused by a driver's OpenCL compiler and taken by what stands behind it:
NVIDIA's targets `sm_90`, so that it knows no `wgmma`; but its binaries are PTX, in text, and it
loads PTX for `sm_90a` as well. So a kernel carries such a line as a comment, and a Rewrite makes an
instruction of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from netcl_core.errors import BuildError, first_line, message
from netcl_core.hardware.device import Device


@final
@dataclass(frozen=True, slots=True)
class Rewrite:
    """A function that changes a program after it was compiled, for `Kernel(rewrite=...)`.

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
