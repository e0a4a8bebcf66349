"""What PyTorch calls by its entry point `torch.backends` whenever it is imported."""

from __future__ import annotations

import importlib

import torch


def autoload() -> None:
    """Make the device known, unless PyTorch was built for an accelerator of its own.

    PyTorch asks one accelerator for its streams, that of others before its own: beside netcl the
    backward passes of CUDA end with an internal error. Who wants netcl there imports `netcl_torch`.
    """
    version = torch.version
    own = version.cuda, version.hip, getattr(version, "xpu", None), torch.backends.mps.is_built()
    if not any(own):
        importlib.import_module("netcl_torch")
