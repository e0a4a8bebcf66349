"""Steps: every check that a table asks for, with the op, the device and the dtype that it is of.

Building programs is what takes time, so that elementwise ops meet a device in groups that share
kernels (`fused`) in every dtype, and each by itself in its main one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from netcl_core import DTYPES, Device, get_device
from netcl_core.autograd import AutogradPrimitive
from netcl_plugin_kit.testing import checks, policies
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import Table, all_cases
from netcl_plugin_kit.testing.forcing import check_settings
from netcl_plugin_kit.testing.fused import check_group, check_group_slopes, groups, is_fusible
from netcl_plugin_kit.testing.pattern_checks import (
    check_match,
    check_near_misses,
    check_second_order,
)
from netcl_plugin_kit.testing.reference import lacking
from netcl_plugin_kit.testing.slopes import check_slopes

if TYPE_CHECKING:
    from netcl_core.autograd import AmpPolicy

#: `(case, device, dtype)`; raises AssertionError, or whatever the op raises.
CheckFunction: TypeAlias = Callable[[Case, Device, str], None]
#: What a case runs by itself on a device in each of its dtypes.
_IN_EACH_DTYPE: Final[dict[str, CheckFunction]] = {
    "values": checks.check_variants,
    "broadcasting": checks.check_broadcasting,
    "deterministic": checks.check_deterministic,
    "settings": check_settings,
}
#: And what depends on the op, not on the dtype.
_ONCE: Final[dict[str, CheckFunction]] = {
    "strided": checks.check_strided,
    "pruning": checks.check_pruning,
    "non-finite": checks.check_non_finite,
    "threads": checks.check_threads,
}
#: What a training pattern's case runs besides.
_OF_PATTERNS: Final[dict[str, CheckFunction]] = {"match": check_match}
_OF_PATTERNS_ONCE: Final[dict[str, CheckFunction]] = {"near misses": check_near_misses}
#: Building programs takes time. So without `thorough` one in so many ops or groups meets a dtype
#: that is not its main one on an OpenCL device, and one in so many further cases its main one.
_SPREAD: Final = 4
#: The same for an amp policy, which meets the ops of all plugins.
_OF_A_POLICY: Final = 8


@final
@dataclass(frozen=True, eq=False)
class CheckStep:
    """One check of a case, of a group of cases, or of an op as a whole.

    Attributes:
        op: The op that it is of where there is no case.
        run: Makes the check for some of the cases; raises if it fails.
        device: Where; None: nowhere in particular.
        skip: Why it is not run; empty: it is.
        listed: What a manifest calls what it is of; empty: the first of its ops.
    """

    check: str
    run: Callable[[Sequence[Case]], Any]
    cases: Sequence[Case] = ()
    device: Device | None = None
    dtype: str = ""
    op: str = ""
    skip: str = ""
    listed: str = ""

    @property
    def ops(self) -> list[str]:
        """The ops that it is of."""
        return list(dict.fromkeys(case.op for case in self.cases)) or [self.op]

    def __str__(self) -> str:
        names = [str(case) for case in self.cases] or [self.op]
        who = names[0] if len(names) == 1 else f"{names[0]}...{names[-1]}"
        where = "" if self.device is None else f" on {self.device}"
        return f"{self.check} of {who}{where}{f' in {self.dtype}' if self.dtype else ''}"


def steps_of(table: Table, devices: Sequence[Device], *, thorough: bool = True) -> list[CheckStep]:
    """Every check of a table on some devices, and once what no device matters to.

    Unless it is `thorough`, the first case of an op is checked in all ways in its main dtype and
    for its values in others, further cases for their values. Elementwise ops meet an OpenCL device
    in fused groups alone, and of dtypes that are not their main one a part of them.
    """
    steps = [*_of_ops(table), *_of_cases(table)]
    for device in devices:
        for dtype in DTYPES:
            steps += _on_device(table, device, dtype, thorough)
        for scenario in table.scenarios:
            played, name = _plain(scenario.play, device), scenario.namespace
            steps.append(CheckStep("scenario", played, (), device, op=str(scenario), listed=name))
        for policy in table.policies:
            steps += _of_policy(policy, device, thorough)
    for policy in table.policies:
        # A trace computes nothing, and shows the same dtypes on every device.
        where = [device for device in devices if not policy.unmet(device)]
        cases = all_cases() if where else []
        steps += [_tried(policies.check_dtypes, policy, case, where[0]) for case in cases]
        named = _plain(policies.check_names, policy)
        steps.append(CheckStep("policy", named, op=policy.name))
    return steps


def steps_of_case(
    case: Case, device: Device, dtype: str, *, thorough: bool = True
) -> Iterator[CheckStep]:
    """The checks of a case by itself on a device in a dtype; those of settings if `thorough`."""
    names = dict(_IN_EACH_DTYPE)
    if case.primitive is None or device.has_kernels or len(case.inputs) < 2:
        del names["broadcasting"]
    if case.primitive is not None or not device.has_kernels or not thorough:
        del names["settings"]
    if case.pattern is not None:
        names = _OF_PATTERNS | names
    if dtype == case.main_dtype:
        names |= _ONCE if case.pattern is None else _ONCE | _OF_PATTERNS_ONCE
        if case.pattern is not None and case.differentiable and not device.has_kernels:
            names["second order"] = check_second_order
    if dtype != "float32":
        names.pop("non-finite", None)
    for name, check in names.items():
        yield _step(name, case, device, dtype, check)


def _plain(check: Callable[..., Any], *args: Any) -> Callable[[Sequence[Case]], Any]:
    """What a step runs of a check that takes no cases."""
    return lambda cases: check(*args)


def _step(check: str, case: Case, device: Device, dtype: str, function: CheckFunction) -> CheckStep:
    def run(cases: Sequence[Case]) -> None:
        function(cases[0], device, dtype)

    asked = "values" if check == "settings" else check  # the same, with other settings
    skip = case.excuse(check, device, dtype) or case.excuse(asked, device, dtype) or ""
    return CheckStep(check, run, (case,), device, dtype, skip=skip)


def _of_policy(policy: AmpPolicy, device: Device, thorough: bool) -> Iterator[CheckStep]:
    """An amp policy on a device: a case of every op that is installed, or of some."""
    cases = all_cases()
    if device.has_kernels and not thorough:
        cases = cases[::_OF_A_POLICY]
    skip = policy.unmet(device) or ("" if cases else "no op is installed to try it with")
    for case in () if skip else cases:
        yield _tried(policies.check_tolerance, policy, case, device)
    if skip:
        yield CheckStep("policy", partial(_complain, ""), (), device, op=policy.name, skip=skip)


def _tried(
    check: Callable[[AmpPolicy, Case, Device], None], policy: AmpPolicy, case: Case, device: Device
) -> CheckStep:
    run = _plain(check, policy, case, device)
    return CheckStep("policy", run, (), device, policy.storage, policy.name)


# -- what no device matters to ---------------------------------------------------------


def _of_ops(table: Table) -> Iterator[CheckStep]:
    """Whether there are cases, and something to compare with; derivatives."""
    wanting = {**table.twins(), **table.problems}
    for op in table.missing():
        wanting[op] = f"{table.provider}:{op}: neither a case nor a reason; expected one of them"
    for op in dict.fromkeys([*table.ops, *wanting]):
        yield CheckStep("cases", partial(_complain, wanting.get(op, "")), op=op)
    for op in table.ops:
        reasons = [reason for case in table.cases_of(op) if (reason := lacking(case))]
        skip = reasons[0] if reasons else ""
        yield CheckStep("reference", partial(_complain, ""), op=op, skip=skip)
    for record in table.primitives():
        if record.backward is not None:
            yield _derivative(record, table.cases_of(record.name))
        if record.commutative:
            run = _plain(checks.check_commutative, record)
            yield CheckStep("commutative", run, op=record.name)
        if record.alias_of:
            yield CheckStep("alias", _plain(checks.check_alias, record), op=record.name)


def _derivative(record: AutogradPrimitive, cases: Sequence[Case]) -> CheckStep:
    """The check of an elementwise op's expressions; any of its cases may excuse it."""
    skip = next(filter(None, (case.excuse("derivative") for case in cases)), "")
    doubted = [case for case in cases if case.expected_failure("derivative", None, "")]
    run = _plain(checks.check_derivative, record)
    return CheckStep("derivative", run, (doubted or cases)[:1], op=record.name, skip=skip)


