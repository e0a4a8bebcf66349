"""What the doctor reports of plugins: failures, the lock, and what they say of themselves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import netcl_core as nc
from netcl_core import config
from netcl_core.errors import RecordError, plain
from netcl_core.plugins.protocol import Plugin, ask, implementing, lock_is_strict
from netcl_market import locking
from netcl_market.lock_verification import withdrawn


def doctor_checks() -> Sequence[tuple[str, bool, str]]:
    """One row per check: its name, whether all is well, and a text.

    Also where a strict lock file does not fit: that is a finding, and loads the plugins all
    the same.
    """
    with nc.plugins.unlocked(strangers=False):
        plugins = nc.plugins.list()
        return [*_failures(plugins), *_withdrawn(plugins), *_lock(plugins), *_reports()]


def _failures(plugins: Sequence[Plugin]) -> Iterable[tuple[str, bool, str]]:
    for plugin in plugins:
        if plugin.failed:
            text = f"{plugin.code}: {plugin.reason.rstrip('.')}. {plugin.remedy}"
            yield f"plugin {plugin.name} of {plugin.distribution}", False, text


def _withdrawn(plugins: Sequence[Plugin]) -> Iterable[tuple[str, bool, str]]:
    """Whether a market has withdrawn any of what is installed."""
    if not config.get("advisories"):
        return
    try:
        advisories = withdrawn({plugin.distribution: plugin.version for plugin in plugins})
    except RecordError as error:
        yield "advisories", False, str(error)
        return
    text = "\n".join(map(str, advisories)) or "none of what is installed"
    yield "advisories", not advisories, text


def _lock(plugins: Sequence[Plugin]) -> Iterable[tuple[str, bool, str]]:
    """Whether what is installed fits the lock file."""
    installed = [plugin.source for plugin in plugins if plugin.source is not None]
    fit = locking.verdict(installed) if config.get("plugins-autoload") else None
    if fit is None:
        return
    chosen = fit.lock if lock_is_strict() else None
    missing = [] if chosen is None else locking.lacking(chosen, plugins)
    text = "\n".join([*fit.differences, *missing]) or f"{fit.path} fits"
    yield "lock file", fit.fits and not missing, text


def _reports() -> Iterable[tuple[str, bool, str]]:
    """What the hook `netcl_doctor` returns; that it returns nothing is a finding."""
    for plugin, hook in implementing("netcl_doctor"):
        rows, problem = ask(plugin, functools.partial(_report, plugin.name, hook))
        yield from rows if not problem else [(f"plugin {plugin.name}", False, problem)]


def _report(plugin: str, hook: Callable[[], Any]) -> Sequence[tuple[str, bool, str]]:
    return [(f"{plugin}: {name}", bool(ok), plain(str(text))) for name, ok, text in hook()]
