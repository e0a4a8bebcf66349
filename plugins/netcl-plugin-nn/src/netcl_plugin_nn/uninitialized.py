"""Parameters and buffers to come: in their places already, without a shape until the first call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from netcl_core import Tensor, default_device, dtype_name, get_device
from netcl_core.errors import ShapeError, message
from netcl_plugin_nn.parameters import Parameter, adopt

if TYPE_CHECKING:
    _Tensor = Tensor
else:  # beside a Tensor, so that its memory is laid out as a Parameter's, which it becomes
    _Tensor = object


class Uninitialized(_Tensor):
    """A tensor without data; only its dtype, its device and its being trained are known."""

    __slots__ = ()
    #: What it is from `materialize` on.
    becomes: ClassVar[type[Tensor]]

    @property
    def shape(self) -> NoReturn:  # type: ignore[override]  # there is none
        """None yet: raises ShapeError, as does whatever asks for it."""
        given = f"an {type(self).__name__}, which has no shape and no data yet"
        remedy = "Call the module once with a batch: that makes its parameters"
        raise ShapeError(message("nn", given, "a parameter that has been made", remedy))

    def _set_up(self, requires_grad: bool, device: Any, dtype: Any) -> None:
        place = default_device() if device is None else get_device(device)
        self.device, self.dtype = place, dtype_name(dtype or "float32", type(self).__name__)
        self.buffer = object()  # none that another tensor has
        self._requires_grad, self._grad, self.leaf_node = requires_grad, None, None
        self.graph, self.is_alias, self._storage = None, False, None
        self._version, self._range, self.arrivals = 0, None, 0

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Become a tensor of a shape, whose elements are still to be set.

        Args:
            shape: The sizes.
            device: Another device than it was made for.
            dtype: Another dtype.
        """
        self.take(Tensor.empty(shape, dtype or self.dtype, device or self.device))

    def take(self, data: Tensor) -> None:
        """Become a tensor with the data of another one; whoever holds this one sees it."""
        shape, requires_grad = data.shape, self._requires_grad
        object.__setattr__(self, "__class__", self.becomes)
        object.__setattr__(self, "shape", shape)
        adopt(self, data)
        self.requires_grad_(requires_grad)

    def detach(self) -> Any:
        """Itself: there is no data to share."""
        return self

    def to(self, *target: Any, **options: Any) -> Any:
        """One to come on another device."""
        (place,) = target
        return self._alike(place, self.dtype)

    def astype(self, dtype: Any) -> Any:
        """One to come of another dtype."""
        return self._alike(self.device, dtype)

    def _alike(self, device: Any, dtype: Any) -> Any:
        copy = object.__new__(type(self))
        copy._set_up(self._requires_grad, device, dtype)
        return copy

    def __copy__(self) -> Any:
        return self._alike(self.device, self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copy = memo[id(self)] = self.__copy__()
        return copy

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(Uninitialized, Parameter):
    """A Parameter to come, as lazy layers have it until their first call.

    >>> layer = nc.nn.LazyLinear(3)
    >>> layer.weight
    <UninitializedParameter>
    >>> _ = layer(nc.zeros(2, 5))
    >>> layer.weight.shape
    (3, 5)

    Args:
        requires_grad: Whether it is trained.
        device: Where it will be; None: the default device.
        dtype: What it will hold; None: float32.

    It is the same object before and after, so an optimizer may be made before the first call.
    Whatever needs its shape or its data before raises ShapeError.
    """

    __slots__ = ()
    becomes = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        self._set_up(requires_grad, device, dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return UninitializedParameter, (self.requires_grad, None, self.dtype)


class UninitializedBuffer(Uninitialized, Tensor):
    """A buffer to come; as UninitializedParameter, and not trained.

    >>> layer = nn.LazyBatchNorm1d()
    >>> isinstance(layer.running_mean, nn.UninitializedBuffer)
    True
    """

    __slots__ = ()
    becomes = Tensor

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None) -> None:
        self._set_up(requires_grad, device, dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return UninitializedBuffer, (self.requires_grad, None, self.dtype)
