"""The arguments of elementwise ops: their signature, and what is data, attribute, or for a form."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from netcl_core.codegen.primitives import AutogradPrimitive, split_attrs
from netcl_core.errors import ArgumentError, message
from netcl_core.ops.user_errors import MISTAKES, raise_named
from netcl_core.tensors.arguments import renaming
from netcl_core.tensors.tensor import Tensor

#: What a kind of result means for dtypes.
_OF_DTYPES: Final = {"float": "; integers become float32", "bool": "; the result is bool"}


def doc(record: AutogradPrimitive) -> str:
    """The record's text, and below it the shapes and dtypes that follow from its fields."""
    names = record.inputs or ["x", "y", "z", "w"][: record.arity]
    shapes = "of any shape" if len(names) == 1 else "with shapes that broadcast"
    text = inspect.cleandoc(record.doc or f"The elementwise op {record.name}.")
    given = " and ".join(names) if record.arity else "Inputs"
    return f"{text}\n\nFor {given} {shapes}{_OF_DTYPES.get(record.result or '', '')}."


def signature(record: AutogradPrimitive) -> inspect.Signature | None:
    """What `inspect.signature(ag.<name>)` tells; None: the number of inputs is open."""
    defaults = record.default_attrs()
    if record.arity is None or defaults is None:
        return None
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    names = record.inputs or ["x", "y", "z", "w"][: record.arity]
    if len(names) != record.arity:
        return None
    inputs = [inspect.Parameter(name, kind, annotation="Any") for name in names]
    attrs = [
        inspect.Parameter(name, kind, default=value, annotation=type(value).__name__)
        for name, value in defaults.items()
    ]
    return inspect.Signature([*inputs, *attrs])


def wants_form(record: AutogradPrimitive, given: Mapping[str, Any]) -> bool:
    """Whether an argument is one that the expressions do not take, and a form does."""
    return any(
        name in record.forms
        and (name not in record.attrs or isinstance(value, (Tensor, np.ndarray)))
        for name, value in given.items()
    )


def by_form(record: AutogradPrimitive, data: Sequence[Any], given: dict[str, Any]) -> Any:
    """The op by the function of other ops that takes these arguments."""
    form = next(record.forms[name] for name in given if name in record.forms)
    try:
        return form(*data, **given)
    except MISTAKES as error:
        raise_named(error, record.name, form, data, given)


def attrs_key(attrs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The numbers among some attributes, and what a plan depends on of all of them."""
    numbers, _ = split_attrs(attrs)
    return list(numbers.values()), [
        value.__class__ if name in numbers else (value,) for name, value in attrs.items()
    ]


def splitter(record: AutogradPrimitive) -> Callable[..., Any]:
    """What takes a call's arguments apart, where they are not just the operands by position."""
    if record.arity is None:
        return lambda args, kwargs: (args, kwargs)
    renamed = renaming(record.name, (*(record.inputs or ()), *record.attrs, *record.forms))
    return lambda args, kwargs: _split(record, args, renamed(kwargs))


def _split(
    record: AutogradPrimitive, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Data by position or by its name, then attributes in order of their declaration."""
    arity, names = record.arity, tuple(record.attrs)
    assert arity is not None  # then everything is data
    data = list(args[:arity])
    for name in (record.inputs or ())[len(data) :]:
        if name in kwargs:
            data.append(kwargs.pop(name))
    extra = args[arity:]
    if len(data) != arity or len(extra) > len(names):
        wanted = ", ".join([*(record.inputs or [f"x{i}" for i in range(arity)]), *names])
        raise ArgumentError(
            message(record.name, f"{len(args)} positional arguments", f"({wanted})")
        )
    for name, value in zip(names, extra, strict=False):
        if name in kwargs:
            raise ArgumentError(message(record.name, f"{name!r} given twice", "one value"))
        kwargs[name] = value
    return tuple(data), kwargs
