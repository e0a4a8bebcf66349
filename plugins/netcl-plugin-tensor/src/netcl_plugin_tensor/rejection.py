"""Counts of events and gamma's numbers, by candidates that are taken or refused.

Means from 10 on by transformed rejection (Hörmann 1993, "The transformed rejection method for
generating Poisson random variables", doi:10.1016/0167-6687(93)90997-4, and "The generation of
binomial random variates", doi:10.1080/00949659308811496), with the logarithms of probabilities by
Loader 2000, "Fast and accurate computation of binomial probabilities"; smaller ones by inversion.
Gamma's by Marsaglia, Tsang 2000, "A simple method for generating gamma variables".
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Kernel, Kernels, Spec, widened
from netcl_core.autograd import Implementation, Operator, Request, composite
from netcl_core.errors import AttributeValueError, DtypeError, message
from netcl_plugin_tensor import geometry, philox
from netcl_plugin_tensor.random import fresh_state

#: Candidates of an element, at most; each is refused with a probability below a third.
_ATTEMPTS: Final = 64
_CHUNK: Final = 256


def _unit(words: Any, like: Any) -> Any:
    return (words.astype(like.dtype) + like.dtype.type(0.5)) * like.dtype.type(2.0**-32)


def _deviance(k: Any, mean: Any) -> Any:
    """k log(k / mean) - k + mean, without a difference where k is near the mean."""
    d = k - mean
    e = d / (k + mean)
    s = e * e
    near = d * e + 2 * k * e * s * (1 / 3 + s * (0.2 + s * (1 / 7 + s / 9)))
    return np.where(s < 0.01, near, np.where(k > 0, k * np.log(k / mean), 0) - d)


def _tail(k: Any) -> Any:
    """What log k! has beyond k log k - k (DLMF 5.11.1)."""
    s = 1 / (k * k)
    series = (1 / 12 - s * (1 / 360 - s * (1 / 1260))) / k
    return np.where(k > 0, series + 0.5 * np.log(2 * np.pi * k), 0)


def _log_mass(k: Any, n: Any, p: Any) -> Any:
    rest = n - k
    masses = _tail(n) - _tail(k) - _tail(rest)
    return masses - _deviance(k, n * p) - _deviance(rest, n * (1 - p))


def _small(words: Any, mean: Any, term: Any, most: Any, odds: Any) -> Any:
    """The first number below which more than a uniform part of all probability lies."""
    u = (words >> np.uint64(8)).astype(mean.dtype) * mean.dtype.type(2.0**-24)
    value = np.zeros_like(mean)
    while True:
        goes_on = (u > term) & (value < most) & ((value < mean) | (term > 1e-9)) & (mean < 10)
        if not goes_on.any():
            return value
        u = np.where(goes_on, u - term, u)
        ratio = mean / (value + 1) if odds is None else (most - value) / (value + 1) * odds
        term, value = np.where(goes_on, term * ratio, term), value + goes_on


def _counts(words: Any, given: Any, chance: Any = None) -> tuple[Any, Any]:
    """A candidate for each element, and whether it is taken."""
    if chance is None:
        mean, most, p, odds = given, np.full_like(given, np.inf), None, None
        spread = np.sqrt(mean)
        b, centre = 0.931 + 2.53 * spread, mean + 0.43
        a, low = -0.059 + 0.02483 * b, 0.9277 - 3.6224 / (b - 2)
        hat, term = 1.1239 + 1.1328 / (b - 3.4), np.exp(-mean)
    else:
        most, p = np.floor(given), np.where(chance > 0.5, 1 - chance, chance)
        mean, odds = most * p, p / (1 - p)
        spread = np.sqrt(mean * (1 - p))
        b, centre = 1.15 + 2.53 * spread, mean + 0.5
        a, low = -0.0873 + 0.0248 * b + 0.01 * p, 0.92 - 4.2 / b
        hat, term = (2.83 + 5.1 / b) * spread, np.exp(most * np.log1p(-p))
    u, v = _unit(words[:, 0], given) - given.dtype.type(0.5), _unit(words[:, 1], given)
    us = 0.5 - np.abs(u)
    value = np.floor((2 * a / us + b) * u + centre)
    if p is None:
        mass = -_deviance(value, mean) - _tail(value)
    else:
        mass = _log_mass(value, most, p) - _log_mass(np.floor((most + 1) * p), most, p)
    inside = (value >= 0) & (value <= most) & ~((us < 0.013) & (v > us))
    fits = (us >= 0.07) & (v <= low) | inside & (np.log(v * hat / (a / (us * us) + b)) <= mass)
    value = np.where(mean < 10, _small(words[:, 0], mean, term, most, odds), value)
    counts = value if chance is None else np.where(chance > 0.5, most - value, value)
    return counts, fits | (mean < 10)


def _log_gamma(words: Any, given: Any) -> tuple[Any, Any]:
    d = np.where(given < 1, given + 1, given) - given.dtype.type(1 / 3)
    turn = np.cos(np.pi * 2.0**-23 * (words[:, 1] >> np.uint64(8))).astype(given.dtype)
    x = np.sqrt(-2 * np.log(_unit(words[:, 0], given))) * turn
    t = x * (1 / np.sqrt(9 * d))
    power = 3 * np.log1p(t)
    value = power + np.log(d)
    value += np.where(given < 1, np.log(_unit(words[:, 3], given)) / given, 0)
    slack = 0.5 * x * x + d * (power - t * (3 + t * (3 + t)))
    return value, (t > -0.999) & (np.log(_unit(words[:, 2], given)) < slack)


def _reference(state: Any, *parameters: Any, kind: str) -> Any:
    x = parameters[0]
    compute = np.float64 if x.dtype == np.float64 else np.float32
    given = [widened(parameter).astype(compute).reshape(-1) for parameter in parameters]
    counts, left = np.zeros_like(given[0]), np.arange(x.size, dtype=np.uint64)
    candidate = _log_gamma if kind == "log_gamma" else _counts
    with np.errstate(all="ignore"):
        for attempt in range(_ATTEMPTS):
            if not left.size:
                break
            words = philox.words(state, left | np.uint64(attempt << 40))
            counts[left], fits = candidate(words, *(operand[left] for operand in given))
            left = left[~fits]
    return counts.reshape(x.shape).astype(x.dtype)


def _infer(state: Spec, x: Spec, *others: Spec, kind: str) -> Spec:
    if not all(DTYPES[operand.dtype].floating and operand == x for operand in (x, *others)):
        given = ", ".join(map(str, (x, *others)))
        raise DtypeError(message(kind, given, "one floating dtype"))
    return x


def _plan(request: Request) -> Kernels:
    out, dtype = request.output, DTYPES[request.output.dtype]
    chunk = geometry.chunk(request.device, _CHUNK)
    operands = tuple(("in", i) for i in range(len(request.inputs)))
    args = (*operands, ("out", 0), ("ulong", out.size), ("ulong", chunk))
    context = {"storage": dtype.storage, "compute": dtype.compute, "kind": request.attrs["kind"],
               "attempts": _ATTEMPTS}  # fmt: skip
    sizes = geometry.groups(request.device, -(-out.size // chunk))
    return Kernels((Kernel("tensor/rejection.cl.j2", "rejection", args, *sizes, context),))


REJECTION: Final = Operator(
    name="rejection",
    bind=lambda state, *parameters, kind: ((state, *parameters), {"kind": kind}),
    infer=_infer,
    reference=_reference,
    implementations=(Implementation("rejection", "Philox4x32-10, transformed rejection", _plan),),
    doc="rejection(state, *parameters, kind): poisson, binomial or log_gamma, from a random state.",
    method=False,
)


def poisson(input: Any, generator: Any = None) -> Any:
    """Numbers of events where `input` are expected: Poisson's distribution, in the input's dtype.

    For floating inputs of any shape.

    >>> nc.poisson(nc.zeros(3)).tolist()
    [0.0, 0.0, 0.0]

    Every device draws the same numbers, but where the last digit of a logarithm decides: none to
    three of a million, 25 of a million at a mean of 10^5. Raises AttributeValueError for a rate
    below 0 or NaN: the host reads the least and the largest, which ends a compiled region.
    """
    x = ag.as_operand(input).detach()
    _check("poisson", x, "rates of at least 0")
    return REJECTION(fresh_state("poisson", x.device, generator), x, kind="poisson")


def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """How many of `count` trials succeed, each with probability `prob`; drawn as by `poisson`.

    >>> nc.binomial(nc.tensor([5.0, 5.0]), nc.tensor([0.0, 1.0])).tolist()
    [0.0, 5.0]
    """
    n, p = ag.broadcast_tensors(*(x.detach() for x in ag.as_operands(count, prob)))
    _check("binomial", n, "counts of at least 0")
    _check("binomial", p, "probabilities of 0 to 1", 1.0)
    return REJECTION(fresh_state("binomial", n.device, generator), n, p, kind="binomial")


def random_log_gamma(concentration: Any, generator: Any = None) -> Any:
    """Logarithms of gamma's numbers of a rate of 1, which near a concentration of 0 would be 0.

    For floating tensors of any shape.

    >>> ag.random_log_gamma(nc.full((2, 3), 0.5)).shape
    (2, 3)

    `nc.distributions.Gamma` has the gradient. Concentrations are above 0.
    """
    x = ag.as_operand(concentration).detach()
    return REJECTION(fresh_state("random_log_gamma", x.device, generator), x, kind="log_gamma")


def _check(who: str, x: Any, expected: str, most: float = np.inf) -> None:
    if x.size and DTYPES[x.dtype].floating:
        ag.check_data(_within, (x.value,), (who, expected, most))


def _within(operands: Any, settings: tuple[str, str, float]) -> None:
    who, expected, most = settings
    least, largest = (float(end(operands[0]).item()) for end in (ag.amin, ag.amax))
    if not 0 <= least <= largest <= most:
        raise AttributeValueError(message(who, f"{least:g} to {largest:g}", expected))


OPERATORS = (
    composite(poisson, ("input",), parts=(REJECTION,), method=False),
    composite(binomial, ("count", "prob"), parts=(REJECTION,), method=False),
    composite(random_log_gamma, ("concentration",), parts=(REJECTION,), method=False),
)
