"""A plugin from outside brings kernels for layer_norm and cross_entropy, which are others' ops."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import checkouts
import netcl_core.nn as nn
import netcl_plugin_rowwise
import numpy as np
import pytest
from environments import ROOT
from netcl_plugin_kit.kernels.sources import sources_of
from netcl_plugin_kit.new.names import ProjectNames
from netcl_plugin_kit.new.project import create
from netcl_plugin_kit.new.scaffolds import SCAFFOLDS
from netcl_plugin_kit.testing import recorded
from netcl_plugin_rowwise.implementations import LABEL

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Implementation, Requirements
from netcl_core.errors import (
    ArgumentError,
    DeviceError,
    GradientError,
    MissingOpError,
    PluginError,
    RegistrationError,
)
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec

torch = pytest.importorskip("torch")
OPENCL = [device for device in nc.devices() if device.backend == "opencl" and not device.simulator]
RNG = np.random.default_rng(3)
X, TARGET = RNG.standard_normal((6, 10)), np.array([0, 9, 3, -100, 3, 1])


@pytest.fixture(params=OPENCL, ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture
def rowwise() -> Iterator[None]:
    nc.plugins.register(netcl_plugin_rowwise.plugin, "rowwise")
    yield
    nc.plugins.unregister("rowwise")


def dtypes_of(device: nc.Device) -> list[str]:
    return ["float16", "float32", *(["float64"] if device.supports_fp64 else [])]


def close(found: Any, wanted: Any, dtype: str) -> None:
    tolerance = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-10}[dtype]
    value = wanted.detach().numpy() if isinstance(wanted, torch.Tensor) else wanted.to_host()
    np.testing.assert_allclose(found.to_host(), value, rtol=tolerance, atol=tolerance)


class Net(nn.Module):  # type: ignore[misc]  # a namespace is typed by its plugin
    """Two linear layers and a norm between them."""

    def __init__(self) -> None:
        self.inner = nn.Linear(10, 10)
        self.norm = nn.LayerNorm(10)
        self.out = nn.Linear(10, 10)

    def forward(self, x: Any) -> Any:
        return self.out(self.norm(ag.relu(self.inner(x))))


# -- chosen, right, and really run ---------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_layer_norm(device: nc.Device, rowwise: None, compiled: bool) -> None:
    weight, bias = RNG.random(10) + 0.5, RNG.random(10)

    def norm(x: Any, w: Any, b: Any) -> Any:
        return ag.mul(ag.layer_norm(ag.add(x, 0.5), (10,), w, b), 2.0)

    function = ag.jit_compile(norm, strict=True) if compiled else norm
    for dtype in dtypes_of(device):
        given = [each.astype(dtype) for each in (X, weight, bias)]
        theirs = [torch.tensor(each.astype("float64"), requires_grad=True) for each in given]
        wanted = torch.nn.functional.layer_norm(theirs[0] + 0.5, (10,), theirs[1], theirs[2]) * 2
        wanted.square().sum().backward()
        for _ in range(2):
            ours = [nc.tensor(each, requires_grad=True) for each in given]
            with recorded(device) as stream:
                found = function(*ours)
                ag.sum(ag.square(found)).backward()
            close(found, wanted, dtype)
            for mine, their in zip(ours, theirs, strict=True):
                tolerance = {"float16": 0.1, "float32": 1e-4, "float64": 1e-9}[dtype]
                value = their.grad.numpy()
                np.testing.assert_allclose(mine.grad.to_host(), value, tolerance, tolerance)
            assert stream.launched.count("rowwise_norm") == 1
            assert stream.launched.count("rowwise_norm_backward") == 1
        with recorded(device) as stream, nc.prefer("netcl-plugin-tensor:layer_norm"):
            other = function(*ours)
        assert not [name for name in stream.launched if "rowwise" in name]
        close(other, found, dtype)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_cross_entropy(device: nc.Device, rowwise: None, reduction: str, compiled: bool) -> None:
    def loss(x: Any, target: Any) -> Any:
        return ag.cross_entropy(ag.mul(x, 2.0), target, reduction=reduction)

    function = ag.jit_compile(loss, strict=True) if compiled else loss
    for dtype in dtypes_of(device):
        their = torch.tensor(X.astype(dtype).astype("float64"), requires_grad=True)
        wanted = torch.nn.functional.cross_entropy(
            their * 2, torch.tensor(TARGET), reduction=reduction
        )
        wanted.backward()
        for index in ("int64", "int32"):
            x = nc.tensor(X.astype(dtype), requires_grad=True)
            with recorded(device) as stream:
                found = function(x, nc.tensor(TARGET.astype(index)))
                found.backward()
            close(found, wanted, dtype)
            close(x.grad, their.grad, dtype)
            assert stream.launched.count("rowwise_entropy") == 1
            assert stream.launched.count("rowwise_entropy_backward") == 1


def test_what_does_not_fit_goes_the_old_way(device: nc.Device, rowwise: None) -> None:
    x, target = nc.tensor(X.astype("float32")), nc.tensor(TARGET)
    with recorded(device) as stream:
        ag.layer_norm(x, 10)
        ag.cross_entropy(x, target, label_smoothing=0.1)
        ag.cross_entropy(x, target, reduction="none")
        ag.cross_entropy(x, ag.softmax(x))
    assert stream.launched and not [each for each in stream.launched if "rowwise" in each]
    unfit = r"row per item.*it wants a weight and a bias"
    with pytest.raises(DeviceError, match=unfit), nc.prefer("rowwise:layer_norm"):
        ag.layer_norm(x, 10)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_a_training_step_runs_both(device: nc.Device, rowwise: None, compiled: bool) -> None:
    """The same steps as without the plugin."""
    losses = {}
    for chosen in ((), ("netcl-plugin-tensor:layer_norm", "netcl-plugin-losses:cross_entropy")):
        nc.manual_seed(1)
        net = Net()
        step = ag.jit_compile(net) if compiled else net
        x, target = nc.tensor(X.astype("float32")), nc.tensor(TARGET)
        found = losses[chosen] = []
        with recorded(device) as stream, nc.prefer(*chosen):
            for _ in range(3):
                loss = ag.cross_entropy(step(x), target)
                net.zero_grad()
                loss.backward()
                for parameter in net.parameters():
                    parameter.overwrite(ag.sub(parameter.detach(), ag.mul(parameter.grad, 0.1)))
                found.append(loss.item())
        launched = [each for each in stream.launched if "rowwise" in each]
        entries = {"rowwise_norm", "rowwise_norm_backward", "rowwise_entropy",
                   "rowwise_entropy_total", "rowwise_entropy_backward"}  # fmt: skip
        assert set(launched) == (set() if chosen else entries)
        assert found[0] > found[1] > found[2]
    np.testing.assert_allclose(*losses.values(), rtol=1e-5)


# -- shown ---------------------------------------------------------------------------------


def test_it_is_shown(device: nc.Device, rowwise: None) -> None:
    for op, owner in (("layer_norm", "tensor"), ("cross_entropy", "losses")):
        said = nc.plugins.why(op)
        used = next(each for each in said.candidates if each.implementation and each.chosen)
        assert (used.provider, used.label, used.priority) == ("rowwise", LABEL, 5)
        last = said.candidates[-1]
        assert (last.provider, last.label) == (f"netcl-plugin-{owner}", "decomposition")
    specs = [Spec((6, 10), "float32"), Spec((10,), "float32"), Spec((10,), "float32")]
    attrs = {"normalized_shape": (10,)}
    shown = sources_of("layer_norm", inputs=specs, attrs=attrs)
    assert [each.entry for each in shown.sources] == ["rowwise_norm"]
    assert shown.implementation == LABEL
    shown = sources_of("layer_norm", inputs=specs, attrs=attrs, backward=True)
    assert [each.entry for each in shown.sources] == ["norm_backward"]
    with pytest.raises(ArgumentError, match="layer_norm: it was given"):
        sources_of("layer_norm", inputs=specs)


def test_its_parts_are_no_ops(rowwise: None) -> None:
    part = "rowwise_norm_backward"
    assert part not in dir(ag) and part not in registry.op_names()
    with pytest.raises(MissingOpError, match="exists for layer_norm alone"):
        getattr(ag, part)
    (row,) = registry.op_rows(part, parts=True)
    assert (row.provider, row.part_of) == ("rowwise", "layer_norm")


def test_nothing_is_left_of_it(device: nc.Device, rowwise: None) -> None:
    x, target = nc.tensor(X.astype("float32")), nc.tensor(TARGET)
    ag.cross_entropy(x, target)
    nc.plugins.unregister("rowwise")
    try:
        with recorded(device) as stream:
            ag.cross_entropy(x, target)
        assert not [each for each in stream.launched if "rowwise" in each]
        assert not registry.op_rows("rowwise_norm_backward", parts=True)
    finally:
        nc.plugins.register(netcl_plugin_rowwise.plugin, "rowwise")


# -- wrong ---------------------------------------------------------------------------------


def entropy(plan: Any = None, **fields: Any) -> Implementation:
    """An implementation of cross_entropy with a fault."""
    good = next(
        each
        for each in netcl_plugin_rowwise.implementations.IMPLEMENTATIONS
        if each.operator == "cross_entropy"
    )
    fields = {"backward": good.backward, "residuals": good.residuals, **fields}
    return Implementation("cross_entropy", "odd", plan or good.plan, priority=9, **fields)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any) -> Any:
        raise error

    return fail


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "plan raises": ({"plan": raising(KeyError("gone"))}, KeyError, "gone"),
    "plan raises TypeError": ({"plan": raising(TypeError("bad"))}, TypeError, "bad"),
    "plan gives None": ({"plan": lambda request: None}, PluginError, "its plan gave a NoneType"),
    "requirements raise": (
        {"requires": Requirements(reject=raising(TypeError("unsure")))},
        TypeError,
        "unsure",
    ),
    "backward raises": ({"backward": raising(ValueError("lost"))}, ValueError, "lost"),
    "too few": ({"backward": lambda saved, grad: [None]}, GradientError, "it returned 1"),
    "not a list": ({"backward": lambda saved, grad: grad}, GradientError, "returned Node|Tensor"),
    "another shape": (
        {"backward": lambda saved, grad: [grad, None, None]},
        GradientError,
        r"a gradient of shape \(\); expected the input's shape \(6, 10\)",
    ),
    "no tensor": (
        {"backward": lambda saved, grad: [np.ones((6, 10)), None, None]},
        GradientError,
        "a ndarray for a gradient",
    ),
    "residuals raise": ({"residuals": raising(IndexError("far"))}, IndexError, "far"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")
def test_errors_tell_whose_they_are(
    name: str, compiled: bool, rowwise: None, give: Callable[..., None]
) -> None:
    """And everything else works: the op by another's kernels, and then again by these."""
    fields, error, text = WRONG[name]
    give("oddities", entropy(**fields))
    x, target = nc.tensor(X.astype("float32"), requires_grad=True), nc.tensor(TARGET)
    function = ag.jit_compile(ag.cross_entropy) if compiled else ag.cross_entropy
    with nc.use_device(OPENCL[0]):
        x, target = x.to(OPENCL[0]).detach().requires_grad_(), target.to(OPENCL[0])
        for _ in range(2):
            with pytest.raises(error, match=text) as caught:
                function(x, target).backward()
            notes = " ".join(caught.value.__notes__)
            assert "cross_entropy" in notes and "'odd' (oddities)" in notes
            if name == "requirements raise":  # it is asked before anybody is chosen
                assert "Without oddities the op is computed by others" in notes
                continue
            assert "nc.prefer takes another" in notes
            with nc.prefer("rowwise:cross_entropy"):
                function(x, target).backward()
            assert x.grad is not None


