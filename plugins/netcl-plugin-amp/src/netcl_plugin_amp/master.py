"""master_param: a single precision copy of a parameter, which knows the parameter."""

from __future__ import annotations

import weakref
from typing import Any, Final, final

from netcl_core import DTYPES, Tensor
from netcl_core.errors import ArgumentError, DtypeError, message


@final
class _Attribute:
    """An attribute of tensors that lasts as long as the tensor; most tensors have none.

    A Node has that of its value.
    """

    def __init__(self, default: Any) -> None:
        self._default = default
        self._values: Final[dict[int, Any]] = {}

    def __get__(self, tensor: Any, owner: Any = None) -> Any:
        if tensor is None:
            return self
        value = self._values.get(id(tensor.value), self._default)
        return tensor.value if value is _ITSELF else value

    def __set__(self, tensor: Tensor, value: Any) -> None:
        tensor = tensor.value
        if id(tensor) not in self._values:
            weakref.finalize(tensor, self._values.pop, id(tensor), None).atexit = False
        self._values[id(tensor)] = _ITSELF if value is tensor else value


_ITSELF: Final = object()
# Tensor has fixed slots; these attributes are the documented ones, and mixed precision's alone.
setattr(Tensor, "_model_param", _Attribute(None))  # noqa: B010 - mypy knows the slots
setattr(Tensor, "_frozen", _Attribute(False))  # noqa: B010


def master_param(param: Any) -> Tensor:
    """A parameter to be updated in single precision, for loops that update by hand.

    >>> half = nc.tensor(np.ones(2, np.float16), requires_grad=True)
    >>> master = amp.master_param(half)
    >>> master.dtype, master._model_param is half, master.requires_grad
    ('float32', True, True)
    >>> half.data.copy_(master * 0.5).numpy()  # the way back
    array([0.5, 0.5], dtype=float16)

    The optimizers of `netcl_core.optim` need none: they keep masters of their own.

    Args:
        param: A Tensor or leaf Node of a floating dtype.

    Returns:
        The parameter itself, or, for 16-bit dtypes, a new float32 tensor with its values,
        `requires_grad` and `_frozen`. `_model_param` is the parameter in both cases: the Tensor
        itself, or a leaf Node's `value`.

    Raises:
        ArgumentError: Unless given a parameter: Tensor or leaf Node.
        DtypeError: Unless given a floating dtype.
    """
    if not (isinstance(param, Tensor) and param.is_leaf):
        op = getattr(param, "op_name", None)
        given = f"the result of {op}" if op else f"a {type(param).__name__}"
        raise ArgumentError(message("master_param", given, "a parameter: Tensor or leaf Node"))
    model = param.value
    dtype = DTYPES[model.dtype]
    if not dtype.floating:
        raise DtypeError(message("master_param", f"a {model.dtype} tensor", "a floating dtype"))
    master: Any = model
    if dtype.wide != model.dtype:
        master = Tensor.empty(model.shape, dtype.wide, model.device)
        master.overwrite(model)
        master.requires_grad_(param.requires_grad)
        master._frozen = getattr(model, "_frozen", False)
    master._model_param = model
    copy: Tensor = master
    return copy
