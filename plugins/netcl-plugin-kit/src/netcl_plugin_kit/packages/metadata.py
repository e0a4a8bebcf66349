"""What a wheel's METADATA says, as text that is safe to show: no control characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, final
from urllib.parse import urlsplit

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from netcl_core.errors import PluginError
from netcl_plugin_kit.packages.wheel_archive import refusal

_CONTROLS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_LINK_SCHEMES: Final = {"http", "https", "mailto"}


@final
@dataclass(frozen=True, slots=True)
class Metadata:
    """The fields that the catalogue shows.

    Attributes:
        version: In PEP 440's normal form.
        requirements: Every line `Requires-Dist`.
        requires: The same as text, without those of extras.
        links: (label, URL); only web and mail addresses.
        readme: The long description; `readme_type` is `text/markdown`, `text/x-rst` or plain.
    """

    name: str
    version: str
    summary: str = ""
    licence: str = ""
    authors: str = ""
    requires_python: str = ""
    requirements: tuple[Requirement, ...] = ()
    requires: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    readme: str = ""
    readme_type: str = "text/plain"


def read_metadata(raw: bytes) -> Metadata:
    """Read METADATA; raises PluginError for a version or a requirement that pip refuses, too."""
    fields, unread = _parsed(raw)
    python = fields.get("requires_python", "")
    requires = tuple(fields.get("requires_dist", ()))
    try:
        version = str(Version(fields["version"]))
        SpecifierSet(python)
        requirements = tuple(map(_requirement, requires))
    except ValueError as error:  # packaging's own are among them
        raise _refusal(str(error), "what packaging can read") from error
    authors = [fields.get("author", ""), fields.get("author_email", "")]
    kind = fields.get("description_content_type", "text/plain").partition(";")[0].strip()
    readme = fields.get("description") or "".join(unread.get("description", ()))
    return Metadata(
        name=clean(fields["name"]),
        version=version,
        summary=clean_line(fields.get("summary", "")),
        licence=clean_line(fields.get("license_expression") or fields.get("license", "")),
        authors=clean_line(", ".join(filter(None, authors))),
        requires_python=clean_line(python),
        requirements=requirements,
        requires=tuple(
            clean_line(text)
            for text, requirement in zip(requires, requirements, strict=True)
            if not is_extra(requirement)
        ),
        links=tuple(_links(fields)),
        readme=clean(readme),
        readme_type=kind.lower(),
    )


def name_and_version(raw: bytes) -> tuple[str, str]:
    """The two fields that every METADATA has, as they stand there; raises PluginError if not."""
    fields, _ = _parsed(raw)
    return fields["name"], fields["version"]


def _requirement(text: str) -> Requirement:
    requirement = Requirement(text)
    if requirement.marker is not None:
        requirement.marker.evaluate({"extra": ""})  # what cannot be compared is noticed only so
    return requirement


def _parsed(raw: bytes) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """The fields, and those that are not as they have to be.

    Raises PluginError without name and version, and if the body is no text.
    """
    try:
        fields, unread = parse_email(raw)
    except AssertionError:  # of packaging before 26.3, about a body of several parts
        body: list[Any] = [None]
    else:
        body = list(unread.get("description", ()))
    if not all(isinstance(part, str) for part in body):
        raise _refusal("a body that is no text", "UTF-8 text")
    metadata: dict[str, Any] = dict(fields)
    if "name" not in metadata or "version" not in metadata:
        raise _refusal("no name or no version", "both")
    return metadata, unread


def clean(text: str) -> str:
    """A text without control characters, half surrogates and marks that reverse its direction."""
    return _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def clean_line(text: str) -> str:
    """The same in one line."""
    return " ".join(clean(text).split())


def is_extra(requirement: Requirement) -> bool:
    """Whether something is needed only by an extra."""
    marker = requirement.marker
    return marker is not None and "extra" in str(marker)


def _links(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    urls = dict(fields.get("project_urls", {}))
    if "home_page" in fields:
        urls.setdefault("Homepage", fields["home_page"])
    for label, url in urls.items():
        if is_web_address(url):
            yield clean_line(label), clean_line(url)


def is_web_address(url: str) -> bool:
    """Whether a link may be followed: no script, no file, nothing that cannot be read."""
    try:
        return urlsplit(url.strip()).scheme.lower() in _LINK_SCHEMES
    except ValueError:
        return False


def _refusal(given: str, expected: str) -> PluginError:
    return refusal(given, expected, who="the wheel's METADATA")
