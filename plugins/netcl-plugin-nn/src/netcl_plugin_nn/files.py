"""Weights in files: safetensors, which PyTorch's users write as well, and what torch.save wrote."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import safetensors.numpy

from netcl_core import Tensor, host_array
from netcl_core.config import write_whole
from netcl_core.errors import ArgumentError, message
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.state import LoadReport, StateError
from netcl_plugin_nn.torch_states import from_torch_state_dict, is_torch, read_torch_file

#: How files begin that torch.save writes: archives, and pickles of its first versions.
_TORCH: Final = (b"PK\x03\x04", b"\x80\x02")


def save(model: Any, path: str | os.PathLike[str], about: Mapping[str, str] | None = None) -> None:
    """Write a module's parameters and buffers, or a dict of tensors, as safetensors.

        nn.save(model, "model.safetensors")
        nn.load(model, "model.safetensors")

    Args:
        model: A Module, or a dict of tensors by name.
        path: The file, which is replaced as a whole: after an OSError the earlier one is there.
        about: Texts that go with the tensors, the file's metadata.
    """
    state = model.state_dict() if isinstance(model, Module) else model
    if not isinstance(state, Mapping):
        given = f"a {type(model).__name__}"
        raise ArgumentError(message("nn.save", given, "an nn.Module, or a dict of tensors"))
    arrays = {name: np.asarray(_on_host(value), order="C") for name, value in state.items()}
    write_whole(Path(path), safetensors.numpy.save(arrays, dict(about or {})))


def _on_host(value: Any) -> Any:
    return value.to_host() if isinstance(value, Tensor) else host_array(value, None)


def load(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    strict: bool = True,
    device: Any = None,
) -> Any:
    """Read weights: into a module, or as a dict of tensors by name.

    `nn.load(model, path)` gives what `load_state_dict` does, `nn.load(path)` the tensors.

    Args:
        model: A Module that takes the weights; left out, the tensors are returned.
        path: A file of safetensors, by `nn.save` or anybody else. One that torch.save wrote is
            read by PyTorch, if that is installed, and only if it holds tensors alone.
        strict: Whether every name must fit.
        device: Where the tensors of the dict shall lie; None: the default device.

    Raises StateError for weights that do not fit the module, or a file that holds none.
    """
    if isinstance(model, Module):
        if path is None:
            raise ArgumentError(message("nn.load", "a module and no path", "nn.load(model, path)"))
        found: LoadReport = model.load_state_dict(_read(Path(path)), strict)
        return found
    return from_torch_state_dict(_read(Path(model)), device)


def _read(path: Path) -> Mapping[str, Any]:
    """The tensors of a file by name, as arrays or PyTorch's."""
    with path.open("rb") as file:
        begin = file.read(4)
    if begin.startswith(_TORCH):
        state: Any = read_torch_file(path)
        unfit = [type(state).__name__]
        if isinstance(state, Mapping):
            unfit = [str(name) for name, value in state.items() if not is_torch(value)]
        if unfit:
            given = f"{path} holds {', '.join(unfit)}"
            remedy = "Take the state out of the checkpoint, and save it alone"
            raise StateError(message("nn.load", given, "tensors by name", remedy))
        return dict(state)
    try:
        return dict(safetensors.numpy.load_file(path))
    except safetensors.SafetensorError as error:
        given = f"{path} cannot be read ({error})"
        raise StateError(
            message("nn.load", given, "safetensors, or what torch.save wrote")
        ) from None
