"""The cases of the ops of this plugin: what each is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import FLOATS, INTEGERS, Case, indices, masks, normal, uniform, whole

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_tensor.composed_cases import COMPOSED
from netcl_plugin_tensor.further_cases import FURTHER, WITHOUT
from netcl_plugin_tensor.more_cases import MORE
from netcl_plugin_tensor.noise_cases import NOISE
from netcl_plugin_tensor.norm_runs import NORM_RUNS

X = normal()
TIES = whole(-4, 4)
ALL = ("bool", *INTEGERS, *FLOATS)
AT_TIES = {"gradient": "ties are kinks"}
AT_NAN = {"non-finite": "PyTorch sends the gradient of NaN to every NaN, amax to none"}
Shape = tuple[int, ...]


def each(*shapes: Shape) -> list[list[Shape]]:
    """Variants of an op with one input."""
    return [[shape] for shape in shapes]


#: Odd sizes, one element, none, five dimensions, primes around the vector widths.
COMMON = each((4, 3, 5), (1, 1, 1), (0, 3, 5), (2, 3, 1, 5, 7), (3, 17, 31))
FULL = each((4, 3, 5), (1, 1, 1), (2, 3, 1, 5, 7), (3, 17, 31))


def moves(op: str, *args: Any, torch: Any = None, shapes: Any = COMMON, note: str = "") -> Case:
    """An op that moves elements and takes every dtype; called with `args` here and there."""
    there = torch or (lambda t, x: getattr(t, op)(x, *args))
    words = note or "-".join(str(arg).replace(" ", "") for arg in args)
    return Case(op, (X,), there, call=lambda x: getattr(ag, op)(x, *args), shapes=shapes,
                note=words, dtypes=ALL)  # fmt: skip


SHAPES: Sequence[Case] = [
    moves("reshape", (3, -1), torch=lambda t, x: x.reshape(3, -1),
          shapes=each((4, 3, 5), (0, 3, 5), (2, 3, 1, 5, 7))),
    moves("reshape", (), torch=lambda t, x: x.reshape(()), shapes=each((1, 1), (1,)), note="0-d"),
    moves("flatten"),
    moves("flatten", 1, -1),
    moves("unsqueeze", -1),
    moves("unsqueeze", 1),
    moves("squeeze", shapes=each((4, 1, 5), (1, 1), (0, 1), (2, 1, 3, 1, 2))),
    moves("squeeze", 1, shapes=each((4, 1, 5), (4, 3))),
    moves("permute", (2, 0, 1), shapes=each((4, 3, 5), (1, 1, 1), (0, 3, 5), (33, 17, 2))),
    moves("permute", (5, 2, 0, 4, 1, 3), shapes=each((2, 3, 2, 1, 3, 2))),
    moves("transpose", 1, 2),
    moves("transpose", torch=lambda t, x: x.permute(*reversed(range(x.ndim))), note="reversed"),
    moves("expand", (7, 4, 3, 5), torch=lambda t, x: x.expand(7, 4, 3, 5), shapes=each((4, 3, 5))),
    moves("expand", (2, 6, -1), torch=lambda t, x: x.expand(2, 6, -1),
          shapes=each((2, 1, 5), (1, 6, 17), (1, 1, 1))),
    moves("broadcast_to", (2, 3, 5), shapes=each((2, 1, 5), (1,), (3, 1), ())),
]  # fmt: skip


def taking(note: str, index: Any, shapes: Any = FULL) -> Case:
    """Indexing by ints, slices, None and Ellipsis."""
    return Case("getitem", (X,), lambda t, x: x[index], call=lambda x: x[index], shapes=shapes,
                note=note, dtypes=ALL)  # fmt: skip


def written(t: Any, x: Any, values: Any) -> Any:
    """PyTorch's `x[[2, 0]] = values`, without changing x."""
    return x.index_put((t.tensor([2, 0]),), values.expand(2, *x.shape[1:]))


def sliced(x: Any, values: Any) -> Any:
    """PyTorch's `x[1:, ::2] = values` on a copy."""
    out = x.clone()
    out[1:, ::2] = values
    return out


