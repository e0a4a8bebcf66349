"""PoCL, where it is installed: each kind of kernel once. All the rest of it is for the night."""

from __future__ import annotations

import pytest
from netcl_plugin_kit.testing import table_of
from netcl_plugin_kit.testing.checks import check_main

import netcl_core as nc
from netcl_core.errors import DeviceError

#: A kind of kernel, the plugin and the op that stand for it.
KINDS = {
    "elementwise": ("elementwise", "gelu"),
    "reduction": ("tensor", "sum"),
    "scan": ("tensor", "cumsum"),
    "rows": ("tensor", "softmax"),
    "product": ("linalg", "matmul"),
    "convolution": ("conv", "conv2d"),
    "attention": ("linalg", "scaled_dot_product_attention"),
    "index": ("tensor", "gather"),
    "random": ("tensor", "rand"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_kernel(kind: str) -> None:
    try:
        device = nc.get_device("opencl:portable")
    except DeviceError:
        pytest.skip("PoCL is not installed")
    plugin, op = KINDS[kind]
    case = table_of(f"netcl-plugin-{plugin}").cases_of(op)[0]
    check_main(case, device, case.main_dtype)
