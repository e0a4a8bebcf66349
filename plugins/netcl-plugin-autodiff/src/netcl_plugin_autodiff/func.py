"""`netcl_core.autodiff.func`: transforms of functions, by the names that `torch.func` has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, ShapeError, message
from netcl_plugin_autodiff import functional

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "stack_module_state", "value_and_grad", "vjp", "vmap"]  # fmt: skip


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
    Tensor([[3.]], shape=(1, 1), dtype=float32, device=...)

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
    for named in [given] if isinstance(given, Mapping) else given:
        merged.update(named)
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
    for prefix, child in module.named_modules(remove_duplicate=False):
        for own in (*child._parameters, *child._buffers):
            if child.__dict__[own] is not None:
                places[f"{prefix}.{own}" if prefix else own] = (child, own)
    return places


def grad_and_value(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that gives the gradients of a scalar function, and its value.

    >>> autodiff.func.grad_and_value(lambda x: (x * x).sum())(nc.tensor([3.0]))
    (Tensor([6.], shape=(1,), ...), Tensor(9., shape=(), ...))

    `argnums` names the arguments, tensors or nests of them; with `has_aux` the function gives
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
            gradients = iter(ag.grad(value, leaves, create_graph=True, allow_unused=True))
            parts = [functional.like(entered[i], gradients) for i in numbers]
        grads = tuple(parts) if several else parts[0]
        if not functional.any_graph(args):
            grads, value = functional.detached(grads), functional.detached(value)
        return (grads, (value, aux)) if has_aux else (grads, value)

    return transformed


def grad(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """The same without the value; with `has_aux` the gradients and the rest.

    >>> nc.func.grad(lambda x: (x * x).sum())(nc.tensor([1.0, 2.0])).tolist()
    [2.0, 4.0]

    Args:
        argnums: The number of the argument, or a tuple of them.
    """
    both = grad_and_value(func, argnums, has_aux)

    def transformed(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return transformed


def value_and_grad(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """`grad_and_value`, the value first, as JAX has it.

    >>> value, grad = nc.func.value_and_grad(lambda x: (x * x).sum())(nc.tensor([1.0, 2.0]))
    >>> value.item(), grad.tolist()
    (5.0, [2.0, 4.0])

    Args:
        argnums: The number of the argument, or a tuple of them.
        has_aux: Whether the function gives a pair; its second part is passed on.
    """
    both = grad_and_value(func, argnums, has_aux)
    return lambda *args, **kwargs: both(*args, **kwargs)[::-1]


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The value of a function, and a function from its gradients to the arguments' gradients.

    >>> value, pull = nc.func.vjp(lambda x: x * x, nc.tensor([3.0]))
    >>> value.tolist(), pull(nc.tensor([1.0]))[0].tolist()
    ([9.0], [6.0])

    With `has_aux` the function gives its value and something else, which comes last.

    Args:
        primals: The arguments, tensors or nests of them.
    """
    with ag.enable_grad():
        entered = [functional.entered(x, True) for x in primals]
        value = func(*entered)
        value, *aux = value if has_aux else (value,)

    def pulled(cotangents: Any) -> tuple[Any, ...]:
        leaves = functional.leaves_of(entered)
        outputs, given = functional.leaves_of(value), functional.leaves_of(cotangents)
        gradients = ag.grad(outputs, leaves, given, retain_graph=True, allow_unused=True)
        return tuple(functional.like(entered, iter(gradients)))

    return (functional.detached(value), pulled, *aux)


def jvp(
    func: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *,
    strict: bool = False, has_aux: bool = False,
) -> Any:  # fmt: skip
    """The value of a function, and how it changes along the tangents; `has_aux` as for `vjp`.

    >>> value, change = nc.func.jvp(lambda x: x * x, (nc.tensor([3.0]),), (nc.tensor([1.0]),))
    >>> value.tolist(), change.tolist()
    ([9.0], [6.0])

    Args:
        primals: The arguments, tensors or nests of them.
        strict: Has no effect.
    """
    aux: list[Any] = []
    return (
        *functional.jvp(_without_aux(func, aux, has_aux), tuple(primals), tuple(tangents)),
        *aux,
    )


