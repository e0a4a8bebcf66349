"""A structured op from the tables of a manifest: an Operator whose functions are expressions."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from netcl_core import DTYPES, Kernel, Kernels, Spec, full_like, widened
from netcl_core.autograd import Implementation, Operator, Request, Requirements, Saved
from netcl_core.errors import DtypeError, ShapeError, message
from netcl_plugin_data_kernels.expressions import Expression, wrong
from netcl_plugin_data_kernels.reading import Attribute, ManifestTable
from netcl_plugin_data_kernels.screening import screen_of
from netcl_plugin_data_kernels.tables import NUMPY, SHAPES, Ops

_NONE: Final = "none"
#: Bytes of what stands for a buffer without elements where indices are checked: the largest vector.
_SPARE: Final = 128
#: What a plan knows besides operands, results and attributes.
_FACTS: Final = frozenset({"gpu", "units", "storage", "acc"})


@final
class _Signature:
    """The operands, attributes and results of an op, with their names in expressions."""

    def __init__(self, op: str, table: ManifestTable) -> None:
        self.op = op
        self.inputs = table.texts("inputs")
        self.attributes = {
            name: Attribute.of(op, name, given) for name, given in table.items("attributes")
        }
        self.results = table.texts("results", ())
        names = [*self.inputs, *self.attributes, *self.outputs, *self.grads]
        for name in names:
            if not (name.isidentifier() and name.isascii()) or names.count(name) > 1:
                raise wrong(op, f"the name {name!r}", "distinct identifiers")
        if not self.inputs:
            raise wrong(op, "no inputs", "at least one")

    @property
    def outputs(self) -> tuple[str, ...]:
        return self.results or ("out",)

    @property
    def grads(self) -> tuple[str, ...]:
        return tuple(f"grad_{name}" for name in self.results) or ("grad",)

    @property
    def known(self) -> frozenset[str]:
        """What every expression may name."""
        return frozenset({*self.inputs, *self.attributes})

    def bind(self) -> Callable[..., tuple[Sequence[Any], dict[str, Any]]]:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        signature = inspect.Signature(
            [inspect.Parameter(name, kind) for name in self.inputs]
            + [inspect.Parameter(k, kind, default=v.default) for k, v in self.attributes.items()]
        )

        def bind(*args: Any, **kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            given = bound.arguments
            attrs = {
                name: attribute.checked(given[name]) for name, attribute in self.attributes.items()
            }
            return [given[name] for name in self.inputs], attrs

        bind.__name__ = self.op
        bind.__signature__ = signature  # type: ignore[attr-defined]  # what `inspect` reads
        return bind

    def names(self, operands: Sequence[Any], attrs: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.inputs, operands, strict=True)), **attrs}


def operator_of(name: str, table: ManifestTable, dtypes: Sequence[str], template: str) -> Operator:
    """The operator that a table defines; its kernels lie in a template.

    Raises RegistrationError NP318 for a table that defines none.
    """
    signature = _Signature(name, table)
    parts = [
        operator_of(row_of_part.take("name", str), row_of_part, dtypes, template)
        for row_of_part in table.tables("parts")
    ]
    known = signature.known
    reference = [
        Expression(text, f"{name}: reference", NUMPY, known) for text in table.texts("reference")
    ]
    if len(reference) != len(signature.outputs):
        raise wrong(name, f"{len(reference)} references", f"{len(signature.outputs)}, as results")
    operator = Operator(
        name,
        bind=signature.bind(),
        infer=_infer(signature, table, dtypes),
        reference=lambda *arrays, **attrs: _referred(signature, reference, arrays, attrs),
        **_backward(signature, table, parts),
        implementations=[
            _implementation(signature, row_of_implementation, template)
            for row_of_implementation in table.tables("implementations")
        ],
        results=signature.results,
        parts=parts,
        doc=table.take("doc", str, ""),
    )
    table.done()
    return operator


def _referred(
    signature: _Signature,
    reference: Sequence[Expression],
    arrays: Sequence[Any],
    attrs: Mapping[str, Any],
) -> Any:
    names = signature.names([widened(array) for array in arrays], attrs)
    results = tuple([formula(names) for formula in reference])
    return results if signature.results else results[0]


# -- the shape rule ----------------------------------------------------------------------


def _infer(
    signature: _Signature, table: ManifestTable, dtypes: Sequence[str]
) -> Callable[..., Spec | tuple[Spec, ...]]:
    op, known = signature.op, signature.known
    conditions = []
    for row_of_condition in table.tables("conditions"):
        holds = Expression(row_of_condition.take("holds", str), row_of_condition.who, SHAPES, known)
        conditions.append((holds, row_of_condition.take("otherwise", str)))
        row_of_condition.done()
    shapes = [Expression(text, f"{op}: shape", SHAPES, known) for text in table.texts("shape")]
    first = (f"{signature.inputs[0]}.dtype",) * len(shapes)
    kinds = [Expression(x, f"{op}: dtype", SHAPES, known) for x in table.texts("dtype", first)]
    if not len(shapes) == len(kinds) == len(signature.outputs):
        raise wrong(op, f"{len(shapes)} shapes", f"{len(signature.outputs)}, one per result")

    def infer(*specs: Spec, **attrs: Any) -> Spec | tuple[Spec, ...]:
        names = signature.names(specs, attrs)
        given = " and ".join(f"{x.dtype}{list(x.shape)}" for x in specs)
        if dtypes and specs[0].dtype not in dtypes:
            raise DtypeError(message(op, given, " or ".join(dtypes)))
        for holds, otherwise in conditions:
            if not holds(names):
                raise ShapeError(message(op, given, otherwise))
        pairs = zip(shapes, kinds, strict=True)
        results = tuple([Spec(_shape(shape, names), kind(names)) for shape, kind in pairs])
        return results if signature.results else results[0]

    return infer


def _shape(expression: Expression, names: Mapping[str, Any]) -> tuple[int, ...]:
    shape = expression(names)
    if isinstance(shape, tuple) and all(type(extent) is int and extent >= 0 for extent in shape):
        return shape
    raise wrong(expression.who, f"{expression.text!r} gives {shape!r}", "a shape")


# -- the gradient ------------------------------------------------------------------------


def _backward(
    signature: _Signature, table: ManifestTable, parts: Sequence[Operator]
) -> dict[str, Any]:
    texts = table.texts("gradient", ())
    if not texts:
        return {"backward": None}
    op, names = signature.op, {*signature.known, *signature.outputs, *signature.grads}
    if len(texts) != len(signature.inputs):
        raise wrong(op, f"{len(texts)} gradients", f"{len(signature.inputs)}, one per input")
    ops = Ops({part.name: part for part in parts})
    rules = [
        None if text == _NONE else Expression(text, f"{op}: gradient", ops, frozenset(names))
        for text in texts
    ]
    read = {name for rule in rules if rule is not None for name in rule.names}

    def backward(saved: Saved, *grads: Any) -> Sequence[Any]:
        given = signature.names(saved.inputs, saved.attrs)
        if read & {*signature.outputs}:
            given |= dict(zip(signature.outputs, saved.outputs, strict=True))
        for name, grad, result in zip(signature.grads, grads, saved.results, strict=True):
            given[name] = full_like(result, 0) if grad is None else grad
        pairs = zip(rules, saved.needs, strict=True)
        return [rule(given) if rule is not None and needed else None for rule, needed in pairs]

    saves = [i for i, name in enumerate(signature.inputs) if name in read]
    return {"backward": backward, "saves": saves}


# -- the kernels -------------------------------------------------------------------------


@final
@dataclass(slots=True)
class _Scope(Mapping[str, Any]):
    """The names of a plan: those given, and those that a table defines, computed when asked."""

    given: dict[str, Any]
    defined: Mapping[str, Expression]
    waiting: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> Any:
        if name not in self.given:
            if name in self.waiting:
                raise NameError(f"{name!r} is defined by itself")
            self.waiting.add(name)
            self.given[name] = self.defined[name](self)
        return self.given[name]

    def __iter__(self) -> Any:
        return iter({**self.given, **self.defined})

    def __len__(self) -> int:
        return len({**self.given, **self.defined})


@final
@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch, as expressions."""

    entry: str
    args: Sequence[tuple[str, Any]]
    items: Sequence[Expression]
    group: Sequence[Expression]
    variables: Mapping[str, Expression]

    def kernel(
        self, template: str, names: Mapping[str, Any], room: Mapping[tuple[str, int], int] | None
    ) -> Kernel:
        """The launch; `room` has the bytes of each buffer where indices are checked."""
        args = [(k, v(names) if isinstance(v, Expression) else v) for k, v in self.args]
        args = [(names["acc"] if kind == "acc" else kind, value) for kind, value in args]
        parameters = tuple([kind for kind, _ in args])
        if room is not None:
            empty = ("scratch", len([number for number in room if number[0] == "scratch"]))
            buffers = [arg for arg in args if arg in room]
            args = [empty if room.get(arg) == 0 else arg for arg in args]
            args += [("ulong", room[buffer] or _SPARE) for buffer in buffers]
        group = tuple(formula(names) for formula in self.group)
        whole = group and all(type(extent) is int for extent in group)  # else the launch is refused
        items = {"items": math.prod(group)} if whole else {}
        return Kernel(
            template,
            self.entry,
            tuple(args),
            tuple(formula(names) for formula in self.items),
            group or None,
            {
                "storage": names["storage"],
                "acc": names["acc"],
                **{name: variable(names) for name, variable in self.variables.items()},
            },
            screen=screen_of(
                template, room is not None, entry=self.entry, args=parameters, **items
            ),
        )


