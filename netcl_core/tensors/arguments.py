"""Names of arguments, for all functions alike: NumPy's and PyTorch's further ones, those of
PyTorch's that have no meaning here, and those that are refused, each with what to do instead.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from netcl_core.errors import ArgumentError, message

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
#: Hints on how to compute or where to keep something, none of which change a result here.
IGNORED: Final = frozenset(
    {
        "_stacklevel",
        "capturable",
        "cudnn_enable",
        "cudnn_enabled",
        "foreach",
        "force",
        "fused",
        "implicit",
        "in_order",
        "layout",
        "memory_format",
        "multiprocessing_context",
        "non_blocking",
        "only_inputs",
        "output_size",
        "pin_memory",
        "pin_memory_device",
        "prefetch_factor",
        "sparse",
        "sparse_grad",
    }
)
#: What is refused unless it is None or False -> what to do instead.
REFUSED: Final = {
    "create_graph": "Use ag.grad(outputs, inputs, create_graph=True)",
    "differentiable": "Steps of optimizers are not recorded; write the update with ops",
    "generator": "nc.manual_seed(n) makes random numbers repeatable",
    "is_grads_batched": "Call ag.grad once for each",
    "names": "Dimensions have numbers and no names: use x.shape and positions",
    "orig_func": "Use it as a decorator or in a with statement",
    "out": "Assign the result, or copy it with out.copy_(result)",
    "out_dtype": "Convert the result with x.astype(dtype)",
    "scale_grad_by_freq": "Gradients of rows are sums; divide them by counts of your own",
}
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
        return named if ours.issuperset(named) else _settled(who, ours, named)

    return renamed


def _settled(who: str, ours: frozenset[str], given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments without those of PyTorch's that have no meaning here."""
    if "reduction" in ours and not given.keys().isdisjoint({"size_average", "reduce"}):
        given = _reduction(given)
    return {
        name: value
        for name, value in given.items()
        if name in ours or not is_foreign(who, name, value)
    }


def is_foreign(who: str, name: str, value: Any) -> bool:
    """Whether an argument that a function does not have is one of PyTorch's that it can do without.

    Raises ArgumentError for one that is refused, with what to do instead.
    """
    if name in REFUSED and value is not None and value is not False:
        raise ArgumentError(message(who, f"{name}={value!r:.60} is not there", "", REFUSED[name]))
    return name in REFUSED or name in IGNORED


def _reduction(given: dict[str, Any]) -> dict[str, Any]:
    """A loss's `size_average` and `reduce`, which PyTorch had first, as `reduction`."""
    average, reduce = given.pop("size_average", None), given.pop("reduce", None)
    if average is None and reduce is None:
        return given
    said = "none" if reduce is False else "sum" if average is False else "mean"
    return {**given, "reduction": said}


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
