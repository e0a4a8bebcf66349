"""Further ways: what is installed beside a locked plugin, the import path, settings, the cache."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from distributions import install, install_plugin
from locked import CODE
from place import MANIFEST, RICH, SHORT, TEMPLATE, Place
from ways import CODE_FILE, MODULE, WAYS, Variables, way

__all__ = ["WAYS"]


# -- plugins that the lock does not know -----------------------------------------------


def _stranger(name: str, code: str, distribution: str = "stranger", plugin: str = "") -> None:
    """A plugin is installed, and named by the settings."""

    @way("", name)
    def enter(place: Place) -> None:
        place.names.append(f"netcl-plugin-{distribution}")
        package = f"{distribution}_package"
        files = {f"{package}/__init__.py": code, f"{package}/templates/t.cl.j2": EVIL}
        points = {"netcl_core.plugins": {plugin or distribution: f"{package}:plugin"}}
        install(place.folder, f"netcl-plugin-{distribution}", files, points)


def _hook(hook: str, *lines: str) -> str:
    """The code of a plugin with one hook."""
    argument = "add_command" if hook == "cli_commands" else "registry"
    body = "".join(f"        {line}\n" for line in lines)
    return (
        "import click\nfrom netcl_core import hookimpl\nimport netcl_core.autograd as ag\n"
        f"class Plugin:\n    @hookimpl\n    def netcl_{hook}(self, {argument}):\n{body}"
        "plugin = Plugin()\n"
    )


EVIL = TEMPLATE.replace("5", "-100")
COMMAND = "add_command(click.Command({!r}){})"
PATTERN = "ag.TrainingPattern('greedy', ag.MatchedOp('relu', ('x',)), lambda x: x * -100)"
for _name, _code in {
    "a higher priority": CODE.format(-100, 9),
    "the same priority": CODE.format(-100, 4),
    "an op that one plugin has alone": CODE.format(-100, 9).replace("shared_op", "relu"),
    "a new op": CODE.format(-100, 9).replace("shared_op", "new_op"),
    "a namespace": _hook("register_namespaces", "registry.add('c_space', 'json')"),
    "a command": _hook("cli_commands", COMMAND.format("greet", "")),
    "a command of a group": _hook("cli_commands", COMMAND.format("lock", ", group='plugins'")),
    "a pattern that matches every relu": _hook("register_patterns", f"registry.add({PATTERN})"),
    "an amp policy": _hook(
        "register_amp_policies", "registry.add(ag.AmpPolicy('c_half', 'float16'), 9)"
    ),
    "an implementation before all others": _hook(
        "register_operators", "registry.add(ag.Implementation('softmax', 'x', print, priority=9))"
    ),
    "code that changes the core": "import netcl_core.autograd as ag\nag.relu = ag.silu\n",
    "code that changes another": "import c_rich_package\nc_rich_package.factor = -100\n",
    "code that ends the process": "import os\nos._exit(3)\n",
}.items():
    _stranger(f"a new plugin with {_name}", _code)
_stranger("a new plugin by the name of another", RICH.format(-100), "aaa", "c_rich")
_stranger("a new plugin by the name of one more", CODE.format(-100, 9), "aaa", "c_base")


@way("", "a new plugin by the short road")
def _(place: Place) -> None:
    points = {"netcl_core.primitives": {"t_op": "aa:s_op"}}
    install(place.folder, "netcl-plugin-aa", {"aa.py": SHORT.format(-100)}, points)
    place.names.append("aa")


@way("", "a new plugin that is data alone")
def _(place: Place) -> None:
    files = {"aa/netcl_plugin.toml": MANIFEST, "aa/templates/t.cl.j2": EVIL}
    points = {"netcl_core.manifest": {"aa": "aa:netcl_plugin.toml"}}
    install(place.folder, "netcl-plugin-aa", files, points)
    place.names.append("aa")


@way("NP510", "a new distribution that a setting could mean")
def _(place: Place) -> None:
    install(place.folder, "c_second", {"aa.py": SHORT.format(-100)},
            {"netcl_core.primitives": {"t_op": "aa:s_op"}})  # fmt: skip


# -- the import path -------------------------------------------------------------------


def _front(place: Place) -> Path:
    """A folder that goes before the environment."""
    folder = place.home / "front"
    folder.mkdir()
    return folder


@way("NP505", "another copy of a plugin in front")
def _(place: Place) -> Variables:
    front = _front(place)
    install_plugin(front, "c_rich", RICH.format(8), {"t.cl.j2": TEMPLATE}, MANIFEST)
    return {"in_front": str(front)}


@way("NP505", "a package in front")
def _(place: Place) -> Variables:
    front = _front(place)
    (front / "c_rich_package").mkdir()
    (front / "c_rich_package" / "__init__.py").write_text(RICH.format(8))
    return {"in_front": str(front)}


@way("NP505", "a module in front of a package")
def _(place: Place) -> Variables:
    front = _front(place)
    (front / "c_rich_package.py").write_text(RICH.format(8))
    return {"in_front": str(front)}


@way("NP505", "a module in front of a module")
def _(place: Place) -> Variables:
    front = _front(place)
    (front / MODULE).write_text(SHORT.format(12))
    return {"in_front": str(front)}


@way("NP505", "an archive in front")
def _(place: Place) -> Variables:
    archive = _front(place) / "front.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr(CODE_FILE, RICH.format(8))
    return {"in_front": str(archive)}


@way("NP505", "another core in front")
def _(place: Place) -> Variables:
    front = _front(place)
    shutil.copytree(place.folder / "netcl_core", front / "netcl_core")
    return {"in_front": str(front)}


@way("NP505", "a module in the working directory")
def _(place: Place) -> None:
    (place.work / "c_rich_package.py").write_text(RICH.format(8))


@way("", "another copy behind")
def _(place: Place) -> Variables:
    behind = _front(place)
    install_plugin(behind, "c_rich", RICH.format(8), {"t.cl.j2": TEMPLATE}, MANIFEST)
    return {"PYTHONPATH": os.pathsep.join((str(place.folder), str(behind)))}


@way("", "templates behind")
def _(place: Place) -> Variables:
    """A package without `__init__` is put together of all folders on the path."""
    behind = _front(place)
    for folder in ("c_rich_package", "netcl_core"):
        (behind / folder / "templates").mkdir(parents=True)
        (behind / folder / "templates" / "t.cl.j2").write_text(EVIL)
    return {"PYTHONPATH": os.pathsep.join((str(place.folder), str(behind)))}


# -- settings and variables ------------------------------------------------------------


def _sets(code: str, name: str, **variables: str) -> None:
    way(code, name)(lambda place: variables)


def _writes(code: str, name: str, file: str, text: str) -> None:
    """A file beside the program, or in the user's home."""

    @way(code, name)
    def write(place: Place) -> None:
        path = place.home.parent / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


