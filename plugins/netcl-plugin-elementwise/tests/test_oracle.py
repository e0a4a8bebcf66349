"""Every op against PyTorch in float64: forward and gradient, in every dtype, on every device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from elementwise_oracle import DEVICES, TOLERANCE, Row, check_eager, check_fused, samples, specials
from elementwise_table import ROWS
from netcl_plugin_elementwise import ALIASES, template_names

FLOATS = sorted(TOLERANCE)
#: Vector tails of every kind: below, at and above the vector widths, and an odd prime.
SIZES = (1, 7, 16, 17, 1031, 4099)
#: How many ops share a kernel: building is what these tests spend their time on.
GROUP = 8
#: PoCL's vector sine of a small value is off by 0.01 if a lane beside it is huge or infinite.
SPOILED = {"sin", "cos"}


def _groups() -> Iterator[tuple[str, str, int]]:
    """Device, dtype and first op of each fused group.

    All groups in one dtype per runtime (Intel's gets float32 from the eager test), the
    functions in each: storage and arithmetic are two things, and building takes time.
    """
    whole = {"cpu": "", "opencl:intel": "float64", "opencl:portable": "float32"}
    for device in DEVICES:
        for dtype in FLOATS:
            for first in range(0, len(ROWS), GROUP):
                if first == 3 * GROUP or whole.get(device, dtype) == dtype:
                    yield device, dtype, first


def test_table_is_complete() -> None:
    assert {row.op for row in ROWS} == {*template_names(), *ALIASES}


@pytest.mark.parametrize("device", ["cpu", "opencl"], indirect=True)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_op_equals_pytorch(device: Any, row: Row) -> None:
    for dtype in FLOATS if device.backend == "numpy" else ["float32"]:
        for size in SIZES:
            check_eager(row, [(size,)] * len(row.ranges), dtype)


@pytest.mark.parametrize(("device", "dtype", "first"), list(_groups()), indirect=["device"])
def test_fused_ops_equal_pytorch(device: Any, dtype: str, first: int) -> None:
    if dtype == "float64" and not device.supports_fp64:
        pytest.skip(f"{device!r} has no float64")
    for size in SIZES:
        check_fused(ROWS[first : first + GROUP], dtype, partial(_samples, dtype, size))


def _samples(dtype: str, size: int, row: Row) -> list[Any]:
    return samples(row, [(size,)] * len(row.ranges), dtype)


@pytest.mark.parametrize("first", range(0, len(ROWS), GROUP))
def test_special_values_equal_pytorch(device: Any, first: int) -> None:
    """NaN, infinities, zeros of both signs, ties, kinks and overflow: as PyTorch."""
    pytest.importorskip("torch")
    group = ROWS[first : first + GROUP]
    if "Portable" in device.platform:
        group = [row for row in group if row.op not in SPOILED]
    check_fused(group, "float32", specials)
