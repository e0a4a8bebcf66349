"""Failures of one cause are one line of `netcl plugins check`; different ones stay apart."""

from __future__ import annotations

from netcl_plugin_kit.check.causes import causes
from netcl_plugin_kit.testing.records import Outcome

DEVICES = {"opencl:0": "<Device opencl:0: fast>", "numpy": "<Device numpy: NumPy>"}


def failed(check: str, op: str, device: str, dtype: str, what: str) -> Outcome:
    reason = f"{check} of {op} on {device} in {dtype}: BuildError: {what} on {DEVICES[device]}"
    return Outcome(check, "failed", op, device, dtype, f"{reason}\nthe log, in {dtype}")


def test_one_fault_is_one_line() -> None:
    found = causes(
        [
            failed(check, "rowlen", device, dtype, "it did not build")
            for check in ("values", "fused")
            for device in DEVICES
            for dtype in ("float16", "float32")
        ]
    )
    (cause,) = found
    assert cause.first.check == "values" and len(cause.others) == 7
    said = "BuildError: it did not build on <Device opencl:0: fast> (and 7 more like it: "
    assert cause.reason.endswith(f"{said}fused, float32, numpy)")
    assert "the log" not in cause.reason


def test_ops_and_causes_stay_apart() -> None:
    rows = [
        failed("values", "one", "numpy", "float32", "it did not build"),
        failed("values", "two", "numpy", "float32", "it did not build"),
        failed("values", "two", "numpy", "float32", "it ended"),
    ]
    found = causes(rows)
    assert [cause.first for cause in found] == rows
    assert [cause.reason for cause in found] == [each.reason.split("\n")[0] for each in rows]


def test_numbers_do_not_tell_causes_apart() -> None:
    rows = [
        Outcome("values", "failed", "one", "numpy", dtype, f"one in {dtype} for [({size},)]: "
                f"{size} of {size} elements differ, by {size / 7} (nan)")
        for dtype, size in (("float16", 3), ("float32", 1031), ("float32", 7))
    ]  # fmt: skip
    (cause,) = causes(rows)
    assert cause.reason.endswith("(and 2 more like it: float32)")
    (same,) = causes(rows[1:])
    assert same.reason.endswith("(and 1 more like it: in other shapes)")