def _without_aux(func: Callable[..., Any], aux: list[Any], has_aux: bool) -> Callable[..., Any]:
    """The function's value alone; what comes with it is put into a list."""

    def valued(*args: Any) -> Any:
        value = func(*args)
        if has_aux:
            value, aux[:] = value[0], value[1:]
        return value

    return valued


def jacrev(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that gives all derivatives of a function, by a pass for each element of its value.

    >>> autodiff.func.jacrev(lambda x: x * x)(nc.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    `argnums` and `has_aux` as for `grad`; `chunk_size` changes nothing.
    """
    return _jacobian(func, argnums, has_aux, "reverse-mode")


def jacfwd(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, *,
    randomness: str = "error",
) -> Callable[..., Any]:  # fmt: skip
    """The same by a pass for each element of the argument, which is the better for large values.

    >>> nc.func.jacfwd(lambda x: x * x)(nc.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]

    Args:
        argnums: The number of the argument, or a tuple of them.
        has_aux: Whether the function gives a pair; its second part is passed on.
        randomness: Has no effect.
    """
    return _jacobian(func, argnums, has_aux, "forward-mode")


def _jacobian(
    func: Any, argnums: int | Sequence[int], has_aux: bool, strategy: str
) -> Callable[..., Any]:
    def transformed(*args: Any) -> Any:
        aux: list[Any] = []

        def chosen(*given: Any) -> Any:
            every = list(args)
            for i, x in zip(numbers, given, strict=True):
                every[i] = x
            return func(*every)

        numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        inputs = tuple(args[i] for i in numbers)
        jacobian = functional.jacobian(
            _without_aux(chosen, aux, has_aux), inputs[0] if isinstance(argnums, int) else inputs,
            create_graph=functional.any_graph(args), strategy=strategy,
        )  # fmt: skip
        return (jacobian, *aux) if has_aux else jacobian

    return transformed


def hessian(func: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that gives all second derivatives of a scalar function.

    >>> nc.func.hessian(lambda x: (x**3).sum())(nc.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]

    Args:
        argnums: The number of the argument, or a tuple of them.
    """
    return jacrev(jacrev(func, argnums), argnums)


# -- over slices -------------------------------------------------------------------------


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function of one sample as a function of a batch: its results for all slices, stacked.

    >>> weight, x = nc.tensor([1.0, 2.0]), nc.tensor([[1.0, 0.0], [0.0, 3.0]])
    >>> loss = lambda w, x: ((w * x).sum() - 1) ** 2
    >>> autodiff.func.vmap(autodiff.func.grad(loss), in_dims=(None, 0))(weight, x).tolist()
    [[0.0, 0.0], [0.0, 30.0]]

    The function is called once for each slice, so that a batch of n costs n calls. Where ops
    broadcast anyway, call the function with the batch instead.

    Args:
        func: It takes and returns tensors, and tuples, lists and dicts of them.
        in_dims: Which dimension of each argument is the batch; None: all slices get the argument as
            it is. One for all, or a tuple, whose parts may be nests like the arguments.
        out_dims: Where the batch stands in the results: one for all, or a tuple.
        randomness: "error" refuses functions that draw random numbers; "different" lets each slice
            draw its own, "same" all the same.
        chunk_size: Changes nothing.

    Arguments by name have their batch in front. Raises ArgumentError and ShapeError.
    """
    if randomness not in ("error", "different", "same"):
        given = f"randomness={randomness!r}"
        raise ArgumentError(message("vmap", given, "'error', 'different' or 'same'"))

    def batched(*args: Any, **kwargs: Any) -> Any:
        dims = in_dims if isinstance(in_dims, (tuple, list)) else [in_dims] * len(args)
        if len(dims) != len(args):
            raise ArgumentError(message("vmap", f"{len(dims)} in_dims", f"{len(args)}, one each"))
        flat = functional.leaves_of((args, kwargs))
        places = _dims_of((*args, kwargs), (*dims, 0))
        mapped = [None if dim is None else _unbound(x, dim)
                  for x, dim in zip(flat, places, strict=True)]  # fmt: skip
        sizes = {len(column) for column in mapped if column is not None}
        if len(sizes) != 1 or 0 in sizes:
            given = f"batches of sizes {sorted(sizes)}" if sizes else "no argument with a batch"
            raise ShapeError(message("vmap", given, "arguments with as many slices, at least one"))
        state: Any = nc.default_generator.get_state()
        results = []
        for i in range(*sizes):
            if randomness == "same":
                nc.default_generator.set_state(state)
            slices = (
                x if column is None else column[i] for x, column in zip(flat, mapped, strict=True)
            )
            own, named = functional.like((args, kwargs), slices)
            results.append(func(*own, **named))
        if randomness == "error" and (nc.default_generator.get_state() != state).any():
            remedy = "Say randomness='different' or 'same'"
            raise ArgumentError(message("vmap", "a function that draws numbers", "none", remedy))
        return _stacked(results, out_dims)

    return batched


def _dims_of(x: Any, dim: Any) -> list[int | None]:
    """The batch's dimension of each tensor of an argument, from one or from a nest of them."""
    inside = x.values() if isinstance(x, dict) else x if isinstance(x, (tuple, list)) else None
    if inside is None:
        return [dim] if isinstance(x, nc.Tensor) else []
    given = [dim[key] for key in x] if isinstance(dim, dict) else dim
    if not isinstance(given, (tuple, list)):
        given = [given] * len(x)
    return [inner for axis, own in zip(inside, given, strict=True) for inner in _dims_of(axis, own)]


def _unbound(x: Any, dim: int) -> Any:
    if not -x.ndim <= dim < x.ndim:
        raise ShapeError(message("vmap", f"in_dims {dim} of shape {x.shape}", "one of its axes"))
    return ag.unbind(x, dim)


def _stacked(results: list[Any], out_dims: Any) -> Any:
    """The nest of results with each tensor stacked along its dimension."""
    first = results[0]
    rows = [functional.leaves_of(result) for result in results]
    if not rows[0] or (not isinstance(first, (nc.Tensor, tuple, list, dict))):
        raise ArgumentError(message("vmap", f"a {type(first).__name__} as result", "tensors"))
    dims = _dims_of(first, out_dims)
    stacked = [
        ag.stack(list(column), dim)
        for column, dim in zip(zip(*rows, strict=True), dims, strict=True)
    ]
    return functional.like(first, iter(stacked))


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the buffers of modules of one class, stacked by name, for `vmap`.

    >>> parameters, buffers = autodiff.func.stack_module_state([nn.Linear(2, 3) for _ in range(4)])
    >>> parameters["weight"].shape, buffers
    ((4, 3, 2), {})

    Raises ArgumentError for none, and for modules of several classes or modes.

    Args:
        models: Modules of one structure.
    """
    kinds = {(type(model), model.training) for model in models}
    if len(kinds) != 1:
        given = f"{len(kinds)} kinds of modules" if kinds else "no modules"
        raise ArgumentError(message("stack_module_state", given, "one class, in one mode"))
    named = ([dict(model.named_parameters()) for model in models],
             [dict(model.named_buffers()) for model in models])  # fmt: skip

    def stacked(rows: list[dict[str, Any]]) -> dict[str, Any]:
        parameters = {}
        for name, x in rows[0].items():
            whole = ag.stack([row[name].detach() for row in rows]).detach()
            parameters[name] = whole.requires_grad_(x.requires_grad)
        return parameters

    return stacked(named[0]), stacked(named[1])