def test_a_gradient_in_another_dtype_is_converted(
    device: nc.Device, rowwise: None, give: Callable[..., None]
) -> None:
    give(
        "widening",
        entropy(backward=lambda saved, grad: [nc.Tensor.full((6, 10), 2, "float16"), None, None]),
    )
    x = nc.tensor(X.astype("float32"), requires_grad=True)
    ag.cross_entropy(ag.mul(x, 3.0), nc.tensor(TARGET)).backward()
    assert x.grad.to_host().tolist() == [[6.0] * 10] * 6


def test_nothing_is_half_registered(give: Callable[..., None]) -> None:
    before = nc.plugins.why("layer_norm").candidates
    good = netcl_plugin_rowwise.implementations.IMPLEMENTATIONS[0]
    with pytest.raises(RegistrationError, match="failing: an object of type list to add"):
        give("failing", good, ["no record"])
    with pytest.raises(RegistrationError, match="parted: an object of type int to add"):
        give("parted", Implementation("layer_norm", "x", good.plan, parts=(3,)))  # type: ignore[arg-type]
    assert nc.plugins.why("layer_norm").candidates == before
    assert not registry.op_rows("rowwise_norm_backward", parts=True)


#: What the project requires for its tests: the plugins whose operators it implements.
OWNERS = '    "netcl-plugin-losses",\n    "netcl-plugin-tensor",'