def _complain(text: str, cases: Sequence[Case]) -> None:
    assert not text, text


def _of_cases(table: Table) -> Iterator[CheckStep]:
    """Refused dtypes and finite differences, on the NumPy path, which needs no device."""
    numpy_path = get_device("numpy")
    for case in table.cases:
        if case.pattern is None and len(case.takes) < len(DTYPES):
            yield _step("refusal", case, numpy_path, "", checks.check_refusal)
        if case.differentiable:
            yield _step("gradient", case, numpy_path, "float64", check_slopes)


# -- on a device -----------------------------------------------------------------------


def _on_device(table: Table, device: Device, dtype: str, thorough: bool) -> Iterator[CheckStep]:
    """The fused groups, then each case by itself, as far as the device has the dtype."""
    opencl = device.has_kernels
    cases: list[Case] = []
    for case in table.cases:
        if dtype not in case.takes:
            continue
        reason = table.unfit(case.op, device)
        if dtype == "float64" and not device.supports_fp64:
            reason = f"{device} has no float64"
        if reason is not None:
            yield CheckStep("values", partial(_complain, ""), (case,), device, dtype, skip=reason)
            continue
        cases.append(case)
        if opencl and case.primitive is not None and (why := case.excuse("fused", device, dtype)):
            yield CheckStep("fused", partial(_complain, ""), (case,), device, dtype, skip=why)
    fusible = [case for case in cases if is_fusible(case, device, dtype)] if opencl else []
    yield from _fused(fusible, device, dtype, thorough)
    for case in cases:
        if thorough and (case not in fusible or dtype == case.main_dtype):
            yield from steps_of_case(case, device, dtype)
        elif not thorough and case not in fusible:
            place = [each for each in cases if each.op == case.op].index(case)
            yield from _leanly(case, device, dtype, place, table.ops.index(case.op))
    for case in cases if thorough and opencl and dtype == "float64" else ():
        if case.differentiable and case not in fusible:
            yield _step("gradient", case, device, dtype, check_slopes)


