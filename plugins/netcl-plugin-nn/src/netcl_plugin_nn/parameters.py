"""Parameter: what makes a tensor a trained one, and how a tensor moves in place."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Tensor


class Parameter(Tensor):
    """A leaf tensor that a Module registers when it becomes one of its attributes.

    >>> layer = nc.nn.Linear(2, 3)
    >>> isinstance(layer.weight, nc.nn.Parameter), isinstance(layer.weight, nc.Tensor)
    (True, True)

    Args:
        data: Host data, which is copied to the default device, or a Tensor, whose memory is shared;
            of a view a copy.
        requires_grad: False makes a frozen one: it is saved and moves with its module, gets no
            gradient, and optimizers leave it as it is.

    Raises DtypeError if a gradient is wanted for a dtype that is not floating.

    It takes attributes of your own, by which optimizers' groups are made:

    >>> layer.bias.no_weight_decay = True
    >>> [name for name, p in layer.named_parameters() if hasattr(p, "no_weight_decay")]
    ['bias']
    """

    __slots__ = ("__dict__",)

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        leaf = as_plain(data)
        super().__init__(leaf.buffer, leaf.shape, leaf.dtype, leaf.device)
        if leaf.geometry is None:
            self._storage, self.is_alias = leaf.storage, True
        self.requires_grad_(requires_grad)

    def __copy__(self) -> Parameter:
        return Parameter(self, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        copy = memo[id(self)] = owned(super().__deepcopy__(memo), self.requires_grad)
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        return Parameter, (self.to_host(), self.requires_grad)

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else str(self)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer when it becomes one of its attributes.

    >>> layer = nc.nn.Identity()
    >>> layer.steps = nc.nn.Buffer(nc.zeros(2))
    >>> [name for name, _ in layer.named_buffers()]
    ['steps']

    Args:
        data: As of a Parameter.
        persistent: Whether it is part of `state_dict`.
    """

    __slots__ = ("persistent",)

    def __init__(self, data: Any, *, persistent: bool = True) -> None:
        leaf = as_plain(data)
        super().__init__(leaf.buffer, leaf.shape, leaf.dtype, leaf.device)
        if leaf.geometry is None:
            self._storage, self.is_alias = leaf.storage, True
        self.persistent = persistent


def owned(tensor: Tensor, requires_grad: bool = True) -> Parameter:
    """A parameter in the place of a tensor that nobody else holds."""
    parameter = object.__new__(Parameter)
    Tensor.__init__(parameter, tensor.buffer, tensor.shape, tensor.dtype, tensor.device)
    parameter.requires_grad_(requires_grad)
    return parameter


def as_plain(value: Any) -> Tensor:
    """A tensor's data, shared, or host data, as a tensor that is no parameter."""
    return value.detach() if isinstance(value, Tensor) else Tensor.from_host(value)


def as_leaf(value: Any) -> Tensor | None:
    """The Tensor of a Tensor or of a leaf Node; None for anything else."""
    return value.value if isinstance(value, Tensor) and value.is_leaf else None


def unwrapped(value: Any) -> Any:
    """The Tensor of a leaf Node, which is what a module keeps; anything else as it is."""
    if isinstance(value, Tensor):
        _ = value.version  # what a module keeps has its data: a trace ends here
    leaf = as_leaf(value)
    return value if leaf is None else leaf


def converted(tensor: Tensor, device: Device | None, dtype: str | None) -> Tensor:
    """A tensor's data on a device and in a dtype; only floating data change their dtype."""
    with ag.no_grad():
        moved = tensor.detach() if device is None else tensor.detach().to(device)
        if dtype is not None and DTYPES[tensor.dtype].floating:
            moved = moved.astype(dtype)
    return moved  # type: ignore[no-any-return]  # a Tensor


def adopt(tensor: Tensor, data: Tensor) -> None:
    """Give a tensor the data of another one; whoever holds the tensor sees the change."""
    if tensor.memory is data.memory:
        return
    tensor.buffer, tensor.device, tensor.dtype = data.buffer, data.device, data.dtype
    tensor._storage = None
    tensor.mark_changed()
