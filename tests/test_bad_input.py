"""Wrong arguments: every op refuses them with an error that names it; non-finite numbers are legal.

Each op's example is called with one argument replaced by something odd. Whatever
comes of it is a result, or an error of netcl's own that says who, what and what else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pytest
from daily import today
from netcl_plugin_kit.testing import recorded
from sanitizer_calls import Call, T, call, made
from sanitizer_cases import STRUCTURED, primitive_calls

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DeviceError,
    DtypeError,
    GradientError,
    NetclError,
    ShapeError,
)
from netcl_core.ops.operators import Operator
from netcl_core.plugins.registry import registry
from netcl_core.tensors.tensor import Tensor

X: Final = T((3, 5))
#: What takes any number of operands, or sizes.
OF_MANY: Final = {
    *(f"atleast_{n}d" for n in (1, 2, 3)), "broadcast_tensors", "block_diag", "cartesian_prod",
    "sum_to_size", "broadcast_shapes",
}  # fmt: skip
#: What asks the host about its own intermediate results, which are not computed where no kernel
#: is launched.
DECIDED_BY_DATA: Final = {
    "embedding_bag", "cholesky_inverse", "cholesky_solve", "triangular_solve", "lu_solve",
    "svd_lowrank", "pca_lowrank", "istft", "matrix_exp",
}  # fmt: skip
SYMMETRIC: Final = T((2, 2), values=(2, 1, 1, 3))
#: Examples of the ops that the sanitizer does not run: views and composites.
EXAMPLES: Final[dict[str, Call]] = {
    "reshape": call(X, (5, 3)),
    "flatten": call(X, 0, 1),
    "squeeze": call(T((3, 1)), 1),
    "unsqueeze": call(X, 1),
    "masked_fill": call(X, T((3, 5), "bool"), 1.5),
    "var": call(X, 1),
    "std": call(X, 1),
    "logsumexp": call(X, 1),
    "l2_normalize": call(X, 1),
    "any": call(X, 1),
    "all": call(X, 1),
    "tril": call(X, 1),
    "unique": call(X),
    "bincount": call(T((4,), "int64")),
    "mm": call(X, T((5, 2))),
    "mv": call(X, T((5,))),
    "outer": call(T((3,)), T((5,))),
    "dot": call(T((5,)), T((5,))),
    "addmm": call(T((2,)), X, T((5, 2))),
    "cross": call(X, X, 0),
    "linear_relu": call(X, T((2, 5)), T((2,))),
    "bias_add": call(X, T((5,)), 1),
    "einsum": call("ij,kj->ik", X, X),
    "margin_ranking_loss": call(X, X, X),
    "soft_margin_loss": call(X, X),
    "hinge_embedding_loss": call(X, X),
    "cosine_embedding_loss": call(X, X, T((3,))),
    "gaussian_nll_loss": call(X, X, 1.0),
    "poisson_nll_loss": call(X, X),
    "triplet_margin_loss": call(X, X, X),
    "argsort": call(X, 1),
    "triu": call(X, 1),
    "diff": call(X, 1),
    "norm": call(X, 3.0, 1),
    "cosine_similarity": call(X, X, 1),
    "normalize": call(X, 2.0, 1),
    "pairwise_distance": call(X, X, 1.5),
    "cdist": call(X, X, 1.0),
    "cumprod": call(X, 1),
    "kthvalue": call(X, 2, 1),
    "median": call(X, 1),
    "glu": call(T((3, 4)), 1),
    "group_norm": call(T((2, 4, 3)), 2),
    "dropout": call(X, 0.5),
    "mse_loss": call(X, X),
    "l1_loss": call(X, X),
    "smooth_l1_loss": call(X, X),
    "huber_loss": call(X, X),
    "binary_cross_entropy": call(X, X),
    "binary_cross_entropy_with_logits": call(X, X),
    "kl_div": call(X, X),
    "weighted_bce": call(X, X, X),
    "weighted_smooth_l1": call(X, X, X),
    "fused_weighted_bce_smooth_l1_loss": call(X, X, X, X),
    "nll_loss": call(X, T((3,), "int64", (0, 1, 2))),
    "getitem": call(X, [1, 0]),
    "index_put": call(X, [1, 0], 0.5),
    "bitwise_not": call(T((3, 5), "int64")),
    "rand": call((3, 5)),
    "randn": call((3, 5)),
    "randint": call(0, 9, (3, 5)),
    "randperm": call(5),
    "rand_like": call(X),
    "randn_like": call(X),
    "randint_like": call(X, 0, 9),
    "celu": call(X, 0.5),
    "positive": call(X),
    "nan_to_num": call(X, 0.5, 2.0, -2.0),
    "swapaxes": call(X, 0, 1),
    "swapdims": call(X, 0, 1),
    "t": call(X),
    "permute": call(X, (1, 0)),
    "transpose": call(X, 0, 1),
    "expand": call(T((3, 1)), (3, 5)),
    "broadcast_to": call(T((3, 1)), (3, 5)),
    "diagonal": call(X, 1),
    "windows": call(X, 1, 2, 1),
    "argwhere": call(X),
    "nonzero": call(X),
    "masked_select": call(X, T((3, 5), "bool")),
    **{f"atleast_{n}d": call(X) for n in (1, 2, 3)},
    "broadcast_tensors": call(X, T((5,))),
    "sum_to_size": call(X, (3, 1)),
    "rot90": call(X, 1),
    "column_stack": call((X, X)),
    "dstack": call((X, X)),
    "block_diag": call(X, X),
    "cartesian_prod": call(T((3,)), T((2,))),
    "combinations": call(T((4,)), 2),
    "tensor_split": call(X, 2),
    "hsplit": call(T((3, 4)), 2),
    "vsplit": call(T((4, 3)), 2),
    "dsplit": call(T((2, 3, 4)), 2),
    "diag_embed": call(X, 1),
    "diagflat": call(X, 1),
    "select_scatter": call(X, T((5,)), 0, 1),
    "slice_scatter": call(X, T((2, 5)), 0, 1, 3),
    "diagonal_scatter": call(X, T((3,)), 0),
    "as_strided_scatter": call(X, T((2, 2)), (2, 2), (5, 1), 0),
    "take": call(X, T((3,), "int64", (0, 1, 2))),
    "put": call(X, T((3,), "int64", (0, 1, 2)), T((3,))),
    "masked_scatter": call(X, T((3, 5), "bool"), X),
    "take_along_dim": call(X, T((3, 2), "int64", (0, 1, 2, 0, 1, 2)), 1),
    "unravel_index": call(T((3,), "int64", (0, 1, 2)), (3, 5)),
    "tril_indices": call(3, 4, 1),
    "triu_indices": call(3, 4, 1),
    "channel_shuffle": call(T((1, 4, 3)), 2),
    "std_mean": call(X, 1),
    "var_mean": call(X, 1),
    "aminmax": call(X, dim=1),
    "dist": call(X, X, 2),
    "renorm": call(X, 2, 0, 1.0),
    "cov": call(X),
    "corrcoef": call(X),
    "trapezoid": call(X, X),
    "trapz": call(X, X),
    "cumulative_trapezoid": call(X, X),
    "msort": call(X),
    "quantile": call(X, 0.5, 1),
    "nanquantile": call(X, 0.5, 1),
    "nanmedian": call(X, 1),
    "mode": call(X, 1),
    "cummax": call(X, 1),
    "cummin": call(X, 1),
    "logcumsumexp": call(X, 1),
    "searchsorted": call(T((5,)), X),
    "bucketize": call(X, T((5,))),
    "isin": call(X, X),
    "histc": call(X, 4, 0.0, 1.0),
    "unique_consecutive": call(X),
    "scatter_reduce": call(X, 0, T((3, 5), "int64", (0, 1, 2) * 5), X, "sum"),
    "index_reduce": call(X, 0, T((3,), "int64", (0, 1, 2)), X, "amax"),
    "logspace": call(0, 1, 5),
    "pad": call(X, (1, 0), "reflect"),
    **{
        op: call(T((3,), "int64", (4, 6, 9)), T((3,), "int64", (1, 2, 3)))
        for op in ("bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm")
    },
    "ldexp": call(X, T((5,), "int64")),
    "frexp": call(X),
    "float_power": call(X, X),
    "angle": call(X),
    "isreal": call(X),
    "rsub": call(X, X),
    "polygamma": call(1, X),
    "mvlgamma": call(X, 1),
    **{op: call(X) for op in ("conj", "conj_physical", "resolve_conj", "resolve_neg")},
    "split_with_sizes": call(X, (1, 2)),
    "unsafe_split": call(X, 2),
    "unsafe_chunk": call(X, 2),
    "fill": call(X, 2.0),
    "scalar_tensor": call(2.0),
    "broadcast_shapes": call((3, 1), (4,)),
    "empty_permuted": call((3, 4), (1, 0)),
    "empty_strided": call((3, 4), (1, 3)),
    "gradient": call(X, spacing=0.5),
    "histogram": call(X, 4, range=(0.0, 1.0)),
    "bernoulli": call(X, 0.5),
    "poisson": call(X),
    "binomial": call(X, 0.5),
    "random_log_gamma": call(X),
    "normal": call(0.0, 1.0, (2, 3)),
    "nonzero_static": call(X, size=3),
    "linalg_lu": call(SYMMETRIC),
    **{
        op: call(SYMMETRIC)
        for op in (
            "cholesky",
            "inverse",
            "pinverse",
            "det",
            "slogdet",
            "logdet",
            "matrix_exp",
            "lu",
            "qr",
            "svd",
            "cholesky_inverse",
        )
    },
    "matrix_power": call(SYMMETRIC, 2),
    "cholesky_solve": call(T((2, 3)), SYMMETRIC),
    "triangular_solve": call(T((2, 3)), SYMMETRIC),
    "lu_solve": call(T((2, 3)), SYMMETRIC, T((2,), "int64", (1, 2))),
    "lu_unpack": call(SYMMETRIC, T((2,), "int64", (1, 2))),
    "svd_lowrank": call(T((6, 5)), 2),
    "pca_lowrank": call(T((6, 5)), 2),
    "stft": call(T((16,)), 8),
    "istft": call(T((5, 9, 2)), 8),
    **{f"{name}_window": call(5) for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")},
    "dropout1d": call(X, 0.5),
    "dropout2d": call(T((2, 3, 5)), 0.5),
    "dropout3d": call(T((2, 3, 5, 1)), 0.5),
    "alpha_dropout": call(X, 0.5, True),
    "feature_alpha_dropout": call(X, 0.5, True),
    "gumbel_softmax": call(X, 1.0, True),
    "pdist": call(X, 1.0),
    "embedding_bag": call(T((3,), "int64", (0, 1, 2)), X, T((2,), "int64", (0, 1))),
    "bilinear": call(X, T((3, 2)), T((4, 5, 2)), T((4,))),
    "im2col": call(T((1, 3, 5)), 2),
    "fold": call(T((4, 8)), (3, 5), 2),
    "affine_grid": call(T((1, 2, 3)), (1, 1, 2, 3)),
    "grid_sample": call(T((1, 2, 3, 5)), T((1, 2, 2, 2)), "bicubic", "reflection", True),
    **{
        f"max_unpool{n}d": call(T((1, *[2] * n)), T((1, *[2] * n), "int64", range(2**n)), 2)
        for n in (1, 2, 3)
    },
    "fractional_max_pool2d": call(T((1, 3, 5)), 2, 2),
    "fractional_max_pool3d": call(T((1, 3, 5, 4)), 2, 2),
    "lp_pool3d": call(T((1, 3, 5, 4)), 2.0, 2),
    "local_response_norm": call(T((1, 3, 5)), 2),
    "multi_margin_loss": call(X, T((3,), "int64", (0, 1, 2)), 2, 0.5, T((5,))),
    "multilabel_margin_loss": call(X, T((3, 5), "int64", (0, 1, 2, -1, 3) * 3)),
    "multilabel_soft_margin_loss": call(X, X, T((5,))),
    "triplet_margin_with_distance_loss": call(X, X, X),
    "ctc_loss": call(T((4, 2, 3)), T((2, 1), "int64", (1, 2)), (4, 3), (1, 1)),
    "inner": call(X, X),
    "vdot": call(T((5,)), T((5,))),
    "tensordot": call(X, T((5, 2)), 1),
    "kron": call(X, X),
    "baddbmm": call(T((2, 3, 2)), T((2, 3, 5)), T((2, 5, 2))),
    "addbmm": call(T((3, 2)), T((2, 3, 5)), T((2, 5, 2))),
    "addmv": call(T((3,)), X, T((5,))),
    "addr": call(X, T((3,)), T((5,))),
    **{f"linalg_{op}": call(SYMMETRIC) for op in ("cholesky", "inv", "det", "slogdet", "eigh")},
    "linalg_solve": call(SYMMETRIC, T((2, 3))),
    "linalg_pinv": call(T((3, 2)), T((2, 3))),
    "linalg_qr": call(X, mode="reduced"),
    "linalg_svd": call(X, full_matrices=False),
    "fft_c2c": call(T((3, 2)), dims=(0,), inverse=False, scale=1.0),
    "linalg_svdvals": call(T((3, 2))),
    "fft_r2c": call(T((3, 2)), dim=0, size=3, inverse=False, scale=1.0),
    "fft_c2r": call(T((3, 2)), dim=0, size=5, inverse=True, scale=1.0),
    "index_add": call(X, 0, T((3,), "int64", (0, 1, 2)), X),
    "index_copy": call(X, 0, T((3,), "int64", (0, 1, 2)), X),
    "index_fill": call(X, 0, T((3,), "int64", (0, 1, 2)), 0.5),
    "as_strided": call(X, (2, 2), (1, 2), 1),
    "movedim": call(X, 0, 1),
    "moveaxis": call(X, (0, 1), (1, 0)),
    "ravel": call(X),
    "unflatten": call(T((3, 4)), 1, (2, 2)),
    "fliplr": call(X),
    "flipud": call(X),
    "select": call(X, 1, 2),
    "narrow": call(X, 1, 2, 3),
    "unbind": call(X, 1),
    "concat": call((X, X), 1),
    "concatenate": call((X, X), 1),
    "hstack": call((X, X)),
    "vstack": call((X, X)),
    "tile": call(X, (2, 1)),
    "repeat": call(X, (2, 1)),
    "count_nonzero": call(X, 1),
    "nansum": call(X, 1),
    "nanmean": call(X, 1),
    "softmin": call(X, 1),
    "rrelu": call(X, 0.25, 0.5, True),
    "meshgrid": call((T((3,)), T((5,)))),
    "repeat_interleave": call(X, 2, 1),
    "diag": call(X, 1),
    "trace": call(X),
    "pixel_shuffle": call(T((4, 3, 5)), 2),
    "pixel_unshuffle": call(T((3, 4, 6)), 2),
    "isclose": call(X, X, 1e-3, 1e-6, True),
    "allclose": call(X, X, 1e-3, 1e-6, True),
    "equal": call(X, X),
}
#: Of ops whose index may be a list of ints, calls with tensors alone.
INDEX: Final = T((2,), "int64", (1, 0))
OF_TENSORS: Final[dict[str, Call]] = {
    "getitem": call(X, INDEX),
    "index_put": call(X, INDEX, T((2, 5))),
}
#: What no op takes in the place of a tensor.
NO_OPERANDS: Final[dict[str, Any]] = {
    "a string": "text",
    "bytes": b"ab",
    "a ragged list": [[1, 2], [3]],
    "a complex array": np.ones((3, 5), complex),
    "a complex number": 1j,
    "an object array": np.array([object()]),
    "a dict": {},
    "a set": {1, 2},
    "a function": len,
    "dates": np.array(["2020-01-01"], "datetime64[D]"),
    "a dtype that netcl lacks": np.ones(3, np.uint16),
}
#: What some ops take in some places.
ODD_OPERANDS: Final[dict[str, Callable[[], Any]]] = {
    "None": lambda: None,
    "2**80": lambda: 2**80,
    "10**400": lambda: 10**400,
    "another shape": lambda: nc.Tensor.ones((11, 13, 2)),
    "no elements": lambda: nc.Tensor.ones((0,)),
    "no dimensions": lambda: nc.Tensor.ones(()),
    "bool": lambda: nc.tensor(np.ones((3, 5), bool)),
    "float16": lambda: nc.Tensor.ones((3, 5), "float16"),
    "large numbers": lambda: nc.tensor(np.full(4, 99)),
    "negative numbers": lambda: nc.tensor(np.full(4, -1)),
}
ODD_ATTRIBUTES: Final[dict[str, Any]] = {
    "None": None,
    "a string": "x",
    "nan": math.nan,
    "inf": math.inf,
    "1.5": 1.5,
    "-77": -77,
    "10**6": 10**6,
    "2**80": 2**80,
    "a mixed list": [1, "a"],
    "an object": object(),
    "a complex number": 1j,
    "True": True,
    "a long tuple": (0,) * 10,
    "an array": np.ones(3),
    "a dict": {},
    "a set": {1},
}


@pytest.fixture(params=["default", "numpy"], autouse=True)
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The default device, and the NumPy path, which must not be more liberal."""
    with nc.use_device(nc.default_device() if request.param == "default" else "numpy") as device:
        yield device


