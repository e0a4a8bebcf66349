"""`torch.distributed`, where no package brings it: one process, and nothing to wait for."""

from __future__ import annotations

from typing import Any

from netcl_plugin_port.absent import absence

__all__ = ["barrier", "get_rank", "get_world_size", "is_available", "is_initialized"]


def is_available() -> bool:
    """False."""
    return False


is_initialized = is_available


def get_rank(group: Any = None) -> int:
    """0: the only process."""
    return 0


def get_world_size(group: Any = None) -> int:
    """1."""
    return 1


def barrier(*args: Any, **options: Any) -> None:
    """Returns at once."""


def __getattr__(name: str) -> Any:
    raise absence("distributed", name, __all__)
