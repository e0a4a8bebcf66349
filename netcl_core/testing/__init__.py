"""Checks for ops: values and gradients against float64, on every device at hand."""

from __future__ import annotations

from netcl_core.testing.oracle import check_op, usable_devices

__all__ = ["check_op", "usable_devices"]
