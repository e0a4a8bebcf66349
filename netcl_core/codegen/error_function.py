"""The error function for NumPy arrays, to the last bit or two of float64.

Rational approximations on four intervals, with the coefficients of fdlibm's `s_erf.c` (Sun
Microsystems, 1993), whose error is below one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]

#: Elements at a time, so that all intermediate values stay in a core's cache.
_BLOCK: Final = 8192
#: The bounds of the intervals.
_CENTRE, _NEAR, _MIDDLE = 0.84375, 1.25, 1 / 0.35
#: erf(1) in a float32, from which the second interval counts.
_AT_ONE: Final = 8.45062911510467529297e-01
# Each interval's polynomials, numerator and denominator, the constant term first.
_CENTRE_TERMS: Final = (
    (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
     -5.77027029648944159157e-03, -2.37630166566501626084e-05),
    (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
     1.32494738004321644526e-04, -3.96022827877536812320e-06),
)  # fmt: skip
_NEAR_TERMS: Final = (
    (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
     3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
     -2.16637559486879084300e-03),
    (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
     1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02),
)  # fmt: skip
_MIDDLE_TERMS: Final = (
    (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
     -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
     -8.12874355063065934246e+01, -9.81432934416914548592e+00),
    (1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
     6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
     6.57024977031928170135e+00, -6.04244152148580987438e-02),
)  # fmt: skip
_FAR_TERMS: Final = (
    (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
     -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
     -4.83519191608651397019e+02),
    (1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
     3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
     -2.24409524465858183362e+01),
)  # fmt: skip


def erf(x: Any) -> Any:
    """The error function of each element, in the dtype of `x`."""
    return _in_blocks(_erf, x)


def erfc(x: Any) -> Any:
    """1 - erf of each element without the loss of digits, in the dtype of `x`."""
    return _in_blocks(_erfc, x)


def _in_blocks(function: Callable[[Array], Array], x: Any) -> Any:
    given = np.asarray(x)
    flat = given.reshape(-1)
    found = np.empty(flat.shape, given.dtype)
    for start in range(0, flat.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        found[block] = function(flat[block].astype(np.float64))
    return found.reshape(given.shape)


def _erf(x: Array) -> Array:
    size = np.abs(x)
    centre = size < _CENTRE
    if centre.all():
        return _central(x)
    found = np.empty_like(x)
    found[centre] = _central(x[centre])
    near = (size < _NEAR) & ~centre
    found[near] = np.copysign(_AT_ONE + _near(size[near]), x[near])
    far = ~(size < _NEAR)  # NaN is far, and stays one
    found[far] = np.copysign(1.0 - _tail(np.minimum(size[far], 6.0)), x[far])
    return found


def _erfc(x: Array) -> Array:
    size = np.abs(x)
    centre = size < _CENTRE
    found = np.empty_like(x)
    inner = x[centre]
    part = inner * _ratio(_CENTRE_TERMS, inner * inner)
    # Above 1/4 the difference from 1/2 is the one that keeps the digits.
    found[centre] = np.where(inner < 0.25, 1.0 - (inner + part), 0.5 - (part + (inner - 0.5)))
    near = (size < _NEAR) & ~centre
    part = _near(size[near])
    found[near] = np.where(x[near] > 0, 1.0 - _AT_ONE - part, 1.0 + (_AT_ONE + part))
    far = ~(size < _NEAR)
    tail = _tail(np.minimum(size[far], 28.0))
    found[far] = np.where(x[far] < 0, 2.0 - tail, tail)
    return found


def _central(x: Array) -> Array:
    found: Array = x + x * _ratio(_CENTRE_TERMS, x * x)
    return found


def _near(size: Array) -> Array:
    return _ratio(_NEAR_TERMS, size - 1.0)


def _tail(size: Array) -> Array:
    """erfc(size) = exp(-size^2) / size times a rational function of 1 / size^2."""
    inverse = 1.0 / (size * size)
    ratio = _ratio(_MIDDLE_TERMS, inverse)
    outer = ~(size < _MIDDLE)
    if outer.any():
        ratio[outer] = _ratio(_FAR_TERMS, inverse[outer])
    # The upper half of the digits squares without rounding, so that exp gets all of them.
    upper = (size.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)
    exact = np.exp(-upper * upper - 0.5625)
    return exact * np.exp((upper - size) * (upper + size) + ratio) / size


def _ratio(terms: tuple[Sequence[float], Sequence[float]], x: Array) -> Array:
    return _polynomial(terms[0], x) / _polynomial(terms[1], x)


def _polynomial(terms: Sequence[float], x: Array) -> Array:
    found = x * terms[-1]
    for term in terms[-2:0:-1]:
        found += term
        found *= x
    found += terms[0]
    return found
