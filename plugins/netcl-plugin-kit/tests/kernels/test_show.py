"""`netcl kernels show`: what it prints for elementwise and structured ops, and how errors end."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from netcl_plugin_kit.shapes import attribute
from terminal import on_terminal

import netcl_core as nc
from netcl_core.autograd import AutogradPrimitive, Implementation, Operator, Requirements, composite
from netcl_core.cli import main
from netcl_core.dtypes import DTYPES
from netcl_core.hardware.device_table import all_devices
from netcl_core.plugins.registry import registry
from netcl_core.runtime.host_calls import HostCall
from netcl_core.runtime.kernels import Kernel, Kernels, Spec

OPENCL = [str(device) for device in all_devices() if device.backend == "opencl"]
needs_opencl = pytest.mark.skipif(not OPENCL, reason="no OpenCL device")


def show(*arguments: str) -> Result:
    return CliRunner().invoke(main.netcl, ["kernels", "show", *arguments])


def data(*arguments: str) -> Any:
    result = show(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def row(n: int) -> Any:
    """An implementation of priority n for rows of at least n elements."""

    def reject(request: Any) -> str | None:
        return None if request.inputs[0].size >= n else f"rows are shorter than {n}"

    def plan(request: Any) -> Any:
        if n == 3:
            return HostCall(copy)
        return Kernels(
            (Kernel("core/kernels/probe.cl.j2", "probe", (("in", 0), ("out", 0)), (n, 2)),) * 2
        )

    return Implementation("kernels_rows", f"rows of {n}", plan, Requirements(reject=reject), n)


def copy(inputs: Any, output: Any) -> None:
    output[...] = inputs[0]


@pytest.fixture(autouse=True)
def ops() -> Iterator[None]:
    """Ops of the test's own beside the installed ones."""

    def bind(x: Any, dim: int = 0) -> Any:
        return (x,), {"dim": dim}

    def infer(x: Spec, dim: int) -> Spec:
        return Spec((x.shape[dim],), x.dtype)

    def flat(x: Spec, dim: int) -> Spec:
        return Spec((x.size,), x.dtype)

    registry.load()
    entry = registry.transaction("kit")
    entry.add("primitive", scaled())
    entry.add(
        "operator",
        Operator("kernels_rows", bind, infer, lambda x, dim: np.sum(x, 1 - dim),
                 lambda saved, grad: [grad], implementations=[row(0), row(100)]),
    )  # fmt: skip
    entry.add("implementation", row(3))
    entry.add(
        "operator",
        Operator("kernels_flat", bind, flat, np.ravel, view=lambda x: x.reshaped((x.size,))),
    )
    entry.add("operator", composite(lambda x: x, name="kernels_other"))
    entry.commit()
    yield
    registry.remove_provider("kit")


def scaled() -> AutogradPrimitive:
    return AutogradPrimitive(
        "kernels_scaled",
        lambda args, attrs: f"{args[0]} * {attrs['by']} + {args[1]}",
        lambda args, grad, attrs, out: [f"{grad} * {attrs['by']}", grad],
        2,
        attrs={"by": 2.0, "mode": "plain"},
        choices={"mode": ["plain", "other"]},
    )


# -- elementwise ops -------------------------------------------------------------------


@pytest.mark.parametrize("device", [str(device) for device in all_devices()])
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_the_source_that_runs_is_shown(device: str, dtype: str) -> None:
    found = data("kernels_scaled", "--device", device, "--dtype", dtype)
    assert (found["op"], found["provider"], found["phase"]) == ("kernels_scaled", "kit", "forward")
    assert (found["device"], found["entry"]) == (device, "kernels_scaled_forward")
    assert found["inputs"] == [{"shape": [1024], "dtype": dtype}] * 2
    result = "float32" if dtype == "int32" else dtype  # the attribute is 2.0
    assert (found["dtype"], found["output"]) == (dtype, {"shape": [1024], "dtype": result})
    pointer = f"__global const {DTYPES[dtype].storage} *in0"
    assert ("def kernels_scaled" if device == "numpy" else pointer) in found["source"]
    assert [each["text"] for each in found["sources"]] == [found["source"]]
    text = show("kernels_scaled", "--device", device, "--dtype", dtype).stdout
    assert found["source"].strip() in text and "\x1b" not in text
    assert "-> primitive kernels_scaled (kit, priority 0): used: the only provider" in text


def test_the_default_device_is_the_default() -> None:
    assert data("kernels_scaled")["device"] == str(nc.default_device())


def test_output_for_numpy_is_python() -> None:
    text = show("kernels_scaled", "--device", "numpy", "--attr", "by=3").stdout
    compile(text, "shown", "exec")
    assert text.startswith(
        "# kernels_scaled (kit), forward of 1024:float32, 1024:float32 on numpy\n"
    )


