"""States of PyTorch's: its tensors as arrays, and a module's state as its tensors.

Nothing here imports torch but what makes its tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from netcl_core import DTYPES, Tensor, host_array
from netcl_core.errors import NetclError, message


class TorchMissingError(NetclError, ImportError):
    """PyTorch is needed and not installed.

    >>> issubclass(nn.TorchMissingError, ImportError)
    True
    """


def is_torch(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch's, whose module need not be loaded for that."""
    return any(base.__module__.partition(".")[0] == "torch" for base in type(value).__mro__)


def array_of(tensor: Any) -> Any:
    """The values of a tensor of PyTorch's as an array of the same dtype."""
    plain = tensor.detach().cpu()
    if str(plain.dtype) == "torch.bfloat16":  # which NumPy knows by another package
        return plain.float().numpy().astype(DTYPES["bfloat16"].numpy)
    return plain.numpy()


def from_torch_state_dict(
    state: Mapping[str, Any], device: Any = None, *, prefix: str = ""
) -> dict[str, Tensor]:
    """A state of PyTorch's as one of netcl's: the same names, with tensors on a device.

    >>> import torch
    >>> state = nn.from_torch_state_dict(torch.nn.Linear(2, 1).state_dict())
    >>> nn.Linear(2, 1).load_state_dict(state)
    LoadReport(missing_keys=[], unexpected_keys=[])

    A module's `load_state_dict` takes PyTorch's state as it is, too.

    Args:
        state: What `state_dict()` of a module of PyTorch's gives.
        device: Where the tensors shall lie; None: the default device.
        prefix: Only names that begin so are taken, without it ("module." of a wrapped model).
    """
    return {
        name.removeprefix(prefix): Tensor.from_host(_values(value), device)
        for name, value in state.items()
        if name.startswith(prefix)
    }


def _values(value: Any) -> Any:
    return array_of(value) if is_torch(value) else host_array(value, None)


def torch_state_dict(model: Any) -> dict[str, Any]:
    """A module's state as tensors of PyTorch's on the CPU, which its `load_state_dict` takes.

    >>> sorted(nn.torch_state_dict(nn.Linear(2, 1)))
    ['bias', 'weight']

    Raises TorchMissingError if PyTorch is not installed.

    Args:
        model: The module.
    """
    torch = _torch("torch_state_dict")
    return {name: _tensor(torch, value) for name, value in model.state_dict().items()}


def _tensor(torch: Any, value: Tensor) -> Any:
    array = np.asarray(value.to_host(), order="C")
    if value.dtype == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array)


def _torch(who: str) -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        given, expected = "PyTorch is not installed", "it for its tensors"
        remedy = "Install torch, or save the weights with nc.save"
        raise TorchMissingError(message(who, given, expected, remedy)) from error
