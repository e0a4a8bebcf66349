"""What the sanitizer runs: calls of every op that launches kernels of its own.

A call names shapes, not data: `made` makes the tensors, with all elements in (0, 1)
unless values are given. Sizes such as 31 and 47 leave one element less than a vector of
4 or 16 takes, where a loop that goes one too far is seen; shapes broadcast in every way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag


@dataclass(frozen=True)
class T:
    """A tensor to be made: shape, dtype ("" is the floating dtype of the run), values."""

    shape: tuple[int, ...]
    dtype: str = ""
    values: Sequence[int] | None = None


@dataclass(frozen=True)
class Call:
    """One call of an op; `everywhere`: in each floating dtype, not in float32 alone."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    everywhere: bool = False


def made(value: Any, dtype: str = "float32") -> Any:
    """An argument with its tensors made; floating ones are leaves that need a gradient."""
    if isinstance(value, tuple) and any(isinstance(item, T) for item in value):
        return [made(item, dtype) for item in value]
    if not isinstance(value, T):
        return value
    name = value.dtype or dtype
    size = int(np.prod(value.shape))
    if value.values is not None:
        flat = np.asarray(value.values)
    elif name.startswith("float"):
        flat = (np.arange(size) % 7 + 1) / 8
    else:
        flat = np.arange(size) % 2
    tensor = nc.tensor(flat[:size].astype(name).reshape(value.shape))
    return tensor.requires_grad_() if name.startswith("float") else tensor


def call(*args: Any, **kwargs: Any) -> Call:
    """A call in float32."""
    return Call(args, kwargs)


def each(*args: Any, **kwargs: Any) -> Call:
    """A call in float16, float32 and float64."""
    return Call(args, kwargs, everywhere=True)


def index(size: int, *values: int, dtype: str = "int64") -> T:
    """A 1-D index tensor."""
    return T((size,), dtype, values)


LABELS: Final = index(5, 0, 2, -100, 30, 2)
#: Beyond the classes on both sides: kernels that no check protects must not read there.
WRONG: Final = index(5, 0, 31, -1, 2**62, -(2**62))