@pytest.fixture
def unlaunched(device: Any) -> Iterator[None]:
    """Kernels are planned but neither built nor run: wrong arguments must not get so far.

    The sanitizer runs them; the NumPy path computes every result.
    """
    with recorded(device, run=False):
        yield


def examples() -> dict[str, Call]:
    """A good call of every op."""
    registry.load()
    rows = registry.rows("primitive")
    found = {r.record.name: primitive_calls(r.record.name, r.record.arity)[0] for r in rows}
    found |= {name: calls[0] for name, calls in STRUCTURED.items() if name != "astype"}
    return found | EXAMPLES


def signature(name: str) -> list[str]:
    """The names of an op's attributes."""
    record = registry.find_op(name).record
    if not isinstance(record, Operator):
        return list(record.attrs)
    return list(record.signature.parameters)


def outcome(name: str, args: Any, kwargs: Any) -> str:
    """What came of a call: 'result', 'error', or a complaint about a bad error."""
    try:
        result = getattr(ag, name)(*args, **kwargs)
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, Tensor):
                part.to_host()
    except (NetclError, IndexError) as error:
        text = str(error)
        return (
            "error"
            if f"{name}:" in text
            else f"{type(error).__name__} does not name the op: {text}"
        )
    except Exception as error:
        return f"{type(error).__name__} is no error of netcl's: {error}"
    return "result"


