"""Everything that can be wrong with a plugin: a code, its meaning and the remedy for each kind.

The table of docs/plugin-errors.md is written from this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from netcl_core.errors import PluginError, PrimitiveError, TemplateError

INCOMPATIBLE: Final = "incompatible"
QUARANTINED: Final = "quarantined"
PAGE: Final = "docs/plugin-errors.md"


@final
@dataclass(frozen=True, slots=True)
class FailureKind:
    """One kind of failure; `state` is what it makes of the plugin, empty if nothing."""

    code: str
    state: str
    meaning: str
    remedy: str


def _table(*rows: tuple[str, str, str, str]) -> dict[str, FailureKind]:
    return {row[0]: FailureKind(*row) for row in rows}


FAILURES: Final = _table(
    (
        "NP101",
        INCOMPATIBLE,
        "It is written for another major version of the hook API, or for a newer minor one.",
        "Install a release of the plugin, or of netcl-core, that fits the other.",
    ),
    (
        "NP102",
        INCOMPATIBLE,
        "Its distribution needs another Python (`Requires-Python`).",
        "Install a release of the plugin for this Python, or use another Python.",
    ),
    (
        "NP103",
        INCOMPATIBLE,
        "A distribution that it depends on (`Requires-Dist`) is not installed.",
        "Install what is missing; `pip check` names everything that is.",
    ),
    (
        "NP104",
        INCOMPATIBLE,
        "A distribution that it depends on is installed in a version that it does not accept.",
        "Install the plugin and what it depends on in one pip call, so that pip picks versions.",
    ),
    (
        "NP105",
        INCOMPATIBLE,
        "Its manifest is of a newer schema than this core knows.",
        "Upgrade netcl-core, or install an older release of the plugin.",
    ),
    (
        "NP110",
        QUARANTINED,
        "Its manifest is not where the entry point says, or is not valid TOML.",
        "Reinstall or upgrade the plugin; its author: ship `netcl_plugin.toml` in the package.",
    ),
    (
        "NP111",
        QUARANTINED,
        "A key of its manifest that the core needs has a value of the wrong type.",
        "Upgrade the plugin; its author: check the manifest against the JSON Schema.",
    ),
    (
        "NP112",
        QUARANTINED,
        "Its installed metadata (entry points, version, requirements) cannot be read.",
        "Reinstall the plugin.",
    ),
    (
        "NP113",
        QUARANTINED,
        "The name of its entry point is that of another plugin, which was there first by name.",
        "Uninstall one of the two; the author: rename the entry point.",
    ),
    (
        "NP114",
        QUARANTINED,
        "The name of its entry point is the prefix of the core's own templates.",
        "Its author: rename the entry point.",
    ),
    (
        "NP201",
        QUARANTINED,
        "The module that its entry point names does not exist.",
        "Reinstall the plugin; its author: correct the entry point or the package's contents.",
    ),
    (
        "NP202",
        QUARANTINED,
        "It imports a module that is not installed.",
        "Install what is missing; its author: declare it in `dependencies`.",
    ),
    (
        "NP203",
        QUARANTINED,
        "It imports a name that a module does not have.",
        "Upgrade the plugin and what the message names; its author: state the versions needed.",
    ),
    (
        "NP204",
        QUARANTINED,
        "Its source is not valid Python for this interpreter.",
        "Install a release for this Python; its author: set `requires-python`.",
    ),
    (
        "NP205",
        QUARANTINED,
        "Its module does not have the object that the entry point names.",
        "Upgrade the plugin; its author: correct the entry point.",
    ),
    (
        "NP206",
        QUARANTINED,
        "It tried to end the program while it was imported or registered.",
        "Report it to its author: a plugin raises an exception, it does not exit.",
    ),
    (
        "NP207",
        QUARANTINED,
        "It raised an exception while it was imported.",
        "Read `netcl plugins info NAME --traceback`; upgrade or repair the plugin.",
    ),
    (
        "NP208",
        QUARANTINED,
        "It ended the interpreter without an exception (a crash in native code) in a probe.",
        "Upgrade or reinstall the plugin; `netcl doctor` probes it again.",
    ),
    (
        "NP209",
        QUARANTINED,
        "It did not finish loading in a probe.",
        "Upgrade or repair the plugin; `netcl doctor` probes it again.",
    ),
    (
        "NP301",
        QUARANTINED,
        "It has a function that is named like a hook, but no hook has that name.",
        "Its author: the message says which hook may be meant.",
    ),
    (
        "NP302",
        QUARANTINED,
        "A function is named after a hook, but is not marked, or marked for another project.",
        "Its author: put `@hookimpl` from `netcl_core` above it.",
    ),
    (
        "NP303",
        QUARANTINED,
        "It has no hooks at all.",
        "Its author: mark at least one method with `@hookimpl` from `netcl_core`.",
    ),
    (
        "NP304",
        QUARANTINED,
        "A hook takes arguments that netcl does not give.",
        "Its author: use the arguments of docs/hooks.md.",
    ),
    (
        "NP305",
        QUARANTINED,
        "It registers something of the wrong type.",
        "Its author: the message says which type is wanted.",
    ),
    (
        "NP306",
        QUARANTINED,
        "It registers a name that is not an identifier.",
        "Its author: choose another name for the op.",
    ),
    (
        "NP307",
        QUARANTINED,
        "It registers one name twice.",
        "Its author: register each name once.",
    ),
    (
        "NP308",
        QUARANTINED,
        "A record is wrong: an op's C expression, arity or attributes, what a pattern matches, or "
        "a policy's rules.",
        "Its author: the message shows what is wrong.",
    ),
    (
        "NP309",
        QUARANTINED,
        "A template that it names does not exist.",
        "Reinstall the plugin; its author: ship the folder `templates` in the package.",
    ),
    (
        "NP310",
        QUARANTINED,
        "A template cannot be read or rendered.",
        "Its author: the message names the template and the line.",
    ),
    (
        "NP311",
        QUARANTINED,
        "One of its hooks raised an exception.",
        "Read `netcl plugins info NAME --traceback`; upgrade or repair the plugin.",
    ),
    (
        "NP312",
        QUARANTINED,
        "It registers an op or a namespace with a name that the core has itself.",
        "Its author: choose another name.",
    ),
    (
        "NP313",
        QUARANTINED,
        "It registers an implementation of a primitive of its own, which nothing would ever use.",
        "Its author: register an operator of that name, or leave the implementation out.",
    ),
    (
        "NP314",
        QUARANTINED,
        "A hook is marked as a wrapper, `tryfirst` or `trylast`, or stands there twice.",
        "Its author: mark one plain function for each hook with `@hookimpl`.",
    ),
    (
        "NP401",
        "",
        "Two plugins offer one op with equal priority.",
        "Choose with `nc.prefer` or `NETCL_RANK`, or uninstall one of the two.",
    ),
    (
        "NP402",
        "",
        "A choice given to `nc.prefer` names nothing that an active plugin offers.",
        "`netcl plugins why OP` shows who offers an op.",
    ),
    (
        "NP403",
        "",
        "A setting names a plugin that is not installed.",
        "Correct `NETCL_PLUGINS` or `NETCL_PLUGINS_DISABLE`; `netcl plugins list` has the names.",
    ),
    (
        "NP404",
        "",
        "`NETCL_PLUGINS_STRICT` is set and a plugin cannot be loaded.",
        "Repair what the message lists, or unset the variable.",
    ),
    (
        "NP405",
        "",
        "An implementation is of an op that is a primitive, and so is never used.",
        "Uninstall one of the two; the author: implement an operator.",
    ),
    (
        "NP501",
        "",
        "The lock file cannot be read, or is not what `netcl plugins lock` wrote.",
        "Delete it and write it again with `netcl plugins lock`, or take it from version control.",
    ),
    (
        "NP502",
        "",
        "The lock file is of a newer schema than this core knows.",
        "Upgrade netcl-core, or delete the file and write it again with `netcl plugins lock`.",
    ),
    (
        "NP503",
        "",
        "A plugin of the lock file is not installed.",
        "Install it in the locked version; `netcl plugins lock` locks what is there.",
    ),
    (
        "NP504",
        "",
        "The core or a plugin is installed in another version than the locked one.",
        "Install the locked version; `netcl plugins lock` locks what is there.",
    ),
    (
        "NP505",
        "",
        "The version is the locked one, but its files are others.",
        "Reinstall it from where the lock was made; `netcl plugins lock` locks what is there.",
    ),
    (
        "NP506",
        "",
        "A plugin is installed that the lock file does not know.",
        "Uninstall it, or lock it with `netcl plugins lock`.",
    ),
    (
        "NP507",
        "",
        "Another candidate than the locked one would serve an op if there were no lock file.",
        "`netcl plugins why OP` says by which rule; `netcl plugins lock` locks what is there.",
    ),
    (
        "NP508",
        "",
        "The rendered source of an op is another than the locked one.",
        "`netcl kernels show OP` prints it; `netcl plugins lock` locks what is there.",
    ),
    (
        "NP509",
        "",
        "The installation does not fit the lock file, and `NETCL_LOCK_STRICT` or "
        "`NETCL_PLUGINS_STRICT` is set.",
        "Repair what the message lists, lock what is there with `netcl plugins lock`, or unset "
        "the variable.",
    ),
)


def code_of(error: BaseException, importing: bool, module: str) -> str:
    """The code of an exception that a plugin raised.

    `importing` tells the import of `module` from the registration that follows it.
    """
    code: str = getattr(error, "code", "")
    if isinstance(code, str) and code in FAILURES:
        return code
    if isinstance(error, SystemExit):
        return "NP206"
    if isinstance(error, TemplateError):
        return "NP310"
    if isinstance(error, PrimitiveError):
        return "NP308"
    if isinstance(error, ModuleNotFoundError) and error.name:
        ours = importing and f"{module}.".startswith(f"{error.name}.")
        return "NP201" if ours else "NP202"
    if isinstance(error, ImportError):
        return "NP203"
    if isinstance(error, SyntaxError):
        return "NP204"
    return "NP207" if importing else "NP311"


def described(code: str, reason: str) -> str:
    """The reason with the code before it, and the page that explains it."""
    return f"{code}: {reason} (see {PAGE}#{code.lower()})"


def plugin_error(code: str, text: str) -> PluginError:
    """A PluginError of one kind."""
    error = PluginError(text)
    error.code = code
    return error
