"""Rule: what one step does to a parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

import numpy as np

#: The NumPy form of a rule: `(p, g, **states, **flags, **scalars)`, all by name; it changes p and
#: the states in place, and may overwrite g.
Update: TypeAlias = Callable[..., None]
#: What of a rule its kernel is built for, such as whether there is weight decay.
Flags: TypeAlias = tuple[tuple[str, bool], ...]
#: The flags that all rules have.
SHARED: Final = ("maximize", "decay", "shrink")


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """What a step does: its template with flags, its scalars by name, and the NumPy form.

    What all rules share is done before the rule's own part (multi_tensor.cl.j2, `apply`): the flag
    `maximize` turns the gradient round, `decay` adds `weight_decay` times the parameter to it,
    `shrink` multiplies the parameter by `kept`.

    The template also computes the scalars that depend on the number of the step, for steps whose
    number only the device knows (`gate.Stepwise`).
    """

    template: str
    flags: Flags
    scalars: Mapping[str, float]
    update: Update

    @property
    def name(self) -> str:
        """The template's, without folder and ending."""
        return self.template.partition("/")[2].partition(".")[0]

    def without(self, names: Sequence[str]) -> tuple[float, ...]:
        """The values of the other scalars."""
        return tuple([value for name, value in self.scalars.items() if name not in names])

    def apply(self, p: Any, g: Any, states: Mapping[str, Any]) -> None:
        """The step on NumPy arrays, in place; `g` may be overwritten."""
        scalars = dict(self.scalars)
        own = {name: on for name, on in self.flags if name not in SHARED}
        if ("maximize", True) in self.flags:
            np.negative(g, out=g)
        if decay := scalars.pop("weight_decay", 0.0):
            g += decay * p
        if (kept := scalars.pop("kept", 1.0)) != 1:
            p *= kept
        self.update(p, g, **states, **own, **scalars)
