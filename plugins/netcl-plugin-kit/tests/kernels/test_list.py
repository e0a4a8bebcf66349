"""`netcl kernels list`: of everything, of an op, of a plugin."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from netcl_core.cli import main
from netcl_core.plugins.registry import registry


def run(*words: str) -> Result:
    return CliRunner().invoke(main.netcl, ["kernels", "list", *words])


def data(*words: str) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_every_op_has_a_row() -> None:
    found = data()
    registry.load()
    assert {each["op"] for each in found["kernels"]} == set(registry.op_names())
    assert "linalg/gemm.cl.j2" in found["templates"]["netcl-plugin-linalg"]


def test_the_kernels_of_an_op() -> None:
    pytest.importorskip("netcl_plugin_tensorcore")
    found = data("matmul")
    assert found["templates"] == {}
    rows = {each["kernel"]: each for each in found["kernels"]}
    assert rows["host BLAS"]["needs"] == "cpu, float32, float64"
    assert rows["tiles in local memory"]["settings"] == ["tile", "slices"]
    assert rows["tensor cores"]["provider"] == "netcl-plugin-tensorcore"
    (relu,) = data("relu")["kernels"]
    assert relu["kernel"] == "made of its expression"
    assert relu["templates"] == ["elementwise/relu.cl.j2"]
    (view,) = data("reshape")["kernels"]
    assert view["kernel"] == "none: it is a view"


def test_the_kernels_of_a_plugin_and_its_templates() -> None:
    pytest.importorskip("netcl_plugin_tensorcore")
    found = data("tensorcore")
    assert {each["provider"] for each in found["kernels"]} == {"netcl-plugin-tensorcore"}
    assert {"matmul", "linear"} <= {each["op"] for each in found["kernels"]}
    lines = run("netcl-plugin-tensorcore").stdout.splitlines()
    assert lines[0] == "from netcl-plugin-tensorcore"
    header = lines[2].split()
    assert header[:2] == ["op", "kernel"] and "from" not in header
    assert max(map(len, lines[: lines.index("templates of netcl-plugin-tensorcore:")])) <= 80
    assert "templates of netcl-plugin-tensorcore:" in lines
    assert sum(line.startswith("  tensorcore/") for line in lines) == len(
        found["templates"]["netcl-plugin-tensorcore"]
    )


def test_what_nobody_is_called() -> None:
    said = run("rellu")
    assert said.exit_code == 2 and "did you mean relu?" in said.stderr
