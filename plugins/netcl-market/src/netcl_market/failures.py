"""What can be wrong with a plugin or a lock file: codes, meanings and remedies.

The table of docs/plugin-errors.md is written from this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from netcl_core.plugins.protocol import (
    INCOMPATIBLE,
    QUARANTINED,
    REMEDIES,
    STATES,
    plugin_error,
)

__all__ = ["FAILURES", "plugin_error"]


@final
@dataclass(frozen=True, slots=True)
class FailureKind:
    """One kind of failure; `state` is what it makes of the plugin, empty if nothing."""

    code: str
    state: str
    meaning: str
    remedy: str


def kinds_of(state: str, **rows: tuple[str, str]) -> dict[str, FailureKind]:
    """Kinds that make the same of a plugin: the meaning and the remedy of each code."""
    return {code: FailureKind(code, state, *texts) for code, texts in rows.items()}


FAILURES: Final[dict[str, FailureKind]] = {
    **kinds_of(
        INCOMPATIBLE,
        NP101=(
            "The plugin was written for a different major version of the hook API, or for a newer "
            "minor one.",
            "Install a release of the plugin that works with this netcl-core, or the other way "
            "round.",
        ),
        NP102=(
            "The plugin does not support this version of Python (`Requires-Python`).",
            "Install a release that supports this Python, or use a Python that the plugin "
            "supports.",
        ),
        NP103=(
            "A distribution that the plugin depends on (`Requires-Dist`) is not installed.",
            "Install what is missing; `pip check` lists it.",
        ),
        NP104=(
            "A distribution that the plugin depends on is installed in an incompatible version.",
            "Install the plugin and its dependencies with a single pip command, so that pip can "
            "choose versions that work together. For its author: correct the range in "
            "`dependencies`.",
        ),
        NP105=(
            "The plugin's manifest uses a newer schema than this core supports.",
            "Upgrade netcl-core, or install an older release of the plugin.",
        ),
        NP106=(
            "The plugin is data, and netcl-market or the plugin that reads data is not installed, "
            "is switched off or does not work.",
            "Install, name in the settings or repair the reader that the message names. For its "
            "author: list the reader in `dependencies`.",
        ),
    ),
    **kinds_of(
        QUARANTINED,
        NP110=(
            "The plugin's manifest is not where its entry point says, or is not valid TOML.",
            "Reinstall or upgrade the plugin. For its author: ship a valid `netcl_plugin.toml` in "
            "the package.",
        ),
        NP111=(
            "The manifest has a value of the wrong type for a key that the core relies on.",
            "Upgrade the plugin. For its author: validate the manifest against the JSON Schema.",
        ),
        NP112=(
            "The plugin's installed metadata (entry points, version, requirements) cannot be read.",
            "Reinstall the plugin.",
        ),
        NP113=(
            "Several plugins claim the name of this one's entry point as the prefix of their "
            "templates, or one distribution has two plugins of that name.",
            "Disable or uninstall one of them. For the author: rename the entry point, or write "
            "`<distribution>:<name>/` before the names of templates.",
        ),
        NP114=(
            "The plugin's entry point is named like the core's own templates, which is reserved.",
            "For its author: rename the entry point.",
        ),
        NP201=(
            "The module named by the plugin's entry point does not exist.",
            "Reinstall the plugin. For its author: correct the entry point or the contents of the "
            "package.",
        ),
        NP202=(
            "The plugin imports a module that is not installed.",
            "Install the missing module. For the plugin's author: declare it in `dependencies`.",
        ),
        NP203=(
            "The plugin imports a name that a module does not define.",
            "Upgrade the plugin and the module named in the message. For its author: state the "
            "required versions.",
        ),
        NP204=(
            "The plugin's source is not valid for this version of Python.",
            "Install a release that supports this Python. For its author: set `requires-python`.",
        ),
        NP205=(
            "The plugin's module does not define the object named by the entry point.",
            "Upgrade the plugin. For its author: correct the entry point.",
        ),
        NP206=(
            "The plugin tried to exit the program while it was being imported or registered.",
            "Report this to its author: a plugin should raise an exception, never exit.",
        ),
        NP207=(
            "The plugin raised an exception while it was being imported.",
            "See `netcl plugins info NAME --traceback`, then upgrade or repair the plugin.",
        ),
        NP208=(
            "The plugin crashed the interpreter in a trial run, without raising an exception "
            "(native code).",
            "Upgrade or reinstall the plugin; `netcl doctor` tries it again.",
        ),
        NP209=(
            "The plugin did not finish loading in a trial run.",
            "Upgrade or repair the plugin; `netcl doctor` tries it again.",
        ),
        NP301=(
            "A function of the plugin is marked as a hook, or named like one, but netcl has no "
            "such hook.",
            "For its author: the message suggests which hook may be meant.",
        ),
        NP302=(
            "A function is named after a hook but is not marked with netcl's `@hookimpl`.",
            "For its author: put `@hookimpl` from `netcl_core` above it.",
        ),
        NP303=(
            "The plugin implements no hooks.",
            "For its author: mark at least one method with `@hookimpl` from `netcl_core`.",
        ),
        NP304=(
            "A hook has parameters that netcl does not pass.",
            "For its author: use the parameters listed in docs/hooks.md.",
        ),
        NP305=(
            "The plugin registers an object of the wrong type.",
            "For its author: the message names the expected type.",
        ),
        NP306=(
            "The plugin registers a name that is not a valid identifier.",
            "For its author: choose another name.",
        ),
        NP307=(
            "The plugin registers the same name twice.",
            "For its author: register each name once.",
        ),
        NP308=(
            "A record is wrong: an op's C expression, arity or attributes, a space of settings, "
            "what a pattern matches, or a policy's rules.",
            "For its author: the message shows what is wrong.",
        ),
        NP309=(
            "The plugin refers to a template that does not exist.",
            "Reinstall the plugin. For its author: ship the folder `templates` in the package.",
        ),
        NP310=(
            "One of the plugin's templates cannot be read or rendered.",
            "For its author: the message gives the template and the line.",
        ),
        NP311=(
            "One of the plugin's hooks raised an exception.",
            "See `netcl plugins info NAME --traceback`, then upgrade or repair the plugin.",
        ),
        NP312=(
            "The plugin registers an op or a namespace under a name that is reserved for the core.",
            "For its author: choose another name.",
        ),
        NP313=(
            "The plugin registers an implementation of its own primitive, which could never be "
            "used.",
            "For its author: register an operator of that name, or drop the implementation.",
        ),
        NP314=(
            "A hook is marked as a wrapper, `tryfirst` or `trylast`, or is implemented twice.",
            "For its author: mark exactly one plain function per hook with `@hookimpl`.",
        ),
        NP315=(
            "The plugin registers something with a priority that is no integer.",
            "For its author: give a whole number, such as 1.",
        ),
        NP316=(
            "A template reaches for what belongs to Python, such as `__globals__` or a text's "
            "`format`. Templates are rendered in a sandbox.",
            "Uninstall the plugin. For its author: a template computes with what it is given; the "
            "message gives the line.",
        ),
        NP317=(
            "A template takes more steps, or makes more text, than any kernel needs: a loop or a "
            "macro that calls itself does not end.",
            "Uninstall the plugin. For its author: the message gives the line.",
        ),
        NP318=(
            "The plugin is data, and a definition in its manifest is wrong, or something in it "
            "needs code.",
            "Upgrade the plugin. For its author: the message gives the op and the key.",
        ),
        NP319=(
            "The plugin brings something that its manifest (on the short road: the name of its "
            "entry point) does not say.",
            "Upgrade the plugin. For its author: list it in the manifest (`netcl plugins check` "
            "shows the row), or name the entry point as the op.",
        ),
        NP512=(
            "A file of the plugin has changed since it was compared with a strict lock, or was not "
            "there then.",
            "Reinstall it from the original source, or accept what is installed with `netcl "
            "plugins lock`; then start the program again.",
        ),
    ),
    **kinds_of(
        "",
        NP320=(
            "The plugin is data, and one of its kernels uses what is not on the short list of "
            "OpenCL C: it declares a function without a body, calls one of nobody's, has a "
            "directive or a macro, or makes a pointer of a number. On a CPU it may use pointers "
            "only where their bounds can be checked.",
            "Uninstall the plugin. For its author: the message gives the line and the word.",
        ),
        NP401=(
            "Two plugins offer the same name with equal priority.",
            "Choose one with `nc.prefer` (ops) or `NETCL_RANK`, or uninstall the other.",
        ),
        NP402=(
            "A choice passed to `nc.prefer` is not offered by any active plugin.",
            "`netcl plugins why OP` shows who offers an op.",
        ),
        NP403=(
            "A setting refers to a plugin that is not installed.",
            "Correct `NETCL_PLUGINS` or `NETCL_PLUGINS_DISABLE`; `netcl plugins list` shows the "
            "names.",
        ),
        NP404=(
            "`NETCL_PLUGINS_STRICT` is set and a plugin cannot be loaded.",
            "Fix what the message lists, or unset the variable.",
        ),
        NP405=(
            "A plugin implements an op that is a primitive, so the implementation is never used.",
            "Uninstall one of the two. For the author: implement an operator instead.",
        ),
        NP406=(
            "A training pattern's planner or matcher raised an exception, or gave something else "
            "than the value of the group. The function runs without it.",
            "Upgrade or uninstall the plugin named in the message. For its author: `netcl plugins "
            "check` tries the pattern on its cases.",
        ),
        NP501=(
            "The lock file cannot be read, or is not what `netcl plugins lock` wrote.",
            "Delete it and write it again with `netcl plugins lock`, or restore it from version "
            "control.",
        ),
        NP502=(
            "The lock file uses another schema than this core.",
            "Upgrade netcl-core, or delete the file and write it again with `netcl plugins lock`.",
        ),
        NP503=(
            "A plugin of the lock file is not installed.",
            "Install the locked version, or accept what is installed with `netcl plugins lock`.",
        ),
        NP504=(
            "The core or a plugin is installed in a different version than the locked one.",
            "Install the locked version, or accept what is installed with `netcl plugins lock`.",
        ),
        NP505=(
            "The version is the locked one, but its files differ.",
            "Reinstall it from the original source, or accept what is installed with `netcl "
            "plugins lock`.",
        ),
        NP506=(
            "A plugin is installed that is not in the lock file. With `NETCL_LOCK_STRICT` it is "
            "not loaded.",
            "Uninstall it, or add it with `netcl plugins lock`.",
        ),
        NP507=(
            "Without the lock file, a different candidate would serve an op.",
            "`netcl plugins why OP` gives the rule; `netcl plugins lock` accepts the new choice.",
        ),
        NP508=(
            "The rendered source of an op differs from the locked one.",
            "`netcl kernels show OP` prints it; `netcl plugins lock` accepts it.",
        ),
        NP509=(
            "The installation does not fit the lock file, and `NETCL_LOCK_STRICT` or "
            "`NETCL_PLUGINS_STRICT` is set.",
            "Fix what the message lists, accept what is installed with `netcl plugins lock`, or "
            "unset the variable.",
        ),
        NP510=(
            "The lock is strict, and a plugin that it has chosen is switched off or does not work.",
            "Repair it or let the settings name it, or accept what is there with `netcl plugins "
            "lock`.",
        ),
        NP511=(
            "A lock file is to be held, and nothing here can verify it.",
            "Install it with: pip install netcl-market. Or unset `lock-strict` and "
            "`plugins-strict`.",
        ),
        NP513=(
            "The lock file that the program requires (`nc.require_lock`) is not there, has another "
            "digest, or is required too late or after another one.",
            "Restore the file, or give the digest of the one that you have read. Call the function "
            "before the first op.",
        ),
        NP514=(
            "A market has withdrawn the installed version of a plugin, or warns of it.",
            "Read what it says; install the version that it names, or uninstall the plugin.",
        ),
    ),
}
STATES.update({code: kind.state for code, kind in FAILURES.items()})
REMEDIES.update({code: kind.remedy for code, kind in FAILURES.items()})