#: Operators, and those composites that give kernels arguments that no other call gives.
STRUCTURED: Final[dict[str, tuple[Call, ...]]] = {
    # casts, which are the core's
    "astype": (
        call(T((3, 31)), "float16"),
        call(T((1031,), "uint8"), "float64"),
        call(T((3, 31), "float16"), "bool"),
        call(T((31,), "int64"), "uint8"),
    ),
    # shapes and strided copies
    "permute": (each(T((3, 5, 7)), (2, 0, 1)), call(T((2, 3, 4, 5), "uint8"), (3, 1, 0, 2))),
    "transpose": (call(T((31, 19)), 0, 1), call(T((5, 7), "int64")), call(T((3, 600)))),
    "expand": (
        call(T((3, 1, 5)), (2, 3, 7, 5)),
        call(T(()), (31,)),
        call(T((1,), "bool"), (1030,)),
    ),
    "broadcast_to": (call(T((5, 1)), (5, 31)),),
    "getitem": (
        call(T((5, 7)), (slice(None, None, -2), slice(1, 6, 3))),
        call(T((5, 7)), (4, None, ...)),
        call(T((5, 7)), (slice(3, 1),)),
        call(T((3, 4, 5), "float16"), (..., -1)),
    ),
    "cat": (
        each((T((3, 5)), T((3, 0)), T((3, 19))), 1),
        call((T((1, 2, 3), "bool"), T((4, 2, 3), "bool"))),
    ),
    "flip": (call(T((5, 7)), (0, 1)), call(T((3, 5), "float64"), 1)),
    "pad": (
        each(T((3, 5)), (1, 2, 0, 3)),
        call(T((3, 5)), (-1, 2, -2, -1), value=1.5),
        call(T((2, 3, 4), "int32"), (0, 1)),
        call(T((3, 2)), (-2, 5)),
    ),
    "stack": (call((T((5, 7)), T((5, 7)), T((5, 7))), 2),),
    "split": (call(T((3, 7)), (2, 0, 5), 1), call(T((7,)), 3)),
    "chunk": (call(T((3, 7)), 3, 1),),
    # selecting
    "index_select": (
        each(T((5, 7)), 0, index(4, 4, 0, 4, 2)),
        call(T((2, 5, 3)), 1, index(6, 0, 1, 4, 4, 4, 0, dtype="uint8")),
        call(T((5,)), 0, index(0)),
    ),
    "gather": (
        each(T((5, 7)), 1, T((3, 2), "int64", (6, 0, 1, 1, 6, 6))),
        call(T((4, 3, 5)), 0, T((2, 3, 1), "int32", (3, 0, 1, 2, 3, 3))),
    ),
    "embedding": (call(T((2, 3), "int32", (0, 4, 4, 1, 0, 4)), T((5, 19))),),
    "one_hot": (call(T((3,), "int64", (0, 6, 2)), 7),),
    # reductions: one pass and two, both inner axes, several axes, all
    "sum": (
        each(T((3, 31)), 1),
        each(T((31, 47)), 0),
        call(T((5, 3, 7, 2)), (0, 2)),
        call(T((8500,))),
        call(T((2, 600, 31)), 1),
        call(T((420, 2, 20)), (0, 2)),
        call(T((520, 17))),
        call(T((3, 31), "bool"), 1),
        call(T((600, 5), "uint8"), 0),
        call(T((0, 5)), 0),
        # teams of GPUs: aligned and odd runs, several reduced dimensions, slices of both forms
        each(T((3, 64)), 1),
        each(T((65, 64)), 0),
        call(T((5, 7, 12)), (0, 2)),
        call(T((5, 7, 9)), (0, 2)),
        call(T((33001,))),
        call(T((2100, 3)), 0),
    ),
    "mean": (each(T((3, 31)), (0, 1), True), call(T((600, 3)), 0)),
    "amax": (each(T((5, 31)), 0), call(T((8500,), "int32")), call(T((3, 19, 5), "int64"), 1)),
    "amin": (each(T((5, 31)), 1), call(T((20, 3), "uint8"), 0)),
    "max": (each(T((5, 31)), 0), call(T((3, 19, 5), "int64"), 1), call(T((31,)))),
    "min": (each(T((5, 31)), 1, True), call(T((20, 3), "uint8"), 0)),
    "topk": (each(T((5, 31)), 3, 1), call(T((3, 19, 5), "int32"), 19, 1), call(T((31,)), 0)),
    "prod": (each(T((5, 31)), 1), call(T((0, 3)), 0), call(T((7, 5), "int32"), 0)),
    # scans and softmax
    "argmax": (each(T((5, 31)), 1), call(T((5, 7), "uint8")), call(T((3, 5, 2)), 1, True)),
    "argmin": (each(T((5, 31)), 0), call(T((31,), "int64"))),
    "cumsum": (each(T((5, 31)), 0), call(T((3, 5, 2), "bool"), 1), call(T(()), 0)),
    "softmax": (
        each(T((3, 31)), 1),
        each(T((2, 5, 31)), 1),
        call(T(())),
        call(T((4, 3))),
        each(T((3, 64))),
        call(T((2, 4500))),
    ),
    "log_softmax": (each(T((3, 31)), 1), each(T((2, 5, 31)), 1), call(T((40, 1)), 0)),
    # rows standardised: shared work-groups, tails of teams, rows too long for registers
    "layer_norm": (
        each(T((5, 31)), (31,), T((31,)), T((31,))),
        each(T((3, 64)), (64,), T((64,))),
        call(T((2, 4500)), (4500,), T((4500,)), T((4500,))),
        call(T((31,)), 31),
    ),
    "rms_norm": (
        call(T((40, 2, 6)), (2, 6), T((2, 6))),
        each(T((3, 64)), (64,), T((64,))),
    ),
    # products: tails of tiles and of item rows, vectors, transposes, broadcast batches, no inner
    "matmul": (
        each(T((3, 5)), T((5, 4))),
        each(T((31, 19)), T((19, 67))),
        call(T((19, 31)), T((67, 19)), True, True),
        call(T((9, 5)), T((5, 63))),
        call(T((19,)), T((19, 5))),
        call(T((5, 19)), T((19,))),
        call(T((19,)), T((19,))),
        call(T((2, 1, 3, 5)), T((4, 5, 6))),
        call(T((4, 3, 5)), T((1, 5, 33))),
        call(T((3, 0)), T((0, 4))),
        call(T((33, 5), "int32"), T((5, 9), "int32")),
        call(T((3, 5), "int64"), T((5, 9), "int64")),
        call(T((3, 5), "uint8"), T((5, 35), "uint8")),
        call(T((3, 5), "bool"), T((5, 9), "bool")),
    ),
    "bmm": (each(T((3, 5, 7)), T((3, 7, 4))),),
    "linear": (
        each(T((5, 19)), T((31, 19)), T((31,))),
        call(T((2, 3, 5)), T((4, 5))),
        call(T((5,)), T((33, 5)), T((33,))),
    ),
    "cross_entropy": (
        call(T((5, 31)), T((5, 31))),
        each(T((5, 31)), LABELS, T((31,))),
        call(T((5, 31)), LABELS, reduction="sum"),
        call(T((5, 31)), LABELS, label_smoothing=0.1, reduction="none"),
        call(T((9000, 2)), T((9000,), "int32"), T((2,))),
    ),
    "nll_loss": (
        each(T((5, 31)), LABELS, T((31,))),
        call(T((2, 19, 3)), T((2, 3), "uint8", (0, 18, 5, 5, 1, 2))),
    ),
    "batch_norm": (call(T((4, 3, 5)), None, None, T((3,)), T((3,)), training=True),),
}

