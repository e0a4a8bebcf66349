"""Registrars: what a plugin's registration hooks are given; each checks and notes records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, final, runtime_checkable

from netcl_core import cache, plugins
from netcl_core.codegen.primitives import (
    REQUIRED,
    AutogradPrimitive,
    Backward,
    Forward,
    split_attrs,
)
from netcl_core.errors import RegistrationError, coded, message
from netcl_core.ops.casting import PolicyRecord
from netcl_core.ops.implementations import Implementation
from netcl_core.ops.operators import Operator
from netcl_core.plugins.kinds import KINDS, OP_KINDS, record_types
from netcl_core.plugins.registry import (
    USER,
    USER_PRIORITY,
    NamedRecord,
    Namespace,
    Transaction,
    registry,
)
from netcl_core.runtime.rendering import get_template
from netcl_core.version import VERSION

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
        raise _wrong_record(self._transaction.provider, record, self._kinds)

    def _check(self, record: R) -> None:
        """Raise for a record that no plugin should bring."""


class OpRegistrar(RecordRegistrar[R]):
    """Takes records of ops, each with its parts."""

    def add(self, record: R, priority: int = 0) -> None:
        """Add a record with its parts; raises RegistrationError for one that is wrong."""
        super().add(record, priority)
        self._add_parts(record)

    def _add_parts(self, owner: Any) -> None:
        """Add what exists for a record's op alone; several records may share a part."""
        for part in owner.parts:
            kind = next((kind for kind in OP_KINDS if isinstance(part, record_types(kind))), None)
            if kind is None:
                raise _wrong_record(self._transaction.provider, part, OP_KINDS)
            if any(row.record is part for row in self._transaction.known(part)):
                continue
            if isinstance(part, AutogradPrimitive):
                _check_expressions(part)
            self._transaction.add(kind, part, part_of=owner.name)
            self._add_parts(part)


@final
class PrimitiveRegistrar(OpRegistrar[AutogradPrimitive]):
    """Takes a plugin's elementwise ops; their expressions are checked at once.

    >>> class Plugin:
    ...     @nc.hookimpl
    ...     def netcl_register_primitives(self, registry):
    ...         forward = lambda x, attrs: f"4 * {x[0]}"
    ...         registry.add(ag.AutogradPrimitive("fourfold", forward, None, arity=1))
    >>> _ = nc.plugins.register(Plugin(), "four")
    >>> ag.fourfold([1.0]).tolist()
    [4.0]
    >>> nc.plugins.unregister("four")
    """

    def _check(self, record: AutogradPrimitive) -> None:
        _check_expressions(record)

    def add_template(
        self,
        file: str,
        name: str | None = None,
        *,
        arity: int | None = None,
        attrs: Any = None,
        reference: Callable[..., Any] | None = None,
        align: Callable[..., Sequence[Any]] | None = None,
        parts: Sequence[Any] = (),
        forms: Mapping[str, Callable[..., Any]] | None = None,
        alias_of: str = "",
        priority: int = 0,
    ) -> None:
        """Add the primitive of a template; the path is relative to the plugin's templates.

        `alias_of` is the op of which `name` is a further name.
        """
        template = f"{self._prefix}/{file}"
        record = AutogradPrimitive.from_template(
            template,
            name=name,
            arity=arity,
            attrs=attrs,
            reference=reference,
            align=align,
            parts=parts,
            forms=forms,
            alias_of=alias_of,
        )
        self.add(record, priority)


def _check_expressions(record: AutogradPrimitive) -> None:
    """Parse the expressions with default attributes, if all have one.

    That they are right is kept on disk, for to parse those of all ops takes a second.
    """
    table: Any = record.attrs
    if record.arity is None or any(value is REQUIRED for value in table.values()):
        return
    choices = split_attrs(table)[1]
    mark = cache.digest("right", VERSION, *record.texts(record.arity, choices))
    if cache.read(mark) is None:
        record.parsed(record.arity, choices)
        cache.write(mark, b"")


@final
class OperatorRegistrar(OpRegistrar[Operator | Implementation]):
    """Takes a plugin's structured ops, and its implementations of anybody's.

    >>> def thrice(x):
    ...     return ag.mul(x, 3.0)
    >>> class Plugin:
    ...     @nc.hookimpl
    ...     def netcl_register_operators(self, registry):
    ...         registry.add(ag.composite(thrice, ("x",)))
    >>> _ = nc.plugins.register(Plugin(), "threefold")
    >>> ag.thrice([1.0]).tolist()
    [3.0]
    >>> nc.plugins.unregister("threefold")
    """