def replaced(args: list[Any], place: int, value: Any) -> list[Any]:
    """The arguments with one of them replaced; in a list of tensors the second."""
    given = [args[place][0], value] if isinstance(args[place], list) else value
    return [*args[:place], given, *args[place + 1 :]]


def tensors(name: str, each: Call) -> Iterator[tuple[list[Any], int]]:
    """An op's arguments, with each place of a tensor."""
    args = [made(value) for value in each.args]
    for place, value in enumerate(args):
        if isinstance(value, (nc.Tensor, list)):
            yield args, place


def test_every_op_has_an_example_that_runs(unlaunched: None) -> None:
    found = examples()
    assert set(registry.op_names()) - set(found) == set()
    for name, each in found.items():
        if name in DECIDED_BY_DATA and nc.default_device().backend != "numpy":
            continue
        assert outcome(name, [made(value) for value in each.args], each.kwargs) == "result", name


def test_no_op_takes_what_is_no_tensor(unlaunched: None) -> None:
    bad = [
        (name, place, what, came)
        for name, each in examples().items()
        for args, place in tensors(name, each)
        for what, value in NO_OPERANDS.items()
        if not (name in OF_MANY and what == "a ragged list")  # a list of tensors
        if (came := outcome(name, replaced(args, place, value), each.kwargs)) != "error"
    ]
    assert bad == []


