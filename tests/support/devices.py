"""Devices for tests that go through every op: all of them before a release, NumPy's path always."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import netcl_core as nc


def thorough(devices: Sequence[nc.Device]) -> list[Any]:
    """The devices as parameters; those that build kernels are left to `make release`."""
    return [
        each if each.backend == "numpy" else pytest.param(each, marks=pytest.mark.release)
        for each in devices
    ]
