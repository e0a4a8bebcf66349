"""The names of all checks: what each means, what to do when it fails, and how a case excuses one.

An excuse is named `<check> [in <dtype>] [on <part of a platform>]`: `values`, `fused in float16`,
`non-finite in float32 on Portable`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from netcl_core import DTYPES, Device


@final
@dataclass(frozen=True, slots=True)
class KitCheck:
    """What a check looks at, and what an author can do when it fails."""

    meaning: str
    remedy: str


#: The source is what an author looks at first.
_SHOWN: Final = "`netcl kernels show OP --device D --dtype T` prints what is run"
CHECKS: Final[Mapping[str, KitCheck]] = {
    "cases": KitCheck(
        "every op of the plugin has a case, or a reason why it needs none",
        "Return a Case for the op from the hook netcl_conformance_cases, or a text that says why "
        "it needs none",
    ),
    "reference": KitCheck(
        "something independent of the op says what is right",
        "Give torch= or reference= in the Case",
    ),
    "derivative": KitCheck(
        "an elementwise op's backward is the symbolic derivative of its forward",
        "Correct backward; if the gradient is meant to differ, say so in skip={'derivative': why}",
    ),
    "commutative": KitCheck(
        "an elementwise op that says so gives the same when its inputs are swapped",
        "Take commutative out of the record or its template: patterns swap its operands",
    ),
    "alias": KitCheck(
        "an elementwise op that says which op it is a further name of gives what that one gives",
        "Correct alias_of=, or take it out: patterns take the two for one",
    ),
    "gradient": KitCheck(
        "the gradient is that of central differences in float64, along a random direction and "
        "for a random covector",
        "Correct backward; where the function has kinks, name them in kinks=",
    ),
    "refusal": KitCheck(
        "a dtype that is not listed is refused with an error of netcl's own",
        "List the dtype in dtypes=, or refuse it with nc.errors.DtypeError",
    ),
    "values": KitCheck("shape, dtype, output and gradients equal the reference", _SHOWN),
    "broadcasting": KitCheck(
        "an elementwise op's inputs of different shapes, and gradients of each one's own shape",
        _SHOWN,
    ),
    "fused": KitCheck(
        "an elementwise op in one kernel with others: sizes, broadcasting, non-finite values",
        "Compare with the check values: if that passes, the expression depends on its neighbours",
    ),
    "non-finite": KitCheck(
        "NaN, infinities and large values give what the reference gives",
        "Guard the formula where it overflows or cancels",
    ),
    "strided": KitCheck(
        "views with gaps, in another order and from an offset on give the bits that contiguous "
        "operands give, and lines of neighbours the same where an implementation reads them",
        "Let `reads` name no operand whose strides and offset the plan does not use",
    ),
    "deterministic": KitCheck(
        "the same bits twice",
        "Add up in a fixed order; leave no element of the result unwritten; put a barrier before "
        "local memory that other work-items wrote is read",
    ),
    "settings": KitCheck(
        "each value of what an implementation lets be tuned gives the reference's results",
        "Take the value out of the space's choices, or let fits= say where it cannot run",
    ),
    "pruning": KitCheck(
        "a gradient for those inputs that ask for one, and the same as with all",
        "Return None where needs is False, and use no gradient for another",
    ),
    "threads": KitCheck(
        "four threads at once, each with a tape and inputs of its own, get the bits of one",
        "Keep what belongs to a call in the call, not in a module or on the plugin",
    ),
    "policy": KitCheck(
        "an amp policy names ops that there are, computes none in a dtype that it forbids, and "
        "keeps every installed op within the tolerance that it states",
        "Change the op's rule (`keep` is float32), or what the policy promises: forbids= and "
        "tolerance=",
    ),
    "match": KitCheck(
        "a training pattern applies to the function that it says it matches, and its planner "
        "does not fail",
        "Call .explain(...) of the compiled function: it says why the pattern did not apply",
    ),
    "near misses": KitCheck(
        "what is almost a training pattern's group gives what it gives without the pattern",
        "Name the attribute in the MatchedOp, or capture it and compute with it; return None from "
        "the planner for shapes and dtypes that its kernel does not take",
    ),
    "second order": KitCheck(
        "a training pattern's group has the second derivatives that its ops have",
        "Make backward of the pattern's part of ops, or the part a function of the group's own ops "
        "(ag.composite) with the kernels as its implementation",
    ),
    "scenario": KitCheck(
        "a use of one of the plugin's namespaces has the outcome that its author states",
        "Run the scenario by itself: its assertion says what differs",
    ),
}
#: Further names for `skip`: a part of a check, or a comparison.
PARTS: Final[Mapping[str, str]] = {
    "PyTorch": "there is no counterpart",
    "PyTorch on whole numbers": "whole dtypes are compared with the NumPy path",
    "gradient at NaN": "the gradient where the input is NaN",
    "non-finite gradient": "a structured op's gradients of non-finite inputs",
}


#: What is checked of a plugin as a whole, where no case is asked for an excuse.
_OF_THE_PLUGIN: Final = frozenset(
    {"cases", "reference", "commutative", "alias", "policy", "scenario"}
)
EXCUSABLE: Final = tuple(name for name in CHECKS if name not in _OF_THE_PLUGIN)
#: The dtypes that an excuse is asked for in, where those are not all.
_ASKED_IN: Final[Mapping[str, Sequence[str]]] = {
    "gradient": ("float64",),
    "non-finite": ("float32",),
    "near misses": ("float32",),
    "refusal": (),
    **dict.fromkeys(("derivative", *PARTS), ()),
}
#: What is asked for on no device in particular.
_NOWHERE: Final = frozenset({"derivative", *PARTS})
_LONGEST_FIRST: Final = sorted({*EXCUSABLE, *PARTS}, key=len, reverse=True)
_NAME: Final = re.compile(
    rf"({'|'.join(_LONGEST_FIRST)})(?: in ({'|'.join(DTYPES)}))?(?: on (.+))?"
)


def is_excuse(name: str, *, parts: bool) -> bool:
    """Whether something asks for an excuse of this name; with `parts` also of a part of a check."""
    match = _NAME.fullmatch(name)
    if match is None or (match[1] in PARTS and not parts):
        return False
    check, dtype, platform = match.groups()
    asked_there = platform is None or check not in _NOWHERE
    return asked_there and (dtype is None or dtype in _ASKED_IN.get(check, DTYPES))


def applies(name: str, check: str, device: Device | None, dtype: str) -> bool:
    """Whether a name speaks of a check on a device in a dtype (empty: in no certain one)."""
    match = _NAME.fullmatch(name)
    if match is None or match[1] != check or match[2] not in {None, dtype}:
        return False
    return match[3] is None or (device is not None and match[3].lower() in device.platform.lower())
