"""What is installed, for a lock file: versions, and digests of all files, each read now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from netcl_market.installed import Installed, by_name
from netcl_market.lock import Pin
from netcl_market.lock_verification import digest_now
from netcl_market.owners import Owners, read_owners
from netcl_market.signing import SUFFIX, WHEEL, verify
from netcl_market.states import States
from netcl_market.survey import survey

from netcl_core.errors import RecordError


def plugins() -> dict[str, Installed]:
    """Every installed distribution with a plugin, by its canonical name; imports none."""
    installed = survey(States(), unlocked=True)
    return by_name(plugin.source for plugin in installed if plugin.source is not None)


def pin(one: Installed) -> Pin:
    """What a lock says of a distribution."""
    data = one.source is not None and one.source.is_data
    return Pin(one.version, digest_now(one), one.editable, data)


def with_keys(
    pins: Mapping[str, Pin], before: Mapping[str, Pin], owners: Path | None, signatures: Path | None
) -> dict[str, Pin]:
    """The pins, each with the key by which the wheel of its files was signed.

    Without an owners file a key stays with the files that it was found for.
    """
    if owners is None:
        kept = {name: pin for name, pin in before.items() if pin.key}
        return {
            name: replace(pin, key=kept[name].key)
            if name in kept and kept[name].files == pin.files
            else pin
            for name, pin in pins.items()
        }
    known = _signed(read_owners(owners), signatures or owners.parent)
    return {name: replace(pin, key=known.get((name, pin.files), "")) for name, pin in pins.items()}


def _signed(owners: Owners, folder: Path) -> dict[tuple[str, str], str]:
    """(distribution, digest of its files) -> key, of all envelopes of wheels in a folder."""
    keys = {}
    for path in sorted(folder.rglob(f"*.whl{SUFFIX}")):
        data = path.read_bytes()
        for name in owners.owners:
            try:
                statement, key = verify(data, owners.keys_of(name))
            except RecordError:  # of another owner's, or nobody's
                continue
            said = statement.content
            if statement.kind == WHEEL and said.get("name") == name:
                keys[name, str(said.get("files"))] = key
    return keys
