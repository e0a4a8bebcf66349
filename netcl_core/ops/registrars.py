"""Registrars: what a plugin's registration hooks are given; each checks and notes records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar, final

from netcl_core.codegen.primitives import REQUIRED, AutogradPrimitive
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.ops.amp_policies import AmpPolicy
from netcl_core.ops.operators import Composite, Implementation, Operator
from netcl_core.plugins.kinds import KINDS, record_types
from netcl_core.plugins.registry import NamedRecord, Namespace, Transaction

R = TypeVar("R", bound=NamedRecord)


class RecordRegistrar(Generic[R]):
    """Takes a plugin's records of the kinds that are added in one hook."""

    def __init__(self, hook: str, transaction: Transaction, prefix: str) -> None:
        self._kinds = [kind.name for kind in KINDS.values() if kind.hook == hook]
        self._transaction = transaction
        self._prefix = prefix

    def add(self, record: R, priority: int = 0) -> None:
        """Add a record; raises RegistrationError for one of another type, or that is wrong."""
        for kind in self._kinds:
            if isinstance(record, record_types(kind)):
                self._check(record)
                self._transaction.add(kind, record, priority)
                return
        types = [each.__name__ for kind in self._kinds for each in record_types(kind)]
        given = f"a {type(record).__name__} to add"
        expected = f"an instance of {' or '.join(types)}"
        text = message(self._transaction.provider, given, expected)
        raise coded("NP305", RegistrationError(text))

    def _check(self, record: R) -> None:
        """Raise for a record that no plugin should bring."""


@final
class PrimitiveRegistrar(RecordRegistrar[AutogradPrimitive]):
    """Takes a plugin's elementwise ops; their expressions are checked at once."""

    def add_template(
        self,
        file: str,
        name: str | None = None,
        *,
        arity: int | None = None,
        attrs: Any = None,
        reference: Callable[..., Any] | None = None,
        priority: int = 0,
    ) -> None:
        """Add the primitive of a template; the path is relative to the plugin's templates."""
        template = f"{self._prefix}/{file}"
        record = AutogradPrimitive.from_template(
            template, name=name, arity=arity, attrs=attrs, reference=reference
        )
        self.add(record, priority)

    def _check(self, record: AutogradPrimitive) -> None:
        """Parse the expressions with default attributes, if all have one."""
        table: Any = record.attrs
        if record.arity is None or any(value is REQUIRED for value in table.values()):
            return
        choices = tuple(
            (name, value)
            for name, value in table.items()
            if not isinstance(value, (bool, int, float))
        )
        record.parsed(record.arity, choices)


OperatorRegistrar: TypeAlias = RecordRegistrar[Operator | Composite | Implementation]
AmpPolicyRegistrar: TypeAlias = RecordRegistrar[AmpPolicy]


@final
class NamespaceRegistrar:
    """Takes a plugin's namespaces of the face."""

    def __init__(self, hook: str, transaction: Transaction, prefix: str) -> None:
        self._transaction = transaction

    def add(self, name: str, module: str) -> None:
        """Make `netcl_core.<name>` the module of that import path."""
        self._transaction.add("namespace", Namespace(name, module))
