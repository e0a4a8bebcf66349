"""The face: light to import, complete, and helpful about what is not installed."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import (
    ArgumentError,
    MissingNameError,
    MissingNamespaceError,
    MissingOpError,
)

HEAVY = (
    "numpy",
    "pyopencl",
    "jinja2",
    "pluggy",
    "click",
    "rich",
    "importlib_metadata",
)

#: What people import, by module; written down here so that no name goes by accident.
NAMES = {
    "netcl_core": "API_VERSION Tensor __version__ autograd default_device devices errors hookimpl "
    "manual_seed plugins tensor use_device",
    "netcl_core.autograd": "AutogradPrimitive Node Tape apply_op backward debug_tape "
    "detect_anomaly enable_grad get_current_tape grad is_grad_enabled no_grad register_primitive "
    "set_current_tape set_detect_anomaly set_grad_enabled tensor",
    "netcl_core.autograd.engine": "Node Tape apply_op backward get_current_tape grad "
    "set_current_tape tensor",
    "netcl_core.autograd.compiler": "AutogradPrimitive register_primitive",
    "netcl_core.autograd.debug": "debug_tape",
    "netcl_core.plugins": "list register unregister",
}


#: Before the code of a process in which no plugin is installed.
BARE = """
import netcl_market.survey
netcl_market.survey.distributions = lambda memory: []
"""


def test_importing_is_light(python: Callable[..., str]) -> None:
    code = f"import sys, netcl_core; print([name for name in {HEAVY} if name in sys.modules])"
    assert python(code) == "[]"


def test_dir_is_light_and_complete(python: Callable[..., str]) -> None:
    code = "import sys, netcl_core; print('numpy' in sys.modules, *dir(netcl_core))"
    loaded, *names = python(code).split()
    assert loaded == "False" and set(names) >= set(nc.__all__)


@pytest.mark.parametrize("module", NAMES)
def test_names_can_be_imported(module: str) -> None:
    loaded = importlib.import_module(module)
    missing = [name for name in NAMES[module].split() if not hasattr(loaded, name)]
    assert missing == []


@pytest.mark.parametrize("module", [nc, ag], ids=lambda module: module.__name__)
def test_all_is_true(module: object) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []  # type: ignore[attr-defined]


def test_from_import_and_star(python: Callable[..., str]) -> None:
    code = "from netcl_core import *; from netcl_core import Tensor as T; print(Tensor is T)"
    assert python(code) == "True"


def test_a_name_that_nobody_knows() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = nc.no_such_name
    with pytest.raises(ImportError, match="no_such_name"):
        exec("from netcl_core import no_such_name")


@pytest.mark.parametrize("package", ["nn", "optim", "data"])
def test_a_missing_namespace_names_its_package(python: Callable[..., str], package: str) -> None:
    code = f"""
from netcl_core.errors import MissingNamespaceError
try:
    from netcl_core import {package}
except MissingNamespaceError as error:
    assert isinstance(error, ImportError)
    print(error)
"""
    said = python(BARE + code)
    assert said == (
        f"netcl_core.{package}: no installed plugin provides this namespace. "
        f"Install it with: pip install netcl-plugin-{package}."
    )


def test_who_looks_for_what_is_not_installed_finds_nothing(python: Callable[..., str]) -> None:
    code = """
import inspect, netcl_core as nc, netcl_core.autograd as ag
print(hasattr(nc, "nn"), getattr(nc, "save", None), hasattr(ag, "capture"))
for face in (nc, ag):
    inspect.getmembers(face)
try:
    from netcl_core import autocast
except nc.errors.MissingNamespaceError as error:
    print(error)
"""
    nothing, error = python(BARE + code).splitlines()
    assert nothing == "False None False" and "pip install netcl-plugin-amp" in error


@pytest.mark.parametrize("mode", ["detect_anomaly", "set_detect_anomaly"])
def test_checking_numbers_without_who_does_it_is_refused_at_once(
    python: Callable[..., str], mode: str
) -> None:
    code = f"""
import netcl_core as nc, netcl_core.autograd as ag, netcl_plugin_autodiff
from netcl_core.errors import MissingNamespaceError
nc.plugins.register(netcl_plugin_autodiff.plugin)
ag.{mode}(False, check_numerics=True)
try:
    ag.{mode}(True, check_numerics=True)
except MissingNamespaceError as error:
    print(error)
"""
    assert python(BARE + code) == (
        f"{mode}(check_numerics=True): no installed plugin provides the namespace numerics. "
        "Install it with: pip install netcl-plugin-kit."
    )


def test_a_namespace_is_the_plugins_module(python: Callable[..., str]) -> None:
    code = "from netcl_core import nn; import netcl_core as nc; print(nn is nc.nn, nn.__name__)"
    pytest.importorskip("netcl_plugin_nn")
    same, name = python(code).split()
    assert same == "True" and name.startswith("netcl_plugin_nn")


def test_a_namespace_can_be_imported_like_a_module(python: Callable[..., str]) -> None:
    """By every spelling it is the one module, which keeps its own spec."""
    code = """