@needs_opencl
def test_shapes_decide_how_inputs_are_read() -> None:
    flat = data("kernels_scaled", "--device", "opencl")
    assert (
        data("kernels_scaled", "--device", "opencl", "--shape", "8x4")["source"] == flat["source"]
    )
    wide = data("kernels_scaled", "--device", "opencl", "--shapes", "4x1,1x8")
    assert "t_in0_0" in wide["source"] and "t_in0_0" not in flat["source"]
    point = data("kernels_scaled", "--device", "opencl", "--shapes", "64,():int32")
    assert point["inputs"][1] == {"shape": [], "dtype": "int32"}
    assert "__global const int *in1" in point["source"]


def test_the_backward() -> None:
    found = data("kernels_scaled", "--device", "numpy", "--backward")
    assert (found["phase"], found["entry"]) == ("backward", "kernels_scaled_backward")
    assert found["notes"] == ["the gradient of input 1 is grad itself"]
    assert "gout0" in found["source"]
    none = show("add", "--backward")
    assert none.exit_code == 0 and "the gradient of input 0 is grad itself" in none.stdout


# -- structured ops --------------------------------------------------------------------


@needs_opencl
def test_the_launches_of_the_chosen_implementation() -> None:
    found = data("kernels_rows", "--device", "opencl", "--shapes", "1x2")
    assert found["implementation"] == "rows of 0"
    assert [each["entry"] for each in found["sources"]] == ["probe", "probe"]
    assert found["sources"][0]["global_size"] == [0, 2]
    assert found["entry"] == "probe, probe" and found["source"].count("void netcl_probe(") == 2
    assert "rows of 100 (kit, priority 100): dropped: rows are shorter than 100" in found["why"]
    text = show("kernels_rows", "--device", "opencl", "--shapes", "50x2").stdout
    assert "-> rows of 100 (kit, priority 100): used: the highest priority, 100" in text
    assert "// launch 2 of 2: probe, 100x2 work-items in groups of " in text


@needs_opencl
def test_a_host_call_shows_its_function() -> None:
    found = data("kernels_rows", "--device", "opencl", "--shapes", "2x2")
    assert found["implementation"] == "rows of 3"
    assert found["source"].startswith("def copy(") and found["sources"][0]["language"] == "Python"


def test_a_structured_op_on_numpy_and_backward_shows_python() -> None:
    found = data("kernels_rows", "--device", "numpy", "--shapes", "2x3", "--attr", "dim=1")
    assert "np.sum(x, 1 - dim)" in found["source"]
    assert found["notes"] == ["NumPy computes it by its reference"]
    found = data("kernels_rows", "--device", "numpy", "--shapes", "2x3", "--backward")
    assert "saved, grad" in found["source"] and "other ops" in found["notes"][0]
    assert show("kernels_flat", "--shapes", "2x3").exit_code == 0


@needs_opencl
@pytest.mark.parametrize("flag", [[], ["--backward"]], ids=["forward", "backward"])
def test_an_op_that_is_made_of_others_says_so(flag: list[str]) -> None:
    found = data("kernels_other", "--device", "opencl", "--shape", "2x3", *flag)
    assert (found["sources"], found["output"]) == ([], None)
    assert "made of other ops" in found["notes"][0]


@needs_opencl
def test_nothing_is_launched_for_a_view_and_for_no_elements() -> None:
    assert (
        "another shape" in data("kernels_flat", "--device", "opencl", "--shape", "2x3")["notes"][0]
    )
    empty = data("kernels_rows", "--device", "opencl", "--shape", "0x3")
    assert (empty["sources"], empty["source"]) == ([], "") and "empty" in empty["notes"][0]


