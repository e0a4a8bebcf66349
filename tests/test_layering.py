"""Imports only point down, none is hidden in a function, and there is no cycle."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import layering
import pytest

from netcl_core.plugins.protocol import registry

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "netcl_core"

#: The rooms from the ground up. A module may import from its own room and from those below.
LAYERS = (
    ("netcl_core.errors", "netcl_core.version"),
    (
        "netcl_core.config",
        "netcl_core.cache",
        "netcl_core.dtypes",
        "netcl_core.files",
        "netcl_core.hookspecs",
        "netcl_core.market",
    ),
    ("netcl_core.hardware", "netcl_core.hardware.*"),
    ("netcl_core.runtime", "netcl_core.runtime.*"),
    ("netcl_core.tensors", "netcl_core.tensors.*"),
    (
        "netcl_core.codegen",
        "netcl_core.codegen.*",
        "netcl_core.plugins",
        "netcl_core.plugins.*",
    ),
    ("netcl_core.tape", "netcl_core.tape.*"),
    ("netcl_core.ops", "netcl_core.ops.*"),
    ("netcl_core.jit", "netcl_core.jit.*"),
    ("netcl_core.autograd", "netcl_core.autograd.*"),
    ("netcl_core.inspect", "netcl_core.inspect.*"),
    ("netcl_core.cli", "netcl_core.cli.*"),
    ("netcl_core",),
)

#: Every import inside a function of the core, and why it stands there.
ACCEPTED = {
    ("netcl_core.hardware.device", "pyopencl"): "optional, slow, and must come after icd.install()",
    ("netcl_core", "netcl_core.errors"): "the face fetches on first use",
    ("netcl_core", "netcl_core.ops.functions"): "the same; ops are names of the face, too",
    ("netcl_core", "netcl_core.plugins.manager"): "the face is on top; plugins load on first use",
    ("netcl_core.plugins.lazy_loading", "?"): "the same",
    ("netcl_core.plugins.kinds", "?"): "the table names what lies in rooms above by import path",
    (
        "netcl_core.tensors.functions",
        "?",
    ): "the room above that makes ops on first use, by its path",
    ("netcl_core.hardware.device", "?"): "the room above that holds a device's memory, by its path",
    ("netcl_core.ops.functions", "?"): "a module of the face, which programs use without importing",
    ("netcl_core.plugins.registry", "?"): "the faces, whose names are refused, lie above",
    ("netcl_core.market", "?"): "the market, where it is installed",
    ("netcl_core.plugins.importing", "?"): "what an entry point names",
    ("netcl_core.plugins.namespace_import", "?"): "PEP 562: names are fetched on first use",
    ("netcl_core.plugins.manager", "?"): "the module of a plugin's namespace",
    ("netcl_core.cli.main", "netcl_core.plugins.commands"): "`netcl devices` loads no plugin",
    ("netcl_core.cli.main", "netcl_core.plugins.finder"): "the same",
    ("netcl_core.cli.main", "netcl_core.cli.devices"): "`netcl --help` loads neither",
    (
        "netcl_core.cli.main",
        "netcl_core.plugins.catalogue",
    ): "only an unknown command needs the catalogue",
    ("netcl_core.cli.start", "?"): "`netcl plugins list` goes without click",
    (
        "netcl_core.plugins.selection",
        "netcl_core.plugins.catalogue",
    ): "slow, and only `trust = 'data'` asks who reads plugins that are data",
    ("netcl_core.config", "tomllib"): "slow, and only a project has a file of settings",
    ("netcl_core.config", "platformdirs"): "slow, and a chosen cache folder needs none of it",
}

#: Who alone may import what.
ALONE = {
    "pluggy": {"netcl_core.plugins.hooks", "netcl_core.hookspecs"},
    "pyopencl": {
        "netcl_core.hardware.device",
        "netcl_core.hardware.device_table",
        "netcl_core.hardware.probing",
    },
    "jinja2": {
        "netcl_core.runtime.rendering",
    },
    "click": {"netcl_core.cli.endings", "netcl_core.cli.main"},
}

#: The same in plugins' packages.
ACCEPTED_IN_PLUGINS = {
    (
        "netcl_plugin_kit.check.child",
        "netcl_plugin_kit.check.torch_samples",
    ): "only `--against torch` imports PyTorch",
    ("netcl_plugin_nn.torch_states", "torch"): "optional and slow, and for PyTorch's files only",
    ("netcl_plugin_torch.registration", "?"): "tables, which the first tensor on the device needs",
    ("netcl_plugin_torch.dispatch", "torch._decomp"): "slow, and for ops without a row only",
    ("netcl_torch", "netcl_plugin_torch.ops"): "loads netcl, and each import of PyTorch comes here",
    ("netcl_torch", "netcl_plugin_torch.compiling"): "slow, and for torch.compile only",
    ("netcl_plugin_mpi.processes", "mpi4py"): "the import starts MPI, which `init()` is to do",
    ("netcl_plugin_optim.api", "netcl_plugin_optim.swa_utils"): "of modules, which may be absent",
    ("netcl_plugin_linalg.fourier", "scipy.fft"): "an extra, which is not always installed",
    ("netcl_plugin_data.digits", "sklearn.datasets"): "slow, and for one data set only",
    ("netcl_plugin_data.digits", "sklearn.model_selection"): "slow, and for one data set only",
    **{
        (f"netcl_plugin_{name}", f"netcl_plugin_{name}.conformance"): "only checks need the cases"
        for name in (
            "amp",
            "autodiff",
            "conv",
            "data",
            "detection",
            "elementwise",
            "linalg",
            "losses",
            "nn",
            "optim",
            "tensor",
            "torch",
        )
    },
    ("netcl_market.plugin", "netcl_market.commands"): "`netcl devices` needs no command of ours",
    ("netcl_market.commands", "netcl_market.listing"): "`netcl --help` needs no table",
    ("netcl_market.commands", "netcl_market.doctor"): "the same",
    ("netcl_market.scanning", "importlib_metadata"): "slow, and folders need none of it",
    ("netcl_market.finding", "hashlib"): "brings OpenSSL, and only failures need it",
    ("netcl_market.file_digests", "hashlib"): "the same, and what has changed",
    ("netcl_market.sealed", "hashlib"): "the same, and a strict lock",
    ("netcl_market.required_lock", "hashlib"): "the same, and a program that insists on one",
    ("netcl_market.confined", "resource"): "there is none but on Unix",
    ("netcl_market.lock_verification", "netcl_market.advisories"): "few have such a file",
    **{
        ("netcl_market.signing", name): "an extra, which only signatures need"
        for name in (
            "?",
            "cryptography",
            "cryptography.hazmat.primitives.asymmetric.ed25519",
            "cryptography.hazmat.primitives.serialization",
        )
    },
    **{
        ("netcl_plugin_tools.market.command", f"netcl_plugin_tools.market.{name}"): (
            "`netcl --help` needs none of it"
        )
        for name in ("serving", "statements")
    },
    ("netcl_plugin_tools.market.serving", "waitress"): "an extra, which only servers need",
    ("netcl_plugin_tools.market.serving", "whitenoise"): "the same",
    ("netcl_market.manifests", "tomllib"): "slow, and remembered manifests need none of it",
    ("netcl_market.requirements", "packaging.requirements"): "slow, and hardly ever needed",
    ("netcl_market.requirements", "packaging.specifiers"): "slow, and hardly ever needed",
    (
        "netcl_plugin_data_kernels.hooks",
        "netcl_plugin_data_kernels.cases",
    ): "only checks need the cases",
    ("netcl_plugin_port", "netcl_plugin_port.command"): "the same",
    ("netcl_plugin_port.port", "?"): "the table names modules by their path",
    ("netcl_plugin_port.port", "netcl_plugin_port.einops_backend"): "once einops is there",
    (
        "netcl_plugin_port.einops_backend",
        "netcl_plugin_port.einops_layers",
    ): "einops is not whole before",
    ("netcl_plugin_train", "netcl_plugin_train.command"): "registering loads no command line",
    ("netcl_plugin_train", "netcl_plugin_train.conformance"): "registering loads no model",
    ("netcl_plugin_train.run", "netcl_plugin_train.files"): "matplotlib takes its time",
    ("netcl_plugin_train.metrics", "?"): "packages that an option needs",
    ("netcl_plugin_kit", "netcl_plugin_kit.commands"): "the same",
    ("netcl_plugin_tools", "netcl_plugin_tools.commands"): "the same",
    ("netcl_plugin_tools", "netcl_plugin_tools.graph.tape_svg"): "the same",
    ("netcl_plugin_tools.commands", "netcl_plugin_tools.export.run_export"): "the same",
    ("netcl_plugin_tools.export.onnx_file", "onnx"): "a package that one function needs",
    (
        "netcl_plugin_kit.commands",
        "netcl_plugin_kit.check.check_output",
    ): "the same",
    (
        "netcl_plugin_tools.commands",
        "netcl_plugin_tools.graph.graph_output",
    ): "the same",
    (
        "netcl_plugin_kit.check.declared",
        "?",
    ): "the tools of the extra `check` are optional",
    (
        "netcl_plugin_kit.check.pytest_plugin",
        "netcl_plugin_kit.check.collectors",
    ): "pytest imports it in all runs",
    ("netcl_plugin_tools", "netcl_plugin_tools.tune.records"): "only the doctor asks",
    ("netcl_plugin_tools.commands", "netcl_plugin_tools.lock.run"): "loads devices",
    ("netcl_plugin_tools.commands", "netcl_plugin_tools.tune.tuning"): "the same",
    ("netcl_plugin_kit.testing", "?"): "PEP 562: pytest is needed for tests alone",
    ("netcl_plugin_kit.testing.reference", "torch"): "optional and slow",
    ("netcl_plugin_tools.graph.dot", "pygraphviz"): "an extra, for drawings alone",
    ("netcl_plugin_kit.commands", "netcl_plugin_kit.speed.comparing"): "the same",
    (
        "netcl_plugin_tools.commands",
        "netcl_plugin_tools.settings.switching",
    ): "the same",
    (
        "netcl_plugin_tools.commands",
        "netcl_plugin_tools.settings.preferring",
    ): "the same",
    ("netcl_plugin_tools.commands", "netcl_plugin_tools.cache.folder"): "the same",
    ("netcl_plugin_kit.commands", "netcl_plugin_kit.why.telling"): "the same",
    (
        "netcl_plugin_kit.commands",
        "netcl_plugin_kit.kernels.showing",
    ): "the same",
    (
        "netcl_plugin_kit.commands",
        "netcl_plugin_kit.kernels.listing",
    ): "the same",
    ("netcl_plugin_kit.new.command", "netcl_plugin_kit.new.names"): "the same",
    ("netcl_plugin_kit.new.command", "netcl_plugin_kit.new.project"): "the same",
    ("netcl_plugin_train.command", "netcl_plugin_train.run"): "`netcl --help` loads no network",
    ("netcl_plugin_tools.matrix.command", "netcl_plugin_tools.matrix.run"): "the same",
    ("netcl_plugin_tools.matrix.command", "netcl_plugin_tools.matrix.report"): "the same",
    ("netcl_plugin_tools.matrix.command", "netcl_plugin_tools.matrix.pages"): "the same",
    (
        "netcl_plugin_tools.commands",
        "netcl_plugin_tools.catalogue.build",
    ): "`netcl --help` loads neither Pygments nor Markdown",
}


def plugin_packages() -> list[Path]:
    return sorted(path.parent for path in ROOT.glob("plugins/*/src/*/__init__.py"))


def test_imports_point_down() -> None:
    assert layering.upward(CORE, LAYERS) == []


def test_no_cycle() -> None:
    assert layering.cycles(CORE) == []


def test_no_hidden_import() -> None:
    assert layering.in_functions(CORE) - ACCEPTED.keys() == set()


def test_accepted_imports_are_still_there() -> None:
    assert ACCEPTED.keys() - layering.in_functions(CORE) == set()


@pytest.mark.parametrize("library", ALONE)
def test_a_library_is_imported_in_its_room_only(library: str) -> None:
    users = {one.source for one in layering.imports_of(CORE) if one.target.split(".")[0] == library}
    assert users <= ALONE[library]


def test_the_environment_is_read_in_one_place() -> None:
    """Only config reads NETCL_ variables; a look at os.environ has another reason elsewhere."""
    # icd, runtimes: the loader's and the linker's variables
    allowed = {"config", "icd", "runtimes"}
    reading = {
        path.stem
        for path in CORE.rglob("*.py")
        if re.search(r"os\.(environ|getenv)", path.read_text(encoding="utf-8"))
    }
    assert reading <= allowed


@pytest.mark.parametrize("package", plugin_packages(), ids=lambda path: path.name)
def test_plugins_have_neither_cycles_nor_hidden_imports(package: Path) -> None:
    assert layering.cycles(package) == []
    assert layering.in_functions(package) - ACCEPTED_IN_PLUGINS.keys() == set()


#: What plugins may import of the core: the faces, what the commands of plugins share, what a market
#: builds on, and what shows the engine to tools.
PUBLIC = (
    "netcl_core",
    "netcl_core.autograd",
    "netcl_core.autograd.ops",
    "netcl_core.cli",
    "netcl_core.config",
    "netcl_core.errors",
    "netcl_core.files",
    "netcl_core.plugins",
    "netcl_core.plugins.protocol",
    *(f"netcl_core.inspect.{path.stem}" for path in (CORE / "inspect").glob("[!_]*.py")),
)
EXAMPLES = sorted(path.parent for path in ROOT.glob("plugins/examples/*/src/*/__init__.py"))


@pytest.mark.parametrize("package", [*plugin_packages(), *EXAMPLES], ids=lambda path: path.name)
def test_plugins_import_public_names(package: Path) -> None:
    assert layering.private(package, CORE, PUBLIC) == set(), "import the public name, or make one"
    inner = re.compile(r"^\s*from netcl_core[\w.]* import .*\b_(?!_)\w", re.MULTILINE)
    paths = package.rglob("*.py")
    assert [path for path in paths if inner.search(path.read_text(encoding="utf-8"))] == []


#: Where an op of another plugin's is asked for that need not be there.
UNDECLARED = {("netcl-plugin-elementwise", "nonzero")}  # where(condition), which is another op


def test_plugins_declare_whose_ops_they_use() -> None:
    """Otherwise a plugin that is installed alone lacks them, and `netcl plugins check` fails."""
    registry.load()
    folders = sorted((ROOT / "plugins").glob("netcl-*"))
    providers, declared = defaultdict(set), {}
    for folder in folders:
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        declared[folder.name] = {re.split(r"[^\w-]", each)[0] for each in project["dependencies"]}
        for row in registry.rows_of(folder.name, parts=False):
            providers[row.record.name].add(folder.name)

    def below(name: str) -> set[str]:
        return {name}.union(*(below(each) for each in declared.get(name, ())))

    lacking = {
        (folder.name, each.attr)
        for folder in folders
        for path in folder.glob("src/**/*.py")
        for each in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(each, ast.Attribute) and ast.unparse(each.value) == "ag"
        if providers.get(each.attr) and not providers[each.attr] & below(folder.name)
    }
    assert lacking == UNDECLARED


def test_the_look_into_the_engine_shows_what_somebody_looks_at() -> None:
    """A name that nothing outside imports is taken off: each is a promise."""
    shown: set[str] = set()
    for path in (CORE / "inspect").glob("[!_]*.py"):
        module = importlib.import_module(f"netcl_core.inspect.{path.stem}")
        names = {name for name in vars(module) if not name.startswith("_")} - {"annotations"}
        assert not any(isinstance(getattr(module, name), ModuleType) for name in names)
        assert not doctest.testmod(module).failed
        shown |= names
    packages = [*plugin_packages(), *EXAMPLES]
    looked_at = {alias.name for package in packages for path in package.rglob("*.py")
                 for alias in _looked_at(path)}  # fmt: skip
    assert shown - looked_at == set()


def _looked_at(path: Path) -> Iterator[ast.alias]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            "netcl_core.inspect"
        ):
            yield from node.names


# -- the checker itself --------------------------------------------------------------


@pytest.fixture
def package(tmp_path: Path) -> Callable[[str, str], Path]:
    """A sound package of three layers, and a function that appends a line to one of them."""
    folder = tmp_path / "small"
    folder.mkdir()
    files = {
        "__init__": "from small import top\n",
        "top": "from small import middle\nfrom small.bottom import thing\n",
        "middle": "import small.bottom\n",
        "bottom": "thing = 1\n",
    }
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)

    def append(module: str = "bottom", line: str = "") -> Path:
        with (folder / f"{module}.py").open("a") as file:
            file.write(line + "\n")
        return folder

    return append


SMALL = (("small.bottom",), ("small.middle",), ("small.top",), ("small",))


def test_the_checker_passes_a_sound_package(package: Callable[..., Path]) -> None:
    folder = package()
    assert layering.upward(folder, SMALL) == []
    assert layering.cycles(folder) == []
    assert layering.in_functions(folder) == set()


@pytest.mark.parametrize(
    "line",
    [
        "from small import top",
        "import small.top",
        "from .top import middle",
        "from . import top",
        "def hide():\n    from small import top",
        "class Hide:\n    import small.top",
        "if TYPE_CHECKING:\n    from small.top import thing",
        "load = lambda: importlib.import_module('small.top')",
        "__import__('small.top')",
    ],
)
def test_the_checker_finds_an_upward_import(package: Callable[..., Path], line: str) -> None:
    folder = package("bottom", line)
    (complaint,) = layering.upward(folder, SMALL)
    assert "small.bottom" in complaint and "small.top" in complaint
    assert layering.cycles(folder) == [["small.bottom", "small.middle", "small.top"]]


def test_the_checker_finds_a_cycle_within_a_layer(package: Callable[..., Path]) -> None:
    folder = package("middle", "def later():\n    from small.peer import helper")
    (folder / "peer.py").write_text("from small.middle import bottom\n")
    layers = (("small.bottom",), ("small.middle", "small.peer"), ("small.top",), ("small",))
    assert layering.upward(folder, layers) == []
    assert layering.cycles(folder) == [["small.middle", "small.peer"]]
    assert layering.in_functions(folder) == {("small.middle", "small.peer")}


def test_the_checker_finds_a_computed_import(package: Callable[..., Path]) -> None:
    folder = package("bottom", "def hide(name):\n    return importlib.import_module(name)")
    assert layering.in_functions(folder) == {("small.bottom", "?")}


def test_the_checker_asks_for_a_layer(package: Callable[..., Path]) -> None:
    folder = package()
    (folder / "new.py").write_text("")
    assert layering.upward(folder, SMALL) == ["small.new has no layer"]