RANK, TABLE = "netcl-plugin-c_first", "[tool.netcl]\n"
_sets("", "another choice for every op", NETCL_RANK=RANK)
_sets("", "another choice for one op", NETCL_RANK=f"{RANK}:shared_op")
_sets("NP510", "a plugin left out", NETCL_PLUGINS_DISABLE="c_second")
_sets("disabled (", "the only plugin with an op left out", NETCL_PLUGINS_DISABLE="c_rich")
_sets("NP510", "a plugin not named", NETCL_PLUGINS="c_base,c_first,c_rich,c_short")
_sets("NP510", "no plugin named", NETCL_PLUGINS="")
_sets("MissingOpError", "no plugin loaded", NETCL_PLUGINS_AUTOLOAD="0")
_sets("NP501", "a lock file that is not there", NETCL_LOCK="elsewhere.lock")
_sets("NP501", "a folder for a lock file", NETCL_LOCK=".")
_sets("", "an empty switch", NETCL_PLUGINS_STRICT="")
_sets("", "no cache", NETCL_CACHE="0")
_sets("", "a cache that cannot be written", NETCL_CACHE_DIR="/proc/nowhere")
way("", "another cache of the user")(
    lambda place: {"XDG_CACHE_HOME": str(place.home / "elsewhere"), "NETCL_CACHE_DIR": ""}
)
_sets("", "measuring on first use", NETCL_TUNING="first-use")
_sets("", "another device by default", NETCL_DEVICE="numpy")
_sets("", "no search for runtimes", NETCL_ICD_DISCOVERY="0")
_sets("", "other hashes", PYTHONHASHSEED="7")
_writes("", "a choice in pyproject.toml", "work/pyproject.toml",
        f'{TABLE}resolve = {{"*" = "{RANK}"}}\n')  # fmt: skip
_writes("", "a choice in netcl.toml", "work/netcl.toml", f'resolve = {{"*" = "{RANK}"}}\n')
_writes("", "not strict by pyproject.toml", "work/pyproject.toml", f"{TABLE}lock-strict = false\n")
_writes("NP510", "a plugin left out by pyproject.toml", "work/pyproject.toml",
        f'{TABLE}plugins-disable = ["c_second"]\n')  # fmt: skip
_writes("NP501", "another lock by pyproject.toml", "work/pyproject.toml", f'{TABLE}lock = "x"\n')
_writes("", "settings in the user's home", "home/netcl.toml", f'resolve = {{"*" = "{RANK}"}}\n')
_writes("", "settings in the user's folder of settings", "home/.config/netcl/netcl.toml",
        'plugins-disable = ["c_second"]\n')  # fmt: skip
_writes(
    "NP510", "settings above the lock", "pyproject.toml", f'{TABLE}plugins-disable = ["c_second"]\n'
)
_writes("NP501", "marks of a merge in the lock", "work/netcl.lock", "<<<<<<< ours\n")
_sets("", "no working directory on the path", PYTHONSAFEPATH="1")
_writes("NP501", "an empty lock", "work/netcl.lock", "{}")
_writes("NP502", "a lock of a later schema", "work/netcl.lock", '{"schema": 99}')


@way("NP501", "no lock file")
def _(place: Place) -> None:
    place.lock.unlink()


@way("NP501", "a program that runs elsewhere")
def _(place: Place) -> None:
    place.work = place.home


@way("", "a program that runs in a folder below")
def _(place: Place) -> None:
    place.work = place.work / "below"
    place.work.mkdir()


# -- the cache folder ------------------------------------------------------------------


def _remembers(code: str, name: str, file: str, text: str) -> None:
    """What is remembered is of somebody else, or damaged."""

    @way(code, name)
    def write(place: Place) -> Variables:
        path = place.home / "cache" / "plugins" / file
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return {"NETCL_CACHE_DIR": str(place.home / "cache")}


_remembers("", "no receipts that can be read", "files.json", "{")
_remembers("", "receipts of another schema", "files.json", '{"schema": 99, "distributions": {}}')
_remembers("", "no memory of manifests that can be read", "manifests.json", "[[[")
_remembers("", "no memory of failures that can be read", "states.json", "\x00")