# -- as a project of its own ---------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A new project, as `netcl plugins new` starts it, with these kernels."""
    names = ProjectNames("rowwise", "netcl-plugin-rowwise", "netcl_plugin_rowwise", "rowwise")
    folder = tmp_path / names.distribution
    create(folder, SCAFFOLDS["implementation"], names)
    package = folder / "src" / names.package
    shutil.rmtree(package / "templates")
    source = Path(netcl_plugin_rowwise.__file__).parent
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, package, dirs_exist_ok=True, ignore=ignored)
    settings = folder / "pyproject.toml"
    text = settings.read_text(encoding="utf-8")
    tensor = next(line for line in text.splitlines() if "netcl-plugin-tensor" in line)
    settings.write_text(text.replace(tensor, OWNERS), encoding="utf-8")
    return folder


def test_the_project_is_found_and_used(project: Path, tmp_path: Path) -> None:
    path = checkouts.show(project, tmp_path / "site")
    for op in ("layer_norm", "cross_entropy"):
        said = checkouts.call(["netcl_core.cli.main", "plugins", "why", op, "--json"], ROOT, path)
        assert said.returncode == 0, said.stderr
        rows = json.loads(said.stdout)["candidates"]
        (used,) = [each for each in rows if each["chosen"] and each["label"] == LABEL]
        assert used["provider"] == "netcl-plugin-rowwise"


