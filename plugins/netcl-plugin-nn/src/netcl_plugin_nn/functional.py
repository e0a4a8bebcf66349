"""`nn.functional`: the installed ops, and what PyTorch has there under a name of another op's.

`torch.nn.functional.unfold` is not `torch.Tensor.unfold`: here it is `ag.im2col`. Of each max
pooling there is a form `..._with_indices`, which gives the places of the elements too.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from netcl_core import DTYPES, Tensor, lenient
from netcl_core.autograd import as_operand, ops
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_nn.heads import multi_head_attention_forward

__all__ = [
    "gelu",
    "hardtanh",
    "linear_cross_entropy",
    "log_softmax",
    "multi_head_attention_forward",
    "softmax",
    "softmin",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]


@lenient
def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The elements of each window of pictures as a column; arguments as of `ag.im2col`.

    >>> nn.functional.unfold(nc.arange(4.0).reshape(1, 1, 2, 2), 2).shape
    (1, 4, 1)
    """
    return ops.im2col(input, kernel_size, dilation, padding, stride)


@lenient
def gelu(input: Any, approximate: str = "none") -> Any:
    """`ag.gelu` with PyTorch's default, the exact form; `ag.gelu` has 'tanh'.

    For inputs of any shape; integers become float32.

    >>> exact, near = nn.functional.gelu(nc.tensor(1.0)), ag.gelu(nc.tensor(1.0))
    >>> round(exact.item(), 5), round(near.item(), 5)
    (0.84134, 0.84119)

    Args:
        approximate: 'none' for the error function, 'tanh' for its approximation.
    """
    return ops.gelu(input, approximate=approximate)


@lenient
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """`ag.hardtanh`; integers stay integers, with bounds rounded towards zero.

    For inputs of any shape.

    >>> nn.functional.hardtanh(nc.tensor([-3, 0, 5]), -2.5, 2.5).tolist()
    [-2, 0, 2]

    Raises AttributeValueError for a lower bound above the upper one.

    Args:
        min_val: The lower bound.
        max_val: The upper bound.
    """
    if min_val > max_val:
        given = f"min_val={min_val!r}, max_val={max_val!r}"
        raise AttributeValueError(message("hardtanh", given, "a lower bound up to the upper one"))
    if isinstance(input, Tensor) and not DTYPES[input.dtype].floating:
        min_val, max_val = int(min_val), int(max_val)
    return ops.hardtanh(input, min_val, max_val, inplace=inplace)


@lenient
def linear_cross_entropy(
    input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
    reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:  # fmt: skip
    """The cross entropy of what a linear layer gives.

    >>> F = nn.functional
    >>> loss = F.linear_cross_entropy(nc.ones(2, 3), nc.zeros(5, 3), nc.tensor([0, 4]))
    >>> round(loss.item(), 4)
    1.6094

    Args:
        input: (N, in) or (in,).
        linear_weight: (C, in), or with several targets for each input (C, ..., in).
        target: As of `ag.cross_entropy`, for logits (N, C, ...).
        linear_bias: Of the weight's shape without its last axis, or None.
        weight, reduction, label_smoothing: As of `ag.cross_entropy`.
        ignore_index: The same; default: -100. It cannot be given with probabilities.
        options: Has no effect: PyTorch's hints on memory.

    Raises:
        ShapeError: Unless given (N, in) and (C, ..., in).
        ArgumentError: Unless given classes, or no ignore_index.
    """
    who = "linear_cross_entropy"
    rows, form = tuple(input.shape), tuple(linear_weight.shape)
    fits = len(form) > 1 and len(rows) in ((1, 2) if len(form) == 2 else (2,))
    if not fits or rows[-1] != form[-1]:
        given = f"input of shape {rows} and linear_weight of {form}"
        raise ShapeError(message(who, given, "(N, in) and (C, ..., in)"))
    if linear_bias is not None:
        if tuple(linear_bias.shape) != form[:-1]:
            given = f"linear_bias of shape {tuple(linear_bias.shape)}"
            raise ShapeError(message(who, given, f"{form[:-1]}"))
        linear_bias = ops.reshape(linear_bias, (-1,))
    flat = ops.linear(input, ops.reshape(linear_weight, (-1, form[-1])), linear_bias)
    logits = ops.reshape(flat, (*rows[:-1], *form[:-1]))
    if ignore_index is not None and tuple(target.shape) == tuple(logits.shape):
        given = "ignore_index with probabilities"
        raise ArgumentError(message(who, given, "classes, or no ignore_index"))
    ignored = -100 if ignore_index is None else ignore_index
    return ops.cross_entropy(logits, target, weight, ignored, reduction, label_smoothing)


@lenient
def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:  # fmt: skip
    """`ag.interpolate`, under the name that PyTorch had first.

    >>> nn.functional.upsample(nc.ones(1, 1, 2, 2), scale_factor=2).shape
    (1, 1, 4, 4)

    Args:
        mode: How values in between are found, as of `interpolate`.
        align_corners: Whether the corners' pixels stay in place.
    """
    return ops.interpolate(input, size, scale_factor, mode, align_corners)


@lenient
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Each element repeated: `ag.interpolate` with mode 'nearest'.

    >>> nn.functional.upsample_nearest(nc.tensor([[[1.0, 2.0]]]), size=4).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]

    Args:
        scale_factor: How many times larger the result is.
    """
    return ops.interpolate(input, size, scale_factor, "nearest")


@lenient
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`ag.interpolate` of pictures with mode 'bilinear' and aligned corners.

    >>> nn.functional.upsample_bilinear(nc.ones(1, 1, 2, 2), size=(3, 3)).shape
    (1, 1, 3, 3)

    Args:
        scale_factor: How many times larger the result is.
    """
    return ops.interpolate(input, size, scale_factor, "bilinear", True)


def _with_a_guess(op: str) -> Any:
    """An op of lines that needs no `dim`: it is 0 for 0, 1 or 3 dimensions then, else 1."""

    @lenient
    def function(input: Any, dim: int | None = None, dtype: Any = None) -> Any:
        if dim is None:
            dim = 0 if as_operand(input).ndim in (0, 1, 3) else 1
        return getattr(ops, op)(input, dim, dtype=dtype)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = (
        f"`ag.{op}`, whose `dim` is PyTorch's choice where none is given.\n\n"
        f">>> nn.functional.{op}(nc.zeros(2, 3)).sum(dim=1).numpy().round(2)\n"
        f"array([{'-3.3, -3.3' if op == 'log_softmax' else '1., 1.'}], dtype=float32)"
    )
    return function


softmax, log_softmax, softmin = map(_with_a_guess, ("softmax", "log_softmax", "softmin"))


def __getattr__(name: str) -> Any:
    op = name.removesuffix("_with_indices")
    if op != name and "max_pool" in op:
        return partial(getattr(ops, op), return_indices=True)
    return getattr(ops, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(ops)})
