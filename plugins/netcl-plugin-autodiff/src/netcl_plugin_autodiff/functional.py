"""`torch.autograd.functional`: derivatives of functions as a whole, by reverse passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import ShapeError, message

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Function = Callable[..., Any]


# -- nests of tensors --------------------------------------------------------------------


def entered(x: Any, keeps: bool) -> Any:
    """Tensors of a nest as leaves of their own; with `keeps` their history goes on behind them."""
    if isinstance(x, Tensor):
        return ag.reshape(x, x.shape) if keeps and x.requires_grad else x.detach().requires_grad_()
    if isinstance(x, dict):
        return {name: entered(item, keeps) for name, item in x.items()}
    return type(x)(entered(item, keeps) for item in x) if isinstance(x, (tuple, list)) else x


def leaves_of(x: Any) -> list[Tensor]:
    """The tensors of a nest in order."""
    if isinstance(x, Tensor):
        return [x]
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else ()
    return [leaf for part in inside for leaf in leaves_of(part)]


def like(x: Any, values: Iterator[Any]) -> Any:
    """The nest with the next values in the places of its tensors; zeros for None."""
    if isinstance(x, Tensor):
        value = next(values)
        return nc.zeros_like(x).detach() if value is None else value
    if isinstance(x, dict):
        return {name: like(item, values) for name, item in x.items()}
    return type(x)(like(item, values) for item in x) if isinstance(x, (tuple, list)) else x


def detached(x: Any) -> Any:
    """The nest without its history."""
    return like(x, iter([leaf.detach() for leaf in leaves_of(x)]))


def any_graph(x: Any) -> bool:
    """Whether a tensor of the nest has a history or asks for gradients."""
    return any(leaf.requires_grad for leaf in leaves_of(x))


# -- the functions -----------------------------------------------------------------------


def _ready(func: Function, inputs: Any, create_graph: bool) -> tuple[Any, tuple[Any, ...], Any]:
    """The nest of inputs as leaves, these as a tuple, and what the function gives."""
    nest = entered(inputs, create_graph)
    given = nest if isinstance(nest, tuple) else (nest,)
    with ag.enable_grad():
        return nest, given, func(*given)


def _graded(outputs: Any, inputs: Any, grads: Any, create_graph: bool) -> list[Any]:
    flowing = [(y, g) for y, g in zip(outputs, grads, strict=True) if y.requires_grad]
    if not flowing:
        return [None] * len(inputs)
    ys, gs = zip(*flowing, strict=True)
    return list(ag.grad(list(ys), inputs, list(gs), retain_graph=True, create_graph=create_graph,
                        allow_unused=True))  # fmt: skip


def jacobian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """All derivatives of a function: of shape `output.shape + input.shape`.

    >>> autodiff.functional.jacobian(lambda x: x * x, nc.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    `inputs` is a tensor or a tuple or another nest of them, and the function may give a nest; then
    so is the result, by output and input. With `create_graph` it can be differentiated again. The
    reverse mode takes a pass for each element of the outputs, the "forward-mode" one for each
    element of the inputs.
    """
    nest, given, value = _ready(func, inputs, create_graph)
    outputs, leaves = leaves_of(value), leaves_of(given)
    table = (_columns if strategy == "forward-mode" else _rows)(outputs, leaves, create_graph)
    return like(value, (like(nest, iter(row)) for row in table))


def _places(x: Any) -> Iterator[Any]:
    """For each element a tensor like x that is 1 there and else 0."""
    for i in range(x.numel()):
        place = nc.zeros(x.numel(), dtype=x.dtype, device=x.device)
        place[i] = 1
        yield place.reshape(x.shape)


def _rows(ys: Any, xs: Any, create_graph: bool) -> Iterator[list[Any]]:
    """Of each output its derivatives by each input, a row for each of its elements."""
    for y in ys:
        rows = [_graded([y], xs, [place], create_graph) for place in _places(y)]
        yield [_stacked(x, [row[k] for row in rows], y, x, 0) for k, x in enumerate(xs)]


def _columns(ys: Any, xs: Any, create_graph: bool) -> Iterator[list[Any]]:
    """The same, a column for each element of an input: by the derivatives of the gradients."""
    duals = [nc.zeros_like(y).detach().requires_grad_() for y in ys]
    with ag.enable_grad():
        pulled = _graded(ys, xs, duals, True)
    by_input = [
        [_graded([g], duals, [place], create_graph) for place in _places(x)] if g is not None
        else [[None] * len(ys)] * x.numel()
        for g, x in zip(pulled, xs, strict=True)
    ]  # fmt: skip
    for k, y in enumerate(ys):
        yield [_stacked(y, [column[k] for column in columns], y, x, -1)
               for columns, x in zip(by_input, xs, strict=True)]  # fmt: skip


def _stacked(each: Any, parts: list[Any], y: Any, x: Any, dim: int) -> Any:
    """Gradients side by side, of `y.shape + x.shape`; None is one of zeros."""
    shape = (*y.shape, *x.shape)
    whole = [nc.zeros_like(each).detach() if part is None else part for part in parts]
    return (ag.stack(whole, dim).reshape(shape) if whole
            else nc.zeros(shape, dtype=each.dtype, device=each.device))  # fmt: skip


def hessian(
    func: Function, inputs: Any, create_graph: bool = False, strict: bool = False,
    vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode",
) -> Any:  # fmt: skip
    """All second derivatives of a scalar function: `input.shape + input.shape`."""

    def gradients(*given: Any) -> Any:
        value = _scalar("hessian", func(*given))
        slopes = _graded([value], given, [nc.ones_like(value)], True)
        parts = like(given, iter(slopes))
        return parts if isinstance(inputs, tuple) else parts[0]

    return jacobian(gradients, inputs, create_graph)


def _scalar(who: str, value: Any) -> Any:
    if value.numel() != 1:
        raise ShapeError(message(who, f"a result of shape {value.shape}", "one element"))
    return value


def vjp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:  # fmt: skip
    """The value of a function, and the gradients of the inputs from `v`, those of its results."""
    nest, given, value = _ready(func, inputs, create_graph)
    outputs = leaves_of(value)
    grads = leaves_of(v) if v is not None else [nc.ones_like(_scalar("vjp", y)) for y in outputs]
    gradients = like(nest, iter(_graded(outputs, given, grads, create_graph)))
    return (value, gradients) if create_graph else (detached(value), detached(gradients))


def jvp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:  # fmt: skip
    """The value of a function, and how it changes along `v`: two reverse passes.

    >>> autodiff.functional.jvp(lambda x: x ** 3, nc.tensor([2.0]), nc.tensor([1.0]))[1].tolist()
    [12.0]

    The gradients are linear in those of the results, and are differentiated by these.
    """
    _, given, value = _ready(func, inputs, create_graph)
    outputs = leaves_of(value)
    duals = [nc.zeros_like(y).detach().requires_grad_() for y in outputs]
    along = leaves_of(v) if v is not None else [nc.ones_like(_scalar("jvp", x)) for x in given]
    with ag.enable_grad():
        pulled = _graded(outputs, given, duals, True)
    kept = [(g, t) for g, t in zip(pulled, along, strict=True) if g is not None]
    tangents = _graded([g for g, _ in kept], duals, [t for _, t in kept], create_graph)
    result = like(value, iter(tangents))
    return (value, result) if create_graph else (detached(value), detached(result))


def vhp(func: Function, inputs: Any, v: Any = None, create_graph: bool = False,
        strict: bool = False) -> tuple[Any, Any]:  # fmt: skip
    """The value of a scalar function, and its second derivatives times `v`."""
    nest, given, value = _ready(func, inputs, create_graph)
    along = leaves_of(v) if v is not None else [nc.ones_like(_scalar("vhp", x)) for x in given]
    with ag.enable_grad():
        grads = _graded([_scalar("vhp", value)], given, [nc.ones_like(value)], True)
    kept = [(g, t) for g, t in zip(grads, along, strict=True) if g is not None]
    second = _graded([g for g, _ in kept], given, [t for _, t in kept], create_graph)
    products = like(nest, iter(second))
    return (value, products) if create_graph else (detached(value), detached(products))


#: Second derivatives are symmetric.
hvp = vhp
