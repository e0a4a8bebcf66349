"""Parameter: what makes a tensor a trained one, and how a tensor moves in place."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Operand, Tensor
from netcl_core.errors import ArgumentError, message


def Parameter(data: Any, requires_grad: bool = True) -> Tensor:  # noqa: N802 - PyTorch's name
    """A leaf tensor that a Module registers when it becomes one of its attributes.

    There is no class of its own: a parameter is a `Tensor` with `requires_grad`.

        self.scale = nn.Parameter(np.ones(3, np.float32))

    Args:
        data: Host data, which is copied to the default device, or a Tensor, whose buffer is shared.
        requires_grad: False makes a plain tensor; `Module.register_parameter` takes it.

    Raises DtypeError if a gradient is wanted for a dtype that is not floating.
    """
    if isinstance(data, Operand):
        return data.detach().requires_grad_(requires_grad)
    return Tensor.from_host(data, requires_grad=requires_grad)


def as_leaf(value: Any) -> Tensor | None:
    """The Tensor of a Tensor or of a leaf Node; None for anything else."""
    if isinstance(value, Tensor):
        return value
    return value.value if isinstance(value, ag.Node) and value.is_leaf else None


def checked_leaf(who: str, value: Any) -> Tensor:
    """The Tensor of a leaf; raises ArgumentError for anything else."""
    leaf = as_leaf(value)
    if leaf is None:
        expected = "a Tensor or a leaf Node"
        remedy = "Wrap host data in nn.Parameter, detach results"
        raise ArgumentError(message(who, f"a {type(value).__name__}", expected, remedy))
    return leaf


def converted(tensor: Tensor, device: Device | None, dtype: str | None) -> Tensor:
    """A tensor's data on a device and in a dtype; only floating data change their dtype."""
    with ag.no_grad():
        moved = tensor.detach() if device is None else tensor.detach().to(device)
        if dtype is not None and DTYPES[tensor.dtype].floating:
            moved = moved.astype(dtype)
    value: Tensor = moved.value
    return value


def adopt(tensor: Tensor, data: Tensor) -> None:
    """Give a tensor the data of another one; whoever holds the tensor sees the change."""
    if tensor.buffer is data.buffer:
        return
    tensor.buffer, tensor.device, tensor.dtype = data.buffer, data.device, data.dtype
    tensor.mark_changed()
