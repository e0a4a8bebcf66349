"""Targets: what a word on the command line means, an installed plugin, a project or a wheel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import final

from netcl_market.finding import InstalledDistribution, distributions

from netcl_core.errors import PluginError, TargetError, message
from netcl_core.plugins.protocol import canonical
from netcl_plugin_kit.check.findings import CheckFinding
from netcl_plugin_kit.packages.building import build_wheel, project_table
from netcl_plugin_kit.packages.metadata import name_and_version
from netcl_plugin_kit.packages.wheel_archive import digest_of, opened
from netcl_plugin_kit.testing.records import Outcome


@final
@dataclass(frozen=True, slots=True)
class Target:
    """What is checked, ready for the child process.

    Attributes:
        path: The folder of an unpacked wheel, which hides an installed copy.
        packed: The members of the wheel; None if it is installed.
        project: The folder that the wheel was built from.
        sha256: Of the wheel that was given; empty for a project and for what is installed.
        failure: Why there is nothing to look at.
    """

    name: str
    version: str
    path: tuple[str, ...] = ()
    packed: tuple[str, ...] | None = None
    project: str = ""
    sha256: str = ""
    failure: Outcome | None = None


def installed() -> list[str]:
    """The names of all installed distributions that have a plugin."""
    return [distribution.name for distribution in distributions()]


def locate(
    word: str, folder: Path, progress: Callable[[str, int, int], None] = lambda *_: None
) -> Target:
    """The target that a word means.

    A word with a separator, `.` and a name that ends with `.whl` are paths; any other word
    is a plugin or distribution, or else a path.

    Args:
        word: A plugin, a distribution, a project folder or a wheel.
        folder: Where a wheel may be built and unpacked.
        progress: Told that a project is built.

    Raises:
        TargetError: it means none of these.
        MissingExtraError: what builds a project is not installed.
    """
    path, wheel = Path(word), insist(word)
    if wheel is not None:
        return Target(wheel.name, wheel.version)
    if path.is_dir():
        return _from_project(path.resolve(), folder, progress)
    return _from_wheel(path, folder, "", digest_of(path))


def insist(word: str) -> InstalledDistribution | None:
    """The plugin that a word names, if it names one; raises TargetError if it means nothing."""
    path = Path(word)
    is_path = path.name != word or path.suffix == ".whl" or word in {".", ".."}
    wheel = None if is_path else _named(word)
    if wheel is None and not path.is_dir() and not path.is_file():
        raise _unknown(word, is_path)
    return wheel


def _named(word: str) -> InstalledDistribution | None:
    there = distributions()
    by_plugin = (path for path in there if any(name == word for _, name in path.points))
    by_name = (path for path in there if canonical(path.name) == canonical(word))
    return next(by_name, None) or next(by_plugin, None)


def _unknown(word: str, is_path: bool) -> TargetError:
    expected = "an installed plugin, a project folder or a wheel"
    if is_path:
        return TargetError(message(word, "it is not there", expected))
    close = get_close_matches(word, installed(), n=1, cutoff=0.5)
    remedy = (
        f"Did you mean {close[0]}?" if close else "`netcl plugins list` shows what is installed"
    )
    return TargetError(message(word, "no such plugin is installed", expected, remedy))


def _from_project(project: Path, folder: Path, progress: Callable[[str, int, int], None]) -> Target:
    table = project_table(project).get("project", {})
    name, version = str(table.get("name", project.name)), str(table.get("version", ""))
    progress(f"building {name}", 0, 1)
    built = folder / "wheel"
    built.mkdir()
    wheel, said = build_wheel(project, built)
    if wheel is None:
        return Target(name, version, failure=CheckFinding("NC109", said).outcome())
    return _from_wheel(wheel, folder, str(project), "")


def _from_wheel(wheel: Path, folder: Path, project: str, sha256: str) -> Target:
    site = folder / "site"
    site.mkdir()
    try:
        with opened(wheel) as archive:
            archive.unpack(site)
            name, version = name_and_version(archive.data(f"{archive.info()}/METADATA"))
            return Target(name, version, (str(site),), archive.files, project, sha256)
    except PluginError as error:
        given = f"it is no wheel ({str(error).rstrip('.')})"
        raise TargetError(message(str(wheel), given, "a wheel")) from error
