"""Wheels of a matrix: what they are read as, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from netcl_plugin_kit.packages.wheel import read_wheel
from netcl_plugin_tools.matrix.fitting import choose
from netcl_plugin_tools.matrix.plan import shelf, shelves, tasks
from netcl_plugin_tools.matrix.pythons import Interpreter
from netcl_plugin_tools.matrix.runtimes import RUNTIMES, Presence
from packaging.requirements import Requirement
from packaging.tags import platform_tags

from netcl_core.errors import PluginError

Write = Callable[..., Path]

# -- wheels --------------------------------------------------------------------------


def test_builds_of_one_version_are_told_apart(shelves_of: tuple[Path, Path]) -> None:
    found = shelves(*shelves_of)
    assert [wheel.label for wheel in found.cores] == ["0.1.0", "0.1.1-1", "0.1.1-2"]
    assert len({wheel.sha256 for wheel in found.cores}) == 3
    (plugin,) = found.plugins
    assert str(plugin) == "netcl-plugin-swish 0.3"
    assert plugin.requires == (Requirement("netcl-core>=0.1.1,<0.2"),)


def test_some_plugins_are_only_there_for_others(
    shelves_of: tuple[Path, Path], make_wheel: Write
) -> None:
    make_wheel(shelves_of[1], "netcl-plugin-base")
    found = shelves(*shelves_of, ["Netcl_Plugin_Swish"])
    assert [wheel.name for wheel in found.plugins] == ["netcl-plugin-base", "netcl-plugin-swish"]
    assert [wheel.name for wheel in found.checked] == ["netcl-plugin-swish"]
    assert shelves(*shelves_of).checked == found.plugins
    with pytest.raises(UsageError, match="is of swosh; expected one of netcl-plugin-base"):
        shelves(*shelves_of, ["swosh"])


def test_a_plugin_may_be_named_as_its_manifest_names_it(
    shelves_of: tuple[Path, Path], make_wheel: Write
) -> None:
    make_wheel(
        shelves_of[1],
        "netcl-plugin-base",
        files={"base/netcl_plugin.toml": '[plugin]\nname = "short"\n'},
        points="[netcl_core.plugins]\nshort = base:plugin\n"
        "[netcl_core.manifest]\nshort = base:netcl_plugin.toml\n",
    )
    for name in ("short", "base"):
        found = shelves(*shelves_of, [name])
        assert [wheel.name for wheel in found.checked] == ["netcl-plugin-base"]


def test_a_manifest_is_read_from_the_wheel(make_wheel: Write, tmp_path: Path) -> None:
    points = "[netcl_core.plugins]\ngpu = netcl_plugin_gpu:plugin\n"
    points += "[netcl_core.manifest]\ngpu = netcl_plugin_gpu:netcl_plugin.toml\n"
    manifest = '[plugin]\nname = "gpu"\n[requires]\ndevice_types = ["gpu"]\n'
    files = {"netcl_plugin_gpu/netcl_plugin.toml": manifest}
    path = make_wheel(tmp_path, "netcl-plugin-gpu", files=files, points=points)
    wheel = read_wheel(path)
    assert wheel.manifest is not None
    assert wheel.manifest.requires.device_types == ("gpu",)
    assert wheel.plugins == ("gpu",)
    alone = points.partition("\n[")[2]
    path = make_wheel(tmp_path / "alone", "netcl-plugin-gpu", files=files, points=f"[{alone}")
    assert read_wheel(path).is_data
    assert not wheel.is_data


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04 broken"])
def test_a_broken_wheel_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "netcl_plugin_bad-1.0-py3-none-any.whl"
    path.write_bytes(content)
    with pytest.raises(PluginError, match=r"netcl_plugin_bad-1\.0.*Build it again"):
        shelf(tmp_path)


DEEP: dict[str, Any] = {
    "points": "[netcl_core.plugins]\nbad = bad\n[netcl_core.manifest]\nbad = bad:deep.toml\n",
    "files": {"bad/deep.toml": f"x = {'[' * 20_000}"},
}


@pytest.mark.parametrize(
    "content",
    [
        {"points": "x = 1\n"},
        {"points": "[a]\nb = 1\n[a]\n"},
        {"requires": ["!"]},
        {"requires": ["scipy ≥ 1"]},
        {"requires": ["scipy; os_name ~= 'posix'"]},
        {"python": "new"},
        DEEP,
        {**DEEP, "files": {"bad/deep.toml": "schema = 99"}},
    ],
)
def test_a_strange_wheel_is_named(
    make_wheel: Write, tmp_path: Path, content: dict[str, Any]
) -> None:
    make_wheel(tmp_path, "netcl-plugin-bad", **content)
    with pytest.raises(PluginError, match=r"netcl_plugin_bad-1\.0.*Build it again"):
        shelf(tmp_path)


@pytest.mark.parametrize(
    ("entry", "member", "value"),
    [(8, 6, b"\1"), (10, 8, b"\x63")],  # the flag "encrypted", a compression that is not known
)
def test_a_wheel_that_cannot_be_unpacked_is_named(
    make_wheel: Write, tmp_path: Path, entry: int, member: int, value: bytes
) -> None:
    path = make_wheel(tmp_path, "netcl-plugin-bad")
    data = path.read_bytes()
    for sign, place in ((b"PK\1\2", entry), (b"PK\3\4", member)):
        parts = data.split(sign)
        changed = [each[: place - 4] + value + each[place - 3 :] for each in parts[1:]]
        data = sign.join([parts[0], *changed])
    path.write_bytes(data)
    with pytest.raises(PluginError, match=r"netcl_plugin_bad-1\.0.*Build it again"):
        shelf(tmp_path)


def test_a_folder_without_wheels_is_named(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="there is none; expected a wheel of netcl-core"):
        shelves(tmp_path, tmp_path)


# -- what excludes what --------------------------------------------------------------


def pick(folder: Path, core: str = "0.1.1", python: str = "3.11.7", version: str = "1.0") -> Any:
    wheels = shelf(folder)
    named = {(wheel.name, str(wheel.version)): wheel for wheel in wheels}
    plugin = named["netcl-plugin-a", version]
    return choose(
        named["netcl-core", core], plugin, python, [each for each in wheels if each.plugins]
    )


def test_a_core_that_a_plugin_refuses(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.0")
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", requires=["netcl-core (>=0.1.1)"])
    assert pick(tmp_path).problem == ""
    said = "netcl-plugin-a 1.0 needs netcl-core>=0.1.1; there is 0.1.0"
    assert pick(tmp_path, core="0.1.0").problem == said


@pytest.mark.parametrize(("python", "fits"), [("3.11.7", False), ("3.13.0", True)])
def test_a_python_that_a_wheel_refuses(
    make_wheel: Write, tmp_path: Path, python: str, fits: bool
) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", python=">=3.12")
    problem = pick(tmp_path, python=python).problem
    assert problem == ("" if fits else "netcl-plugin-a 1.0 needs Python >=3.12; this is 3.11.7")


def test_a_plugin_beside_it_is_taken_as_new_as_the_core_allows(
    make_wheel: Write, tmp_path: Path
) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1", requires=["numpy>=2"])
    make_wheel(tmp_path, "netcl-plugin-a", requires=["netcl-plugin-b"])
    make_wheel(tmp_path, "netcl-plugin-b", "1.0", requires=["old"])
    make_wheel(tmp_path, "netcl-plugin-b", "1.5", requires=["scipy", "netcl-plugin-a"])
    make_wheel(tmp_path, "netcl-plugin-b", "2.0", requires=["new", "netcl-core>=0.2"])
    choice = pick(tmp_path)
    assert [str(each) for each in choice.plugins] == ["netcl-plugin-b 1.5"]
    assert choice.others == ("numpy>=2", "scipy")


def test_no_version_beside_it_fits(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", requires=["netcl-plugin-b>=2"])
    make_wheel(tmp_path, "netcl-plugin-b", "1.0")
    make_wheel(tmp_path, "netcl-plugin-b", "1.5")
    said = "netcl-plugin-a 1.0 needs netcl-plugin-b>=2; there is 1.5, 1.0"
    assert pick(tmp_path).problem == said


@pytest.mark.parametrize("name", ["netcl-core", "netcl-plugin-b", "helper"])
def test_a_requirement_with_an_address_is_refused(
    make_wheel: Write, tmp_path: Path, name: str
) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-a", requires=[f"{name} @ https://a.example/x.whl"])
    make_wheel(tmp_path, "netcl-plugin-b")
    said = f"netcl-plugin-a 1.0 needs {name} from https://a.example/x.whl; only wheels by name"
    assert pick(tmp_path).problem.startswith(said)


def test_markers_and_extras_count(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(
        tmp_path,
        "netcl-core",
        "0.1.1",
        requires=["runtime; extra == 'cpu'", "never; extra == 'dev'", "schema; extra == 'check'"],
    )
    requires = ["netcl-core[cpu]", "old; python_version < '3.12'", "new; python_version >= '3.12'"]
    make_wheel(tmp_path, "netcl-plugin-a", requires=requires)
    assert pick(tmp_path).others == ("old", "runtime", "schema")
    assert pick(tmp_path, python="3.12.1").others == ("new", "runtime", "schema")


def make_checker(make_wheel: Write, folder: Path, version: str, core: str) -> None:
    """A wheel that brings `netcl plugins check` for some cores."""
    manifest = '[plugin]\nname = "bench"\n[[provides]]\nname = "plugins check"\nkind = "command"\n'
    make_wheel(
        folder,
        "netcl-plugin-bench",
        version,
        requires=[f"netcl-core{core}", "click", "netcl-plugin-b", "schema; extra == 'check'"],
        files={"bench/netcl_plugin.toml": manifest},
        points="[netcl_core.plugins]\nbench = bench:plugin\n"
        "[netcl_core.manifest]\nbench = bench:netcl_plugin.toml\n",
    )


def test_a_core_without_the_check_gets_the_newest_plugin_that_brings_it(
    make_wheel: Write, tmp_path: Path
) -> None:
    """Cores up to 0.1.3 have the command, and no plugin that brings it takes one of these."""
    for version in ("0.1.3", "0.1.4", "0.1.5"):
        make_wheel(tmp_path, "netcl-core", version)
    make_wheel(tmp_path, "netcl-plugin-a", requires=["netcl-core"])
    make_wheel(tmp_path, "netcl-plugin-b")
    make_wheel(tmp_path, "netcl-plugin-bench", "0.9")  # from before: it brings no check
    make_checker(make_wheel, tmp_path, "1.0", ">=0.1.4")
    make_checker(make_wheel, tmp_path, "1.1", ">=0.1.5")
    old = pick(tmp_path, core="0.1.3")
    assert (old.checker, old.plugins, old.others) == (None, (), ())
    for core, version in (("0.1.4", "1.0"), ("0.1.5", "1.1")):
        choice = pick(tmp_path, core=core)
        assert str(choice.checker) == f"netcl-plugin-bench {version}"
        assert {str(each) for each in choice.plugins} == {str(choice.checker), "netcl-plugin-b 1.0"}
        assert choice.others == ("click", "schema")  # what the check needs, too


def test_what_brings_the_check_is_checked_by_itself(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(tmp_path, "netcl-core", "0.1.4")
    make_wheel(tmp_path, "netcl-plugin-b")
    make_checker(make_wheel, tmp_path, "1.0", ">=0.1.4")
    make_wheel(tmp_path, "netcl-plugin-bench", "0.9")
    wheels = shelves(tmp_path, tmp_path, ["bench"])
    here = Interpreter("3.11", "3.11.7", "/python")
    planned = tasks(wheels, [here], [Presence(RUNTIMES["numpy"])], "run")
    named = {task.cell.version: [str(each) for each in task.named] for task in planned}
    assert named == {
        "1.0": ["netcl-core 0.1.4", "netcl-plugin-bench 1.0"],
        "0.9": ["netcl-core 0.1.4", "netcl-plugin-bench 0.9"],  # one environment holds one version
    }
    (new,) = (task for task in planned if task.cell.version == "1.0")
    assert new.choice.others == ("click", "schema")


def test_extras_are_an_axis_of_versions(make_wheel: Write, tmp_path: Path) -> None:
    make_wheel(tmp_path / "cores", "netcl-core", "0.1.4")
    make_wheel(
        tmp_path / "plugins",
        "netcl-plugin-swish",
        requires=[
            "netcl-core",
            'torch>=2; extra == "torch"',
            'torch==2.13.0; extra == "matrix-torch-2-13"',
            'torch==2.12.1; extra == "matrix-torch-2-12"',
        ],
    )
    found = shelves(tmp_path / "cores", tmp_path / "plugins")
    here = [Interpreter("3.11", "3.11.7", "/python")]
    planned = tasks(found, here, [Presence(RUNTIMES["numpy"])], "run")
    assert [(task.cell.dependency, task.choice.others) for task in planned] == [
        ("torch 2.12.1", ("torch==2.12.1",)),
        ("torch 2.13.0", ("torch==2.13.0",)),
    ]
    assert len({task.cell.slug for task in planned}) == 2
    assert "core 0.1.4, torch 2.12.1, Python 3.11" in str(planned[0].cell)


def test_each_python_gets_the_wheel_that_is_for_it(make_wheel: Write, tmp_path: Path) -> None:
    here = next(iter(platform_tags()))
    for tag in (f"cp312-cp312-{here}", f"cp311-cp311-{here}", "cp311-cp311-win_other"):
        make_wheel(tmp_path, "netcl-plugin-a", tag=tag)
    make_wheel(tmp_path, "netcl-core", "0.1.1")
    make_wheel(tmp_path, "netcl-plugin-b", requires=["netcl-plugin-a"])
    wheels = shelves(tmp_path, tmp_path)
    seen = [Interpreter(minor, f"{minor}.1", "/python") for minor in ("3.11", "3.12", "3.13")]
    planned = tasks(wheels, seen, [Presence(RUNTIMES["numpy"])], "run")
    assert len({task.cell for task in planned}) == len(planned) == 6
    named = {(task.plugin.name[-1], task.cell.python): task for task in planned}
    for minor, tag in (("3.11", "cp311"), ("3.12", "cp312")):
        assert named["a", minor].plugin.path.name.endswith(f"{tag}-{here}.whl")
        (needed,) = named["b", minor].choice.plugins
        assert needed.path == named["a", minor].plugin.path
    for plugin in "ab":
        assert named[plugin, "3.13"].choice.problem.endswith(
            "is not for Python 3.13 on this system"
        )