def test_lists_in_the_place_of_tensors(unlaunched: None) -> None:
    """They are taken, or refused by name: no op reads the shape or dtype of a list."""
    bad = [
        (name, came)
        for name, each in examples().items()
        if (came := outcome(name, [listed(made(x)) for x in each.args], each.kwargs))
        not in {"error", "result"}
        and not (name in DECIDED_BY_DATA and nc.default_device().backend != "numpy")
    ]
    assert bad == []


def listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, nc.Tensor) else value


def test_odd_tensors_give_results_or_named_errors(unlaunched: None) -> None:
    bad = [
        (name, place, what, came)
        for name, each in today(examples().items())
        for args, place in tensors(name, each)
        for what, make in ODD_OPERANDS.items()
        if (came := outcome(name, replaced(args, place, make()), each.kwargs))
        not in {"error", "result"}
    ]
    assert bad == []


def test_odd_attributes_give_results_or_named_errors(unlaunched: None) -> None:
    bad = []
    for name, each in today(examples().items()):
        args = [made(value) for value in each.args]
        calls = [
            (what, replaced(args, place, value), each.kwargs)
            for place, given in enumerate(args)
            if not isinstance(given, (nc.Tensor, list))
            for what, value in ODD_ATTRIBUTES.items()
        ]
        calls += [
            (f"{attribute}={what}", args, {**each.kwargs, attribute: value})
            for attribute in signature(name)
            for what, value in ODD_ATTRIBUTES.items()
        ]
        for what, given, kwargs in calls:
            came = outcome(name, given, kwargs)
            if came not in {"error", "result"}:
                bad.append((name, what, came))
    assert bad == []


