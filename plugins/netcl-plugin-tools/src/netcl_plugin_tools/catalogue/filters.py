"""What the front page can be narrowed to: kinds, devices, dtypes and licences, by number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from netcl_plugin_tools.catalogue.model import Op, Project

#: What each filter is called, as in the names of `data-` attributes.
FILTERS: Final = ("kind", "device", "dtype", "licence")
#: Filter -> the values that something has.
Facts: TypeAlias = Mapping[str, frozenset[str]]


def facts_of(project: Project, op: Op) -> Facts:
    """What a reader can find an op by. A device counts where one of its checks passed."""
    outcomes = project.latest.findings.of(op.row.name).outcomes
    ran = (one.where for one in outcomes if one.where and one.outcome.state == "passed")
    return {
        "kind": frozenset({op.row.kind}),
        "device": frozenset(where.title for where in ran),
        "dtype": frozenset(op.row.dtypes),
        "licence": frozenset(filter(None, [licence_of(project)])),
    }


def facts_of_all(project: Project) -> Facts:
    """What a reader can find a plugin by: what one of its ops has, or its namespaces are."""
    every = [facts_of(project, op) for op in project.ops]
    licence = frozenset(filter(None, [licence_of(project)]))
    facts = {name: frozenset().union(*(row[name] for row in every)) for name in FILTERS}
    return {**facts, "licence": licence}


def licence_of(project: Project) -> str:
    """Its licence by METADATA, else by a manifest."""
    stated = project.latest.wheel.metadata.licence
    return stated or next(
        (manifest.license for manifest in project.manifests if manifest.license), ""
    )


def choices(every: Iterable[Facts]) -> dict[str, list[str]]:
    """Filter -> all values that there are, sorted; a filter with less than two chooses nothing."""
    rows = list(every)
    values_of = {name: sorted(frozenset().union(*(row[name] for row in rows))) for name in FILTERS}
    return {name: values for name, values in values_of.items() if len(values) > 1}


def numbered(facts: Facts, given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Filter -> the numbers of a thing's values among the choices, with spaces between them."""
    return {
        name: " ".join(str(number) for number, value in enumerate(values) if value in facts[name])
        for name, values in given.items()
    }
