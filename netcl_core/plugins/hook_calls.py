"""Asks a plugin's hook something: whatever it does or raises is its own, and the others go on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from netcl_core.plugins.failures import said
from netcl_core.plugins.plugin import Plugin

#: How long a hook may take.
SECONDS: Final = 10.0
#: Plugins one of whose hooks did not return: they are asked no more in this process.
_endless: Final[set[str]] = set()


def ask(plugin: Plugin, question: Callable[[], Any], seconds: float = SECONDS) -> tuple[Any, str]:
    """Call a function of a plugin; returns (its result, "") or (None, the reason for its failure).

    The function runs in a thread of its own. A KeyboardInterrupt that it raises is not mistaken
    for the user's Ctrl-C. If it does not return in time, the thread is left to itself.
    """
    answers: list[tuple[Any, str]] = []

    def run() -> None:
        try:
            answers.append((question(), ""))
        except BaseException as error:
            answers.append((None, said(error)))

    late = f"it did not return within {seconds:g} s"
    if plugin.key in _endless:
        return None, late
    thread = threading.Thread(target=run, name=f"netcl asks {plugin.id}", daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    _endless.add(plugin.key)
    return None, late
