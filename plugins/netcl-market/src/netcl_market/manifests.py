"""The static manifest `netcl_plugin.toml`: found and read without importing the plugin.

Reading is tolerant: unknown keys are ignored, so that a manifest for a newer core can
still be listed. The keys that decide something have to be of the right type. The
JSON Schema in `manifest_schema.json` says the whole of what a manifest may hold.
"""

from __future__ import annotations

import importlib.machinery
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Final, final

from netcl_core import API_VERSION
from netcl_core.errors import plain
from netcl_market.failures import plugin_error
from netcl_market.finding import FILE, InstalledDistribution, manifest_path

SCHEMA: Final = 1
#: In bytes, in levels of tables and lists, and in dots in a line: no manifest comes near these.
_LARGEST: Final = 1 << 20
_DEEPEST: Final = 32
_MOST_DOTS: Final = 200


@final
@dataclass(frozen=True, slots=True)
class Provided:
    """One thing that a plugin brings, as its manifest says, or even defines."""

    name: str
    kind: str
    priority: int = 0
    dtypes: tuple[str, ...] = ()
    differentiable: bool | None = None
    elementwise: bool = False
    templates: tuple[str, ...] = ()
    storage: str = ""
    definition: bool = False


@final
@dataclass(frozen=True, slots=True)
class Requires:
    """What a plugin needs of an OpenCL device; empty values mean: anything."""

    opencl: str = ""
    extensions: tuple[str, ...] = ()
    optional_extensions: tuple[str, ...] = ()
    local_mem_bytes: int = 0
    max_work_group_size: int = 0
    device_types: tuple[str, ...] = ()

    def unmet(self, device: Any) -> str | None:
        """Why a device is too little, or None; the NumPy path is never."""
        if not device.has_kernels:
            return None
        if self.device_types and device.kind not in self.device_types:
            return f"it needs a {' or '.join(self.device_types)}, {device} is a {device.kind}"
        missing = [name for name in self.extensions if name not in device.extensions]
        if missing:
            return f"{device} lacks {', '.join(missing)}"
        if self.opencl and device.opencl_c < _version(self.opencl):
            there = "{}.{}".format(*device.opencl_c)
            return f"it needs OpenCL C {self.opencl}, {device} has {there}"
        for name in ("local_mem_bytes", "max_work_group_size"):
            wanted, there = getattr(self, name), getattr(device, name)
            if there < wanted:
                return f"it needs {name} of at least {wanted}, {device} has {there}"
        return None

    @property
    def anything(self) -> bool:
        """Whether every device will do."""
        return self == Requires(optional_extensions=self.optional_extensions)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


