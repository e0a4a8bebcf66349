"""nc.special: PyTorch's names of special functions, each an op of `ag`.

    >>> nc.special.expit(nc.tensor([0.0])).tolist()
    [0.5]

`docs/ops.md` says in which dtypes; integers become float32.
"""

from __future__ import annotations

import math
from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.errors import AttributeValueError, message, missing_name
from netcl_plugin_elementwise.composed import hurwitz

#: PyTorch's name in this namespace: the op's, where it is another.
_NAMES: Final = {
    **{
        name: name
        for name in (
            "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2", "expm1", "i0", "i0e",
            "i1", "i1e", "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp",
            "modified_bessel_k0", "modified_bessel_k1", "ndtr", "ndtri", "polygamma", "round",
            "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "sinc", "softmax", "xlog1py",
            "xlogy",
        )
    },
    "expit": "sigmoid",
    "gammaln": "lgamma",
    "modified_bessel_i0": "i0",
    "modified_bessel_i1": "i1",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}  # fmt: skip


def zeta(input: Any, other: Any) -> Any:
    """The zeta function of Hurwitz, the sum of (other + k)^-input over k from 0 on.

    The shapes of both broadcast; integers become float32.

    >>> nc.special.zeta([2.0], [1.0]).numpy().round(4)
    array([1.6449], dtype=float32)

    Infinite where `input` is 1, NaN below. Gradients of both.
    """
    s, q = ag.as_operands(input, other)
    s, q = (x if DTYPES[x.dtype].floating else x.astype("float32") for x in (s, q))
    # A negative number has real powers of whole numbers alone.
    lost = ag.logical_or(ag.lt(s, 1), ag.logical_and(ag.lt(q, 0), ag.ne(s, ag.floor(s))))
    pole = ag.eq(s, 1)
    safe = ag.where(ag.logical_or(lost, pole), 2.0, s)
    return ag.where(lost, math.nan, ag.where(pole, math.inf, hurwitz(safe, q)))


def spherical_bessel_j0(input: Any) -> Any:
    """sin(x) / x, 1 at 0 (DLMF 10.49.3).

    For inputs of any shape; integers become float32.

    >>> nc.special.spherical_bessel_j0([0.0, 1.0]).numpy().round(4)
    array([1.    , 0.8415], dtype=float32)
    """
    x = ag.as_operand(input)
    x = x if DTYPES[x.dtype].floating else x.astype("float32")
    zero = ag.eq(x, 0)
    return ag.where(zero, 1.0, ag.div(ag.sin(x), ag.where(zero, 1.0, x)))


def _polynomial(name: str, first: Any, following: Any, shifted: bool, doc: str, at_2: float) -> Any:
    """A family of orthogonal polynomials by its recurrence in the degree (DLMF 18.9.1).

    `at_2` is the polynomial of degree 2 at 2, for the example.
    """

    def polynomial(input: Any, n: Any) -> Any:
        x, degree = (operand.detach() for operand in ag.as_operands(input, n))
        x = x if DTYPES[x.dtype].floating else x.astype("float32")
        x = ag.sub(ag.mul(x, 2.0), 1.0) if shifted else x
        degree = degree.astype("int64")
        most = degree.int_range()[1] if degree.size else 0
        if most > _MOST:
            raise AttributeValueError(message(name, f"a degree of {most}", f"at most {_MOST}"))
        before, now = ag.full_like(x, 1.0), first(x)
        value = ag.where(ag.eq(degree, 0), before, 0.0)
        for k in range(1, most + 1):
            value = ag.where(ag.eq(degree, k), now, value)
            before, now = now, following(k, x, now, before)
        return value

    polynomial.__name__ = name
    polynomial.__doc__ = (
        f"{doc} of degree n, a number or integers; 0 below degree 0.\n\n"
        "The shapes of `input` and `n` broadcast; an `input` of integers becomes float32. A degree "
        f"above {_MOST:,} raises AttributeValueError.\n\n"
        f">>> nc.special.{name}([2.0], 2).tolist()\n[{at_2}]"
    )
    return polynomial


#: The degree up to which the recurrences go.
_MOST: Final = 10_000


def _doubled(k: int, x: Any, now: Any, before: Any) -> Any:
    return ag.sub(ag.mul(ag.mul(x, 2.0), now), before)


#: Kind -> the polynomial of degree 1; that of degree 2 at 2, and at 2 * 2 - 1.
_CHEBYSHEV: Final[dict[str, tuple[Any, float, float]]] = {
    "t": (lambda x: x, 7.0, 17.0),
    "u": (lambda x: ag.mul(x, 2.0), 15.0, 35.0),
    "v": (lambda x: ag.sub(ag.mul(x, 2.0), 1.0), 11.0, 29.0),
    "w": (lambda x: ag.add(ag.mul(x, 2.0), 1.0), 19.0, 41.0),
}
#: Name -> the polynomial of degree 1, the next one from two, whether of 2x - 1, whose they are,
#: and the polynomial of degree 2 at 2.
_FAMILIES: Final[dict[str, tuple[Any, Any, bool, str, float]]] = {
    **{
        f"{'shifted_' * shifted}chebyshev_polynomial_{kind}": (
            first, _doubled, shifted,
            f"Chebyshev's polynomial {kind.upper()}{' of 2x - 1' * shifted}", at_2[shifted],
        )
        for kind, (first, *at_2) in _CHEBYSHEV.items()
        for shifted in (False, True)
    },
    "hermite_polynomial_h": (
        lambda x: ag.mul(x, 2.0),
        lambda k, x, now, before: ag.sub(ag.mul(ag.mul(x, 2.0), now), ag.mul(before, 2.0 * k)),
        False, "Hermite's polynomial of the physicists", 14.0,
    ),
    "hermite_polynomial_he": (
        lambda x: x,
        lambda k, x, now, before: ag.sub(ag.mul(x, now), ag.mul(before, float(k))),
        False, "Hermite's polynomial of probability", 3.0,
    ),
    "laguerre_polynomial_l": (
        lambda x: ag.sub(1.0, x),
        lambda k, x, now, before: ag.div(
            ag.sub(ag.mul(ag.sub(2.0 * k + 1, x), now), ag.mul(before, float(k))), k + 1.0),
        False, "Laguerre's polynomial", -1.0,
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda k, x, now, before: ag.div(
            ag.sub(ag.mul(ag.mul(x, 2.0 * k + 1), now), ag.mul(before, float(k))), k + 1.0),
        False, "Legendre's polynomial", 5.5,
    ),
}  # fmt: skip
#: The functions of this namespace that are no ops.
_OWN: Final = {
    "spherical_bessel_j0": spherical_bessel_j0,
    "zeta": zeta,
    **{name: _polynomial(name, *family) for name, family in _FAMILIES.items()},
}


def __getattr__(name: str) -> Any:
    if name in _OWN:
        return _OWN[name]
    if name not in _NAMES:
        raise missing_name("special", name, {**_NAMES, **_OWN})
    return getattr(ag, _NAMES[name])


def __dir__() -> list[str]:
    return sorted({*_NAMES, *_OWN})
