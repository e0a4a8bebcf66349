"""Weights in files: what `nc.save` writes of a module's state, and what `nc.load` reads for one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import netcl_core as nc
from netcl_core import Tensor
from netcl_core.errors import ArgumentError, message
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.state import LoadReport, StateError


def save(model: Any, path: str | os.PathLike[str], about: Mapping[str, str] | None = None) -> None:
    """Write a module's parameters and buffers, or a dict of tensors, by `nc.save`.

        nn.save(model, "model.safetensors")
        nn.load(model, "model.safetensors")

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nn.save(nn.Linear(3, 2), f"{folder}/model.safetensors")
    ...     print(sorted(nn.load(f"{folder}/model.safetensors")))
    ['bias', 'weight']

    Args:
        model: A Module, or a dict of tensors by name.
        path: The file, which is replaced as a whole: after an OSError the earlier one is there.
        about: Texts that go with the tensors, the file's metadata.
    """
    state = model.state_dict() if isinstance(model, Module) else model
    if not isinstance(state, Mapping):
        given = f"a {type(model).__name__}"
        raise ArgumentError(message("nn.save", given, "an nn.Module, or a dict of tensors"))
    nc.save(dict(state), path, about=about)


def load(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    strict: bool = True,
    device: Any = None,
) -> Any:
    """Read weights: into a module, or as a dict of tensors by name.

    `nn.load(model, path)` gives what `load_state_dict` does, `nn.load(path)` the tensors.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nn.save(nn.Linear(3, 2), f"{folder}/model.safetensors")
    ...     nn.load(nn.Linear(3, 2), f"{folder}/model.safetensors")
    LoadReport(missing_keys=[], unexpected_keys=[])

    Args:
        model: A Module that takes the weights; left out, the tensors are returned.
        path: A file of `nn.save`, `nc.save`, safetensors or `torch.save`.
        strict: Whether every name must fit.
        device: Where the tensors of the dict shall lie; None: the default device.

    Raises StateError for weights that do not fit the module and a file with more than tensors by
    name, CheckpointError for one that cannot be read.
    """
    if not isinstance(model, Module):
        return _read(model, device)
    if path is None:
        raise ArgumentError(message("nn.load", "a module and no path", "nn.load(model, path)"))
    try:
        report: LoadReport = model.load_state_dict(_read(path, None), strict)
    except StateError as error:
        error.add_note(f"The state is that of {path}")
        raise
    return report


def _read(path: Any, device: Any) -> Mapping[str, Any]:
    """The tensors of a file by name."""
    state = nc.load(path, device)
    unfit = [type(state).__name__]
    if isinstance(state, Mapping):
        unfit = [str(name) for name, value in state.items() if not isinstance(value, Tensor)]
    if unfit:
        given = f"{path} holds {', '.join(unfit)}"
        remedy = "Read it with nc.load, and take the state out"
        raise StateError(message("nn.load", given, "tensors by name", remedy))
    return dict(state)
