"""One program, run as it is, compiled, and by PyTorch in float64: do they agree?

How far they may be apart is measured: PyTorch runs the program again with every value off by
a rounding error of its dtype, several times. What such a run changes (a sum that cancels, a
value at a kink, an overflow) is judged that much more loosely.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from netcl_plugin_kit.testing.reference import torch_module
from programs import FLOATS, WHOLE, Program

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.tensors.host_data import Array

#: A rounding error of each dtype, as a factor and as a number.
ROUNDING: Final = {
    "bfloat16": (4e-3, 1e-38),
    "float16": (5e-4, 6e-8),
    "float32": (1.2e-7, 1e-38),
    "float64": (2.3e-16, 0.0),
}
LARGEST: Final = {"bfloat16": 1e37, "float16": 6e4, "float32": 1e37, "float64": 1e300}
#: The noisy runs are this much off, so that they meet kinks nearby; what they change counts less.
_NOISE: Final = 8.0
_NOISY: Final = 7
_FACTOR: Final = 2.5


@dataclass(frozen=True)
class Found:
    """What one run gave: values and dtypes of the outputs, gradients of the inputs."""

    outputs: list[Array]
    dtypes: list[str]
    gradients: list[Array | None]


@dataclass
class Report:
    """Of a program: what did not agree, how many numbers were compared, and how tightly."""

    mismatches: list[str]
    compared: int = 0
    tight: int = 0
    with_gradients: bool = True


def sample(program: Program, turn: int = 0) -> tuple[list[Array], list[float]]:
    """Inputs and numbers; those of a later turn differ."""
    random = np.random.default_rng(zlib.crc32(str(program).encode()) + turn)
    arrays = []
    for spec in program.inputs:
        data = np.asarray(random.standard_normal(spec.shape) * 1.5)
        if spec.dtype == "bool":
            data = data > 0
        elif spec.dtype in WHOLE:
            data = np.abs(np.rint(data)) if spec.dtype == "uint8" else np.rint(data)
        arrays.append(np.asarray(data).astype(spec.dtype))
    return arrays, [number + turn for number in program.numbers]


def covectors(outputs: Sequence[Array], dtypes: Sequence[str]) -> list[Array | None]:
    """An upstream gradient for each floating output but now and then none."""
    random = np.random.default_rng(len(outputs))
    seeds: list[Array | None] = []
    for i, (array, dtype) in enumerate(zip(outputs, dtypes, strict=True)):
        weights = np.asarray(np.round(random.standard_normal(array.shape) * 4) / 4 + 0.125)
        seeds.append(weights if dtype in FLOATS and not (i == 1 and array.size % 3 == 1) else None)
    return seeds


def run_netcl(
    program: Program, arrays: Sequence[Array], numbers: Sequence[float], device: Any, call: Any
) -> Found:
    """The program on a device by `call`, which is `f` or its compiled form."""
    with nc.use_device(device):
        tensors = [
            nc.Tensor.from_host(array, device, requires_grad=spec.needs)
            for array, spec in zip(arrays, program.inputs, strict=True)
        ]
        results = call(*tensors, *numbers)
        outputs = [result.to_host() for result in results]
        dtypes = [result.dtype for result in results]
        seeds = covectors(outputs, dtypes)
        roots = [
            (result, weights.astype(result.dtype))
            for result, weights in zip(results, seeds, strict=True)
            if weights is not None and result.requires_grad
        ]
        for result, weights in roots:
            ag.backward(result, weights, retain_graph=True)
        gradients = [None if x.grad is None else x.grad.to_host() for x in tensors]
        return Found(outputs, dtypes, gradients)


class _Watch:
    """Sees every value and gradient of a PyTorch run; moves each a little where it is told to."""

    def __init__(self, torch: Any, seed: int | None) -> None:
        self.torch = torch
        self.generator = None if seed is None else torch.Generator().manual_seed(seed)
        self.overflow = False

    def _look(self, value: Any, dtype: str) -> None:
        self.overflow |= bool((~(value.abs() < LARGEST[dtype])).any())

    def __call__(self, value: Any, dtype: str) -> Any:
        if dtype not in FLOATS or not value.is_floating_point():
            return value
        if self.generator is None:
            self._look(value.detach(), dtype)
            if value.requires_grad:
                value.register_hook(partial(self._look, dtype=dtype))
            return value
        factor, least = ROUNDING[dtype]
        noise = self.torch.empty((2, *value.shape), dtype=value.dtype)
        noise.uniform_(-1, 1, generator=self.generator)
        return value * (1 + _NOISE * factor * noise[0]) + _NOISE * least * noise[1]


def run_torch(
    program: Program,
    arrays: Sequence[Array],
    numbers: Sequence[float],
    dtypes: Sequence[str],
    seed: int | None,
) -> tuple[Found, bool]:
    """PyTorch in float64, and whether a value or gradient is not finite in its dtype."""
    torch: Any = torch_module()
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        watch = _Watch(torch, seed)
        names: dict[str, Any] = {"torch": torch}
        names |= {f"note_{dtype}": partial(watch, dtype=dtype) for dtype in (*FLOATS, *WHOLE)}
        names["dtypes"] = {name: getattr(torch, name) for name in WHOLE}
        names["dtypes"] |= dict.fromkeys(FLOATS, torch.float64)
        exec(program.torch(), names)
        leaves, given = [], []
        for array, spec in zip(arrays, program.inputs, strict=True):
            wide = array.astype(np.float64) if spec.dtype in FLOATS else array
            leaf = torch.from_numpy(np.array(wide)).requires_grad_(spec.needs)
            leaves.append(leaf)
            given.append(watch(leaf, spec.dtype))
        results = names["f"](*given, *numbers)
        outputs = [np.asarray(result.detach().numpy()) for result in results]
        total: Any = 0
        for result, weights in zip(results, covectors(outputs, dtypes), strict=True):
            if weights is not None and result.requires_grad:
                total = total + (result * torch.from_numpy(weights)).sum()
        if isinstance(total, torch.Tensor):
            total.backward()
        gradients = [None if x.grad is None else x.grad.numpy() for x in leaves]
        return Found(outputs, list(dtypes), gradients), watch.overflow
    finally:
        torch.set_default_dtype(before)


def functions(program: Program) -> tuple[Callable[..., Any], Any]:
    """`f` of the program, and its compiled form."""
    names: dict[str, Any] = {"ag": ag, "__name__": "program"}
    exec(program.netcl(), names)
    return names["f"], ag.jit_compile(names["f"])


def check(program: Program, device: Any, *, eager: bool = True) -> Report:
    """Run a program everywhere, compiled twice: the second call meets the cache."""
    report = Report([])
    plain, compiled = functions(program)
    for turn in range(2 if program.numbers else 1):
        arrays, numbers = sample(program, turn)
        runs = {"jit": run_netcl(program, arrays, numbers, device, compiled)}
        if eager or turn == 0:
            runs["eager"] = run_netcl(program, arrays, numbers, device, plain)
            if runs["jit"].dtypes != runs["eager"].dtypes:
                report.mismatches.append(f"dtypes {runs['jit'].dtypes} of {runs['eager'].dtypes}")
                return report
        _judge(program, arrays, numbers, runs, report)
        if report.mismatches:
            return report
    return report


def _judge(
    program: Program,
    arrays: Sequence[Array],
    numbers: Sequence[float],
    runs: dict[str, Found],
    report: Report,
) -> None:
    dtypes = runs["jit"].dtypes
    exact, overflow = run_torch(program, arrays, numbers, dtypes, None)
    noisy = [run_torch(program, arrays, numbers, dtypes, seed)[0] for seed in range(_NOISY)]
    if overflow:
        report.with_gradients = False
    for who, run in runs.items():
        for i, given in enumerate(run.outputs):
            if overflow:
                continue
            moved = [each.outputs[i] for each in noisy]
            _compare(f"{who}: output {i}", given, exact.outputs[i], moved, dtypes[i], report)
        for i, gradient in enumerate(run.gradients):
            if overflow or not program.inputs[i].needs:
                continue
            shape = arrays[i].shape
            zero = np.zeros(shape)
            _compare(
                f"{who}: gradient {i}",
                zero if gradient is None else gradient,
                _or(exact.gradients[i], zero),
                [_or(each.gradients[i], zero) for each in noisy],
                program.coarsest(),
                report,
            )


def _or(value: Array | None, other: Array) -> Array:
    return other if value is None else value


def _compare(
    what: str, given: Array, exact: Array, noisy: Sequence[Array], dtype: str, report: Report
) -> None:
    if given.shape != exact.shape:
        report.mismatches.append(f"{what}: shape {given.shape} instead of {exact.shape}")
        return
    report.compared += given.size
    if dtype not in FLOATS:
        sure = np.all([value == exact for value in noisy], axis=0)
        wrong = sure & (given != exact)
        report.tight += int(sure.sum())
    else:
        spread = np.max([np.abs(value - exact) for value in noisy], axis=0, initial=0.0)
        factor, least = ROUNDING[dtype]
        scale = float(np.abs(exact).max(initial=0.0))
        ulps = 16.0
        if "gradient" in what:  # an op may cancel inside, as 1 - tanh^2; what enters it is about 1
            scale, ulps = max(scale, 1.0), 16.0 if "float16" in dtype else 64.0
        bound = _FACTOR * spread + ulps * factor * (np.abs(exact) + 0.5 * scale) + 64 * least
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(given.astype(np.float64) - exact) <= bound) & np.isfinite(spread)
        report.tight += int((bound <= 0.02 * np.abs(exact) + 1e-5).sum())
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        report.mismatches.append(
            f"{what}: {given[place]} instead of {exact[place]} at {tuple(map(int, place))}; "
            f"{int(wrong.sum())} of {wrong.size} are wrong"
        )
