"""What is signed of a file, and whether an envelope beside a wheel is its owner's."""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from netcl_market.file_digests import whole
from netcl_market.installed import of_this_machine
from netcl_market.owners import Owners, read_owners
from netcl_market.signing import CHECK, SUFFIX, WHEEL, Statement, sign, verify
from netcl_market.signing import new_key as new_key
from netcl_plugin_kit.packages.wheel import Wheel, read_wheel
from netcl_plugin_kit.packages.wheel_archive import opened
from netcl_plugin_kit.testing.records import CheckRecord, from_json

from netcl_core.errors import NetclError, RecordError, message
from netcl_core.files import write_whole

#: Where an installer puts files of a wheel that lie in a folder of their own there.
_DATA: Final = re.compile(r"[^/]+\.data/(?:purelib|platlib)/(.+)")
_ELSEWHERE: Final = re.compile(r"[^/]+\.data/")


def statement_of(path: Path) -> Statement:
    """What is to be signed of a wheel or of the record of a check.

    Raises PluginError for a wheel that cannot be read, RecordError for a record that is none or
    does not say which wheel was checked.
    """
    if path.suffix == ".whl":
        wheel = read_wheel(path)
        content = {"name": wheel.name, "version": str(wheel.version), "files": files_digest(path)}
        return Statement(wheel.file, wheel.sha256, WHEEL, content)
    try:
        record = from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(message(str(path), str(error), "a wheel or a record")) from error
    if not record.wheel_sha256:
        remedy = "Check the wheel: netcl plugins check FILE.whl --level full --out RECORD.json"
        given = "the record does not say which wheel was checked"
        raise RecordError(message(str(path), given, "the digest of one", remedy))
    return Statement(
        f"{record.plugin}-{record.version}", record.wheel_sha256, CHECK, record.as_json()
    )


def files_digest(path: Path) -> str:
    """The digest that a lock has of all files of a wheel, wherever pip installs it."""
    with opened(path) as archive:
        archive.insist_on_names()
        rows = [(place, archive.digest(name)) for name, place in _installed(archive.files)]
    return whole([(place, _hexadecimal(digest)) for place, digest in rows])


def _hexadecimal(digest: str) -> str:
    """A digest of RECORD as a lock has it."""
    return urlsafe_b64decode(f"{digest.removeprefix('sha256=')}=").hex()


def _installed(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Where the files of a wheel lie when it is installed, but for those of the machine."""
    for name in names:
        moved = _DATA.fullmatch(name)
        place = moved[1] if moved else name
        if (moved or not _ELSEWHERE.match(name)) and not of_this_machine(place):
            yield name, place


def signed_by(wheel: Wheel, owners: Owners) -> str:
    """The public key by which the envelope beside a wheel is signed; raises RecordError if none."""
    if not owners.keys_of(wheel.name):
        raise RecordError(
            message(wheel.file, "the owners file gives its name to nobody", "an owner")
        )
    statement, key = verify(_envelope(wheel.path), owners.keys_of(wheel.name))
    given = (statement.kind, statement.name, statement.sha256, statement.content.get("name"))
    if given != (WHEEL, wheel.file, wheel.sha256, wheel.name):
        text = f"its envelope is of {statement.name} ({statement.sha256[:12]})"
        raise RecordError(message(wheel.file, text, f"one of this file ({wheel.sha256[:12]})"))
    return key


def record_in(envelope: bytes, owners: Owners) -> CheckRecord:
    """The record in an envelope that one of the checkers has signed; raises RecordError."""
    statement, _ = verify(envelope, owners.keys_of_checkers)
    if statement.kind != CHECK:
        raise RecordError(message("record", f"a statement {statement.kind!r:.80}", CHECK))
    record = from_json(statement.content)
    if not record.wheel_sha256 or record.wheel_sha256 != statement.sha256:
        raise RecordError(message("record", "it is of another wheel than its envelope", "the same"))
    return record


def sign_file(file: Path, key: Path) -> Path:
    """Sign a file with a private key, and write the envelope beside it; returns its path."""
    target = file.with_name(file.name + SUFFIX)
    write_whole(target, sign(statement_of(file), key).encode())
    return target


def verified(files: Iterable[Path], owners: Path) -> list[dict[str, str]]:
    """For each wheel, and record in an envelope: `file`, `by` whom it is signed, the `problem`."""
    known = read_owners(owners)
    return [_verified(file, known) for file in files]


def _verified(file: Path, owners: Owners) -> dict[str, str]:
    row = {"file": str(file), "by": "", "problem": ""}
    try:
        if file.suffix == ".whl":
            key = signed_by(read_wheel(file), owners)
        else:
            data = file.read_bytes()
            record_in(data, owners)
            key = verify(data, owners.keys_of_checkers)[1]
        row["by"] = owners.who(key)
    except NetclError as error:
        row["problem"] = str(error)
    return row


def _envelope(path: Path) -> bytes:
    beside = path.with_name(path.name + SUFFIX)
    try:
        return beside.read_bytes()
    except OSError as error:
        remedy = f"Sign it: netcl market sign {path.name} --key KEY"
        given = f"there is no {beside.name} ({error.strerror})"
        raise RecordError(message(path.name, given, "its envelope beside it", remedy)) from error
