"""Kernels that work on many gradients in one launch: their norm, a factor, a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Bound, Device, Kernel, Kernels, Tensor, on_host, widened

TEMPLATE: Final = "optim/gradients.cl.j2"
#: Gradients per launch: 48 * (a pointer and a number) stay below the 1,024 bytes that
#: OpenCL grants for a kernel's arguments.
_PER_LAUNCH: Final = 48
#: Elements per work-item and items per group, as in an optimizer's step.
_CPU_CHUNK: Final = 4096
_GPU_CHUNK: Final = 4
_GPU_LOCAL: Final = 128


def norm_of(gradients: Sequence[Tensor], power: float) -> Tensor:
    """The norm of all elements of all gradients (of one device, at least one): 0-d.

    It is float64 if a gradient is, else float32; nothing waits for the device.
    """
    device = gradients[0].device
    acc = "float64" if any(g.dtype == "float64" for g in gradients) else "float32"
    if not device.has_kernels:
        return _numpy_norm(gradients, power, acc)
    parts = list(_parts(gradients))
    blocks = [_blocks(device, part) for part in parts]
    partials = Tensor.empty((sum(blocks),), acc, device)
    first = 0
    for part, count in zip(parts, blocks, strict=True):
        bound = _powers(device, part[0].dtype, _sizes(part), acc, power, first)
        bound([], [*(g.buffer for g in part), partials.buffer])
        first += count
    total = Tensor.empty((), acc, device)
    _total(device, acc, power, partials.size)([partials.buffer], [total.buffer])
    return total


def scale(gradients: Sequence[Tensor], norm: Tensor, max_norm: float) -> None:
    """Multiply all gradients by min(1, max_norm / (norm + 1e-6)), in place."""
    if not norm.device.has_kernels:

        def scaled(g: Any, norm: Any) -> Any:
            return g * np.minimum(max_norm / (norm + norm.dtype.type(1e-6)), 1)

        _numpy_apply(gradients, scaled, norm)
        return
    for part in _parts(gradients):
        bound = _change(norm.device, part[0].dtype, _sizes(part), "gradient_scale", norm.dtype)
        with ag.written_back(part) as targets:
            bound([norm.buffer], [g.buffer for g in targets], [max_norm])
        _mark(part)


def clamp(gradients: Sequence[Tensor], limit: float) -> None:
    """Limit all elements of gradients of one device to [-limit, limit], in place."""
    device = gradients[0].device
    if not device.has_kernels:
        _numpy_apply(gradients, lambda g: np.clip(g, -limit, limit))
        return
    for part in _parts(gradients):
        bound = _change(device, part[0].dtype, _sizes(part), "gradient_clamp", "float32")
        with ag.written_back(part) as targets:
            bound([], [g.buffer for g in targets], [limit])
        _mark(part)


def unscale(gradients: Sequence[Tensor], scale: Tensor, found_inf: Tensor) -> None:
    """Divide all gradients by a scale, in place; `found_inf` becomes 1 if one is not finite."""
    if not scale.device.has_kernels:
        _numpy_unscale(gradients, scale, found_inf)
        return
    for part in _parts(gradients):
        bound = _change(scale.device, part[0].dtype, _sizes(part), "gradient_unscale", "float32")
        with ag.written_back(part) as targets:
            bound([scale.buffer], [*(g.buffer for g in targets), found_inf.buffer])
        _mark(part)


# -- the NumPy path ------------------------------------------------------------------


def _numpy_norm(gradients: Sequence[Tensor], power: float, acc: str) -> Tensor:
    def run(arrays: Sequence[Any], target: Any) -> None:
        values = [np.abs(array.astype(acc)) for array in arrays]
        if power == float("inf"):
            target[...] = np.max([v.max() for v in values])
        else:
            target[...] = sum((v**power).sum() for v in values) ** (1 / power)

    total = Tensor.empty((), acc, gradients[0].device)
    on_host(run, gradients, [total])
    return total


def _numpy_unscale(gradients: Sequence[Tensor], scale: Tensor, found_inf: Tensor) -> None:
    def run(given: Sequence[Any], overflow: Any, *targets: Any) -> None:
        for target in targets:
            wide = widened(target)
            overflow |= not np.isfinite(wide).all()
            target[...] = wide * (wide.dtype.type(1) / given[0].astype(wide.dtype))

    on_host(run, [scale], [found_inf, *gradients])
    _mark(gradients)


def _numpy_apply(gradients: Sequence[Tensor], change: Callable[..., Any], *given: Tensor) -> None:
    def run(arrays: Sequence[Any], *targets: Any) -> None:
        for target in targets:
            target[...] = change(target, *arrays)

    on_host(run, given, gradients)
    _mark(gradients)


# -- launches ------------------------------------------------------------------------


def _mark(gradients: Sequence[Tensor]) -> None:
    for g in gradients:
        g.mark_changed()


def _parts(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Gradients that one launch can take: of one dtype, and not too many."""
    kinds: dict[str, list[Tensor]] = {}
    for g in gradients:
        kinds.setdefault(g.dtype, []).append(g)
    for members in kinds.values():
        for start in range(0, len(members), _PER_LAUNCH):
            yield members[start : start + _PER_LAUNCH]


