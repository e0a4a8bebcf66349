"""What a module's attributes are registered as: the kinds, live views of them, and what fits."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any, Final, final

from netcl_core import Tensor
from netcl_core.errors import ArgumentError, message
from netcl_plugin_nn.parameters import Parameter

PARAMETER, BUFFER, TRANSIENT, MODULE = "parameter", "buffer", "transient buffer", "module"
#: What a name that is registered as one of these may be set to.
_EXPECTED: Final = {
    PARAMETER: "an nn.Parameter or None",
    **dict.fromkeys((BUFFER, TRANSIENT), "a Tensor or None"),
    MODULE: "an nn.Module or None",
}


def fits(kind: str, value: Any) -> bool:
    """Whether a value can be a parameter, or a buffer."""
    if kind == PARAMETER:
        return isinstance(value, Parameter)
    return kind in (BUFFER, TRANSIENT) and isinstance(value, Tensor)


def misfit(module: Any, name: str, kind: str, value: Any) -> ArgumentError:
    """The error for a value that a name of some kind cannot take."""
    given = f"cannot assign a {type(value).__name__} as {kind} {name!r}"
    remedy = _remedy(name, kind, value)
    return ArgumentError(message(type(module).__name__, given, _EXPECTED[kind], remedy))


def _remedy(name: str, kind: str, value: Any) -> str:
    if kind == MODULE:
        return f"To keep something else under the name, del module.{name} first"
    if kind != PARAMETER:
        return "Make a tensor of it: nc.tensor(x)"
    if isinstance(value, Tensor) and not value.is_leaf:
        return (
            f"It is the result of an op: under no_grad, module.{name}.copy_(x) keeps the parameter "
            "and changes its values; nn.Parameter(x.detach()) makes another one"
        )
    return (
        f"Write nn.Parameter(x) for another parameter; under no_grad, module.{name}.copy_(x) keeps "
        "this one and changes its values"
    )


@final
class Kinds:
    """A descriptor: of a module the view of what is registered as some kinds."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        return self if module is None else KindView(module, self.kinds)

    def __set__(self, module: Any, values: Any) -> None:
        view, kept = KindView(module, self.kinds), dict(values)
        view.clear()
        view.update(kept)


@final
class KindView(MutableMapping[str, Any]):
    """Registered values by name, as PyTorch's `module._parameters` holds them.

    As there, a value that is put in is not checked.
    """

    __slots__ = ("_kinds", "_module")

    def __init__(self, module: Any, kinds: tuple[str, ...]) -> None:
        self._module = module
        self._kinds = kinds

    def _names(self) -> list[str]:
        return [name for name, kind in self._module._kinds.items() if kind in self._kinds]

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        kinds = self._module._kinds
        if kinds.get(name) not in self._kinds:
            kinds[name] = self._kinds[0]
        object.__setattr__(self._module, name, value)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        delattr(self._module, name)

    def __contains__(self, name: object) -> bool:
        return self._module._kinds.get(name) in self._kinds

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())  # a copy, so that values may change while it is walked

    def __len__(self) -> int:
        return len(self._names())

    def copy(self) -> dict[str, Any]:
        """The names and values of now, as a dict."""
        return dict(self)

    def __repr__(self) -> str:
        return repr(dict(self))