def _room(request: Request, scratch: Sequence[int]) -> dict[tuple[str, int], int]:
    """The bytes of each buffer of a call."""
    sides = {"in": request.inputs, "out": request.outputs}
    room = {
        (side, i): spec.size * DTYPES[spec.dtype].itemsize
        for side, specs in sides.items()
        for i, spec in enumerate(specs)
    }
    return room | {("scratch", i): max(size, 0) for i, size in enumerate(scratch)}


def _implementation(signature: _Signature, table: ManifestTable, template: str) -> Implementation:
    op = signature.op
    lets = dict(table.items("let"))
    known = frozenset({*signature.known, *signature.outputs, *_FACTS, *lets})

    def made(text: Any, what: str) -> Expression:
        return Expression(text, f"{op}: {what}", SHAPES, known)

    defined = {name: made(text, f"let {name}") for name, text in lets.items()}
    scratch = [made(text, "scratch") for text in table.texts("scratch", ())]
    reject = [made(text, "reject") for text in table.texts("reject", ())]
    launches = [
        _launch(signature, row_of_launch, made, len(scratch))
        for row_of_launch in table.tables("launches")
    ]
    if not launches:
        raise wrong(table.who, "no launches", "at least one")

    def scope(request: Request) -> _Scope:
        given = signature.names(request.inputs, request.attrs)
        given |= dict(zip(signature.outputs, request.outputs, strict=False))
        dtype = DTYPES[request.inputs[0].dtype]
        given |= {"gpu": request.device.kind == "gpu", "units": request.device.compute_units}
        return _Scope({**given, "storage": dtype.storage, "acc": dtype.compute}, defined)

    def plan(request: Request) -> Kernels:
        names = scope(request)
        sizes = tuple(formula(names) for formula in scratch)
        room = _room(request, sizes) if request.device.kind == "cpu" else None
        kernels = tuple(launch.kernel(template, names, room) for launch in launches)
        return Kernels(kernels, sizes if room is None else (*sizes, _SPARE))

    def refused(request: Request) -> str | None:
        names = scope(request)
        return next((f"{condition.text} holds" for condition in reject if condition(names)), None)

    made_of = Implementation(
        op,
        table.take("label", str, "as declared"),
        plan,
        Requirements(table.texts("devices", ()), reject=refused if reject else None),
        table.take("priority", int, 0),
    )
    table.done()
    return made_of


def _launch(
    signature: _Signature,
    table: ManifestTable,
    parse: Callable[[Any, str], Expression],
    scratch: int,
) -> _Launch:
    buffers = {name: ("in", i) for i, name in enumerate(signature.inputs)}
    buffers |= {name: ("out", i) for i, name in enumerate(signature.outputs)}
    buffers |= {f"scratch{i}": ("scratch", i) for i in range(scratch)}
    args: list[tuple[str, Any]] = []
    for argument in table.take("args", list):
        if isinstance(argument, dict) and len(argument) == 1:
            ((kind, text),) = argument.items()
            args.append((kind, parse(text, f"args: {kind}")))
        elif isinstance(argument, str) and argument in buffers:
            args.append(buffers[argument])
        else:
            expected = f"{', '.join(buffers)}, or a number such as {{ ulong = 'x.size' }}"
            raise wrong(table.who, f"the argument {argument!r}", expected)
    launch = _Launch(
        table.take("entry", str),
        args,
        [parse(text, "items") for text in table.texts("items")],
        [parse(text, "group") for text in table.texts("group", ())],
        {name: parse(text, f"variables: {name}") for name, text in table.items("variables")},
    )
    table.done()
    return launch
