"""The cases of tensors put together and taken apart, and of what lines say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import Case, whole

import netcl_core.autograd as ag
from netcl_plugin_tensor.composed_cases import MATRICES, READ, joined
from netcl_plugin_tensor.more_cases import ALL, FEW, X, of

REAL = ALL[1:]
WIDE = ("float32", "float64")
ONE: Sequence[Sequence[tuple[int, ...]]] = [[(4, 3, 5)], [(7, 2)]]
FLOATING = ("bfloat16", "float16", "float32", "float64")
#: Where PyTorch refuses what the definition needs not.
NO_BOOL = {"refusal": "bool is taken as 0 and 1"}
ROUNDED = {"refusal": "whole numbers become floats"}


def last(op: str, *args: Any, **rest: Any) -> Case:
    """A case of the last of several results."""
    return Case(op, (X,), lambda t, x: getattr(t, op)(x, *args)[-1], note="last",
                call=lambda x: getattr(ag, op)(x, *args)[-1],
                **{"shapes": ONE, "dtypes": ALL, **rest})  # fmt: skip


def values(op: str, *args: Any, inputs: Any = X, **rest: Any) -> Case:
    """A case of the values of a named tuple."""
    return Case(op, (inputs,), lambda t, x: getattr(t, op)(x, *args)[0],
                call=lambda x: getattr(ag, op)(x, *args)[0], note="values",
                **{"shapes": ONE, "dtypes": ALL, **rest})  # fmt: skip


PUT_TOGETHER: Sequence[Case] = [
    *(of(f"atleast_{n}d", dtypes=ALL, shapes=[[(5,)], [(2, 3)], [()]]) for n in (1, 2, 3)),
    of("constant_pad_nd", (1, -1, 0, 2), 3, dtypes=ALL, shapes=ONE),
    joined("column_stack", [[(4, 3), (4, 2)], [(4,), (4, 2)]]),
    joined("dstack", [[(4, 3), (4, 3)], [(5,), (5,)]]),
    Case("broadcast_tensors", (X, X), lambda t, x, y: t.broadcast_tensors(x, y)[1], dtypes=ALL,
         call=lambda x, y: ag.broadcast_tensors(x, y)[1], shapes=[[(4, 3), (3,)]], gradients=[1]),
    Case("block_diag", (X, X), "block_diag", shapes=[[(2, 3), (4, 1)], [(3,), (2, 2)]], dtypes=ALL),
    Case("cartesian_prod", (X, X), "cartesian_prod", shapes=[[(3,), (4,)]], dtypes=ALL),
    of("combinations", 2, dtypes=ALL, shapes=[[(5,)], [(1,)]]),
    of("combinations", 3, True, dtypes=ALL, shapes=[[(4,)]]),
    of("sum_to_size", (3, 1), torch=lambda t, x: x.sum_to_size(3, 1), dtypes=ALL,
       shapes=[[(4, 3, 5)], [(3, 1)]]),
    of("rot90", dtypes=ALL, shapes=MATRICES),
    of("rot90", -1, (2, 0), dtypes=ALL),
    last("tensor_split", 2), last("hsplit", 2, shapes=[[(3, 4)], [(6,)]]),
    last("vsplit", (1,), shapes=[[(3, 4)]]), last("dsplit", 2, shapes=[[(3, 2, 4)]]),
    of("diag_embed", dtypes=ALL, shapes=[[(4, 3)], [(5,)]]),
    of("diag_embed", -2, 0, 1, dtypes=ALL, shapes=[[(4, 3)], [(5,)]]),
    of("diagflat", 1, dtypes=ALL, shapes=[[(2, 3)], [(5,)]]),
    Case("select_scatter", (X, X), lambda t, x, s: t.select_scatter(x, s, 1, -1), dtypes=ALL,
         call=lambda x, s: ag.select_scatter(x, s, 1, -1), shapes=[[(4, 3, 5), (4, 5)]]),
    Case("slice_scatter", (X, X), lambda t, x, s: t.slice_scatter(x, s, 0, 1, None, 2),
         call=lambda x, s: ag.slice_scatter(x, s, 0, 1, None, 2), shapes=[[(5, 3), (2, 3)]],
         dtypes=ALL),
    Case("diagonal_scatter", (X, X), lambda t, x, s: t.diagonal_scatter(x, s, 1), dtypes=ALL,
         call=lambda x, s: ag.diagonal_scatter(x, s, 1), shapes=[[(4, 5), (4,)]]),
    Case("as_strided_scatter", (X, X), dtypes=ALL, shapes=[[(4, 5), (2, 3)]],
         gradients=[1],  # PyTorch's of x is 0 where nothing is put
         torch=lambda t, x, s: t.as_strided_scatter(x, s, (2, 3), (5, 1), 2),
         call=lambda x, s: ag.as_strided_scatter(x, s, (2, 3), (5, 1), 2),
         skip={"strided": "its places are those of the memory"}),
    of("take", [3, 0, -1], dtypes=ALL, torch=lambda t, x: t.take(x, t.tensor([3, 0, -1])),
       shapes=ONE),
    Case("put", (X, X), lambda t, x, s: x.put(t.tensor([3, 0]), s),
         call=lambda x, s: ag.put(x, [3, 0], s),
         shapes=[[(4, 3), (2,)]], dtypes=ALL),
    Case("masked_scatter", (X, X), lambda t, x, s: x.masked_scatter(x > 0, s),
         call=lambda x, s: ag.masked_scatter(x, x > 0, s), shapes=[[(4, 3), (4, 3)]],
         dtypes=ALL, skip={**READ, "gradient": "the mask is that of the input"}),
    of("take_along_dim", [[0, 2], [1, 1]], 1, dtypes=ALL, shapes=[[(2, 3)]],
       torch=lambda t, x: t.take_along_dim(x, t.tensor([[0, 2], [1, 1]]), 1)),
    Case("unravel_index", (whole(0, 11),), lambda t, x: t.unravel_index(x.long(), (3, 4))[0],
         call=lambda x: ag.unravel_index(x, (3, 4))[0].astype("int64"), dtypes=("int64",),
         shapes=[[(7,)], [(2, 3)]], differentiable=False, skip={"refusal": "any integers"}),
    *(Case(op, (X,), lambda t, x, op=op: getattr(t, op)(3, 4, 1) + 0 * x.long().sum(),
           call=lambda x, op=op: ag.add(getattr(ag, op)(3, 4, 1, device=x.device),
                                        ag.mul(ag.sum(x), 0).astype("int64")), shapes=[[(3,)]],
           dtypes=("float32",), differentiable=False,
           skip=dict.fromkeys(("refusal", "non-finite"), "there is no operand"))
      for op in ("tril_indices", "triu_indices")),
    Case("logspace", (X,), lambda t, x: t.logspace(-1, 2, 5), shapes=[[(3,)]], dtypes=("float32",),
         call=lambda x: ag.add(ag.logspace(-1, 2, 5, device=x.device), ag.mul(ag.sum(x), 0)),
         differentiable=False,
         skip=dict.fromkeys(("refusal", "non-finite"), "there is no operand")),
    of("channel_shuffle", 2, torch=lambda t, x: t.nn.functional.channel_shuffle(x, 2),
       shapes=[[(2, 4, 3)], [(1, 6, 2, 2)]], dtypes=ALL),
]  # fmt: skip
TOLD: Sequence[Case] = [
    *(Case(op, (X,), lambda t, x, op=op, i=i: getattr(t, op)(x, 1)[i], note=str(i),
           call=lambda x, op=op, i=i: getattr(ag, op)(x, 1)[i], shapes=ONE, dtypes=WIDE,
           skip=ROUNDED | {"non-finite": "differences of infinities"})
      for op in ("std_mean", "var_mean") for i in (0, 1)),
    Case("aminmax", (X,), lambda t, x: t.aminmax(x, dim=1)[1], shapes=ONE, dtypes=ALL,
         call=lambda x: ag.aminmax(x, dim=1).max),
    Case("dist", (X, X), "dist", shapes=[[(4, 3), (4, 3)], [(4, 3), (3,)]], dtypes=FLOATING,
         skip=ROUNDED | {"non-finite": "PyTorch's slope there is inf / inf"}),
    of("renorm", 2, 0, 1.0, shapes=[[(4, 3)], [(2, 3, 5)]], dtypes=WIDE,
       skip=ROUNDED | {"non-finite": "norms that are not"}),
    *(of(op, shapes=ONE, dtypes=WIDE, skip=ROUNDED | {"non-finite": "PyTorch subtracts infinities"})
      for op in ("trapezoid", "trapz", "cumulative_trapezoid")),
    Case("trapezoid", (X, X), "trapezoid", note="places", shapes=[[(4, 3), (3,)]], dtypes=WIDE,
         skip=ROUNDED),
    of("msort", dtypes=ALL, shapes=ONE),
    of("quantile", 0.3, 1, shapes=ONE, dtypes=WIDE, skip={"non-finite": "lerp of infinities"}),
    of("nanquantile", 0.6, 1, shapes=ONE, dtypes=WIDE, skip={"non-finite": "lerp of infinities"}),
    values("nanmedian", 1, shapes=[*ONE, [(2, 70)]]),
    values("mode", 1, inputs=FEW, differentiable=False,
           skip={"non-finite": "PyTorch counts each NaN as another"}),
    values("cummax", 1, inputs=X), values("cummin", 1, inputs=X),
    of("logcumsumexp", 1, shapes=ONE, dtypes=WIDE,
       skip=ROUNDED | {"gradient at NaN": "of infinities", "non-finite": "of infinities"}),
    Case("searchsorted", (X, X), lambda t, s, v: t.searchsorted(s.sort()[0], v),
         call=lambda s, v: ag.searchsorted(ag.sort(s).values, v), dtypes=REAL,
         shapes=[[(7,), (4, 3)], [(4, 3), (4, 5)]], differentiable=False,
         skip=NO_BOOL | {"non-finite": "NaN is behind all numbers, not in PyTorch"}),
    Case("bucketize", (X, X), lambda t, v, s: t.bucketize(v, s.sort()[0], right=True), dtypes=REAL,
         call=lambda v, s: ag.bucketize(v, ag.sort(s).values, right=True),
         shapes=[[(4, 3), (7,)]], differentiable=False,
         skip=NO_BOOL | {"non-finite": "as of searchsorted"}),
    Case("isin", (FEW, FEW), "isin", shapes=[[(4, 3), (2,)], [(5,), (0,)]], dtypes=REAL,
         differentiable=False, skip=NO_BOOL),
    of("histc", 4, -2.0, 2.0, shapes=[[(4, 3)], [(31,)]], dtypes=FLOATING, differentiable=False),
    of("unique_consecutive", inputs=FEW, dtypes=ALL, differentiable=False, skip=READ),
    *(Case("scatter_reduce", (X, X), note=how, dtypes=ALL,
           torch=lambda t, x, s, how=how: x.scatter_reduce(0, t.tensor([1, 0, 1, 1]), s, how),
           call=lambda x, s, how=how: ag.scatter_reduce(x, 0, [1, 0, 1, 1], s, how),
           shapes=[[(3,), (4,)]], skip={"non-finite": "0 * inf"})
      for how in ("sum", "prod", "amax", "amin")),
    Case("scatter_reduce", (X, X), note="mean", dtypes=WIDE, shapes=[[(3,), (4,)]],
         torch=lambda t, x, s: x.scatter_reduce(0, t.tensor([1, 0, 1, 1]), s, "mean",
                                                include_self=False),
         call=lambda x, s: ag.scatter_reduce(x, 0, [1, 0, 1, 1], s, "mean", include_self=False),
         skip={"refusal": "integers are divided down"}),
    Case("index_reduce", (X, X), dtypes=REAL, shapes=[[(3, 2), (3, 2)]],
         torch=lambda t, x, s: x.index_reduce(0, t.tensor([1, 0, 1]), s, "amax"),
         call=lambda x, s: ag.index_reduce(x, 0, [1, 0, 1], s, "amax"),
         skip={**NO_BOOL, "gradient": "PyTorch's has none of a second order",
               "non-finite": "0 * inf"}),
]  # fmt: skip
NAMED: Sequence[Case] = [
    *(of(op, dtypes=ALL, shapes=ONE)
      for op in ("conj", "conj_physical", "resolve_conj", "resolve_neg")),
    *(Case(op, (X,), lambda t, x, op=op, given=given: getattr(t, op)(x, given, 1)[-1],
           call=lambda x, op=op, given=given: getattr(ag, op)(x, given, 1)[-1], dtypes=ALL,
           shapes=[[(4, 3)]])
      for op, given in (("split_with_sizes", (2, 1)), ("unsafe_split", 2), ("unsafe_chunk", 2))),
    of("fill", 2, dtypes=ALL, shapes=ONE),
    Case("fill", (X, X), "fill", shapes=[[(4, 3), ()]], note="a tensor", dtypes=ALL),
    *(Case("gradient", (X,), lambda t, x, k=k: t.gradient(x, spacing=0.5, edge_order=k)[0],
           call=lambda x, k=k: ag.gradient(x, spacing=0.5, edge_order=k)[0], note=str(k),
           shapes=[[(5, 3)], [(4, 3, 5)]], dtypes=WIDE,
           skip=ROUNDED | {"non-finite": "differences of infinities"}) for k in (1, 2)),
    Case("histogram", (X,), lambda t, x: t.histogram(x, 4, range=(-2.0, 2.0)).hist, dtypes=WIDE,
         call=lambda x: ag.histogram(x, 4, range=(-2.0, 2.0)).hist, shapes=[[(4, 3)], [(31,)]],
         differentiable=False, skip={"non-finite": "PyTorch counts NaN in the last part",
                                     "refusal": "and 16 bits"}),
    Case("nonzero_static", (FEW,), lambda t, x: t.nonzero_static(x, size=5), dtypes=ALL,
         call=lambda x: ag.nonzero_static(x, size=5), shapes=[[(4, 3)], [(2,)]],
         differentiable=False, skip=READ),
]  # fmt: skip
FURTHER = (*PUT_TOGETHER, *TOLD, *NAMED)
WITHOUT = {
    "bernoulli": "drawn by rand, which has cases",
    "normal": "drawn by randn, which has cases",
    "poisson": "random; tests/test_random.py looks at the numbers",
    "binomial": "as poisson",
    "random_log_gamma": "as poisson",
    "scalar_tensor": "it makes a tensor on the host",
    "broadcast_shapes": "it computes with shapes alone",
    "empty_permuted": "its numbers are any",
    "empty_strided": "its numbers are any",
    "creation": "it makes tensors on the host; tests/test_creation.py looks at them",
    "reductions": "its kernels are those of sum and prod, which have cases",
}
