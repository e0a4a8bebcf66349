"""Ops of elements that are made of other ops: of bits, of whole numbers, of parts of floats."""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor
from netcl_core.autograd import Operator, composite
from netcl_core.errors import AttributeValueError, DtypeError, message
from netcl_plugin_elementwise.forms import part


def bitwise_not(x: Any) -> Any:
    """All bits of integers turned round, -x - 1 of signed ones; of bools the logical not.

    For integers and bools of any shape; floats raise DtypeError.

    >>> ag.bitwise_not([0, 5]).tolist()
    [-1, -6]
    """
    dtype = getattr(x, "dtype", None)
    return ag.logical_not(x) if dtype == "bool" or isinstance(x, bool) else ag.bitwise_xor(x, -1)


def celu(input: Any, alpha: float = 1.0) -> Any:
    """x where x > 0, else alpha * (e^(x / alpha) - 1), whose slope at 0 is 1 for every alpha.

    >>> ag.celu([-1.0, 2.0]).numpy().round(4)
    array([-0.6321,  2.    ], dtype=float32)

    Args:
        input: A tensor of any shape.
        alpha: Any number but 0; raises AttributeValueError for that.

    (Barron 2017, arXiv:1704.07483)
    """
    if alpha == 0:
        raise AttributeValueError(message("celu", f"alpha={alpha!r}", "any number but 0"))
    return part("continuous_elu")(input, alpha)


def positive(input: Any) -> Any:
    """The tensor itself; raises DtypeError for bools, which have no sign.

    For inputs of any shape.

    >>> ag.positive([1.0, -2.0]).tolist()
    [1.0, -2.0]
    """
    x = ag.as_operand(input)
    if x.dtype == "bool":
        raise DtypeError(message("positive", "a bool tensor", "numbers"))
    return x


