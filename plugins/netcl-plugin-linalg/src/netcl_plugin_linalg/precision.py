"""How exactly float32 products are computed: a switch of the process, as PyTorch has it."""

from __future__ import annotations

from typing import Final

from netcl_core.errors import AttributeValueError, message
from netcl_core.plugins.protocol import registry

PRECISIONS: Final = ("highest", "high", "medium")
_in_force = "highest"


def set_float32_matmul_precision(precision: str) -> None:
    """Choose how exactly `matmul`, `bmm`, `linear` and their gradients multiply float32.

    >>> nc.set_float32_matmul_precision("high")
    >>> nc.get_float32_matmul_precision()
    'high'
    >>> nc.set_float32_matmul_precision("highest")

    Args:
        precision: `"highest"`, the default: as exact as float32. `"high"` or `"medium"`: where
            tensor cores serve (netcl-plugin-tensorcore), factors are rounded to the 11 bits of
            TF32, sums are float32; elsewhere nothing changes.

    What was compiled before is compiled anew; a captured replay stays as it was captured.

    Raises:
        AttributeValueError: For another word.
    """
    global _in_force
    if precision not in PRECISIONS:
        raise AttributeValueError(
            message(
                "set_float32_matmul_precision",
                f"precision={precision!r}",
                "'highest', 'high' or 'medium'",
            )
        )
    if precision != _in_force:
        _in_force = precision
        registry.renew()


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given last; at first `"highest"`.

    >>> nc.get_float32_matmul_precision()
    'highest'
    """
    return _in_force
