"""Settings: what the signature of an optimizer's constructor says: names, defaults and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from inspect import signature
from numbers import Real
from typing import Annotated, Any, Final, ParamSpec, TypeAlias, final, get_args, get_type_hints

from netcl_core import renaming
from netcl_core.errors import AttributeValueError, message

_P = ParamSpec("_P")
#: The parts of settings that are pairs, as the kernels call them.
_PARTS: Final = {
    part: (pair, place)
    for pair, parts in (
        ("betas", ("beta1", "beta2")),
        ("etas", ("etaminus", "etaplus")),
        ("step_sizes", ("step_size_min", "step_size_max")),
    )
    for place, part in enumerate(parts)
}


@final
@dataclass(frozen=True, slots=True)
class SettingLimit:
    """What a setting must be.

    Attributes:
        expected: The same in words.
        holds: Whether a value is that.
    """

    expected: str
    holds: Callable[[Any], bool]


def _at_least_0(value: Any) -> bool:
    return isinstance(value, Real) and float(value) >= 0


def _two(holds: Callable[[Any, Any], bool]) -> Callable[[Any], bool]:
    """Whether a value is two numbers for which something holds."""

    def both(value: Any) -> bool:
        numbers = isinstance(value, (list, tuple)) and all(isinstance(x, Real) for x in value)
        return numbers and len(value) == 2 and holds(*value)

    return both


#: What the signatures say of a setting's values; for type checkers these are the plain types.
AtLeast0: TypeAlias = Annotated[float, SettingLimit("a number >= 0", _at_least_0)]
Share: TypeAlias = Annotated[
    float,
    SettingLimit("a number from 0 to 1", lambda value: _at_least_0(value) and float(value) <= 1),
]
Betas: TypeAlias = Annotated[
    tuple[float, float],
    SettingLimit("two numbers in [0, 1)", _two(lambda one, two: 0 <= one < 1 and 0 <= two < 1)),
]
Around1: TypeAlias = Annotated[
    tuple[float, float],
    SettingLimit("a number in (0, 1) and one above 1", _two(lambda low, high: 0 < low < 1 < high)),
]
Bounds: TypeAlias = Annotated[
    tuple[float, float],
    SettingLimit("two numbers >= 0, the lower first", _two(lambda low, high: 0 <= low <= high)),
]


def settings(**fixed: Any) -> Callable[[Callable[_P, None]], Callable[_P, None]]:
    """Make a constructor of its signature: what it takes besides `params` are the settings.

    It has no body: the groups of parameters begin with what it is given, or with its defaults.

    Args:
        fixed: Settings that the groups have and the constructor does not take.
    """

    def decorate(init: Callable[_P, None]) -> Callable[_P, None]:
        takes = signature(init)
        renamed = renaming(init.__qualname__.partition(".")[0], takes.parameters)

        @wraps(init)
        def construct(*args: _P.args, **kwargs: _P.kwargs) -> None:
            given = takes.bind(*args, **renamed(kwargs))
            given.apply_defaults()
            optimizer, params, *values = given.arguments.values()
            named = zip(list(given.arguments)[2:], values, strict=True)
            optimizer._begin(params, {**dict(named), **fixed}, limits_of(init))

        return construct

    return decorate


@lru_cache
def limits_of(init: Callable[..., None]) -> Mapping[str, SettingLimit]:
    """The limits in a constructor's signature, by the settings' names."""
    hints = get_type_hints(init, include_extras=True)
    return {
        name: extra
        for name, hint in hints.items()
        for extra in get_args(hint)[1:]
        if isinstance(extra, SettingLimit)
    }


def check(who: str, limits: Mapping[str, SettingLimit], group: Mapping[str, Any]) -> None:
    """Raise AttributeValueError if a setting is not within its limit."""
    for name, limit in limits.items():
        if not limit.holds(group[name]):
            raise AttributeValueError(message(who, f"{name}={group[name]!r}", limit.expected))


def number(group: Mapping[str, Any], name: str) -> Any:
    """A setting, or a part of one that is a pair; 1 minus it with `one_minus_` before its name."""
    if name.startswith("one_minus_"):
        return 1 - number(group, name.removeprefix("one_minus_"))
    if name in _PARTS:
        pair, place = _PARTS[name]
        return group[pair][place]
    return group[name]