@runtime_checkable
class PatternRecord(Protocol):
    """A training pattern as the registry keeps it, see the namespace `patterns`."""

    @property
    def name(self) -> str: ...
    @property
    def matcher(self) -> Any: ...
    @property
    def planner(self) -> Callable[..., Any]: ...
    @property
    def templates(self) -> Sequence[str]: ...
    @property
    def parts(self) -> Sequence[Any]: ...
    @property
    def summary(self) -> str: ...


@final
class PatternRegistrar(OpRegistrar[PatternRecord]):
    """Takes a plugin's training patterns with their parts; their templates have to be there.

    >>> group = ag.MatchedOp("log", (ag.MatchedOp("sigmoid", ("x",)),))
    >>> class Plugin:
    ...     @nc.hookimpl
    ...     def netcl_register_patterns(self, registry):
    ...         planner = lambda x: ag.neg(ag.softplus(ag.neg(x)))
    ...         registry.add(ag.TrainingPattern("log_of_sigmoid", group, planner))
    >>> _ = nc.plugins.register(Plugin(), "sigmoids")
    >>> ag.jit_compile(lambda x: ag.log(ag.sigmoid(x)))(nc.tensor([-200.0])).tolist()
    [-200.0]
    >>> nc.plugins.unregister("sigmoids")
    """

    def _check(self, record: PatternRecord) -> None:
        """Raise TemplateError for a template that is missing or no Jinja."""
        for template in record.templates:
            get_template(template)


AmpPolicyRegistrar: TypeAlias = RecordRegistrar[PolicyRecord]


@final
class NamespaceRegistrar:
    """Takes a plugin's namespaces of the face.

    >>> class Plugin:
    ...     @nc.hookimpl
    ...     def netcl_register_namespaces(self, registry):
    ...         registry.add("numbers", "fractions")
    >>> _ = nc.plugins.register(Plugin(), "fractional")
    >>> nc.numbers.Fraction(6, 4)
    Fraction(3, 2)
    >>> nc.plugins.unregister("fractional")
    """

    def __init__(self, hook: str, transaction: Transaction, prefix: str) -> None:
        self._transaction = transaction

    def add(self, name: str, module: str) -> None:
        """Make `netcl_core.<name>` the module of that import path."""
        self._transaction.add("namespace", Namespace(name, module))


def _wrong_record(provider: str, record: Any, kinds: Sequence[str]) -> RegistrationError:
    types = [record_type.__name__ for kind in kinds for record_type in record_types(kind)]
    given = f"an object of type {type(record).__name__} to add"
    text = message(provider, given, f"an instance of {' or '.join(types)}")
    return coded("NP305", RegistrationError(text))


# -- an elementwise op of the user's own, without a plugin ---------------------------------


def register_primitive(
    name: str,
    forward: Forward,
    backward: Backward | None,
    arity: int | None = None,
    fusible: bool = True,
    *,
    override: bool = False,
    reference: Callable[..., Any] | None = None,
    verify: bool = False,
) -> AutogradPrimitive:
    """Register an elementwise op of your own: afterwards `ag.<name>(...)` works everywhere.

    >>> record = ag.register_primitive(
    ...     "cube", lambda x, attrs: f"{x[0]} * {x[0]} * {x[0]}",
    ...     lambda x, grad, attrs, out: [f"3 * {x[0]} * {x[0]} * {grad}"], arity=1, verify=True)
    >>> ag.cube(nc.tensor([2.0])).item()
    8.0

    Args:
        name: The op's name, an identifier.
        forward: `(inputs, attrs) -> str`, a C expression of the names in `inputs`.
        backward: `(inputs, grad, attrs, out) -> [str per input]`, or None.
        arity: The number of inputs; None: any.
        fusible: Whether the JIT may fuse it.
        override: Replace an op of this name.
        reference: A NumPy function for checks in float64.
        verify: Compare `backward` with the derivative of `forward` first, by the plugin that has
            the conformance kit.

    Raises:
        PrimitiveError: an expression is wrong (checked at once if `arity` is given), or, with
            `verify`, a gradient; its text shows at which point.
        RegistrationError: the name is taken and `override` is not set.
        MissingNamespaceError: `verify` without such a plugin.
    """
    record = AutogradPrimitive(name, forward, backward, arity, fusible, reference=reference)
    row = registry.find_op(name)
    if row is not None and not override:
        raise RegistrationError(
            message(
                "register_primitive",
                f"the op {name!r} is provided by {row.provider} already",
                "a new name",
                "Pass override=True to replace it",
            )
        )
    if arity is not None:
        record.parsed(arity, ())
    if verify:
        kit = plugins.namespace("conformance", "register_primitive(verify=True)")
        kit.refuse_wrong_gradient(record)
    transaction = registry.transaction(USER, override=override)
    transaction.add("primitive", record, USER_PRIORITY)
    transaction.commit()
    return record