INDEXING: Sequence[Case] = [
    taking("int", 0),
    taking("negative", -1),
    taking("slice", slice(1, 3)),
    taking("steps", (slice(None, None, 2), slice(None), slice(1, None, 3)), COMMON),
    taking("mixed", (1, ..., None, slice(1, 3)), each((4, 3, 5), (2, 3, 1, 5, 7))),
    taking("ellipsis", (..., 0)),
    taking("empty", slice(2, 2)),
    taking("ints", (0, 1, 2), each((4, 3, 5))),
    Case("getitem", (X,), lambda t, x: x.flip(0, 1)[:, ::2], call=lambda x: x[::-1, ::-2],
         shapes=each((4, 5), (1, 1), (3, 8, 2)), note="reversed", dtypes=ALL),
    taking("list", [1, 0, 1], each((4, 3, 5), (2, 3, 1, 5, 7))),
    taking("lists", ([1, 0], slice(None), [2, 2]), each((4, 3, 5))),
    Case("getitem", (X, masks()), lambda t, x, m: x[m != 0], call=lambda x, m: x[m.detach() != 0],
         shapes=[[(4, 3, 5)] * 2, [(17, 3), (17,)], [(0, 3)] * 2], note="mask", gradients=(0,),
         dtypes=ALL, skip={"fused": "the host reads the mask"}),
    Case("index_put", (X, X), written, call=lambda x, v: ag.index_put(x, [2, 0], v), dtypes=ALL,
         shapes=[[(4, 3), (2, 3)], [(3, 1, 5), (2, 1, 1)], [(3, 0), (2, 0)], [(3,), ()]]),
    Case("index_put", (X, X), lambda t, x, v: sliced(x, v), dtypes=ALL, note="slices",
         call=lambda x, v: ag.index_put(x, (slice(1, None), slice(None, None, 2)), v),
         shapes=[[(4, 5), (3, 3)], [(2, 2, 3), (3,)], [(1, 4), (0, 2)]]),
]  # fmt: skip

THREE = ((2, 3, 4), (2, 1, 4), (2, 5, 4))
JOINING: Sequence[Case] = [
    Case("cat", (X, X, X), lambda t, *x: t.cat(x, 1), call=lambda *x: ag.cat(x, 1), dtypes=ALL,
         shapes=[THREE, [(1, 1)] * 3, [(0, 3), (0, 0), (0, 2)], [(2, 3, 1, 5, 7)] * 3]),
    Case("cat", (X, X), lambda t, *x: t.cat(x), call=lambda *x: ag.cat(x), dtypes=ALL,
         shapes=[[(2, 3), (0, 3)], [(17,), (31,)]], note="first"),
    Case("stack", (X, X), lambda t, *x: t.stack(x, -1), call=lambda *x: ag.stack(x, -1),
         dtypes=ALL, shapes=[[(2, 3, 4)] * 2, [()] * 2, [(0, 3)] * 2, [(2, 3, 1, 5, 7)] * 2]),
    Case("split", (X,), lambda t, x: x.split(2, 1)[-1], call=lambda x: ag.split(x, 2, 1)[-1],
         dtypes=ALL, shapes=COMMON),
    Case("split", (X,), lambda t, x: x.split([1, 4], 1)[1],
         call=lambda x: ag.split(x, [1, 4], 1)[1], dtypes=ALL, shapes=each((2, 5, 4)),
         note="sections"),
    Case("chunk", (X,), lambda t, x: x.chunk(3, 1)[-1], call=lambda x: ag.chunk(x, 3, 1)[-1],
         dtypes=ALL, shapes=each((4, 7, 5), (1, 1, 1), (2, 3, 1, 5, 7))),
    moves("flip", (0, 2)),
    Case("pad", (X,), lambda t, x: t.nn.functional.pad(x, (1, 2, 0, 3), value=2.0), dtypes=ALL,
         call=lambda x: ag.pad(x, (1, 2, 0, 3), value=2.0), shapes=COMMON),
    Case("pad", (X,), lambda t, x: t.nn.functional.pad(x, (-1, 2, 3, -2)), note="crop",
         call=lambda x: ag.pad(x, (-1, 2, 3, -2)), dtypes=ALL, shapes=each((2, 5, 4), (3, 31, 17))),
    *(Case("pad", (X,), lambda t, x, mode=mode: t.nn.functional.pad(x, (3, 1, -1, 2), mode),
           call=lambda x, mode=mode: ag.pad(x, (3, 1, -1, 2), mode), note=mode, dtypes=ALL,
           shapes=each((2, 1, 4, 5), (1, 3, 31, 4)))
      for mode in ("reflect", "replicate", "circular")),
]  # fmt: skip

