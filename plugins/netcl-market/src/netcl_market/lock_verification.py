"""Compares a lock file with what is installed; files that have not changed are not read again."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from netcl_core import config
from netcl_core.plugins.protocol import lock_is_strict
from netcl_market.failures import FAILURES
from netcl_market.file_digests import MISSING, Receipts, files_in, whole
from netcl_market.finding import InstalledDistribution
from netcl_market.installed import Installed, Places, by_name, core, recorded
from netcl_market.lock import Lock, Pin, read
from netcl_market.sealed import Sealed

#: What is said but does not count as a misfit: all that the lock holds is still there.
NOTES: Final = frozenset({"NP506"})
_MOST: Final = 3


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which the installation and the lock file differ; `code` says which kind."""

    code: str
    who: str
    text: str

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return FAILURES[self.code].remedy

    def __str__(self) -> str:
        return f"{self.code}: {self.who}: {self.text}. {self.remedy}"


def verify(
    path: Path, distributions: Iterable[InstalledDistribution]
) -> tuple[Lock, list[Difference], Sealed]:
    """The lock in a file, without its sources, and how it differs from what is installed.

    At last what reads the files as they were compared. Raises PluginError as `lock.read` does.
    """
    receipts = Receipts(config.plugin_memory("files.json"))
    lock = read(path, sources=False)
    strict = lock_is_strict()
    mismatches = compare(lock, core(), by_name(distributions), receipts.digest_of, strict=strict)
    receipts.save()
    sealed = receipts.sealed()
    if strict:
        for name, why in sealed.strangers():
            mismatches.append(Difference("NP505", name, f"it is imported already, {why}"))
    return lock, mismatches, sealed


def withdrawn(installed: Mapping[str, str]) -> list[Difference]:
    """What of the installed, name -> version, a market has withdrawn or warns of.

    Raises RecordError if the setting `advisories` names a file that cannot be read.
    """
    given = config.get("advisories")
    if not given:
        return []
    from netcl_market.advisories import read_advisories, warnings  # few have such a file

    rows = read_advisories(config.base_of("advisories") / given)
    return [
        Difference("NP514", name, f"{version} is installed: {row}")
        for name, version, row in warnings(rows, installed)
    ]


def digest_now(one: Installed, places: Places | None = None) -> str:
    """The digest of all files of a distribution, each read now."""
    return whole(files_in(places or one.places()).items())


def compare(
    lock: Lock,
    own: Installed,
    installed: Mapping[str, Installed],
    digest_of: Callable[[Installed, Places], str] = digest_now,
    *,
    strict: bool = False,
) -> list[Difference]:
    """How what is installed differs from a lock.

    Args:
        lock: What was locked.
        own: The core.
        installed: What brings plugins, by canonical names.
        digest_of: The digest of the files of a distribution, in their places.
        strict: Whether the files of editable installations count, and where packages would be
            imported from.
    """
    mismatches = list(_of_pin(own, lock.core, digest_of, strict))
    for name, pin in sorted(lock.plugins.items()):
        there = installed.get(name)
        if there is None:
            text = f"locked is {pin.version}, and it is not installed"
            mismatches.append(Difference("NP503", name, text))
        else:
            mismatches += _of_pin(there, pin, digest_of, strict)
    for name in sorted(installed.keys() - lock.plugins.keys()):
        text = f"{installed[name].version} is installed, and the lock file does not know it"
        mismatches.append(Difference("NP506", name, text))
    return mismatches


def _of_pin(
    there: Installed, pin: Pin, digest_of: Callable[[Installed, Places], str], strict: bool
) -> Iterable[Difference]:
    if there.version != pin.version:
        text = f"{there.version} is installed, locked is {pin.version}"
        yield Difference("NP504", there.name, text)
        return
    if pin.editable and not strict:
        return
    if there.editable != pin.editable:
        how = ("not editable", "editable")
        now, locked = how[there.editable], how[pin.editable]
        yield Difference("NP505", there.name, f"its installation is {now}, locked is {locked}")
        return
    places = there.places()
    if strict and not there.editable and (shadowed := places.shadowed):
        yield Difference("NP505", there.name, shadowed)
    elif digest_of(there, places) != pin.files:
        named = ", ".join(_changed(there, places))
        text = f"the files of {there.version} are others than those that were locked"
        yield Difference("NP505", there.name, f"{text} ({named})" if named else text)


def _changed(one: Installed, places: Places) -> Iterator[str]:
    """Some files that are not as RECORD lists them, if that is so."""
    listed, now = recorded(one.record or ""), files_in(places) if one.record else {}
    wrong = [name for name in sorted(now) if _as_recorded(now[name]) != listed.get(name)]
    yield from wrong[:_MOST]
    if len(wrong) > _MOST:
        yield f"and {len(wrong) - _MOST} more"


def _as_recorded(digest: str) -> str:
    """A digest as RECORD writes it."""
    if digest == MISSING:
        return digest
    return "sha256=" + urlsafe_b64encode(bytes.fromhex(digest)).decode().rstrip("=")
