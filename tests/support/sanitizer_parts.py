"""What the sanitizer runs of the ops that others are made of, as sanitizer_cases does."""

from __future__ import annotations

from typing import Final

import sanitizer_pictures as pictures
from sanitizer_calls import LABELS, Call, T, call, each, index

#: A random state.
STATE: Final = T((2,), "int64", (7, 3))
#: Beyond the classes on both sides: kernels that no check protects must not read there.
WRONG: Final = index(5, 0, 31, -1, 2**62, -(2**62))

#: Calls of the ops that exist for others alone: gradients, rows of losses, masks.
PARTS: Final[dict[str, tuple[Call, ...]]] = {
    "pad_continued": tuple(
        call(T((2, 3, 5)), mode, ((0, 0), (-1, 2), (3, 1)))
        for mode in ("reflect", "replicate", "circular")
    ),
    "pad_gradient": tuple(
        call(T((2, 4, 9)), mode, ((0, 0), (-1, 2), (3, 1)), (2, 3, 5))
        for mode in ("reflect", "replicate", "circular")
    ),
    "add_at_index": (
        each(T((4, 7)), index(4, 4, 0, 4, 2), 0, "gather", True, False, (5, 7)),
        call(T((3, 7)), index(3, -1, 0, -5), 0, "getitem", True, True, (5, 7)),
        call(T((0, 7)), index(0), 0, "gather", True, False, (5, 7)),
        call(T((2100, 16)), index(2100, *[3] * 2099, 0), 0, "gather", True, False, (5, 16)),
    ),
    "embedding_bags": (
        call(T((5, 6)), index(4, 4, 0, 4, 2), index(3, 0, 2, 2), mean=True, last=False, padding=2),
        call(
            T((5, 3), "float16"),
            index(4, 4, 0, 4, 2),
            index(3, 0, 2, 4),
            mean=False,
            last=True,
            padding=-1,
        ),
    ),
    "bag_rows": (
        each(T((3, 6)), index(4, 4, 0, 4, 2), index(3, 0, 2, 2), mean=True, last=False, padding=2),
        call(T((2, 3)), index(4, 4, 0, 4, 2), index(3, 0, 2, 3), mean=False, last=True, padding=-1),
    ),
    "gather_found": (each(T((5, 7)), 1, T((3, 2), "int64", (6, 0, 1, 1, 6, 6))),),
    "take_along": (each(T((5, 7)), 0, index(4, -1, 0, -5, 4)),),
    "pick_elements": (
        each(T((5, 7)), index(4, 34, 0, 4, 2), False),
        call(T((500,), "uint8"), index(300, *range(300)), True),
        call(T((5, 7)), index(0), True),
    ),
    "put_elements": (
        each(T((5, 7)), index(3, 34, 0, 2), T((3,))),
        call(T((500,), "int64"), index(300, *range(300)), T((300,), "int64")),
        call(T((5, 7)), index(0), T((0,))),
    ),
    "linear_recurrence": (
        each(T((5, 31)), T((5, 31)), 1),
        call(T((70,)), T((70,)), 0, True, True),
        call(T((70,)), T((70,)), 0, True, True, True),
    ),
    "run_sums": (each(T((2, 3)), T((2, 3), "int64", (0, 0, 2, 0, 1, 1)), 1),),
    "select_rank": (
        each(T((3, 70)), 9, "kth", 1, False),
        call(T((5, 7)), 2, "median", 0, True),
        call(T((2, 67)), 33, "nanmedian", 1, False),
    ),
    "put_lines": (
        each(T((5, 7)), T((3, 2), "int64", (6, 0, 1, 1, 6, 6)), T((3, 2)), 1),
        call(T((31, 2), "uint8"), T((3, 1), "int32", (30, 0, 30)), T((3, 1), "uint8"), 0),
    ),
    "draw": (call(T((3, 7)), T((3, 31))), call(T((1, 31), "float64"), T((1, 5), "float64"))),
    "rejection": tuple(
        call(STATE, *[T((3,), "float32", values)] * (1 + (kind == "binomial")), kind=kind)
        for kind, values in (
            ("poisson", (0.5, 1.0, 20.0)),
            ("binomial", (0.5, 1.0, 0.0)),
            ("log_gamma", (0.5, 1.0, 2.0)),
        )
    ),
    "random_numbers": tuple(
        call(STATE, kind, (1031,), dtype, -3, 7)
        for kind, dtype in (
            ("uniform", "float16"),
            ("uniform", "bfloat16"),
            ("uniform", "float32"),
            ("uniform", "float64"),
            ("normal", "float32"),
            ("normal", "float64"),
            ("integers", "int32"),
            ("integers", "float32"),
        )
    ),
    "softmax_backward": (each(T((3, 31)), T((3, 31)), 1), call(T((3, 5, 2)), T((3, 5, 2)), 1)),
    "log_softmax_backward": (each(T((3, 31)), T((3, 31)), 1), call(T((9, 19)), T((9, 19)), 0)),
    "max_along": (each(T((5, 31)), 0), call(T((3, 19, 5), "int64"), 1)),
    "min_along": (call(T((20, 3), "uint8"), 0),),
    "norm_rows_backward": (
        each(T((5, 31)), T((5, 31)), T((31,)), None, 1, 1e-5, True, ("weight", "bias")),
        call(T((3, 64)), T((3, 64)), None, None, 1, 1e-5, False, ()),
        call(T((3, 33)), T((3, 33)), None, T((3, 33)), 1, 1e-5, True, ()),
    ),
    "residual_norm_rows": (
        each(T((5, 31)), T((31,)), T((5, 31)), T((31,)), T((31,)), STATE, 0.5, 1e-5),
        each(T((3, 64)), T((64,)), T((3, 64)), T((64,)), T((64,)), STATE, 0.25, 1e-5),
    ),
    "residual_norm_rows_backward": (
        call(T((5, 31)), T((31,)), T((5, 31)), T((31,)), T((5, 31)), STATE, 0.5, 1e-5),
        call(T((3, 64)), T((64,)), T((3, 64)), T((64,)), T((3, 64)), STATE, 0.25, 1e-5),
    ),
    "starts_of_true": (call(T((5000,), "bool", tuple(i % 3 == 0 for i in range(5000)))),),
    "compact": (
        call(T((7,), "bool", (0, 1, 0, 1, 1, 0, 0)), T((2,), "int64", (0, 3)), 3),
        call(T((5000,), "bool", (1,) * 5000), T((3,), "int64", (0, 4096, 5000)), 5000),
    ),
    "random_mask": (
        each(T((3, 31)), STATE, 0.5),
        call(T((1031,)), STATE, 1.0),
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
    **pictures.PARTS,
    "linear_parameter_gradients": (
        each(T((9, 5)), T((9, 3))),
        call(T((300, 9)), T((300, 40))),
        call(T((0, 5)), T((0, 3))),
    ),
    "attention_gradients": (
        call(
            T((5, 3)),
            T((7, 3)),
            T((7, 3)),
            None,
            None,
            T((5, 3)),
            T((5,)),
            T((5, 3)),
            0.0,
            False,
            0.5,
            False,
        ),
    ),
    "lstm_gates_backward": (
        each(*[T((5, 12))] * 2, *[T((5, 3))] * 3),
        call(*[T((67, 64))] * 2, *[T((67, 16))] * 3),
    ),
    "gru_gates_backward": (
        each(*[T((5, 9))] * 2, *[T((5, 3))] * 2),
        call(*[T((67, 48))] * 2, *[T((67, 16))] * 2),
    ),
    "lstm_steps_backward": (
        call(
            *[T((3, 5, 12))] * 2,
            T((3, 5, 3)),
            T((5, 3)),
            T((12, 3)),
            T((3, 5, 3)),
            *[T((5, 3))] * 2,
        ),
    ),
    "gru_steps_backward": (
        call(*[T((3, 5, 9))] * 2, T((3, 5, 3)), T((5, 3)), T((9, 3)), T((3, 5, 3)), T((5, 3))),
    ),
    "conv1d_weight_gradient": (call(T((2, 3, 9)), T((2, 4, 7)), (3,), 1, 0, 1, 1),),
    "conv2d_weight_gradient": (
        each(T((2, 3, 5, 6)), T((2, 5, 5, 4)), (3, 2), (1, 2), 1, 1, 1),
        call(T((1, 2, 24, 24)), T((1, 3, 24, 24)), (1, 1), 1, 0, 1, 1),
        call(T((1, 4, 3, 19)), T((1, 8, 3, 19)), (3, 3), 1, 1, 1, 4),
        call(T((0, 2, 4, 4)), T((0, 3, 3, 3)), (2, 2), 1, 0, 1, 1),
        call(T((1, 1, 40, 60)), T((1, 2, 40, 60)), (1, 1), 1, 0, 1, 1),
    ),
    "conv3d_weight_gradient": (
        call(T((1, 2, 3, 4, 3)), T((1, 2, 2, 4, 3)), (2, 3, 1), 1, (0, 1, 0), 1, 1),
    ),
    "weighted_bce_smooth_l1_total": (
        each(T((5, 31)), T((5, 31)), T((5, 31)), T((5, 31)), 1.0, 2.0, 0.05),
        call(T((5003,)), T((5003,)), T((5003,)), T((5003,)), 1.0, 2.0, 0.05),
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