SELECTING: Sequence[Case] = [
    Case("index_select", (X, indices(5)), lambda t, x, i: x.index_select(1, i), dtypes=ALL,
         call=lambda x, i: ag.index_select(x, 1, i),
         shapes=[[(4, 5, 6), (9,)], [(1, 5), (0,)], [(2, 5, 1, 3, 7), (1,)]]),
    Case("gather", (X, indices(5)), lambda t, x, i: x.gather(1, i), dtypes=ALL,
         call=lambda x, i: ag.gather(x, 1, i),
         shapes=[[(4, 5, 6), (3, 7, 2)], [(2, 5), (0, 3)], [(2, 5, 1, 3, 7), (2, 5, 1, 3, 7)]]),
    Case("gather", (X, indices(4)), lambda t, x, i: x.gather(0, i), dtypes=ALL,
         call=lambda x, i: ag.gather(x, 0, i), shapes=[[(5, 6), (9, 6)], [(4,), (1,)]],
         note="first"),
    Case("embedding", (indices(11), X), "nn.functional.embedding", dtypes=ALL,
         shapes=[[(4, 5), (11, 6)], [(), (11, 1)], [(0,), (11, 3)], [(2, 1, 3), (11, 17)]]),
    Case("index_select", (X, indices(5, "int32")), lambda t, x, i: x.index_select(0, i.long()),
         call=lambda x, i: ag.index_select(x, 0, i), shapes=[[(5, 17), (9,)]], note="int32",
         dtypes=ALL),
    Case("embedding", (indices(11, "uint8"), X), dtypes=ALL, shapes=[[(4, 5), (11, 6)]],
         torch=lambda t, i, w: t.nn.functional.embedding(i.long(), w), note="uint8"),
    Case("one_hot", (whole(0, 6),), lambda t, i: t.nn.functional.one_hot(i.long(), 7),
         call=lambda i: ag.one_hot(i, 7), shapes=each((3, 5), (), (1,), (2, 1, 3, 1, 2)),
         differentiable=False, dtypes=INTEGERS),
    Case("masked_fill", (X, masks()), lambda t, x, m: x.masked_fill(m, 7.0), dtypes=ALL,
         call=lambda x, m: ag.masked_fill(x, m, 7.0),
         shapes=[[(4, 5, 6), (4, 5, 6)], [(3, 17), (17,)], [(0, 3), (1, 3)], [(1,), (1,)]]),
]  # fmt: skip


def reduction(op: str, dim: Any, inputs: Any = X, torch: Any = None, **rest: Any) -> Case:
    """A reduction over one, several or all axes."""

    def there(t: Any, x: Any) -> Any:
        over = tuple(range(x.ndim)) if dim is None else dim
        return getattr(t, op)(x, dim=over)

    return Case(op, (inputs,), torch or there, call=lambda x: getattr(ag, op)(x, dim),
                note=str(dim).replace(" ", ""), **rest)  # fmt: skip