import netcl_core.nn as first
from netcl_core.nn import Linear
from netcl_core import nn as second
import netcl_plugin_nn.api as own, netcl_core
print(first is second is own is netcl_core.nn, Linear is own.Linear, own.__spec__.name)
"""
    assert python(code) == "True True netcl_plugin_nn.api"


def test_a_module_of_a_namespace_can_be_imported_like_one(python: Callable[..., str]) -> None:
    """By PyTorch's paths, whichever is imported first; a class is no module."""
    code = """
import importlib, netcl_core as nc
import netcl_core.nn.functional as F
from netcl_core.nn import functional, init
from netcl_core.utils.data import DataLoader
import netcl_core.optim.lr_scheduler as schedules, netcl_core.nn.init
import netcl_core.autograd as ag
print(F is functional is nc.nn.functional, F.relu is ag.relu, netcl_core.nn.init is init)
print(DataLoader is nc.data.DataLoader, nc.utils.data is nc.data)
print(schedules is nc.optim.lr_scheduler)
print(nc.device("numpy") is nc.get_device("numpy"), nc.nn.utils.clip_grad_norm_.__module__)
for name in ("nn.Linear", "nn.nothing", "nn.functional.relu"):
    try:
        importlib.import_module(f"netcl_core.{name}")
    except ModuleNotFoundError as error:
        print(error)
"""
    assert python(code).splitlines() == [
        "True True True",
        "True True",
        "True",
        "True netcl_plugin_optim.clipping",
        *(f"No module named 'netcl_core.{x}'" for x in ("nn.Linear", "nn.nothing")),
        "No module named 'netcl_core.nn.functional.relu'",
    ]


@pytest.mark.parametrize("spec", ["cuda", "cuda:0", "cpu", "mps", "XPU"])
def test_a_device_of_pytorchs_name_is_the_default(spec: str, either: nc.Device) -> None:
    assert nc.device(spec) is either and nc.zeros(2, device=spec).to(spec).device is either
    assert isinstance(either, nc.device) and not isinstance("cpu", nc.device)
    assert either.type == ("cuda" if either.kind == "gpu" else "cpu")


def test_importing_a_missing_namespace_names_its_package(python: Callable[..., str]) -> None:
    code = """
import importlib
import sys
for name in ("nn", "nothing", "nn.deeper", "_hidden"):
    try:
        importlib.import_module(f"netcl_core.{name}")
    except ImportError as error:
        print(type(error).__name__, "pip install netcl-plugin-nn" in str(error))
"""
    said = python(BARE + code).splitlines()
    missing = "MissingNamespaceError True"
    assert said == [missing, "ModuleNotFoundError False", missing, "ModuleNotFoundError False"]


@pytest.mark.parametrize(
    ("where", "name", "hint"),
    [
        (nc.nn, "Linaer", "Did you mean Linear"),
        (nc.optim, "Adma", "Did you mean Adam"),
        (nc.data, "Dataloader", "Did you mean DataLoader"),
        (nc.data, "qqqq", r"dir\(netcl_core.data\) lists its names"),
        (nc.tensor([1.0]), "shpae", "Did you mean shape"),
        (nc.tensor([1.0]), "cat", r"It is a function: netcl_core.autograd.cat\(...\)"),
    ],
)
def test_a_misspelt_name_is_guessed(where: object, name: str, hint: str) -> None:
    with pytest.raises(MissingNameError, match=f"it has no .*'{name}'.*{hint}"):
        getattr(where, name)
    assert not hasattr(where, name) and not hasattr(where, "__array_struct__")


@pytest.mark.parametrize("op", ["relu", "sum", "matmul", "mse_loss"])
def test_a_missing_op_names_its_package(python: Callable[..., str], op: str) -> None:
    code = f"""
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import MissingOpError
for call in (lambda: ag.{op}, lambda: getattr(ag, "{op}")):
    try:
        call()
    except MissingOpError as error:
        assert isinstance(error, AttributeError)
        print(str(error).rsplit(" ", 1)[1])
"""
    first, second = python(BARE + code).split()
    assert first == second and first.startswith("netcl-plugin-")


def test_an_operator_without_its_op(python: Callable[..., str]) -> None:
    code = """
import netcl_core as nc
x = nc.tensor([1.0], device="numpy")
try:
    x + x
except nc.errors.MissingOpError as error:
    print(error)
"""
    said = python(BARE + code)
    assert "pip install netcl-plugin-elementwise" in said


@pytest.mark.parametrize(("typo", "meant"), [("reluu", "relu"), ("sigmoyd", "sigmoid")])
def test_a_misspelt_op_is_guessed(typo: str, meant: str) -> None:
    pytest.importorskip("netcl_plugin_elementwise")
    with pytest.raises(MissingOpError, match=f"Did you mean .*{meant}"):
        getattr(ag, typo)


def test_private_names_load_nothing(python: Callable[..., str]) -> None:
    """Tools ask every module for dunders; that must not load the plugins."""
    code = """
import sys, netcl_core
assert not hasattr(netcl_core, "__wrapped__") and not hasattr(netcl_core, "_private")
print("netcl_core.plugins.loading" in sys.modules)
"""
    assert python(code) == "False"
    pytest.importorskip("netcl_plugin_port")
    assert nc._assert(True, "one of PyTorch's that models use") is None  # type: ignore[attr-defined]
    assert ag.engine.is_grad_enabled()  # without an import of its own


def test_errors_are_also_the_built_in_ones() -> None:
    assert issubclass(MissingOpError, AttributeError)
    assert issubclass(MissingNamespaceError, ImportError)
    assert issubclass(ArgumentError, TypeError)


def test_pickle_may_ask_for_torch(python: Callable[..., str]) -> None:
    """It asks all modules for names as `torch.x`; importing netcl_torch changes PyTorch."""
    code = "import sys, netcl_core as nc; print(hasattr(nc, 'torch'), 'netcl_torch' in sys.modules)"
    assert python(code) == "False False"
