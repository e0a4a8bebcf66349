"""Rule: what one step does to a parameter."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core import DTYPES
from netcl_core.inspect.expressions import NUMPY_NAMES, Apply, Block, Name, parse
from netcl_core.inspect.sources import get_template, numpy_source

#: What of a rule its kernel is built for, such as whether there is weight decay.
Flags: TypeAlias = tuple[tuple[str, bool], ...]
#: A statement of a rule: what it sets, the operator before `=`, and the expression.
_STATEMENT: Final = re.compile(r"(?:const )?(?:float )?(\w+) ([-+*/]?)= (.*)", re.DOTALL)


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """What a step does: its template with flags, and its scalars by name.

    What all rules share is done before the rule's own part (multi_tensor.cl.j2, `shared`): the flag
    `maximize` turns the gradient round, `decay` adds `weight_decay` times the parameter to it,
    `shrink` multiplies the parameter by `kept`.

    The template also computes the scalars that depend on the number of the step, for steps whose
    number only the device knows (`gate.Stepwise`).
    """

    template: str
    flags: Flags
    scalars: Mapping[str, float]

    @property
    def name(self) -> str:
        """The template's, without folder and ending."""
        return self.template.partition("/")[2].partition(".")[0]

    def without(self, names: Sequence[str]) -> tuple[float, ...]:
        """The values of the other scalars."""
        return tuple([value for name, value in self.scalars.items() if name not in names])

    def apply(self, p: Any, g: Any, states: Mapping[str, Any]) -> None:
        """The step on NumPy arrays of one dtype, in place."""
        ctype = DTYPES[p.dtype.name].compute
        step = _host_form(self.template, self.flags, tuple(states), tuple(self.scalars), ctype)
        with np.errstate(all="ignore"):
            scalars = map(p.dtype.type, self.scalars.values())
            results = step(p, g, *states.values(), *scalars)
        for array, value in zip((p, *states.values()), results, strict=True):
            array[...] = value


@lru_cache(maxsize=256)
def _host_form(
    template: str, flags: Flags, states: tuple[str, ...], scalars: tuple[str, ...], ctype: str
) -> Callable[..., Any]:
    """The NumPy function of a rule's statements: the new p and states from all that they read."""
    context = {**dict(flags), "states": states, "counting": False, "host": True}
    text = get_template(template).render(context).replace("(float)", "")
    block = Block(())
    names = ("p", "g", *states, *scalars)
    slots = [f"in{i}" for i in range(len(names))]
    scope = {name: block.load(slot, ctype) for name, slot in zip(names, slots, strict=True)}
    for statement in filter(None, map(str.strip, text.split(";"))):
        match = _STATEMENT.fullmatch(statement)
        assert match is not None, statement  # rules of ours are assignments
        name, operator, expression = match.groups()
        tree = parse(expression, tuple(scope), template)
        tree = Apply(operator, (Name(name), tree)) if operator else tree
        scope[name] = block.convert(block.build(tree, scope, ctype), ctype)
    space = dict(NUMPY_NAMES)
    exec(numpy_source(block, [scope[name] for name in ("p", *states)], slots, "step"), space)
    step: Callable[..., Any] = space["step"]
    return step
