"""AdamW written out as ops in a compiled function: the training pattern `adamw`.

Its value is computed by three elementwise ops, in one kernel, whose expressions are those that the
optimizers' kernel is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

from netcl_plugin_patterns import TrainingPattern

from netcl_core import DTYPES
from netcl_core.autograd import AutogradPrimitive

NAME: Final = "adamw"
_TEMPLATES: Final = ("adam_mean", "adam_square", "adamw_parameter")
_FLOATS: Final = tuple(name for name, dtype in DTYPES.items() if dtype.floating)
Found: TypeAlias = dict[str, Any]


def _of(value: Any, op: str) -> Sequence[Any]:
    """The operands of a traced value that is an op's; none of any other."""
    operands: Sequence[Any] = value.inputs if getattr(value, "op", "") == op else ()
    return operands


def _either_way(operands: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The operands of a commutative op in both orders."""
    yield from (operands, operands[::-1]) if operands else ()


def _same(one: Any, other: Any) -> bool:
    """Whether two operands are one value; numbers, which a look would fix, are none."""
    return hasattr(one, "op") and hasattr(other, "op") and bool(one == other)


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _scaled(value: Any) -> tuple[Any, Any] | None:
    """x and k of x * k."""
    for x, factor in _either_way(_of(value, "mul")):
        if _is_number(factor) and hasattr(x, "op"):
            return x, factor
    return None


def _quotient(value: Any) -> Found | None:
    """m, v and the numbers of step_size * m / (sqrt(v) / root_correction + eps)."""
    for inner, step in _either_way(_of(value, "mul")):
        if _is_number(step) and _of(inner, "div"):  # step_size * (m / ...)
            mean, below = _of(inner, "div")
            return _over(mean, step, below)
    above, below = _of(value, "div") or (None, None)
    scaled = _scaled(above)
    return None if scaled is None else _over(*scaled, below)


def _over(mean: Any, step: Any, below: Any) -> Found | None:
    for root, eps in _either_way(_of(below, "add")):
        value, correction = _of(root, "div") or (root, 1.0)
        for square in _of(value, "sqrt"):
            if _is_number(eps) and _is_number(correction):
                given = {"step_size": step, "root_correction": correction, "eps": eps}
                return {"mean": mean, "square": square, **given}
    return None


def _square(value: Any) -> Found | None:
    """v, g and the numbers of beta2 v + (1 - beta2) g^2."""
    for kept, fresh in _either_way(_of(value, "add")):
        gradient = _squared(fresh)
        scaled = _scaled(kept)
        if gradient is not None and scaled is not None:
            g, rest = gradient
            return {"exp_avg_sq": scaled[0], "beta2": scaled[1], "g": g, "one_minus_beta2": rest}
    return None


def _squared(value: Any) -> tuple[Any, Any] | None:
    """g and k of k * g^2, or of (k * g) * g."""
    for one, other in _either_way(_of(value, "mul")):
        if _is_number(other):
            factors = (*_of(one, "square"), *_of(one, "square")) or _of(one, "mul")
            if factors and _same(*factors):
                return factors[0], other
        elif (scaled := _scaled(one)) is not None and _same(scaled[0], other):
            return scaled
    return None


def _mean(value: Any, g: Any) -> Found | None:
    """m and the number of m + (1 - beta1) (g - m), or of beta1 m + (1 - beta1) g."""
    for one, other in _either_way(_of(value, "add")):
        added = _scaled(other)
        if added is None:
            continue
        towards, rest = added
        difference = _of(towards, "sub")
        if difference and _same(difference[0], g) and _same(difference[1], one):
            return {"exp_avg": one, "one_minus_beta1": rest}
        kept = _scaled(one)
        if _same(towards, g) and kept is not None and kept[1] + rest == 1:
            return {"exp_avg": kept[0], "one_minus_beta1": rest}
    return None


def matcher(value: Any) -> Any:
    """What AdamW's three results are computed from, and which these are."""
    before, change = _of(value, "sub") or (None, None)
    quotient = _quotient(change)
    if quotient is None or not hasattr(before, "op"):
        return None
    mean, square = quotient.pop("mean"), quotient.pop("square")
    squares = _square(square)
    means = None if squares is None else _mean(mean, squares["g"])
    if squares is None or means is None:
        return None
    p, kept = _scaled(before) or (before, 1.0)
    return {"p": p, "kept": kept, **quotient, **squares, **means}, (value, mean, square)


def pattern() -> TrainingPattern:
    """The pattern, with its parts."""
    parts = [AutogradPrimitive.from_template(f"optim/{name}.cl.j2") for name in _TEMPLATES]
    mean, square, parameter = parts

    def planner(
        p: Any,
        g: Any,
        exp_avg: Any,
        exp_avg_sq: Any,
        kept: Any,
        one_minus_beta1: Any,
        beta2: Any,
        one_minus_beta2: Any,
        step_size: Any,
        root_correction: Any,
        eps: Any,
    ) -> Any:
        """The parameter and its means; None for whole numbers."""
        if not all(x.dtype in _FLOATS for x in (p, g, exp_avg, exp_avg_sq)):
            return None
        m = mean(exp_avg, g, one_minus_beta1)
        v = square(exp_avg_sq, g, beta2, one_minus_beta2)
        return parameter(p, m, v, kept, step_size, root_correction, eps), m, v

    return TrainingPattern(
        NAME,
        matcher,
        planner,
        templates=tuple(f"optim/{name}.cl.j2" for name in _TEMPLATES),
        parts=tuple(parts),
        doc="A step of AdamW that is written out as ops, by the optimizers' own rule.",
    )
