"""A plugin's hooks: taken up, refused with a code, and called. Only this one knows pluggy.

Each plugin's hooks are called on their own, so that what one raises stays its own, and in
the order of the plugins' names. What a marker can ask of pluggy beyond that would mean nothing,
and is refused: wrappers around the hooks of others, tryfirst and trylast.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, final

import pluggy

from netcl_core import hookspecs
from netcl_core.errors import PluginError, message
from netcl_core.plugins.failures import plugin_error, said
from netcl_core.plugins.plugin import Plugin

_UNSERVED: Final = ("wrapper", "hookwrapper", "tryfirst", "trylast")
_manager: Final = pluggy.PluginManager(hookspecs.PROJECT)
_manager.add_hookspecs(hookspecs)


@final
@dataclass(frozen=True, slots=True)
class PluginHook:
    """One hook of one plugin.

    A call takes all arguments of the hook by name, and gives the plugin's function those that it
    has, as pluggy does: it may leave some out. Beyond pluggy, one with a default is given, too.
    """

    implementation: pluggy.HookImpl

    @property
    def optional(self) -> bool:
        """Whether a core that does not have the hook may pass over it."""
        return bool(self.implementation.optionalhook)

    def __call__(self, **arguments: Any) -> Any:
        """What the plugin's function returns."""
        needed = [arguments[name] for name in self.implementation.argnames]
        optional = {
            name: arguments[name] for name in self.implementation.kwargnames if name in arguments
        }
        return self.implementation.function(*needed, **optional)


def take_up(who: str, name: str, loaded: Any) -> Mapping[str, PluginHook]:
    """Enter a plugin's object or module under a name; returns its hooks by their names.

    Raises PluginError with a code, or pluggy's error, and then leaves nothing behind.
    """
    try:
        try:
            _manager.register(loaded, name)
        except pluggy.PluginValidationError as error:
            error.code = "NP304"  # type: ignore[attr-defined]
            raise
        return _hooks(who, loaded)
    except BaseException:
        if _manager.get_plugin(name) is loaded:  # pluggy keeps what it half registered
            _manager.unregister(loaded)
        raise


def drop(loaded: Any) -> None:
    """Forget the hooks of a plugin's object or module."""
    _manager.unregister(loaded)


def hook_of(loaded: Any, name: str) -> PluginHook | None:
    """The hook of that name of an object or module that was taken up, or None."""
    for implementation in getattr(_manager.hook, name).get_hookimpls():
        if implementation.plugin is loaded:
            return PluginHook(implementation)
    return None


def _hooks(who: str, loaded: Any) -> Mapping[str, PluginHook]:
    hooks: dict[str, PluginHook] = {}
    marked = list(_marked(loaded))
    for name, hook in marked:
        if name in hookspecs.HOOKS or not hook.optional:
            _check_marker(who, name, hook.implementation, name in hooks)
            hooks[name] = hook
    wrong = sorted(name for name in hooks if name not in hookspecs.HOOKS)
    wrong += _unmarked(loaded, [hook.implementation.function for _, hook in marked])
    if wrong:
        raise _wrong_hook(who, wrong[0])
    if not marked:
        text = message(
            who,
            f"the plugin {loaded!r} has no hooks",
            "at least one method marked with @hookimpl",
            "Import the marker with: from netcl_core import hookimpl",
        )
        raise plugin_error("NP303", text)
    return hooks


def _marked(loaded: Any) -> Iterator[tuple[str, PluginHook]]:
    """Every marked function, with the name of the hook that it is for."""
    for caller in _manager.get_hookcallers(loaded) or []:
        for implementation in caller.get_hookimpls():
            if implementation.plugin is loaded:
                yield caller.name, PluginHook(implementation)


def _unmarked(loaded: Any, marked: Sequence[Any]) -> list[str]:
    """The names of functions that are named like a hook, and are none of the marked ones."""
    members = inspect.getmembers(loaded, inspect.isroutine)
    return [
        name for name, routine in members if name.startswith("netcl_") and routine not in marked
    ]


def _check_marker(who: str, name: str, implementation: pluggy.HookImpl, again: bool) -> None:
    """Raise PluginError for what a marker asks and netcl does not do."""
    options = [f"{option}=True" for option in _UNSERVED if getattr(implementation, option, False)]
    if options or again:
        given = f"marks {name} with {', '.join(options)}" if options else f"has {name} twice"
        text = message(
            who,
            f"it {given}",
            "one plain function for each hook",
            "Each plugin's hooks are called on their own, so no plugin goes before another "
            "or around it: mark it with @hookimpl alone",
        )
        raise plugin_error("NP314", text)


def _wrong_hook(who: str, name: str) -> PluginError:
    known = name in hookspecs.HOOKS
    close = get_close_matches(name, hookspecs.HOOKS, n=1)
    hint = f"Did you mean {close[0]}?" if close and not known else ""
    text = message(
        who,
        f"{name!r} is no hook of netcl, or is not marked",
        "functions that are named after a hook and marked with netcl_core.hookimpl",
        hint or "Put @hookimpl above it: from netcl_core import hookimpl",
    )
    return plugin_error("NP302" if known else "NP301", text)


# -- asked: whatever a hook does or raises is its plugin's own, and the others go on -------

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