#: Calls of the ops that exist for others alone: gradients, rows of losses, masks.
PARTS: Final[dict[str, tuple[Call, ...]]] = {
    "getitem_backward": (call(T((3, 2)), (5, 7), (("slice", 4, -2, 3), ("slice", 1, 3, 2))),),
    "add_at_index": (
        each(T((4, 7)), index(4, 4, 0, 4, 2), 0, "gather", True, (5, 7)),
        call(T((0, 7)), index(0), 0, "gather", True, (5, 7)),
    ),
    "softmax_backward": (each(T((3, 31)), T((3, 31)), 1), call(T((3, 5, 2)), T((3, 5, 2)), 1)),
    "log_softmax_backward": (each(T((3, 31)), T((3, 31)), 1), call(T((9, 19)), T((9, 19)), 0)),
    "max_along": (each(T((5, 31)), 0), call(T((3, 19, 5), "int64"), 1)),
    "min_along": (call(T((20, 3), "uint8"), 0),),
    "norm_rows_backward": (
        each(T((5, 31)), T((5, 31)), T((31,)), 1, 1e-5, True, ("weight", "bias")),
        call(T((3, 64)), T((3, 64)), None, 1, 1e-5, False, ()),
    ),
    "random_mask": (
        each(T((3, 31)), T((2,), "int64", (7, 3)), 0.5),
        call(T((1031,)), T((2,), "int64", (7, 3)), 1.0),
    ),
    "cross_entropy_rows": (
        each(T((5, 31)), LABELS),
        each(T((5, 31)), LABELS, T((31,)), -100, 0.1),
        call(T((5, 31)), LABELS, None, -100, 0.1),
        call(T((2, 19, 3)), T((2, 3), "uint8", (0, 18, 5, 5, 1, 2)), T((19,)), 5, 0.1),
        call(T((19,)), T((), "int32", (4,)), T((19,))),
    ),
    "cross_entropy_rows_backward": (
        each(T((5, 31)), LABELS, T((5,)), T((31,)), None, -100, 0.1),
        call(T((2, 19, 3)), T((2, 3), "uint8", (0, 18, 5, 5, 1, 2)), T((2, 3)), None, None, 5, 0.0),
        call(T((5, 31)), WRONG, T(()), T((31,)), T(()), -100, 0.1),
    ),
    "nll_rows": (
        each(T((5, 31)), LABELS, T((31,)), -100),
        call(T((2, 19, 3)), T((2, 3), "int32", (0, 18, 5, 5, 1, 2)), None, 5),
    ),
    "nll_rows_backward": (
        each(LABELS, T((5,)), T((31,)), None, -100, (5, 31)),
        call(T((2, 3), "int32", (0, 18, 5, 5, 1, 2)), T((2, 3)), None, None, 5, (2, 19, 3)),
        call(WRONG, T(()), T((31,)), T(()), -100, (5, 31)),
    ),
    "linear_parameter_gradients": (
        each(T((9, 5)), T((9, 3))),
        call(T((300, 9)), T((300, 40))),
        call(T((0, 5)), T((0, 3))),
    ),
    "class_mean": (
        each(T((5,)), LABELS, T((31,)), -100),
        call(T((9000,)), T((9000,), "int32"), None, -100),
        call(T((0,)), T((0,), "uint8"), None, -100),
        call(T((5,)), WRONG, T((31,)), -100),
    ),
    "class_weight_rows": (
        call(LABELS, T((31,)), -100, "float32"),
        call(LABELS, None, -100, "float16"),
        call(WRONG, T((31,)), -100, "float32"),
    ),
}