@needs_opencl
@pytest.mark.parametrize(
    "arguments",
    [
        ("matmul", "--shapes", "64x32,32x16"),
        ("sum", "--shape", "33x17", "--attr", "axis=1"),
        ("softmax", "--shape", "4x10", "--attr", "dim=-1"),
        ("gelu", "--backward", "--attr", "approximate=none"),
        ("clamp", "--attr", "min=0", "--attr", "max=None"),
    ],
)
def test_installed_ops(arguments: tuple[str, ...]) -> None:
    found = data(*arguments, "--device", "opencl")
    assert found["sources"] and all("__" + "kernel" in each["text"] for each in found["sources"])


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("kernels_scalde",), 2, "this op. Did you mean kernels_scaled"),
        (("kernels_scaled", "--device", "opencl:77"), 3, "'opencl:77' names no usable device"),
        (("kernels_scaled", "--dtype", "float8"), 2, "--dtype: the dtype 'float8' is not"),
        (("kernels_scaled", "--shapes", "4"), 2, "kernels_scaled: 1 shapes; expected 2"),
        (("kernels_scaled", "--shapes", "4,3"), 2, "kernels_scaled: "),
        (("kernels_scaled", "--shapes", "4x,3"), 2, "the shape '4x'; expected sizes such as 64x32"),
        (("kernels_scaled", "--shape", "4:halff"), 2, "the dtype 'halff' is not supported"),
        (("kernels_scaled", "--shape", "4", "--shapes", "4,4"), 2, "expected one of them"),
        (("kernels_scaled", "--attr", "by"), 2, "--attr 'by'; expected NAME=VALUE"),
        (("kernels_scaled", "--attr", "by=word"), 2, "by='word' is not a number"),
        (("kernels_scaled", "--attr", "what=1"), 2, "the attribute 'what' is unknown"),
        (("kernels_scaled", "--attr", "mode=1"), 2, "mode=1; expected one of 'plain', 'other'"),
        (("kernels_scaled", "--dtype", "int32", "--backward"), 2, "no gradient for int32, int32"),
        (("floor_nothing",), 2, "no installed plugin provides this op"),
        (("lt", "--backward"), 2, "lt: no gradient; expected a differentiable op"),
        (("kernels_rows",), 2, "kernels_rows: a structured op without shapes"),
        (("kernels_rows", "--shape", "2x3", "--attr", "dim=7"), 2, "kernels_rows: it was given"),
        (("kernels_rows", "--shape", "2x3", "--attr", "dmi=1"), 2, "unexpected keyword argument"),
        (("kernels_rows", "--shapes", "2,3"), 2, "kernels_rows: "),
        ((), 2, "Missing argument 'OP'"),
    ],
)
def test_an_error_is_one_line(arguments: tuple[str, ...], code: int, text: str) -> None:
    result = show(*arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert text in result.stderr
    assert result.stderr.startswith("netcl: ") == bool(arguments)
    assert len(result.stderr.splitlines()) == 1 or not arguments
    assert isinstance(result.exception, SystemExit)


def test_an_op_that_is_not_installed_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "find_op", lambda name, chosen=(): None)
    assert "Install it with: pip install netcl-plugin-elementwise" in show("relu").stderr


@needs_opencl
def test_no_fitting_implementation_is_the_environments_fault() -> None:
    entry = registry.transaction("kit")
    gpu = Requirements(reject=lambda request: "never")
    only = [Implementation("kernels_never", "one", lambda request: Kernels(()), gpu)]
    bind, infer = (lambda x: ((x,), {})), (lambda x: x)
    entry.add("operator", Operator("kernels_never", bind, infer, np.copy, implementations=only))
    entry.commit()
    result = show("kernels_never", "--device", "opencl", "--shape", "2")
    assert result.exit_code == 3 and "no implementation fits float32" in result.stderr


# -- terminals -------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_colours_on_a_terminal_only(tmp_path: Path) -> None:
    words = ["kernels", "show", "relu", "--device", "numpy"]
    code, text = on_terminal(words, tmp_path / "errors", COLUMNS="40", TERM="xterm-256color")
    assert code == 0, (tmp_path / "errors").read_text()
    assert b"\x1b[" in text and text.endswith(b"\n")


def test_the_command_is_in_the_help() -> None:
    runner = CliRunner()
    assert "kernels" in runner.invoke(main.netcl, ["--help"]).stdout
    assert "show" in runner.invoke(main.netcl, ["kernels", "--help"]).stdout
    text = show("--help").stdout
    for option in ("--dtype", "--device", "--backward", "--shape", "--shapes", "--attr", "--json"):
        assert option in text


def test_attribute_values_are_pythons_or_words() -> None:
    given = ["a=1", "b=2.5", "c=None", "d=(0, 1)", "e=tanh", "f=", "g=x=y"]
    values = dict(attribute("kernels show", each) for each in given)
    assert values == {"a": 1, "b": 2.5, "c": None, "d": (0, 1), "e": "tanh", "f": "", "g": "x=y"}


# -- without shapes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "shapes", "told"),
    [
        ("conv2d", [(2, 16, 5, 18), (34, 16, 3, 3), (34,)], "conv2d-wide, padding=1"),
        ("gather", [(4, 5, 6)], "gather, dim=1, index=3x7x2:int64"),
        ("mse_loss", None, "mse_loss"),  # a function of other ops
    ],
)
def test_what_only_a_function_calls_has_the_arguments_of_that(
    op: str, shapes: Any, told: str
) -> None:
    """And the op itself is as before."""
    before = registry.find_op(op)
    found = data(op, "--device", "numpy")
    assert registry.find_op(op) == before
    assert shapes is None or [tuple(each["shape"]) for each in found["inputs"]] == shapes
    assert found["notes"][-1].startswith(f"as in the conformance case {told}")


def test_attributes_that_are_given_go_before_those_of_the_case() -> None:
    found = data("softmax", "--device", "numpy", "--attr", "dim=0")
    assert "dim=0" in found["notes"][-1]
