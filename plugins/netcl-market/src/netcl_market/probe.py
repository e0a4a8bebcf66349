"""Loads all plugins in a child process, which survives none of them that ends the interpreter.

An exception is caught where a plugin is loaded; a crash in native code, `os._exit`
or an endless loop is not. So a child loads everything and notes before each plugin
which one it is: the last note of a child that died names the culprit. It is remembered,
left out, and the rest is tried by the next child.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_core.inspect.data import Scratch
from netcl_core.plugins.protocol import Plugin
from netcl_market import child_processes
from netcl_market.states import DEADLY, States
from netcl_market.survey import survey

SECONDS: Final = 60.0
_DONE: Final = "done"
_CHILD: Final = """
import json, sys
given = json.loads(sys.argv[1])
sys.path[:] = given["path"]
from netcl_core.plugins.protocol import rehearse
with open(given["notes"], "a", encoding="utf-8") as notes:
    def note(text):
        print(text, file=notes, flush=True)
    rehearse(lambda plugin: note(plugin.key), given["skip"])
    note("done")
"""


@final
@dataclass(frozen=True, slots=True)
class Death:
    """A plugin that a child did not survive."""

    plugin: str
    distribution: str
    code: str
    reason: str


def probe(seconds: float = SECONDS) -> list[Death]:
    """Load all plugins in child processes; returns those that no child survives.

    They are remembered, so that no process imports them again; those that once were
    deadly and now load are forgotten. `seconds` is the limit for each child.
    """
    states = States()
    plugins = {plugin.key: plugin for plugin in survey(states)}
    skip: list[str] = []
    deaths: list[Death] = []
    last = ""
    while last != _DONE:
        last, code, reason = _child(skip, seconds)
        if last == _DONE:
            break
        plugin = plugins.get(last)
        if plugin is None or last in skip:  # it died before the first plugin, or is not ours
            deaths.append(Death("", "", code, f"the child process for plugins: {reason}"))
            break
        assert plugin.source is not None  # it was found installed
        skip.append(last)
        deaths.append(Death(plugin.name, plugin.distribution, code, reason))
        states.put(plugin.source, plugin.group, plugin.name, code, reason)
    for plugin in plugins.values() if last == _DONE else ():
        if plugin.code in DEADLY and plugin.key not in skip:
            _forget(plugin, states)
    states.save()
    return deaths


def _forget(plugin: Plugin, states: States) -> None:
    assert plugin.source is not None  # it was found installed
    states.clear(plugin.source, plugin.group, plugin.name)


def _child(skip: list[str], seconds: float) -> tuple[str, str, str]:
    """The last note of a child, and the code and reason of its end."""
    with Scratch("trial") as folder:
        notes = Path(folder) / "notes"
        notes.touch()
        given: dict[str, Any] = {
            "path": sys.path,
            "notes": str(notes),
            "skip": skip,
        }
        code, reason = "NP208", ""
        try:
            done = child_processes.run(
                [sys.executable, "-I", "-c", _CHILD, json.dumps(given)],
                seconds,
                shut_in=False,
                stdout=subprocess.DEVNULL,  # no pipe, which a grandchild could keep open
                stderr=subprocess.DEVNULL,
            )
            reason = f"it ended the interpreter ({child_processes.ended(done.returncode)})"
        except subprocess.TimeoutExpired:
            code, reason = "NP209", f"it did not finish loading within {seconds:g} s"
        lines = notes.read_text(encoding="utf-8").splitlines()
    return (lines[-1] if lines else ""), code, reason
