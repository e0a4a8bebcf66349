"""Random programs, captured and replayed with other inputs, give what they give eagerly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from differential import Array, covectors, functions, sample
from programs import Program

import netcl_core as nc
import netcl_core.autograd as ag


def _leaves(program: Program, arrays: Sequence[Array], device: nc.Device) -> list[nc.Tensor]:
    return [
        nc.Tensor.from_host(array, device, requires_grad=spec.needs)
        for array, spec in zip(arrays, program.inputs, strict=True)
    ]


class _Step:
    """A program with its backward pass, for the numbers of the first turn."""

    def __init__(self, program: Program) -> None:
        self.numbers = sample(program)[1]
        self.call: Any = functions(program)[0]

    def __call__(self, *tensors: Any) -> list[Any]:
        results = list(self.call(*tensors, *self.numbers))
        forms = [np.empty(each.shape, each.dtype) for each in results]
        weights = covectors(forms, [each.dtype for each in results])
        for result, weight in zip(results, weights, strict=True):
            if weight is not None and result.requires_grad:
                ag.backward(result, weight.astype(result.dtype), retain_graph=True)
        return results


def _read(results: Sequence[Any], leaves: Sequence[nc.Tensor]) -> list[Array | None]:
    grads = [leaf.grad for leaf in leaves]
    return [None if tensor is None else tensor.to_host() for tensor in (*results, *grads)]


def _eager(step: _Step, program: Program, arrays: Sequence[Array], device: Any) -> Any:
    leaves = _leaves(program, arrays, device)
    return _read(step(*leaves), leaves)


def mismatch(program: Program, device: nc.Device, replays: int = 2) -> str:
    """What is wrong with replays of a program; empty: nothing."""
    program = program.pruned()  # an input that only a conversion to its own dtype takes is not read
    step = _Step(program)
    with nc.use_device(device):
        leaves = _leaves(program, sample(program)[0], device)
        graph = ag.CompiledGraph(params=[leaf for leaf in leaves if leaf.requires_grad])
        with graph:
            results = step(*leaves)
        used = _used(program)
        graph.compile([leaf for leaf, use in zip(leaves, used, strict=True) if use], results)
        before = [leaf.to_host() for leaf in leaves]
        for turn in range(1, replays + 1):
            arrays = sample(program, turn)[0]
            given: list[Any] = [array for array, use in zip(arrays, used, strict=True) if use]
            if turn % 2 == 0:  # read where they lie; host data are copied
                given = [nc.Tensor.from_host(array, device) for array in given]
            values = _read(graph.replay(given), leaves)
            wanted = _eager(step, program, arrays, device)
            for i, (one, other) in enumerate(zip(values, wanted, strict=True)):
                if (one is None) != (other is None):
                    return f"turn {turn}, value {i}: {one} and eagerly {other}"
                if one is not None and not np.array_equal(
                    one, other, equal_nan=one.dtype.kind == "f"
                ):
                    return f"turn {turn}, value {i}: {one}\nand eagerly {other}"
        for leaf, kept in zip(leaves, before, strict=True):
            if not np.array_equal(leaf.to_host(), kept):
                return "a replay wrote to an input of the capture"
    return ""


def _used(program: Program) -> list[bool]:
    names = {name for line in program.lines for name in line.operands} | set(program.outputs)
    return [f"x{i}" in names for i in range(len(program.inputs))]
