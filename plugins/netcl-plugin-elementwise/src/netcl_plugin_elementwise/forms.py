"""Arguments of ops that others compute: alpha, rounding_mode, decimals, bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import AttributeValueError, DtypeError, message

Form = Callable[..., Any]


@cache
def part(name: str) -> AutogradPrimitive:
    """The primitive of `templates/parts/<name>.cl.j2`, of which only a form makes use."""
    return AutogradPrimitive.from_template(f"elementwise/parts/{name}.cl.j2")


def _dtype(value: Any) -> str:
    """The dtype of an operand, or that which a plain number stands for."""
    if isinstance(value, Tensor):
        return value.dtype
    return "float32" if isinstance(value, float) else "int64"


def _scaled(op: str) -> Form:
    def form(x: Any, y: Any, *, alpha: Any) -> Any:
        whole = not any(DTYPES[_dtype(operand)].floating for operand in (x, y))
        if whole and isinstance(alpha, float):
            given = f"alpha={alpha!r} for integers"
            raise AttributeValueError(message(op, given, "an int, as they are"))
        return getattr(ag, op)(x, ag.mul(y, alpha))

    return form


def _divided(x: Any, y: Any, *, rounding_mode: Any) -> Any:
    """x / y as it is (None), rounded towards zero ('trunc') or down ('floor')."""
    if rounding_mode is None:
        return ag.div(x, y)
    if rounding_mode == "floor":
        return ag.floor_divide(x, y)
    if rounding_mode == "trunc":
        return part("divide_to_zero")(x, y)
    given = f"rounding_mode={rounding_mode!r}"
    raise AttributeValueError(message("div", given, "None, 'trunc' or 'floor'"))


def _rounded(x: Any, *, decimals: Any) -> Any:
    """x to so many digits after its point, or, of less than 0, before it."""
    if isinstance(decimals, bool) or not isinstance(decimals, int) or abs(decimals) > 300:
        raise AttributeValueError(message("round", f"decimals={decimals!r}", "an int"))
    if not decimals:
        return ag.round(x)
    if not DTYPES[_dtype(x)].floating:
        given = f"decimals={decimals} of a {_dtype(x)} tensor"
        raise DtypeError(message("round", given, "a floating dtype", "Use astype('float32')"))
    return part("round_to")(x, 10.0 ** max(decimals, 0), 10.0 ** max(-decimals, 0))


def _within(x: Any, *, min: Any = None, max: Any = None) -> Any:
    """x between bounds of which one is a tensor, or both; the bounds have gradients too."""
    raised = x if min is None else ag.clamp_min(x, min)
    return raised if max is None else ag.clamp_max(raised, max)


def _places(condition: Any) -> Any:
    """`where(condition)`: the places where it holds, one tensor for each dimension."""
    return ag.nonzero(condition, as_tuple=True)


#: By op, what computes it where an argument of that name is given; "": with fewer operands.
FORMS: Final[Mapping[str, Mapping[str, Form]]] = {
    "add": {"alpha": _scaled("add")},
    "sub": {"alpha": _scaled("sub")},
    "div": {"rounding_mode": _divided},
    "round": {"decimals": _rounded},
    "clamp": {"min": _within, "max": _within},
    "where": {"": _places},
}
