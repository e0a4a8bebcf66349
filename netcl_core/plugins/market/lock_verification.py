"""Compares a lock file with what is installed, whose RECORDs are hashed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from netcl_core import config
from netcl_core.plugins.market.failures import FAILURES
from netcl_core.plugins.market.file_memory import FileMemory
from netcl_core.plugins.market.finding import Distribution
from netcl_core.plugins.market.installed import Installed, by_name, core
from netcl_core.plugins.market.lock import Lock, Pin, read

#: What is said but does not count as a misfit: all that the lock holds is still there.
NOTES: Final = frozenset({"NP506"})


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


def verify(path: Path, distributions: Iterable[Distribution]) -> tuple[Lock, list[Difference]]:
    """The lock in a file, and how it differs from what is installed.

    Nothing is hashed twice. Raises PluginError as `lock.read` does.
    """
    memory = FileMemory(config.plugin_memory("records.json"))
    lock = read(path)
    found = compare(lock, core(), by_name(distributions), partial(_digest, memory))
    memory.save()
    return lock, found


def _digest(memory: FileMemory, one: Installed) -> str:
    """`Installed.record_digest`, remembered while RECORD stays as it is."""
    path = one.record_path
    return one.record_digest() if path is None else memory.recall(path, one.record_digest, _text)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a digest of ours")
    return value


def compare(
    lock: Lock,
    own: Installed,
    installed: Mapping[str, Installed],
    digest_of: Callable[[Installed], str] = Installed.record_digest,
) -> list[Difference]:
    """How what is installed differs from a lock; editable ones are compared by version only."""
    found = list(_of_pin(own, lock.core, digest_of))
    for name, pin in sorted(lock.plugins.items()):
        there = installed.get(name)
        if there is None:
            text = f"locked is {pin.version}, and it is not installed"
            found.append(Difference("NP503", name, text))
        else:
            found += _of_pin(there, pin, digest_of)
    for name in sorted(installed.keys() - lock.plugins.keys()):
        text = f"{installed[name].version} is installed, and the lock file does not know it"
        found.append(Difference("NP506", name, text))
    return found


def _of_pin(
    there: Installed, pin: Pin, digest_of: Callable[[Installed], str]
) -> Iterable[Difference]:
    if there.version != pin.version:
        text = f"{there.version} is installed, locked is {pin.version}"
        yield Difference("NP504", there.name, text)
    elif not pin.editable and digest_of(there) != pin.record:
        how = "installed as editable, so that its files can be any" if there.editable else ""
        text = how or f"the files of {there.version} are others than those that were locked"
        yield Difference("NP505", there.name, text)
