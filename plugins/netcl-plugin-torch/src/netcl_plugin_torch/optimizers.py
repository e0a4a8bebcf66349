"""Rows of PyTorch's fused optimizers (`fused=True`): one kernel for each parameter and step."""

from __future__ import annotations

import math
from itertools import chain
from typing import Any, Final

import numpy as np
import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import by_host, direct, overload
from netcl_plugin_torch.replaying import Replaying
from netcl_plugin_torch.tensor import NetclTensor, wrap, write


def _scaled(grad: Any, scale: Any) -> Any:
    """A gradient without the factor of a GradScaler."""
    return grad if scale is None else grad / scale


def _unless(found_inf: Any, old: Any, new: Any) -> Any:
    """The old value where a gradient was infinite."""
    return new if found_inf is None else ag.where(found_inf > 0, old, new)


@ag.jit_compile
def _adam(x: Any, grad: Any, mean: Any, square: Any, step: Any, scale: Any, found_inf: Any,
          lr: Any, beta1: float, beta2: float, log1: float, log2: float, decay: float,
          eps: float, sign: float, decoupled: bool) -> Any:  # fmt: skip
    """Adam and AdamW; step counts this step, too, and log1 is that of beta1."""
    grad = _scaled(grad, scale) * sign
    old = x
    if decoupled:
        x = x - x * (lr * decay)
    else:
        grad = grad + x * decay
    first = mean + (grad - mean) * (1 - beta1)
    second = square * beta2 + grad * grad * (1 - beta2)
    root = ag.sqrt(second) / ag.sqrt(-ag.expm1(step * log2)) + eps
    stepped = x + (lr / ag.expm1(step * log1)) * first / root
    pairs = ((old, stepped), (mean, first), (square, second))
    return tuple([_unless(found_inf, before, after) for before, after in pairs])


@ag.jit_compile
def _sgd(x: Any, grad: Any, buffer: Any, scale: Any, found_inf: Any, lr: Any, decay: float,
         momentum: float, dampening: float, nesterov: bool, sign: float,
         is_first: bool) -> Any:  # fmt: skip
    """SGD with momentum."""
    grad = _scaled(grad, scale) * sign + x * decay
    if buffer is None:
        return (_unless(found_inf, x, x - lr * grad),)
    moved = grad if is_first else buffer * momentum + grad * (1 - dampening)
    change = grad + moved * momentum if nesterov else moved
    new = _unless(found_inf, x, x - lr * change)
    return new, _unless(found_inf, buffer, moved)


def _raw(x: Any) -> Any:
    return None if x is None else x.raw


def _adams(name: str, decoupled: bool) -> None:
    for kind in ("default", "tensor_lr"):
        func = overload(f"{name}.{kind}")

        def run(params: Any, grads: Any, means: Any, squares: Any, most: Any, steps: Any, *,
                lr: Any, beta1: float, beta2: float, weight_decay: float, eps: float,
                amsgrad: bool, maximize: bool, grad_scale: Any = None, found_inf: Any = None,
                func: Any = func) -> None:  # fmt: skip
            if amsgrad:
                by_host(func, params, grads, means, squares, most, steps, lr=lr, beta1=beta1,
                        beta2=beta2, weight_decay=weight_decay, eps=eps, amsgrad=amsgrad,
                        maximize=maximize, grad_scale=grad_scale, found_inf=found_inf)  # fmt: skip
                return
            logs = [math.log(beta) if beta else -math.inf for beta in (beta1, beta2)]
            sign = -1.0 if maximize else 1.0
            settings = (beta1, beta2, *logs, weight_decay, eps, sign, decoupled)
            stepped = _ADAMS(params, grads, means, squares, steps, grad_scale, found_inf,
                          _rate(lr, params), settings)  # fmt: skip
            for target, new in zip(chain(*zip(params, means, squares, strict=True)), stepped,
                                   strict=True):  # fmt: skip
                write(target, new)

        direct(f"{name}.{kind}")(run)


def _all_adams(params: Any, grads: Any, means: Any, squares: Any, steps: Any, scale: Any,
               found_inf: Any, lr: Any, settings: Any) -> list[Any]:  # fmt: skip
    """The new parameters, means and squares, in turn."""
    more = _raw(scale), _raw(found_inf), getattr(lr, "raw", lr)
    stepped: list[Any] = []
    with ag.no_grad():
        for row in zip(params, grads, means, squares, steps, strict=True):
            stepped += _adam(*[x.raw for x in row], *more, *settings)
    return [x.value for x in stepped]


_ADAMS: Final = Replaying(_all_adams)
_adams("_fused_adam_", decoupled=False)
_adams("_fused_adamw_", decoupled=True)


def _rate(lr: Any, params: Any) -> Any:
    """A learning rate as a tensor, so that a replay takes another one.

    As a number where that would not be as exact.
    """
    if isinstance(lr, NetclTensor) or any(x.dtype != torch.float32 for x in params):
        return lr
    if _RATES.get("number") != lr:
        _RATES.update(number=lr, tensor=wrap(nc.Tensor.from_host(np.float32(lr))))
    return _RATES["tensor"]


_RATES: Final[dict[str, Any]] = {}


@direct("_fused_sgd_", "_fused_sgd_.tensor_lr")
def sgd(params: Any, grads: Any, buffers: Any, *, weight_decay: float, momentum: float, lr: Any,
        dampening: float, nesterov: bool, maximize: bool, is_first_step: bool,
        grad_scale: Any = None, found_inf: Any = None) -> None:  # fmt: skip
    settings = (weight_decay, momentum, dampening, nesterov, -1.0 if maximize else 1.0)
    held = buffers or [None] * len(params)
    for x, grad, buffer in zip(params, grads, held, strict=True):
        with ag.no_grad():
            stepped = _sgd(x.raw, grad.raw, _raw(buffer), _raw(grad_scale), _raw(found_inf),
                        getattr(lr, "raw", lr), *settings, is_first_step)  # fmt: skip
        for target, new in zip((x, buffer), stepped, strict=False):
            write(target, new.value)
