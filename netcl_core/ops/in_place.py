"""Changes in place: `x.add_(y)`, `x += y`, `x[index] = y`, `x.copy_(y)`.

What shares its memory with others is overwritten where it lies, so that they all show the change;
a recorded value that shares nothing takes a new buffer, and graphs that read the old one keep it.
Where a graph is involved the base of the memory gets a new record, "as before, with this region
replaced", and every other view is recorded anew as a read of that.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import ArgumentError, DtypeError, GradientError, ShapeError, message
from netcl_core.runtime.geometry import Geometry, dense
from netcl_core.runtime.recording import made_before
from netcl_core.tape.aliasing import PutCall, ReadCall
from netcl_core.tape.apply import apply
from netcl_core.tape.function_call import apply_op
from netcl_core.tape.hooks import leave_hooks
from netcl_core.tape.modes import enable_grad, is_grad_enabled, no_grad
from netcl_core.tape.node import Node, next_number
from netcl_core.tape.tape import get_current_tape
from netcl_core.tape.tracing import apart, overwritten_at_each_call, sizes_of, trace_of_change
from netcl_core.tensors.functions import functions
from netcl_core.tensors.host_data import host_array
from netcl_core.tensors.operand import Operand, picks_a_view, told
from netcl_core.tensors.tensor import Tensor, View

_ASSIGNED: Final = "x[index] = ..."


def change_in_place(x: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """Let `x` become `make(x)`, and return `x`.

    Args:
        x: A Tensor or Node.
        name: What the user wrote, for errors.
        make: Gives the new value, of the same shape and of a dtype that x's can hold.

    Raises:
        GradientError: `x` is a leaf that needs a gradient, or a view of one.
        ArgumentError: several elements of `x` lie at one place.
        ShapeError, DtypeError: the new value does not fit.
    """
    trace = trace_of_change(x)
    if trace is None:
        return _change(x, name, make)
    first = len(trace.nodes)
    new = _fitting(x, name, make(x))
    if trace.replaces(x, new, first):
        return x
    return _change(x, name, lambda _: new)


@apart
def _change(x: Any, name: str, make: Callable[[Any], Any]) -> Any:
    told()
    recording = is_grad_enabled()
    if recording:
        _refuse(x, name)
    if not recording:
        _write(x.value, _fitting(x, name, make(x)))
        return x
    since, adopts = next_number(), _has_record(x) and not _is_shared(x.value)
    old = _former(x, adopts)
    new = _fitting(x, name, make(old))
    if old.call is not None and not new.requires_grad:  # what x was gets a gradient of zeros
        whole = PutCall(x, dense(x.shape), name, written=_own_value(new))
        new = apply(whole, [old, new])
    if adopts:
        _become(x, old, new, _own_value(new))
    elif old.call is not None or new.requires_grad or _of_graph(x):
        _keep_saved(old, new, since)
        for member in (old, *_others(x)):
            _keep_result(member, x.value.memory)
        _write(x.value, new)
        _record(x, name, old, new)
    else:
        only = [new]
        del old, new  # so that `_write` finds nobody else who has the buffers
        _write(x.value, only.pop())
    return x


def _is_shared(value: Tensor) -> bool:
    return value.is_alias or value._storage is not None


def _former(x: Any, adopts: bool) -> Node:
    """What x is now, for the call that makes its new value, and whose data may be replaced."""
    if not isinstance(x, Node) and x.graph is not None:
        return x.graph  # type: ignore[no-any-return]  # a Node, whose data are an alias of x's
    old = x.former() if _has_record(x) else Node(x.value)
    if not adopts:
        value = x.value
        described = value.shape, value.dtype, value.device
        shared = _is_shared(value)
        old.value = value.alias(x.shape) if shared else Tensor(value.buffer, *described)
    return old


def _own_value(new: Any) -> Tensor:
    """The data of a new value, copied if others have them too."""
    value: Tensor = new.value
    return value.duplicate() if _is_shared(value) or value.geometry is not None else value


def _keep_saved(old: Node, new: Any, since: int) -> None:
    """Let what the new value's gradients read of the memory stay as it is, since it is written to.

    Only what was made for this change is looked at: a tensor that the user holds changes with the
    memory, and a graph that has saved it notices.
    """
    memory, private, saved = old.value.memory, {id(old.value)}, []
    nodes = [new] if isinstance(new, Node) else []
    for node in nodes:  # which grows
        if node is old or node.number < since:
            continue
        private.add(id(node.value))
        record = node if node.source is None else node.source
        saved += [saved_value for saved_value, _ in record.versions]
        nodes += [x for x in record.inputs if isinstance(x, Node)]
    for saved_value in saved:
        if saved_value.memory is memory and id(saved_value) in private:
            saved_value.leave_memory()


def _keep_result(x: Any, memory: Any) -> None:
    """Let a result that its own gradients read stay as it is for them."""
    node = x if isinstance(x, Node) else x.graph
    record = node if node is None or node.source is None else node.source
    if record is not None and record.call is not None and record.call.at_result:
        kept = record.kept or ()
        record.kept = [y.duplicate() if y.memory is memory else y for y in kept] or record.kept


def becomes(x: Any, old: Any, result: Any, name: str) -> Any:
    """Let `x`, whose data a Function has changed, be the result of its call; returns `x`.

    `old` is what it was before (see `former_of`). Raises GradientError as `change_in_place` does.
    """
    _refuse(x, name)
    if isinstance(result, Node) and result.call is not None:
        _record(x, name, old, result)
    return x


def former_of(x: Any) -> Any:
    """What x is now, for a call that reads it before x becomes its result."""
    return _former(x, adopts=True)


def assign_in_place(x: Any, op: str, other: Any) -> Any:
    """What `x <op>= other` leaves under the name: `x`, changed in place."""
    return change_in_place(x, f"{op}_", lambda old: functions[op](old, other))


#: Ops that change no element in place, but how these lie.
RESHAPING: Final = frozenset({"squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"})


def reshape_in_place(x: Any, name: str, make: Callable[[Any], Any]) -> Any:
    """Let `x` be the view `make(x)` of itself: `x.unsqueeze_(0)`; returns `x`.

    Raises GradientError for a leaf that needs a gradient, ArgumentError where other tensors share
    the memory of one that is to be transposed.
    """
    trace = trace_of_change(x)
    if trace is not None:
        first = len(trace.nodes)
        if trace.replaces(x, make(x), first):
            return x
    return _reshape(x, name, make)


@apart
def _reshape(x: Any, name: str, make: Callable[[Any], Any]) -> Any:
    told()
    if x.is_leaf and x.requires_grad:
        raise _refused(name, "a leaf that needs a gradient", f"Write x = x.{name[:-1]}(...)")
    if _has_record(x):
        old = x.former()
        with enable_grad():
            new = make(old)
        _become(x, old, new, new.value)
        x.value.storage.join(x, x)
        return x
    value = x.value
    with no_grad():
        new = make(value).value
    if isinstance(x, Node):
        x.value = new
    elif isinstance(value, View):
        value.geometry, value.shape, value.packed = _geometry(new), new.shape, None
    elif new.geometry is None:
        value.shape = new.shape
    elif any(member is not new for member in value.storage.members()):
        given, expected = "a tensor with views", "one that shares its memory with nobody"
        raise ArgumentError(message(name, given, expected, f"Write x = x.{name[:-1]}(...)"))
    else:
        value.buffer, value.shape, value._storage = new.duplicate().buffer, new.shape, None
        value.mark_changed()
    return x


def _geometry(x: Tensor) -> Geometry:
    return x.geometry or dense(x.shape)


def copy_in_place(x: Any, source: Any) -> Any:
    """`x.copy_(source)`: a tensor, array or number, converted and broadcast."""
    if overwritten_at_each_call(x, source):
        return x

    return change_in_place(x, "copy_", lambda old: _put_into(x.shape, x, source))


def _put_into(shape: tuple[int, ...], x: Any, source: Any) -> Any:
    """A source in the dtype and on the device of x, in a shape; a node that nobody else has."""
    value = source
    if not isinstance(source, Operand):
        array = host_array(source, None).astype(DTYPES[x.dtype].numpy)
        value = Tensor.from_host(array, x.device)
    elif source.device is not x.device:
        value = functions["to_device"](source, x.device)
    if value.dtype != x.dtype:
        value = functions["astype"](value, x.dtype)
    value = _broadcast(value, shape)
    if not value.requires_grad:
        return value
    return apply_op(
        lambda given: given.alias(given.shape), lambda grad: [grad], value, op_name="copy_",
        saves=(),
    )  # fmt: skip


def _broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    pairs = zip(reversed(value.shape), reversed(shape), strict=False)
    if value.ndim > len(shape) or any(size not in (1, wanted) for size, wanted in pairs):
        raise ShapeError(
            message("copy_", f"shape {value.shape}", f"{shape}, or what broadcasts to it")
        )
    return value if value.shape == shape else functions["expand"](value, shape)


@apart
def set_item(x: Any, index: Any, value: Any) -> None:
    """`x[index] = value`, for every index that `x[index]` takes."""
    if not picks_a_view(index):
        put = functions["index_put"]
        change_in_place(x, _ASSIGNED, lambda old: put(old, index, value))
        return
    told()
    if is_grad_enabled() and _has_record(x) and not _is_shared(x.value):
        bare = Tensor(x.value.buffer, x.shape, x.dtype, x.device)  # which shares no version
        with no_grad():
            part = functions["pick a view"](bare, index).value
        source = _put_into(part.shape, x, _without_leading_ones(value, part.ndim))
        call = PutCall(x, part.geometry or dense(part.shape), _ASSIGNED)
        change_in_place(x, _ASSIGNED, lambda old: apply(call, [old, source]))
        return
    view = functions["pick a view"](x, index)
    copy_in_place(view, _without_leading_ones(value, view.ndim))


def _without_leading_ones(value: Any, ndim: int) -> Any:
    """A value that is assigned to fewer dimensions, as in NumPy."""
    sizes = value.shape if isinstance(value, Operand) else np.shape(value)
    lead = len(sizes) - ndim
    if lead <= 0 or set(sizes[:lead]) != {1}:
        return value
    return (value if isinstance(value, Operand) else np.asarray(value)).reshape(sizes[lead:])


# -- what may be changed ------------------------------------------------------------------


def _has_record(x: Any) -> bool:
    return isinstance(x, Node) and x.call is not None


def _of_graph(x: Any) -> bool:
    """Whether the memory of x holds values of a graph that x itself is no result of."""
    return x.requires_grad or any(other.requires_grad for other in _others(x))


def _others(x: Any) -> list[Any]:
    """The living operands that share memory with x by views, which a graph has to know of."""
    members = x.value.storage.members() if _is_shared(x.value) else []
    others = [member for member in members if member is not x]
    return others if len(others) < len(members) else []


def _refuse(x: Any, name: str) -> None:
    """Raise GradientError for what cannot be changed while it is recorded."""
    remedy = "Change it in a block of `with nc.no_grad():`"
    if x.is_leaf and x.requires_grad:
        raise _refused(name, "a leaf that needs a gradient", remedy)
    if any(other.is_leaf and other.requires_grad for other in _others(x)):
        raise _refused(name, "a view of a leaf that needs a gradient", remedy)


def _refused(name: str, given: str, remedy: str) -> GradientError:
    return GradientError(message(name, given, "a value that may change in place", remedy))


def _fitting(x: Any, name: str, new: Any) -> Any:
    """A new value in x's dtype; raises unless it fits."""
    if sizes_of(new) != sizes_of(x):
        raise ShapeError(message(name, f"a value of shape {new.shape}", f"{x.shape}, as x has"))
    if new.dtype == x.dtype:
        return new
    if DTYPES[new.dtype].category > DTYPES[x.dtype].category:
        remedy = "Convert x first with astype"
        raise DtypeError(message(name, f"a {new.dtype} value into {x.dtype}", x.dtype, remedy))
    return new.astype(x.dtype)


