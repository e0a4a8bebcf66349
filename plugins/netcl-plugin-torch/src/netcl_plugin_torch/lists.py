"""Rows of tensors in few launches: what steps all parameters of a model at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any, Final, TypeAlias, final

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.inspect.captures import captures
from netcl_core.inspect.data import Memo
from netcl_core.inspect.streams import stream_of
from netcl_plugin_torch.tensor import NetclTensor

#: A kernel's arguments may take 1,024 bytes on every OpenCL device.
_ARGUMENTS: Final = 1024
_POINTER: Final = 8
#: Elements per work-item and items per group: one large run on CPUs, one vector on GPUs.
_CPU_CHUNK: Final = 4096
_GPU_LOCAL: Final = 128
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})

#: Which rows each launch is for.
_Launches: TypeAlias = Sequence[tuple[slice, nc.Bound]]
_kept: Final[Memo[Any, _Launches]] = Memo(256)


def _note(changed: Sequence[Any]) -> None:
    """Note that tensors were changed in place; at once, if no capture has to know which."""
    alone = 1 if changed and not captures else len(changed)
    for x in changed[:alone]:
        x.mark_changed()
    for x in changed[alone:]:
        x.storage.version += 1


@final
class Rows:
    """Columns of tensors: those of a row have one size, and all have one floating dtype.

    Args:
        columns: Lists of PyTorch's tensors by name.

    Raises TypeError where that is not so, or where a tensor is not on a device with kernels.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        for column in columns.values():
            if {*map(type, column)} != {NetclTensor}:
                raise TypeError("tensors that are not on the device")
        self._columns = {name: [x.raw for x in column] for name, column in columns.items()}
        first, *others = self._columns.values()
        self._shapes = [x.shape for x in first]
        self._new: set[str] = set()
        self._device, self._dtype = first[0].device, nc.DTYPES[first[0].dtype]
        if any([x.shape for x in column] != self._shapes for column in others):
            raise TypeError("tensors of several sizes in a row")
        if len({x.dtype for column in self._columns.values() for x in column}) > 1:
            raise TypeError("tensors of several dtypes")
        if not self._dtype.floating or not self._device.has_kernels:
            raise TypeError(f"{self._dtype.name} on {self._device!r}")

    @property
    def names(self) -> list[str]:
        """Those of the columns."""
        return [*self._columns]

    def new(self, name: str) -> list[Any]:
        """A further column, of uninitialised netcl tensors."""
        allocate, device, dtype = stream_of(self._device).allocate, self._device, self._dtype
        self._new.add(name)
        column = self._columns[name] = [
            nc.Tensor(allocate(math.prod(shape), dtype), shape, dtype.name, device)
            for shape in self._shapes
        ]
        return column

    def run(
        self, op: str, written: Sequence[str], *, read: Sequence[str] | None = None,
        flags: Sequence[str] = (), counters: Mapping[str, Sequence[Any]] = _NONE,
        pointers: Mapping[str, Any] = _NONE, scalars: Mapping[str, float] = _NONE,
        each: Mapping[str, Sequence[float]] = _NONE,
    ) -> None:  # fmt: skip
        """Do what `lists.cl.j2` does for an op; it says what the arguments are.

        `read` are all columns unless given; counters and pointers are netcl tensors.
        """
        names = {
            "read": tuple(self._columns if read is None else read), "written": tuple(written),
            "flags": tuple(flags), "counters": tuple(counters), "pointers": tuple(pointers),
            "scalars": tuple(scalars), "each": tuple(each),
        }  # fmt: skip
        key = op, self._dtype.name, self._device, tuple(self._shapes), *names.values()
        launches = _kept.get(key) or _kept.put(key, [*self._launches(op, names)])
        used = dict.fromkeys((*names["read"], *names["written"]))
        memory = {name: [x.memory for x in self._columns[name]] for name in used}
        self._refuse_shared(written, memory)
        outputs = [x for name in written for x in self._columns[name]]
        views = [x for x in outputs if x.geometry is not None]
        with ag.written_back(views) as copies:
            columns = list(memory.values())
            if any(x.geometry is not None for name in used for x in self._columns[name]):
                place = dict(zip(map(id, views), copies, strict=True))
                given = [[place.get(id(x), x) for x in self._columns[name]] for name in used]
                columns = [[x.buffer for x in column] for column in given]
            columns += [[x.buffer for x in column] for column in counters.values()]
            shared = [x.buffer for x in pointers.values()]
            numbers = list(each.values())
            for rows, bound in launches:
                buffers = chain(*zip(*[column[rows] for column in columns], strict=True))
                of_rows = chain(*zip(*[column[rows] for column in numbers], strict=True))
                bound((), [*buffers, *shared], [*scalars.values(), *of_rows])
        _note([x for name in written if name not in self._new for x in self._columns[name]
               if x.geometry is None])  # fmt: skip  # else the copy has told it

    def _refuse_shared(self, written: Sequence[str], memory: Mapping[str, Sequence[Any]]) -> None:
        """Raise TypeError where a row writes to what another one reads or writes."""
        every = [x for name in written for x in memory[name]]
        read = [name for name in memory if name not in written]
        targets = {*map(id, every)}
        if len(targets) < len(every) or any(
            not targets.isdisjoint(map(id, memory[name])) for name in read
        ):
            self._refuse_other_rows([x for name in written for x in self._columns[name]], read)

    def _refuse_other_rows(self, outputs: Sequence[Any], read: Iterable[str]) -> None:
        """The same, once some memory is known to be shared: a row may share it with itself."""
        written = [id(x.memory) for x in outputs if x.memory is not None]
        targets = {*written}
        shared = len(targets) < len(written)
        for name in read:
            others = [id(x.memory) for x in self._columns[name]]
            if not targets.isdisjoint(others):  # of an output of this very row it may
                row_of = {id(x.memory): i % len(others) for i, x in enumerate(outputs)}
                shared |= any(row_of.get(number, i) != i for i, number in enumerate(others))
        if shared:
            raise TypeError("tensors that share memory")

    def _launches(self, op: str, names: Mapping[str, tuple[str, ...]]) -> Iterator[Any]:
        """As many rows in a launch as its arguments have room for."""
        columns = {*names["read"], *names["written"]}
        size = self._dtype.itemsize if self._dtype.compute == "double" else 4
        row = _POINTER * (len(columns) + len(names["counters"]) + 1) + size * len(names["each"])
        fixed = _POINTER * len(names["pointers"]) + size * len(names["scalars"])
        most = (_ARGUMENTS - fixed) // row
        sizes = [nc.Spec(shape, self._dtype.name).size for shape in self._shapes]
        for start in range(0, len(sizes), most):
            rows = slice(start, start + most)
            if any(sizes[rows]):
                yield rows, self._bound(op, names, sizes[rows])

    def _bound(self, op: str, names: Mapping[str, tuple[str, ...]], sizes: Sequence[int]) -> Any:
        dtype, gpu, count = self._dtype, self._device.kind == "gpu", len(sizes)
        chunk, local = (4, _GPU_LOCAL) if gpu else (_CPU_CHUNK, 1)
        columns = {*names["read"], *names["written"]}
        buffers = count * (len(columns) + len(names["counters"])) + len(names["pointers"])
        scalars = len(names["scalars"]) + count * len(names["each"])
        args = [("out", i) for i in range(buffers)] + [("scalar", i) for i in range(scalars)]
        args += [("ulong", size) for size in sizes]
        blocks = sum(-(-size // (chunk * local)) for size in sizes)
        context = {
            **{name: list(column) for name, column in names.items()},
            "op": op, "count": count, "storage": dtype.storage, "compute": dtype.compute,
            "chunk": chunk, "local": local, "vector": 4 if gpu else 16, "aligned": gpu,
        }  # fmt: skip
        kernel = nc.Kernel("torch/lists.cl.j2", f"{op}_rows", tuple(args), (blocks * local,),
                           (local,), context)  # fmt: skip
        launches = nc.Kernels((kernel,), scalars=(dtype.compute,) * scalars)
        return nc.Bound(self._device, launches, (), ())
