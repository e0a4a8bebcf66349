"""What a device can do: `supports_fp16`, `autocast_enabled`."""

from __future__ import annotations

from typing import Any

from netcl_core import Device, devices


def supports_fp16(queue: Any) -> bool:
    """Whether a device computes in half precision: its probe kernel compiles and is right.

    >>> amp.supports_fp16(None)
    False

    Args:
        queue: A Device, or the command queue of one (`device.queue`). A queue of somebody else's
            is judged by its device's extensions.

    Never raises: what is no device has no half precision.
    """
    try:
        if isinstance(queue, Device):
            return queue.supports_fp16
        own = next((device for device in devices() if _is_queue_of(queue, device)), None)
        return "cl_khr_fp16" in queue.device.extensions if own is None else own.supports_fp16
    except Exception:  # whatever a foreign object raises, the documented answer is no
        return False


def _is_queue_of(queue: Any, device: Device) -> bool:
    own = device.queue
    return own is not None and (queue is own or queue.device == own.device)


def autocast_enabled(profile_supports_fp16: bool) -> bool:
    """Whether to autocast on a device: what its profile says of half precision.

    >>> amp.autocast_enabled(profile_supports_fp16=True)
    True
    """
    return bool(profile_supports_fp16)