# -- how it is changed --------------------------------------------------------------------


def hand_over(x: Any, source: Any) -> None:
    """`x.copy_(source)` for a tensor that nobody reads or changes any more: x takes its buffer.

    >>> running = nc.zeros(2)
    >>> with nc.no_grad():
    ...     ag.hand_over(running, running + 1)
    >>> running.tolist()
    [1.0, 1.0]

    It copies where grad mode is on, in a trace or a capture, where others hold the memory of x, and
    what has another shape, dtype or device. Raises as `copy_` does.
    """
    target, value = x.value, source.value
    fits = (value.shape, value.dtype, value.device) == (target.shape, target.dtype, target.device)
    if target.pending or value.pending or not fits or is_grad_enabled():
        copy_in_place(x, source)
        return
    if _is_shared(target) and _has(target, "_storage") and not target.storage.members():
        target._version, target._storage = target.version, None  # those who shared it are gone
    _take(target, value, value is not target and not _is_shared(value))


def _write(target: Tensor, new: Any) -> None:
    """Give a tensor the elements of a new value, by its buffer if nobody else has either."""
    if new.value is not target:
        fresh = getrefcount(new) == _ARGUMENT and (new.value is new or _has(new, "value"))
        _take(target, new.value, fresh and _is_private(new.value))


