"""The names of a new project, made from what the author gave; a taken one is refused."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, final

import click
from netcl_market.states import States
from netcl_market.survey import survey

from netcl_core.autograd import Operator
from netcl_core.config import MARKET_PREFIX
from netcl_core.errors import message
from netcl_core.plugins.protocol import (
    CORE_PREFIX,
    SHORT_ROAD,
    RecordKind,
    canonical,
    catalogue,
    registry,
    reserved,
)
from netcl_plugin_kit.new.scaffolds import scaffold_of

#: Longer ones would not fit into the lines of the generated files.
_LONGEST: Final = 24
#: For which an implementation's project has working kernels as an example.
EXAMPLE_OPERATOR: Final = "softmax"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_OP: Final = re.compile(r"[a-z_][a-z0-9_]*")


@final
@dataclass(frozen=True, slots=True)
class ProjectNames:
    """`swiglu` is the plugin and its template prefix, the others follow from it.

    Attributes:
        name: The plugin's, which is its entry point's: `focal-loss`.
        distribution: What pip installs: `netcl-plugin-focal-loss`.
        package: What Python imports: `netcl_plugin_focal_loss`.
        op: What it brings, such as an op that is called as `ag.focal_loss`.
        operator: The operator that an implementation is for; the others bring none.
    """

    name: str
    distribution: str
    package: str
    op: str
    operator: str = EXAMPLE_OPERATOR


def chosen(given: str, kind: RecordKind, op: str | None = None) -> ProjectNames:
    """The names of a project; raises click.BadParameter for one that is wrong or taken."""
    name = canonical(given).removeprefix(MARKET_PREFIX)
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        expected = f"letters, digits and hyphens, a letter first, at most {_LONGEST} characters"
        raise _refused(f"the name {given!r}", expected, "Try one like 'swiglu' or 'focal-loss'")
    distribution = MARKET_PREFIX + name
    _check_name(name, distribution)
    package, own = distribution.replace("-", "_"), name.replace("-", "_")
    if kind.name == "implementation":
        _check_op(own, kind)
        operator = EXAMPLE_OPERATOR if op is None else op
        _check_operator(operator)
        return ProjectNames(name, distribution, package, own, operator)
    _check_op(own if op is None else op, kind)
    return ProjectNames(name, distribution, package, own if op is None else op)


def _check_name(name: str, distribution: str) -> None:
    """Raise if somebody else has the name."""
    if name == CORE_PREFIX:
        raise _refused(f"the name {name!r}", "one that is not the core's", "Choose another name")
    for plugin in survey(States()):
        if canonical(plugin.distribution) == distribution:
            given, remedy = f"{distribution} is installed", f"pip uninstall {distribution}"
            raise _refused(given, "a new name", f"Choose another, or first run: {remedy}")
        if plugin.name == name:
            given = f"the plugin name {name!r} is taken by {plugin.distribution}"
            raise _refused(given, "a new name", "Choose another")
    if distribution in catalogue():
        raise _refused(f"{distribution} is in the catalogue", "a new name", "Choose another")


def _check_op(op: str, kind: RecordKind) -> None:
    if not _OP.fullmatch(op) or keyword.iskeyword(op) or len(op) > _LONGEST:
        expected = f"a Python name in small letters, at most {_LONGEST} characters"
        raise _refused(f"the op {op!r}", expected, "Choose it with --op")
    if kind.face and op in reserved(kind.face):
        given = f"{kind.face}.{op} is the core's own"
        raise _refused(given, "a new name for the op", "Choose another with --op")
    for provider, name in _existing(kind.rivals):
        if name == op:
            noun = "op" if kind.is_op else scaffold_of(kind)
            given = f"the {noun} {op!r} exists: {provider} brings it"
            raise _refused(given, f"a new name for the {noun}", "Choose another with --op")


def _check_operator(op: str) -> None:
    """Raise unless somebody brings the operator that an implementation is to be for."""
    row = registry.find_op(op)
    if row is None:
        near = get_close_matches(op, sorted(registry.op_names()), 1)
        remedy = f"Did you mean --op {near[0]}?" if near else "`netcl plugins search` finds ops"
        raise _refused(f"no installed plugin brings the op {op!r}", "an installed operator", remedy)
    if not isinstance(row.record, Operator):
        given = f"{op!r} is one C expression ({row.provider}), which has no implementations"
        raise _refused(given, "an operator, such as softmax or rms_norm", "Choose it with --op")


def _existing(kinds: Collection[str]) -> Iterator[tuple[str, str]]:
    """(package, name) of what is installed, without loading it, and of the catalogue."""
    for plugin in survey(States()):
        if plugin.manifest is None:
            if SHORT_ROAD in kinds:  # its op is named as the plugin
                yield plugin.distribution, plugin.name
        else:
            for row in plugin.manifest.provides:
                if row.kind in kinds:
                    yield plugin.distribution, row.name
    for package, entry in catalogue().items():
        for kind in kinds:
            for name in entry["provides"].get(kind, ()):
                yield package, name


def _refused(given: str, expected: str, remedy: str) -> click.BadParameter:
    return click.BadParameter(message("netcl plugins new", given, expected, remedy))
