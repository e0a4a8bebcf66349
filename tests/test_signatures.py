"""A kernel that is named or called otherwise than its source says is refused with its signature."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import netcl_core as nc
from netcl_core.errors import DeviceError
from netcl_core.hardware.device import Device
from netcl_core.hardware.programs import shared_kernel
from netcl_core.runtime.opencl_stream import Launch
from netcl_core.runtime.signatures import kernels_in
from netcl_core.runtime.stream import stream_of

SOURCE = (Path(__file__).with_name("support") / "signatures.cl").read_text(encoding="utf-8")
DEVICES = [device for device in nc.devices() if device.backend == "opencl" and not device.simulator]
on_devices = pytest.mark.parametrize("device", DEVICES, ids=str)


def launch(
    device: Device,
    entry: str,
    constants: int,
    buffers: Sequence[Any],
    scalars: Sequence[bytes] = (),
) -> None:
    kernel = shared_kernel(device, SOURCE, entry)
    made = Launch(kernel, (1,), None, [struct.pack("f", 2.0)] * constants, "scaled")
    stream_of(device).launch(made, buffers, scalars)


def test_kernels_are_found_in_their_source() -> None:
    assert kernels_in(SOURCE) == {
        "scaled_forward": "__global const float *in0, __global float *out0, const float factor",
        "scaled_backward": "__global float *out0",
    }


@on_devices
def test_what_fits_runs(device: Device) -> None:
    x, y = nc.tensor([3.0], device), nc.Tensor.zeros((1,), device=device)
    launch(device, "scaled_forward", 1, [x.buffer, y.buffer])
    assert y.to_host().tolist() == [6.0]


@on_devices
def test_a_misspelt_kernel(device: Device) -> None:
    with pytest.raises(DeviceError, match=r"scaled: there is no kernel 'scaled_foward' .*Did you"):
        launch(device, "scaled_foward", 1, [])


@on_devices
@pytest.mark.parametrize("constants", [0, 2])
def test_too_few_or_too_many_arguments(device: Device, constants: int) -> None:
    x = nc.tensor([3.0], device)
    given = f"{2 + constants} arguments are given; expected its parameters .*const float factor"
    with pytest.raises(DeviceError, match=f"scaled: the kernel 'scaled_forward' .*{given}"):
        launch(device, "scaled_forward", constants, [x.buffer, x.buffer])


@on_devices
def test_an_argument_of_another_size(device: Device) -> None:
    x = nc.tensor([3.0], device)
    with pytest.raises(DeviceError, match=r"INVALID_ARG_SIZE.*expected its parameters"):
        launch(device, "scaled_forward", 0, [x.buffer, x.buffer], [struct.pack("d", 2.0)])


@on_devices
def test_another_launch_of_the_same_kernel_is_checked_too(device: Device) -> None:
    """They share a kernel object, which still has the arguments of the one before."""
    x, y = nc.tensor([3.0], device), nc.Tensor.zeros((1,), device=device)
    launch(device, "scaled_forward", 1, [x.buffer, y.buffer])
    with pytest.raises(DeviceError, match="2 arguments are given"):
        launch(device, "scaled_forward", 0, [x.buffer, y.buffer])
    launch(device, "scaled_forward", 1, [x.buffer, y.buffer])
    assert y.to_host().tolist() == [6.0]
