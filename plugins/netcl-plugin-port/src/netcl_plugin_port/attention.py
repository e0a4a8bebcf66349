"""`torch.nn.attention`: which kernel computes attention, which records of tuning decide here."""

from __future__ import annotations

from contextlib import nullcontext
from enum import Enum
from typing import Any

from netcl_plugin_port.absent import absence


class SDPBackend(Enum):
    """PyTorch's kernels of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


def sdpa_kernel(backends: Any, set_priority: bool = False) -> Any:
    """A context that changes nothing: `nc.prefer` chooses kernels."""
    return nullcontext()


def __getattr__(name: str) -> Any:
    raise absence("nn.attention", name, ["SDPBackend", "sdpa_kernel"])
