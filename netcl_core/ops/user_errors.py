"""Mistakes in calls: whatever goes wrong while an op takes its arguments becomes an error that
names the op, what was given and what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Final, NoReturn, Union, get_args, get_origin, get_type_hints

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, NetclError, message
from netcl_core.plugins.registry import registry
from netcl_core.tensors.tensor import Tensor

#: What wrong arguments raise in Python code that did not expect them.
MISTAKES: Final = (
    NetclError,
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    StopIteration,
)


def raise_named(
    error: Exception,
    op: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> NoReturn:
    """Raise an error of the call `op(*args, **kwargs)` again, in the words of the op's caller.

    netcl's own errors get the op's name in front unless they name an op already. Others
    become ArgumentError, with the original one as cause; `function` has the op's signature.
    """
    text = str(error)
    if text.startswith(f"{op}:") or f" {op}:" in text:
        raise error
    if isinstance(error, NetclError):
        error.args = (f"{op}: {text}",)
        raise error
    signature = _plain(inspect.signature(function))
    given = ", ".join([*map(_told, args), *(f"{k}={_told(v)}" for k, v in kwargs.items())])
    try:
        signature.bind(*args, **kwargs)
    except TypeError as mismatch:
        text = str(mismatch)
    raise ArgumentError(
        message(op, f"it was given ({given}): {text or type(error).__name__}", f"{op}{signature}")
    ) from error


def misfit(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the arguments do not fit a function's signature and annotations.

    What annotations leave open may be tensors, arrays, numbers and sequences of these, and None
    where that is the default.
    """
    signature = inspect.signature(function)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return True
    hints, parameters = _hints(function), signature.parameters
    return not all(
        (value is None and parameters[name].default is None) or _fits(value, hints.get(name, Any))
        for name, value in given.items()
    )


@lru_cache(maxsize=1024)
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except (NameError, TypeError):  # names that only type checkers see
        return {}


def _fits(value: Any, hint: Any) -> bool:
    if hint is Any or hint is Tensor:
        return _is_data(value)
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return any(_fits(value, part) for part in get_args(hint))
    if hint in (None, NoneType):
        return value is None
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    origin = get_origin(hint) or hint
    if origin in (int, bool, str):
        return isinstance(value, origin)
    if origin in (Sequence, list, tuple):
        wanted = next((part for part in get_args(hint) if part is not Ellipsis), Any)
        listed = isinstance(value, (list, tuple))
        return listed and all(_fits(part, wanted) for part in value)
    return True


def _is_data(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) for item in value):
        return all(map(_is_data, value))
    try:
        return np.asarray(value).dtype.name in DTYPES
    except ValueError:  # a ragged list
        return False


def names_an_op(error: Exception) -> bool:
    """Whether an error's text begins with the name of an op."""
    head, colon, _ = str(error).partition(":")
    return bool(colon and registry.op_rows(head))


def _plain(signature: inspect.Signature) -> inspect.Signature:
    """A signature without annotations."""
    empty = inspect.Signature.empty
    names = [parameter.replace(annotation=empty) for parameter in signature.parameters.values()]
    return signature.replace(parameters=names, return_annotation=empty)


def _told(value: Any) -> str:
    """A value in few words: shape and dtype, or its type and a short form."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} {tuple(value.shape)} {value.dtype}"
    text = repr(value)
    return text if len(text) <= 40 else f"{type(value).__name__} {text[:37]}..."
