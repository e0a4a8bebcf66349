"""fractional_max_pool2d and 3d: largest elements of windows that are drawn at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_tensor.selecting import GATHER

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import composite
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_conv.windows import numbers, spatial


def fractional_max_pool2d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The largest elements of input (N, C, H, W) or (C, H, W) in windows at drawn distances.

    >>> ag.fractional_max_pool2d(nc.ones(1, 4, 4), 2, output_size=(2, 2)).tolist()
    [[[1.0, 1.0], [1.0, 1.0]]]

    Args:
        input: Floating.
        kernel_size: The sizes of a window, an int or two.
        output_size: The height and width of the result, an int or two.
        output_ratio: In place of them their shares of the input's, each between 0 and 1.
        return_indices: Whether to give the indices (int64, into the plane) of the elements, too.
        _random_samples: Numbers in [0, 1), (N, C, 2): where the windows of each plane lie, along W
            and along H; default: drawn.

    Raises:
        ArgumentError: Neither `output_size` nor `output_ratio` is there.
        ShapeError: Windows do not fit.

    (Graham 2014, arXiv:1412.6071)
    """
    given = (kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return _fractional("fractional_max_pool2d", 2, input, *given)


def fractional_max_pool3d(
    input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> Any:  # fmt: skip
    """The same of input (N, C, D, H, W) or (C, D, H, W); samples are along D, H and W.

    >>> ag.fractional_max_pool3d(nc.ones(1, 4, 4, 4), 2, output_size=(2, 2, 2)).shape
    (1, 2, 2, 2)

    Its arguments are as of `fractional_max_pool2d`.
    """
    given = (kernel_size, output_size, output_ratio, return_indices, _random_samples)
    return _fractional("fractional_max_pool3d", 3, input, *given)


def _fractional(
    who: str, count: int, input: Any, kernel: Any, output_size: Any, ratio: Any,
    return_indices: bool, samples: Any,
) -> Any:  # fmt: skip
    x = ag.as_operand(input)
    sizes = spatial(who, x, count)
    kernels = numbers(who, "kernel_size", kernel, count, 1)
    lengths = _made(who, sizes, output_size, ratio)
    for n, k, m in zip(sizes, kernels, lengths, strict=True):
        if k + m - 1 > n:
            given = f"{m} windows of {k} elements over {n}"
            raise ShapeError(message(who, given, f"at most {max(0, n - k + 1)} windows"))
    lead = x.shape[:-count]
    planes = (1, *lead)[-2:]
    drawn = _samples(who, x, (*planes, count), samples)
    order = (1, 0) if count == 2 else (0, 1, 2)  # PyTorch's: the first number of two is for W
    place: Any = None
    for i, (n, k, m) in enumerate(zip(sizes, kernels, lengths, strict=True)):
        at = _starts(ag.select(drawn, -1, order[i]), n, k, m)  # (N, C, m)
        taps = Tensor.from_host(np.arange(k, dtype=np.int64), x.device)
        along = ag.add(ag.unsqueeze(at, -1), taps)  # (N, C, m, k)
        shape = [1] * (2 * count)
        shape[i], shape[count + i] = m, k
        along = ag.reshape(along, (*planes, *shape))
        place = along if place is None else ag.add(ag.mul(place, n), along)
    rows, taps_of_all = math.prod(lengths), math.prod(kernels)
    windows = ag.reshape(place, (*planes, rows * taps_of_all))
    flat = ag.reshape(x, (*planes, math.prod(sizes)))
    elements = ag.reshape(GATHER(flat, -1, windows), (*planes, rows, taps_of_all))
    largest = ag.max(elements, -1)
    values = ag.reshape(largest.values, (*lead, *lengths))
    if not return_indices:
        return values
    chosen = ag.unsqueeze(largest.indices, -1)
    wide = ag.reshape(windows, (*planes, rows, taps_of_all))
    return values, ag.reshape(GATHER(wide, -1, chosen), (*lead, *lengths))


def _made(who: str, sizes: Sequence[int], output_size: Any, ratio: Any) -> tuple[int, ...]:
    if output_size is None and ratio is None:
        given = "neither output_size nor output_ratio"
        raise ArgumentError(message(who, given, "one of them"))
    count = len(sizes)
    if output_size is None:
        shares = list(ratio) if isinstance(ratio, (tuple, list)) else [ratio] * count
        real = [isinstance(share, (int, float)) and 0 < share < 1 for share in shares]
        if len(shares) != count or not all(real):
            expected = f"a number between 0 and 1, or {count} of them"
            raise AttributeValueError(message(who, f"output_ratio={ratio!r}", expected))
        output_size = tuple(int(n * share) for n, share in zip(sizes, shares, strict=True))
    return numbers(who, "output_size", output_size, count, 1)


def _samples(who: str, x: Any, shape: tuple[int, ...], given: Any) -> Any:
    if given is None:
        return ag.rand(shape, dtype=x.dtype, device=x.device)
    samples = ag.as_operand(given, x.device)
    if x.ndim == shape[-1] + 1 and samples.ndim == 3:  # without a batch the first counts
        samples = ag.getitem(samples, slice(0, 1))
    if samples.shape != shape or samples.dtype != x.dtype:
        text = f"_random_samples of {samples.dtype} and shape {samples.shape}"
        raise ShapeError(message(who, text, f"{x.dtype} of shape {shape}"))
    return samples


def _starts(sample: Any, size: int, kernel: int, count: int) -> Any:
    """Where the windows of an axis begin, int64 (N, C, count), from a sample each (N, C)."""
    last = Tensor.full((*sample.shape, 1), size - kernel, "int64", sample.device)
    if count == 1:
        return last
    step = (size - kernel) / (count - 1)
    each = Tensor.from_host(np.arange(count - 1, dtype=np.float32), sample.device)
    wide = ag.unsqueeze(sample, -1)
    ahead = ag.mul(ag.add(wide, each), step).astype("int64")
    return ag.cat([ag.sub(ahead, ag.mul(wide, step).astype("int64")), last], -1)


OPERATORS = (composite(fractional_max_pool2d), composite(fractional_max_pool3d))
