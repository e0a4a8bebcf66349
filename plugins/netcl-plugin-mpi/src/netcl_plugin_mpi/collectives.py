"""Collectives: every process calls them, in one order, with tensors of one shape and dtype."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any, Final

import numpy as np

from netcl_core import DTYPES, Tensor, capturing
from netcl_core.errors import ArgumentError, AttributeValueError, ReplayError, ShapeError, message
from netcl_plugin_mpi.processes import Job, current

_REDUCTIONS: Final = {"SUM": "SUM", "MEAN": "SUM", "MAX": "MAX", "MIN": "MIN"}
#: Seconds between two looks; a link of 10 Gbit/s brings 250 kB in it.
_PAUSE: Final = 2e-4


def on_wire(array: Any) -> Any:
    """An array as MPI takes it: 16-bit floats as float32, so that a sum is rounded once."""
    if array.dtype.itemsize == 2 and array.dtype.kind != "i":
        return np.ascontiguousarray(array, np.float32)
    return np.ascontiguousarray(array)


def reduced(job: Job, world: Any, array: Any, op: str, awaited: Event | None = None) -> Any:
    """Reduce an array `on_wire` over all processes, in place; returns it.

    MPI's own wait keeps a core busy. With `awaited` it begins when that is set; until then this
    only looks now and then, and leaves the core to what is computed meanwhile.
    """
    request = world.Iallreduce(job.mpi.IN_PLACE, array, op=_mpi_op(job, array, op))
    if awaited is not None:
        while not request.Test() and not awaited.wait(_PAUSE):
            pass
    request.Wait()
    if op == "MEAN":
        np.divide(array, world.size, out=array, casting="unsafe")
    return array


def _mpi_op(job: Job, array: Any, op: str) -> Any:
    name = _REDUCTIONS[op]
    if array.dtype == np.bool_:
        name = "LAND" if name == "MIN" else "LOR"
    return getattr(job.mpi, name)


def all_reduce(x: Tensor, op: str = "SUM") -> Tensor:
    """The elements of all processes' tensors reduced, the same in every process.

    >>> distributed.all_reduce(nc.tensor([1.0, 2.0])).tolist()  # of one process
    [1.0, 2.0]

    Args:
        x: Any shape and dtype, the same in every process; no gradient flows through.
        op: "SUM", "MEAN" (floating dtypes), "MAX" or "MIN". Of bools SUM is whether any is true.

    Returns:
        A new tensor. Sums of float16 and bfloat16 are computed in float32.

    Raises:
        DistributedError: `init()` was not called, or the processes' tensors differ.
    """
    reduction = _reduction("all_reduce", x, op)
    job = _checked("all_reduce", x, reduction)
    array = on_wire(_host(x))
    total = job.begin("all_reduce", lambda world: reduced(job, world, array, reduction)).result()
    return _like(x, total)


def broadcast(x: Tensor, root: int = 0) -> Tensor:
    """The tensor of one process, in every process.

    >>> distributed.broadcast(nc.tensor([1.0, 2.0]), root=0).tolist()
    [1.0, 2.0]

    Args:
        x: Any shape and dtype, the same in every process; the elements count in `root` alone.
        root: Whose elements.

    Returns:
        A new tensor. Raises as `all_reduce`, and AttributeValueError for a root that is no rank.
    """
    job = _checked("broadcast", x, f"root={root}")
    if not 0 <= root < job.size:
        expected = f"a rank from 0 to {job.size - 1}"
        raise AttributeValueError(message("broadcast", f"root={root}", expected))
    array = _bytes(_host(x))

    def transfer(world: Any) -> None:
        world.Bcast(array, root=root)

    job.begin("broadcast", transfer).result()
    return _like(x, array.view(DTYPES[x.dtype].numpy).reshape(x.shape))


def all_gather(x: Tensor) -> Tensor:
    """The tensors of all processes joined along axis 0, in the order of their ranks.

    >>> distributed.all_gather(nc.tensor([1.0, 2.0])).shape  # of one process
    (2,)

    Args:
        x: Any dtype, one shape in every process; a scalar counts as one row.

    Returns:
        A new tensor of shape (size() * x.shape[0], ...). Raises as `all_reduce`.
    """
    job = _checked("all_gather", x, "")
    array = _host(x).reshape(x.shape or (1,))
    gathered = np.empty((job.size, *array.shape), array.dtype)

    def transfer(world: Any) -> None:
        world.Allgather(_bytes(array), gathered.view(np.uint8))

    if array.size:
        job.begin("all_gather", transfer).result()
    return _like(x, gathered.reshape(job.size * array.shape[0], *array.shape[1:]))


def reduce_scatter(x: Tensor, op: str = "SUM") -> Tensor:
    """The reduced tensor cut along axis 0: each process gets the part of its rank.

    >>> distributed.reduce_scatter(nc.tensor([1.0, 2.0])).tolist()  # of one process
    [1.0, 2.0]

    Args:
        x: As for `all_reduce`; its first axis must be divisible by `size()`.
        op: As for `all_reduce`.

    Returns:
        A new tensor of shape (x.shape[0] / size(), ...). Raises as `all_reduce`, and ShapeError.
    """
    reduction = _reduction("reduce_scatter", x, op)
    job = _checked("reduce_scatter", x, reduction)
    if not x.shape or x.shape[0] % job.size:
        expected = f"a first axis divisible by the {job.size} processes"
        raise ShapeError(message("reduce_scatter", f"shape {x.shape}", expected))
    array = on_wire(_host(x))
    scattered = np.empty((x.shape[0] // job.size, *x.shape[1:]), array.dtype)

    def transfer(world: Any) -> None:
        world.Reduce_scatter_block(array, scattered, op=_mpi_op(job, array, reduction))

    if array.size:
        job.begin("reduce_scatter", transfer).result()
    return _like(x, scattered / job.size if reduction == "MEAN" else scattered)


def barrier() -> None:
    """Wait until every process is here. Raises DistributedError before `init()`.

    >>> distributed.barrier()
    """

    def transfer(world: Any) -> None:
        world.Barrier()

    current("barrier").begin("barrier", transfer).result()


def make_allreduce_cb(op: str = "MEAN") -> Callable[[Any, Any], Tensor]:
    """A callback for `autodiff.GradManager.attach` that reduces gradients over the processes.

    >>> gm = autodiff.GradManager()
    >>> x = nc.tensor([3.0])
    >>> _ = gm.attach(x, callbacks=[distributed.make_allreduce_cb("MEAN")])
    >>> with gm:
    ...     gm.backward(x * x)
    >>> x.grad.tolist()
    [6.0]

    Each gradient is reduced as soon as it is complete, and the pass waits for it;
    `DistributedDataParallel` does not wait. Raises AttributeValueError for an unknown `op`.
    """
    reduction = _named("make_allreduce_cb", op)

    def callback(tensor: Any, gradient: Any) -> Tensor:
        return all_reduce(gradient, reduction)

    return callback


def _named(who: str, op: str) -> str:
    name = str(op).upper()
    if name not in _REDUCTIONS:
        raise AttributeValueError(message(who, f"op={op!r}", "SUM, MEAN, MAX or MIN"))
    return name


def _reduction(who: str, x: Any, op: str) -> str:
    name = _named(who, op)
    if name == "MEAN" and isinstance(x, Tensor) and not DTYPES[x.dtype].floating:
        given = f"the mean of a {x.dtype} tensor"
        raise ArgumentError(message(who, given, "a floating dtype", "Use op='SUM' and divide"))
    return name


def _checked(who: str, x: Any, setting: str) -> Job:
    """The job, if all processes call this with the same."""
    if not isinstance(x, Tensor):
        raise ArgumentError(message(who, f"a {type(x).__name__}", "a Tensor"))
    if capturing():
        remedy = "Call it between the replays"
        raise ReplayError(message(who, "a call inside a capture", "one outside", remedy))
    job = current(who)
    job.agree(who, f"{who} of {x.dtype} of shape {x.shape} {setting}".rstrip())
    return job


def _host(x: Tensor) -> Any:
    """The elements in memory of their own, which MPI may write."""
    return np.array(x.detach().to_host(), order="C")


def _bytes(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _like(x: Tensor, array: Any) -> Tensor:
    return Tensor.from_host(np.asarray(array, DTYPES[x.dtype].numpy), x.device)