def _leanly(case: Case, device: Device, dtype: str, place: int, number: int) -> Iterator[CheckStep]:
    """Some of the checks of a case, by its place among those of its op, and the op's number."""
    numpy = not device.has_kernels
    if dtype == case.main_dtype:
        if place == 0:
            yield from steps_of_case(case, device, dtype, thorough=False)
        elif numpy:
            yield _step("values", case, device, dtype, checks.check_variants)
        elif place % _SPREAD == 1:
            yield _step("values", case, device, dtype, checks.check_main)
    elif place == 0 and (numpy or _has_its_turn(dtype, number)):
        yield _step("values", case, device, dtype, checks.check_main)


def _has_its_turn(dtype: str, number: int) -> bool:
    """Whether this one of many meets a dtype in which only some are checked."""
    return (list(DTYPES).index(dtype) + number) % _SPREAD == 0


def _fused(
    cases: Sequence[Case], device: Device, dtype: str, thorough: bool
) -> Iterator[CheckStep]:
    for number, group in enumerate(groups(cases, device, dtype)):
        if not (thorough or dtype == "float32" or _has_its_turn(dtype, number)):
            continue
        check = partial(check_group, device=device, dtype=dtype)
        yield CheckStep("fused", check, group, device, dtype)
        smooth = [
            case
            for case in group
            if case.differentiable and not case.excuse("gradient", device, dtype)
        ]
        if thorough and dtype == "float64" and smooth:
            yield CheckStep(
                "gradient", partial(check_group_slopes, device=device), smooth, device, dtype
            )
