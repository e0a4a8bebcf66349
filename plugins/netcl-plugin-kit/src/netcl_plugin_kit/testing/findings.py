"""What the conformance kit finds of a kernel while it runs: a code, its meaning and the remedy.

The table of docs/check-findings.md has these beside the findings of the static check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class FindingKind:
    """One kind of finding; `check` is the name of the check that finds it, `any` of several."""

    code: str
    check: str
    meaning: str
    remedy: str


def table_of_kinds(*rows: tuple[str, str, str, str]) -> dict[str, FindingKind]:
    """Kinds by their codes."""
    return {row[0]: FindingKind(*row) for row in rows}


KINDS: Final = table_of_kinds(
    (
        "NC701",
        "any",
        "A kernel writes out of bounds: before or behind an output, a residual or a scratch "
        "buffer.",
        "Compare the kernel's global size with the number of elements: a work-item beyond the "
        "last must store nothing, and a vector that does not fit must be stored by element.",
    ),
    (
        "NC702",
        "any",
        "A kernel overwrites an input.",
        "Declare inputs `__global const`, and write to outputs and scratch buffers alone: others "
        "hold the same tensor.",
    ),
    (
        "NC703",
        "any",
        "Elements of a floating result are not written, or computed from what is not written.",
        "Compare the kernel's global size with the number of elements: every element of every "
        "output is to be written, for sizes that no vector or work-group divides, too.",
    ),
    (
        "NC704",
        "any",
        "A result has another dtype than the reference's.",
        "Return the Spec with the reference's dtype from infer; where the dtype is meant, give the "
        "case a reference that has it.",
    ),
    (
        "NC705",
        "speed",
        "An implementation is slower than the one that it goes before.",
        "Make it faster, lower its priority, or let `reject=` leave to the other what that one "
        "does faster; `netcl plugins bench OP` compares all candidates.",
    ),
    (
        "NC706",
        "speed",
        "An implementation takes no neighbours into its kernel, where the one that it goes before "
        "does.",
        "Call `request.slots` in the template and say `prologue=True` or `epilogue=True`, as the "
        "other does; or lower its priority.",
    ),
    (
        "NC707",
        "roofline",
        "An op is a hundred times slower than a copy of as many bytes, and slower than NumPy.",
        "Give each work-item a part of the elements: the global size counts the work-items. The "
        "message says how many there were.",
    ),
    (
        "NC711",
        "sanitizer",
        "Two work-items use one element at once, and one of them writes: a race.",
        "Let each element be written by one work-item; work-items of different groups exchange "
        "values by a second kernel.",
    ),
    (
        "NC712",
        "sanitizer",
        "A barrier is not reached by all work-items of a group.",
        "Take the barrier out of branches, loops of unequal length and what follows an early "
        "return: guard the work, not the barrier.",
    ),
    (
        "NC713",
        "sanitizer",
        "A kernel computes with what nobody has written.",
        "Write scratch and local memory before it is read, also for the last, incomplete group; "
        "a barrier between is needed where another work-item writes it.",
    ),
    (
        "NC714",
        "sanitizer",
        "A kernel reads outside a buffer.",
        "Compare the kernel's global size with the number of elements; a vector that does not fit "
        "must be read by element.",
    ),
    (
        "NC715",
        "sanitizer",
        "Work-items of one group use an element of local memory at once: a barrier is missing.",
        "Put `barrier(CLK_LOCAL_MEM_FENCE)` between writing local memory and reading what another "
        "work-item wrote, and again before it is overwritten.",
    ),
)
