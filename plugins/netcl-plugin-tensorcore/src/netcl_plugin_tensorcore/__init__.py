"""Matrix products and attention by the tensor cores of NVIDIA's GPUs."""

from __future__ import annotations

from typing import Any

from netcl_plugin_linalg.attention_gradients import BACKWARD

from netcl_core import hookimpl
from netcl_plugin_tensorcore import attention, products


class TensorCorePlugin:
    """Registers kernels for the products and the attention of netcl-plugin-linalg."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for record in (*products.IMPLEMENTATIONS, *attention.IMPLEMENTATIONS):
            registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        if op == BACKWARD:
            return "the gradients of scaled_dot_product_attention, whose cases take them"
        return ()


plugin = TensorCorePlugin()
