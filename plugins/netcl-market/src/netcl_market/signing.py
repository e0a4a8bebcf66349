"""Signatures of wheels and of records of checks: who made them, by an Ed25519 key.

What is signed is an in-toto statement in a DSSE envelope, as the attestations of package indexes
are, so that a sigstore bundle can stand in the same place. securesystemslib makes and verifies
both; it comes with `pip install 'netcl-market[sign]'`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, final

from netcl_core.errors import MissingExtraError, RecordError, message
from netcl_market import records

#: What a file's envelope is named: the file's name and this.
SUFFIX: Final = ".dsse.json"
#: What a statement says of its subject: that it is a release, or what a check of it found.
WHEEL: Final = "urn:netcl:wheel:1"
CHECK: Final = "urn:netcl:check:1"
_PAYLOAD: Final = "application/vnd.in-toto+json"
_STATEMENT: Final = "https://in-toto.io/Statement/v1"
_LONGEST: Final = 64 << 20


@final
@dataclass(frozen=True, slots=True)
class Statement:
    """What is said of one wheel.

    Attributes:
        name: The file's name.
        sha256: Its digest.
        kind: `WHEEL` or `CHECK`.
        content: Of a wheel its `name`, `version` and `files` (the digest that a lock has of it),
            of a check its record.
    """

    name: str
    sha256: str
    kind: str
    content: Mapping[str, Any]


def new_key(path: Path) -> str:
    """Write a new private key into a file that is its owner's alone; returns the public one.

    Raises FileExistsError rather than replace a file.
    """
    signer = _library("signer").CryptoSigner.generate_ed25519()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(signer.private_bytes)
    return str(signer.public_key.keyval["public"])


def public_of(key: Path) -> str:
    """The public key of the private one in a file."""
    return str(_signer(key).public_key.keyval["public"])


def sign(statement: Statement, key: Path) -> str:
    """The envelope of a statement, signed with the private key in a file, as JSON."""
    subject = {"name": statement.name, "digest": {"sha256": statement.sha256}}
    said = {
        "_type": _STATEMENT,
        "subject": [subject],
        "predicateType": statement.kind,
        "predicate": statement.content,
    }
    payload = json.dumps(said, ensure_ascii=False).encode()
    envelope = _library("dsse").Envelope(payload, _PAYLOAD, {})
    envelope.sign(_signer(key))
    return json.dumps(envelope.to_dict(), indent=1) + "\n"


def verify(envelope: bytes, keys: Iterable[str]) -> tuple[Statement, str]:
    """The statement in an envelope, and the public key of those given that has signed it.

    Raises RecordError if it is none, or none of these keys has signed it.
    """
    dsse, public = _library("dsse"), {key: _public(key) for key in keys}
    try:
        if len(envelope) > _LONGEST:
            raise ValueError(f"{len(envelope)} bytes")
        opened = dsse.Envelope.from_dict(json.loads(envelope))
        if opened.payload_type != _PAYLOAD:
            raise ValueError(f"a payload of type {opened.payload_type!r:.80}")
    except Exception as error:  # the library raises what a wrong type leads to
        text = f"it is no envelope ({type(error).__name__}: {error})"
        raise _refused(text, "what `netcl market sign` wrote") from error
    unverified = _library("exceptions").UnverifiedSignatureError
    for key, raw in public.items():
        with suppress(unverified, ValueError, TypeError):  # of a signature in other forms
            opened.verify([raw], 1)
            return _statement(opened.payload), key
    raise _refused("none of the keys that may sign it has signed it", "a listed key")


def _statement(payload: bytes) -> Statement:
    try:
        said = json.loads(payload)
        (subject,) = said["subject"]
        if said["_type"] != _STATEMENT:
            raise ValueError(f"its type is {said['_type']!r:.80}")
        row = (subject["name"], subject["digest"]["sha256"], said["predicateType"])
        fields = dict(zip(("name", "sha256", "kind"), row, strict=True))
        statement: Statement = records.read(Statement, {**fields, "content": said["predicate"]})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _refused(f"its statement: {error}", "one subject with its sha256") from error
    return statement


def _public(key: str) -> Any:
    """A public key as the library has it; raises RecordError for what is none."""
    signer = _library("signer")
    try:
        raw = bytes.fromhex(key)
        ed25519 = import_module("cryptography.hazmat.primitives.asymmetric.ed25519")
        return signer.SSlibKey.from_crypto(ed25519.Ed25519PublicKey.from_public_bytes(raw))
    except ValueError as error:
        raise _refused(f"the public key {key!r:.80}", "32 bytes in hexadecimal") from error


def _signer(key: Path) -> Any:
    signer = _library("signer")
    load = import_module("cryptography.hazmat.primitives.serialization").load_pem_private_key
    try:
        signing = signer.CryptoSigner(load(key.read_bytes(), None))
        if signing.public_key.scheme != "ed25519":
            raise ValueError(f"its scheme is {signing.public_key.scheme}")
    except (OSError, ValueError, TypeError) as error:
        raise _refused(f"{key} holds no key ({error})", "what `netcl market key` wrote") from error
    return signing


def _library(name: str) -> Any:
    try:
        import_module("cryptography")
        return import_module(f"securesystemslib.{name}")
    except ImportError as error:
        remedy = "Install it with: pip install 'netcl-market[sign]'"
        given = "securesystemslib, which makes and verifies signatures, is missing"
        raise MissingExtraError(message("netcl market", given, "", remedy)) from error


def _refused(given: str, expected: str) -> RecordError:
    return RecordError(message("signature", given, expected))
