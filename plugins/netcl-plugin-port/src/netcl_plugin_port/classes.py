"""Base classes of PyTorch's layers, as `isinstance` asks for them."""

from __future__ import annotations

from typing import Any

from netcl_core import nn


def _any_of(name: str, *layers: Any) -> Any:
    kind = type(
        "LayerKind", (type,), {"__instancecheck__": lambda cls, value: isinstance(value, layers)}
    )
    return kind(name, (), {"__doc__": f"One of {', '.join(layer.__name__ for layer in layers)}."})


BatchNorm = _any_of("_BatchNorm", nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
InstanceNorm = _any_of("_InstanceNorm", nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
Conv = _any_of(
    "_ConvNd",
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
Loss = _any_of("_Loss", *(getattr(nn, name) for name in nn.__all__ if name.endswith("Loss")))
