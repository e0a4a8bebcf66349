"""Names of arguments, for all functions alike: NumPy's and PyTorch's further ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from netcl_core.errors import ArgumentError, message
from netcl_core.tensors.functions import functions

#: What a caller may say -> what the parameter may be called.
_NAMES: Final = {
    "axis": ("dim", "dims"),
    "keepdims": ("keepdim",),
    "input": ("x", "a"),
    "other": ("y", "b", "source"),
    "tensor": ("x", "input"),
    "size": ("shape",),
    "fill_value": ("value",),
    "val": ("value",),
    "values": ("value",),
    "indices": ("index", "input", "indices_or_sections"),
    "sections": ("indices_or_sections",),
    "tensor_indices_or_sections": ("indices_or_sections",),
    "input2": ("L",),
    "element": ("elements",),
    "test_element": ("test_elements",),
    "split_size": ("split_size_or_sections",),
    "tensors": ("outputs", "loss"),
    "grad_tensors": ("grad",),
    "train": ("training",),
    "array_like": ("data",),
    "min_value": ("min_val",),
    "max_value": ("max_val",),
    "mode": ("requires_grad",),
}
#: What takes `inplace` as its last argument in PyTorch, by position too: `F.relu(x, True)`.
INPLACE_LAST: Final = frozenset(
    {"alpha_dropout", "celu", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu",
     "feature_alpha_dropout", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu",
     "relu6", "rrelu", "selu", "silu", "threshold"}
)  # fmt: skip
#: Keyword arguments under the names of a function's parameters.
Renaming: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
F = TypeVar("F", bound=Callable[..., Any])


def ends_with_inplace(name: str, args: tuple[Any, ...], count: int) -> bool:
    """Whether a function of `count` parameters is given `inplace` by position, behind these."""
    return len(args) == count + 1 and type(args[-1]) is bool and offers_inplace(name)


def offers_inplace(name: str) -> bool:
    """Whether an op takes `inplace`, as PyTorch's function of that name does.

    >>> offers_inplace("relu"), offers_inplace("tanh")
    (True, False)
    """
    return name.replace("hard_", "hard") in INPLACE_LAST


def renaming(who: str, parameters: Mapping[str, Any] | tuple[str, ...]) -> Renaming:
    """What gives keyword arguments the names of a function's parameters.

    `ag.add(input=x, other=y)` is `ag.add(x=x, y=y)`, and `ag.sum(x, axis=0)` is `ag.sum(x, dim=0)`.
    What has no meaning here is left out.

    >>> nc.renaming("sum", ("x", "dim"))({"input": 1, "axis": 0, "non_blocking": True})
    {'x': 1, 'dim': 0}

    The function raises ArgumentError where an argument comes
    under two names, and where one is refused.

    Args:
        who: Who asks, for the message of an error.
    """
    ours = frozenset(parameters)
    known = {
        said: name
        for said, names in _NAMES.items()
        if said not in ours
        for name in reversed(names)
        if name in ours
    }

    def renamed(given: dict[str, Any]) -> dict[str, Any]:
        named = {known.get(name, name): value for name, value in given.items()}
        if len(named) < len(given):
            twice = next(name for name in given if known.get(name, name) in {*given} - {name})
            text = f"{twice} and {known.get(twice, twice)} were given"
            raise ArgumentError(message(who, text, "one of them"))
        return without_foreign(who, ours, named)

    return renamed


def without_foreign(who: str, ours: frozenset[str], given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments without those of PyTorch's that have no meaning here.

    The namespace `port` knows them; it raises ArgumentError for one that is refused.
    """
    return given if ours.issuperset(given) else functions["foreign arguments"](who, ours, given)


def lenient(function: F) -> F:
    """A function that takes further names of its arguments, as every op does.

    >>> nc.full(size=(2,), fill_value=1.0, pin_memory=True).tolist()
    [1.0, 1.0]
    """
    parameters = inspect.signature(function).parameters
    renamed = renaming(function.__qualname__.removesuffix(".__init__"), parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **(renamed(kwargs) if kwargs else kwargs))

    return call  # type: ignore[return-value]