def checked(project: Path) -> dict[str, Any]:
    """The record of `netcl plugins check`."""
    command = ["netcl_core.cli.main", "plugins", "check", ".", "--json"]
    done = checkouts.call(command, project, "")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.packaging  # the check builds a wheel
def test_the_project_passes_its_check(project: Path) -> None:
    record = checked(project)
    assert record["state"] == "pass", [x for x in record["outcomes"] if x["state"] == "failed"]
    passed = [each for each in record["outcomes"] if each["state"] == "passed"]
    for op in ("layer_norm", "cross_entropy"):
        checks = {each["check"] for each in passed if each["op"] == op}
        assert checks >= {"registration", "values", "gradient"}, checks


@pytest.mark.packaging  # the check builds a wheel
def test_an_operator_whose_plugin_is_not_named_fails_alone(project: Path) -> None:
    """The check ended with a line on stderr, and all that it had found was lost."""
    settings = project / "pyproject.toml"
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.replace('    "netcl-plugin-losses",\n', ""), encoding="utf-8")
    record = checked(project)
    failed = {
        (each["op"], each["check"]) for each in record["outcomes"] if each["state"] == "failed"
    }
    assert failed and {op for op, _ in failed} == {"cross_entropy"}
    passed = {each["op"] for each in record["outcomes"] if each["state"] == "passed"}
    assert "layer_norm" in passed
