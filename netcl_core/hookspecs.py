"""Every hook that a plugin may implement, and the hook API in which it came.

The project name of the markers is `netcl`. Each hook takes one registrar or one
request; none is called per op: hooks run at registration only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pluggy

PROJECT = "netcl"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def netcl_register_primitives(registry: Any) -> None:
    """Add elementwise ops: `registry.add_template("swiglu.cl.j2")` or `registry.add(record)`."""


@hookspec
def netcl_register_operators(registry: Any) -> None:
    """Add structured ops and implementations: `registry.add(Operator(...))`."""


@hookspec
def netcl_register_patterns(registry: Any) -> None:
    """Add training patterns: `registry.add(TrainingPattern(...))`."""


@hookspec
def netcl_register_amp_policies(registry: Any) -> None:
    """Add policies of mixed precision: `registry.add(AmpPolicy(...))`."""


@hookspec
def netcl_register_namespaces(registry: Any) -> None:
    """Add a namespace of the face: `registry.add("nn", "my_plugin.nn")`."""


@hookspec
def netcl_template_loader() -> Any:
    """Return the folder of the plugin's templates; default: `templates` in its package."""


@hookspec
def netcl_doctor() -> Any:
    """Return a list of `(name, ok, text)` that `netcl doctor` shows."""


@hookspec
def netcl_cli_commands(add_command: Callable[..., None]) -> None:
    """Add click commands to `netcl`: `add_command(command)`, or `..., group="plugins"`."""


@hookspec
def netcl_conformance_cases(op: str) -> Any:
    """Return the `Case`s of an op, or the `Scenario`s of a namespace, or why it needs none.

    `op` is the name of one of the plugin's ops or namespaces; both classes are those of the
    conformance kit (`netcl plugins new` shows where).
    """


HOOKS: Final = tuple(name for name in globals() if name.startswith("netcl_"))
_LATER: Final = {
    "netcl_conformance_cases": (1, 1),
    "netcl_register_patterns": (1, 2),
    "netcl_register_amp_policies": (1, 2),
}
#: The hook API in which each hook came.
SINCE: Final = {name: _LATER.get(name, (1, 0)) for name in HOOKS}
