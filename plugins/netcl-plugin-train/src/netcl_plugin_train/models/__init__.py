"""The namespace `netcl_core.models`: four architectures, and weights that others published."""

from __future__ import annotations

from netcl_core.plugins import absent
from netcl_plugin_train.models.published import load
from netcl_plugin_train.models.resnet import ResNet
from netcl_plugin_train.models.transformers import BERT, GPT2, ViT

__all__ = ["BERT", "GPT2", "ResNet", "ViT", "load"]


def __getattr__(name: str) -> object:
    return absent("models", name, __all__)
