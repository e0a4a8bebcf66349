"""The read-only commands about plugins: list, info, search, which read files and import no plugin.

Each returns its exit code: 0 ok, 1 findings, 2 wrong usage.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from netcl_core.cli import print_json
from netcl_core.plugins import protocol
from netcl_core.plugins.protocol import PRIMITIVES, Plugin, canonical
from netcl_market.searching import read_catalogue, search
from netcl_market.states import States
from netcl_market.survey import survey, unknown_names
from netcl_market.tables import print_table, print_text

_FACTS: Final = (
    "name", "distribution", "version", "kind", "state", "code", "reason", "remedy", "group",
)  # fmt: skip
#: What a state is called for people: nothing speaks against a plugin that was found.
_SAID: Final = {"found": "ready"}


def show_list(as_json: bool) -> int:
    """Print every installed plugin with its state; 1 if one does not work."""
    plugins = _survey()
    notes = unknown_names(plugins)
    if as_json:
        print_json({"plugins": [_data(plugin) for plugin in plugins], "notes": notes})
    elif plugins:
        rows = [
            (
                plugin.name,
                plugin.distribution,
                plugin.version,
                plugin.kind,
                _SAID.get(plugin.state, plugin.state),
                _brings(plugin),
            )
            for plugin in plugins
        ]
        header = ("plugin", "distribution", "version", "kind", "state", "brings")
        print_table(header, rows, ("distribution", "brings"))
        whys = [f"{each.name}: {_why(each)}" for each in plugins if _why(each)]
        if whys:
            print_text("\n".join(["", *whys]))
    else:
        print("No plugin is installed. `netcl plugins search WORD` says which package brings what.")
    for note in notes:
        print(note, file=sys.stderr)
    return 1 if notes or any(plugin.failed for plugin in plugins) else 0


def show_info(name: str, with_traceback: bool, as_json: bool) -> int:
    """Print all that is known of a plugin; 1 if it does not work, 2 if there is none."""
    installed = _survey()
    matches = [
        each
        for each in installed
        if name == each.name or canonical(name) == canonical(each.distribution)
    ]
    if not matches:
        return _unknown(
            name, [text for each in installed for text in (each.name, each.distribution)]
        )
    if as_json:
        print_json([_data(match, with_traceback) for match in matches])
    for plugin in matches if not as_json else ():
        _print_info(plugin, with_traceback)
    return 1 if any(plugin.failed for plugin in matches) else 0


def show_search(word: str, file: Path | None, as_json: bool) -> int:
    """Print what is installed or in a catalogue, the bundled one or a file; 1 for nothing."""
    table = protocol.catalogue() if file is None else read_catalogue(file)
    plugins = _survey()
    installed = {canonical(plugin.distribution): plugin.state for plugin in plugins}
    table = {**table, **_entries(plugins)}
    hits = search(word, table)
    rows = [
        (hit.name, hit.kind, hit.package, installed.get(hit.package, "not installed"), hit.summary)
        for hit in hits
    ]
    header = ("name", "kind", "package", "here", "summary")
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    elif rows:
        said = [(*row[:3], _SAID.get(row[3], row[3]), row[4]) for row in rows]
        print_table(header, said, ("summary",))
    else:
        groups = [group for one in table.values() for group in one["provides"].values()]
        names = {name for group in groups for name in group}
        print(f"Nothing has {word!r}, installed or in the catalogue{_hint(word, names)}.")
    return 0 if hits else 1


def plugin_names(begun: str) -> list[str]:
    """The installed plugins whose names begin so."""
    return sorted({plugin.name for plugin in _survey() if plugin.name.startswith(begun)})


def op_names(begun: str) -> list[str]:
    """The ops, of what is installed and of the catalogue, whose names begin so."""
    table = {**protocol.catalogue(), **_entries(_survey())}
    kinds = ("primitive", "operator")
    names = {
        name
        for entry in table.values()
        for kind in kinds
        for name in entry["provides"].get(kind, ())
    }
    return sorted(name for name in names if name.startswith(begun))


def _entries(plugins: Iterable[Plugin]) -> dict[str, dict[str, Any]]:
    """What is installed, as a catalogue has it; what says nothing of itself is left to that."""
    table: dict[str, dict[str, Any]] = {}
    for plugin in plugins:
        rows = (
            [] if plugin.manifest is None else [(r.name, r.kind) for r in plugin.manifest.provides]
        )
        if plugin.group == PRIMITIVES:  # an entry point is the op
            rows.append((plugin.name, "primitive"))
        for name, kind in rows:
            entry = {"summary": _summary(plugin), "provides": {}}
            provides = table.setdefault(canonical(plugin.distribution), entry)["provides"]
            provides.setdefault(kind, []).append(name)
    return table


def _summary(plugin: Plugin) -> str:
    own = plugin.manifest.summary if plugin.manifest else ""
    return own or (plugin.source.summary if plugin.source else "")


def _survey() -> list[Plugin]:
    """What is installed; failures of changed distributions are forgotten."""
    states = States()
    plugins = survey(states)
    states.save()
    return plugins


def _unknown(name: str, names: Iterable[str]) -> int:
    entry = protocol.catalogue().get(canonical(name))
    remedy = f". Install it with: pip install {canonical(name)}" if entry else _hint(name, names)
    print(f"netcl: the plugin {name!r} is not installed{remedy}", file=sys.stderr)
    return 2


def _hint(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, sorted(set(names)), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _brings(plugin: Plugin) -> str:
    """`54 primitives, 1 namespace`, from the manifest."""
    offers = plugin.manifest.offers if plugin.manifest else ()
    return ", ".join(_counted(n, kind) for kind, n in Counter(kind for kind, _ in offers).items())


def _counted(n: int, kind: str) -> str:
    noun = kind.replace("_", " ")
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun[:-1]}ies" if noun.endswith("y") else f"{n} {noun}s"


def _why(plugin: Plugin) -> str:
    reason = plugin.reason.partition("\n")[0]
    if plugin.failed:
        return f"{plugin.code}: {reason}"
    if plugin.manifest is not None and plugin.manifest.superseded_by:
        return f"superseded by {plugin.manifest.superseded_by}"
    return reason


def _data(plugin: Plugin, with_traceback: bool = False) -> dict[str, Any]:
    source, manifest = plugin.source, plugin.manifest
    data: dict[str, Any] = {name: getattr(plugin, name) for name in _FACTS}
    data["location"] = source.location if source else ""
    data["summary"] = _summary(plugin)
    data["license"] = (manifest.license if manifest else "") or (source.license if source else "")
    data["manifest"] = manifest is not None
    if manifest is not None:
        data["api"] = list(manifest.api)
        data["maturity"] = manifest.maturity
        data["superseded_by"] = manifest.superseded_by
        data["requires"] = asdict(manifest.requires)
        data["provides"] = [asdict(row) for row in manifest.provides]
    if with_traceback:
        data["traceback"] = plugin.traceback
    return data


def _print_info(plugin: Plugin, with_traceback: bool) -> None:
    data = _data(plugin)
    data["state"] = _SAID.get(plugin.state, plugin.state)
    for name in (*_FACTS[:-1], "summary", "license", "maturity", "superseded_by", "location",
                 _FACTS[-1]):  # fmt: skip
        if data.get(name):
            print(f"{name:14} {data[name]}")
    if plugin.manifest is None:
        print("manifest       none, so that what it brings is known when it is loaded")
    else:
        print(f"{'hook API':14} {'.'.join(map(str, plugin.manifest.api))}")
        for name, value in data["requires"].items():
            if value:
                shown = ", ".join(value) if isinstance(value, tuple) else value
                print(f"{'needs':14} {name}: {shown}")
        _print_provides(plugin)
    if with_traceback:
        print(f"\n{plugin.traceback or 'No traceback is kept for it.'}")
    print()


def _print_provides(plugin: Plugin) -> None:
    assert plugin.manifest is not None  # it was looked at before
    rows: Sequence[Sequence[str]] = [
        (
            row.name,
            row.kind,
            {True: "yes", False: "no", None: ""}[row.differentiable],
            str(row.priority),
            " ".join(row.dtypes) or row.storage,
        )
        for row in plugin.manifest.provides
    ]
    if rows:
        print()
        print_table(("brings", "kind", "gradient", "priority", "dtypes"), rows, ("dtypes",))
