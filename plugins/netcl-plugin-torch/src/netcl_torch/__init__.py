"""OpenCL as a device of PyTorch: `model.to("netcl")`.

>>> import torch, netcl_torch
>>> x = torch.ones(2, 3, device="netcl", requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([[2., 2., 2.],
        [2., 2., 2.]], device='netcl:0')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

try:
    import torch
except ImportError as error:
    raise ImportError("netcl_torch is for PyTorch 2.11 or newer: pip install torch") from error

_NEEDED: Final = (2, 11)
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _NEEDED:
    text = f"netcl_torch needs PyTorch 2.11 or newer, and this is {torch.__version__}"
    raise ImportError(f"{text}: pip install 'torch>=2.11'")

from netcl_plugin_torch import registration  # noqa: E402 - only where PyTorch has what it needs

if TYPE_CHECKING:
    from netcl_plugin_torch.compiling import netcl
    from netcl_plugin_torch.ops import op, ops

registration.register()


def __getattr__(name: str) -> Any:
    if name == "netcl":  # what `torch.compile(model, backend="netcl")` calls
        return importlib.import_module("netcl_plugin_torch.compiling").netcl
    if name not in ("op", "ops"):
        raise AttributeError(f"module 'netcl_torch' has no attribute {name!r}")
    registration.load()
    return getattr(importlib.import_module("netcl_plugin_torch.ops"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["netcl", "op", "ops"]
