"""`netcl_core.autodiff.func`: transforms of functions, by the names that `torch.func` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, message
from netcl_plugin_autodiff import functional

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacrev", "jvp", "vjp"]


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """What a module gives with other parameters and buffers, which it does not keep.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> autodiff.func.functional_call(layer, {"weight": nc.tensor([[1.0, 2.0]])}, nc.ones(1, 2))
    Tensor([[3.]], shape=(1, 1), dtype=float32, device=..., grad_fn=<linear>)

    Args:
        module: An nn.Module.
        parameter_and_buffer_dicts: Dotted name -> tensor, or several such; gradients flow to these.
        args: What the module is called with, a tuple if it is more than one.
        kwargs: By name.
        tie_weights: Whether a value stands for all names that share a parameter.
        strict: Whether every parameter and buffer must be given.

    Raises ArgumentError for a name that the module does not have.
    """
    given = parameter_and_buffer_dicts
    merged: dict[str, Any] = {}
    for each in [given] if isinstance(given, Mapping) else given:
        merged.update(each)
    places = _places(module)
    for name in merged.keys() - places.keys():
        known = ", ".join(places) or "none"
        raise ArgumentError(message("functional_call", f"the name {name!r}", f"one of {known}"))
    missing = sorted(places.keys() - merged.keys())
    if strict and missing:
        raise ArgumentError(message("functional_call", f"no value of {missing[0]!r}", "all values"))
    if tie_weights:
        held = {id(owner.__dict__[own]): merged[name] for name, (owner, own) in places.items()
                if name in merged}  # fmt: skip
        for name, (owner, own) in places.items():
            if id(owner.__dict__[own]) in held:
                merged.setdefault(name, held[id(owner.__dict__[own])])
    before = {name: places[name][0].__dict__[places[name][1]] for name in merged}
    try:
        for name, value in merged.items():
            object.__setattr__(*places[name], value)
        called = args if isinstance(args, tuple) else () if args is None else (args,)
        return module(*called, **(kwargs or {}))
    finally:
        for name, value in before.items():
            object.__setattr__(*places[name], value)


def _places(module: Any) -> dict[str, tuple[Any, str]]:
    """By its dotted name, which module holds a parameter or buffer under which own name."""
    places = {}
    for prefix, each in module.named_modules(remove_duplicate=False):
        for own in (*each._parameters, *each._buffers):
            if each.__dict__[own] is not None:
                places[f"{prefix}.{own}" if prefix else own] = (each, own)
    return places


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradients of a scalar function, and its value.

    >>> autodiff.func.grad_and_value(lambda x: (x * x).sum())(nc.tensor([3.0]))
    (Tensor([6.], shape=(1,), ...), Tensor(9., shape=(), ...))

    `argnums` says of which arguments, tensors or nests of them; with `has_aux` the function gives
    its value and something else, which is handed on. Such functions may be nested.
    """
    several = not isinstance(argnums, int)
    numbers: Sequence[int] = argnums if several else (argnums,)  # type: ignore[assignment]

    def transformed(*args: Any, **kwargs: Any) -> Any:
        with ag.enable_grad():
            entered = list(args)
            for i in numbers:
                entered[i] = functional.entered(args[i], True)
            value = func(*entered, **kwargs)
            value, aux = value if has_aux else (value, None)
            leaves = [leaf for i in numbers for leaf in functional.leaves_of(entered[i])]
            found = iter(ag.grad(value, leaves, create_graph=True, allow_unused=True))
            parts = [functional.like(entered[i], found) for i in numbers]
        grads = tuple(parts) if several else parts[0]
        if not functional.any_graph(args):
            grads, value = functional.detached(grads), functional.detached(value)
        return (grads, (value, aux)) if has_aux else (grads, value)

    return transformed


def grad(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The same without the value; with `has_aux` the gradients and the rest."""
    both = grad_and_value(func, argnums, has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return transformed


def vjp(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of a function, and a function from gradients of it to those of the arguments."""
    with ag.enable_grad():
        entered = [functional.entered(x, True) for x in primals]
        value = func(*entered)

    def pulled(cotangents: Any) -> tuple[Any, ...]:
        leaves = functional.leaves_of(entered)
        outputs, given = functional.leaves_of(value), functional.leaves_of(cotangents)
        found = ag.grad(outputs, leaves, given, retain_graph=True, allow_unused=True)
        return tuple(functional.like(entered, iter(found)))

    return functional.detached(value), pulled


def jvp(func: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The value of a function, and how it changes along the tangents."""
    return functional.jvp(func, tuple(primals), tuple(tangents))


def jacrev(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that gives all derivatives of a function by one argument."""

    def transformed(*args: Any) -> Any:
        return functional.jacobian(
            lambda x: func(*args[:argnums], x, *args[argnums + 1 :]), args[argnums],
            create_graph=functional.any_graph(args),
        )  # fmt: skip

    return transformed


def hessian(func: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that gives all second derivatives of a scalar function by one argument."""
    return lambda *args: functional.hessian(
        lambda x: func(*args[:argnums], x, *args[argnums + 1 :]), args[argnums]
    )