def _take(target: Tensor, value: Tensor, given_up: bool) -> None:
    """Give a tensor the elements of a value, by its buffer if nobody else reads or changes that."""
    if given_up and _is_private(target):
        target.mark_changed()
        target.buffer = value.buffer
    else:
        value.copy_into(target)


def _is_private(x: Tensor) -> bool:
    """Whether nobody else holds the buffer: no view, no export, no capture."""
    plain = not _is_shared(x) and x.geometry is None
    return plain and _has(x, "buffer") and not made_before(x.buffer)


def _holders(owner: Any, name: str) -> int:
    return getrefcount(getattr(owner, name))


def _has(owner: Any, name: str) -> bool:
    """Whether an attribute is held by nobody else."""
    return _holders(owner, name) == _ATTRIBUTE


#: What Python counts, by a version's own rules, for what one argument or one attribute holds.
_ARGUMENT: Final = (lambda new: getrefcount(new))(object())
_ATTRIBUTE: Final = _holders(SimpleNamespace(held=object()), "held")


def _record(x: Any, name: str, old: Any, new: Any) -> None:
    """Give x, its base and its views new records, now that the memory has the new value."""
    value = x.value
    others = _others(x)
    if value.geometry is None or not others:
        _become(x, old, new, value)
        base = x
    else:
        whole = [other for other in others if other.value.geometry is None]
        base = whole[0] if whole else value.whole()
        before = _former(base, adopts=True)
        call = PutCall(base, value.geometry, name, written=base.value)
        _become(base, before, apply(call, [before, new]), base.value)
        others = [x, *(other for other in others if other is not base)]
    for other in others:
        geometry = other.value.geometry or dense(other.shape)
        read = apply(ReadCall(base, geometry), [base])
        before = old if other is x else _former(other, adopts=True)
        _become(other, before, read, other.value)


def _become(x: Any, old: Any, new: Any, value: Tensor) -> None:
    """Let `x`, which was `old`, be a new value, whose data are those of `value`."""
    recorded = isinstance(new, Node) and new.call is not None
    if not isinstance(x, Node):
        x.graph = None
        x._requires_grad = recorded
        if recorded:
            new.value = value.alias(value.shape)
            x.graph = new
        return
    if old.call is not None:
        leave_hooks(x, old)
        x.leave(old)
        _replace_in_tape(x, old)
    if not recorded:
        x.become_constant(value)
    elif new.source is not None or new.others() or new.used:
        x.value = value
        x.share(new)
    else:
        x.take_over(new)
        x.value = value
        _replace_in_tape(new, x)


def _replace_in_tape(x: Node, old: Node) -> None:
    """Let the old self of a value stand in its place on a tape that keeps a list."""
    tape = get_current_tape()
    if not tape.implicit:
        tape.replace(x, old)