DIMS = (None, 0, -1, (0, 2))
SUMMED = each((5, 17, 19), (1, 1, 1), (0, 3, 5), (2, 3, 1, 5, 7), (3, 2, 301))
REDUCED = each((5, 17, 19), (1, 1, 1), (2, 3, 1, 5, 7), (3, 2, 301))
REDUCTIONS: Sequence[Case] = [
    *(reduction("sum", dim, shapes=SUMMED, dtypes=ALL) for dim in DIMS),
    *(reduction("mean", dim, shapes=REDUCED) for dim in DIMS),
    *(reduction(op, dim, shapes=REDUCED, inputs=TIES, dtypes=ALL, skip=AT_TIES)
      for op in ("amax", "amin") for dim in DIMS),
    *(Case(op, (TIES,), op, shapes=REDUCED, dtypes=ALL, skip=AT_TIES | AT_NAN)
      for op in ("max", "min")),
    *(Case(op, (X,), lambda t, x, op=op, dim=dim: getattr(t, op)(x, dim).values, dtypes=ALL,
           call=lambda x, op=op, dim=dim: getattr(ag, op)(x, dim).values, shapes=REDUCED,
           note=f"values{dim}")
      for op in ("max", "min") for dim in (0, -1)),
    *(Case(op, (TIES,), lambda t, x, op=op: getattr(t, op)(x, 1, True).indices, note="indices",
           call=lambda x, op=op: getattr(ag, op)(x, 1, True).indices, shapes=REDUCED, dtypes=ALL,
           differentiable=False) for op in ("max", "min")),
    *(Case("topk", (X,), lambda t, x, largest=largest: t.topk(x, 1, 0, largest).values,
           call=lambda x, largest=largest: ag.topk(x, 1, 0, largest).values,
           shapes=REDUCED, note=f"1{largest}", dtypes=ALL) for largest in (True, False)),
    Case("topk", (X,), lambda t, x: t.topk(x, 3, -1).values,
         call=lambda x: ag.topk(x, 3, -1).values, shapes=each((5, 17, 19), (3,), (2, 3, 1, 5, 7)),
         dtypes=ALL),
    *(reduction(op, dim, shapes=REDUCED, inputs=TIES, dtypes=ALL, differentiable=False,
                torch=lambda t, x, op=op, dim=dim: getattr(x, op)(dim))
      for op in ("argmax", "argmin") for dim in (None, 0, 1, -1)),
    Case("sum", (X,), lambda t, x: x.sum((0, 1), keepdim=True),
         call=lambda x: ag.sum(x, axis=(0, 1), keepdims=True), shapes=SUMMED, note="keepdims",
         dtypes=ALL),
    Case("prod", (TIES,), "prod", {"dim": 1}, dtypes=ALL,
         shapes=each((4, 6, 5), (1, 1), (3, 0), (2, 3, 1, 5, 7))),
    Case("prod", (uniform(0.5, 1.5),), "prod", shapes=each((17,), (1,), (0,)), note="all",
         dtypes=ALL),
    Case("cumsum", (X,), "cumsum", {"dim": 1}, shapes=COMMON, dtypes=ALL),
    Case("cumsum", (X,), "cumsum", {"dim": -1}, shapes=COMMON, dtypes=ALL),
    Case("var", (X,), "var", {"dim": 1}, shapes=FULL[:1] + FULL[2:]),
    Case("var", (X,), "var", shapes=each((17,), (4, 3, 5)), note="all"),
    Case("std", (X,), lambda t, x: x.std((0, 2), correction=0, keepdim=True),
         {"dim": (0, 2), "correction": 0, "keepdim": True}, shapes=FULL[:1] + FULL[2:]),
    Case("logsumexp", (normal(10),), "logsumexp", {"dim": 1}, shapes=FULL,
         dtypes=ALL),
    Case("logsumexp", (normal(10),), lambda t, x: t.logsumexp(x, (0, 2)), {"dim": (0, 2)},
         shapes=FULL, note="two", dtypes=ALL),
]  # fmt: skip

LINES = each((5, 17, 19), (1, 1, 1), (0, 3, 5), (2, 3, 1, 5, 7), (3, 15), (3, 16), (2, 301))
SOFT: Sequence[Case] = [
    *(Case(op, (normal(3),), op, {"dim": dim}, shapes=LINES)
      for op in ("softmax", "log_softmax") for dim in (-1, 0)),
    Case("softmax", (normal(3),), "softmax", {"dim": 1}, shapes=LINES),
]  # fmt: skip


OWN_NUMBERS = {
    "PyTorch": "its random numbers are its own",
    "threads": "the seed is the process's, for all threads",
}


def dropped(x: Any) -> Any:
    """dropout with the same mask every time."""
    nc.manual_seed(3)
    return ag.dropout(x, 0.3)


