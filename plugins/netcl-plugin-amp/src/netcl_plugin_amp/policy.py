"""AmpPolicy: in which dtypes mixed precision computes each op."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, final, get_args

from netcl_core import DTYPES, Device
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.plugins.protocol import OP_KINDS

#: `allow`: floating operands are cast to the policy's storage dtype; `keep`: to float32;
#: `promote`: to the widest floating dtype among them; `leave`: not at all, since its kernels read
#: operands of several dtypes. float64 stays what it is.
Rule: TypeAlias = Literal["allow", "keep", "promote", "leave"]
RULES: Final[tuple[str, ...]] = get_args(Rule)
#: How many names of a rule its summary has.
_SHOWN: Final = 5


@final
@dataclass(frozen=True, eq=False)
class AmpPolicy:
    """What becomes of the floating operands of each op while the policy is in force.

    An op that is a function of others is decided as a whole if `ops` names it; else its parts are,
    one by one. Views compute nothing and are let through.

    Args:
        name: The policy's name: words of letters and digits, joined by `-` or `_`.
        storage: The floating dtype in which allowed ops have their operands and results.
            Arithmetic within a kernel is float32's in any case.
        ops: The rule of each op that has one of its own, by the op's name.
        kinds: The rule of all other ops of a kind: `primitive` or `operator`.
        default: The rule of what is left.
        needs_fp16: Whether it is only for devices that compute in half precision, as a probe
            found; ops on other devices are left alone.
        forbids: Ops that it never lets compute in the storage dtype, whatever they are given:
            a promise, to which `netcl plugins check` holds the rules.
        tolerance: How far values and gradients of any one op may be from those in float32, as a
            share of the largest: another promise.
        doc: A text for the documentation.

    Raises RegistrationError for a rule, a kind, a dtype or a number that is none.

    Example:
        >>> policy = ag.AmpPolicy("half", "float16", {"exp": "keep"}, {"operator": "allow"})
        >>> policy.rule("matmul", "operator"), policy.rule("exp", "primitive")
        ('allow', 'keep')
    """

    name: str
    storage: str
    ops: Mapping[str, Rule] = field(default_factory=dict)
    kinds: Mapping[str, Rule] = field(default_factory=dict)
    default: Rule = "keep"
    needs_fp16: bool = False
    forbids: Sequence[str] = ()
    tolerance: float = 1e-2
    doc: str = ""

    def __post_init__(self) -> None:
        floats = [name for name, dtype in DTYPES.items() if dtype.floating]
        self._insist(self.storage in floats, f"the storage {self.storage!r}", floats)
        for given, known in ((self.ops, None), (self.kinds, OP_KINDS)):
            self._insist(isinstance(given, Mapping), f"the rules {given!r}", ["a mapping"])
            for name, rule in given.items():
                fine = isinstance(name, str) if known is None else name in known
                self._insist(fine, f"a rule for {name!r}", known or ["the name of an op"])
                self._insist(rule in RULES, f"the rule {rule!r} for {name}", RULES)
        self._insist(self.default in RULES, f"the default {self.default!r}", RULES)
        named = isinstance(self.forbids, (tuple, list)) and all(
            isinstance(forbid, str) for forbid in self.forbids
        )
        self._insist(named, f"forbids = {self.forbids!r}", ["a tuple of names of ops"])
        self._insist(_is_share(self.tolerance), f"the tolerance {self.tolerance!r}", ["above 0"])
        for attribute in ("ops", "kinds"):
            held = MappingProxyType(dict(getattr(self, attribute)))
            object.__setattr__(self, attribute, held)
        object.__setattr__(self, "forbids", tuple(self.forbids))

    def _insist(self, fine: bool, given: str, known: list[str] | tuple[str, ...]) -> None:
        if not fine:
            text = message(f"amp policy {self.name!r}", given, " or ".join(known))
            raise coded("NP308", RegistrationError(text))

    def rule(self, op: str, kind: str) -> Rule:
        """The rule for an op of a kind: its own, else that of its kind, else the default."""
        return self.ops.get(op) or self.kinds.get(kind) or self.default

    def unmet(self, device: Device) -> str | None:
        """Why the policy leaves the ops of a device alone, or None."""
        if self.needs_fp16 and not device.supports_fp16:
            return f"{device} has no half arithmetic"
        return None

    @property
    def summary(self) -> str:
        """Storage and rules in one line, of many names the first ones."""
        rules = {**{f"{kind}s": rule for kind, rule in self.kinds.items()}, **self.ops}
        by_rule = {rule: [name for name, its in rules.items() if its == rule] for rule in RULES}
        parts = [f"{rule} {_listed(names)}" for rule, names in by_rule.items() if names]
        return "; ".join([self.storage, *parts, f"{self.default} all {'other ' * bool(rules)}ops"])


def _listed(names: Sequence[str]) -> str:
    """Names as a text; of more than a handful a few, and how many more there are."""
    few = names if len(names) <= _SHOWN + 1 else names[:_SHOWN]
    more = len(names) - len(few)
    return ", ".join(few) + (f" and {more} more" if more else "")


def _is_share(value: Any) -> bool:
    """Whether a value is a number above 0."""
    return isinstance(value, Real) and math.isfinite(value) and float(value) > 0
