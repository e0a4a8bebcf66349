"""The checks of an amp policy: what every installed op does under it, by the cases of all plugins.

A policy promises in which dtype ops are not computed, and how far values and gradients are from
those in float32. The first is seen in a trace, which computes nothing; the second on devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Tensor, use_device
from netcl_core.autograd import TraceNode, TracingContext
from netcl_core.inspect.data import Array
from netcl_core.inspect.programs import TraceBreak
from netcl_core.inspect.recorded import RegionCall
from netcl_core.plugins.protocol import OP_KINDS, providers, registry
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.reference import Values, evaluate, expected

if TYPE_CHECKING:
    from netcl_core.autograd import AmpPolicy

#: How alike two names are if one is a slip for the other.
_ALIKE: Final = 0.85
_SINGLE: Final = "float32"
#: What a policy's conversions are called in a trace.
_CAST: Final = "autocast"
#: `conv1d` and `conv2d` are two ops.
_DIGITS: Final = re.compile(r"\d")


def check_names(policy: AmpPolicy) -> None:
    """A rule for an op that nobody has is no mistake, one for a misspelt op is."""
    known = {*registry.op_names(), *providers(*OP_KINDS)}
    for name in sorted({*policy.ops, *policy.forbids} - known):
        close = get_close_matches(name, sorted(known), n=1, cutoff=_ALIKE)
        slips = [dtype for dtype in close if _DIGITS.sub("", dtype) != _DIGITS.sub("", name)]
        if slips:
            given = f"nobody has an op {name!r}; did you mean {slips[0]!r}?"
            raise AssertionError(f"{policy.name}: {given}")


def check_dtypes(policy: AmpPolicy, case: Case, device: Device) -> None:
    """An op is computed in no dtype that its rule or the policy's promise excludes."""
    kind = "operator" if case.primitive is None else "primitive"
    rule = policy.rule(case.op, kind)
    for dtype in _given(policy, case):
        nodes = _traced(policy, case, device, dtype)
        computing = [node for node in nodes if node.op_name != _CAST]
        used = {operand for node in computing for operand in _computed(node)}
        rounded = dtype == _SINGLE and len(computing) < len(nodes)
        if policy.storage == _SINGLE or not (rounded or policy.storage in used):
            continue
        done = "computed in" if policy.storage in used else "rounded to"
        what = f"{policy.name}: {case} of {dtype} is {done} {policy.storage}"
        if case.op in policy.forbids:
            raise AssertionError(
                f"{what}, which the policy forbids; its rule is {rule!r}. "
                f"Give it the rule 'keep', or take it out of forbids="
            )
        if rule == "keep":
            raise AssertionError(f"{what}, though its rule is 'keep'")


def dtypes_in(policy: AmpPolicy, case: Case, device: Device) -> list[list[tuple[str, ...]]]:
    """In which dtypes the calls of a case compute under a policy, for each dtype of operands.

    The cast of an operand of float32 is among the calls, since it rounds.
    """
    return [
        [
            tuple(_computed(node))
            for node in _traced(policy, case, device, dtype)
            if any(_computed(node)) or (dtype == _SINGLE and node.op_name == _CAST)
        ]
        for dtype in _given(policy, case)
    ]


def check_tolerance(policy: AmpPolicy, case: Case, device: Device) -> None:
    """Values and gradients of float32 and of stored operands, beside float64.

    Where nothing is cast, operands give what they give without a policy: those of float32 are not
    looked at, and stored ones on the NumPy path alone. What a device makes of these is for the
    check of the op's own plugin to say.
    """
    kept = "" if device.has_kernels else policy.storage
    for dtype in _given(policy, case):
        nodes = _traced(policy, case, device, dtype)
        used = {operand for node in nodes for operand in _computed(node)}
        other = policy.storage if dtype == _SINGLE else _SINGLE
        cast = not nodes or other in used
        if not (cast or dtype == kept):
            continue
        arrays = case.main_sample(dtype)
        wide = [x.astype(np.float32) if DTYPES[x.dtype.name].floating else x for x in arrays]
        with ag.casting(policy):
            actual = evaluate(case, arrays, device)
        _compare(policy, actual, expected(case, wide, _SINGLE), f"{case} of {dtype} on {device}")


def _given(policy: AmpPolicy, case: Case) -> list[str]:
    """The dtypes in which a case's operands are tried."""
    return [x for x in dict.fromkeys((_SINGLE, policy.storage)) if x in case.takes]


def _traced(policy: AmpPolicy, case: Case, device: Device, dtype: str) -> Sequence[TraceNode]:
    """What a case calls, casts among it; nothing for one that cannot be traced."""
    with use_device(device), TracingContext() as context, ag.casting(policy):
        symbols = [
            context.input(Tensor(None, x.shape, x.dtype.name, device))
            for x in case.main_sample(dtype)
        ]
        try:
            case.run(*symbols)
        except (TraceBreak, Exception):  # the check of values will say what is wrong
            return ()
    return [node for node in context.nodes if node.call]


def _computed(node: TraceNode) -> Iterator[str]:
    """The dtypes in which a call computes; a conversion within a kernel is none."""
    call: Any = node.call
    if isinstance(call, RegionCall):
        types, region = call.plan.types, call.plan.region
        yield from (
            dtype
            for step, dtype in zip(region.steps, types.dtypes, strict=True)
            if step.cast is None and step.primitive.name != "astype"
        )
    elif not getattr(getattr(call, "operator", None), "view", False):
        yield from (x.dtype for x in node.inputs)
        yield from (spec.dtype for spec in call.results or ())


def _compare(policy: AmpPolicy, actual: Values, right: Values, where: str) -> None:
    if not all(DTYPES[dtype].floating for dtype in actual.dtypes):
        return
    values = zip(actual.outputs, right.outputs, strict=True)
    pairs: list[tuple[str, Array | None, Array | None]] = [("value", *pair) for pair in values]
    gradients = zip(actual.gradients, right.gradients, strict=True)
    pairs += [(f"gradient {i}", given, wanted) for i, (given, wanted) in enumerate(gradients)]
    for what, given, wanted in pairs:
        if given is None or wanted is None:
            continue
        with np.errstate(all="ignore"):
            given, wanted = given.astype(np.float64), wanted.astype(np.float64)
            judged = np.isfinite(wanted)
            largest = float(np.abs(wanted[judged]).max(initial=0.0))
            off = np.abs(given - wanted)[judged]
        worst = float(np.where(np.isnan(off), np.inf, off).max(initial=0.0))
        if worst > policy.tolerance * max(largest, 0.1):
            raise AssertionError(
                f"{policy.name}: {where}: {what} is off by {worst:.3g} where the largest is "
                f"{largest:.3g}; the policy promises a share of {policy.tolerance:g}"
            )
