"""`nn.utils.parametrize`: a parameter as a function of others, computed whenever it is read.

The module gets a class of its own, a subclass of what it was, in which the parameter's name is a
property; what it is computed from stands in `module.parametrizations[name]`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, ShapeError, message
from netcl_plugin_nn.containers import ModuleDict, ModuleList
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter

#: How many `cached()` blocks are open, and what was computed in them by module and name.
_cache: Final[dict[tuple[int, str], Any]] = {}
_open: Final[list[None]] = []


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized tensor is computed once, however often it is read."""
    _open.append(None)
    try:
        yield
    finally:
        _open.pop()
        if not _open:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The functions of one tensor, the first one first, and what they compute it from.

    That is `original`, or `original0`, `original1` ... where the `right_inverse` of the first
    function gives several.
    """

    def __init__(self, modules: Any, original: Any, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        try:
            originals = self._inverted(original)
        except NotImplementedError:  # it starts from what the functions make of the original
            originals = original
        self.is_tensor = not isinstance(originals, (tuple, list))
        if self.is_tensor:
            _overwritten(original, originals)
            self._hold_original("original", original)
        else:
            self.ntensors = len(originals)
            for i, tensor in enumerate(originals):
                kept = (
                    type(original)(tensor.detach()) if isinstance(original, Parameter) else tensor
                )
                self._hold_original(f"original{i}", kept)

    def _hold_original(self, name: str, value: Any) -> None:
        held = isinstance(value, Parameter)
        (self.register_parameter if held else self.register_buffer)(name, value)

    def _inverted(self, value: Any) -> Any:
        """What the functions make the value of, as far as they know."""
        with ag.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    value = module.right_inverse(value)
        return value

    def right_inverse(self, value: Any) -> None:
        """Change the originals so that the functions give a value."""
        originals = self._inverted(value)
        originals = [originals] if self.is_tensor else originals
        for target, original in zip(self._originals(), originals, strict=True):
            _overwritten(target, original)

    def _originals(self) -> list[Any]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def forward(self) -> Any:
        """The value."""
        first, *others = self
        value = first(*self._originals())
        for other in others:
            value = other(value)
        return value


def _overwritten(target: Any, value: Any) -> None:
    if value is not target:
        if value.shape != target.shape:
            given = f"a right_inverse of shape {value.shape}"
            raise ShapeError(message("parametrize", given, f"{target.shape}"))
        with ag.no_grad():
            target.copy_(value.detach())


class _Computed:
    """The property in a tensor's place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        if module is None:
            return self
        parametrizations = module.parametrizations[self.name]
        if not _open:
            return parametrizations()
        key = id(module), self.name
        if key not in _cache:
            _cache[key] = parametrizations()
        return _cache[key]

    def __set__(self, module: Any, value: Any) -> None:
        module.parametrizations[self.name].right_inverse(value)


@functools.lru_cache(256)
def _class(base: Any, names: tuple[str, ...]) -> type:
    """The subclass in which some names are computed."""

    def assign(self: Any, name: str, value: Any) -> None:
        if name in names:
            vars(type(self))[name].__set__(self, value)
        else:
            base.__setattr__(self, name, value)

    fields = {name: _Computed(name) for name in names}
    return type(f"Parametrized{base.__name__}", (base,), {**fields, "__setattr__": assign})


def _settle(module: Any) -> None:
    """Give a module the class for what of it is parametrized."""
    base, names = type_before_parametrizations(module), tuple(module.parametrizations)
    if not names:
        del module.parametrizations
    module.__class__ = _class(base, names) if names else base


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """Let a parameter or buffer be computed by a module from what it was.

    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).mT
    >>> layer = nn.Linear(3, 3)
    >>> layer = nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.mT).all()), sorted(layer.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])

    Args:
        module: The module, which is changed and returned.
        tensor_name: The parameter's name. One that is parametrized gets a further function.
        parametrization: A module. With a `right_inverse` the value stays, and can be assigned to.
        unsafe: Whether it may change shape and dtype.

    Raises ArgumentError for a name that is no parameter or buffer, ShapeError for another shape.
    """
    parametrization.train(module.training)
    known = is_parametrized(module, tensor_name)
    if not known and tensor_name not in (*module._parameters, *module._buffers):
        given = f"{type(module).__name__} without a parameter or buffer {tensor_name!r}"
        raise ArgumentError(message("register_parametrization", given, "one of its own"))
    before = getattr(module, tensor_name)
    parametrizations = None if known else ParametrizationList([parametrization], before, unsafe)
    if not unsafe:
        with ag.no_grad():
            after = parametrization(before) if parametrizations is None else parametrizations()
        if (after.shape, after.dtype) != (before.shape, before.dtype):
            given = f"a parametrization that gives {after.dtype} of shape {after.shape}"
            expected, remedy = f"{before.dtype} of {before.shape}", "Say unsafe=True"
            raise ShapeError(message("register_parametrization", given, expected, remedy))
    if parametrizations is None:
        module.parametrizations[tensor_name].append(parametrization)
        return module
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = parametrizations
    _settle(module)
    return module


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether something of a module is parametrized, or one tensor of it."""
    parametrizations = module.__dict__.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a tensor a plain one again, with its value of now, or with `leave_parametrized=False`
    with what it was computed from.

    Raises ArgumentError where it is not parametrized, or computed from several tensors.
    """
    if not is_parametrized(module, tensor_name):
        given = f"{type(module).__name__} without a parametrization of {tensor_name!r}"
        raise ArgumentError(message("remove_parametrizations", given, "one that has it"))
    parametrizations = module.parametrizations[tensor_name]
    if not (leave_parametrized or parametrizations.is_tensor):
        given = f"leave_parametrized=False where {tensor_name} is computed from several tensors"
        raise ArgumentError(message("remove_parametrizations", given, "True"))
    original = parametrizations._originals()[0]
    if leave_parametrized:
        value = parametrizations().detach()
        if value.shape == original.shape and parametrizations.is_tensor:
            _overwritten(original, value)
        elif isinstance(original, Parameter):
            original = Parameter(value, original.requires_grad)
        else:
            original = value
    del module.parametrizations[tensor_name]
    _settle(module)
    held = isinstance(original, Parameter)
    (module.register_parameter if held else module.register_buffer)(tensor_name, original)
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class of a module without its parametrizations."""
    kind = type(module)
    computed = any(isinstance(var, _Computed) for var in vars(kind).values())
    return kind.__mro__[1] if computed else kind


__all__ = ["Module", "ParametrizationList", "cached", "is_parametrized",
           "register_parametrization", "remove_parametrizations",
           "type_before_parametrizations"]  # fmt: skip