def test_operands_on_another_device() -> None:
    """An op of several tensors names both devices; nothing is moved silently."""
    if nc.default_device().backend == "numpy":
        pytest.skip("there is one device here")
    bad = []
    for name, each in (examples() | OF_TENSORS).items():
        places = list(tensors(name, each))
        listed = any(isinstance(value, list) for args, _ in places for value in args)
        several = len(places) > 1 or listed
        for args, place in places if several else []:
            old = args[place][1] if isinstance(args[place], list) else args[place]
            moved = nc.tensor(old.to_host(), "numpy")
            with pytest.raises(DeviceError) as caught:
                getattr(ag, name)(*replaced(args, place, moved), **each.kwargs)
            if "NumPy" not in str(caught.value) or nc.default_device().name not in str(
                caught.value
            ):
                bad.append((name, str(caught.value)))
    assert bad == []


def test_wrong_calls_show_the_signature() -> None:
    bad = []
    for name, each in examples().items():
        args = [made(value) for value in each.args]
        calls = [(args, {**each.kwargs, "nonsense": 1}, "nonsense"), ([], {}, "")]
        if name not in OF_MANY:
            calls.append(([*args, *[1] * 12], each.kwargs, ""))
        for given, kwargs, word in calls:
            try:
                getattr(ag, name)(*given, **kwargs)
            except (ArgumentError, AttributeValueError) as error:
                text = str(error)
                if not (text.startswith(f"{name}: ") and word in text and "expected" in text):
                    bad.append((name, text))
            else:
                bad.append((name, "no error"))
    assert bad == []


# -- a table of mistakes with their messages ------------------------------------------------------


def ones(*shape: int, dtype: str = "float32") -> Any:
    return nc.Tensor.ones(shape, dtype)


def ints(*values: int) -> Any:
    return nc.tensor(np.array(values))


