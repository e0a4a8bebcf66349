"""`torch.load(file, map_location="netcl")`: tensors of a file that are put on the device.

PyTorch would make the memory of a file there, which a device written in Python does not hand out.
So the memory stays on the host, with a mark, and each tensor on it becomes one of the device's.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from netcl_plugin_torch import device

_MARK: Final = "_on_netcl"
#: PyTorch's own way to put memory on such devices has 23.
_BEFORE: Final = 15
_rebuild: Final = torch._utils._rebuild_tensor


def register() -> None:
    """Let PyTorch's reader of files come here."""
    torch.serialization.register_package(_BEFORE, lambda _: None, _restored)
    torch._utils._rebuild_tensor = _rebuilt


def _restored(storage: Any, location: str) -> Any:
    """A memory of a file that shall be on the device; None: it shall be elsewhere."""
    if location.partition(":")[0] != "netcl":
        return None
    device.set_device(location)
    setattr(storage, _MARK, {})
    return storage


def _rebuilt(storage: Any, offset: int, size: Any, stride: Any) -> Any:
    """A tensor of a file; those on one memory share one on the device, too."""
    known = storage._untyped_storage.__dict__.get(_MARK)
    if known is None:
        return _rebuild(storage, offset, size, stride)
    dtype = storage.dtype
    if dtype not in known:
        host = torch.empty(0, dtype=dtype).set_(storage._untyped_storage)
        known[dtype] = host.to("netcl")
    return known[dtype].as_strided(size, stride, offset)
