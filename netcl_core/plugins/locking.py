"""Holds what is installed against the lock file, and lets its choices decide."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from netcl_core import config
from netcl_core.errors import PluginError
from netcl_core.plugins import complaints
from netcl_core.plugins.market.failures import FAILURES, plugin_error
from netcl_core.plugins.market.finding import Distribution
from netcl_core.plugins.market.lock import Lock, find
from netcl_core.plugins.market.lock_verification import NOTES, verify
from netcl_core.plugins.registry import registry

_unlocked: Final[list[None]] = []


@final
@dataclass(frozen=True, slots=True)
class LockFit:
    """How what is installed fits the lock file.

    Attributes:
        lock: None if the file cannot be read.
        differences: One text for each.
        fits: Whether none of them is more than a note.
    """

    path: Path
    lock: Lock | None
    differences: tuple[str, ...]
    fits: bool


@contextlib.contextmanager
def unlocked() -> Iterator[None]:
    """A block in which the lock file counts nothing, in the whole process.

    For what writes and checks the lock: plugins that are loaded inside are not held
    against it, and its choices do not decide.
    """
    with registry.lock:
        choices, loader = registry.choices, registry.loader
        _unlocked.append(None)
        registry.hold_to(None)
        try:
            yield
        finally:
            _unlocked.pop()
            registry.hold_to(choices)
            registry.loader = loader  # what was loaded meanwhile is verified on the next use


def hold(installed: Iterable[Distribution]) -> None:
    """Verify what is installed, and let the lock file decide between candidates from now on.

    Warns of what does not fit, once. Raises PluginError NP509 instead if a setting says so;
    a plugin that the lock does not know is a warning in any case.
    """
    if _unlocked or not config.get("plugins-autoload"):
        return
    found = verdict(installed)
    if found is not None:
        _complain(found)
    registry.hold_to(None if found is None else found.lock)


def verdict(installed: Iterable[Distribution]) -> LockFit | None:
    """How what is installed fits the lock file of the working directory; None if there is none."""
    path = find()
    if path is None:
        return None
    try:
        lock, differences = verify(path, installed)
    except PluginError as error:
        return LockFit(path, None, (f"{error.code}: {error}",), False)
    fits = all(each.code in NOTES for each in differences)
    return LockFit(path, lock, tuple(map(str, differences)), fits)


def _complain(found: LockFit) -> None:
    lines = [f"- {each}" for each in found.differences]
    text = "\n".join([f"{found.path} does not fit what is installed:", *lines])
    if not found.fits and (config.get("lock-strict") or config.get("plugins-strict")):
        raise plugin_error("NP509", f"NP509: {text}\n{FAILURES['NP509'].remedy}")
    complaints.tell([text] if lines else ())
