"""`ag.<op>`: the public function of every op that is installed, made on first use.

Also the functions that are the core's own because no plugin could give them: `backward`,
`astype`, `to_device` and those about hooks, which Tensor's methods call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

import numpy as np

from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.errors import MissingOpError, message
from netcl_core.hardware.device import Device
from netcl_core.ops.casting import astype, clone
from netcl_core.ops.choosing import contested
from netcl_core.ops.composition import composite_function
from netcl_core.ops.in_place import (
    RESHAPING,
    assign_in_place,
    change_in_place,
    copy_in_place,
    reshape_in_place,
    set_item,
)
from netcl_core.ops.operators import Operator
from netcl_core.ops.public_function import operator_function, primitive_function
from netcl_core.plugins.catalogue import how_to_get, providers
from netcl_core.plugins.kinds import OP_KINDS, SERVING_OPS
from netcl_core.plugins.manager import namespace, namespace_attribute, not_ported, port, ported
from netcl_core.plugins.registry import registry
from netcl_core.tape.computations import move
from netcl_core.tape.function_call import apply_op, set_fields
from netcl_core.tape.hooks import register_hook, retain_grad
from netcl_core.tape.modes import no_grad
from netcl_core.tape.state import apart
from netcl_core.tape.tape import backward
from netcl_core.tensors.creation import full_like
from netcl_core.tensors.functions import functions
from netcl_core.tensors.tensor import Tensor


def to_device(x: Any, device: Device) -> Any:
    """`x` on another device; gradients go back the same way.

    For tensors of any shape and dtype.

    >>> ag.to_device(nc.tensor([1.0]), nc.get_device("numpy")).device
    <Device numpy: NumPy>
    """
    source = x.device
    if source is device:
        return x
    return apply_op(
        lambda value: move(value, device),
        lambda grad: [to_device(grad, source)],
        x,
        op_name="to",
        attrs={"device": str(device)},
        saves=(),
    )


def extremes(x: Tensor) -> Any:
    """The smallest and the largest element as an array, found on the device where ops can."""
    if not {"amin", "amax"} <= set(functions.op_names()):
        return x.to_host()
    with apart(), no_grad():  # a trace looks at values, and does not take down how
        return np.array([functions[op](x).item() for op in ("amin", "amax")])


def without_foreign(who: str, ours: frozenset[str], given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments, as far as the namespace `port` does not take them out."""
    known = port()
    return given if known is None else known.without_foreign(who, ours, given)


CORE: Final[dict[str, Callable[..., Any]]] = {
    "backward": backward,
    "astype": astype,
    "to_device": to_device,
    "register_hook": register_hook,
    "retain_grad": retain_grad,
    "clone": clone,
    "full_like": full_like,
}
#: What tensors call beside ops; no op can have such a name.
_INTERNAL: Final[dict[str, Callable[..., Any]]] = {
    "change in place": change_in_place,
    "assign in place": assign_in_place,
    "copy in place": copy_in_place,
    "set item": set_item,
    "fields of a node": set_fields,
    "extremes": extremes,
    "foreign arguments": without_foreign,
}


#: The same, of the namespace `creation`.
_CREATION: Final = {
    "from buffer": "from_buffer",
    "to dlpack": "to_dlpack",
    "dlpack device": "dlpack_device",
}
#: The same, of ops' parts: what `x[index]` is for slices and ints, by the shortest way.
_PARTS: Final[dict[str, tuple[str, str]]] = {"pick a view": ("getitem", "basic_getitem")}


def _part(op: str, part: str) -> Callable[..., Any]:
    registry.load(SERVING_OPS, op)
    rows = registry.op_rows(part, parts=True)
    if not rows or len(registry.op_rows(op)) != 1:
        return functions[op]
    return functions.of_record(rows[0].record)


def build(name: str) -> Callable[..., Any]:
    """The function of an op; raises MissingOpError that says which package provides it."""
    if name in CORE:
        return CORE[name]
    if name in _INTERNAL:
        return _INTERNAL[name]
    if name in _CREATION:
        function: Callable[..., Any] = getattr(namespace("creation", name), _CREATION[name])
        return function
    if name in _PARTS:
        return _part(*_PARTS[name])
    registry.load(SERVING_OPS, name)
    rows = registry.op_rows(name)
    if not rows:
        raise missing(name)
    if len(rows) == 1:
        return functions.of_record(rows[0].record)
    return contested(name, rows, lambda row: functions.of_record(row.record))


