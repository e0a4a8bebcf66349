"""Layers that pad the last axes: constants, zeros, reflections, copies of the edge, and wrapped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_nn.module import Module


class _Pad(Module):
    """`padding` as one number or (before, after) of each axis, the last axis first."""

    dims: ClassVar[int]
    padding: tuple[int, ...]

    def __init__(self, padding: int | Sequence[int]) -> None:
        given = (padding,) * (2 * self.dims) if isinstance(padding, int) else tuple(padding)
        if len(given) != 2 * self.dims:
            expected = f"one number, or {2 * self.dims}"
            who = type(self).__name__
            raise AttributeValueError(message(who, f"padding={padding!r}", expected))
        self.padding = given

    def _check(self, x: Any) -> None:
        if x.ndim not in (self.dims + 1, self.dims + 2):
            expected = f"{self.dims + 1} or {self.dims + 2} dimensions"
            raise ShapeError(message(type(self).__name__, f"x of shape {tuple(x.shape)}", expected))

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """A number on all sides."""

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, C, ...) or (C, ...) with larger last axes."""
        self._check(input)
        return ag.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The padding and the number."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """`value` before and after the last axis of (N, C, L); `padding` is a number or two.

    >>> nn.ConstantPad1d((1, 2), 9.0)(nc.tensor([[1.0, 2.0]])).tolist()
    [[9.0, 1.0, 2.0, 9.0, 9.0]]
    """

    dims = 1


class ConstantPad2d(_ConstantPad):
    """`value` around (N, C, H, W); `padding` is a number, or left, right, top, bottom.

    >>> nn.ConstantPad2d((1, 0, 0, 2), 7.0)(nc.zeros(1, 1, 2, 3)).shape
    (1, 1, 4, 4)
    """

    dims = 2


class ConstantPad3d(_ConstantPad):
    """`value` around (N, C, D, H, W); `padding` is a number or six, the last axis first.

    >>> nn.ConstantPad3d(1, 0.5)(nc.rand(1, 3, 2, 4, 5)).shape
    (1, 3, 4, 6, 7)
    """

    dims = 3


class _ZeroPad(_ConstantPad):
    """Zeros on all sides."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The padding."""
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Zeros before and after the last axis; see ConstantPad1d.

    For inputs (C, L) or (N, C, L); others raise ShapeError.

    >>> nn.ZeroPad1d(1)(nc.tensor([[1.0, 2.0]])).tolist()
    [[0.0, 1.0, 2.0, 0.0]]

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around pictures; see ConstantPad2d.

    >>> nn.ZeroPad2d((1, 1, 2, 2))(nc.rand(1, 3, 4, 5)).shape
    (1, 3, 8, 7)

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around volumes; see ConstantPad3d.

    >>> nn.ZeroPad3d(1)(nc.rand(1, 3, 2, 4, 5)).shape
    (1, 3, 4, 6, 7)

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims = 3


class _CopyPad(_Pad):
    """Elements of the tensor itself."""

    mode: ClassVar[str]

    def forward(self, input: Any) -> Any:
        """`input` of shape (N, C, ...) or (C, ...) with larger last axes."""
        self._check(input)
        return ag.pad(input, self.padding, self.mode)


MODES: Final = ("reflect", "replicate", "circular")


class ReflectionPad1d(_CopyPad):
    """(N, C, L) reflected at its first and last element, which are not repeated.

    >>> nn.ReflectionPad1d(2)(nc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0]]

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims, mode = 1, "reflect"


class ReflectionPad2d(_CopyPad):
    """(N, C, H, W) reflected at its edges, which are not repeated; `padding` as of ConstantPad2d.

    >>> x = nc.tensor(np.arange(3.0, dtype=np.float32).reshape(1, 1, 1, 3))
    >>> nn.ReflectionPad2d((2, 1, 0, 0))(x).tolist()
    [[[[2.0, 1.0, 0.0, 1.0, 2.0, 1.0]]]]
    """

    dims, mode = 2, "reflect"


class ReflectionPad3d(_CopyPad):
    """(N, C, D, H, W) reflected at its edges; see ReflectionPad2d.

    >>> nn.ReflectionPad3d(1)(nc.rand(1, 3, 2, 4, 5)).shape
    (1, 3, 4, 6, 7)

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims, mode = 3, "reflect"


class ReplicationPad1d(_CopyPad):
    """(N, C, L) with copies of its first and last element.

    >>> nn.ReplicationPad1d(1)(nc.tensor([[1.0, 2.0]])).tolist()
    [[1.0, 1.0, 2.0, 2.0]]

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims, mode = 1, "replicate"


class ReplicationPad2d(_CopyPad):
    """(N, C, H, W) with copies of its edges; `padding` as of ConstantPad2d.

    >>> nn.ReplicationPad2d((1, 2, 0, 0))(nc.rand(1, 3, 4, 5)).shape
    (1, 3, 4, 8)
    """

    dims, mode = 2, "replicate"


class ReplicationPad3d(_CopyPad):
    """(N, C, D, H, W) with copies of its edges.

    >>> nn.ReplicationPad3d(1)(nc.rand(1, 3, 2, 4, 5)).shape
    (1, 3, 4, 6, 7)

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims, mode = 3, "replicate"


class CircularPad1d(_CopyPad):
    """(N, C, L) continued at its other end.

    >>> nn.CircularPad1d(1)(nc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 1.0, 2.0, 3.0, 1.0]]

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims, mode = 1, "circular"


class CircularPad2d(_CopyPad):
    """(N, C, H, W) continued at its other sides; `padding` as of ConstantPad2d.

    >>> nn.CircularPad2d(1)(nc.rand(1, 3, 4, 5)).shape
    (1, 3, 6, 7)
    """

    dims, mode = 2, "circular"


class CircularPad3d(_CopyPad):
    """(N, C, D, H, W) continued at its other sides.

    >>> nn.CircularPad3d(1)(nc.rand(1, 3, 2, 4, 5)).shape
    (1, 3, 4, 6, 7)

    Args:
        padding: How many elements are added at the borders: a number, or one for each side.
    """

    dims, mode = 3, "circular"