#: The plain cases meet non-finite values.
FOLDED = {"non-finite": "PyTorch folds weight and statistics, so that an infinite weight gives NaN"}
NORMS: Sequence[Case] = [
    Case("l2_normalize", (X,), lambda t, x: t.nn.functional.normalize(x, dim=-1),
         shapes=each((4, 6, 5), (1, 2), (0, 3), (2, 3, 1, 5, 7)), dtypes=ALL),
    Case("layer_norm", (X, X, X), lambda t, x, w, b: t.nn.functional.layer_norm(x, (6, 5), w, b),
         call=lambda x, w, b: ag.layer_norm(x, (6, 5), w, b),
         shapes=[[(4, 6, 5), (6, 5), (6, 5)], [(6, 5)] * 3, [(2, 1, 3, 6, 5), (6, 5), (6, 5)]]),
    Case("layer_norm", (X,), lambda t, x: t.nn.functional.layer_norm(x, (17,)),
         call=lambda x: ag.layer_norm(x, 17), shapes=each((3, 17), (0, 17)), note="plain"),
    Case("rms_norm", (X, X), lambda t, x, w: t.nn.functional.rms_norm(x, (5,), w, 1e-6),
         call=lambda x, w: ag.rms_norm(x, 5, w, 1e-6),
         shapes=[[(4, 6, 5), (5,)], [(5,), (5,)], [(2, 1, 3, 1, 5), (5,)]]),
    Case("layer_norm", (X, X, X), lambda t, x, w, b: t.nn.functional.layer_norm(x, w.shape, w, b),
         call=lambda x, w, b: ag.layer_norm(x, w.shape, w, b), note="rows",
         shapes=[[(4, 6, 5), (5,), (5,)], [(8,)] * 3, [(2, 1, 3, 4, 8), (4, 8), (4, 8)],
                 [(0, 6), (6,), (6,)], [(3, 1031), (1031,), (1031,)]]),
    Case("rms_norm", (X, X), lambda t, x, w: t.nn.functional.rms_norm(x, w.shape, w, 1e-6),
         call=lambda x, w: ag.rms_norm(x, w.shape, w, 1e-6), note="rows",
         shapes=[[(4, 6, 5), (5,)], [(8,), (8,)], [(2, 4100), (4100,)]]),
    Case("group_norm", (X, X, X), lambda t, x, w, b: t.nn.functional.group_norm(x, 2, w, b),
         call=lambda x, w, b: ag.group_norm(x, 2, w, b),
         shapes=[[(4, 6, 5), (6,), (6,)], [(1, 2, 3), (2,), (2,)], [(0, 2, 3), (2,), (2,)],
                 [(2, 4, 3, 1, 5), (4,), (4,)], [(3, 4, 35), (4,), (4,)]], skip=FOLDED),
    Case("batch_norm", (X, X, X),
         lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
         call=lambda x, w, b: ag.batch_norm(x, None, None, w, b, training=True),
         shapes=[[(4, 6, 5), (6,), (6,)], [(7, 3), (3,), (3,)], [(2, 4, 3, 1, 5), (4,), (4,)]],
         skip=FOLDED),
    Case("group_norm", (X,), lambda t, x: t.nn.functional.group_norm(x, 3), note="plain",
         call=lambda x: ag.group_norm(x, 3), shapes=each((4, 6, 5), (1, 3, 17))),
    Case("batch_norm", (X,),
         lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True), note="plain",
         call=lambda x: ag.batch_norm(x, None, None, training=True), shapes=each((4, 6, 5))),
    Case("batch_norm", (X, uniform(-1, 1), uniform(0.5, 2)),
         lambda t, x, m, v: t.nn.functional.batch_norm(x, m, v), note="running", gradients=(0,),
         call=lambda x, m, v: ag.batch_norm(x, m.detach(), v.detach()),
         shapes=[[(4, 6, 5), (6,), (6,)], [(1, 3), (3,), (3,)]], dtypes=ALL),
    Case("batch_norm", (X, X, X),
         lambda t, x, w, b: t.nn.functional.batch_norm(x, None, None, w, b, training=True),
         call=lambda x, w, b: ag.batch_norm(x, None, None, w, b, training=True), note="runs",
         shapes=[[(3, 5, 7, 7), (5,), (5,)], [(33, 2, 300), (2,), (2,)]], skip=FOLDED),
    Case("batch_norm", (X, uniform(-1, 1), uniform(0.5, 2), X, X),
         lambda t, x, m, v, w, b: t.nn.functional.batch_norm(x, m, v, w, b), note="evaluation",
         call=lambda x, m, v, w, b: ag.batch_norm(x, m.detach(), v.detach(), w, b),
         shapes=[[(4, 6, 5), *((6,),) * 4]], gradients=(0, 3, 4), skip=FOLDED, dtypes=ALL),
    Case("instance_norm", (X, X, X),
         lambda t, x, w, b: t.nn.functional.instance_norm(x, weight=w, bias=b),
         call=lambda x, w, b: ag.instance_norm(x, weight=w, bias=b), skip=FOLDED,
         shapes=[[(4, 6, 5), (6,), (6,)], [(1, 2, 3), (2,), (2,)],
                 [(2, 3, 4, 1, 35), (3,), (3,)]]),
    Case("dropout", (X,), call=dropped, shapes=COMMON,
         skip=OWN_NUMBERS),
]  # fmt: skip


