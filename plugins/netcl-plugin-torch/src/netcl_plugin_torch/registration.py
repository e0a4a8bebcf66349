"""Makes the device known to PyTorch: its name, its guard, and the kernels behind the tables."""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from netcl_plugin_torch.guard import Guard, raising


def register() -> Any:
    """Let `torch.device("netcl")` be netcl's; gives the library, which must live on."""
    name = torch._C._get_privateuse1_backend_name()
    if name not in ("privateuseone", "netcl"):
        text = f"PyTorch has one place for a device of others, and {name!r} has taken it"
        raise ImportError(f"netcl_plugin_torch: {text}. Use another process")
    hooks = torch.utils.backend_registration._DummyPrivateUse1Hook()
    torch.utils.rename_privateuse1_backend("netcl")
    tables = [importlib.import_module(f"netcl_plugin_torch.{x}") for x in ("views", "elements", "indexing", "layers", "recurrent", "sampling", "autocast")]
    device = importlib.import_module("netcl_plugin_torch.device")
    _setup_privateuseone_for_python_backend("netcl", backend_module=device, hook=hooks,
                                            device_guard=Guard())  # fmt: skip
    run = raising(torch.autograd._engine_run_backward)
    torch.autograd._engine_run_backward = torch.autograd.graph._engine_run_backward = run
    # so that `model.to("netcl")` keeps tied weights tied, and optimizers their parameters
    torch.__future__.set_swap_module_params_on_conversion(True)
    library = torch.library.Library("aten", "IMPL")
    for kernel, function in tables[0].KERNELS.items():
        library.impl(kernel, function, "PrivateUse1")
    tables[-1].register(library)
    return library