def function_of(record: Any) -> Callable[..., Any]:
    """The function of one record, for `tensors.functions`."""
    if isinstance(record, AutogradPrimitive):
        return primitive_function(record)
    assert isinstance(record, Operator)  # the registrar takes nothing else
    make = operator_function if record.function is None else composite_function
    return make(record)


def method(name: str) -> Callable[..., Any] | None:
    """`x.<name>(...)`: the op of this name; with `_` at its end, the op in place. None: no method.

    An op of one parameter beside the tensor takes several ints as one tuple: `x.permute(1, 0)`.
    """
    op = name.removesuffix("_")
    registry.load(SERVING_OPS, op)
    rows = registry.op_rows(op)
    if not rows or not all(getattr(row.record, "method", True) for row in rows):
        return ported("Tensor", name)  # type: ignore[no-any-return]
    record = rows[0].record
    gathers = isinstance(record, Operator) and _takes_one_more(record.signature)
    function = functions[op]
    if op == name and not gathers and op in functions:
        return function  # it may be kept, as long as this method is

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if gathers and len(args) > 1:
            args = (args,)
        if op == name:
            return functions[op](x, *args, **kwargs)
        change = reshape_in_place if op in RESHAPING else change_in_place
        return change(x, name, lambda old: functions[op](old, *args, **kwargs))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = function.__doc__ if op == name else f"`{op}` in place."
    return call


def _takes_one_more(signature: inspect.Signature) -> bool:
    """Whether a signature has one parameter by position beside the tensor."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in kinds for parameter in signature.parameters.values()) == 2


def absence(name: str) -> str:
    """Why a tensor has no method of this name, though an op is called so; empty: none is."""
    op = name.removesuffix("_")
    if registry.op_rows(op):
        return f"It is a function: netcl_core.autograd.{op}(...)"
    return how_to_get(op, *OP_KINDS) or not_ported("Tensor", name)


def missing(name: str) -> MissingOpError:
    """The error for an op that no installed plugin provides."""
    remedy = how_to_get(name, *OP_KINDS)
    parts = [row for row in registry.op_rows(name, parts=True) if row.part_of]
    if parts:
        given = f"it exists for {parts[0].part_of} alone and is no op of its own"
        return MissingOpError(message(f"netcl_core.autograd.{name}", given, "a public op"))
    if remedy is None and (why := not_ported("torch", name)):
        error = MissingOpError(message("netcl_core", f"it has no {name!r}", "", why))
        error.told = True
        return error
    if remedy is None:
        close = get_close_matches(name, {*registry.op_names(), *providers(*OP_KINDS)}, 3, 0.75)
        hint = "nc.plugins.list() shows what is installed"
        remedy = f"Did you mean {' or '.join(close)}?" if close else hint
    given = "no installed plugin provides this op"
    if others := sorted({row.provider for row in registry.rows("implementation", name)}):
        given += f" ({' and '.join(others)}: only an implementation of it, not the operator)"
    return MissingOpError(message(f"netcl_core.autograd.{name}", given, "", remedy))


def __getattr__(name: str) -> Any:
    return _get(name, "nn.functional")


def _get(name: str, place: str) -> Any:
    """The function of an op, else a further name of PyTorch's at a place."""
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return functions[name]
    except MissingOpError:
        value = ported(place, name)
        if value is None:
            raise
        return value


def face_of(names: dict[str, Any], place: str, short: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a face: the function of an op, else a further name of PyTorch's.

    `place` is where PyTorch has the names of this face, `short` the namespaces of some of them.

    It is kept among the names of the face until an op comes or goes.
    """
    fetched: set[str] = set()

    def get(name: str) -> Any:
        if name in names.get("_SUBMODULES", ()):
            return import_module(f"{names['__name__']}.{name}")
        version = registry.version
        space = namespace_attribute(short[name]) if name in short else None
        function = _get(name, place) if space is None else getattr(space, name)
        with registry.lock:
            if registry.version == version:  # else a plugin came or went meanwhile
                names[name] = function
                fetched.add(name)
        return function

    def forget() -> None:
        while fetched:
            names.pop(fetched.pop(), None)

    registry.on_change(forget)
    return get


def __dir__() -> list[str]:
    return sorted({*registry.op_names(), *CORE})


def _built(name: str) -> tuple[Callable[..., Any], bool]:
    version = registry.version
    function = build(name)
    return function, registry.version == version  # else a plugin came or went meanwhile


functions.build, functions.build_of, functions.names = _built, function_of, registry.op_names
functions.build_method, functions.absence = method, absence
registry.on_change(functions.clear)
