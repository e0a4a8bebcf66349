"""The cases of margins between classes and of labels in sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import Case, indices, normal, uniform

import netcl_core.autograd as ag
from netcl_plugin_losses.form_cases import TRIPLES, WEIGHT, X, distribution, loss

#: Of five rows of seven scores, up to three labels each.
LABELS = np.array(
    [
        [3, 0, -1, 1, 1, 1, 1],
        [-1] * 7,
        [6, 6, 2, -1, 0, 0, 0],
        [0, 1, 2, 3, 4, 5, 6],
        [4] + [-1] * 6,
    ]
)
AT_INFINITY = {"non-finite": "margins to infinities"}


def labelled(reduction: str) -> Case:
    """multilabel_margin_loss with these labels."""
    return Case("multilabel_margin_loss", (X,), note=reduction, shapes=[[(5, 7)]],
                torch=lambda t, x: t.nn.functional.multilabel_margin_loss(
                    x, t.tensor(LABELS), reduction=reduction),
                call=lambda x: ag.multilabel_margin_loss(x, LABELS, reduction),
                skip=AT_INFINITY)  # fmt: skip


#: Labels one after the other; the second sequence has none, the third a repetition.
TARGETS, INPUTS, COUNTS = np.array([1, 2, 3, 3]), (7, 4, 6), (2, 0, 2)


def sequences(reduction: str, targets: Any, counts: Any, **attrs: Any) -> Case:
    """ctc_loss behind log_softmax, whose gradient is the loss's own."""

    def ours(x: Any) -> Any:
        outputs = ag.log_softmax(x, -1)
        return ag.ctc_loss(outputs, targets, INPUTS, counts, reduction=reduction, **attrs)

    def theirs(t: Any, x: Any) -> Any:
        outputs = x.log_softmax(-1)
        return t.nn.functional.ctc_loss(
            outputs, t.tensor(targets), INPUTS, counts, reduction=reduction, **attrs
        )

    note = f"{reduction}{np.ndim(targets)}"
    return Case("ctc_loss", (normal(),), theirs, call=ours, shapes=[[(7, 3, 5)]], note=note,
                skip={"non-finite": "no distributions", "refusal": "log_softmax refuses",
                      "values in float16": "PyTorch has none on the CPU",
                      "values in bfloat16": "PyTorch has none on the CPU"})  # fmt: skip


CLASS_MARGINS: Sequence[Case] = [
    *loss("multi_margin_loss", (X, indices(7)), [[(5, 7), (5,)], [(7,), ()]], gradients=(0,),
          skip=AT_INFINITY),
    *loss("multi_margin_loss", (X, indices(7), WEIGHT), [[(5, 7), (5,), (7,)]], ["weight"],
          reductions=("sum",), p=2, margin=0.5, gradients=(0,), skip=AT_INFINITY),
    *map(labelled, ("mean", "sum", "none")),
    *loss("multilabel_soft_margin_loss", (X, distribution), gradients=(0,), skip=AT_INFINITY),
    *loss("multilabel_soft_margin_loss", (X, uniform(0, 1), WEIGHT), [[(5, 7), (5, 7), (7,)]],
          ["weight"], reductions=("none",), gradients=(0,), skip=AT_INFINITY),
    *loss("triplet_margin_with_distance_loss", (X, X, X), [TRIPLES[0], TRIPLES[2]], swap=True,
          skip={"values in bfloat16": "which distance is the smaller one is rounded away"}),
    sequences("mean", TARGETS, COUNTS),
    sequences("none", np.array([[1, 2, 9], [9, 9, 9], [3, 3, 9]]) % 5, COUNTS),
    sequences("sum", TARGETS, (2, 0, 2), blank=4, zero_infinity=True),
]  # fmt: skip
