"""The public function of a structured op: what it is given, what it gives, the calls it keeps."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from netcl_core.cache import Memo
from netcl_core.hardware.device import Device
from netcl_core.hardware.device_table import default_device
from netcl_core.ops.implementations import Attrs
from netcl_core.ops.known_calls import KnownCalls
from netcl_core.ops.operator_call import OperatorCall
from netcl_core.ops.operators import Operator
from netcl_core.ops.primitive_function import sorted_operands
from netcl_core.ops.targets import TARGETS, into
from netcl_core.ops.user_errors import MISTAKES, names_an_op, raise_named
from netcl_core.plugins.registry import registry
from netcl_core.runtime.kernels import Spec
from netcl_core.tape.apply import apply, common_device
from netcl_core.tape.state import thread
from netcl_core.tape.tracing import depends_on_sizes, refused
from netcl_core.tensors.arguments import renaming
from netcl_core.tensors.tensor import Tensor

#: How many calls an op keeps: another one costs little more than to find it.
CALLS: Final = 512


def operator_function(operator: Operator) -> Callable[..., Any]:
    """The public function of an operator."""
    calls: Memo[Any, OperatorCall] = Memo(CALLS)
    calls_by_arguments, view = KnownCalls(CALLS), operator.view is not None
    bind = operator.bind
    assert bind is not None  # functions of other ops have their own public function
    renamed = renaming(operator.name, operator.signature.parameters)

    def prepared(args: Any, kwargs: Any) -> tuple[OperatorCall, list[Any]]:
        """The call for such operands, which is kept, and the operands."""
        try:
            operands, attrs = bind(*args, **kwargs)
            device, operands, inputs, key = prepare(operator, operands, attrs)
            prepared_call = calls.get(key)
            if prepared_call is None:
                try:
                    common_device(operator.name, inputs)  # raises if there are several
                    specs = specs_of(operands, inputs)
                    prepared_call = calls.put(key, OperatorCall(operator, device, specs, attrs))
                except Exception:
                    refused(inputs)
                    raise
        except MISTAKES as error:
            if names_an_op(error):
                raise
            raise_named(error, operator.name, bind, args, kwargs)
        return prepared_call, inputs

    def call(*args: Any, **kwargs: Any) -> Any:
        given = None
        if (view or thread.amp is None) and not depends_on_sizes():
            known, inputs, given = calls_by_arguments.find(args, kwargs)
            if known is not None:
                value = apply(known, inputs, (), known.attrs)
                return value if type(value) is not list else deliver(operator, value)
        if kwargs:
            if not TARGETS.isdisjoint(kwargs):
                return into(call, args, kwargs)
            kwargs = renamed(kwargs)
        prepared_call, inputs = prepared(args, kwargs)
        if given is not None:
            calls_by_arguments.note(given, prepared_call, inputs)
        return deliver(operator, apply(prepared_call, inputs, (), prepared_call.attrs))

    call.__name__ = call.__qualname__ = operator.name
    call.__doc__ = operator.doc
    functools.update_wrapper(call, bind, assigned=("__annotations__",), updated=())
    return call


def deliver(operator: Operator, value: Any) -> Any:
    """What a call of an op gives: its one result, or a tuple, with names if it has some."""
    if type(value) is not list:
        return value
    return _tuple_type(operator)(*value) if operator.results else tuple(value)


@functools.lru_cache(maxsize=1024)
def _tuple_type(operator: Operator) -> Any:
    return namedtuple(operator.name, operator.results)


_NO_NUMBERS: Final[frozenset[type]] = frozenset()
#: The device, the operands as they are cast, those that are there as Operands, and the key.
Prepared: TypeAlias = tuple[Device, Sequence[Any], list[Any], tuple[Any, ...]]


def prepare(
    operator: Operator, operands: Sequence[Any], attrs: Attrs, device: Device | None = None
) -> Prepared:
    """What is decided before an op's call is looked up: its device, its casts, and its key.

    The key has all that the call depends on: which implementation serves it follows from the
    registry's version and the choices in force. `device`: where it is known already.
    """
    given = sorted_operands(operands, _NO_NUMBERS)
    cast_by = None if operator.view is not None else thread.amp
    if given is None or cast_by is not None:
        device = device or common_device(operator.name, operands) or default_device()
        operands = [as_operand(x, device) for x in operands]
        if cast_by is not None:
            operands = cast_by.cast(operator.name, operands, device)
        given = sorted_operands(operands, _NO_NUMBERS)
        assert given is not None  # host data is tensors now
    inputs, _, key = given
    device = inputs[0].device if inputs else device or default_device()
    key += (device, registry.version, thread.chosen, *map(_told_apart, attrs.values()))
    return device, operands, inputs, tuple(key)


def _told_apart(value: Any) -> Any:
    """A value of a key, where 0.0 and -0.0 are two."""
    return repr(value) if value.__class__ is float and not value else value


def specs_of(operands: Sequence[Any], inputs: Sequence[Any]) -> tuple[Spec | None, ...]:
    """Shape and dtype of each operand, of which `inputs` are those that are there."""
    present = iter(inputs)
    return tuple([None if x is None else _spec(next(present)) for x in operands])


def _spec(operand: Any) -> Spec:
    return Spec(operand.shape, operand.dtype)


def as_operand(value: Any, device: Device | None = None) -> Any:
    """A Node or Tensor as it is, None as None, host data as a Tensor on the device, or the default.

    >>> ag.as_operand([1.0, 2.0], nc.get_device("numpy"))
    Tensor([1., 2.], shape=(2,), dtype=float32, device=numpy)

    Args:
        value: A Tensor, an array, a number or a list.
    """
    if value is None or isinstance(value, Tensor):
        return value
    return Tensor.from_host(value, device)


def as_operands(*values: Any) -> list[Any]:
    """Each as `as_operand`; host data go to the device of the first tensor among them.

    >>> ag.as_operands(nc.ones(1, device="numpy"), 2.0)[1].device
    <Device numpy: NumPy>

    Args:
        values: Tensors, arrays, numbers or lists.
    """
    device = next((x.device for x in values if isinstance(x, Tensor)), None)
    return [as_operand(x, device) for x in values]
