"""Hooks of modules: functions that see, and may change, what goes into a call and comes out of it.

A backward hook stands between a module's inputs and the rest of the graph: one call of
`apply_op`, whose gradients it is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeAlias, final

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import ArgumentError, DtypeError, ShapeError, message

_numbers: Final = itertools.count()


class _Hook(NamedTuple):
    """A function, and whether it sees keyword arguments, too."""

    function: Callable[..., Any]
    with_kwargs: bool = False


_Table: TypeAlias = dict[int, _Hook]


@final
class RemovableHandle:
    """What registering a hook returns: `remove()` takes it away, as leaving a `with` block does.

    >>> layer = nn.Linear(2, 2)
    >>> handle = layer.register_forward_hook(lambda module, inputs, output: print(output.shape))
    >>> _ = layer(nc.ones(1, 2))
    (1, 2)
    >>> handle.remove()

    Args:
        table: The dict of hooks, and
        number: the key that `remove` takes out of it.
    """

    __slots__ = ("_number", "_table")

    def __init__(self, table: _Table, number: int) -> None:
        self._table = table
        self._number = number

    def remove(self) -> None:
        """Take the hook away; more than once is allowed."""
        self._table.pop(self._number, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


class Hooked:
    """The part of a Module that is called: `forward` with the hooks around it."""

    #: By what they are for. One attribute, since a compiled function watches all that calls read.
    _hooks: dict[str, _Table] | None = None

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before each `forward`.

        Args:
            hook: What it returns takes the arguments' place: a tuple of them or a single one;
                None leaves them. `with_kwargs`: `hook(module, args, kwargs)` returns None or
                `(args, kwargs)`.
            prepend: Whether it goes before the hooks that are registered already.
            with_kwargs: See above.
        """
        return _added(self, "before", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after each `forward`.

        >>> layer, seen = nn.Linear(3, 2), []
        >>> handle = layer.register_forward_hook(lambda module, args, output: seen.append(output))
        >>> layer(nc.tensor(np.ones((4, 3), np.float32))) is seen[0]
        True
        >>> handle.remove()

        Args:
            hook: What it returns, unless that is None, takes the output's place. `with_kwargs`:
                `hook(module, args, kwargs, output)`.
            prepend: Whether it goes before the hooks that are registered already.
            with_kwargs: See above.
        """
        return _added(self, "after", hook, prepend, with_kwargs)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` once the inputs' gradients are there.

        Args:
            hook: Gets tuples with a gradient, or None, for each positional argument and each
                result. A tuple that it returns takes the place of `grad_input`.
            prepend: Whether it goes before the hooks that are registered already.
        """
        return _added(self, "backward", hook, prepend)

    #: PyTorch's older name, for hooks of a module's last op; here they are the module's.
    register_backward_hook = register_full_backward_hook

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass that is called writes its own."""
        raise NotImplementedError(
            message(type(self).__name__, "it has no forward", "a method forward(self, x)")
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._hooked(args, kwargs) if self._hooks else self.forward(*args, **kwargs)
        except (ShapeError, DtypeError) as error:
            _name_layer(error, self)
            raise

    def _hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook in _of(self, "before"):
            args, kwargs = _before(self, hook, args, kwargs)
        watch = _BackwardWatch(self, _of(self, "backward"))
        args = watch.entered(args)
        output = self.forward(*args, **kwargs)
        for hook in _of(self, "after"):
            seen = (args, kwargs, output) if hook.with_kwargs else (args, output)
            changed = hook.function(self, *seen)
            output = output if changed is None else changed
        return watch.left(output)


def _name_layer(error: Exception, module: Any) -> None:
    """Say in an error's text in which layer it was raised, and where that stands."""
    text, layer, inner, path = getattr(error, "_of_layer", (str(error), "", None, ""))
    if inner is None:
        layer = f"{type(module).__name__}({'' if module._modules else module.extra_repr()})"
    else:
        name = next((name for name, child in module._modules.items() if child is inner), "")
        path = f"{name}.{path}".strip(".")
    error._of_layer = text, layer, module, path  # type: ignore[attr-defined]
    error.args = (f"{text} In the layer {path + ': ' if path else ''}{layer}.",)


def _of(module: Hooked, kind: str) -> list[_Hook]:
    return list((module._hooks or {}).get(kind, {}).values())


def _added(
    module: Hooked, kind: str, hook: Any, prepend: bool, with_kwargs: bool = False
) -> RemovableHandle:
    if not callable(hook):
        given = f"the hook {hook!r}"
        raise ArgumentError(message(type(module).__name__, given, "a function"))
    if module._hooks is None:
        module._hooks = {}
    table, number = module._hooks.setdefault(kind, {}), next(_numbers)
    later = dict(table) if prepend else {}
    for key in later:
        del table[key]
    table[number] = _Hook(hook, with_kwargs)
    table.update(later)
    return RemovableHandle(table, number)


def _before(
    module: Hooked, hook: _Hook, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as a pre-hook leaves them."""
    if not hook.with_kwargs:
        changed = hook.function(module, args)
        if changed is None:
            return args, kwargs
        return (changed if isinstance(changed, tuple) else (changed,)), kwargs
    changed = hook.function(module, args, kwargs)
    if changed is None:
        return args, kwargs
    if not isinstance(changed, tuple) or len(changed) != 2:
        given = f"a forward pre-hook returned a {type(changed).__name__}"
        raise ArgumentError(message(type(module).__name__, given, "None or (args, kwargs)"))
    return changed


@final
class _BackwardWatch:
    """The backward hooks of one call: it collects the results' gradients, and asks the hooks."""

    def __init__(self, module: Hooked, hooks: Sequence[_Hook]) -> None:
        self.module = module
        self.hooks = hooks
        self.places: list[int] = []  # of the inputs through which a gradient flows
        self.count = 0  # of the arguments
        self.of_outputs: list[Any] = []

    def entered(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, those with a gradient as results of one call that the hooks stand in."""
        if not (self.hooks and ag.is_grad_enabled()):
            return args
        self.count = len(args)
        self.places = [i for i, x in enumerate(args) if _flows(x)]
        if not self.places:
            return args
        given = [args[i] for i in self.places]
        name = f"{type(self.module).__name__} inputs"
        if len(given) == 1:
            outputs = [ag.apply_op(lambda x: x, self._one, given[0], op_name=name, saves=())]
        else:
            outputs = _apart(
                ag.apply_op(_joined, self._several(given), *given, op_name=name), given
            )
        inputs = list(args)
        for place, x in zip(self.places, outputs, strict=True):
            inputs[place] = x
        return tuple(inputs)

    def left(self, output: Any) -> Any:
        """The output, whose gradients are collected from now on."""
        if not (self.hooks and ag.is_grad_enabled()):
            return output
        results = output if isinstance(output, (tuple, list)) else (output,)
        self.of_outputs = [None] * len(results)
        for i, x in enumerate(results):
            if _flows(x):
                ag.register_hook(x, lambda grad, i=i: self._collect(i, grad))
        return output

    def _collect(self, place: int, grad: Any) -> None:
        self.of_outputs[place] = grad
        if not self.places:  # no gradient goes on from here
            self._asked([])

    def _one(self, grad: Any) -> list[Any]:
        return self._asked([grad])

    def _several(self, given: Sequence[Any]) -> Callable[[Any], list[Any]]:
        shapes = [x.detach() for x in given]
        return lambda grad: self._asked(_apart(grad, shapes))

    def _asked(self, grads: Sequence[Any]) -> list[Any]:
        """The gradients of the inputs as the hooks leave them."""
        whole: list[Any] = [None] * max(self.count, 1)
        for place, grad in zip(self.places, grads, strict=True):
            whole[place] = grad
        changed_grads = tuple(whole)
        for hook in self.hooks:
            changed = hook.function(self.module, changed_grads, tuple(self.of_outputs))
            if changed is not None:
                changed_grads = changed if isinstance(changed, tuple) else (changed,)
                self._check(changed_grads)
        self.of_outputs = [None] * len(self.of_outputs)
        return [changed_grads[place] for place in self.places]

    def _check(self, grads: tuple[Any, ...]) -> None:
        if len(grads) != max(self.count, 1):
            given = f"a backward hook returned {len(grads)} gradients"
            expected = f"one for each of {max(self.count, 1)} arguments"
            raise ArgumentError(message(type(self.module).__name__, given, expected))


def _flows(x: Any) -> bool:
    return isinstance(x, Tensor) and bool(x.requires_grad)


def _joined(*tensors: Any) -> Any:
    """Several tensors as one, so that their gradients come at once."""
    if len({x.dtype for x in tensors}) > 1:
        given = f"inputs of {' and '.join(x.dtype for x in tensors)} with a backward hook"
        raise DtypeError(message("register_full_backward_hook", given, "inputs of one dtype"))
    return ag.cat([ag.reshape(x, (-1,)) for x in tensors])


def _apart(joined: Any, like: Sequence[Any]) -> list[Any]:
    """What `_joined` put together, in the shapes of the parts."""
    parts = ag.split(joined, [x.size for x in like])
    return [ag.reshape(part, x.shape) for part, x in zip(parts, like, strict=True)]
