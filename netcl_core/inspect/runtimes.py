"""OpenCL runtimes and devices as they were found, with those that cannot be used, and why."""

from __future__ import annotations

from netcl_core.hardware.device_table import default_rule as default_rule
from netcl_core.hardware.device_table import opencl_problem as opencl_problem
from netcl_core.hardware.device_table import rejected as rejected
from netcl_core.hardware.icd import install as install
from netcl_core.hardware.runtimes import Runtime as Runtime
from netcl_core.hardware.runtimes import discover as discover
from netcl_core.hardware.runtimes import load_error as load_error
from netcl_core.hardware.runtimes import locate as locate
