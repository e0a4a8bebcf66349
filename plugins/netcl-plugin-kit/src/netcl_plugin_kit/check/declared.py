"""Static findings of what a plugin says of itself: metadata, licence and manifest; no import."""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from netcl_market.requirements import CORE
from packaging.requirements import InvalidRequirement, Requirement

from netcl_core.config import MARKET_PREFIX
from netcl_core.errors import MissingExtraError, message
from netcl_core.plugins.protocol import MANIFEST, PLUGINS, canonical
from netcl_plugin_kit.check.findings import CheckFinding
from netcl_plugin_kit.check.subject import Subject
from netcl_plugin_kit.packages.metadata import is_extra

SCHEMA: Final = "manifest_schema.json"
_LOWER: Final = frozenset({">=", ">", "==", "~=", "==="})
_UPPER: Final = frozenset({"<", "<=", "==", "~=", "==="})


def _tool(module: str, package: str) -> Any:
    """A module of the extra `check`; raises MissingExtraError if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        remedy = "Install it with: pip install 'netcl-plugin-kit[check]'"
        given = f"{package} is not installed, or is too old"
        raise MissingExtraError(message("netcl plugins check", given, "", remedy)) from error


# -- metadata and licence --------------------------------------------------------------


def check_metadata(subject: Subject) -> Iterator[CheckFinding]:
    """Requires-Python, and bounds of netcl-core from both sides."""
    if not subject.metadata.get("Requires-Python"):
        yield CheckFinding("NC203", "there is no Requires-Python")
    ours = [
        requirement for requirement in _requirements(subject) if canonical(requirement.name) == CORE
    ]
    if not ours:
        yield CheckFinding("NC204", f"no requirement names {CORE}")
    for each in ours:
        used = {specifier.operator for specifier in each.specifier}
        for bounds, what in ((_LOWER, "lower"), (_UPPER, "upper")):
            if not used & bounds:
                yield CheckFinding("NC204", f"the requirement {str(each)!r} has no {what} bound")


def _requirements(subject: Subject) -> Iterator[Requirement]:
    """What is required without an extra; a line that cannot be read is left to loading."""
    for text in subject.metadata.get_all("Requires-Dist") or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if not is_extra(requirement):
            yield requirement


def check_licence(subject: Subject) -> Iterator[CheckFinding]:
    """An SPDX expression in the metadata, and the same one in every manifest."""
    expression = subject.metadata.get("License-Expression")
    given = expression or subject.metadata.get("License") or ""
    licence = _spdx(given)
    if licence is None:
        said = f"{given.splitlines()[0]!r} is no SPDX expression" if given else "there is none"
        yield CheckFinding("NC201", said)
        return
    for plugin, path in manifests(subject):
        text = str(read(path).get("plugin", {}).get("license", ""))
        if text and _spdx(text) != licence:
            given = f"{path.name} of {plugin!r} says {text!r}, the metadata say {licence!r}"
            yield CheckFinding("NC202", given)


def _spdx(text: str) -> str | None:
    """A licence expression in its normal form; None if it is none."""
    licenses = _tool("packaging.licenses", "packaging 24.2")
    try:
        expression: str = licenses.canonicalize_license_expression(text)
    except ValueError:
        return None
    return expression


def notes(subject: Subject) -> Iterator[str]:
    """What is worth knowing and no failure."""
    if not canonical(subject.name).startswith(MARKET_PREFIX):
        text = f"The name does not begin with {MARKET_PREFIX}"
        yield f"{text}, by which plugins are found on an index."
    if not subject.metadata.get_all("License-File"):
        yield "It comes without a licence file; most licences ask for their text in every copy."


# -- the manifest ----------------------------------------------------------------------


def check_manifest(subject: Subject) -> Iterator[CheckFinding]:
    """There for every plugin with hooks, valid, and of the plugin's name.

    One that cannot be read at all is left to loading, which reports it with its code.
    """
    names = {name for _, name in subject.plugins}
    points = subject.distribution.points if subject.distribution else {}
    for group, name in subject.plugins:
        if group == PLUGINS and (MANIFEST, name) not in points:
            yield CheckFinding("NC301", f"{name!r} has no entry point in {MANIFEST}")
    for group, name in points:
        if group == MANIFEST and name not in names:
            yield CheckFinding("NC303", f"the manifest {name!r} belongs to no plugin of that name")
    for name, path in manifests(subject):
        yield from _schema_findings(name, path)
        said = read(path).get("plugin", {}).get("name")
        if isinstance(said, str) and said != name:
            given = f"{path.name} says name = {said!r}, its entry point is named {name!r}"
            yield CheckFinding("NC303", given)


def manifests(subject: Subject) -> list[tuple[str, Path]]:
    """(plugin, file) of every manifest that is there and is TOML."""
    paths = [(name, subject.manifest(name)) for _, name in subject.plugins]
    return [(name, path) for name, path in paths if path is not None and _toml(path) is not None]


def read(path: Path) -> Mapping[str, Any]:
    """A manifest's table; empty if it cannot be read. What should be a table is one."""
    table = _toml(path) or {}
    if not isinstance(table.get("plugin", {}), dict):
        table["plugin"] = {}
    return table


def _toml(path: Path) -> dict[str, Any] | None:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=1)
def _validator() -> Any:
    jsonschema = _tool("jsonschema", "jsonschema")
    text = resources.files("netcl_market").joinpath(SCHEMA).read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def _schema_findings(name: str, path: Path) -> Iterator[CheckFinding]:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    for error in sorted(_validator().iter_errors(table), key=lambda each: each.json_path):
        place = error.json_path.removeprefix("$").removeprefix(".") or "the whole"
        yield CheckFinding("NC302", f"{path.name} of {name!r}: {place}: {error.message}")
