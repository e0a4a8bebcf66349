"""Loading a module's state: checked as a whole, then copied; and dropping gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from netcl_core import Tensor, host_array
from netcl_core.errors import CheckpointError, message
from netcl_plugin_nn.torch_states import array_of, is_torch
from netcl_plugin_nn.uninitialized import Uninitialized


class StateError(CheckpointError):
    """A state does not fit a module; nothing was changed.

    >>> try:
    ...     nn.Linear(2, 1).load_state_dict({"weight": nc.zeros(5, 5), "bias": nc.zeros(1)})
    ... except nn.StateError as error:
    ...     print("refused")
    refused
    """


#: Counts of a batch norm's batches, which older states of PyTorch's lack: they stay as they are.
_COUNT: Final = "num_batches_tracked"


class LoadReport(NamedTuple):
    """The names that a state lacked, and those that the module does not know.

    >>> nn.Linear(2, 2).load_state_dict({"weight": nc.zeros(2, 2)}, strict=False)
    LoadReport(missing_keys=['bias'], unexpected_keys=[])
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


def load(
    who: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool
) -> LoadReport:
    """Copy `state` into `tensors` by name; raises StateError before anything is changed."""
    missing = [name for name in tensors if name not in state and not name.endswith(_COUNT)]
    unexpected = [name for name in state if name not in tensors]
    to_come = [name for name in tensors if isinstance(state.get(name), Uninitialized)]
    arrays = {name: _data(state[name]) for name in tensors if name in state and name not in to_come}
    mismatched = [
        f"{name} (shape {tuple(data.shape)} given, {tensors[name].shape} expected)"
        for name, data in arrays.items()
        if not isinstance(tensors[name], Uninitialized) and tuple(data.shape) != tensors[name].shape
    ]
    without = [name for name in to_come if not isinstance(tensors[name], Uninitialized)]
    listed = {"missing": missing, "unexpected": unexpected} if strict else {}
    problems = [
        f"{kind} {', '.join(names)}"
        for kind, names in (
            *listed.items(),
            ("of another shape", mismatched),
            ("without data", without),
        )
        if names
    ]
    if problems:
        remedy = "" if mismatched or to_come else "Pass strict=False to load only what fits"
        given = "the state does not fit: " + "; ".join(problems)
        raise StateError(message(f"{who}.load_state_dict", given, "its own names", remedy))
    for name, data in arrays.items():
        tensor = tensors[name]
        if isinstance(tensor, Uninitialized):
            tensor.materialize(tuple(data.shape))
        tensor.overwrite(data)
    return LoadReport(missing, unexpected)


def _data(value: Any) -> Any:
    """A tensor as it is, all else as an array; raises DtypeError for what is none."""
    if isinstance(value, Tensor):
        return value
    return array_of(value) if is_torch(value) else host_array(value, None)


def zero_grad(tensors: Iterable[Tensor], set_to_none: bool) -> None:
    """Drop gradients, or replace them by zeros."""
    for tensor in tensors:
        if set_to_none or tensor.grad is None:
            tensor.grad = None
        else:
            tensor.grad = Tensor.zeros(tensor.shape, tensor.dtype, tensor.device)
