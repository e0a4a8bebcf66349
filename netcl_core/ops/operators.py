"""Structured ops: Operator, and how one of its implementations is chosen.

An Operator says what an op means (shape and dtype rule, NumPy reference, gradients); an
Implementation says how one kind of device computes it. The core picks, per device and shape, the
implementation of highest priority whose requirements hold. An operator that is a Python function of
other ops is its own default implementation, which comes last.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, final
from weakref import WeakKeyDictionary

from netcl_core.errors import RegistrationError, UnfitError, message
from netcl_core.ops.implementations import Attrs, Implementation, Request
from netcl_core.ops.view_rules import Places, backward_by, infer_by, reference_by
from netcl_core.plugins.kinds import SERVING_OPS
from netcl_core.plugins.registry import registry, winner_of
from netcl_core.plugins.resolution import Choice, Decision, Offer, decide
from netcl_core.runtime.kernels import Spec
from netcl_core.tensors.functions import functions

#: The provider of an operator's own implementations where the operator is not registered.
UNKNOWN: Final = "with the operator"
#: The label and the priority of the default of an operator that is made of other ops: whatever
#: somebody brings goes before it.
DECOMPOSITION: Final = "decomposition"
_LAST: Final = -1_000_000
#: What to do if a record of an op is wrong, for notes in errors.
OTHERS: Final = "`netcl plugins why {op}` lists all who offer it, nc.prefer takes another."
Bind: TypeAlias = Callable[..., tuple[Sequence[Any], dict[str, Any]]]


def several(specs: Spec | tuple[Spec, ...]) -> tuple[Spec, ...]:
    """What a shape rule gave, as a tuple: it may be one Spec alone."""
    return specs if isinstance(specs, tuple) else (specs,)


@final
@dataclass(frozen=True, eq=False)
class Operator:
    """A structured op; call it as the function `ag.<name>`.

    >>> twice = ag.Operator("twice", bind=lambda x: ((x,), {}), infer=lambda x: x,
    ...     reference=lambda x: 2 * x, backward=lambda saved, grad: [2 * grad])
    >>> with nc.use_device("numpy"):
    ...     twice(nc.tensor([1.0, 2.0])).numpy()
    array([2., 4.], dtype=float32)

    All functions get and give Tensors, arrays or Specs as said; none needs to know of devices,
    tapes, traces or grad mode. Nothing that they are given may be written to. Results share no
    buffer with an operand unless `view` says so; a `reference` may give back what it was given.

    Args:
        name: The op's name.
        bind: The public signature: `(*args, **kwargs) -> (operands, attrs)`; `operands` are
            tensors or host data (None for an absent one), `attrs` hashable metadata.
        infer: `(*specs, **attrs) -> Spec`, the result's shape and dtype, or a tuple of Specs for
            several results; raises ShapeError or DtypeError that names the op.
        reference: `(*arrays, **attrs) -> array`, the op in NumPy; for several results, and for
            residuals after them, a tuple of arrays.
        backward: `(saved, *grads) -> [gradient or None per operand]`, computed with ops. There is
            a gradient per result, None where none came; each is a Tensor of the result's shape and
            dtype. It may give one of them back, or a Spread. Called with grad mode off; with it
            on where a gradient of the gradient is wanted. None: not differentiable.
        saves: Which operands `backward` reads (default: all); `saved.inputs` has the shapes and
            dtypes of the others, too.
        saves_results: Which results `backward` reads (default: all). A graph keeps what its
            gradients read, and lets go of the elements of all else.
        residuals: `(*specs, **attrs) -> (Spec, ...)`: what implementations and the reference give
            after the results for `backward` alone.
        check: `(operands, attrs)`, called before each run: raises if the *values* of an operand
            cannot be used (class indices out of range).
        implementations: Those that come with the operator.
        view: `(geometry, **attrs) -> Geometry`, or a tuple of them for several results: where the
            elements lie in the memory of the operand, whose geometry is given; no kernel is
            launched. None: they cannot stay there, and the result is the operand's elements in C
            order, copied. `infer`, `reference` and `backward` follow from it where they are
            not given.
        results: The names of several results: a call gives a named tuple with these fields.
        parts: Operators and primitives that exist for this one: its gradients, what it is made
            of. They are known to the registry, so that implementations of them are chosen, but
            they are no public ops.
        function: The op as a Python function of other ops, its default implementation. With
            `operands`, the names of its parameters that are tensors, anybody may bring an
            Implementation; `bind` and `infer` follow from the function. See `composite`.
        decomposition: `(*operands, **attrs)`, the same from what a `bind` of its own gives.
        method: Whether it is a method of tensors too, `x.<name>(...)`: not where the first
            argument is no tensor.
        doc: A text for the documentation.
    """

    name: str
    bind: Bind | None = None
    infer: Callable[..., Spec | tuple[Spec, ...]] | None = None
    reference: Callable[..., Any] | None = None
    backward: Callable[..., Sequence[Any]] | None = None
    saves: Sequence[int] | None = None
    saves_results: Sequence[int] | None = None
    check: Callable[[Sequence[Any], Attrs], None] | None = None
    implementations: Sequence[Implementation] = ()
    view: Places | None = None
    doc: str = ""
    results: Sequence[str] = ()
    residuals: Callable[..., tuple[Spec, ...]] | None = None
    parts: Sequence[Any] = ()
    function: Callable[..., Any] | None = None
    operands: Sequence[str] = ()
    decomposition: Callable[..., Any] | None = None
    method: bool = True

    def __post_init__(self) -> None:
        if self.view is not None:
            rules = {"infer": infer_by, "reference": reference_by, "backward": backward_by}
            for name, rule in rules.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, rule(self.view))
            for name in ("saves", "saves_results"):
                if getattr(self, name) is None:
                    object.__setattr__(self, name, ())
        if self.function is None:
            missing = [x for x in ("bind", "infer", "reference") if getattr(self, x) is None]
            if missing:
                given = f"no {' and no '.join(missing)}"
                expected = "bind, infer and reference, or a function of other ops"
                raise RegistrationError(message(self.name, given, expected))
        elif self.bind is None and self.operands:
            parameters = self.signature.parameters
            unknown = [repr(operand) for operand in self.operands if operand not in parameters]
            if unknown:
                given, known = f"no parameter {' and '.join(unknown)}", ", ".join(parameters)
                raise RegistrationError(message(self.name, given, f"operands among {known}"))
            object.__setattr__(self, "bind", _bound_by_name(self.function, self.operands))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The op, whether it is public or a part."""
        return functions.of_record(self)(*args, **kwargs)

    @property
    def signature(self) -> inspect.Signature:
        """The parameters of `ag.<name>`."""
        return inspect.signature(self.function or self.bind)  # type: ignore[arg-type]  # has one

    def decomposed(self, operands: Sequence[Any], attrs: Attrs) -> Any:
        """The value by the function, from what `bind` gave."""
        if self.decomposition is not None:
            return self.decomposition(*operands, **attrs)
        assert self.function is not None  # it is made of other ops
        return self.function(**dict(zip(self.operands, operands, strict=True)), **attrs)

    def offers(self) -> list[Offer]:
        """All implementations for this operator, with who brings each; its own function last."""
        version, offers = _offers.get(self, (-1, []))
        if version != registry.version:
            version, offers = registry.version, self._offers()
            _offers[self] = version, offers
        return offers

    def source_of(self, implementation: Implementation | None) -> str:
        """Who computes with an implementation or (None) with the operator itself, for errors."""
        if implementation is not None:
            return (
                f"the implementation {implementation.label!r} ({self.owner_of(implementation)[0]})"
            )
        rows = registry.op_rows(self.name, parts=True)
        providers = [row.provider for row in rows if row.record is self]
        return f"the operator's backward ({(*providers, UNKNOWN)[0]})"

    def owner_of(self, implementation: Implementation) -> tuple[str, str]:
        """The distribution that brings an implementation, and the key of its plugin."""
        offers = [offer for offer in self.offers() if offer.item is implementation]
        return (offers[0].provider, offers[0].owner) if offers else (UNKNOWN, "")

    def _unfit(self, request: Request, decision: Decision) -> UnfitError:
        refusals = [
            (offer.provider, offer.label, verdict.removeprefix("dropped: "))
            for offer, verdict in zip(self.offers(), decision.verdicts, strict=True)
        ]
        reasons = [f"{label} ({provider}): {reason}" for provider, label, reason in refusals]
        error = UnfitError(
            message(
                self.name,
                f"no implementation fits {request.output.dtype} on {request.device!r} "
                f"(rule: {decision.rule})",
                "one of: " + ("; ".join(reasons) or "none is registered"),
                "Use the NumPy path with nc.use_device('numpy')",
            )
        )
        error.refusals = refusals
        return error

    def _offers(self) -> list[Offer]:
        registry.load(SERVING_OPS, self.name)
        provider, owner = next(
            (
                (row.provider, row.owner)
                for row in registry.op_rows(self.name, parts=True)
                if row.record is self
            ),
            (UNKNOWN, ""),
        )
        offered = [(provider, implementation, owner) for implementation in self.implementations]
        offered += [
            (row.provider, row.record, row.owner)
            for row in registry.rows("implementation", self.name)
        ]
        offers = [
            Offer(provider, self.name, record.label, record.priority, record, owner)
            for provider, record, owner in offered
        ]
        if self.function is not None:
            offers.append(Offer(provider, self.name, DECOMPOSITION, _LAST, None, owner))
        return offers

    def decide(self, request: Request, chosen: Sequence[Choice] = ()) -> Decision:
        """Which implementation serves a request, by which rule, and why not the others."""
        locked = registry.locked(self.name, request.device, request.output.dtype)
        return decide(self.name, self.offers(), chosen, partial(_unfit, request), locked)

    def select(self, request: Request, chosen: Sequence[Choice] = ()) -> Implementation | None:
        """The implementation for a request; None: the operator's own function.

        Raises DeviceError that lists why each candidate is out, or AmbiguousOpError for
        a tie.
        """
        offers = self.offers()
        if not chosen:  # then one that is alone needs no rule
            fitting = [offer for offer in offers if _unfit(request, offer) is None]
            if len(fitting) == 1:
                return fitting[0].item  # type: ignore[no-any-return]  # as offered
        decision = self.decide(request, chosen)
        if decision.winner is None and not decision.tied:
            raise self._unfit(request, decision)
        implementation: Implementation | None = winner_of(self.name, decision)
        return implementation


