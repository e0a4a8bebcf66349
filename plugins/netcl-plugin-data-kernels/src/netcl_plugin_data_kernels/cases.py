"""Conformance cases from the tables of a manifest: samplers and references are expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from netcl_plugin_kit.testing import Case, indices, masks, normal, uniform, whole

from netcl_plugin_data_kernels.expressions import Expression
from netcl_plugin_data_kernels.reading import ManifestTable

#: What draws an input.
_SAMPLERS: Final[Mapping[str, Callable[..., Any]]] = {
    "normal": normal,
    "uniform": uniform,
    "whole": whole,
    "indices": indices,
    "masks": masks,
}


def cases_of(row: Mapping[str, Any]) -> list[Case]:
    """The cases that a row of `[[provides]]` defines."""
    definition = row["definition"]
    table = ManifestTable({"cases": definition.get("cases", [])}, str(row["name"]))
    return [_case(row, definition, row_of_case) for row_of_case in table.tables("cases")]


def _case(row: Mapping[str, Any], definition: Mapping[str, Any], table: ManifestTable) -> Case:
    inputs = table.texts("inputs")
    structured = row["kind"] == "operator"
    attrs = dict(table.items("attrs"))
    case = Case(
        row["name"],
        [Expression(text, table.who, _SAMPLERS)({}) for text in inputs],
        attrs=attrs,
        shapes=[[tuple(shape) for shape in shapes] for shapes in table.take("shapes", list, [])],
        note=table.take("note", str, ""),
        dtypes=table.texts("dtypes", tuple(row["dtypes"])) if structured else None,
        differentiable=bool(definition.get("gradient")) if structured else True,
        tolerance=float(table.take("tolerance", (int, float), 1)),  # type: ignore[arg-type]
        because=table.take("because", str, ""),
        kinks=table.take("kinks", list, []),
        skip=dict(table.items("skip")),
        xfail=dict(table.items("xfail")),
    )
    table.done()
    return case
