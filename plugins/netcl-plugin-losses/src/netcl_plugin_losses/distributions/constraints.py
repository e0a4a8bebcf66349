"""`netcl_core.distributions.constraints`: which values a parameter, or a sample, may have.

`check` tells for each value, and its answer stays on the device. The names are PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import netcl_core as nc
import netcl_core.autograd as ag

__all__ = ["Constraint", "boolean", "dependent", "dependent_property", "greater_than",
           "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
           "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial",
           "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
           "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square",
           "stack", "cat", "symmetric", "unit_interval"]  # fmt: skip

#: How far a sum of probabilities, or a matrix from its transpose, may be off.
_CLOSE: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Constraint:
    """A set of values.

    >>> positive = nc.distributions.constraints.positive
    >>> positive.check(nc.tensor([-1.0, 0.0, 2.0])).tolist(), positive
    ([False, False, True], positive)

    Args:
        name: What it prints as.
        test: Tells of a tensor which of its values are inside; of vectors and matrices (the last
            `event_dim` dimensions) as a whole.
        is_discrete: Whether the values are whole numbers.
        event_dim: How many of the last dimensions are one value.
    """

    name: str
    test: Callable[[Any], Any]
    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Any) -> Any:
        """Of each value whether it is inside: a bool tensor without the event's dimensions."""
        (x,) = ag.as_operands(value)
        return self.test(x)

    def __repr__(self) -> str:
        return self.name


def _all(holds: Any, count: int = 1) -> Any:
    for _ in range(count):
        holds = ag.all(holds, -1)
    return holds


def _whole(x: Any) -> Any:
    return ag.eq(x, ag.floor(x)) if nc.DTYPES[x.dtype].floating else ag.eq(x, x)


def _near(x: Any, y: Any) -> Any:
    return ag.le(ag.abs(x - y), _CLOSE)


def _lower(x: Any) -> Any:
    return _all(ag.eq(ag.tril(x), x), 2)


def _on_diagonal(x: Any) -> Any:
    return ag.diagonal(x, 0, -2, -1)


def _symmetric(x: Any) -> Any:
    return _all(_near(x, ag.transpose(x, -1, -2)), 2)


def _definite(x: Any, least: Callable[[Any], Any]) -> Any:
    return ag.logical_and(_symmetric(x), _all(least(nc.linalg.eigvalsh(x))))


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from one bound to another, both included.

    >>> nc.distributions.constraints.interval(-1, 1).check(nc.tensor([-1.0, 1.5])).tolist()
    [True, False]

    Args:
        lower_bound: The smallest, a number or a tensor that broadcasts with the values.
        upper_bound: The largest.
    """
    return Constraint(
        f"interval(lower_bound={lower_bound}, upper_bound={upper_bound})",
        lambda x: ag.logical_and(ag.ge(x, lower_bound), ag.le(x, upper_bound)),
    )


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from one bound to another, the last excluded.

    >>> nc.distributions.constraints.half_open_interval(0, 1).check(nc.tensor([0.0, 1.0])).tolist()
    [True, False]

    Args:
        lower_bound: The smallest, a number or a tensor that broadcasts with the values.
        upper_bound: What all are below.
    """
    return Constraint(
        f"half_open_interval(lower_bound={lower_bound}, upper_bound={upper_bound})",
        lambda x: ag.logical_and(ag.ge(x, lower_bound), ag.lt(x, upper_bound)),
    )


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers from one bound to another, both included.

    >>> nc.distributions.constraints.integer_interval(0, 3).check(nc.tensor([3.0, 0.5])).tolist()
    [True, False]

    Args:
        lower_bound: The smallest, a number or a tensor that broadcasts with the values.
        upper_bound: The largest.
    """
    inside = interval(lower_bound, upper_bound)
    name = f"integer_{inside.name}"
    return Constraint(name, lambda x: ag.logical_and(_whole(x), inside.test(x)), True)


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above a bound.

    >>> nc.distributions.constraints.greater_than(1).check(nc.tensor([1.0, 2.0])).tolist()
    [False, True]

    Args:
        lower_bound: A number, or a tensor that broadcasts with the values.
    """
    return Constraint(f"greater_than(lower_bound={lower_bound})", lambda x: ag.gt(x, lower_bound))


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers from a bound on.

    >>> nc.distributions.constraints.greater_than_eq(1).check(nc.tensor([1.0, 0.0])).tolist()
    [True, False]

    Args:
        lower_bound: A number, or a tensor that broadcasts with the values.
    """
    return Constraint(
        f"greater_than_eq(lower_bound={lower_bound})", lambda x: ag.ge(x, lower_bound)
    )


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below a bound.

    >>> nc.distributions.constraints.less_than(1).check(nc.tensor([1.0, 0.0])).tolist()
    [False, True]

    Args:
        upper_bound: A number, or a tensor that broadcasts with the values.
    """
    return Constraint(f"less_than(upper_bound={upper_bound})", lambda x: ag.lt(x, upper_bound))


def multinomial(upper_bound: Any) -> Constraint:
    """Vectors of counts whose sum is a number at most.

    >>> nc.distributions.constraints.multinomial(3).check(nc.tensor([[1, 2], [3, 1]])).tolist()
    [True, False]

    Args:
        upper_bound: The largest sum.
    """

    def test(x: Any) -> Any:
        return ag.logical_and(_all(ag.ge(x, 0)), ag.le(ag.sum(x, -1), upper_bound))

    return Constraint(f"multinomial(upper_bound={upper_bound})", test, True, 1)


