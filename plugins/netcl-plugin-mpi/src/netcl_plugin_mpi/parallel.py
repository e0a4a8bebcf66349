"""DistributedDataParallel: each process has the model and a part of the batch.

Gradients travel in buckets. A bucket leaves as soon as its gradients are complete, and the rest of
the backward pass is computed meanwhile. With each bucket go as many further numbers as it has
parameters: 1 where this process has a gradient. So a parameter that no process used is left
without one, and nobody waits for a gradient that does not come.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event
from typing import Any, Final, final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Tensor, capturing, nn
from netcl_core.errors import AttributeValueError, GradientError, ReplayError, message
from netcl_plugin_mpi.collectives import reduced
from netcl_plugin_mpi.processes import Job, current

_WHO: Final = "DistributedDataParallel"
#: The last gradients wait for the last bucket: it is small, so that it is soon there.
_LAST_BYTES: Final = 2**20


class DistributedDataParallel(nn.Module):  # type: ignore[misc]  # known when plugins are
    """A model whose gradients are the means over all processes.

    >>> distributed.init()
    >>> model = distributed.DistributedDataParallel(nc.nn.Linear(2, 1))
    >>> model(nc.ones(4, 2)).sum().backward()
    >>> model.module.bias.grad.tolist()  # of one process
    [4.0]

    Every process makes the same model; the parameters and buffers of rank 0 are taken over by
    all. `backward` then leaves the mean of all processes' gradients in `grad`, the same in all, so
    that their optimizers stay in step. If the loss is a mean and the parts of a batch have one
    size, these are the gradients of the whole batch. One that is infinite or NaN in one process is
    so in all: a GradScaler decides the same everywhere.

    Parameters stand under `module.`, as in PyTorch; save `model.module`, and any number of
    processes can go on with it.

    Args:
        module: Every parameter that is to be trained needs its gradient already.
        bucket_cap_mb: Megabytes (2**20 bytes) of gradients that travel together.
        broadcast_buffers: Whether each forward pass in training mode takes over the buffers of
            rank 0, such as the running mean of a batch norm. Without it, each process keeps its
            own.
        device_ids: Has no effect.
        find_unused_parameters: Has no effect.
        gradient_as_bucket_view: Has no effect.
        static_graph: Has no effect.

    The other arguments are PyTorch's and change nothing: a process has one device, and a parameter
    that was not used is found anyway.

    Raises:
        DistributedError: `init()` was not called, or the processes' models differ.
        GradientError: no parameter needs a gradient; `backward` gives a second gradient to a
            parameter that has gone already.
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        *,
        bucket_cap_mb: float = 25.0,
        broadcast_buffers: bool = True,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
    ) -> None:
        if not bucket_cap_mb > 0:
            given = f"bucket_cap_mb={bucket_cap_mb!r}"
            raise AttributeValueError(message(_WHO, given, "megabytes above 0"))
        job = current(_WHO)
        self.module = module
        self.broadcast_buffers = broadcast_buffers
        named = list(module.named_parameters())
        trained = [p for _, p in named if p.requires_grad]
        if not trained:
            given = "a model without parameters that need a gradient"
            raise GradientError(message(_WHO, given, "parameters to train"))
        tensors = [*named, *module.named_buffers()]
        about = [(name, x.dtype, x.shape, x.requires_grad) for name, x in tensors]
        job.agree(_WHO, f"a model of {about}")
        _take_over(job, [x for _, x in tensors])
        self._reducer = _Reducer(job, trained, bucket_cap_mb * 2**20)
        weakref.finalize(self, self._reducer.remove).atexit = False

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives for this process' part."""
        if self.broadcast_buffers and self.training and self._reducer.syncs:
            buffers = list(self.module.buffers())
            if buffers:
                _take_over(self._reducer.job, buffers)
        return self.module(*inputs, **kwargs)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose `backward` only adds to this process' own gradients.

        The next one outside of it reduces what has come together. So several small batches count
        as one, for one transfer.
        """
        before, self._reducer.syncs = self._reducer.syncs, False
        try:
            yield
        finally:
            self._reducer.syncs = before


def _take_over(job: Job, tensors: Sequence[Tensor]) -> None:
    """Overwrite tensors with those of rank 0, in one transfer."""
    arrays = [np.ascontiguousarray(x.detach().to_host()) for x in tensors]
    flat = np.concatenate([a.reshape(-1).view(np.uint8) for a in arrays])

    def transfer(world: Any) -> None:
        world.Bcast(flat, root=0)

    job.begin("the broadcast of rank 0's parameters and buffers", transfer).result()
    if job.rank == 0:
        return
    start = 0
    with ag.no_grad():
        for x, array in zip(tensors, arrays, strict=True):
            part = flat[start : start + array.nbytes].view(array.dtype)
            start += array.nbytes
            x.copy_(part.reshape(x.shape))


@final
class _Bucket:
    """Parameters whose gradients travel together: their dtype on the wire, and their places."""

    def __init__(self, params: Sequence[Tensor], dtype: str) -> None:
        self.params = params
        self.ends = np.cumsum([p.size for p in params]).tolist()
        self.flat = np.zeros(self.ends[-1] + len(params), dtype)

    def places(self) -> Iterator[tuple[Tensor, Any, int]]:
        """Each parameter, its part of `flat`, and where its further number stands."""
        start = 0
        for n, (p, end) in enumerate(zip(self.params, self.ends, strict=True)):
            yield p, self.flat[start:end], self.ends[-1] + n
            start = end

    def fill(self, gradients: dict[int, Tensor]) -> None:
        """Gather gradients that this pass has not yet added to `grad`, and what is there."""
        for p, part, n in self.places():
            own, before = gradients.pop(id(p), None), p.grad
            self.flat[n] = own is not None or before is not None
            part[:] = 0 if own is None else host_view(own).reshape(-1)
            if before is not None:
                part += host_view(before).reshape(-1)

    def spread(self) -> None:
        """Leave the means in `grad`."""
        for p, part, n in self.places():
            if self.flat[n]:
                array = part.reshape(p.shape).astype(DTYPES[p.dtype].numpy)
                p.grad = Tensor.from_host(array, p.device)


def _bytes_of(p: Tensor) -> int:
    return p.size * DTYPES[p.dtype].itemsize


def host_view(x: Any) -> Any:
    """The elements of a tensor: on a device that is the host its memory, without a copy."""
    x = x.detach().value
    try:
        return np.from_dlpack(x)
    except BufferError:
        return x.to_host()


@final
class _Reducer:
    """Sends the buckets of one model on their way while a backward pass runs.

    All processes send them in one order, so a bucket waits for those before it. The first pass
    goes by the parameters' order reversed; in it rank 0 sees in which order gradients complete,
    and the buckets follow that from then on.
    """

    def __init__(self, job: Job, params: Sequence[Tensor], cap: float) -> None:
        self.job, self.cap, self.syncs = job, cap, True
        self._params = list(params)
        self._order: list[int] = []  # in which the first pass completes them
        self._settled = False
        self._buckets = self._cut(self._params[::-1])
        self._forget()
        mine = weakref.ref(self)

        def hook_of(number: int) -> Any:
            def hook(gradient: Any) -> None:
                reducer = mine()
                if reducer is not None and reducer.syncs:
                    reducer._ready(number, gradient)

            return hook

        self._handles = [p.register_hook(hook_of(n)) for n, p in enumerate(self._params)]

    def remove(self) -> None:
        """Take the hooks away."""
        for handle in self._handles:
            handle.remove()

    def _cut(self, params: Sequence[Tensor]) -> list[_Bucket]:
        """Buckets of parameters of one dtype and device, in an order, the last one small."""
        groups: list[list[Tensor]] = []
        room, kind = 0.0, None
        left = before = sum(_bytes_of(p) for p in params)
        for p in params:
            now: tuple[str, Device] = (p.dtype, p.device)
            if kind != now or room < _bytes_of(p) or left <= _LAST_BYTES < before:
                groups.append([])
                room, kind = self.cap, now
            groups[-1].append(p)
            room -= _bytes_of(p)
            before, left = left, left - _bytes_of(p)
        return [_Bucket(group, DTYPES[group[0].dtype].wide) for group in groups]

    def _forget(self) -> None:
        """Begin anew."""
        self._running = False
        self._awaited = Event()  # of this pass: the program does nothing but wait
        self._gradients: dict[int, Tensor] = {}
        self._sent: list[Future[Any]] = []
        self._missing = [len(bucket.params) for bucket in self._buckets]
        self._bucket_of = {id(p): n for n, b in enumerate(self._buckets) for p in b.params}

    def _ready(self, number: int, gradient: Any) -> None:
        """A gradient is complete."""
        if capturing():
            given, expected = "a backward pass inside a capture", "one outside of captures"
            remedy = "Transfers are no part of what is replayed: run the step eagerly"
            raise ReplayError(message(_WHO, given, expected, remedy))
        if not self._running:
            if not ag.when_backward_ends(self._finish):
                return
            self._forget()  # of a pass that failed, too
            self._running = True
        p = self._params[number]
        place = self._bucket_of[id(p)]
        if place < len(self._sent):
            given = f"a second gradient in one pass for a parameter of shape {p.shape}"
            remedy = "Use it once, or inside of checkpoints only"
            raise GradientError(message(_WHO, given, "one, which has been sent", remedy))
        before = self._gradients.get(id(p))
        self._gradients[id(p)] = gradient.detach() if before is None else before + gradient.detach()
        if before is None:
            self._order.append(number)
            self._missing[place] -= 1
            while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
                self._send()

    def _send(self) -> None:
        """Send the next bucket on its way."""
        number = len(self._sent)
        bucket, job, awaited = self._buckets[number], self.job, self._awaited
        bucket.fill(self._gradients)

        def transfer(world: Any) -> Any:
            return reduced(job, world, bucket.flat, "MEAN", awaited)

        name = f"the transfer of gradients {number + 1} of {len(self._buckets)}"
        self._sent.append(job.begin(name, transfer))

    def _finish(self) -> None:
        """The pass has ended: send the rest, and leave the means in `grad`."""
        self._gradients = {}  # they have been added to `grad`
        while len(self._sent) < len(self._buckets):
            self._send()
        self._awaited.set()
        for future, bucket in zip(self._sent, self._buckets, strict=True):
            future.result()
            bucket.spread()
        if not self._settled:
            self._settle()
        self._order = []
        self._forget()

    def _settle(self) -> None:
        """Cut the buckets anew in the order in which rank 0's gradients completed."""
        rest = [n for n in reversed(range(len(self._params))) if n not in set(self._order)]
        order = [*self._order, *rest]
        name = "the order of gradients"
        order = self.job.begin(name, lambda world: world.bcast(order)).result()
        self._buckets = self._cut([self._params[n] for n in order])
        self._settled = True
