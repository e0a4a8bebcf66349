"""Registrars: what a plugin's registration hooks are given; each checks and notes one kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from netcl_core.codegen.primitives import REQUIRED, AutogradPrimitive
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.ops.operators import Implementation, Operator
from netcl_core.plugins.registry import Namespace, Transaction


@final
class PrimitiveRegistrar:
    """Takes a plugin's elementwise ops."""

    def __init__(self, transaction: Transaction, prefix: str) -> None:
        self._transaction = transaction
        self._prefix = prefix

    def add(self, record: AutogradPrimitive, priority: int = 0) -> None:
        """Add a record; its expressions are checked at once."""
        if not isinstance(record, AutogradPrimitive):
            raise _wrong_record(self._transaction.provider, record, "an AutogradPrimitive")
        _check_expressions(record)
        self._transaction.add("primitive", record, priority)

    def add_template(
        self,
        file: str,
        name: str | None = None,
        *,
        arity: int | None = None,
        attrs: Any = None,
        reference: Callable[..., Any] | None = None,
        align: Callable[..., Sequence[Any]] | None = None,
        priority: int = 0,
    ) -> None:
        """Add the primitive of a template; the path is relative to the plugin's templates."""
        template = f"{self._prefix}/{file}"
        record = AutogradPrimitive.from_template(
            template, name=name, arity=arity, attrs=attrs, reference=reference, align=align
        )
        self.add(record, priority)


def _check_expressions(record: AutogradPrimitive) -> None:
    """Parse the expressions with default attributes, if all have one."""
    table: Any = record.attrs
    if record.arity is None or any(value is REQUIRED for value in table.values()):
        return
    choices = tuple(
        (name, value) for name, value in table.items() if not isinstance(value, (bool, int, float))
    )
    record.parsed(record.arity, choices)


@final
class OperatorRegistrar:
    """Takes a plugin's structured ops, composites and implementations."""

    def __init__(self, transaction: Transaction, prefix: str) -> None:
        self._transaction = transaction

    def add(self, record: Any, priority: int = 0) -> None:
        """Add an operator with its parts, or an implementation of anybody's operator."""
        if isinstance(record, Implementation):
            self._transaction.add("implementation", record, priority)
        elif isinstance(record, Operator):
            self._transaction.add("operator", record, priority)
            self._add_parts(record)
        else:
            provider = self._transaction.provider
            raise _wrong_record(provider, record, "an Operator or an Implementation")

    def _add_parts(self, owner: Operator) -> None:
        """Add what exists for an operator alone; several operators may share a part."""
        for part in owner.parts:
            if any(row.record is part for row in self._transaction):
                continue
            if isinstance(part, AutogradPrimitive):
                _check_expressions(part)
                self._transaction.add("primitive", part, part_of=owner.name)
            elif isinstance(part, Operator):
                self._transaction.add("operator", part, part_of=owner.name)
                self._add_parts(part)
            else:
                expected = "an Operator or an AutogradPrimitive"
                raise _wrong_record(self._transaction.provider, part, expected)


@final
class NamespaceRegistrar:
    """Takes a plugin's namespaces of the face."""

    def __init__(self, transaction: Transaction, prefix: str) -> None:
        self._transaction = transaction

    def add(self, name: str, module: str) -> None:
        """Make `netcl_core.<name>` the module of that import path."""
        self._transaction.add("namespace", Namespace(name, module))


def _wrong_record(provider: str, record: Any, expected: str) -> RegistrationError:
    text = message(provider, f"a {type(record).__name__} to add", expected)
    return coded("NP305", RegistrationError(text))
