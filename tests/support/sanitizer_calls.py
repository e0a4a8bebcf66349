"""The calls that the sanitizer makes: shapes in the place of data, and the tensors made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import netcl_core as nc


@dataclass(frozen=True)
class T:
    """A tensor to be made: shape, dtype ("" is the floating dtype of the run), values."""

    shape: tuple[int, ...]
    dtype: str = ""
    values: Sequence[int] | None = None


@dataclass(frozen=True)
class Call:
    """One call of an op; `everywhere`: in each floating dtype, not in float32 alone."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    everywhere: bool = False


def made(value: Any, dtype: str = "float32") -> Any:
    """An argument with its tensors made; floating ones are leaves that need a gradient."""
    if isinstance(value, tuple) and any(isinstance(item, T) for item in value):
        return [made(item, dtype) for item in value]
    if not isinstance(value, T):
        return value
    name = value.dtype or dtype
    size = int(np.prod(value.shape))
    if value.values is not None:
        flat = np.asarray(value.values)
    elif nc.DTYPES[name].floating:
        flat = (np.arange(size) % 7 + 1) / 8
    else:
        flat = np.arange(size) % 2
    tensor = nc.tensor(flat[:size].astype(name).reshape(value.shape))
    return tensor.requires_grad_() if nc.DTYPES[name].floating else tensor


def call(*args: Any, **kwargs: Any) -> Call:
    """A call in float32."""
    return Call(args, kwargs)


def each(*args: Any, **kwargs: Any) -> Call:
    """A call in float16, float32 and float64."""
    return Call(args, kwargs, everywhere=True)


def index(size: int, *values: int, dtype: str = "int64") -> T:
    """A 1-D index tensor."""
    return T((size,), dtype, values)


#: Classes of five rows among 31, one of them ignored.
LABELS: Final = index(5, 0, 2, -100, 30, 2)