def nan_to_num(
    input: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Numbers in the places of NaN and the infinities; there the gradient is 0.

    For inputs of any shape.

    >>> ag.nan_to_num([float("nan"), 1.0], nan=0.0).tolist()
    [0.0, 1.0]

    Args:
        input: A tensor of any dtype; one of whole numbers stays as it is.
        nan: What NaN becomes.
        posinf: What infinity becomes; None: the largest number of the dtype.
        neginf: What -infinity becomes; None: the least number of the dtype.
    """
    x = ag.as_operand(input)
    if not DTYPES[x.dtype].floating:
        return ag.clone(x)
    most = largest(x.dtype)
    high, low = most if posinf is None else posinf, -most if neginf is None else neginf
    finite = ag.where(ag.isposinf(x), high, ag.where(ag.isneginf(x), low, x))
    return ag.where(ag.isnan(x), 0.0 if nan is None else nan, finite)


def largest(dtype: str) -> float:
    """The largest finite number of a floating dtype."""
    if dtype == "bfloat16":
        return (2 - 2.0**-7) * 2.0**127
    return float(np.finfo(dtype).max)


def _whole_numbers(who: str, *given: Any) -> list[Any]:
    """Operands of integer dtypes; raises DtypeError for others."""
    operands = ag.as_operands(*given)
    wrong = [x.dtype for x in operands if DTYPES[x.dtype].floating or x.dtype == "bool"]
    if wrong:
        raise DtypeError(message(who, f"a {wrong[0]} tensor", "integers"))
    return operands


def bitwise_left_shift(input: Any, other: Any) -> Any:
    """The bits of integers moved up by as many places; 0 if none is left.

    For integers with shapes that broadcast; floats raise DtypeError.

    >>> nc.tensor([1, 3]).bitwise_left_shift(2).tolist()
    [4, 12]
    """
    x, by = _whole_numbers("bitwise_left_shift", input, other)
    last = _bits(x) - 1
    moved = ag.mul(x, _power_of_two(ag.clamp(by, 0, last - 1)))
    moved = ag.where(ag.eq(by, last), ag.mul(moved, 2), moved)  # 2^last is no number of the dtype
    return ag.where(ag.logical_or(ag.lt(by, 0), ag.gt(by, last)), 0, moved)


def bitwise_right_shift(input: Any, other: Any) -> Any:
    """The bits of integers moved down by as many places, the sign kept: x // 2^other.

    For integers with shapes that broadcast; floats raise DtypeError.

    >>> ag.bitwise_right_shift([8, -8], [1, 2]).tolist()
    [4, -2]
    """
    x, by = _whole_numbers("bitwise_right_shift", input, other)
    last = _bits(x) - 1
    moved = ag.floor_divide(x, _power_of_two(ag.clamp(by, 0, last - 1)))
    far = ag.logical_or(ag.lt(by, 0), ag.ge(by, last))
    return ag.where(far, ag.neg(ag.lt(x, 0).astype(x.dtype)), moved)


def _bits(x: Any) -> int:
    return int(np.dtype(x.dtype).itemsize) * 8


def _power_of_two(by: Any) -> Any:
    """2^by in the dtype of `by`, exactly."""
    power = ag.full_like(by, 1)
    for step in (1, 2, 4, 8, 16, 32):
        if step < _bits(by) - 1:
            power = ag.where(ag.eq(ag.bitwise_and(by, step), step), ag.mul(power, 1 << step), power)
    return power


#: No two int64 numbers take more steps: the worst are neighbours of Fibonacci's (Lamé 1844).
_EUCLID: Final = 92


def gcd(input: Any, other: Any) -> Any:
    """The greatest common divisor of integers, not below 0, by Euclid's algorithm.

    The shapes of both broadcast. Floats raise DtypeError.

    The host waits for the data, whose size tells how many steps there are.

    >>> ag.gcd([12, 18], 8).tolist()
    [4, 2]
    """
    x, y = (ag.abs(number) for number in _whole_numbers("gcd", input, other))
    x = ag.add(x, ag.mul(y, 0))  # of the shape of both
    for _ in range(_EUCLID):
        if not y.size or not y.int_range()[1]:
            break
        safe = ag.where(ag.eq(y, 0), 1, y)
        x, y = ag.where(ag.eq(y, 0), x, y), ag.where(ag.eq(y, 0), 0, ag.remainder(x, safe))
    return ag.clone(x)


def lcm(input: Any, other: Any) -> Any:
    """The least common multiple of integers, not below 0; 0 of 0.

    The shapes of both broadcast. Floats raise DtypeError.

    >>> ag.lcm([4, 6], 10).tolist()
    [20, 30]
    """
    x, y = _whole_numbers("lcm", input, other)
    common = ag.gcd(x, y)
    part = ag.floor_divide(x, ag.where(ag.eq(common, 0), 1, common))
    return ag.abs(ag.mul(part, y))


def ldexp(input: Any, other: Any) -> Any:
    """input * 2^other.

    The shapes of both broadcast; integers become float32.

    >>> ag.ldexp([1.0, 1.5], [2, 3]).tolist()
    [4.0, 12.0]
    """
    x, by = ag.as_operands(input, other)
    x = x if DTYPES[x.dtype].floating else x.astype("float32")
    by = by.astype(x.dtype)
    half = ag.trunc(ag.mul(by, 0.5))  # 2^other alone may be no number
    return ag.mul(ag.mul(x, ag.exp2(half)), ag.exp2(ag.sub(by, half)))


_Frexp = namedtuple("_Frexp", ("mantissa", "exponent"))


def frexp(input: Any) -> Any:
    """A named tuple of the `mantissa`, from 0.5 to 1, and the int32 `exponent`, with
    mantissa * 2^exponent = input.

    For inputs of any shape.

    >>> [part.tolist() for part in nc.tensor([3.0]).frexp()]
    [[0.75], [2]]

    Raises:
        DtypeError: Unless given a floating dtype.
    """
    x = ag.as_operand(input)
    if not DTYPES[x.dtype].floating:
        raise DtypeError(message("frexp", f"a {x.dtype} tensor", "a floating dtype"))
    with ag.no_grad():
        wide = x if x.dtype in ("float32", "float64") else x.astype("float32")
        small = ag.lt(ag.abs(wide), 2.0**-100)
        size = ag.abs(ag.where(small, ag.mul(wide, 2.0**100), wide))
        number = ag.logical_and(ag.gt(size, 0), ag.isfinite(size))
        power = ag.add(ag.floor(ag.log2(ag.where(number, size, 0.5))), 1)
        fraction = ldexp(size, ag.neg(power))
        # The logarithm is rounded, so that it may be one off.
        power = ag.add(power, ag.sub(ag.ge(fraction, 1), ag.lt(fraction, 0.5).astype("int64")))
        power = ag.where(number, ag.sub(power, ag.mul(small, 100.0)), 0.0)
    mantissa = ag.where(number, ldexp(wide if wide is x else x.astype(wide.dtype), ag.neg(power)),
                        x.astype(wide.dtype))  # fmt: skip
    return _Frexp(mantissa.astype(x.dtype), power.astype("int32"))


def float_power(input: Any, exponent: Any) -> Any:
    """The power in float64, whatever the dtypes are.

    The shapes of both broadcast.

    >>> ag.float_power([2, 3], 2).tolist()
    [4.0, 9.0]

    Args:
        exponent: The exponent, a number or a tensor.
    """
    x, y = ag.as_operands(input, exponent)
    return ag.pow(x.astype("float64"), y.astype("float64"))


def angle(input: Any) -> Any:
    """The angle of real numbers as complex ones: 0, or pi below 0; NaN of NaN.

    For inputs of any shape; integers become float32.

    >>> ag.angle([2.0, -1.0]).numpy().round(4)
    array([0.    , 3.1416], dtype=float32)
    """
    x = ag.as_operand(input)
    x = x if DTYPES[x.dtype].floating else x.astype("float32")
    below = ag.relu(ag.neg(ag.sign(x)))
    return ag.where(ag.isnan(x), math.nan, ag.mul(below, math.pi))


def isreal(input: Any) -> Any:
    """Whether elements are real numbers, as all are: True.

    For inputs of any shape and dtype.

    >>> ag.isreal([1.0, 2.0]).tolist()
    [True, True]
    """
    x = ag.as_operand(input)
    return ag.full_like(x, 1, dtype="bool")


def rsub(input: Any, other: Any, *, alpha: float = 1) -> Any:
    """other - alpha * input.

    The shapes of both broadcast.

    >>> ag.rsub([1.0, 2.0], 10.0).tolist()
    [9.0, 8.0]
    """
    return ag.sub(other, input if alpha == 1 else ag.mul(input, alpha))


def polygamma(n: int, input: Any) -> Any:
    """The derivative of order n of digamma: (-1)^(n + 1) n! zeta(n + 1, x) (DLMF 5.15.1, 25.11.12).

    For inputs of any shape.

    >>> ag.polygamma(1, [1.0, 2.0]).numpy().round(4)
    array([1.6449, 0.6449], dtype=float32)

    Args:
        n: 0 or more.
        input: A floating tensor, or integers, which become float32.

    Raises:
        AttributeValueError: Unless given an int of at least 0.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise AttributeValueError(message("polygamma", f"n={n!r}", "an int of at least 0"))
    x = ag.as_operand(input)
    x = x if DTYPES[x.dtype].floating else x.astype("float32")
    if n == 0:
        return ag.digamma(x)
    if n > 150:
        raise AttributeValueError(message("polygamma", f"n={n!r}", "at most 150"))
    return ag.mul(hurwitz(n + 1, x), float((-1) ** (n + 1) * math.factorial(n)))


def hurwitz(s: Any, q: Any) -> Any:
    """zeta(s, q), the sum of (q + k)^-s over k from 0 on, by Euler and Maclaurin (DLMF 25.11.28).

    The host waits for q, which tells how many terms are added before the series.
    """
    below = ag.clamp(ag.floor(ag.where(ag.isfinite(q), q, 0.0)), -10_000, 0).astype("int64")
    terms = 10 - (below.int_range()[0] if q.size else 0)
    pole = ag.logical_and(ag.le(q, 0), ag.eq(q, ag.floor(q)))
    q = ag.where(pole, 1.0, q)
    total = ag.full_like(q, 0.0)
    for k in range(terms):
        total = ag.add(
            total, ag.pow(ag.add(q, float(k)), ag.neg(s) if isinstance(s, Tensor) else -s)
        )
    far = ag.add(q, float(terms))
    power = ag.pow(far, ag.neg(s) if isinstance(s, Tensor) else -s)
    tail = ag.div(ag.pow(far, ag.sub(1.0, s)), ag.sub(s, 1.0))  # power may be below all floats
    total = ag.add(total, ag.add(tail, ag.mul(power, 0.5)))
    factor, squared = ag.div(ag.mul(power, s), far), ag.square(far)
    for j, number in enumerate(_BERNOULLI):
        total = ag.add(total, ag.mul(factor, number))
        grown = ag.mul(ag.add(s, 2.0 * j + 1), ag.add(s, 2.0 * j + 2))
        factor = ag.div(ag.mul(factor, grown), squared)
    return ag.where(pole, float("inf"), total)


#: B(2j) / (2j)! of Bernoulli's numbers (DLMF 24.2.1), j from 1 on.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
              1 / 74724249600, -3617 / 10670622842880000)  # fmt: skip


