"""`nn.DataParallel`: a model on the one device that trains it."""

from __future__ import annotations

from typing import Any

from netcl_core import nn
from netcl_plugin_port.absent import absence


class DataParallel(nn.Module):  # type: ignore[misc]  # known when plugins are
    """Calls a module; its parameters stand under `module.`, as in PyTorch.

    >>> sorted(nc.nn.DataParallel(nc.nn.Linear(2, 1)).state_dict())
    ['module.bias', 'module.weight']
    """

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)


def data_parallel(
    module: Any, inputs: Any, device_ids: Any = None, output_device: Any = None
) -> Any:
    """What the module gives for its inputs."""
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)


def __getattr__(name: str) -> Any:
    raise absence("nn.parallel", name, ["DataParallel", "data_parallel"])
