"""`netcl devices`: what there is to compute on, as a table or JSON; the doctor shows it, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

from netcl_core.cli.tables import print_json, print_table
from netcl_core.hardware import device_table
from netcl_core.hardware.device import Device

_FACTS: Final = (
    "id", "backend", "kind", "name", "platform", "vendor", "driver_version", "simulator",
    "supports_fp16", "supports_fp64", "compute_units", "max_work_group_size", "local_mem_bytes",
    "vector_bytes",
)  # fmt: skip


def show_devices(as_json: bool) -> None:
    """Print every usable device, the default one marked, and the rejected ones."""
    data: dict[str, Any] = {
        "default": device_table.default_device().id,
        "default_rule": device_table.default_rule(),
        "devices": [device_data(one) for one in device_table.all_devices()],
        "rejected": [asdict(one) for one in device_table.rejected()],
        "opencl_problem": device_table.opencl_problem(),
    }
    if as_json:
        print_json(data)
        return
    print_devices(data["devices"], data["default"])
    print(f"\n* the default: {data['default_rule']}")
    print_parts("rejected devices", ("name", "platform", "reason"), data["rejected"])
    if data["opencl_problem"]:
        print(f"\nNo OpenCL: {data['opencl_problem']}")


def device_data(device: Device) -> dict[str, Any]:
    """What there is to say of a device, probed; memory in bytes."""
    return {
        **{name: getattr(device, name) for name in _FACTS},
        "probe": device.probe.reason,
        "opencl_c": "" if device.cl_device is None else "{}.{}".format(*device.opencl_c),
        "extensions": list(device.extensions),
    }


def print_devices(devices: Iterable[dict[str, Any]], default: str | None) -> None:
    """A table of devices, as `device_data` describes them; the default one is marked."""
    header = ("", "device", "kind", "fp16", "fp64", "units", "name", "platform")
    rows = [
        (
            "*" if one["id"] == default else "",
            one["id"],
            "simulator" if one["simulator"] else one["kind"],
            _text(one["supports_fp16"]),
            _text(one["supports_fp64"]),
            str(one["compute_units"]),
            one["name"],
            one["platform"],
        )
        for one in devices
    ]
    print_table(header, rows, header)


def print_parts(title: str, header: Sequence[str], parts: Sequence[dict[str, Any]]) -> None:
    """A table of parts of the report below its title, if there are any; any column may fold."""
    if parts:
        print(f"\n{title}")
        print_table(header, [[_text(one[name]) for name in header] for one in parts], header)


def _text(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)
