"""Mistakes in calls of pooling and interpolation are named."""

from __future__ import annotations

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, ShapeError


def test_mistakes_are_named() -> None:
    x = nc.tensor(np.ones((1, 1, 4, 4), "float32"))
    with pytest.raises(AttributeValueError, match="max_pool2d: padding=2 with kernel_size=3"):
        ag.max_pool2d(x, 3, 1, 2)
    with pytest.raises(ShapeError, match="avg_pool2d: windows of 5 elements over 4"):
        ag.avg_pool2d(x, 5)
    with pytest.raises(ShapeError, match=r"max_pool1d: x of shape \(1, 1, 4, 4\)"):
        ag.max_pool1d(x, 2)
    with pytest.raises(DtypeError, match="avg_pool2d: a int32 tensor"):
        ag.avg_pool2d(nc.tensor(np.ones((1, 4, 4), "int32")), 2)
    with pytest.raises(AttributeValueError, match="kernel_size=0"):
        ag.max_pool2d(x, 0)
    with pytest.raises(AttributeValueError, match="divisor_override=0"):
        ag.avg_pool2d(x, 2, divisor_override=0)
    with pytest.raises(AttributeValueError, match=r"output_size=\(1, 2, 3\)"):
        ag.adaptive_avg_pool2d(x, (1, 2, 3))
    with pytest.raises(ArgumentError, match="exactly one of the two"):
        ag.interpolate(x)
    with pytest.raises(ShapeError, match="mode='linear'"):
        ag.interpolate(x, size=2, mode="linear")
    with pytest.raises(AttributeValueError, match="mode='cubic'"):
        ag.interpolate(x, size=2, mode="cubic")
    with pytest.raises(AttributeValueError, match="align_corners=True with mode='nearest'"):
        ag.interpolate(x, size=2, align_corners=True)
    with pytest.raises(AttributeValueError, match="scale_factor=-1"):
        ag.interpolate(x, scale_factor=-1)
    with pytest.raises(AttributeValueError, match="size="):
        ag.interpolate(x, scale_factor=0.1)
    with pytest.raises(ShapeError, match="elements along the resampled axes"):
        ag.interpolate(nc.tensor(np.ones((1, 1, 0, 4), "float32")), size=2)