Row = tuple[Callable[[], Any], type[Exception], str]
TABLE: Final[tuple[Row, ...]] = (
    # shapes
    (lambda: ones(3, 4) + ones(3, 5), ShapeError, r"add: shapes \(3, 4\) and \(3, 5\) do not"),
    (lambda: ones(3, 4) @ ones(3, 4), ShapeError, r"matmul: .*equal inner sizes, not 4 and 3"),
    (lambda: ag.bmm(ones(3, 4), ones(4, 3)), ShapeError, "bmm: 2 and 2 dimensions; expected 3"),
    (lambda: ag.bmm(ones(2, 3, 4), ones(2, 3, 4)), ShapeError, "bmm: .*not 4 and 3"),
    (lambda: ag.linear(ones(2, 3), ones(4, 5)), ShapeError, r"linear: x of shape \(2, 3\) and w"),
    (lambda: ag.reshape(ones(3), (2, 2)), ShapeError, r"reshape: \(3,\) to \(2, 2\); expected a"),
    (lambda: ag.reshape(ones(4), (-1, -1)), ShapeError, r"reshape: \(4,\) to \(-1, -1\)"),
    (lambda: ag.reshape(ones(4), (2.0, 2)), ShapeError, r"reshape: the shape \(2.0, 2\); expected"),
    (lambda: ag.reshape(ones(4), None), ShapeError, "reshape: the shape None"),
    (lambda: ag.expand(ones(3), (4,)), ShapeError, r"expand: \(3,\) to \(4,\)"),
    (lambda: ag.broadcast_to(ones(3), (4,)), ShapeError, r"broadcast_to: \(3,\) to \(4,\)"),
    (lambda: ag.cat((ones(2, 3), ones(2, 4))), ShapeError, r"cat: shapes \(2, 3\) and \(2, 4\)"),
    (lambda: ag.cat(()), ArgumentError, "cat: no tensors; expected at least one"),
    (lambda: ag.stack((ones(2), ones(3))), ShapeError, "stack: cat: shapes"),
    (lambda: ag.split(ones(5), (2, 2)), ShapeError, r"split: sections \[2, 2\]; .*sum to 5"),
    (lambda: ag.pad(ones(2), (-3, 0)), ShapeError, r"pad_nd: \(\(-3, 0\),\) on \(2,\)"),
    (lambda: ag.layer_norm(ones(3, 4), 3), ShapeError, r"layer_norm: normalized_shape \(3,\)"),
    (lambda: ag.layer_norm(ones(3, 4), 4, ones(3)), ShapeError, "layer_norm: mul: shapes"),
    (lambda: ag.max(ones(0)), ShapeError, r"max: no elements in \(0,\) over"),
    (lambda: ag.gather(ones(2, 3), 1, ints(0)), ShapeError, r"gather: x \(2, 3\) and index \(1,\)"),
    (lambda: ag.mse_loss(ones(3), ones(4)), ShapeError, "mse_loss: .*expected equal shapes"),
    (lambda: nc.Tensor.zeros((2, -1)), ShapeError, r"shape: \(2, -1\); expected non-negative ints"),
    (lambda: nc.Tensor.zeros(1.5), ShapeError, "shape: 1.5; expected non-negative ints"),
    (lambda: nc.Tensor.zeros("ab"), ShapeError, "shape: 'ab'; expected non-negative ints"),
    (lambda: ones(2).copy_(ones(3)), ShapeError, r"copy_: shape \(3,\); expected \(2,\)"),
    (lambda: ones(2).item(), ShapeError, r"item: a tensor of shape \(2,\); expected one element"),
    (lambda: ag.conv1d(ones(1, 1, 9), ones(1, 1, 3), stride=2**31), AttributeValueError,
     "conv1d: stride=2147483648; expected a whole number of 1 to 2147483647"),
    (lambda: ag.conv2d(ones(1, 1, 9, 9), ones(1, 1, 3, 3), padding=10**6, stride=10**6), ShapeError,
     "conv2d: .* which span 2000009 x 2000009 elements with the padding; expected fewer than"),
    (lambda: ag.conv_transpose2d(ones(1, 1, 9, 9), ones(1, 1, 3, 3), dilation=10**6), ShapeError,
     "conv_transpose2d: a result of 2000009 x 2000009 elements; expected fewer than"),
    (lambda: ag.expand(ones(1), (2**60,)), ShapeError, r"expand: the shape .*at most \d+ elements"),
    (lambda: ag.rand((3, 4), 5), ArgumentError, r"rand: 2 sizes .*expected rand\(3, 5\) or rand"),
    (lambda: ag.randn(3, None), ArgumentError, "randn: 2 sizes by position, not all of them ints"),
    # dtypes
    (lambda: ones(2) @ ones(2, dtype="float64"), DtypeError, "matmul: float32 and float64; .*one"),
    (lambda: ag.mean(ints(1, 2)), DtypeError, "mean: a int64 tensor; expected a floating"),
    (lambda: ag.softmax(ints(1, 2)), DtypeError, "softmax: a int64 tensor; expected a floating"),
    (lambda: ag.index_select(ones(3), 0, ones(1)), DtypeError, "index_select: .*dtype float32; "),
    (lambda: ag.cat((ones(2), ones())), ShapeError, "cat: the tensor 1 has no dimensions; .*Use"),
    (lambda: ag.dropout(ints(1, 2)), DtypeError, "dropout: a int64 tensor; expected a floating"),
    (lambda: ints(1) * 2**70, DtypeError, "mul: the scalar .* a value that fits long"),
    (lambda: ones(2) * 10**400, DtypeError, "mul: the scalar 1000.* a value that fits float"),
    (lambda: ones(2).astype("complex64"), DtypeError, "astype: the dtype complex64"),
    (lambda: ag.astype(ones(2), "x"), DtypeError, "astype: the dtype 'x' is not supported"),
    (lambda: nc.tensor([1 + 2j]), DtypeError, "tensor: data of dtype complex128; expected real"),
    (lambda: nc.tensor([object()]), DtypeError, "tensor: data of dtype object"),
    (lambda: nc.tensor(["a"]), DtypeError, "tensor: data of dtype <U1"),
    (lambda: nc.tensor([[1], [1, 2]]), DtypeError, "tensor: the data is no array"),
    (lambda: nc.tensor(None), DtypeError, "tensor: data of dtype object"),
    (lambda: ag.mul(ones(2), [1j]), DtypeError, "mul: tensor: data of dtype complex128"),
    (lambda: ag.sum([[1], [1, 2]]), NetclError, "sum: .*inhomogeneous"),
    # indices and classes
    (lambda: ag.index_select(ones(3), 0, ints(3)), AttributeValueError, "index 3; expected 0 to 2"),
    (lambda: ag.gather(ones(3), 0, ints(-1)), AttributeValueError, "gather: the index -1; exp"),
    (lambda: ag.embedding(ints(5), ones(5, 2)), AttributeValueError, "embedding: .*index 5; exp"),
    (lambda: ag.one_hot(ints(5), 5), AttributeValueError, "one_hot: the index 5; expected 0 to 4"),
    (lambda: ag.cross_entropy(ones(1, 3), ints(3)), AttributeValueError, "cross_entropy: class i"),
    (lambda: ag.cross_entropy(ones(2, 3), ints(1)), ShapeError, "cross_entropy: input .* and targ"),
    (lambda: ag.nll_loss(ones(1, 3), ints(-1)), AttributeValueError, "nll_loss: class index -1 in"),
    (lambda: ones(3)[3], IndexError, "getitem: 3 on axis 0; expected -3 to 2"),
    (lambda: ones(3)[0, 0], ShapeError, r"getitem: \(0, 0\) for shape \(3,\); expected 1 entries"),
    (lambda: ones(3)["a"], ArgumentError, "getitem: an index of type str; expected ints, slices"),
    (lambda: ones(3)[1.0], ArgumentError, "getitem: an index of type float"),
    # axes
    (lambda: ag.sum(ones(3), 1), AttributeValueError, "sum: axis 1 of a tensor with 1 dimensions"),
    (lambda: ag.sum(ones(3), (0, 0)), AttributeValueError, r"sum: the axes \(0, 0\); expected"),
    (lambda: ag.sum(ones(3), axis=0, dim=0), ArgumentError, "sum: axis and dim were given"),
    (lambda: ag.softmax(ones(3), 1.0), AttributeValueError, "softmax: the axis 1.0; expected an"),
    (lambda: ag.softmax(ones(3), math.nan), AttributeValueError, "softmax: the axis nan"),
    (lambda: ag.permute(ones(2, 3), (0, 0)), AttributeValueError, r"permute: dims \(0, 0\); expec"),
    (lambda: ag.transpose(ones(2, 3), 0), AttributeValueError, "transpose: one axis; expected two"),
    (lambda: ag.cumsum(ones(3), None), AttributeValueError, "cumsum: the axis None; expected an"),
    (lambda: ag.flatten(ones(2, 3), 1, 0), AttributeValueError, "flatten: start_dim 1 after end_d"),
    # attributes
    (lambda: ag.leaky_relu(ones(3), "x"), AttributeValueError, "leaky_relu: negative_slope='x' is"),
    (lambda: ag.gelu(ones(3), "exact"), AttributeValueError, "gelu: approximate='exact'; expected"),
    (lambda: ag.gelu(ones(3), exact=True), AttributeValueError, "gelu: the attribute 'exact' is"),
    (lambda: ag.clamp(ones(3), None, "b"), AttributeValueError, "clamp: max='b' is not a number"),
    (lambda: ag.dropout(ones(3), 1.5), AttributeValueError, "dropout: p=1.5; expected a probabil"),
    (lambda: ag.dropout(ones(3), math.nan), AttributeValueError, "dropout: p=nan"),
    (lambda: ag.split(ones(3), 0), AttributeValueError, "split: pieces of 0; expected 1 or more"),
    (lambda: ag.chunk(ones(3), math.nan), AttributeValueError, "chunk: chunks=nan; expected an"),
    (lambda: ag.pad(ones(3), (1,)), AttributeValueError, "pad_nd: 1 sizes; expected pairs"),
    (lambda: ag.pad(ones(3), (1, 1), "mirror"), AttributeValueError, "pad: mode='mirror'"),
    (lambda: ag.pad(ones(3), (1.5, 1)), NetclError, "pad: "),
    (lambda: ag.pad(ints(3), (1, 1), value=0.5), AttributeValueError, "pad_nd: value=0.5; exp"),
    (lambda: ag.mse_loss(ones(3), ones(3), "all"), AttributeValueError, "mse_loss: reduction='all"),
    (lambda: ag.nll_loss(ones(1, 3), ints(1), None, 1.5), NetclError, r"nll_loss: .*\(.*float"),
    (lambda: ag.group_norm(ones(2, 3), 2), ShapeError, "group_norm: x of shape .* in 2 groups"),
    (lambda: nc.manual_seed(-1), AttributeValueError, "manual_seed: -1; expected an int"),
    # calls
    (lambda: ag.softmax(ones(3), axes=0), ArgumentError, r"softmax: .*'axes'; expected softmax\(x"),
    (lambda: ag.add(ones(3)), ArgumentError, "add: 1 positional arguments"),
    (lambda: ag.exp(), ArgumentError, "exp: 0 positional arguments"),
    (lambda: ag.exp("a"), ArgumentError, "exp: an operand of type str; expected tensors"),
    (lambda: ag.add(None, 1), ArgumentError, "add: an operand of type NoneType"),
    (lambda: ag.max(None), ArgumentError, r"max: amax: it was given \(None"),
    (lambda: ag.layer_norm(None, 3), NetclError, "layer_norm: "),
    # gradients
    (lambda: ag.backward(ones(2)), GradientError, "backward: no input of this value requires"),
    (lambda: ag.backward("x"), ArgumentError, "backward: str; expected a Node or a Tensor"),
    (lambda: ints(1).requires_grad_(), DtypeError, "requires_grad: a int64 tensor; expected a"),
    (lambda: ag.grad(ones(2).requires_grad_() * 2, []), ValueError, "backward: a value of shape"),
)  # fmt: skip


