"""What can be wrong with an installed plugin or a lock file: codes, meanings and remedies."""

from __future__ import annotations

from typing import Final

from netcl_core.plugins.protocol import (
    FAILURES,
    INCOMPATIBLE,
    QUARANTINED,
    FailureKind,
    kinds_of,
    plugin_error,
)

__all__ = ["FAILURES", "KINDS", "plugin_error"]

KINDS: Final[dict[str, FailureKind]] = {
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
            "choose versions that work together.",
        ),
        NP105=(
            "The plugin's manifest uses a newer schema than this core supports.",
            "Upgrade netcl-core, or install an older release of the plugin.",
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
        NP512=(
            "A file of the plugin has changed since it was compared with a strict lock, or was not "
            "there then.",
            "Reinstall it from the original source, or accept what is installed with `netcl "
            "plugins lock`; then start the program again.",
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
    ),
    **kinds_of(
        "",
        NP403=(
            "A setting refers to a plugin that is not installed.",
            "Correct `NETCL_PLUGINS` or `NETCL_PLUGINS_DISABLE`; `netcl plugins list` shows the "
            "names.",
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
        NP514=(
            "A market has withdrawn the installed version of a plugin, or warns of it.",
            "Read what it says; install the version that it names, or uninstall the plugin.",
        ),
    ),
}
FAILURES.update(KINDS)
