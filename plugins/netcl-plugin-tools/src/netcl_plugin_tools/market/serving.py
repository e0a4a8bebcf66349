"""A market in a folder: what is submitted is verified, checked and signed; the rest is served.

MARKET/owners.toml      whose key may sign what
MARKET/wheels/          wheels with their envelopes, and withdrawals.toml
MARKET/records/         records of checks with their envelopes
MARKET/site/            the catalogue, which is served
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from netcl_market.owners import read_owners
from netcl_market.signing import SUFFIX, public_of
from netcl_plugin_kit.bars import progress_bar
from netcl_plugin_kit.check.checking import check
from netcl_plugin_kit.packages.wheel import insist_on_manifests, read_wheel
from netcl_plugin_kit.testing.records import Level

from netcl_core.errors import ArgumentError, MissingExtraError, message
from netcl_core.files import write_whole
from netcl_plugin_tools.catalogue import build
from netcl_plugin_tools.market.provenance import rebuilt
from netcl_plugin_tools.market.statements import sign_file, signed_by


def submit(
    file: Path,
    market: Path,
    key: Path,
    level: Level,
    devices: Sequence[str],
    source: Path | None = None,
) -> tuple[list[str], Path | None]:
    """Take a wheel in, if its owner has signed it, its source gives it, and its check passes.

    Returns what failed, and the record; with a failure nothing is taken in.

    Raises PluginError or RecordError for a wheel that may not be in the market at all, and
    ArgumentError if it has another of that name, or the key is no checker's.
    """
    wheel, owners = read_wheel(file), read_owners(market / "owners.toml")
    insist_on_manifests(wheel)
    signed_by(wheel, owners)
    if public_of(key) not in owners.keys_of_checkers:
        given = f"{key} holds the key of none of the checkers, so that its record would not count"
        raise ArgumentError(message("market submit", given, "a key that owners.toml lists"))
    target = market / "wheels" / wheel.file
    if target.exists() and read_wheel(target).sha256 != wheel.sha256:
        given = f"there is another {wheel.file}"
        raise ArgumentError(message("market submit", given, "a new version"))
    built, problem = ("", "") if source is None else rebuilt(source, file)
    if problem:
        return [f"source: {problem}"], None
    with progress_bar() as told:
        record = replace(check(str(file), level, devices, progress=told), source=built)
    failed = [
        f"{outcome.check}: {outcome.reason}"
        for outcome in record.outcomes
        if outcome.state == "failed"
    ]
    if record.wheel_sha256 != wheel.sha256:
        failed.append("wheel: it changed while it was checked")
    if failed:
        return failed, None
    for name in ("wheels", "records"):
        (market / name).mkdir(exist_ok=True)
    noted = market / "records" / f"{wheel.file}.json"
    write_whole(noted, json.dumps(record.as_json(), indent=1).encode())
    sign_file(noted, key)
    for name in (wheel.file + SUFFIX, wheel.file):  # the wheel last: it is there when it is whole
        shutil.copyfile(file.with_name(name), market / "wheels" / name)
    return [], noted


def publish(market: Path, site: Path, url: str = "", as_json: bool = False) -> int:
    """Write the catalogue of a market into a folder; 1 if a file was refused."""
    owners, records = market / "owners.toml", market / "records"
    there = records if records.is_dir() else None
    return build.run(market / "wheels", site, there, url, "netcl market", as_json, owners)


def application(site: Path) -> Any:
    """The WSGI application that serves a catalogue, also after it was published again."""
    try:
        whitenoise = import_module("whitenoise")
    except ImportError as error:
        raise _missing() from error
    return whitenoise.WhiteNoise(_nothing, site, autorefresh=True, index_file=True)


def serve(site: Path, host: str, port: int) -> None:
    """Serve a catalogue over http until it is interrupted."""
    try:
        waitress = import_module("waitress")
    except ImportError as error:
        raise _missing() from error
    waitress.serve(application(site), host=host, port=port, ident="netcl market")


def _nothing(environ: Any, start_response: Any) -> list[bytes]:
    """Answers for what is no file."""
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"There is nothing here. The index is at simple/\n"]


def _missing() -> MissingExtraError:
    remedy = "Install them with: pip install 'netcl-plugin-tools[serve]'"
    given = "waitress and whitenoise, which serve it, are missing"
    return MissingExtraError(message("netcl market serve", given, "", remedy))
