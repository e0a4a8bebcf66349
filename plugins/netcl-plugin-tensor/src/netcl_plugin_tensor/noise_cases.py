"""The cases of noise, of bags of embeddings, and of the distances of all pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import Case, indices, uniform

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_tensor.more_cases import X

OWN_NUMBERS = {
    "PyTorch": "its random numbers are its own",
    "threads": "the seed is the process's, for all threads",
}
FIGURES = [[(2, 5, 3, 4)], [(1, 1, 2, 2)], [(0, 3, 2, 2)]]


def drawn(op: str, *args: Any, shapes: Any, skip: Any = None, note: str = "") -> Case:
    """The same numbers every time."""

    def call(x: Any) -> Any:
        nc.manual_seed(3)
        return getattr(ag, op)(x, *args)

    return Case(op, (X,), call=call, shapes=shapes, note=note, skip=skip or OWN_NUMBERS)


#: Of the last bag nothing, of the first a row twice.
OFFSETS = np.array([0, 3, 5, 7])


def bags(note: str, weighted: bool = False, skip: Any = None, **attrs: Any) -> Case:
    """Bags of seven indices, of eleven rows."""
    inputs = (indices(11), X, uniform(0.5, 2))[: 3 if weighted else 2]

    def ours(index: Any, table: Any, factors: Any = None) -> Any:
        return ag.embedding_bag(index, table, OFFSETS, per_sample_weights=factors, **attrs)

    def theirs(t: Any, index: Any, table: Any, factors: Any = None) -> Any:
        bag, begins = t.nn.functional.embedding_bag, t.tensor(OFFSETS)
        return bag(index.long(), table, begins, per_sample_weights=factors, **attrs)

    shapes = [[(7,), (11, 6), (7,)][: len(inputs)]]
    return Case("embedding_bag", inputs, theirs, call=ours, shapes=shapes, note=note,
                skip={"non-finite": "0 times infinity",
                      "refusal": "whole numbers are added up", **(skip or {})})  # fmt: skip


NOISE: Sequence[Case] = [
    drawn("dropout1d", 0.3, shapes=[[(2, 5, 7)], [(5, 3)]]),
    drawn("dropout2d", 0.3, shapes=FIGURES),
    drawn("dropout3d", 0.3, shapes=[[(2, 5, 3, 2, 2)], [(5, 3, 2, 2)]]),
    drawn("alpha_dropout", 0.3, True, shapes=[[(7, 5)], [(0, 3)], [(1031,)]]),
    drawn("feature_alpha_dropout", 0.3, True, shapes=FIGURES),
    drawn("gumbel_softmax", 0.5, shapes=[[(7, 5)], [(1, 1)]],
          skip=OWN_NUMBERS | {"non-finite": "a softmax of infinities"}),
    drawn("gumbel_softmax", 0.5, True, note="hard", shapes=[[(7, 5)]],
          skip=OWN_NUMBERS | {"non-finite": "a softmax of infinities",
                              "gradient": "that of the soft sample"}),
    bags("sum", mode="sum"),
    bags("mean"),
    bags("max", mode="max"),
    bags("weights", True, mode="sum"),
    bags("padding", mode="sum", padding_idx=2, skip={"gradient": "the padding's row gets none"}),
    Case("embedding", (indices(5), X), note="frequency", shapes=[[(7,), (5, 6)]],
         torch=lambda t, i, w: t.nn.functional.embedding(i, w, scale_grad_by_freq=True),
         call=lambda i, w: ag.embedding(i, w, scale_grad_by_freq=True),
         skip={"gradient": "it is divided by how often a row is named", "refusal": "as above"}),
    *(Case("pdist", (X,), lambda t, x, p=p: t.pdist(x, p), {"p": p}, note=str(p), shapes=shapes,
           skip={"non-finite": "PyTorch's slope there is inf / inf"})
      for p, shapes in ((2.0, [[(5, 7)], [(2, 1)]]), (1.0, [[(5, 3)]]),
                        (3.0, [[(5, 3)]]))),
]  # fmt: skip
