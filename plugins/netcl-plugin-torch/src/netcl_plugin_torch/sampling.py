"""Rows that draw random numbers: netcl's generator, or the host's where one is given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import direct, overload
from netcl_plugin_torch.making import overwrite
from netcl_plugin_torch.tensor import NetclTensor, to_device, wrap, write

aten = torch.ops.aten


def _sampler(name: str, draw: Callable[..., Any]) -> None:
    """`x.<name>(*settings, generator=None)`, of what gives `(shape, dtype, *settings)`."""

    func = overload(name)

    @direct(name)
    def run(x: Any, *settings: Any, generator: Any = None, **more: Any) -> Any:
        if generator is not None:
            host = torch.empty(x.shape, dtype=x.dtype)
            overwrite(x, to_device(func(host, *settings, generator=generator, **more)).raw)
        elif x.numel():
            with ag.no_grad():
                drawn = draw(tuple(x.shape), x, *settings, **more).value
                write(x, drawn if drawn.dtype == x.raw.dtype else drawn.astype(x.raw.dtype).value)
        return x


def _wide(x: Any) -> str:
    return "float64" if x.raw.dtype == "float64" else "float32"


def _uniform(shape: Any, x: Any, low: float = 0.0, high: float = 1.0) -> Any:
    if not low <= high:
        text = "uniform_ expects to return a [from, to) range, but found"
        raise RuntimeError(f"{text} from={low} > to={high}")
    numbers = nc.rand(shape, dtype=_wide(x))
    return numbers if (low, high) == (0, 1) else numbers * (high - low) + low


def _normal(shape: Any, x: Any, mean: float = 0.0, std: float = 1.0) -> Any:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    numbers = nc.randn(shape, dtype=_wide(x))
    return numbers if (mean, std) == (0, 1) else numbers * std + mean


def _bernoulli(shape: Any, x: Any, p: Any = 0.5) -> Any:
    if isinstance(p, NetclTensor):
        p = p.raw
    elif not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return ag.lt(nc.rand(shape), p)


def _random(shape: Any, x: Any, *limits: Any) -> Any:
    if len(limits) == 2:
        low, high = limits[0], limits[1]
    else:
        low, high = 0, limits[0] if limits else _most(x.dtype)
    return nc.randint(low, (1 << 31) if high is None else high, shape)


def _most(dtype: torch.dtype) -> int:
    """One more than what `x.random_()` gives at most."""
    if dtype.is_floating_point:
        return int(min(2 / torch.finfo(dtype).eps, 1 << 53)) + 1
    return 2 if dtype == torch.bool else min(torch.iinfo(dtype).max, (1 << 62)) + 1


def _open_uniform(shape: Any, x: Any) -> Any:
    """Numbers above 0 and at most 1."""
    return 1 - nc.rand(shape, dtype=_wide(x))


def _exponential(shape: Any, x: Any, lambd: float = 1.0) -> Any:
    return ag.log(_open_uniform(shape, x)) * (-1 / lambd)


def _log_normal(shape: Any, x: Any, mean: float = 1.0, std: float = 2.0) -> Any:
    return ag.exp(_normal(shape, x, mean, std))


def _geometric(shape: Any, x: Any, p: float) -> Any:
    return ag.ceil(ag.log(_open_uniform(shape, x)) * (1 / math.log1p(-p)))


_DRAWN: Final[dict[str, Callable[..., Any]]] = {
    "uniform_": _uniform,
    "normal_": _normal,
    "bernoulli_.float": _bernoulli,
    "bernoulli_.Tensor": _bernoulli,
    "random_": _random,
    "random_.to": _random,
    "random_.from": _random,
    "exponential_": _exponential,
    "log_normal_": _log_normal,
    "geometric_": _geometric,
}
for _name, _draw in _DRAWN.items():
    _sampler(_name, _draw)


@direct("bernoulli")
def bernoulli(x: Any, generator: Any = None) -> Any:
    return torch.empty_like(x).bernoulli_(x, generator=generator)


@direct("bernoulli.p")
def bernoulli_p(x: Any, p: float, generator: Any = None) -> Any:
    return torch.empty_like(x).bernoulli_(p, generator=generator)


@direct("native_dropout")
def native_dropout(x: Any, p: float, train: Any) -> Any:
    if train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = torch.empty(x.shape, dtype=torch.bool, device=x.device).bernoulli_(1 - p)
    return native_dropout_backward(x, mask, 1 / (1 - p) if p < 1 else 0.0), mask


@direct("native_dropout_backward")
def native_dropout_backward(grad: Any, mask: Any, scale: float) -> Any:
    with ag.no_grad():
        return wrap(_SCALED(grad.raw, mask.raw, float(scale)).value)


_SCALED = ag.jit_compile(lambda grad, mask, scale: ag.where(mask, grad * scale, 0.0))


@direct("multinomial")
def multinomial(x: Any, count: int, replacement: bool = False, *, generator: Any = None) -> Any:
    if generator is not None:
        return to_device(torch.multinomial(x.cpu(), count, replacement, generator=generator))
    with ag.no_grad():
        return wrap(ag.multinomial(x.raw, count, replacement).value)


@direct("randperm.generator_out", "randperm.out")
def randperm(n: int, *, generator: Any = None, out: Any) -> Any:
    if tuple(out.shape) != (n,):
        out.resize_(n)
    if generator is not None:
        order = to_device(torch.randperm(n, generator=generator)).raw
    else:
        order = nc.randperm(n)
    overwrite(out, order)
    return out
