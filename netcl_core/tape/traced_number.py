"""TracedNumber: a Python number that a trace follows, so that its value is no constant of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, final

from netcl_core.tensors.tensor import Tensor


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *rest: function(self.read(), *rest)


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator and its reflected form; beside a tensor, the tensor's own operator takes over."""

    def plain(self: TracedNumber, other: Any) -> Any:
        return NotImplemented if isinstance(other, Tensor) else function(self.read(), other)

    def reflected(self: TracedNumber, other: Any) -> Any:
        return NotImplemented if isinstance(other, Tensor) else function(other, self.read())

    return plain, reflected


@final
class TracedNumber:
    """A Python number among the arguments of a traced function.

    An op takes it as an argument of the kernel, so that a new value traces nothing.
    Whatever else the function does with it (a branch, arithmetic, `range`) reads the
    value, and from then on the value is part of the key.
    """

    __slots__ = ("_value", "index", "was_read")

    def __init__(self, value: float, index: int) -> None:
        self._value = value
        self.index = index
        self.was_read = False

    def read(self) -> Any:
        """The value, which the function then depends on."""
        self.was_read = True
        return self._value

    @property  # type: ignore[misc]  # read only
    def __class__(self) -> Any:
        """That of the number, for `isinstance`."""
        return type(self._value)

    @property
    def type(self) -> type:
        """The number's type."""
        return type(self._value)

    def __getattr__(self, name: str) -> Any:
        getattr(type(self._value), name)  # whether there is one says nothing of the value
        return getattr(self.read(), name)

    __hash__ = _plain(hash)
    __bool__ = _plain(bool)
    __int__, __float__, __index__ = _plain(int), _plain(float), _plain(operator.index)
    __repr__, __str__, __format__ = _plain(repr), _plain(str), _plain(format)
    __eq__, __ne__ = _binary(operator.eq)[0], _binary(operator.ne)[0]
    __lt__, __gt__ = _binary(operator.lt)[0], _binary(operator.gt)[0]
    __le__, __ge__ = _binary(operator.le)[0], _binary(operator.ge)[0]
    __neg__, __pos__, __abs__ = _plain(operator.neg), _plain(operator.pos), _plain(abs)
    __round__, __trunc__ = _plain(round), _plain(math.trunc)
    __floor__, __ceil__ = _plain(math.floor), _plain(math.ceil)
    __add__, __radd__ = _binary(operator.add)
    __sub__, __rsub__ = _binary(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow)
    __and__, __rand__ = _binary(operator.and_)
    __or__, __ror__ = _binary(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor)
    __lshift__, __rlshift__ = _binary(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift)
    __divmod__, __rdivmod__ = _binary(divmod)
    __invert__ = _plain(operator.invert)
