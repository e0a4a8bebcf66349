"""What a case is held against besides its peers: a copy, or the fastest matrix product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from harness.cases import Maker, RaceLimit, RaceWork
from harness.peers import library, torch_place
from netcl_core import DTYPES, Device, Tensor
from netcl_core.runtime.stream import stream_of

_SIDE: Final = {"cpu": 1024, "gpu": 4096}
_COPIED: Final = np.float32


def copying(nbytes: float) -> RaceLimit:
    """The time of a copy that moves so many bytes: it reads half of them and writes the other half.

    >>> copying(8e6).name
    'copy'

    Args:
        nbytes: What a kernel that touches each element once would read and write.
    """
    count = max(1, round(nbytes / 2 / np.dtype(_COPIED).itemsize))
    makers = {"netcl": _driver_copy, "torch": _torch_copy, "numpy": _numpy_copy}
    return RaceLimit("copy", {name: partial(maker, count) for name, maker in makers.items()})


def multiplying(operations: float, kind: str, dtype: str = "float32") -> RaceLimit:
    """The time of so many multiplications and additions at the speed of a large square product.

    >>> multiplying(2 * 512**3, "cpu").scale
    0.125

    Args:
        operations: 2 m n k for a product of (m, k) and (k, n).
        kind: That of the device; the square product has 1024 rows on a CPU and 4096 on a GPU.
        dtype: That of the factors.
    """
    side = _SIDE.get(kind, _SIDE["cpu"])
    makers: dict[str, Maker] = {
        "netcl": partial(_netcl_product, side, dtype),
        "torch": partial(_torch_product, side, dtype),
    }
    if dtype == "float32":
        makers["numpy"] = partial(_numpy_product, side)
    return RaceLimit("matrix", makers, operations / (2 * side**3))


def _unread(call: Callable[[], Any]) -> RaceWork:
    """A limit's results are compared with nothing."""
    return RaceWork(call, lambda: ())


# -- copies ------------------------------------------------------------------------------


def _driver_copy(count: int, device: Device) -> RaceWork:
    stream = stream_of(device)
    target, source = (Tensor.full((count,), value, device=device) for value in (0.0, 1.0))
    given = target.buffer, source.buffer, count, DTYPES[source.dtype]
    return _unread(lambda: stream.copy(*given))


def _torch_copy(count: int, device: Device) -> RaceWork:
    torch = library("torch")
    target, source = (torch.full((count,), x, device=torch_place(device)) for x in (0.0, 1.0))
    return _unread(lambda: target.copy_(source))


def _numpy_copy(count: int, device: Device) -> RaceWork:
    target, source = np.zeros(count, _COPIED), np.ones(count, _COPIED)
    return _unread(lambda: np.copyto(target, source))


# -- products ----------------------------------------------------------------------------


def _factors(side: int) -> Sequence[np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return [random.standard_normal((side, side), dtype=np.float32) for _ in range(2)]


def _netcl_product(side: int, dtype: str, device: Device) -> RaceWork:
    a, b = (
        ag.astype(Tensor.from_host(factor, device), dtype).detach() for factor in _factors(side)
    )
    return _unread(lambda: ag.matmul(a, b))


def _torch_product(side: int, dtype: str, device: Device) -> RaceWork:
    torch = library("torch")
    place = torch_place(device), getattr(torch, dtype)
    a, b = (torch.from_numpy(factor).to(*place) for factor in _factors(side))
    return _unread(lambda: a @ b)


def _numpy_product(side: int, device: Device) -> RaceWork:
    a, b = _factors(side)
    return _unread(lambda: a @ b)
