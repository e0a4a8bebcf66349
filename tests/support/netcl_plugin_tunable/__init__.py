"""The plugin tunable: `scaled`, an op whose settings are good, bad or wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag

LABEL = "by spans"
#: The default wastes time, so that every machine finds something better.
CHOICES: dict[str, Any] = {"span": (16, 64), "waste": (400, 0)}
DEFAULT = {"span": 16, "waste": 400}


def plan(request: ag.Request) -> nc.Kernels:
    """One launch, as the settings say."""
    settings, size, slots = request.settings, request.output.size, request.slots
    numbers = (("ulong", size), ("float", request.attrs["factor"]))
    return nc.Kernels(
        (
            nc.Kernel(
                "tunable/scaled.cl.j2",
                "scaled",
                slots.args((("in", 0), ("out", 0)), numbers),
                (-(-size // settings["span"]),),
                context={"waste": 0, "off": 0, **settings, **slots.context(1)},
            ),
        )
    )


def space(
    choices: Any = None,
    default: Callable[[ag.Request], Any] = lambda request: DEFAULT,
    **fields: Any,
) -> ag.Space:
    """The space, or another one."""
    return ag.Space(CHOICES if choices is None else choices, default, **fields)


def operator(given: ag.Space | None = None, **fields: Any) -> ag.Operator:
    """`scaled(x, factor=2.0)`, whose implementation has a space."""
    own = {"plan": plan, "requires": ag.Requirements(dtypes=("float32",)), "epilogue": True}
    way = ag.Implementation("scaled", LABEL, space=given or space(), **{**own, **fields})
    return ag.Operator(
        name="scaled",
        bind=lambda x, factor=2.0: ((x,), {"factor": float(factor)}),
        infer=lambda x, factor: x,
        reference=lambda x, factor: x * np.float32(factor),
        backward=lambda saved, grad: [ag.mul(grad, saved.attrs["factor"])],
        implementations=(way,),
    )


class Plugin:
    """Brings `scaled`, with its space or another, and cases of it."""

    def __init__(self, record: ag.Operator | None = None, cases: Any = ()) -> None:
        self.record = record or operator()
        self.cases = cases

    @nc.hookimpl
    def netcl_register_operators(self, registry: nc.OperatorRegistrar) -> None:
        """Add the op."""
        registry.add(self.record)

    @nc.hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        """The cases."""
        return self.cases or "the test gives none"


plugin = Plugin()
