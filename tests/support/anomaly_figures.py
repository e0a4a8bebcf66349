"""How often check_numerics refuses a right gradient and passes a wrong one, over every op.

    python tests/support/anomaly_figures.py [--inputs 2000] [--dtype float32] [op ...]

The inputs are those of the first-party plugins' conformance cases: as they are drawn, of mixed
sizes, and at kinks (whole numbers, zeros, ties).
"""

from __future__ import annotations

import argparse
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
from netcl_plugin_kit.numerics.checking import find_doubt
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import records_of, table_of
from netcl_plugin_kit.testing.derived import derived_cases
from netcl_plugin_kit.testing.samples import FLOATS, is_floating

import netcl_core.autograd as ag
from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.errors import AttributeValueError, NetclError
from netcl_core.hardware.device_table import get_device, use_device
from netcl_core.tape.gradients import whole
from netcl_core.tensors.host_data import Array
from netcl_core.tensors.tensor import Tensor

PLUGINS = ("elementwise", "tensor", "linalg", "losses")
FACTORS = (1.01, 0.99, -1.0, 388.0)
ONE = "one element"
#: Larger variants of a case say no more here and take long.
MOST = 2000


@dataclass
class Figures:
    """What came of one op's inputs."""

    inputs: int = 0
    nodes: int = 0
    refused: list[str] = field(default_factory=list)
    tried: Counter[Any] = field(default_factory=Counter)
    passed: Counter[Any] = field(default_factory=Counter)
    examples: dict[Any, str] = field(default_factory=dict)

    def add(self, other: Figures) -> None:
        self.inputs += other.inputs
        self.nodes += other.nodes
        self.refused += other.refused
        self.tried += other.tried
        self.passed += other.passed
        self.examples = other.examples | self.examples


def all_cases() -> dict[str, list[Case]]:
    """The differentiable cases of the first-party plugins, by op; primitives without one too."""
    cases_of: dict[str, list[Case]] = {}
    for name in PLUGINS:
        table = table_of(name)
        cases = [case for case in table.cases if case.differentiable]
        known = {case.op for case in table.cases}
        own = [each for each in records_of(table.provider) if isinstance(each, AutogradPrimitive)]
        for record in own:  # not the parts of ops, which have no name to be called by
            if record.backward is not None and record.name not in known:
                cases += derived_cases(record, table.provider)
        for case in cases:
            cases_of.setdefault(case.op, []).append(case)
    return cases_of


def draw(case: Case, dtype: str, number: int) -> list[Array]:
    """The inputs of a number: a variant of the case, in one of four manners."""
    small = [
        variant for variant in case.variants if 0 < max(map(np.prod, variant), default=0) <= MOST
    ]
    shapes = small[number % len(small)] if small else case.variants[0]
    arrays = case.sample(shapes, dtype, str(number))
    random = np.random.default_rng(zlib.crc32(f"{case}{number}".encode()))
    manner = number % 4
    return [_changed(x, manner, random) if is_floating(x) else x for x in arrays]


def _changed(x: Array, manner: int, random: np.random.Generator) -> Array:
    with np.errstate(all="ignore"):
        if manner == 1:
            return np.asarray(x * 10.0 ** random.uniform(-3, 2, x.shape)).astype(x.dtype)
        if manner == 2:
            return np.asarray(np.where(random.uniform(size=x.shape) < 0.5, np.rint(x), x)).astype(
                x.dtype
            )
    return x


def wrongs(
    gradients: Sequence[Any], random: np.random.Generator, finite: Array
) -> Iterator[tuple[Any, list[Any]]]:
    """Wrong gradients of a node, with what is wrong; those that change nothing are left out.

    `finite` says which elements of the result are numbers: no difference is known at the others.
    """
    for factor in FACTORS:
        changed = [_scaled(gradient, factor) for gradient in gradients]
        if any(b is not None and _visible(a, b) for a, b in zip(gradients, changed, strict=True)):
            yield factor, changed
    changed = [_off(gradient, random, finite) for gradient in gradients]
    if any(b is not None and _visible(a, b) for a, b in zip(gradients, changed, strict=True)):
        yield ONE, changed


def _scaled(gradient: Any, factor: float) -> Any:
    if gradient is None or gradient.dtype not in FLOATS:
        return gradient
    with np.errstate(all="ignore"):
        array = np.asarray(gradient.to_host() * factor).astype(gradient.dtype)
    return Tensor.from_host(array, gradient.device)


