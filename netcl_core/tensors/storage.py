"""Storage: what tensors on one memory share, and how elements are copied between views of it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, final

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, message
from netcl_core.runtime.geometry import Geometry, Shape
from netcl_core.runtime.stream import stream_of

#: What copies between geometries with kernels, the last first: the room above that generates such
#: a kernel, and plugins.
_copiers: Final[list[Callable[[Any, Any], bool]]] = []


def copy_by(copier: Callable[[Any, Any], bool]) -> None:
    """Let `copier(source, target)` copy views on devices with kernels; False: others shall.

    >>> def copier(source, target, seen=[]):
    ...     seen.append(source.shape)
    ...     return False
    >>> ag.copy_by(copier)
    >>> nc.ones(2, 3)[:, 1].tolist(), copier.__defaults__[0][-1]
    ([1.0, 1.0], (2,))

    Both are tensors of one shape, dtype and device, whose elements it finds by `memory` and
    `geometry`, and at least one is a view; they share nothing.
    """
    _copiers.insert(0, copier)


@final
class Storage:
    """The memory that several tensors share, and how often it has been changed.

    Attributes:
        memory: The buffer.
        size: How many elements it has, of `dtype`.
        range: Of integers a version, the smallest and the largest of all then, and all of them if
            they are few; if known.
        shape: The shape of the first tensor on it.
        version: The number of changes in place.
        base: The operand that all of it belongs to, if it lives and views were made of it.
    """

    __slots__ = ("_base", "_most", "_views", "dtype", "memory", "range", "shape", "size", "version")

    def __init__(self, memory: Any, shape: Shape, dtype: str, version: int) -> None:
        self.memory = memory
        self.shape = shape
        self.size = math.prod(shape)
        self.dtype = dtype
        self.version = version
        self.range: tuple[int, int, int, Any] | None = None
        self._base: weakref.ref[Any] | None = None
        self._views: list[weakref.ref[Any]] = []
        self._most = 16

    def join(self, base: Any, view: Any) -> None:
        """Note a view that an op has made of an operand; a graph may have to know of both."""
        if self._base is None:
            self._base = weakref.ref(base)
        views = self._views
        views.append(weakref.ref(view))
        if len(views) > self._most:
            self._views = [each for each in views if each() is not None]
            self._most = 16 + 2 * len(self._views)

    @property
    def base(self) -> Any:
        """The operand of which the first view was made; None if it lives no longer."""
        return None if self._base is None else self._base()

    def members(self) -> list[Any]:
        """The living operands that are known to share the memory: the base and its views."""
        members = [self.base, *(view() for view in self._views)]
        return [member for member in members if member is not None]

    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * DTYPES[self.dtype].itemsize


def copy_elements(source: Any, target: Any) -> None:
    """Overwrite the elements of a tensor or view with those of another, of its shape and dtype.

    Raises ArgumentError where several elements of the target lie at one place.
    """
    if target.geometry is not None and target.geometry.overlaps_itself:
        given = "an expanded tensor, of which several elements lie at one place"
        remedy = "Change a clone() of it"
        raise ArgumentError(message("a change in place", given, "a place per element", remedy))
    stream, dtype = stream_of(target.device), DTYPES[target.dtype]
    if not target.size:
        return
    if source.geometry is None and target.geometry is None:
        stream.copy(target.memory, source.memory, target.size, dtype)
    elif target.device.has_kernels:
        any(copier(source, target) for copier in _copiers)
    else:
        forms = [((x.storage.size,), dtype.numpy) for x in (source, target)]
        run = partial(_copied, source.geometry, target.geometry, target.shape)
        stream.host_call(run, [source.memory], [target.memory], forms)


@contextmanager
def written_back(tensors: Sequence[Any]) -> Iterator[list[Any]]:
    """Tensors for kernels that write and read no strides: views are copies, put back at the end.

    >>> x = nc.zeros(2, 2)
    >>> with ag.written_back([x[0], x]) as (row, same):
    ...     row.buffer is not x.buffer, same is x, row.fill_(7.0).tolist()
    (True, True, [7.0, 7.0])
    >>> x.tolist()
    [[7.0, 7.0], [0.0, 0.0]]

    Args:
        tensors: The tensors, in order.
    """
    plain = [x if x.geometry is None else x.duplicate() for x in tensors]
    yield plain
    for x, copy in zip(tensors, plain, strict=True):
        if copy is not x:
            copy.copy_into(x.value)


def _copied(
    source: Geometry | None,
    target: Geometry | None,
    shape: Sequence[int],
    arrays: Sequence[Any],
    out: Any,
) -> None:
    np.copyto(strided(out, target, shape), strided(arrays[0], source, shape))


def strided(flat: Any, geometry: Geometry | None, shape: Sequence[int]) -> Any:
    """The elements of a flat array at the places of a geometry, as a view of it."""
    if geometry is None:
        return flat.reshape(shape)
    steps = [stride * flat.itemsize for stride in geometry.strides]
    return np.lib.stride_tricks.as_strided(flat[geometry.offset :], geometry.shape, steps)
