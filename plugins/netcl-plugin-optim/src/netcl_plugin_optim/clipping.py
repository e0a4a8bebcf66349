"""Gradients changed in place, on the device: clip_grad_norm_, clip_grad_value_, unscale_grads_."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from netcl_core import Tensor, default_device
from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DeviceError,
    GradientError,
    message,
)
from netcl_plugin_optim import gradients as kernels


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale the gradients of all parameters so that their joint norm is at most `max_norm`.

    They are multiplied by min(1, max_norm / (norm + 1e-6)), so a norm that is NaN or
    infinite makes them NaN or zero, as in PyTorch (Pascanu et al. 2013, arXiv:1211.5063).

    >>> w = nc.zeros(2, requires_grad=True)
    >>> w.grad = nc.tensor([3.0, 4.0])
    >>> norm = optim.clip_grad_norm_([w], max_norm=1.0)
    >>> norm.item(), w.grad.numpy().round(3)
    (5.0, array([0.6, 0.8], dtype=float32))

    Args:
        parameters: Tensors (any iterable, or one), all on one device; those without a
            gradient are left out.
        max_norm: The largest norm.
        norm_type: The norm's order, above 0; `float("inf")`: the largest element.
        error_if_nonfinite: Raise if the norm is NaN or infinite, before anything is
            changed; this waits for the device, nothing else here does.

    Returns:
        The norm before, 0-d, float64 if a gradient is, else float32.

    Raises:
        DeviceError: gradients on several devices.
        GradientError: the norm is not finite and `error_if_nonfinite` is set.
    """
    given = _listed(parameters)
    norm = _norm_of("clip_grad_norm_", _gradients("clip_grad_norm_", given), norm_type,
                    error_if_nonfinite)  # fmt: skip
    clip_grads_with_norm_(given, max_norm, norm)
    return norm


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> Tensor:
    """The joint norm of tensors, say of gradients; arguments as of `clip_grad_norm_`.

    >>> optim.get_total_norm([nc.tensor([3.0]), nc.tensor([4.0])]).item()
    5.0

    Args:
        foreach: Has no effect.
    """
    values = [x.value for x in _listed(tensors) if x.size]
    return _norm_of("get_total_norm", _together("get_total_norm", values), norm_type,
                    error_if_nonfinite)  # fmt: skip


def _norm_of(who: str, gradients: list[Tensor], norm_type: float, finite: bool) -> Tensor:
    power = _number(who, "norm_type", norm_type)
    if power == 0:
        raise AttributeValueError(message(who, "norm_type=0", "a number above 0"))
    if not gradients:
        return Tensor.zeros((), device=default_device())
    norm = kernels.norm_of(gradients, power)
    if finite and not math.isfinite(norm.item()):
        given, expected = f"a total norm of {norm.item()}", "a finite one"
        remedy = "Lower the loss scale or the learning rate, or look with ag.detect_anomaly()"
        raise GradientError(message(who, given, expected, remedy))
    return norm


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: Any = None
) -> None:
    """Scale the gradients of all parameters as `clip_grad_norm_` does, by a norm that is known.

    >>> w = nc.zeros(2, requires_grad=True)
    >>> w.grad = nc.tensor([3.0, 4.0])
    >>> optim.clip_grads_with_norm_([w], 1.0, optim.get_total_norm([w.grad]))
    >>> w.grad.numpy().round(3)
    array([0.6, 0.8], dtype=float32)

    Args:
        parameters: A tensor or several, with gradients.
        max_norm: The largest norm allowed.
        total_norm: The norm of all, as `get_total_norm` gives it.
        foreach: Has no effect.
    """
    who = "clip_grads_with_norm_"
    max_norm, gradients = _number(who, "max_norm", max_norm), _gradients(who, parameters)
    if gradients:
        kernels.scale(gradients, total_norm.value, max_norm)


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Limit every element of the gradients of all parameters to [-clip_value, clip_value].

    >>> w = nc.zeros(2, requires_grad=True)
    >>> w.grad = nc.tensor([3.0, -0.5])
    >>> optim.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, -0.5]

    `parameters` and DeviceError as of `clip_grad_norm_`; NaN stays NaN.
    """
    limit = _number("clip_grad_value_", "clip_value", clip_value)
    gradients = _gradients("clip_grad_value_", parameters)
    if gradients:
        kernels.clamp(gradients, limit)


def unscale_grads_(parameters: Any, scale: Tensor, found_inf: Tensor) -> None:
    """Divide the gradients of all parameters by a scale that lies on the device.

    It waits for nothing: `amp.GradScaler` is made of this and of an optimizer's step with
    `found_inf`. One launch takes up to 48 gradients of one dtype.

    >>> w = nn.Parameter(nc.tensor([1.0]))
    >>> (w * 1024).sum().backward()
    >>> found = nc.zeros(1, dtype="int32")
    >>> optim.unscale_grads_([w], nc.tensor([1024.0]), found)
    >>> w.grad.tolist(), found.tolist()
    ([1.0], [0])

    Args:
        parameters: As of `clip_grad_norm_`.
        scale: A float32 tensor of one element. The gradients are multiplied by its reciprocal,
            in float32 (float64 if they are), and rounded once.
        found_inf: An int32 tensor of one element, which becomes 1 if a gradient has an element
            that is infinite or NaN, and stays as it is if not.

    Raises DeviceError unless all lie on one device.
    """
    who = "unscale_grads_"
    for name, given, dtype in (("scale", scale, "float32"), ("found_inf", found_inf, "int32")):
        if given.size != 1 or given.dtype != dtype:
            text = f"{name} of {given.dtype} and shape {given.shape}"
            raise ArgumentError(message(who, text, f"{dtype} of one element"))
    gradients = _gradients(who, parameters)
    for other in (scale, found_inf):
        if gradients and other.device is not gradients[0].device:
            text = (
                f"gradients on {gradients[0].device!r}, and scale or found_inf on {other.device!r}"
            )
            raise DeviceError(message(who, text, "all on one device"))
    if gradients:
        kernels.unscale(gradients, scale, found_inf)


def _gradients(who: str, parameters: Any) -> list[Tensor]:
    """The gradients that have elements; raises DeviceError if they are on several devices."""
    given = _listed(parameters)
    return _together(who, [p.grad.value for p in given if p.grad is not None and p.grad.size])


def _listed(given: Any) -> list[Any]:
    return [given] if isinstance(given, Tensor) else list(given)


def _together(who: str, gradients: list[Tensor]) -> list[Tensor]:
    devices = list(dict.fromkeys(g.device for g in gradients))
    if len(devices) > 1:
        text = f"gradients on {devices[0]!r} and on {devices[1]!r}"
        raise DeviceError(message(who, text, "all on one device", "Clip them device by device"))
    return gradients


def _number(who: str, name: str, value: Any) -> float:
    if isinstance(value, Real) and float(value) >= 0:
        return float(value)
    raise AttributeValueError(message(who, f"{name}={value!r}", "a number >= 0"))
