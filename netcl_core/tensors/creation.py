"""Tensors made of host data or of one value, and those like others."""

from __future__ import annotations

from typing import Any, Final

from netcl_core.hardware.device import Device
from netcl_core.tensors.arguments import lenient, without_foreign
from netcl_core.tensors.tensor import OPTIONS, Tensor

zeros: Final = Tensor.zeros
ones: Final = Tensor.ones
full: Final = Tensor.full
empty: Final = Tensor.empty


@lenient
def tensor(
    data: Any,
    device: str | Device | None = None,
    dtype: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor with a copy of host data, or of another tensor's: `Tensor.from_host`.

    >>> nc.tensor([[1, 2], [3, 4]], device="numpy")
    Tensor([[1, 2],
            [3, 4]], shape=(2, 2), dtype=int64, device=numpy)
    """
    return Tensor.from_host(data, device, dtype, requires_grad)


def zeros_like(input: Any, **options: Any) -> Tensor:
    """Zeros of a tensor's shape, dtype and device; `dtype=`, `device=`, `requires_grad=` say else.

    >>> nc.zeros_like(nc.ones(2, dtype="int32")).numpy()
    array([0, 0], dtype=int32)
    """
    return full_like(input, 0, **options)


def ones_like(input: Any, **options: Any) -> Tensor:
    """Ones of a tensor's shape, dtype and device; `dtype=`, `device=`, `requires_grad=` say else.

    >>> nc.ones_like(nc.zeros(2, 1)).shape
    (2, 1)
    """
    return full_like(input, 1, **options)


def full_like(input: Any, fill_value: float, **options: Any) -> Tensor:
    """A tensor of one value, of a tensor's shape, dtype and device, or as the options say.

    >>> nc.full_like(nc.zeros(2), 7).numpy()
    array([7., 7.], dtype=float32)

    Args:
        fill_value: The number that fills it.
    """
    return full(input.shape, fill_value, **_alike(input, options))


def empty_like(input: Any, **options: Any) -> Tensor:
    """An uninitialised tensor of a tensor's shape, dtype and device, or as the options say.

    >>> nc.empty_like(nc.zeros(2)).shape
    (2,)
    """
    return empty(input.shape, **_alike(input, options))


def _alike(input: Any, options: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in options.items() if value is not None}
    given = without_foreign("like", frozenset(OPTIONS), given)
    return {"dtype": input.dtype, "device": input.device, **given}