def _sizes(part: Sequence[Tensor]) -> tuple[int, ...]:
    return tuple([g.size for g in part])


def _geometry(device: Device) -> tuple[int, int]:
    """Elements per item, items per group."""
    return (_GPU_CHUNK, _GPU_LOCAL) if device.kind == "gpu" else (_CPU_CHUNK, 1)


def _count(device: Device, sizes: Sequence[int]) -> int:
    chunk, local = _geometry(device)
    return sum(-(-size // (chunk * local)) for size in sizes)


def _blocks(device: Device, part: Sequence[Tensor]) -> int:
    return _count(device, _sizes(part))


def _context(device: Device, dtype: str, count: int, acc: str, power: float) -> dict[str, Any]:
    chunk, local = _geometry(device)
    gpu = device.kind == "gpu"
    return {
        "count": count,
        "storage": DTYPES[dtype].storage,
        "compute": DTYPES[dtype].compute,
        "acc": DTYPES[acc].compute,
        "power": repr(float(power)),
        "chunk": chunk,
        "local": local,
        "vector": 4 if gpu else 16,
        "aligned": gpu,
    }


@lru_cache(maxsize=1024)
def _powers(
    device: Device, dtype: str, sizes: tuple[int, ...], acc: str, power: float, first: int
) -> Bound:
    """Outputs: the gradients, then the partial sums, of which the first to write is `first`."""
    count, local = len(sizes), _geometry(device)[1]
    args = (
        *(("out", k) for k in range(count + 1)),
        ("ulong", first),
        *(("ulong", size) for size in sizes),
    )
    items = _count(device, sizes) * local
    context = _context(device, dtype, count, acc, power)
    kernel = Kernel(TEMPLATE, "gradient_powers", args, (items,), (local,), context)
    return Bound(device, Kernels((kernel,)), (), ())


@lru_cache(maxsize=1024)
def _total(device: Device, acc: str, power: float, count: int) -> Bound:
    """Input: the partial sums; output: the norm."""
    local = _geometry(device)[1]
    args = (("in", 0), ("out", 0), ("ulong", count))
    context = _context(device, acc, 1, acc, power)
    kernel = Kernel(TEMPLATE, "gradient_norm", args, (local,), (local,), context)
    return Bound(device, Kernels((kernel,)), (), ())


@lru_cache(maxsize=1024)
def _change(device: Device, dtype: str, sizes: tuple[int, ...], entry: str, norm: str) -> Bound:
    """Outputs: the gradients; input: the norm or the scale, which is of the dtype `norm`.

    The only scalar is the limit; to unscale there is none, and the last output is the flag.
    """
    count, local = len(sizes), _geometry(device)[1]
    scalars = [] if entry == "gradient_unscale" else [("scalar", 0)]
    args = (
        *(("out", k) for k in range(count + 1 - len(scalars))),
        *([] if entry == "gradient_clamp" else [("in", 0)]),
        *scalars,
        *(("ulong", size) for size in sizes),
    )
    items = _count(device, sizes) * local
    context = _context(device, dtype, count, norm, 2.0)
    kernel = Kernel(TEMPLATE, entry, args, (items,), (local,), context)
    ctype = context["compute" if entry == "gradient_clamp" else "acc"]
    return Bound(device, Kernels((kernel,), scalars=(ctype,) * len(scalars)), (), ())
