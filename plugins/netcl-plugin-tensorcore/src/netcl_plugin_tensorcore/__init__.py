"""Matrix products, convolutions and attention by the tensor cores of NVIDIA's GPUs."""

from __future__ import annotations

from typing import Any

from netcl_plugin_conv.convolution import WEIGHTS
from netcl_plugin_linalg.attention_gradients import BACKWARD
from netcl_plugin_linalg.linear import PARAMETER_GRADIENTS

from netcl_core import hookimpl
from netcl_plugin_tensorcore import attention, convolutions, products


class TensorCorePlugin:
    """Registers kernels for products, attention and convolutions."""

    @hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        for module in (products, attention, convolutions):
            for record in module.IMPLEMENTATIONS:
                registry.add(record)

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        if op == BACKWARD:
            return "the gradients of scaled_dot_product_attention, whose cases take them"
        if op == PARAMETER_GRADIENTS.name:
            return "the gradients of linear, whose cases take them"
        if op in {operator.name for operator in WEIGHTS}:
            return "the gradients of convolutions, whose cases take them"
        return ()


plugin = TensorCorePlugin()