def independent(base_constraint: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """Tensors all of whose values are inside another set.

    >>> c = nc.distributions.constraints
    >>> c.independent(c.positive, 1).check(nc.tensor([[1.0, 2.0], [3.0, -1.0]])).tolist()
    [True, False]

    Args:
        base_constraint: The set of a single value.
        reinterpreted_batch_ndims: How many dimensions more are one value.
    """
    base, count = base_constraint, reinterpreted_batch_ndims
    if not count:
        return base
    return Constraint(
        f"independent({base}, {count})",
        lambda x: _all(base.test(x), count),
        base.is_discrete,
        base.event_dim + count,
    )


def _along(name: str, parts: Sequence[Constraint], dim: int, pieces: Any, join: Any) -> Constraint:
    return Constraint(
        f"{name}({list(parts)}, dim={dim})",
        lambda x: join([part.test(piece) for part, piece in zip(parts, pieces(x), strict=True)]),
        any(part.is_discrete for part in parts),
        max(part.event_dim for part in parts),
    )


def cat(
    cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
) -> Constraint:
    """Stretches of a dimension, each with a set of its own.

    >>> c = nc.distributions.constraints
    >>> c.cat([c.positive, c.real], lengths=[1, 2]).check(nc.tensor([-1.0, 0.0, -1.0])).tolist()
    [False, True, True]

    Args:
        cseq: The sets in order.
        dim: The dimension.
        lengths: How long each stretch is, 1 by default.
    """
    sizes = [1] * len(cseq) if lengths is None else list(lengths)
    return _along(
        "cat", cseq, dim, lambda x: ag.split(x, sizes, dim), lambda parts: ag.cat(parts, dim)
    )


def stack(cseq: Sequence[Constraint], dim: int = 0) -> Constraint:
    """Slices of a dimension, each with a set of its own.

    >>> c = nc.distributions.constraints
    >>> c.stack([c.positive, c.real]).check(nc.tensor([[-1.0, 1.0], [-1.0, 1.0]])).tolist()
    [[False, True], [True, True]]

    Args:
        cseq: The sets in order.
        dim: The dimension.
    """
    return _along(
        "stack", cseq, dim, lambda x: ag.unbind(x, dim), lambda parts: ag.stack(parts, dim)
    )


class dependent_property(property):  # noqa: N801
    """A property of a distribution whose set depends on its parameters, as `Uniform.support`.

    >>> c = nc.distributions.constraints
    >>> c.is_dependent(nc.distributions.Uniform.support)
    True
    >>> nc.distributions.Uniform(0.0, 2.0).support.check(nc.tensor([1.0, 3.0])).tolist()
    [True, False]
    """

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> dependent_property:
        """The same, for `@dependent_property(event_dim=1)` above a function `fn`."""
        return type(self)(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a set depends on other parameters, so that only an instance can check it.

    >>> nc.distributions.constraints.is_dependent(nc.distributions.constraints.real)
    False

    Args:
        constraint: A Constraint, or what a distribution's class has in its place.
    """
    return isinstance(constraint, dependent_property) or constraint is dependent


def _refuse(x: Any) -> Any:
    raise ValueError("Cannot determine validity of dependent constraint")


dependent = Constraint("dependent", _refuse)
boolean = Constraint("boolean", lambda x: ag.logical_or(ag.eq(x, 0), ag.eq(x, 1)), True)
nonnegative_integer = Constraint(
    "nonnegative_integer", lambda x: ag.logical_and(_whole(x), ag.ge(x, 0)), True
)
positive_integer = Constraint(
    "positive_integer", lambda x: ag.logical_and(_whole(x), ag.ge(x, 1)), True
)
real = Constraint("real", lambda x: ag.eq(x, x))
real_vector = Constraint("real_vector", lambda x: _all(ag.eq(x, x)), event_dim=1)
positive = Constraint("positive", lambda x: ag.gt(x, 0))
nonnegative = Constraint("nonnegative", lambda x: ag.ge(x, 0))
unit_interval = Constraint("unit_interval", interval(0, 1).test)
simplex = Constraint(
    "simplex",
    lambda x: ag.logical_and(_all(ag.ge(x, 0)), _near(ag.sum(x, -1), 1)),
    event_dim=1,
)
one_hot = Constraint(
    "one_hot",
    lambda x: ag.logical_and(_all(boolean.test(x)), ag.eq(ag.sum(x, -1), 1)),
    True,
    1,
)
lower_triangular = Constraint("lower_triangular", _lower, event_dim=2)
lower_cholesky = Constraint(
    "lower_cholesky",
    lambda x: ag.logical_and(_lower(x), _all(ag.gt(_on_diagonal(x), 0))),
    event_dim=2,
)
square = Constraint(
    "square",
    lambda x: ag.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype="bool", device=x.device),
    event_dim=2,
)
symmetric = Constraint("symmetric", _symmetric, event_dim=2)
positive_semidefinite = Constraint(
    "positive_semidefinite", lambda x: _definite(x, lambda e: ag.ge(e, 0)), event_dim=2
)
positive_definite = Constraint(
    "positive_definite", lambda x: _definite(x, lambda e: ag.gt(e, 0)), event_dim=2
)
