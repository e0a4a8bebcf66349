"""The hooks of a plugin that is data, from its manifest's rows and its folder of templates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, final

from netcl_core import OperatorRegistrar, PrimitiveRegistrar, hookimpl
from netcl_core.autograd import AutogradPrimitive
from netcl_plugin_data_kernels.expressions import Expression, wrong
from netcl_plugin_data_kernels.operators import operator_of
from netcl_plugin_data_kernels.reading import ManifestTable
from netcl_plugin_data_kernels.tables import NUMPY

_KINDS: Final = ("primitive", "operator")


@final
class DeclaredPlugin:
    """The hooks of one manifest, made without importing anything of its distribution.

    Args:
        rows: `[[provides]]` of the manifest.
        templates: The folder of its templates.
        prefix: What the names of its templates begin with in this process.

    Raises RegistrationError NP318 for a row that is no op with a definition.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], templates: Path, prefix: str) -> None:
        self._rows, self._folder, self._prefix = rows, templates, prefix
        for row in rows:
            if row.get("kind") not in _KINDS or not isinstance(row.get("definition"), dict):
                given = f"the {row.get('kind')} {row.get('name')!r} without a definition"
                remedy = "What needs code needs an entry point in netcl_core.plugins"
                raise wrong(prefix, given, "primitives and operators with one", remedy)

    @hookimpl
    def netcl_template_loader(self) -> Path:
        """The folder beside the manifest."""
        return self._folder

    @hookimpl
    def netcl_register_primitives(self, registry: PrimitiveRegistrar) -> None:
        """Add the elementwise ops: their templates hold nearly all of them."""
        for row, table in self._of("primitive"):
            name = table.who
            record = AutogradPrimitive.from_template(self._template(row), name=name)
            text = table.take("reference", str, "")
            if text:
                record = replace(record, reference=_reference(record, text))
            table.done()
            registry.add(record, row.get("priority", 0))

    @hookimpl
    def netcl_register_operators(self, registry: OperatorRegistrar) -> None:
        """Add the structured ops."""
        for row, table in self._of("operator"):
            dtypes = row.get("dtypes", [])
            registry.add(
                operator_of(table.who, table, dtypes, self._template(row)), row.get("priority", 0)
            )

    @hookimpl
    def netcl_conformance_cases(self, op: str) -> Any:
        """What the op is tried with."""
        from netcl_plugin_data_kernels.cases import cases_of  # only checks need them

        return [case for row in self._rows if row["name"] == op for case in cases_of(row)]

    def _of(self, kind: str) -> Iterator[tuple[Mapping[str, Any], ManifestTable]]:
        """The rows of a kind, with what defines each; cases are for tests alone."""
        for row in self._rows:
            if row["kind"] == kind:
                table = ManifestTable(row["definition"], str(row.get("name")))
                table.take("cases", list, [])
                yield row, table

    def _template(self, row: Mapping[str, Any]) -> str:
        """The template of a row, by the prefix that the plugin has in this process."""
        names = row.get("templates")
        if not isinstance(names, list) or len(names) != 1 or "/" not in str(names[0]):
            expected = "one, such as 'mine/mine.cl.j2'"
            raise wrong(str(row.get("name")), f"the templates {names!r}", expected)
        return f"{self._prefix}/{str(names[0]).partition('/')[2]}"


def _reference(record: AutogradPrimitive, text: str) -> Callable[..., Any]:
    """The NumPy function of an elementwise op."""
    table: Any = record.attrs
    inputs = tuple(record.inputs or ())
    expression = Expression(text, f"{record.name}: reference", NUMPY, frozenset({*inputs, *table}))
    return lambda *arrays, **attrs: expression(
        {**table, **attrs, **dict(zip(inputs, arrays, strict=True))}
    )
