"""AmpPolicy: what mixed precision does with each op. A record; nothing applies it yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, final, get_args

from netcl_core.dtypes import DTYPES
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.plugins.kinds import OP_KINDS

#: `allow`: floating operands are cast to the policy's storage dtype; `keep`: to float32;
#: `promote`: to the widest floating dtype among them.
Rule: TypeAlias = Literal["allow", "keep", "promote"]
RULES: Final[tuple[str, ...]] = get_args(Rule)


@final
@dataclass(frozen=True, eq=False)
class AmpPolicy:
    """What becomes of the floating operands of each op while the policy is active.

    Args:
        name: The policy's name, an identifier.
        storage: The floating dtype in which allowed ops have their operands and results.
        ops: The rule of each op that has one of its own, by the op's name.
        kinds: The rule of all other ops of a kind: `primitive` or `operator`.
        default: The rule of what is left.
        doc: A text for the documentation.

    Raises RegistrationError for a rule, a kind or a dtype that is none.

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
        for attribute in ("ops", "kinds"):
            held = MappingProxyType(dict(getattr(self, attribute)))
            object.__setattr__(self, attribute, held)

    def _insist(self, fine: bool, given: str, known: list[str] | tuple[str, ...]) -> None:
        if not fine:
            text = message(f"amp policy {self.name!r}", given, " or ".join(known))
            raise coded("NP308", RegistrationError(text))

    def rule(self, op: str, kind: str) -> Rule:
        """The rule for an op of a kind: its own, else that of its kind, else the default."""
        return self.ops.get(op) or self.kinds.get(kind) or self.default

    @property
    def summary(self) -> str:
        """Storage and rules in one line."""
        rules = {**self.ops, **{f"{kind}s": rule for kind, rule in self.kinds.items()}}
        by_rule = {rule: [name for name, its in rules.items() if its == rule] for rule in RULES}
        parts = [f"{rule} {', '.join(names)}" for rule, names in by_rule.items() if names]
        return "; ".join([self.storage, *parts, f"{self.default} all {'other ' * bool(rules)}ops"])
