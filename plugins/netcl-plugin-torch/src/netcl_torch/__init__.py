"""OpenCL as a device of PyTorch: `model.to("netcl")`.

>>> import torch, netcl_torch
>>> x = torch.ones(2, 3, device="netcl", requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([[2., 2., 2.],
        [2., 2., 2.]], device='netcl:0')
"""

from __future__ import annotations

from typing import Any, Final

try:
    import torch
except ImportError as error:
    raise ImportError("netcl_torch is for PyTorch 2.11 or newer: pip install torch") from error

_NEEDED: Final = (2, 11)
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < _NEEDED:
    text = f"netcl_torch needs PyTorch 2.11 or newer, and this is {torch.__version__}"
    raise ImportError(f"{text}: pip install 'torch>=2.11'")

from netcl_plugin_torch import registration  # noqa: E402 - only where PyTorch has what it needs

_library: Any = registration.register()

from netcl_plugin_torch.ops import op, ops  # noqa: E402 - the device must be known


def autoload() -> None:
    """What PyTorch calls by its entry point `torch.backends` when it is imported."""


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = ["autoload", "op", "ops"]
