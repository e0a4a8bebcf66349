"""A training pattern for tests: exp(x) * (x + y) by an operator of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import MatchedOp, Operator, TrainingGraphCompiler, TrainingPattern

GRAPH = MatchedOp("mul", (MatchedOp("exp", ("x",)), MatchedOp("add", ("x", "y"))))
FLOATS = ("float16", "float32", "float64")


def written(x: Any, y: Any) -> Any:
    """What the pattern stands for."""
    return ag.exp(x) * (x + y)


def _infer(x: nc.Spec, y: nc.Spec) -> nc.Spec:
    if x != y:
        raise nc.errors.ShapeError(f"grown: {x} and {y}")
    return x


def _backward(saved: Any, grad: Any) -> list[Any]:
    x, y = saved.inputs
    e = ag.exp(x)
    return [grad * e * (x + y + 1), grad * e]


def _plan(request: ag.Request) -> Any:
    def compute(inputs: Any, out: Any) -> None:
        x, y = inputs
        out[...] = np.exp(x) * (x + y)

    return nc.HostCall(compute)


GROWN = Operator(
    "grown",
    bind=lambda x, y: ((x, y), {}),
    infer=_infer,
    reference=lambda x, y: np.exp(x) * (x + y),
    backward=_backward,
    implementations=(ag.Implementation("grown", "host", _plan),),
)


def plan(x: Any, y: Any) -> Any:
    return GROWN(x, y)


def pattern(name: str = "grown_pattern", planner: Any = plan, **fields: Any) -> TrainingPattern:
    return TrainingPattern(
        name, fields.pop("matcher", GRAPH), planner, dtypes=FLOATS, parts=(GROWN,), **fields
    )


def compiler_of(*patterns: TrainingPattern) -> TrainingGraphCompiler:
    compiler = TrainingGraphCompiler.private()
    for each in patterns:
        compiler.register(each)
    return compiler


def data(*shape: int, seed: int = 0, dtype: str = "float32") -> nc.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return nc.tensor(np.asarray(values, dtype), requires_grad=True)