def _off(gradient: Any, random: np.random.Generator, finite: Array) -> Any:
    """The gradient with twice the largest of its numbers at one place."""
    if gradient is None or not gradient.size:
        return gradient
    array = gradient.to_host().copy()
    known = np.abs(array[np.isfinite(array)])
    flat = array.reshape(-1)
    place = int(random.integers(flat.size))
    seen = finite.shape != array.shape or finite.reshape(-1)[place]
    if known.size and np.isfinite(flat[place]) and seen:
        with np.errstate(all="ignore"):
            flat[place] += 2 * known.max()
    return Tensor.from_host(array, gradient.device)


def _visible(right: Any, wrong: Any) -> bool:
    """Whether a wrong gradient is finite and differs by more than the dtype's smallest numbers."""
    a, b = right.to_host().astype(np.float64), wrong.to_host().astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)[np.isfinite(a) & np.isfinite(b)]
    return bool(
        apart.max(initial=0.0) > {"bfloat16": 6e-3, "float16": 1e-4}.get(right.dtype, 1e-25)
    )


def judge(figures: Figures, every: int, finite: Array) -> Callable[..., None]:
    """A check of a node: right gradients, and wrong ones of one node in every so many."""

    def check(node: Any, upstream: Any, gradients: Sequence[Any]) -> None:
        figures.nodes += 1
        doubt = find_doubt(node, upstream, gradients)
        if doubt is not None:
            figures.refused.append(f"{node.op_name}: {doubt}")
        if figures.nodes % every:
            return
        random = np.random.default_rng(figures.nodes)
        for what, wrong in wrongs(gradients, random, finite):
            figures.tried[what] += 1
            if find_doubt(node, upstream, wrong) is None:
                figures.passed[what] += 1
                figures.examples[what] = _example(node, upstream, gradients)

    return check


def _example(node: Any, upstream: Any, gradients: Sequence[Any]) -> str:
    values = [getattr(x, "value", x) for x in node.inputs]
    shown = [v.to_host().reshape(-1)[:6] if isinstance(v, Tensor) else v for v in values]
    up = [
        None if gradient is None else whole(gradient).to_host().reshape(-1)[:6]
        for gradient in upstream
    ]
    given = [None if g is None else g.to_host().reshape(-1)[:6] for g in gradients]
    return f"{node.op_name} of {shown}, upstream {up}, gradients {given}"


def run(case: Case, dtype: str, number: int, device: Any, figures: Figures, every: int) -> None:
    """One input of a case: forward, backward, judgement of every node."""
    arrays = draw(case, dtype, number)
    needs = case.needs(arrays)
    random = np.random.default_rng(number)
    figures.inputs += 1
    with use_device(device), np.errstate(all="ignore"):
        tensors = [
            Tensor.from_host(array, device, requires_grad=need)
            for array, need in zip(arrays, needs, strict=True)
        ]
        try:
            result = case.run(*tensors)
        except NetclError:
            return  # the changed numbers are none that the op takes
        if not result.requires_grad or not result.size:
            return
        seed = random.standard_normal(result.shape).astype(result.dtype)
        mode = ag.detect_anomaly(check_numerics=True)
        check = judge(figures, every, np.isfinite(result.to_host()))
        # NaN is the other check's
        mode._mode = SimpleNamespace(around=lambda nodes: nullcontext(), check=check)
        with mode, suppress(AttributeValueError):  # a gradient that solves with a singular matrix
            ag.backward(result, seed)


def figures_of(
    cases: Sequence[Case], dtype: str, inputs: int, device: Any, every: int = 1
) -> Figures:
    """The figures of one op, its inputs spread over its cases that take the dtype."""
    usable = [case for case in cases if dtype in case.takes]
    figures = Figures()
    for number in range(inputs if usable else 0):
        case = usable[number % len(usable)]
        run(case, dtype, number // len(usable), device, figures, every)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="numpy")
    parser.add_argument("--part", default="0/1", help="k/n: every n-th op")
    given = parser.parse_args()
    part, parts = map(int, given.part.split("/"))
    device = get_device(given.device)
    total = Figures()
    for number, (op, cases) in enumerate(all_cases().items()):
        if number % parts != part or (given.ops and op not in given.ops):
            continue
        figures = figures_of(cases, given.dtype, given.inputs, device, given.every)
        total.add(figures)
        passed = {what: f"{figures.passed[what]}/{figures.tried[what]}" for what in figures.tried}
        print(f"{op:36} inputs {figures.inputs} nodes {figures.nodes} "
              f"refused {len(figures.refused)} passed {passed}", flush=True)  # fmt: skip
        for text in figures.refused[:3]:
            print("    refused", text)
        for what, text in list(figures.examples.items())[:1]:
            print("    passed", what, text)
    print(f"ALL inputs {total.inputs} nodes {total.nodes} refused {len(total.refused)} "
          f"passed {dict(total.passed)} of {dict(total.tried)}")  # fmt: skip


if __name__ == "__main__":
    main()
