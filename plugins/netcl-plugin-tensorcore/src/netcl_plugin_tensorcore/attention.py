"""Attention by tensor cores: which requests they serve, and the launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, TypeAlias, final

from netcl_plugin_linalg.attention_gradients import BACKWARD, backward, kept_for_gradients
from netcl_plugin_linalg.attention_kernels import AttentionJob, job_of
from netcl_plugin_linalg.attention_kernels import reject as unfit_for_any
from netcl_plugin_linalg.attention_layouts import reader
from netcl_plugin_linalg.attention_shapes import NAME

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import Implementation, Request, Requirements
from netcl_plugin_tensorcore.products import INSTRUCTIONS, TYPES

TEMPLATE: Final = "tensorcore/attention.cl.j2"
PROBE: Final = "tensorcore/probe.cl.j2"
OF_GRADIENTS: Final = "tensorcore/attention_gradients.cl.j2"
OF_SUMS: Final = "tensorcore/attention_sums.cl.j2"
SERVED: Final = ("float16", "bfloat16", "float32")
#: Bytes of a chunk, by which tiles are copied, and of how many features heads are multiples.
_CHUNK: Final = 16
_MULTIPLE: Final = 8
_INT_MAX: Final = (1 << 31) - 4096


@final
@dataclass(frozen=True, slots=True)
class AttentionTile:
    """A work-group's `warps` of 32 items with `tall` times 16 rows each, and what these meet.

    Attributes:
        others: The rows that they meet at a time, `stages` of which are in local memory.
    """

    warps: int
    tall: int
    others: int
    stages: int

    @property
    def own(self) -> int:
        """The rows that a work-group owns."""
        return self.warps * self.tall * 16

    @property
    def items(self) -> int:
        """Work-items of a group."""
        return self.warps * 32

    def local_bytes(self, job: AttentionJob) -> int:
        """The local memory that the stages take."""
        return self.stages * self.others * (16 * sum(pitches(job)) + _SUMS)


#: For an element's bytes and heads of so many features at most, what fits 48 KB of local memory and
#: 255 registers an item.
FORWARD: Final = {
    2: {
        64: AttentionTile(4, 2, 64, 2),
        128: AttentionTile(4, 1, 32, 2),
        256: AttentionTile(4, 1, 16, 2),
    },
    4: {64: AttentionTile(8, 1, 32, 2), 128: AttentionTile(4, 1, 16, 2)},
}
OF_QUERIES: Final = {
    2: {64: AttentionTile(4, 2, 32, 2), 128: AttentionTile(4, 1, 32, 2)},
    4: {64: AttentionTile(4, 1, 16, 2)},
}
OF_KEYS: Final = {
    2: {64: AttentionTile(4, 2, 16, 2), 128: AttentionTile(4, 1, 16, 2)},
    4: {64: AttentionTile(4, 1, 16, 2)},
}
#: Tiles by an element's bytes and a head's features.
Tiles: TypeAlias = Mapping[int, Mapping[int, AttentionTile]]
#: Of each query of a tile, its two numbers in float32.
_SUMS: Final = 8


def pitches(job: AttentionJob) -> tuple[int, int]:
    """The chunks from one row of a tile to the next, of queries or keys, and of values."""
    chunk = _CHUNK // _size(job)
    return _pitch(job.shape.size, chunk), _pitch(job.shape.value_size, chunk)


def _size(job: AttentionJob) -> int:
    return DTYPES[job.request.inputs[0].dtype].itemsize


def _pitch(features: int, chunk: int) -> int:
    return 1 << (-(-features // 16) * 16 // chunk - 1).bit_length()


def _tile(tiles: Tiles, job: AttentionJob) -> AttentionTile:
    """The tile for heads of this size, which are not too wide."""
    widest = max(job.shape.size, job.shape.value_size)
    return next(tile for most, tile in tiles[_size(job)].items() if widest <= most)


def unsuited(request: Request, tiles: Tiles) -> str | None:
    """Why other kernels serve an attention, or None."""
    job, device = job_of(request), request.device
    shape, widest = job.shape, max(job.shape.size, job.shape.value_size)
    most = max(tiles[_size(job)])
    if widest > most:
        return f"heads of {widest}, more than {most}"
    if shape.size % _MULTIPLE or shape.value_size % _MULTIPLE:
        return f"heads of {shape.size} and {shape.value_size}, no multiples of {_MULTIPLE}"
    if not all((shape.queries, shape.keys, shape.size, shape.value_size)):
        return "there is nothing to attend to"
    if not request.attrs["scale"]:
        return "a scale of 0"
    tile = _tile(tiles, job)
    if tile.items > device.max_work_group_size:
        return f"{device} has no work-groups of {tile.items}"
    if tile.local_bytes(job) > device.local_mem_bytes:
        return f"{device} has no {tile.local_bytes(job)} bytes of local memory"
    if max(shape.queries, shape.keys) > _INT_MAX:
        return "the sizes are no ints"
    return None


def reject(request: Request) -> str | None:
    """Why other kernels serve the results, or None."""
    return unfit_for_any(request) or unsuited(request, FORWARD)


def reject_gradients(request: Request) -> str | None:
    """Why other kernels serve the gradients, or None."""
    return unsuited(request, OF_QUERIES) or unsuited(request, OF_KEYS)


def _launch(
    job: AttentionJob,
    template: str,
    entry: str,
    buffers: Sequence[tuple[str, Any]],
    rows: int,
    tile: AttentionTile,
    numbers: Sequence[tuple[str, Any]] = (),
    **flags: Any,
) -> Kernel:
    """A launch for all of an attention's matrices, of which the work-groups own the `rows`."""
    pitch, value_pitch = pitches(job)
    context = {
        **asdict(tile),
        "items": tile.items,
        "own": tile.own,
        "type": TYPES[job.request.inputs[0].dtype],
        "pitch": pitch,
        "value_pitch": value_pitch,
        **flags,
    }
    items = job.shape.count * -(-rows // tile.own) * tile.items
    return job.kernel(template, entry, buffers, numbers, items, (tile.items,), 1, context)


def attended(request: Request, tile: AttentionTile, instructions: str = INSTRUCTIONS) -> Kernels:
    """The results, and the logarithms of the rows' sums if they are kept."""
    job = job_of(request)
    outputs: list[tuple[str, Any]] = [("out", 0), ("out", 1)][: 1 + request.keep]
    kernel = _launch(
        job, TEMPLATE, "tensor_attention", [*job.inputs, *outputs], job.shape.queries, tile,
        keep=request.keep, edge=job.shape.keys % tile.others > 0, instructions=instructions,
    )  # fmt: skip
    return job.laid_out(Kernels((kernel,)))


def gradients(
    request: Request,
    of_queries: AttentionTile,
    of_keys: AttentionTile,
    instructions: str = INSTRUCTIONS,
) -> Kernels:
    """The gradients of query, key and value (outputs 0 to 2): no two work-groups add to one."""
    job = job_of(request)
    shape = job.shape
    *given, out, logsums, grad = job.inputs
    together = math.lcm(of_queries.own, of_keys.others)
    padded = -(-shape.queries // together) * together
    rows = shape.count * padded
    sizes = [("ulong", shape.queries), ("ulong", padded), ("ulong", rows)]
    context = {
        "pitched": job.pitched,
        "storage": DTYPES[request.inputs[0].dtype].storage,
        "value_size": shape.value_size,
    }
    operands: list[Any] = [*given, grad, ("scratch", 0)]
    summed = (out, grad, logsums, ("scratch", 0), *sizes, *job.paired_rows[1:])
    common: dict[str, Any] = {"numbers": sizes[1:2], "instructions": instructions}
    launches = (
        Kernel(OF_SUMS, "attention_sums", summed, (rows,), None, context),
        _launch(job, OF_GRADIENTS, "tensor_query_gradient", [*operands, ("out", 0)], shape.queries,
                of_queries, edge=shape.keys % of_queries.others > 0, **common),
        _launch(job, OF_GRADIENTS, "tensor_key_gradients", [*operands, ("out", 1), ("out", 2)],
                shape.keys, of_keys, edge=shape.queries % of_keys.others > 0, **common),
    )  # fmt: skip
    return job.laid_out(Kernels(launches, (rows * _SUMS,)))


def _plan(request: Request) -> Kernels:
    """The results, by lower tiles where there are too few to occupy the device."""
    job = job_of(request)
    tile = _tile(FORWARD, job)
    few = job.shape.count * -(-job.shape.queries // tile.own) < request.device.compute_units
    return attended(request, replace(tile, tall=1) if few else tile)


def _plan_gradients(request: Request) -> Kernels:
    job = job_of(request)
    return gradients(request, _tile(OF_QUERIES, job), _tile(OF_KEYS, job))


def _requirements(reason: Callable[[Request], str | None]) -> Requirements:
    return Requirements(device_kinds=("gpu",), dtypes=SERVED, reject=reason, compiles=PROBE)


IMPLEMENTATIONS: Final = (
    Implementation(
        NAME,
        "tensor cores",
        _plan,
        _requirements(reject),
        priority=2,
        backward=backward,
        residuals=kept_for_gradients,
        reads=reader(aligned=True),
    ),
    Implementation(
        BACKWARD,
        "tensor cores",
        _plan_gradients,
        _requirements(reject_gradients),
        priority=2,
        reads=reader(aligned=True),
    ),
)
