"""Fourier transforms by the host's pocketfft, with gradients; complex numbers are pairs.

scipy's transforms serve where it is installed, else NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Spec, Tensor
from netcl_core.autograd import Saved
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_linalg.host import operator


@cache
def _library() -> Any:
    """scipy's transforms if it is installed: pocketfft with vectors; NumPy's else."""
    try:
        return import_module("scipy.fft")
    except ImportError:
        return np.fft


def _numbers(pairs: Any) -> Any:
    """Complex numbers in the memory of pairs."""
    kind = np.complex128 if pairs.dtype == np.float64 else np.complex64
    return np.ascontiguousarray(pairs).view(kind)[..., 0]


def _pairs(numbers: Any, like: Any, scale: float) -> Any:
    pairs = np.ascontiguousarray(numbers)[..., None].view(numbers.real.dtype)
    return (pairs if scale == 1 else pairs * scale).astype(like.dtype, copy=False)


def _bind_fft(x: Any, dims: Sequence[int], inverse: bool, scale: float) -> Any:
    x = ag.as_operand(x)
    if not x.ndim or x.shape[-1] != 2 or not x.size:
        given = f"{x.dtype} of shape {x.shape}"
        raise ShapeError(message("fft_c2c", given, "pairs (..., 2)"))
    known = isinstance(dims, Sequence) and all(type(d) is int for d in dims)
    known = known and len({*dims}) == len(dims) and {*dims} <= {*range(x.ndim - 1)}
    if not known or not isinstance(scale, (int, float)):
        given = f"dims={dims!r}, scale={scale!r} of {x.ndim - 1} dimensions"
        raise AttributeValueError(
            message("fft_c2c", given, "different dimensions from 0 on, and a number")
        )
    return (x,), {"dims": tuple(dims), "inverse": bool(inverse), "scale": float(scale)}


def _run_fft(x: Any, dims: tuple[int, ...], inverse: bool, scale: float) -> Any:
    library, numbers = _library(), _numbers(x)
    spectrum = (library.ifftn(numbers, axes=dims, norm="forward") if inverse
            else library.fftn(numbers, axes=dims))  # fmt: skip
    return _pairs(spectrum, x, scale)


def _fft_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The adjoint: the transform in the other direction, with the same factor."""
    attrs = saved.attrs
    inverse = not attrs["inverse"]
    return [FFT(grad, dims=attrs["dims"], inverse=inverse, scale=attrs["scale"])]


FFT: Final = operator(
    "fft_c2c", _bind_fft, _run_fft, lambda x, **attrs: x, _fft_backward,
    "fft_c2c(x, dims, inverse, scale): the discrete Fourier transform of complex numbers, given as "
    "pairs in the last dimension, along dims, times scale.\n\n"
    ">>> ag.fft_c2c(nc.ones(2, 2), dims=(0,), inverse=False, scale=1.0).tolist()\n"
    "[[2.0, 2.0], [0.0, 0.0]]",
)  # fmt: skip


def _bind_real(who: str, behind: int) -> Callable[..., Any]:
    """What an operand x has behind its axes: nothing, or one dimension of pairs."""

    def bind(x: Any, dim: int, size: int, inverse: bool, scale: float) -> Any:
        x = ag.as_operand(x)
        fits = type(dim) is int and 0 <= dim < x.ndim - behind and x.size and type(size) is int
        if not fits or x.shape[dim] != (size // 2 + 1 if behind else size):
            given = f"dim={dim!r}, size={size!r} of shape {x.shape}"
            raise ShapeError(message(who, given, f"{'pairs' if behind else 'numbers'} of a size"))
        return (x,), {"dim": dim, "size": size, "inverse": bool(inverse), "scale": float(scale)}

    return bind


def _along(x: Spec, dim: int, size: int) -> tuple[int, ...]:
    return (*x.shape[:dim], size, *x.shape[dim + 1 :])


def _run_rfft(x: Any, dim: int, size: int, inverse: bool, scale: float) -> Any:
    spectrum = _library().rfft(x, axis=dim)
    return _pairs(np.conj(spectrum) if inverse else spectrum, x, scale)


def _rfft_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The real part of the adjoint, of the half that there is."""
    attrs = saved.attrs
    dim, size, half = attrs["dim"], attrs["size"], grad.shape[attrs["dim"]]
    whole = ag.constant_pad_nd(grad, [*[0] * (2 * (grad.ndim - dim) - 1), size - half])
    back = FFT(whole, dims=(dim,), inverse=not attrs["inverse"], scale=attrs["scale"])
    return [ag.select(back, -1, 0)]


RFFT: Final = operator(
    "fft_r2c", _bind_real("fft_r2c", 0), _run_rfft,
    lambda x, dim, size, **attrs: Spec((*_along(x, dim, size // 2 + 1), 2), x.dtype),
    _rfft_backward,
    "fft_r2c(x, dim, size, inverse, scale): the first size // 2 + 1 numbers, pairs, of the "
    "transform of real numbers along an axis, times scale.\n\n"
    ">>> ag.fft_r2c(nc.ones(4), dim=0, size=4, inverse=False, scale=1.0)[:, 0].tolist()\n"
    "[4.0, 0.0, 0.0]",
)  # fmt: skip


def _run_irfft(x: Any, dim: int, size: int, inverse: bool, scale: float) -> Any:
    numbers = _numbers(x)
    signal = _library().irfft(numbers if inverse else np.conj(numbers), size, dim, norm="forward")
    return (signal if scale == 1 else signal * scale).astype(x.dtype, copy=False)


def _irfft_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The half of the transform, of which all but its ends stood for two numbers."""
    dim, size = saved.attrs["dim"], saved.attrs["size"]
    inverse, scale = not saved.attrs["inverse"], saved.attrs["scale"]
    spectrum = RFFT(grad, dim=dim, size=size, inverse=inverse, scale=scale)
    weights = np.full(size // 2 + 1, 2.0)
    weights[0], weights[size // 2] = 1.0, 2.0 - (size % 2 == 0 or size == 1)
    along = weights.reshape((-1, *[1] * (spectrum.ndim - dim - 1)))
    return [ag.mul(spectrum, Tensor.from_host(along, grad.device, grad.dtype))]


IRFFT: Final = operator(
    "fft_c2r", _bind_real("fft_c2r", 1), _run_irfft,
    lambda x, dim, size, **attrs: Spec(_along(x, dim, size)[:-1], x.dtype), _irfft_backward,
    "fft_c2r(x, dim, size, inverse, scale): the real numbers whose transform's first half is given "
    "in pairs, times size * scale.\n\n"
    ">>> half = nc.tensor([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]])\n"
    ">>> ag.fft_c2r(half, dim=0, size=4, inverse=True, scale=0.25).tolist()\n"
    "[1.0, 1.0, 1.0, 1.0]",
)  # fmt: skip

OPERATORS: Final = (FFT, RFFT, IRFFT)
