"""The commands that plugins add to `netcl`: whose they are, and who is refused."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, TypeAlias

from netcl_core.errors import PluginError, message
from netcl_core.plugins import catalogue, loading, plugin_warnings
from netcl_core.plugins.hooks import ask
from netcl_core.plugins.kinds import KINDS
from netcl_core.plugins.plugin import Plugin
from netcl_core.plugins.registry import ambiguous, registry
from netcl_core.plugins.resolution import Decision, Offer, canonical, decide

_KIND: Final = KINDS["command"]
_WORD: Final = re.compile(r"\w[\w-]*")
#: Who adds a command, and the command.
_Claim: TypeAlias = tuple[Plugin, Any]


def plugin_commands(
    of: Sequence[Plugin] | None = None, taken: Collection[str] = ()
) -> dict[str, Any]:
    """The click commands that plugins add to `netcl`; a failing hook adds none, with a warning.

    >>> "plugins check" in nc.plugins.plugin_commands()
    True

    A command of a group stands below both names, such as `"plugins lock"`. One that several
    distributions add is decided as an op is; where nothing decides, the error that names them
    stands in the place of the command.

    Args:
        of: Only the commands of these plugins.
        taken: Names that are netcl's own.
    """
    served = {name: _served(name, claims, taken) for name, claims in _claims(of).items()}
    return {name: command for name, command in served.items() if command is not None}


def decision_on(name: str) -> tuple[list[Offer], Decision]:
    """Who offers a command, and what is decided about it."""
    return _decided(name, _claims(None).get(name, []))


def command_providers() -> Iterator[tuple[str, str]]:
    """Every command that somebody has, and the distribution that brings it."""
    for name, claims in _claims(None).items():
        winner = _decided(name, claims)[1].winner
        if winner is not None:
            yield name, winner.provider


def _claims(of: Sequence[Plugin] | None) -> dict[str, list[_Claim]]:
    """Every command by its name, with all plugins that add it."""
    claims: dict[str, list[_Claim]] = {}
    for plugin, hook in loading.implementing(_KIND.hook, (_KIND.name,)):
        if of is not None and plugin not in of:
            continue
        added: dict[str, Any] = {}
        add = functools.partial(_add_command, added)
        problem = ask(plugin, functools.partial(hook, add_command=add))[1]
        if problem:
            plugin_warnings.complain(plugin, f"has no commands ({problem})")
            continue
        for name, command in added.items():
            claims.setdefault(name, []).append((plugin, command))
    return claims


def _add_command(into: dict[str, Any], command: Any, *, group: str = "") -> None:
    own = getattr(command, "name", None)
    if not isinstance(own, str) or not _WORD.fullmatch(own):
        given = f"the command {command!r:.60} has the name {own!r:.60}"
        raise PluginError(message("add_command", given, "one word"))
    name = f"{group} {own}".strip()
    if name in into:
        raise PluginError(message("add_command", f"{name!r} twice", "each command once"))
    into[name] = command


def _served(name: str, claims: Sequence[_Claim], taken: Collection[str]) -> Any:
    """The command of a name; None if it is netcl's own."""
    if name in taken:
        for plugin, _ in claims:
            _refuse(plugin, name, "netcl's own")
        return None
    if len(claims) == 1:
        return claims[0][1]
    offers, decision = _decided(name, claims)
    if decision.winner is None:
        return ambiguous(name, decision.tied)
    for (plugin, _), offer in zip(claims, offers, strict=True):
        if offer is not decision.winner:
            _refuse(plugin, name, f"that of {decision.winner.provider} ({decision.rule})")
    return decision.winner.item


def _decided(name: str, claims: Sequence[_Claim]) -> tuple[list[Offer], Decision]:
    """Who brings a command by the catalogue goes before who does not."""
    owner = catalogue.providers(_KIND.name).get(name)
    offers = [
        Offer(
            plugin.distribution,
            name,
            _KIND.name,
            int(canonical(plugin.distribution) == owner),
            command,
            plugin.key,
        )
        for plugin, command in claims
    ]
    return offers, decide(name, offers, locked=registry.locked(_KIND.lock_key(name)))


def _refuse(plugin: Plugin, name: str, whose: str) -> None:
    plugin_warnings.complain(plugin, f"does not get the command {name!r}, which is {whose}")
