"""Slots: what is computed in an implementation's kernel besides what it is there for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from netcl_core.runtime.kernels import Arg


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