def drawn(op: str, *args: Any) -> Case:
    """The same random numbers every time, as many as x has elements."""

    def call(x: Any) -> Any:
        nc.manual_seed(3)
        return getattr(ag, op)(x if op.endswith("_like") else x.shape, *args, dtype="float32")

    return Case(
        op, (X,), call=call, shapes=COMMON, differentiable=False, dtypes=ALL, skip=OWN_NUMBERS
    )


def permuted(x: Any) -> Any:
    """The same order every time."""
    nc.manual_seed(3)
    return ag.randperm(x.size)


def whole_numbers(x: Any) -> Any:
    """The same numbers of -3 to 6 every time."""
    nc.manual_seed(3)
    return ag.randint(-3, 7, x.shape)


def whole_numbers_like(x: Any) -> Any:
    """The same numbers of 0 to 6 every time."""
    nc.manual_seed(3)
    return ag.randint_like(x, 7, dtype="int32")


RANDOM: Sequence[Case] = [
    *(drawn(op) for op in ("rand", "randn", "rand_like", "randn_like")),
    Case("randint", (X,), call=whole_numbers, shapes=COMMON, differentiable=False,
         dtypes=ALL, skip=OWN_NUMBERS),
    Case("randint_like", (X,), call=whole_numbers_like, shapes=COMMON, differentiable=False,
         dtypes=ALL, skip=OWN_NUMBERS),
    Case("randperm", (X,), call=permuted, shapes=COMMON, differentiable=False,
         dtypes=ALL, skip=OWN_NUMBERS),
]  # fmt: skip


def rectified(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, batches: Any, added: Any = None
) -> Any:
    """A norm in training with a relu behind it or its sum, and what it has moved."""
    running = mean.detach(), variance.detach()
    count = batches.astype("int64")
    values, _, _, *moved = NORM_RUNS(x, weight, bias, 0, 1e-5, *running, 0.1, count)
    values = values if added is None else ag.add(values, added)
    return ag.relu(values), *(value.detach() for value in moved)


BLOCK_END = "bias_dropout_residual_layer_norm"
#: The inputs in the order of the graph's names: x, bias, residual, weight, shift.
PATTERNS: list[Case] = [
    Case(BLOCK_END, (X,) * 5, attrs={"p": 0.25, "over": shape[-1], "eps": 1e-5}, note=note,
         shapes=[[shape, shape[-1:], shape, shape[-1:], shape[-1:]]],
         skip={"threads": "the seed is the process's, for all threads"})
    for note, shape in (("odd", (5, 7)), ("wide", (3, 64)), ("axes", (2, 3, 20)),
                        ("long", (9, 1031)), ("rows", (301, 16)), ("empty", (0, 3)))
]  # fmt: skip
STATE = (uniform(-1, 1), uniform(0.5, 2), whole(0, 9))
for note, shape in (("runs", (4, 6, 5)), ("columns", (7, 3)), ("planes", (3, 5, 7, 7))):
    shapes = [shape, *[shape[1:2]] * 4, ()]
    PATTERNS += [
        Case("batch_norm_relu", (X, X, X, *STATE), call=rectified, note=note, shapes=[shapes],
             gradients=(0, 1, 2), skip=FOLDED),
        Case("batch_norm_add_relu", (X, X, X, *STATE, X), call=rectified, note=note,
             shapes=[[*shapes, shape]], gradients=(0, 1, 2, 6), skip=FOLDED),
    ]  # fmt: skip

CASES = [
    *PATTERNS,
    *MORE,
    *COMPOSED,
    *FURTHER,
    *SHAPES,
    *INDEXING,
    *JOINING,
    *SELECTING,
    *REDUCTIONS,
    *SOFT,
    *NORMS,
    *RANDOM,
    *NOISE,
]


def cases(op: str) -> Sequence[Case] | str:
    """The cases of an op, or why it has none."""
    return WITHOUT.get(op) or [case for case in CASES if case.op == op]