@final
@dataclass(frozen=True)
class Manifest:
    """What a plugin says of itself.

    Attributes:
        rows: `[[provides]]` as it stands there, each row with a name and a kind.
    """

    name: str
    api: tuple[int, int]
    summary: str = ""
    license: str = ""
    maturity: str = ""
    superseded_by: str = ""
    requires: Requires = Requires()
    rows: tuple[Mapping[str, Any], ...] = ()

    @cached_property
    def offers(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of each thing that it brings."""
        return tuple((row["kind"], row["name"]) for row in self.rows)

    @cached_property
    def provides(self) -> tuple[Provided, ...]:
        """All that is said of each thing that it brings."""
        return tuple(
            Provided(
                name=row["name"],
                kind=row["kind"],
                priority=row.get("priority", 0),
                dtypes=_texts(row, "dtypes"),
                differentiable=row.get("differentiable"),
                elementwise=row.get("elementwise") is True,
                templates=_texts(row, "templates"),
                storage=_text(row, "storage"),
                definition="definition" in row,
            )
            for row in self.rows
        )


def locate(distribution: InstalledDistribution, value: str) -> Path | None:
    """The file that an entry point `package:path/to/file` names; nothing is imported.

    First the distribution's own list of files, then, for an editable installation, the
    folder where the import system would find the package.
    """
    listed = distribution.listed.get(value)
    if listed is not None and Path(listed).is_file():
        return Path(listed)
    if not manifest_path(value):
        return None
    package, _, inner = (part.strip() for part in value.partition(":"))
    folders = _package_folders(package)
    paths = (Path(folder, *PurePosixPath(inner or FILE).parts) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def _package_folders(package: str) -> list[str]:
    """Where a package lies; its parents are looked up, not imported."""
    places: list[str] | None = None
    name = ""
    for part in package.split("."):
        name = f"{name}.{part}" if name else part
        spec = _spec(name, places)
        if spec is None or spec.submodule_search_locations is None:
            return []
        places = list(spec.submodule_search_locations)
    return places or []


def _spec(name: str, places: list[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = None if find is None else find(name, places)
        if isinstance(spec, importlib.machinery.ModuleSpec):
            return spec
    return None


def table_in(path: Path) -> dict[str, Any]:
    """The TOML table in a manifest's file; raises PluginError NP110 if it cannot be read."""
    import tomllib  # only here: a survey that remembers every manifest needs none of it

    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise ValueError(f"it has {size} bytes, more than {_LARGEST}")
        text = path.read_text(encoding="utf-8-sig")
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise RecursionError  # the parser would take time by the square of a key's length
        table: dict[str, Any] = tomllib.loads(text)
        return {name: _shown(value) for name, value in table.items()}
    except RecursionError:
        given = "it is nested too deeply"
    except (OSError, ValueError) as error:  # TOML and UTF-8 errors: ValueErrors
        given = str(error)
    raise plugin_error("NP110", f"its manifest {path.name}: {given}")


def _shown(value: Any, depth: int = 0) -> Any:
    """A value whose texts can be sent to a terminal; raises RecursionError for too deep a one."""
    if depth > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {name: _shown(item, depth + 1) for name, item in value.items()}
    return [_shown(item, depth + 1) for item in value] if isinstance(value, list) else value


def parse(table: Mapping[str, Any]) -> Manifest:
    """The manifest in a TOML table.

    Raises PluginError NP111 for a value of the wrong type, NP105 for a schema from the future.
    """
    schema = _take(table, "schema", int, SCHEMA)
    if schema < 1:
        raise plugin_error("NP111", f"its manifest has schema {schema}, and schemas begin with 1")
    if schema > SCHEMA:
        raise plugin_error("NP105", f"its manifest has schema {schema}, this core knows {SCHEMA}")
    plugin = _take(table, "plugin", dict, {})
    return Manifest(
        name=_take(plugin, "name", str, ""),
        api=_api(plugin),
        superseded_by=_take(plugin, "superseded_by", str, ""),
        **{key: _text(plugin, key) for key in ("summary", "license", "maturity")},
        requires=_requires(_take(table, "requires", dict, {})),
        rows=tuple(_row(row) for row in _take(table, "provides", list, []) if type(row) is dict),
    )


def _row(row: dict[str, Any]) -> Mapping[str, Any]:
    """A row of `[[provides]]` that has what decides something."""
    decides = {key: _take(row, key, *default) for key, default in _DECIDES.items()}
    return row if decides.keys() <= row.keys() else {**row, **decides}


_DECIDES: Final = {"name": (str, ""), "kind": (str, ""), "priority": (int, 0)}


def _api(plugin: Mapping[str, Any]) -> tuple[int, int]:
    given = _take(plugin, "api", list, list(API_VERSION))
    if len(given) != 2 or not all(type(number) is int and number >= 0 for number in given):
        raise plugin_error("NP111", f"its manifest has api = {given!r}; expected [major, minor]")
    return given[0], given[1]


def _requires(table: Mapping[str, Any]) -> Requires:
    opencl = _take(table, "opencl", str, "")
    if not re.fullmatch(r"([0-9]+\.[0-9]+)?", opencl):
        raise plugin_error("NP111", f'its manifest has opencl = {opencl!r}; expected such as "1.2"')
    return Requires(
        opencl=opencl,
        extensions=_names(table, "extensions"),
        optional_extensions=_texts(table, "optional_extensions"),
        local_mem_bytes=_take(table, "local_mem_bytes", int, 0),
        max_work_group_size=_take(table, "max_work_group_size", int, 0),
        device_types=_names(table, "device_types"),
    )


def _take(table: Mapping[str, Any], key: str, kind: Callable[..., Any], default: Any) -> Any:
    """A value that decides something, so that its type has to be right."""
    value = table.get(key, default)
    if type(value) is not kind:
        raise plugin_error(
            "NP111",
            f"its manifest has {key} = {value!r}; expected a {getattr(kind, '__name__', kind)}",
        )
    return value


def _names(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = _take(table, key, list, [])
    if not all(isinstance(item, str) for item in value):
        raise plugin_error("NP111", f"its manifest has {key} = {value!r}; expected a list of names")
    return tuple(value)


def _text(table: Mapping[str, Any], key: str) -> str:
    """A value for readers: of another type it is left out."""
    value = table.get(key, "")
    return value if isinstance(value, str) else ""


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, ())
    return tuple(str(item) for item in value) if isinstance(value, list) else ()
