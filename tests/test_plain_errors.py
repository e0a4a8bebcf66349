"""Errors that once led astray: each says what was given, what is expected, and what to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.check import child

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import ArgumentError, DeviceError, TemplateError
from netcl_core.plugins import loading
from netcl_core.plugins.catalogue import how_to_get
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Bound
from netcl_core.runtime.opencl_stream import pack

DEVICES = [device for device in nc.devices() if device.backend == "opencl" and not device.simulator]
FILL = Path(__file__).with_name("support") / "templates" / "fill.cl.j2"


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    nc.plugins.add_templates("plain", tmp_path)
    return tmp_path


def filled(kind: str, items: int, local: tuple[int, ...] | None = None) -> Any:
    """What a kernel with a number of this type writes."""
    args = (("out", 0), (kind, 7))
    made = nc.Kernel("plain/fill.cl.j2", "fill", args, (items,), local, {"ctype": "int"})
    out = nc.zeros(items, dtype="int32", device=DEVICES[0])
    spec = nc.Spec((items,), "int32")
    Bound(DEVICES[0], nc.Kernels((made,)), (), (spec,))([], [out.value.buffer])
    return out.numpy()


@pytest.mark.skipif(not DEVICES, reason="there is no OpenCL device")
def test_the_type_of_a_number(templates: Path) -> None:
    """It was KeyError: 'uint'; a uint is one now, and another type is named."""
    shutil.copy(FILL, templates)
    assert filled("uint", 3).tolist() == [7, 7, 7]
    assert pack(2**32 - 1, "uint", "fill") == b"\xff" * 4
    with pytest.raises(ArgumentError, match="fill: a number of the type 'size_t'; expected one of"):
        filled("size_t", 3)
    with pytest.raises(ArgumentError, match="of the type 'uchar'"):
        pack(1, "uchar", "fill")


@pytest.mark.skipif(not DEVICES, reason="there is no OpenCL device")
def test_a_work_group_that_is_too_large(templates: Path) -> None:
    """Its text was that of a kernel with other parameters."""
    shutil.copy(FILL, templates)
    many = 2 * DEVICES[0].max_work_group_size
    with pytest.raises(DeviceError) as caught:
        filled("int", many, (many,))
    said = str(caught.value)
    assert f"local size ({many},)" in said and "WORK_GROUP_SIZE" in said
    assert "of at most" in said and "Change global_size or local_size" in said
    assert "parameters" not in said


def test_a_weight_in_the_place_of_the_sizes() -> None:
    """The message held every number of the weight, 30 KB of them."""
    x, weight = nc.ones(2, 384), nc.ones(384)
    for op in (ag.rms_norm, ag.layer_norm):
        for given in (weight, np.ones(384, np.float32)):
            with pytest.raises(ArgumentError, match=r"_norm\(x, \(384,\), weight\)") as caught:
                op(x, given)
            assert len(str(caught.value)) < 300


TEMPLATE = """{# An op. #}
{% macro forward(x) %}
{% set a = x %}
{% set b = a %}
{{ b }} * {{ factr }}
{% endmacro %}
{% macro backward(x, grad, out) %}[{{ grad }}]
{% endmacro %}
"""


def test_the_line_of_a_macro_is_the_templates(templates: Path, give: Any) -> None:
    """It was that of the Python code which Jinja makes of it: line 26 of 8."""
    (templates / "scaled.cl.j2").write_text(TEMPLATE, encoding="utf-8")
    with pytest.raises(TemplateError, match=r"template 'plain/scaled.cl.j2': line 5: 'factr'"):
        give("plain", AutogradPrimitive.from_template("plain/scaled.cl.j2"))


def test_the_line_of_another_template_is_told_as_such(templates: Path) -> None:
    (templates / "lib.cl.j2").write_text("\n\n{% macro f() %}{{ wrong }}{% endmacro %}\n")
    (templates / "user.cl.j2").write_text(
        '{% import "plain/lib.cl.j2" as lib %}\n{{ lib.f() }}\n', encoding="utf-8"
    )
    kernel = nc.Kernel("plain/user.cl.j2", "user", (), (1,))
    with pytest.raises(TemplateError, match=r"line 2: line 3 of lib.cl.j2: 'wrong'"):
        _ = kernel.source


def test_a_dependency_that_was_not_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check runs with that alone which a plugin declares; it spoke of its own settings."""
    monkeypatch.setattr(registry, "inactive", {"netcl-plugin-linalg": "disabled (NETCL_PLUGINS)"})
    monkeypatch.setattr(loading, "load_installed", lambda *given: None)
    child._load(lambda plugin: None, Path(), "netcl-plugin-mine", (), "")
    remedy = how_to_get("matmul", "operator")
    assert remedy is not None and "since netcl-plugin-mine does not declare it" in remedy
    assert "NETCL_PLUGINS" not in remedy
