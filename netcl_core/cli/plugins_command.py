"""The read-only commands about plugins: list, info, why, search.

`list` and `info` read files and import no plugin; `why` loads them, since what is
registered decides. Each returns its exit code: 0 ok, 1 findings, 2 wrong usage.
"""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from netcl_core.cli.tables import print_json, print_table
from netcl_core.errors import MissingOpError
from netcl_core.plugins.market.states import States
from netcl_core.plugins.market.survey import Plugin, survey, unknown_names
from netcl_core.plugins.resolution import canonical

_FACTS: Final = (
    "name", "distribution", "version", "state", "code", "reason", "remedy", "group",
)  # fmt: skip


def show_list(as_json: bool) -> int:
    """Print every installed plugin with its state; 1 if one does not work."""
    found = _survey()
    notes = unknown_names(found)
    if as_json:
        print_json({"plugins": [_data(plugin) for plugin in found], "notes": notes})
    elif found:
        rows = [
            (each.name, each.distribution, each.version, each.state, _brings(each), _why(each))
            for each in found
        ]
        header = ("plugin", "distribution", "version", "state", "brings", "why")
        print_table(header, rows, ("distribution", "brings", "why"))
    else:
        print("No plugin is installed. `netcl plugins search WORD` says which package brings what.")
    for note in notes:
        print(note, file=sys.stderr)
    return 1 if notes or any(plugin.failed for plugin in found) else 0


def show_info(name: str, with_traceback: bool, as_json: bool) -> int:
    """Print all that is known of a plugin; 1 if it does not work, 2 if there is none."""
    installed = _survey()
    found = [
        each
        for each in installed
        if name == each.name or canonical(name) == canonical(each.distribution)
    ]
    if not found:
        return _unknown(
            name, [text for each in installed for text in (each.name, each.distribution)]
        )
    if as_json:
        print_json([_data(each, with_traceback) for each in found])
    for plugin in found if not as_json else ():
        _print_info(plugin, with_traceback)
    return 1 if any(plugin.failed for plugin in found) else 0


def show_why(op: str, device: str | None, dtype: str, as_json: bool) -> int:
    """Print each candidate for an op and the rules that decided; 1 if nobody serves it."""
    if dtype not in importlib.import_module("netcl_core.dtypes").DTYPES:
        print(f"netcl: the dtype {dtype!r} is unknown", file=sys.stderr)
        return 2
    try:
        said = importlib.import_module("netcl_core.ops.why").why(op, device=device, dtype=dtype)
    except MissingOpError as error:
        print(f"netcl: {error}", file=sys.stderr)
        return 1
    if as_json:
        names = ("provider", "label", "priority", "chosen", "reason")
        candidates = [{name: getattr(one, name) for name in names} for one in said.candidates]
        data = {"op": said.op, "device": said.device, "dtype": said.dtype}
        print_json({**data, "candidates": candidates, "rules": list(said.rules)})
        return 0 if said.decided else 1
    print(f"{said.title}\n")
    rows = [
        ("->" if one.chosen else "", one.label, one.provider, str(one.priority), one.reason)
        for one in said.candidates
    ]
    print_table(("", "candidate", "from", "priority", "verdict"), rows, ("verdict",))
    print()
    for rule in said.rules:
        print(f"decided by {rule}")
    return 0 if said.decided else 1


def show_search(word: str, file: Path | None, as_json: bool) -> int:
    """Print what a catalogue, the bundled one or a file, has for a word; 1 if it has nothing."""
    table = _providers().catalogue() if file is None else _providers().read_catalogue(file)
    installed = {canonical(plugin.distribution): plugin.state for plugin in _survey()}
    hits = _providers().search(word, table)
    rows = [
        (hit.name, hit.kind, hit.package, installed.get(hit.package, "not installed"), hit.summary)
        for hit in hits
    ]
    header = ("name", "kind", "package", "here", "summary")
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
    elif rows:
        print_table(header, rows, ("summary",))
    else:
        groups = [group for one in table.values() for group in one["provides"].values()]
        names = {name for group in groups for name in group}
        print(f"The catalogue has nothing with {word!r}{_hint(word, names)}.")
    return 0 if hits else 1


def _survey() -> list[Plugin]:
    """What is installed; failures of changed distributions are forgotten."""
    states = States()
    found = survey(states)
    states.save()
    return found


def _providers() -> Any:
    return importlib.import_module("netcl_core.plugins.catalogue")  # not needed by `list`


def _unknown(name: str, names: Iterable[str]) -> int:
    entry = _providers().catalogue().get(canonical(name))
    remedy = f". Install it with: pip install {canonical(name)}" if entry else _hint(name, names)
    print(f"netcl: the plugin {name!r} is not installed{remedy}", file=sys.stderr)
    return 2


def _hint(name: str, names: Iterable[str]) -> str:
    close = get_close_matches(name, sorted(set(names)), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _brings(plugin: Plugin) -> str:
    """`54 primitive, 1 namespace`, from the manifest."""
    rows = plugin.manifest.provides if plugin.manifest else ()
    return ", ".join(f"{n} {kind}" for kind, n in Counter(row.kind for row in rows).items())


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
    data["summary"] = (manifest.summary if manifest else "") or (source.summary if source else "")
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
    for name in ("name", "distribution", "version", "state", "code", "reason", "remedy", "summary",
                 "license", "maturity", "superseded_by", "location", "group"):  # fmt: skip
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
