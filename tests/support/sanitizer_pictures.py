"""What the sanitizer runs of ops on pictures: normalisation per channel, pooling, interpolation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from netcl_plugin_conv.tables import Resampling, table_of
from netcl_plugin_conv.windows import WindowAxis
from sanitizer_calls import Call, T, call, each

#: Windows: with a border, dilated ones, adaptive ones.
BORDER: Final = (WindowAxis(7, 4, 3, 2, 1), WindowAxis(37, 19, 3, 2, 1))
APART: Final = (WindowAxis(5, 3, 2, 1, 0, 2), WindowAxis(19, 9, 2, 2, 0, 1))
ADAPTIVE: Final = (WindowAxis(7, 3, 3, adaptive=True), WindowAxis(9, 2, 5, adaptive=True))
LINEAR: Final = (Resampling(5, 10, "linear", scale=0.5), Resampling(19, 38, "linear", scale=0.5))
NEAREST: Final = (Resampling(5, 5, "nearest", scale=1.0), Resampling(19, 9, "nearest", scale=2.1))
PAIRS: Final = tuple(
    Resampling(axis.size, axis.count, "average", axis)
    for axis in (WindowAxis(6, 3, 2, 2), WindowAxis(38, 19, 2, 2))
)


def table(ways: tuple[Resampling, ...], backwards: bool) -> T:
    """The tables of two axes as the kernel for float32 wants them."""
    parts: list[Any] = [np.array([0, 1, 0x3F800000])]  # one element as it is
    for way in ways:
        weights_table = table_of(way, "float32", backwards)
        weights = np.ascontiguousarray(weights_table.weights).reshape(-1).view(np.int32)
        parts += [weights_table.start, weights_table.count, weights]
    values = np.concatenate(parts)
    return T(values.shape, "int32", values.tolist())


def resampled(shape: tuple[int, ...], ways: tuple[Resampling, ...], backwards: bool) -> Call:
    """A call of `resample` in float32."""
    return call(T(shape), table(ways, backwards), ways, backwards)


STRUCTURED: Final[dict[str, tuple[Call, ...]]] = {
    "batch_norm": (
        each(T((4, 3, 5)), None, None, T((3,)), T((3,)), training=True),
        call(T((33, 2, 31)), None, None, T((2,)), training=True),
        call(T((2, 3, 64)), T((3,)), T((3,)), T((3,)), T((3,))),
    ),
    "instance_norm": (call(T((2, 3, 19)), T((3,)), T((3,)), T((3,)), T((3,))),),
    "group_norm": (each(T((2, 6, 19)), 2, T((6,)), T((6,))), call(T((2, 6, 16)), 3)),
    "max_pool2d": (
        each(T((2, 7, 37)), 3, 2, 1),
        call(T((1, 2, 5, 40)), (2, 3), 1, 0, (2, 1), True),
        call(T((1, 2, 5, 23)), 1, 2),
    ),
    "avg_pool2d": (each(T((2, 6, 38)), 2), call(T((2, 7, 37)), 3, 1, 1, False, False)),
    "max_pool1d": (call(T((2, 3, 37)), 3, 2, 1),),
    "max_pool3d": (call(T((2, 3, 4, 19)), 2),),
    "avg_pool1d": (call(T((2, 3, 37)), 3, 2, 1),),
    "avg_pool3d": (call(T((2, 3, 4, 19)), 2),),
    "adaptive_avg_pool1d": (call(T((2, 37)), 5),),
    "adaptive_avg_pool2d": (call(T((2, 7, 37)), (3, 5)),),
    "adaptive_avg_pool3d": (call(T((2, 3, 4, 19)), 2),),
    "adaptive_max_pool1d": (call(T((2, 37)), 5),),
    "adaptive_max_pool2d": (call(T((2, 7, 37)), (3, 5)),),
    "adaptive_max_pool3d": (call(T((2, 3, 4, 19)), 2),),
    "global_avg_pool2d": (call(T((2, 3, 5, 7))),),
    "lp_pool1d": (call(T((2, 37)), 2.0, 3),),
    "lp_pool2d": (call(T((2, 5, 19)), 2.0, 2),),
    "interpolate": (
        each(T((1, 2, 5, 19)), scale_factor=2, mode="bilinear"),
        call(T((1, 2, 5, 19)), size=(5, 40)),
        call(T((1, 2, 5, 19)), size=(9, 7), mode="bicubic"),
        call(T((1, 2, 3, 4, 5)), scale_factor=1.5, mode="trilinear"),
    ),
}
#: Statistics are of float32 in these.
PARTS: Final[dict[str, tuple[Call, ...]]] = {
    "norm_runs": (
        each(T((4, 3, 5)), T((3,)), T((3,)), 0, 1e-5),
        call(T((2, 6, 19)), T((6,)), None, 2, 1e-5),
        call(T((1, 6, 3000)), T((6,)), None, 2, 1e-5),
        each(T((4, 3, 5)), None, None, 0, 1e-5, T((3,)), T((3,)), 0.1),
        call(T((9, 19)), None, T((19,)), 0, 1e-5, T((19,)), T((19,)), T(())),
        call(
            T((4, 3, 5)), T((3,)), T((3,)), 0, 1e-5, T((3,)), T((3,)), 0.1, None, True, T((4, 3, 5))
        ),
    ),
    "norm_runs_backward": (
        call(T((4, 3, 5)), T((4, 3, 5)), T((3,)), T((3,)), T((3,)), 0, 1e-5, "float32"),
        call(T((33, 1, 31)), T((33, 1, 31)), T((1,)), T((1,)), None, 0, 1e-5, ""),
        call(
            T((4, 3, 5)),
            T((4, 3, 5)),
            T((3,)),
            T((3,)),
            T((3,)),
            0,
            1e-5,
            "float32",
            T((3,)),
            True,
            T((4, 3, 5)),
        ),
        call(T((9, 19)), T((9, 19)), T((19,)), T((19,)), T((19,)), 0, 1e-5, "float32"),
        call(T((2, 6, 19)), T((2, 6, 19)), T((4,)), T((4,)), T((6,)), 2, 1e-5, "float32"),
        call(T((1, 6, 3000)), T((1, 6, 3000)), T((2,)), T((2,)), T((6,)), 2, 1e-5, "float32"),
    ),
    "max_windows": (each(T((2, 7, 37)), BORDER), call(T((2, 5, 19)), APART)),
    "max_windows_backward": (
        each(T((2, 4, 19)), T((2, 4, 19), "uint8", (4,) * 152), BORDER),  # in the middle
        call(T((2, 3, 9), "float16"), T((2, 3, 9), "uint8"), APART),
        call(T((2, 3, 2)), T((2, 3, 2), "uint8"), ADAPTIVE),
    ),
    "resample": (
        resampled((2, 5, 19), LINEAR, False),
        resampled((2, 10, 38), LINEAR, True),
        resampled((2, 5, 19), NEAREST, False),
        resampled((2, 6, 38), PAIRS, False),
        resampled((2, 3, 19), PAIRS, True),
    ),
}