def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension p (DLMF 35.3.4).

    For inputs of any shape; integers become float32.

    >>> ag.mvlgamma([3.0], 2).numpy().round(4)
    array([1.5502], dtype=float32)

    Raises:
        AttributeValueError: Unless given an int from 1 to 1000.
    """
    if isinstance(p, bool) or not isinstance(p, int) or not 1 <= p <= 1000:
        raise AttributeValueError(message("mvlgamma", f"p={p!r}", "an int from 1 to 1000"))
    x = ag.as_operand(input)
    x = x if DTYPES[x.dtype].floating else x.astype("float32")
    total = ag.lgamma(x)
    for j in range(1, p):
        total = ag.add(total, ag.lgamma(ag.sub(x, j / 2)))
    return ag.add(total, p * (p - 1) / 4 * math.log(math.pi))


def operators() -> tuple[Operator, ...]:
    """The records of these ops."""
    return (
        composite(bitwise_not),
        composite(celu, ("input",), parts=(part("continuous_elu"),)),
        composite(positive, ("input",)),
        composite(nan_to_num, ("input",)),
        composite(bitwise_left_shift, ("input", "other")),
        composite(bitwise_right_shift, ("input", "other")),
        composite(gcd, ("input", "other")),
        composite(lcm, ("input", "other")),
        composite(ldexp, ("input", "other")),
        composite(frexp, ("input",)),
        composite(float_power, ("input", "exponent")),
        composite(angle, ("input",)),
        composite(isreal, ("input",)),
        composite(rsub, ("input", "other"), method=False),
        composite(polygamma, ("input",), method=False),
        composite(mvlgamma, ("input",)),
    )
