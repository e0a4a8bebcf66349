"""`astype` and `clone`; and what an amp policy in force is asked for.

Every op asks `thread.amp`, before its call is prepared, what becomes of its operands: a call is
for dtypes, and some ops refuse mixed ones. A plugin brings policies, and enters one there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from netcl_core.cache import Memo
from netcl_core.codegen.lowering import Plan
from netcl_core.codegen.region import Signature
from netcl_core.dtypes import dtype_name
from netcl_core.hardware.device import Device
from netcl_core.tape.apply import apply
from netcl_core.tape.computations import cast_region
from netcl_core.tape.region_call import RegionCall
from netcl_core.tensors.host_data import check_dtype
from netcl_core.tensors.tensor import Tensor

#: To which dtype each operand of an elementwise op is converted; None: it is read as it is.
Casts: TypeAlias = tuple[str | None, ...]
_casts: Final[Memo[Any, RegionCall]] = Memo(1024)


@runtime_checkable
class PolicyRecord(Protocol):
    """A policy as the registry keeps it; compiled functions are kept for each.

    Attributes:
        name: Under which it is looked up.
        ops: The ops that it decides on as a whole, which else are decided by their parts.
        summary: Its rules in one line.
    """

    @property
    def name(self) -> str: ...
    @property
    def ops(self) -> Any: ...
    @property
    def summary(self) -> str: ...


class CastingState(Protocol):
    """What `thread.amp` is while a policy is in force."""

    @property
    def policy(self) -> PolicyRecord: ...

    def again(self) -> CastingState:
        """The same without what has been cast: for what is computed a second time."""

    def in_region(self, op: str, tensors: Sequence[Any]) -> Casts | None:
        """What an elementwise op converts its operands to, within its kernel; None: nothing."""

    def cast(self, op: str, operands: Sequence[Any], device: Device) -> Sequence[Any]:
        """The operands of a structured op, cast where the policy says so."""

    def cast_all(self, op: str, values: Any) -> Any:
        """Arguments of an op, with the tensors among them and in their lists and tuples cast."""


def astype(x: Any, dtype: Any) -> Any:
    """`x` in another dtype; gradients are cast back between floating dtypes.

    For tensors of any shape.

    >>> ag.astype([1.7, -1.7], "int32").tolist()
    [1, -1]
    """
    operand = x if isinstance(x, Tensor) else Tensor.from_host(x)
    return cast(operand, dtype_name(dtype, "astype"), "astype")


def clone(x: Any) -> Any:
    """A copy of `x` with a buffer of its own, through which gradients flow.

    For tensors of any shape and dtype.

    >>> x = nc.tensor([1.0, 2.0])
    >>> y = ag.clone(x)
    >>> y[0] = 5.0
    >>> x.tolist(), y.tolist()
    ([1.0, 2.0], [5.0, 2.0])
    """
    operand = x if isinstance(x, Tensor) else Tensor.from_host(x)
    return _converted(operand, operand.dtype, "clone")


def cast(operand: Any, dtype: str, name: str) -> Any:
    """A tensor in a dtype, by a call of this name; itself if it has that dtype."""
    return operand if operand.dtype == dtype else _converted(operand, dtype, name)


def _converted(operand: Any, dtype: str, name: str) -> Any:
    key = (operand.shape, operand.dtype, operand.device, dtype, name)
    call = _casts.get(key)
    if call is None:
        check_dtype(dtype, operand.device)
        signature = Signature(((operand.shape, operand.dtype),), ())
        region = cast_region(dtype, rounds=name in {"astype", "clone"})
        call = _casts.put(key, RegionCall(Plan(region, operand.device, signature), name))
    return apply(call, [operand], (), {"dtype": dtype})
