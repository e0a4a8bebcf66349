"""Holds what is installed against the lock file, and lets its choices decide."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from netcl_core import config
from netcl_core.errors import PluginError, PluginWarning
from netcl_core.market.failures import FAILURES, plugin_error
from netcl_core.market.finding import Distribution
from netcl_core.market.lock import find
from netcl_core.market.verification import NOTES, verify
from netcl_core.registry import registry

#: What does not fit, by the lock file that was held against; empty if there is none.
misfits: Final[dict[Path, tuple[str, ...]]] = {}
_told: Final[set[str]] = set()
_unlocked: Final[list[None]] = []


@contextlib.contextmanager
def unlocked() -> Iterator[None]:
    """See `netcl_core.plugins.unlocked`."""
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
    misfits.clear()
    path, lock = find(), None
    if path is not None:
        try:
            lock, differences = verify(path, installed)
        except PluginError as error:
            misfits[path], wrong = (f"{error.code}: {error}",), True
        else:
            misfits[path] = tuple(map(str, differences))
            wrong = any(each.code not in NOTES for each in differences)
        _complain(path, misfits[path], wrong)
    registry.hold_to(lock)


def _complain(path: Path, found: tuple[str, ...], wrong: bool) -> None:
    text = "\n".join([f"{path} does not fit what is installed:", *(f"- {each}" for each in found)])
    if wrong and (config.get("lock-strict") or config.get("plugins-strict")):
        raise plugin_error("NP509", f"NP509: {text}\n{FAILURES['NP509'].remedy}")
    if found and text not in _told:  # once, also for those who turn warnings into errors
        _told.add(text)
        warnings.warn(text, PluginWarning, stacklevel=2)