#: Steps of each optimizer: settings, the parameters' sizes (with tails; more than one launch
#: takes) and dtypes.
SIZES: Final = (1, 31, 4111)
MANY: Final = (*SIZES, *range(2, 25))
FLOATING: Final = ("float32", "float16", "float64")
OPTIMIZERS: Final[dict[str, tuple[tuple[dict[str, Any], Sequence[int], Sequence[str]], ...]]] = {
    "SGD": (
        ({"lr": 0.1}, MANY, FLOATING[:1]),
        ({"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, SIZES, FLOATING),
    ),
    "Adam": (
        ({"lr": 0.1}, MANY, FLOATING[:1]),
        ({"lr": 0.1, "weight_decay": 0.1}, SIZES, FLOATING),
    ),
    "AdamW": (({"lr": 0.1, "weight_decay": 0.1}, SIZES, FLOATING),),
    "RMSprop": (
        ({"lr": 0.1}, MANY, FLOATING[:1]),
        ({"lr": 0.1, "momentum": 0.9, "centered": True, "weight_decay": 0.1}, SIZES, FLOATING),
    ),
}
#: Calls that clip gradients of all sizes together.
CLIPPING: Final[tuple[tuple[str, dict[str, Any], Sequence[int], Sequence[str]], ...]] = (
    ("clip_grad_norm_", {"max_norm": 0.5}, MANY, FLOATING),
    ("clip_grad_norm_", {"max_norm": 0.5, "norm_type": float("inf")}, SIZES, FLOATING[:1]),
    ("clip_grad_norm_", {"max_norm": 0.5, "norm_type": 3.0}, SIZES, FLOATING[:1]),
    ("clip_grad_value_", {"clip_value": 0.5}, SIZES, FLOATING),
)

#: Composites without a call of their own: their kernels are those of the ops that they name.
COMPOSITES: Final = {
    "masked_fill": "where with a scalar",
    "var": "mean, square and sum",
    "std": "sqrt of var",
    "logsumexp": "amax, exp, sum and log",
    "l2_normalize": "square, sum, sqrt, clamp and div",
    "group_norm": "layer_norm after a reshape",
    "dropout": "random_mask with a fresh state",
    "mse_loss": "squared_error_elements and a reduction",
    "l1_loss": "absolute_error_elements and a reduction",
    "smooth_l1_loss": "smooth_l1_elements and a reduction",
    "huber_loss": "huber_elements and a reduction",
    "binary_cross_entropy": "binary_cross_entropy_elements and a reduction",
    "binary_cross_entropy_with_logits": "its elements and a reduction",
    "kl_div": "kl_div_elements or kl_div_log_elements and a reduction",
    "weighted_bce": "weighted_bce_elements and a reduction",
    "weighted_smooth_l1": "weighted_smooth_l1_elements and a reduction",
    "fused_weighted_bce_smooth_l1_loss": "weighted_bce_smooth_l1_elements and sum",
}

#: Implementations that launch no kernel, or that no simulator runs, with the reason.
NOT_SIMULATED: Final = {
    "host BLAS": "NumPy's product on mapped buffers",
}

#: Templates that no case renders, with the reason.
NOT_RENDERED: Final = {
    "core/kernels/probe.cl.j2": "run by the search for devices, before the first case",
    "core/kernels/macros.cl.j2": "macros for the expressions of primitives; no kernel",
}
#: Templates that one kind of device never gets.
OF_THE_OTHER_KIND: Final = {
    "cpu": {"core/kernels/reduce_gpu.cl.j2", "tensor/softmax_rows.cl.j2"},
    "gpu": {"core/kernels/reduce.cl.j2"},
}

#: Attribute choices of primitives that change the kernel; others run with their defaults.
CHOICES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "gelu": ({"approximate": "tanh"}, {"approximate": "none"}),
    "clamp": ({"min": 0.2, "max": 0.5}, {"min": 0.2}, {"max": 0.5}),
}

#: Functions whose neighbours are rendered into structured kernels, with their arguments.
FUSED: Final[tuple[tuple[Callable[..., Any], tuple[T, ...]], ...]] = (
    (lambda x, w, b: ag.relu(x @ w + b) + 1.0, (T((5, 31)), T((31, 47)), T((47,)))),
    (lambda x, w, r: ag.tanh(x @ w) * r, (T((9, 47)), T((47, 31)), T((9, 1)))),
    (lambda x, w, y: (x @ w) * y - y, (T((3, 5, 31)), T((31, 32)), T((3, 5, 32)))),
    (lambda x, w, c: ag.exp(x @ w) + c, (T((7, 5)), T((5, 3)), T((1,)))),
    (lambda x, w, b: ag.gelu(ag.linear(x, w, b)) * 0.5, (T((9, 31)), T((47, 31)), T((47,)))),
    (lambda x, t, y: ag.cross_entropy(x * y, t), (T((5, 31)), LABELS, T((31,)))),
    (lambda x, y: ag.sum(ag.exp(x) * y), (T((5, 31)), T((5, 31)))),
    (lambda x, y: ag.mean(ag.exp(x) * y, -1) * 2.0, (T((5, 47)), T((47,)))),
    (lambda x, y: ag.tanh(ag.sum(x - y, 0)), (T((37, 47)), T((37, 1)))),
    (lambda x: ag.amax(x * x, (0, 2)), (T((3, 18, 35)),)),
    (lambda x, y: ag.softmax(x * y + 1.0, -1) - y, (T((5, 47)), T((5, 1)))),
    (lambda x: ag.log_softmax(x * 0.5, 0) * 2.0, (T((5, 35)),)),
    (lambda x, w: ag.layer_norm(x * 2.0, (47,), w, w) + x, (T((5, 47)), T((47,)))),
    (lambda x, y: (ag.exp(x) * y, x - y, x > y), (T((5, 31)), T((31,)))),
)


#: Shapes of a primitive's inputs, used in turn: all alike, rows and splats.
SHAPES: Final = (((3, 31),), ((3, 31), (31,), (3, 1)))
#: Those of primitives that align their inputs: slopes per channel, one for all.
SHAPES_OF: Final = {"prelu": (((3, 31), (31,)), ((2, 3, 5), (3,)), ((3, 31), ()))}

#: With these one primitive runs in all dtypes: full, rows and splats over one and two outer
#: dimensions, aligned or not, one element against many, a scalar.
LAYOUTS: Final = (
    ((31,), (31,)),
    ((64,), (64,)),
    ((3, 31), (31,)),
    ((3, 64), (64,)),
    ((5, 7), (5, 1)),
    ((300, 2), (300, 1)),
    ((2, 1, 18), (3, 1)),
    ((300,), ()),
    ((5000,), (5000,)),
)


def primitive_calls(name: str, arity: int) -> list[Call]:
    """The calls of an elementwise op of this many inputs."""
    found = []
    for choice in CHOICES.get(name, ({},)):
        for shapes in SHAPES_OF.get(name, SHAPES if arity > 1 else SHAPES[:1]):
            inputs = tuple(T(shapes[i % len(shapes)]) for i in range(arity))
            found.append(Call(inputs, choice))
    return found


def layout_calls() -> list[Call]:
    """The calls of `maximum` in every layout and pair of storages."""
    pairs = (("", ""), ("float16", "float64"), ("uint8", "int64"), ("bool", "float32"))
    return [call(T(first, one), T(second, two)) for first, second in LAYOUTS for one, two in pairs]