@pytest.mark.parametrize(("wrong", "error", "text"), TABLE, ids=[row[2][:40] for row in TABLE])
def test_a_mistake_is_named(wrong: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        wrong()


def test_an_error_keeps_its_cause_and_its_place() -> None:
    """The plugin's own exception is the cause, for whoever looks for a bug there."""
    with pytest.raises(ArgumentError) as caught:
        ag.max(None)
    assert isinstance(caught.value.__cause__, AttributeError)
    frames = [entry.name for entry in caught.traceback]
    assert frames[0] == "test_an_error_keeps_its_cause_and_its_place"


# -- what is legal ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 1e300, -1e300])
def test_non_finite_numbers_are_legal(number: float) -> None:
    """As scalars and as attributes; what float32 cannot hold is infinite, without a warning."""
    x = np.float32([1, -2, 0.5])
    t, negative = nc.tensor(x), nc.tensor(x < 0)
    found = {
        "mul": t * number,
        "add": number + t,
        "maximum": ag.maximum(t, number),
        "clamp": ag.clamp(t, min=number),
        "leaky_relu": ag.leaky_relu(t, number),
        "masked_fill": ag.masked_fill(t, negative, number),
        "pad": ag.pad(t, (1, 0), value=number),
        "where": ag.where(negative, number, t),
        "full": nc.Tensor.full((3,), number),
    }
    with np.errstate(all="ignore"):
        wide = np.float32(number)
        wanted = {
            "mul": x * wide,
            "add": x + wide,
            "maximum": np.maximum(x, wide),
            "clamp": np.maximum(x, wide),
            "leaky_relu": np.where(x < 0, x * wide, x),
            "masked_fill": np.where(x < 0, wide, x),
            "pad": np.r_[wide, x],
            "where": np.where(x < 0, wide, x),
            "full": np.full(3, wide),
        }
    for name, result in found.items():
        np.testing.assert_array_equal(result.to_host(), wanted[name], err_msg=name)
