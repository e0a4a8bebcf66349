"""`torch.autograd.gradcheck`: gradients of a function beside the slopes of its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, GradientError, message
from netcl_plugin_autodiff.functional import entered, jacobian, leaves_of

__all__ = ["gradcheck", "gradgradcheck"]

Function = Callable[..., Any]
#: PyTorch's arguments that are about its own kinds of gradients.
_IGNORED: Final = {
    "check_backward_ad", "check_batched_forward_grad", "check_batched_grad", "check_forward_ad",
    "check_fwd_over_rev", "check_grad_dtypes", "check_rev_over_rev", "check_sparse_nnz",
    "check_undefined_grad", "fast_mode", "gen_non_contig_grad_outputs", "masked", "nondet_tol",
}  # fmt: skip
_REMEDY: Final = "Give float64 inputs, made with requires_grad=True, away from kinks"


def gradcheck(
    func: Function,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **others: Any,
) -> bool:
    """Whether a function's gradients are the slopes of its values, by central differences.

    >>> x = nc.tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> autodiff.gradcheck(lambda x: ag.sin(x) * x, x)
    True

    Args:
        func: A function of tensors that gives a tensor or a tuple of them.
        inputs: A tensor or a tuple of what the function takes. Those that require gradients are
            checked; they ought to be float64, since float32 is too coarse for `eps`.
        eps: How far an input is moved, up and down.
        atol: How far a gradient may be off, and
        rtol: how far in proportion to the slope.
        raise_exception: Whether to raise where one is off; else the answer is False.
        others: PyTorch's other arguments, which are about its own kinds of gradients and have no
            effect.

    Raises:
        AttributeValueError: No input requires a gradient, or PyTorch has no such argument.
        GradientError: A gradient is off; the message has the place and both numbers.
    """
    unknown = sorted(others.keys() - _IGNORED)
    if unknown:
        told = f"the argument {unknown[0]!r}"
        raise AttributeValueError(message("gradcheck", told, "one that PyTorch's gradcheck has"))
    given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    picked = [i for i, x in enumerate(given) if isinstance(x, nc.Tensor) and x.requires_grad]
    if not picked:
        raise AttributeValueError(
            message("gradcheck", "no input that requires a gradient", "one", _REMEDY)
        )

    def called(*chosen: Any) -> tuple[Any, ...]:
        whole = list(given)
        for i, x in zip(picked, chosen, strict=True):
            whole[i] = x
        return tuple(leaves_of(func(*whole)))

    start = tuple(given[i] for i in picked)
    rows = jacobian(called, start)
    for k, x in enumerate(start):
        slopes = _slopes(called, start, k, eps)
        for j, (row, slope) in enumerate(zip(rows, slopes, strict=True)):
            gradient = row[k].numpy().reshape(slope.shape)
            off = ~np.isclose(gradient, slope, rtol=rtol, atol=atol)
            if not off.any():
                continue
            if not raise_exception:
                return False
            at = tuple(int(n) for n in np.argwhere(off)[0])
            place = f"output {j}, element {at[0]}, by input {picked[k]}, element {at[1]}"
            text = f"a gradient {gradient[at]:.6g} of {place} ({x.dtype})"
            raise GradientError(message("gradcheck", text, f"{slope[at]:.6g}, the slope", _REMEDY))
    return True


def _slopes(func: Function, start: tuple[Any, ...], k: int, eps: float) -> list[Any]:
    """Of each output its differences along each element of input k: (outputs, elements)."""
    host = start[k].detach().numpy()
    columns: list[list[Any]] = []
    for place in np.ndindex(host.shape):
        ends = []
        for step in (eps, -eps):
            moved = host.copy()
            moved[place] += step
            x = nc.tensor(moved, device=start[k].device, dtype=start[k].dtype)
            values = func(*start[:k], x.requires_grad_(), *start[k + 1 :])
            ends.append([y.detach().numpy().astype(np.float64).ravel() for y in values])
        columns.append([(up - down) / (2 * eps) for up, down in zip(*ends, strict=True)])
    if not columns:
        return [np.zeros((y.numel(), 0)) for y in func(*start)]
    return [np.stack(column, -1) for column in zip(*columns, strict=True)]


def gradgradcheck(
    func: Function,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **others: Any,
) -> bool:
    """Whether second derivatives are the slopes of the first: `gradcheck` of the gradients.

    >>> x = nc.tensor([0.5, 2.0], dtype="float64", requires_grad=True)
    >>> autodiff.gradgradcheck(lambda x: ag.exp(x), x)
    True

    Args:
        func: As for `gradcheck`.
        inputs: As for `gradcheck`.
        grad_outputs: Gradients of the outputs, a tensor or a tuple; random ones by default.
        eps: As for `gradcheck`.
        atol: As for `gradcheck`.
        rtol: As for `gradcheck`.
        raise_exception: As for `gradcheck`.
        others: As for `gradcheck`.

    Raises:
        AttributeValueError: No input requires a gradient.
        GradientError: A second derivative is off.
    """
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outputs = leaves_of(func(*given))
    if grad_outputs is None:
        upstream = [nc.randn(y.shape, dtype=y.dtype, device=y.device) for y in outputs]
    else:
        upstream = leaves_of(grad_outputs)
    upstream = leaves_of(entered(tuple(upstream), False))
    picked = [i for i, x in enumerate(given) if isinstance(x, nc.Tensor) and x.requires_grad]

    def gradients(*both: Any) -> tuple[Any, ...]:
        chosen, grads = both[: len(given)], both[len(given) :]
        second = ag.grad(leaves_of(func(*chosen)), [chosen[i] for i in picked], list(grads),
                        create_graph=True, allow_unused=True)  # fmt: skip
        return tuple(g for g in second if g is not None)

    return gradcheck(gradients, (*given, *upstream), eps=eps, atol=atol, rtol=rtol,
                     raise_exception=raise_exception, **others)  # fmt: skip
