"""The processes of a job: which one this is, what device it uses, and its line of transfers.

One thread of each process speaks to the others, in the order in which it is asked to. So a
transfer runs beside what the program computes, and all processes do the same things in one order.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Final, TypeVar, final

from netcl_core import Device, config, default_device, devices, use_device
from netcl_core.errors import AttributeValueError, NetclError, message
from netcl_plugin_mpi.watch import Watch

T = TypeVar("T")
_WHO: Final = "distributed"


class DistributedError(NetclError, RuntimeError):
    """There is no MPI, `init()` was not called, or the processes do not agree.

    >>> issubclass(distributed.DistributedError, RuntimeError)
    True
    """


@final
class Job:
    """The processes that were started together, as one of them sees them."""

    def __init__(self, mpi: Any, timeout: float | None) -> None:
        self.mpi = mpi
        self.world = mpi.COMM_WORLD.Dup()
        self.rank: int = self.world.rank
        self.size: int = self.world.size
        self.host: str = mpi.Get_processor_name()
        local = self.world.Split_type(mpi.COMM_TYPE_SHARED)
        self.local_rank: int = local.rank
        self.watch = Watch(self.world, self.host, local.size == self.size, timeout)
        self._line = ThreadPoolExecutor(1, "netcl-distributed")

    def begin(self, name: str, transfer: Callable[[Any], T]) -> Future[T]:
        """Let `transfer(communicator)` run after what was begun before; `name` is for reports."""
        return self._line.submit(self._run, name, transfer)

    def _run(self, name: str, transfer: Callable[[Any], T]) -> T:
        self.watch.enter(name)
        try:
            return transfer(self.world)
        finally:
            self.watch.leave()

    def agree(self, who: str, given: str) -> None:
        """Raise on all processes unless they were given the same."""
        seen = self.begin(who, lambda world: world.allgather(given)).result()
        for other, theirs in enumerate(seen):
            if theirs != seen[0]:
                text = f"{seen[0]} in rank 0 and {theirs} in rank {other}"
                raise DistributedError(message(who, text, "the same in every process"))


_jobs: Final[list[Job]] = []


def init(device: str | Device | None = None, timeout: float | None = 20.0) -> None:
    """Join the other processes of the job, and choose the device of this one.

    >>> distributed.init()
    >>> distributed.rank(), distributed.size()  # under `mpiexec -n 4`: 0 to 3, and 4
    (0, 1)

    Without `mpiexec` it is a job of one process. A second call changes nothing.

    From then on the processes watch each other. If one is killed, raises what nobody catches, or
    keeps the others waiting for longer than `timeout`, all of them end, and standard error says
    which one it was, on which host, and where in its program.

    Args:
        device: What this process computes on. By default the setting NETCL_DEVICE decides, and
            without it the processes of one host take its GPUs in turn, by their `local_rank`.
        timeout: Seconds for which one process may keep the others waiting in a transfer. More
            where rank 0 alone does something long, None for no limit.

    Raises:
        DistributedError: no MPI can be loaded.
        AttributeValueError: `timeout` is not above 0.
    """
    if timeout is not None and not timeout > 0:
        raise AttributeValueError(message("init", f"timeout={timeout!r}", "seconds above 0"))
    if _jobs:
        return
    job = Job(_load(), timeout)
    _jobs.append(job)
    _choose(device, job.local_rank)
    sys.excepthook = _ending(sys.excepthook)
    atexit.register(_finish, job)


def _load() -> Any:
    try:
        from mpi4py import MPI  # starts MPI
    except (ImportError, RuntimeError) as error:
        said = str(error).strip().splitlines()[0]
        remedy = (
            "Install one with `pip install mpich`, or take the system's: mpi4py looks for "
            "libmpi.so.12 (where Debian's MPICH is, it is called libmpich.so.12: link it)"
        )
        given = f"no MPI library can be loaded ({said})"
        raise DistributedError(
            message(_WHO, given, "MPICH, Open MPI or Intel MPI", remedy)
        ) from error
    return MPI


def _choose(device: str | Device | None, local: int) -> None:
    """Set the default device of the process."""
    if device is not None:
        use_device(device)
    elif not config.get("device") and default_device().kind == "gpu":
        gpus = [each for each in devices() if each.kind == "gpu"]
        use_device(gpus[local % len(gpus)])


def _ending(before: Callable[..., Any]) -> Callable[..., None]:
    """What ends all processes when this one ends by an exception."""

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        before(kind, error, trace)
        _jobs[0].watch.ended(f"{kind.__name__}: {error}")

    return ended


def _finish(job: Job) -> None:
    """Wait for the others, watching: one may be killed when this one is done."""
    job.watch.enter("")
    job.world.Barrier()
    if job.rank == 0:
        job.watch.close()
    job.world.Barrier()  # nobody goes while rank 0 is watching
    if job.rank:
        job.watch.close()


def current(who: str) -> Job:
    """The job; raises DistributedError before `init()`."""
    if not _jobs:
        given = "a call before init()"
        remedy = "Call netcl_core.distributed.init() at the beginning of the program"
        raise DistributedError(message(who, given, "processes that have joined", remedy))
    return _jobs[0]


def rank() -> int:
    """The number of this process, from 0; DistributedError before `init()`.

    >>> distributed.rank()  # the first, or the only one
    0
    """
    return current("rank").rank


def size() -> int:
    """How many processes the job has; DistributedError before `init()`.

    >>> distributed.size()  # without a launcher
    1
    """
    return current("size").size


def local_rank() -> int:
    """The number of this process on its host; DistributedError before `init()`.

    >>> distributed.local_rank()
    0
    """
    return current("local_rank").local_rank


def is_available() -> bool:
    """Whether this process was started by an MPI launcher, with others or alone.

    >>> distributed.is_available()  # in a program that Python has started
    False
    """
    launched = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
    return find_spec("mpi4py") is not None and any(name in os.environ for name in launched)


def is_initialized() -> bool:
    """Whether `init()` was called.

    >>> distributed.init()
    >>> distributed.is_initialized()
    True
    """
    return bool(_jobs)


def get_rank() -> int:
    """PyTorch's name of `rank`; 0 before `init()`.

    >>> distributed.get_rank()
    0
    """
    return _jobs[0].rank if _jobs else 0


def get_world_size() -> int:
    """PyTorch's name of `size`; 1 before `init()`.

    >>> distributed.get_world_size()
    1
    """
    return _jobs[0].size if _jobs else 1
