"""`netcl catalogue build`: the order of what a build does, and what it says at the end."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar, final
from urllib.parse import urlsplit

import click
from netcl_market.advisories import as_json as advisories_json
from netcl_market.advisories import read_withdrawals
from netcl_market.owners import Owners, read_owners
from netcl_market.signing import SUFFIX
from netcl_plugin_kit.packages.metadata import clean
from netcl_plugin_kit.packages.wheel import Wheel, insist_on_manifests, read_wheel
from rich.console import Console
from rich.progress import track

from netcl_core.cli import print_json
from netcl_core.errors import PluginError, RecordError, message
from netcl_core.plugins.protocol import canonical
from netcl_plugin_tools.catalogue import sbom
from netcl_plugin_tools.catalogue.badges import badges
from netcl_plugin_tools.catalogue.evidence import load
from netcl_plugin_tools.catalogue.feed import feed
from netcl_plugin_tools.catalogue.folder import check_target, replacing, write
from netcl_plugin_tools.catalogue.model import MarketContent, assemble
from netcl_plugin_tools.catalogue.pages import pages
from netcl_plugin_tools.catalogue.rendering import ASSETS, asset
from netcl_plugin_tools.catalogue.simple import index, snapshot
from netcl_plugin_tools.graph.drawing import count
from netcl_plugin_tools.market.statements import signed_by

_Item = TypeVar("_Item")
#: What is withdrawn, in the folder of the wheels.
WITHDRAWALS: Final = "withdrawals.toml"


def run(
    wheels: Path,
    out: Path,
    records: Path | None,
    url: str,
    title: str,
    as_json: bool,
    owners: Path | None = None,
    others: Sequence[str] = (),
) -> int:
    """Build a catalogue and print what became of it; 1 if a file was refused."""
    if url and urlsplit(url).scheme not in {"http", "https"}:
        raise click.UsageError(message("--url", repr(url), "an address that begins with http"))
    check_target(out, [wheels, *([records] if records else [])])
    paths = sorted(wheels.rglob("*.whl"), key=lambda path: (path.name, path))
    if not paths:
        raise click.UsageError(message("--wheels", f"{wheels} holds no wheel", "files *.whl"))
    door = Admission(None if owners is None else read_owners(owners), others)
    withdrawn = read_withdrawals(wheels / WITHDRAWALS)
    loaded, refused = _read(paths, wheels, door)
    evidence = load(records, door.owners)
    market = assemble(title, loaded, refused, evidence, withdrawn, door.signers)
    market.address = f"{url.rstrip('/')}/" if url else ""
    with replacing(out) as folder:
        written = chain(pages(market), badges(market), index(market))
        for path, text in _watched(written, "pages", _pages(market)):
            write(folder, path, text)
        for name in ASSETS:
            write(folder, f"assets/{name}", asset(name))
        write(folder, "catalogue.json", snapshot(market))
        write(folder, "advisories.json", advisories_json(withdrawn))
        write(folder, "feed.xml", feed(market))
        held_back = {plugin.name for plugin in market.plugins if plugin.quarantined}
        for wheel in loaded:
            if wheel.name in held_back:
                continue
            write(folder, f"wheels/{wheel.file}.metadata", wheel.raw_metadata)
            write(folder, f"wheels/{wheel.file}{sbom.SUFFIX}", sbom.sbom(wheel))
            shutil.copyfile(wheel.path, folder / "wheels" / wheel.file)
            if wheel.file in door.signers:
                envelope = wheel.path.with_name(wheel.file + SUFFIX)
                shutil.copyfile(envelope, folder / "wheels" / envelope.name)
    report = _report(market, out)
    if as_json:
        print_json(report)
    else:
        print(_text(report))
    return 1 if market.problems else 0


def _read(
    paths: Sequence[Path], top: Path, door: Admission
) -> tuple[list[Wheel], list[tuple[str, str]]]:
    """The wheels that can be read, and (file, reason) of those that cannot."""
    by_file: dict[str, Wheel] = {}
    refused = []
    for path in _watched(paths, "wheels", len(paths)):
        name = clean(path.relative_to(top).as_posix())
        try:
            wheel = read_wheel(path)
            insist_on_manifests(wheel)
            door.admit(wheel)
        except (PluginError, RecordError) as error:
            refused.append((name, clean(str(error))))
            continue
        first = by_file.setdefault(wheel.file, wheel)
        if first.sha256 != wheel.sha256:
            refused.append((name, message("the wheel", "there is another of its name", "one")))
    return list(by_file.values()), refused


def _watched(items: Any, what: str, total: int) -> Iterator[Any]:
    """The items, with a progress bar on stderr if somebody looks at it."""
    if not sys.stderr.isatty():
        return iter(items)
    return iter(track(items, what, total=total, console=Console(stderr=True), transient=True))


def _pages(market: MarketContent) -> int:
    return sum(4 + len(plugin.pages) for plugin in market.plugins) + 3


def _report(market: MarketContent, out: Path) -> dict[str, Any]:
    evidence = market.evidence
    return {
        "out": str(out),
        "plugins": {
            plugin.name: [str(one.version) for one in plugin.releases] for plugin in market.plugins
        },
        "others": [other.name for other in market.others],
        "ops": sum(len(plugin.pages) for plugin in market.plugins),
        "records": {"checks": len(evidence.checks), "cells": len(evidence.cells)},
        "refused": [
            {"kind": kind, "file": file, "reason": reason}
            for kind, rows in (("wheel", market.refused), ("record", evidence.refused))
            for file, reason in rows
        ],
        "unused": market.unused,
    }


def _text(report: dict[str, Any]) -> str:
    records = report["records"]
    lines = [
        f"{report['out']}: {count(len(report['plugins']), 'plugin')}, "
        f"{count(report['ops'], 'op')}, {count(records['checks'], 'record')} of checks, "
        f"{records['cells']} of cells"
    ]
    lines += [f"refused: {one['file']}: {one['reason']}" for one in report["refused"]]
    lines += [f"not used: {text}" for text in report["unused"]]
    return "\n".join(lines)


# -- who may be in the index: plugins, and others by name, signed by keys of an owners file -----


@final
class Admission:
    """Judges wheels, and remembers by whom each was signed.

    Attributes:
        owners: None where the market has no owners file: then nobody's name is told.
        signers: The name of a wheel's file -> who signed it.
    """

    def __init__(self, owners: Owners | None, others: Iterable[str]) -> None:
        self.owners = owners
        self.signers: dict[str, str] = {}
        self._others = {*map(canonical, others), *(owners.others if owners else ())}

    def admit(self, wheel: Wheel) -> None:
        """Raise RecordError for a wheel that does not belong into the index."""
        if not wheel.plugins and wheel.name not in self._others:
            given = "it is no plugin, and neither --other nor the owners file names it"
            raise RecordError(message(wheel.file, given, "a plugin"))
        if self.owners is not None and wheel.name not in self._others:
            self.signers[wheel.file] = self.owners.who(signed_by(wheel, self.owners))
