"""The ops, under the path that the documentation gives them: `netcl_core.autograd.ops.relu`."""

from __future__ import annotations

from netcl_core.ops.functions import __dir__, __getattr__

__all__ = ["__dir__", "__getattr__"]
