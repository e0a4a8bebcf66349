"""`ag.<op>`: the public function of every op that is installed, made on first use.

Also the functions that are the core's own because no plugin could give them: `backward`,
`astype`, `to_device` and those about hooks, which Tensor's methods call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, Final

from netcl_core.codegen.primitives import AutogradPrimitive
from netcl_core.device.device import Device
from netcl_core.errors import ArgumentError, MissingOpError, message
from netcl_core.ops.choosing import contested
from netcl_core.ops.composition import composite_function
from netcl_core.ops.operator_function import operator_function
from netcl_core.ops.operators import Operator
from netcl_core.ops.primitive_function import astype, primitive_function
from netcl_core.plugins.catalogue import how_to_get, providers
from netcl_core.plugins.kinds import OP_KINDS
from netcl_core.plugins.registry import registry
from netcl_core.tape.function_call import apply_op
from netcl_core.tape.gradients import move
from netcl_core.tape.hooks import register_hook, retain_grad
from netcl_core.tape.tape import backward
from netcl_core.tensors.functions import functions

#: NumPy's names of arguments beside PyTorch's; both are accepted everywhere.
_ALIASES: Final = {"axis": "dim", "keepdims": "keepdim"}


def to_device(x: Any, device: Device) -> Any:
    """`x` on another device; gradients go back the same way."""
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


CORE: Final[dict[str, Callable[..., Any]]] = {
    "backward": backward,
    "astype": astype,
    "to_device": to_device,
    "register_hook": register_hook,
    "retain_grad": retain_grad,
}


def build(name: str) -> Callable[..., Any]:
    """The function of an op; raises MissingOpError that says which package provides it."""
    if name in CORE:
        return CORE[name]
    registry.load()
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
    return with_aliases(make(record), record.signature)


def with_aliases(function: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    """Accept NumPy's `axis` and `keepdims` where the signature says `dim` and `keepdim`."""
    accepted = signature.parameters
    aliases = {old: new for old, new in _ALIASES.items() if new in accepted}
    if not aliases:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for old, new in aliases.items():
            if old in kwargs:
                if new in kwargs:
                    raise ArgumentError(
                        message(function.__name__, f"{old} and {new} were given", "one of them")
                    )
                kwargs[new] = kwargs.pop(old)
        return function(*args, **kwargs)

    return call


def missing(name: str) -> MissingOpError:
    """The error for an op that no installed plugin provides."""
    remedy = how_to_get(name, *OP_KINDS)
    parts = [row for row in registry.op_rows(name, parts=True) if row.part_of]
    if parts:
        given = f"it exists for {parts[0].part_of} alone and is no op of its own"
        return MissingOpError(message(f"netcl_core.autograd.{name}", given, "a public op"))
    if remedy is None:
        close = get_close_matches(name, {*registry.op_names(), *providers(*OP_KINDS)}, n=3)
        hint = "nc.plugins.list() shows what is installed"
        remedy = f"Did you mean {' or '.join(close)}?" if close else hint
    given = "no installed plugin provides this op"
    if others := sorted({row.provider for row in registry.rows("implementation", name)}):
        given += f" ({' and '.join(others)}: only an implementation of it, not the operator)"
    return MissingOpError(message(f"netcl_core.autograd.{name}", given, "", remedy))


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    return functions[name]


def __dir__() -> list[str]:
    registry.load()
    return sorted({*registry.op_names(), *CORE})


def _built(name: str) -> tuple[Callable[..., Any], bool]:
    version = registry.version
    function = build(name)
    return function, registry.version == version  # else a plugin came or went meanwhile


def _names() -> list[str]:
    registry.load()
    return registry.op_names()


functions.build, functions.build_of, functions.names = _built, function_of, _names
registry.on_change(functions.clear)
