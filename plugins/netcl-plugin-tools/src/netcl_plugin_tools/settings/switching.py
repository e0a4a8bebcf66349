"""`netcl plugins enable` and `disable`: the settings `plugins-disable` and `plugins`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from netcl_market.states import States
from netcl_market.survey import survey

from netcl_core.cli import print_json
from netcl_core.errors import ArgumentError, message
from netcl_core.plugins.protocol import Plugin, canonical, meant
from netcl_plugin_tools.settings import file
from netcl_plugin_tools.settings.file import Table

_DISABLED: Final = "plugins-disable"
_ALLOWED: Final = "plugins"
_OWN: Final = "netcl-plugin-tools"


def run(name: str, on: bool, as_json: bool) -> int:
    """Switch a plugin on or off in the file of settings; 0, also if it was so before."""
    who = f"plugins {'enable' if on else 'disable'}"
    plugins = survey(States(), unlocked=True)
    entry, ids = _meant(who, name, plugins)

    def edit(table: Table) -> None:
        (_enable if on else _disable)(table, entry, ids, plugins)

    path, changed = file.change(who, edit)
    notes = [*file.overruled(_DISABLED, _ALLOWED), *_notes(entry, on)]
    if as_json:
        data = {"plugin": entry, "enabled": on, "file": str(path), "changed": changed}
        print_json({**data, "notes": notes})
        return 0
    print(f"{entry} is {'' if changed else 'already '}{'enabled' if on else 'disabled'} in {path}")
    for note in notes:
        print(note)
    return 0


def _notes(entry: str, on: bool) -> list[str]:
    """What else follows from a switch."""
    if on or not entry.startswith(_OWN):
        return []
    return [f"note: this command goes with it; take {entry} out of the file to have it back"]


def _meant(who: str, name: str, plugins: Sequence[Plugin]) -> tuple[str, set[str]]:
    """How the settings name a plugin or a distribution, and the ids of the plugins it means."""
    own = name.partition(":")[2]
    covered = _covered([name], plugins)
    names = {each if own else each.partition(":")[0] for each in covered}
    if not covered:
        names = covered = {plugin.id for plugin in plugins if plugin.name == name}
    if len(names) == 1:
        (only,) = names
        distribution = only.partition(":")[0]
        alone = sum(canonical(plugin.distribution) == distribution for plugin in plugins) == 1
        return distribution if alone else only, covered
    if names:
        given = f"{name!r} may mean {' or '.join(sorted(names))}"
        raise ArgumentError(message(who, given, "one of them"))
    if name in _entries(file.table(), _DISABLED):  # it was installed once
        return name, set()
    known = {text for plugin in plugins for text in (canonical(plugin.distribution), plugin.name)}
    close = get_close_matches(name, sorted(known), n=2)
    remedy = f"Did you mean {' or '.join(close)}?" if close else "See `netcl plugins list`"
    raise ArgumentError(message(who, f"{name!r} is not installed", "an installed plugin", remedy))


# -- the lists -----------------------------------------------------------------------------


def _disable(table: Table, entry: str, ids: set[str], plugins: Sequence[Plugin]) -> None:
    listed = _entries(table, _DISABLED)
    if not ids <= _covered(listed, plugins):
        _store(table, _DISABLED, [*listed, entry])


def _enable(table: Table, entry: str, ids: set[str], plugins: Sequence[Plugin]) -> None:
    kept = [
        one
        for one in _entries(table, _DISABLED)
        if one != entry and not (_covered([one], plugins) or {""}) <= ids
    ]
    wider = [one for one in kept if _covered([one], plugins) & ids]
    if wider:
        given, remedy = f"{wider[0]} is disabled as a whole", f"netcl plugins enable {wider[0]}"
        raise ArgumentError(message("plugins enable", given, "", remedy))
    _store(table, _DISABLED, kept)
    allowed = _entries(table, _ALLOWED)
    if ids and _ALLOWED in table and not ids <= _covered(allowed, plugins):
        _store(table, _ALLOWED, [*allowed, entry])


def _covered(entries: Iterable[str], plugins: Sequence[Plugin]) -> set[str]:
    """The ids of the plugins that entries of a setting mean, as the core reads them."""
    installed = [plugin.distribution for plugin in plugins]
    parts = [one.partition(":") for one in entries]
    return {
        plugin.id
        for distribution, _, own in parts
        for plugin in plugins
        if own in {"", plugin.name}
        and canonical(plugin.distribution) in meant(distribution, installed)
    }


def _entries(table: Table, key: str) -> list[str]:
    """The names in a setting, which may be a text with commas."""
    given = table.get(key, [])
    parts = given.split(",") if isinstance(given, str) else given
    return [str(part).strip() for part in parts if str(part).strip()]


def _store(table: Table, key: str, wanted: list[str]) -> None:
    """Give a setting other names; in a list those that stay keep their place and comments."""
    before, given = _entries(table, key), table.get(key)
    if not wanted:
        table.pop(key, None)
    elif isinstance(given, list):
        for number in reversed(range(len(given))):
            if str(given[number]).strip() not in wanted:
                del given[number]
        given.extend(name for name in wanted if name not in before)
    elif wanted != before:
        table[key] = wanted