#: The offers of each operator, with the registry's version of them.
_offers: Final[WeakKeyDictionary[Operator, tuple[int, list[Offer]]]] = WeakKeyDictionary()


def _unfit(request: Request, offer: Offer) -> str | None:
    """Why an offered implementation cannot serve a request, or None; a function always can."""
    limit = registry.limit(offer.owner, request.device)
    if limit or offer.item is None:
        return limit
    try:
        return offer.item.requires.unmet(request)  # type: ignore[no-any-return]  # a text
    except Exception as error:
        given = f"{offer.label!r} ({offer.provider})"
        error.add_note(f"{offer.op}: while the implementation {given} was asked what it needs")
        error.add_note(f"Without {offer.provider} the op is computed by others")
        raise


def composite(
    function: Callable[..., Any],
    operands: Sequence[str] = (),
    *,
    name: str = "",
    parts: Sequence[Any] = (),
    **fields: Any,
) -> Operator:
    """An operator that is a Python function of other ops: its gradient follows from theirs.

    Example:
        >>> def scaled(x, weight=None, power=2):
        ...     return ag.mul(x if weight is None else ag.mul(x, weight), 1 / power)
        >>> record = ag.composite(scaled, ("x", "weight"))

    Args:
        function: The op. Its name and docstring are the op's.
        operands: The names of the parameters that are tensors (None where absent); all others are
            metadata. Without any, nobody can bring an Implementation.
        name: Another name than the function's.
        parts: Primitives and operators that the function alone uses.
        fields: Of `Operator`: its own `implementations` and their `check`; `method`; a `bind` with
            `decomposition`, or an `infer`, where those that follow from the function do not do.
    """
    return Operator(
        name or function.__name__,
        function=function,
        operands=tuple(operands),
        parts=parts,
        doc=function.__doc__ or "",
        **fields,
    )


def _bound_by_name(function: Callable[..., Any], operands: Sequence[str]) -> Bind:
    """A `bind` from a function's signature."""
    signature = inspect.signature(function)

    def bind(*args: Any, **kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = [bound.arguments.pop(name) for name in operands]
        return given, {name: _frozen(value) for name, value in bound.arguments.items()}

    return bind


def _frozen(value: Any) -> Any:
    """A metadata value that can be part of a key: sequences as tuples."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, tuple)):
        return tuple(_frozen(item) for item in value)
    return value
