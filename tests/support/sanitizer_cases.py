"""What the sanitizer runs: calls of every op of users that launches kernels of its own.

A call names shapes, not data: `made` makes the tensors, with all elements in (0, 1)
unless values are given. Sizes such as 31 and 47 leave one element less than a vector of
4 or 16 takes, where a loop that goes one too far is seen; shapes broadcast in every way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import sanitizer_pictures as pictures
from sanitizer_calls import LABELS, Call, T, call, each, index

import netcl_core.autograd as ag

#: Operators, and those composites that give kernels arguments that no other call gives.
STRUCTURED: Final[dict[str, tuple[Call, ...]]] = {
    # casts, which are the core's
    "astype": (
        call(T((3, 31)), "float16"),
        call(T((3, 31)), "bfloat16"),
        call(T((1031,), "bfloat16"), "float16"),
        call(T((1031,), "uint8"), "float64"),
        call(T((3, 31), "float16"), "bool"),
        call(T((31,), "int64"), "uint8"),
    ),
    # the host's
    **{f"linalg_{op}": (call(T((3, 3))),) for op in ("inv", "det", "slogdet", "eigh")},
    "linalg_cholesky": (call(T((1, 1))),),
    "linalg_lu": (call(T((3, 3))),),
    "linalg_solve": (call(T((3, 3)), T((3, 2))),),
    "linalg_pinv": (call(T((3, 2)), T((2, 3))),),
    "linalg_qr": (call(T((3, 2)), mode="reduced"),),
    "linalg_svd": (call(T((3, 2)), full_matrices=False),),
    "fft_c2c": (call(T((3, 2)), dims=(0,), inverse=False, scale=1.0),),
    "linalg_svdvals": (call(T((3, 2))),),
    "fft_r2c": (call(T((3, 2)), dim=0, size=3, inverse=False, scale=1.0),),
    "fft_c2r": (call(T((3, 2)), dim=0, size=5, inverse=True, scale=1.0),),
    # shapes and strided copies
    "cat": (
        each((T((3, 5)), T((3, 0)), T((3, 19))), 1),
        call((T((1, 2, 3), "bool"), T((4, 2, 3), "bool"))),
    ),
    "flip": (call(T((5, 7)), (0, 1)), call(T((3, 5), "float64"), 1)),
    "constant_pad_nd": (
        each(T((3, 5)), (1, 2, 0, 3)),
        call(T((3, 5)), (-1, 2, -2, -1), value=1.5),
        call(T((2, 3, 4), "int32"), (0, 1)),
        call(T((3, 2)), (-2, 5)),
    ),
    "roll": (
        each(T((5, 7)), (2, -3), (0, 1)),
        call(T((3, 5, 2), "uint8"), 1, 1),
        call(T((31,), "int64"), -40),
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
    "topk": (
        each(T((5, 31)), 3, 1),
        call(T((3, 19, 5), "int32"), 19, 1),
        call(T((31,)), 0),
        call(T((2, 70)), 33),
    ),
    "sort": (
        each(T((5, 31)), 1),
        call(T((3, 70, 5), "int32"), 1, True),
        call(T((67,), "bool")),
        call(T((33,), "int64")),
    ),
    "kthvalue": (each(T((3, 70)), 9, 1), call(T((5, 7), "bool"), 2, 0)),
    "median": (each(T((5, 31)), 1), call(T((70, 3), "int64"), 0), call(T((67,)))),
    "nanmedian": (each(T((2, 67)), 1), call(T((5, 7)), 0)),
    "scatter": (
        each(T((5, 7)), 1, T((3, 2), "int64", (6, 0, 1, 1, 6, 6)), T((3, 2))),
        call(T((4,), "int32"), 0, index(3, 0, 3, 3), 7),
    ),
    "multinomial": (
        each(T((3, 7)), 5, True),
        call(T((31,)), 300, replacement=True),
        call(T((2, 5)), 3),
    ),
    "scatter_add": (each(T((5, 7)), 0, T((3, 2), "int32", (4, 0, 1, 1, 4, 0)), T((4, 3))),),
    "prod": (each(T((5, 31)), 1), call(T((0, 3)), 0), call(T((7, 5), "int32"), 0)),
    # scans and softmax
    "argmax": (each(T((5, 31)), 1), call(T((5, 7), "uint8")), call(T((3, 5, 2)), 1, True)),
    "argmin": (each(T((5, 31)), 0), call(T((31,), "int64"))),
    "cumsum": (
        each(T((5, 31)), 0),
        call(T((3, 5, 2), "bool"), 1),
        call(T(()), 0),
        each(T((2, 70)), 1),
        call(T((1100,)), 0, True),
        call(T((2, 67, 3), "int32"), 1),
    ),
    "cumprod": (each(T((5, 31)), 0), call(T((3, 70), "int32"), 1), each(T((2, 67, 3)), 1)),
    "logcumsumexp": (each(T((5, 31)), 0), each(T((2, 70)), 1)),
    "cummax": (each(T((5, 31)), 0), call(T((3, 70), "bool"), 1), each(T((1100,)), 0)),
    "cummin": (each(T((2, 67, 3)), 1), call(T((33,), "int64"), 0)),
    "softmax": (
        each(T((2, 67, 5)), 1),
        each(T((3, 31)), 1),
        each(T((2, 5, 31)), 1),
        call(T(())),
        call(T((4, 3))),
        each(T((3, 64))),
        call(T((2, 4500))),
        call(T((300, 19))),
    ),
    "log_softmax": (
        each(T((1, 65, 3)), 1),
        each(T((3, 31)), 1),
        each(T((2, 5, 31)), 1),
        call(T((40, 1)), 0),
    ),
    # rows standardised: shared work-groups, tails of teams, rows too long for registers, blocks
    "layer_norm": (
        each(T((5, 31)), (31,), T((31,)), T((31,))),
        each(T((300, 19)), (19,), T((19,)), T((19,))),
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
        call(T((3, 200)), T((200, 5))),
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
    # gates of recurrent steps: several vectors for an item, and tails
    "lstm_gates": (each(*[T((5, 12))] * 2, T((5, 3))), call(*[T((67, 64))] * 2, T((67, 16)))),
    "gru_gates": (each(*[T((5, 9))] * 2, T((5, 3))), call(*[T((67, 48))] * 2, T((67, 16)))),
    # their kernels are those of products and gates, which run in all dtypes: half a minute for each
    "lstm_steps": (
        call(T((3, 5, 12)), T((5, 3)), T((5, 3)), T((12, 3)), T((12,))),
        call(T((2, 67, 64)), T((67, 16)), T((67, 16)), T((64, 16)), None, True),
    ),
    "gru_steps": (
        call(T((3, 5, 9)), T((5, 3)), T((9, 3)), T((9,))),
        call(T((2, 67, 48)), T((67, 16)), T((48, 16)), None, True),
    ),
    # attention: tails of blocks and of vectors, masks of both kinds, words of random bits
    "scaled_dot_product_attention": (
        each(T((2, 5, 3)), T((2, 7, 3)), T((2, 7, 5))),
        call(T((19, 16)), T((67, 16)), T((67, 16)), is_causal=True),
        call(T((2, 5, 3)), T((7, 3)), T((7, 5)), T((5, 7)), dropout_p=0.5),
        call(T((2, 5, 3)), T((1, 7, 3)), T((1, 7, 5)), T((1, 7), "bool"), enable_gqa=True),
        call(T((5, 3)), T((0, 3)), T((0, 5))),
    ),
    # convolutions: tails of tiles, panels and vectors, groups, positions that no tap reaches
    "conv1d": (call(T((2, 3, 9)), T((4, 3, 3)), T((4,)), 2, 1),),
    "conv2d": (
        each(T((2, 3, 5, 6)), T((5, 3, 3, 2)), T((5,)), (1, 2), 1),
        call(T((1, 17, 3, 5)), T((33, 17, 1, 1))),
        call(T((3, 2, 4, 4)), T((3, 2, 6, 6)), padding=3),
        call(T((0, 2, 4, 4)), T((3, 2, 2, 2))),
        call(T((1, 16, 3, 17)), T((33, 16, 3, 3)), T((33,)), 1, 1),
        each(T((1, 4, 3, 19)), T((8, 1, 3, 3)), padding=1, groups=4),
        call(T((1, 1200, 1, 3)), T((2, 1200, 1, 2)), T((2,))),  # terms that are divided
    ),
    "conv3d": (call(T((1, 2, 3, 4, 3)), T((2, 2, 2, 3, 1)), padding=(0, 1, 0)),),
    "depthwise_conv2d": (each(T((2, 3, 5, 7)), T((3, 1, 2, 3)), T((3,)), 2, 1),),
    "conv_transpose1d": (call(T((2, 3, 5)), T((3, 2, 3)), T((2,)), 2),),
    "conv_transpose2d": (
        each(T((2, 3, 4, 3)), T((3, 5, 2, 3)), T((5,)), (3, 2), 1),
        call(T((1, 4, 3, 3)), T((4, 2, 3, 3)), padding=1, groups=2, dilation=2),
    ),
    "conv_transpose3d": (call(T((1, 2, 2, 2, 3)), T((2, 3, 2, 1, 2)), stride=(1, 2, 1)),),
    "cross_entropy": (
        call(T((5, 31)), T((5, 31))),
        each(T((5, 31)), LABELS, T((31,))),
        call(T((5, 31)), LABELS, reduction="sum"),
        call(T((5, 31)), LABELS, label_smoothing=0.1, reduction="none"),
        call(T((9000, 2)), T((9000,), "int32"), T((2,))),
        each(T((50, 100)), T((50,), "int32"), label_smoothing=0.1),
        call(T((3, 4000)), T((3,), "int32"), reduction="sum"),
    ),
    "nll_loss": (
        each(T((5, 31)), LABELS, T((31,))),
        call(T((2, 19, 3)), T((2, 3), "uint8", (0, 18, 5, 5, 1, 2))),
    ),
    **pictures.STRUCTURED,
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
    **dict.fromkeys(
        ("Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Lion", "ASGD"),
        (({"lr": 0.1, "weight_decay": 0.1}, SIZES, FLOATING),),
    ),
    "Rprop": (({"lr": 0.1}, SIZES, FLOATING),),
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
    "getitem": "basic_getitem, take_along or pick_elements",
    "index_put": "put_elements",
    "bitwise_not": "bitwise_xor or logical_not",
    "celu": "continuous_elu",
    "pad": "constant_pad_nd or pad_continued",
    "positive": "no kernel: it gives the tensor itself",
    "nan_to_num": "isposinf, isneginf, isnan and where",
    **dict.fromkeys(("swapaxes", "swapdims"), "no kernel: they are views"),
    **dict.fromkeys(("movedim", "moveaxis"), "no kernel: they are views"),
    **dict.fromkeys(("ravel", "unflatten"), "no kernel: a reshape is a view"),
    **dict.fromkeys(("fliplr", "flipud"), "flip"),
    **dict.fromkeys(("select", "narrow", "unbind", "as_strided"), "no kernel: they are views"),
    "argwhere": "the host's search",
    "nonzero": "the host's search",
    **dict.fromkeys(
        ("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors"), "no kernel: views"
    ),
    **dict.fromkeys(("tensor_split", "hsplit", "vsplit", "dsplit"), "no kernel: they are views"),
    **dict.fromkeys(
        ("dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"),
        "random_mask with a fresh state, comparisons, where, mul and add",
    ),
    "gumbel_softmax": "random_numbers, log, softmax and argmax",
    "pdist": "index_select, sub and norm",
    "embedding_bag": "embedding_bags, or embedding, where, and sum, mean or max",
    "bilinear": "matmul and add",
    "im2col": "pad and index_select",
    "fold": "index_add and a copy of a view",
    "affine_grid": "matmul",
    "grid_sample": "floor, comparisons, where, gather and mul",
    **dict.fromkeys(("max_unpool1d", "max_unpool2d", "max_unpool3d"), "put_lines"),
    **dict.fromkeys(
        ("fractional_max_pool2d", "fractional_max_pool3d"), "random_numbers, gather and max"
    ),
    "lp_pool3d": "pow and resample",
    "local_response_norm": "square, pad, avg_pool2d, pow and div",
    "multi_margin_loss": "gather, clamp, where and a reduction",
    "multilabel_margin_loss": "cumsum, scatter_add, gather, clamp and a reduction",
    "multilabel_soft_margin_loss": "logsigmoid, mul and a reduction",
    "triplet_margin_with_distance_loss": "pairwise_distance, clamp and a reduction",
    "ctc_loss": "gather, logaddexp, where and cat, for each step",
    "sum_to_size": "sum",
    "rot90": "flip and a view",
    **dict.fromkeys(("column_stack", "dstack", "block_diag"), "constant_pad_nd and cat"),
    "cartesian_prod": "a copy of a view, and cat",
    "combinations": "index_select",
    **dict.fromkeys(("diag_embed", "diagflat"), "constant_pad_nd, sub, eq and where"),
    **dict.fromkeys(
        ("select_scatter", "slice_scatter", "diagonal_scatter", "as_strided_scatter"), "put_lines"
    ),
    "take": "take_along",
    "put": "lt, add, where and scatter or scatter_add",
    "masked_scatter": "cumsum, take and where",
    "take_along_dim": "gather",
    "unravel_index": "remainder and floor_divide",
    **dict.fromkeys(("tril_indices", "triu_indices", "logspace"), "no kernel: the host makes them"),
    "channel_shuffle": "a copy of a view",
    **dict.fromkeys(("std_mean", "var_mean"), "var and mean"),
    "aminmax": "amin and amax",
    "dist": "sub and norm",
    "renorm": "norm, add, div, gt, where and mul",
    **dict.fromkeys(("cov", "corrcoef"), "mean, sub, matmul and div"),
    **dict.fromkeys(("trapezoid", "trapz"), "add, mul and sum"),
    "cumulative_trapezoid": "add, mul and cumsum",
    **dict.fromkeys(("msort", "quantile", "nanquantile", "mode"), "sort and gather"),
    **dict.fromkeys(("searchsorted", "bucketize", "isin"), "gather, comparisons and where"),
    "histc": "floor, comparisons, where and scatter_add",
    "unique_consecutive": "the host's search",
    **dict.fromkeys(("scatter_reduce", "index_reduce"), "sort, gather, where and scatter_add"),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), "mul, floor_divide and where"),
    **dict.fromkeys(("gcd", "lcm"), "remainder and where"),
    "ldexp": "exp2 and mul",
    "frexp": "log2, exp2, comparisons and where",
    "float_power": "pow",
    **dict.fromkeys(("angle", "fill"), "where"),
    "isreal": "no kernel: all are",
    "rsub": "sub",
    "polygamma": "pow, add and mul",
    "mvlgamma": "lgamma and add",
    **dict.fromkeys(("conj", "conj_physical", "resolve_conj", "resolve_neg"), "no kernel"),
    **dict.fromkeys(("split_with_sizes", "unsafe_split", "unsafe_chunk"), "no kernel: views"),
    **dict.fromkeys(("scalar_tensor", "broadcast_shapes"), "no kernel: the host makes them"),
    **dict.fromkeys(("empty_permuted", "empty_strided"), "no kernel: views"),
    "gradient": "sub, div, mul and cat",
    "histogram": "gather, comparisons, where and scatter_add",
    **dict.fromkeys(("bernoulli", "normal"), "random_numbers, lt, mul and add"),
    **dict.fromkeys(("poisson", "binomial", "random_log_gamma"), "rejection"),
    "nonzero_static": "nonzero and constant_pad_nd",
    **dict.fromkeys(
        (
            "cholesky",
            "inverse",
            "pinverse",
            "det",
            "slogdet",
            "logdet",
            "lu",
            "qr",
            "svd",
            "cholesky_solve",
            "cholesky_inverse",
            "triangular_solve",
            "lu_solve",
            "lu_unpack",
            "svd_lowrank",
            "pca_lowrank",
            "stft",
            "istft",
        ),
        "the host's, and matmul",
    ),
    **dict.fromkeys(("matrix_power", "matrix_exp"), "matmul"),
    **dict.fromkeys(
        (f"{name}_window" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")),
        "no kernel: the host makes them",
    ),
    "inner": "tensordot",
    "vdot": "dot",
    "tensordot": "matmul",
    "kron": "mul",
    **dict.fromkeys(("baddbmm", "addbmm", "addmv", "addr"), "matmul or mul, mul and add"),
    "masked_select": "the host's search and index_select",
    **dict.fromkeys(("index_add", "index_copy", "index_fill"), "add_at_index, where and scatter"),
    **dict.fromkeys(("concat", "concatenate", "hstack", "vstack"), "cat"),
    **dict.fromkeys(("tile", "repeat", "meshgrid"), "a copy of a view"),
    "repeat_interleave": "expand or index_select",
    "diag": "basic_getitem, or pad, sub, eq and where",
    "trace": "diag and sum",
    **dict.fromkeys(("pixel_shuffle", "pixel_unshuffle"), "a copy of a view"),
    "count_nonzero": "ne and sum",
    "nansum": "isnan, where and sum",
    "nanmean": "nansum, isnan, logical_not, sum and div",
    "softmin": "neg and softmax",
    "rrelu": "leaky_relu, or random_numbers, mul, add and where",
    "isclose": "sub, abs, mul, add, comparisons and logical ops",
    "allclose": "isclose and all",
    "equal": "eq and all",
    **dict.fromkeys(
        ("rand", "randn", "randint", "rand_like", "randn_like", "randint_like"), "random_numbers"
    ),
    "randperm": "random_numbers and argsort",
    "masked_fill": "where with a scalar",
    "var": "mean, square and sum",
    "std": "sqrt of var",
    "logsumexp": "amax, exp, sum and log",
    "l2_normalize": "square, sum, sqrt, clamp and div",
    **dict.fromkeys(("any", "all"), "ne and a reduction"),
    **dict.fromkeys(("tril", "triu"), "le or ge, and where"),
    "diff": "basic_getitem and sub",
    "unique": "the host's order",
    "bincount": "add_at_index",
    **dict.fromkeys(("mm", "mv"), "matmul"),
    "outer": "mul",
    "dot": "mul and sum",
    "addmm": "matmul, mul and add",
    "cross": "roll, mul and sub",
    "linear_relu": "linear and relu",
    "bias_add": "add",
    "einsum": "permute, sum, mul and matmul",
    "margin_ranking_loss": "sub, mul, clamp and a reduction",
    "soft_margin_loss": "mul, logsigmoid and a reduction",
    "hinge_embedding_loss": "sub, clamp, where and a reduction",
    "cosine_embedding_loss": "sums, a division, where and a reduction",
    "gaussian_nll_loss": "clamp, log, div and a reduction",
    "poisson_nll_loss": "exp, mul, log and a reduction",
    "triplet_margin_loss": "pairwise_distance, clamp and a reduction",
    "argsort": "sort",
    "norm": "square or pow, a reduction, and norm_root or norm_power",
    "cosine_similarity": "norm, div and sum",
    "normalize": "norm and div",
    "pairwise_distance": "sub and norm",
    "cdist": "sub and norm",
    "glu": "basic_getitem, sigmoid and mul",
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
    "fused_weighted_bce_smooth_l1_loss": "weighted_bce_smooth_l1_total",
}

#: Implementations that launch no kernel, or that no simulator runs, with the reason.
NOT_SIMULATED: Final = {
    "host BLAS": "NumPy's product on mapped buffers",
    "host LAPACK": "NumPy's functions on mapped buffers",
    "tensor cores": "NVIDIA's instructions, which the simulator does not know",
}

#: Templates that no case renders, with the reason.
NOT_RENDERED: Final = {
    "core/kernels/probe.cl.j2": "run by the search for devices, before the first case",
    "core/kernels/macros.cl.j2": "macros for the expressions of primitives; no kernel",
    "linalg/device_fence.cl.j2": "a probe for OpenCL C 3.0; the simulator has 1.2",
    "tensorcore/probe.cl.j2": "NVIDIA's instructions, which the simulator does not know",
    "tensorcore/products.cl.j2": "the same; the plugin's own tests emulate them",
    "tensorcore/attention.cl.j2": "the same",
    "tensorcore/attention_gradients.cl.j2": "the same",
    "tensorcore/attention_sums.cl.j2": "the same",
    "tensorcore/convolutions.cl.j2": "the same",
    "tensorcore/convolution_operands.cl.j2": "the same",
    "tensorcore/probe_groups.cl.j2": "the same",
}
#: Templates that one kind of device never gets.
OF_THE_OTHER_KIND: Final = {
    "cpu": {
        "conv/conv_gpu.cl.j2",
        "conv/conv_sums.cl.j2",
        "conv/conv_taps.cl.j2",
        "conv/conv_weights.cl.j2",
        "tensor/reduce_gpu.cl.j2",
        "core/kernels/rows.cl.j2",
        "linalg/attention_ahead.cl.j2",
        "linalg/attention_groups.cl.j2",
        "linalg/gemm_gpu.cl.j2",
        "linalg/gemm_strip.cl.j2",
        "linalg/gemm_thin.cl.j2",
        "losses/cross_entropy_teams.cl.j2",
        "tensor/residual_norm_teams.cl.j2",
        "tensor/norm_rows.cl.j2",
        "tensor/extremes.cl.j2",
        "tensor/lines_gpu.cl.j2",
        "tensor/radix_sort.cl.j2",
        "tensor/scan_gpu.cl.j2",
        "tensor/strided_gpu.cl.j2",
        "tensor/softmax_columns.cl.j2",
        "tensor/softmax_rows.cl.j2",
    },
    "gpu": {
        "tensor/reduce.cl.j2",
        "linalg/attention.cl.j2",
        "linalg/attention_backward.cl.j2",
        "tensor/norm_blocks.cl.j2",
        "tensor/residual_norm.cl.j2",
        "tensor/softmax_blocks.cl.j2",
        "tensor/strided.cl.j2",
        "tensor/strided_pair.cl.j2",
        "conv/conv.cl.j2",
        "conv/conv_direct.cl.j2",
        "conv/conv_pad.cl.j2",
        "conv/conv_winograd.cl.j2",
    },
}

#: Attributes of primitives that have no default, and choices that change the kernel; all others
#: run with their defaults.
CHOICES: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "gelu": ({"approximate": "tanh"}, {"approximate": "none"}),
    "clamp": ({"min": 0.2, "max": 0.5}, {"min": 0.2}, {"max": 0.5}),
    "logit": ({}, {"eps": 0.25}),
    "threshold": ({"threshold": 0.5, "value": 0.25},),
}

#: Functions whose neighbours are rendered into structured kernels, with their arguments.
FUSED: Final[tuple[tuple[Callable[..., Any], tuple[T, ...]], ...]] = (
    (lambda x, w, b: ag.relu(x @ w + b) + 1.0, (T((5, 31)), T((31, 47)), T((47,)))),
    (lambda x, w, r: ag.tanh(x @ w) * r, (T((9, 47)), T((47, 31)), T((9, 1)))),
    (lambda x, w, y: (x @ w) * y - y, (T((3, 5, 31)), T((31, 32)), T((3, 5, 32)))),
    (lambda x, w, c: ag.exp(x @ w) + c, (T((7, 5)), T((5, 3)), T((1,)))),
    (lambda x, w, b: ag.gelu(ag.linear(x, w, b)) * 0.5, (T((9, 31)), T((47, 31)), T((47,)))),
    (lambda x, w: ag.relu(ag.conv2d(x, w, None, 2, 1)) + 1.0, (T((2, 3, 5, 5)), T((4, 3, 3, 3)))),
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


#: Elementwise ops that take no floats.
OF_INTEGERS: Final = ("bitwise_and", "bitwise_or", "bitwise_xor")


def primitive_calls(name: str, arity: int) -> list[Call]:
    """The calls of an elementwise op of this many inputs."""
    calls = []
    for choice in CHOICES.get(name, ({},)):
        for shapes in SHAPES_OF.get(name, SHAPES if arity > 1 else SHAPES[:1]):
            dtype = "int64" if name in OF_INTEGERS else ""
            inputs = tuple(T(shapes[i % len(shapes)], dtype) for i in range(arity))
            calls.append(Call(inputs, choice))
    return calls


def layout_calls() -> list[Call]:
    """The calls of `maximum` in every layout and pair of storages."""
    pairs = (("", ""), ("float16", "float64"), ("uint8", "int64"), ("bool", "float32"))
    return [call(T(first, one), T(second, two)) for first, second in LAYOUTS for one, two in pairs]
