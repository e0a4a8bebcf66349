"""The cases of the losses, in every form: what each is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import Case, indices, uniform, whole

from netcl_plugin_losses.class_cases import CLASS_MARGINS
from netcl_plugin_losses.form_cases import (
    AT_EDGES,
    AT_TIES,
    BEYOND,
    INFINITE,
    LOGITS,
    PAIRS,
    REDUCTIONS,
    TRIPLES,
    WEIGHT,
    P,
    Shape,
    X,
    distribution,
    edges,
    logarithms,
    loss,
    with_ignored,
)

REGRESSION = [
    *loss("mse_loss", (X, X), [*PAIRS, [(0, 3)] * 2], reductions=("sum", "none"), note="empty"),
    *loss("mse_loss", (X, X)),
    *loss("l1_loss", (X, X)),
    *loss("l1_loss", (whole(-2, 2), whole(-2, 2)), note="ties", skip=AT_TIES),
    *loss("smooth_l1_loss", (X, X)),
    *loss("smooth_l1_loss", (X, X), beta=0.3),
    *loss("smooth_l1_loss", (X, X), beta=1, note="int"),
    *loss("smooth_l1_loss", (whole(-2, 2), whole(-2, 2)), beta=0, skip=AT_TIES),
    *loss("huber_loss", (X, X)),
    *loss("huber_loss", (X, X), delta=0.4),
]
BINARY = [
    *loss("binary_cross_entropy", (P, P), skip=BEYOND),
    *loss("binary_cross_entropy", (edges, edges), note="edges", skip=AT_EDGES),
    *loss("binary_cross_entropy", (P, P, WEIGHT), TRIPLES, ["weight"], skip=BEYOND),
    *loss("binary_cross_entropy_with_logits", (LOGITS, P), skip=INFINITE),
    *loss("binary_cross_entropy_with_logits", (LOGITS, P, WEIGHT, WEIGHT),
          [[(5, 7), (5, 7), (5, 7), (7,)]], ["weight", "pos_weight"], skip=INFINITE),
    *loss("kl_div", (logarithms, distribution), reductions=(*REDUCTIONS, "batchmean")),
    *loss("kl_div", (logarithms, edges), note="edges", gradients=(0,),
          skip={"non-finite": "PyTorch's 0 * inf is NaN where a target of 0 has no loss"}),
    *loss("kl_div", (logarithms, logarithms), log_target=True),
]  # fmt: skip
ONE_ROW: Sequence[Shape] = [(7,), ()]
ROWS: Sequence[Sequence[Shape]] = [
    [(5, 7), (5,)],
    [(33, 7), (33,)],
    [(3, 7, 6), (3, 6)],
    [(2, 7, 3, 1, 5), (2, 3, 1, 5)],
]
WEIGHTED: Sequence[Sequence[Shape]] = [[*shapes, (7,)] for shapes in ROWS]
CLASSES = [
    *loss("cross_entropy", (LOGITS, indices(7)), [*ROWS, ONE_ROW]),
    *loss("cross_entropy", (LOGITS, indices(40)), [[(4, 40), (4,)], [(2, 61), (2,)]], note="long"),
    *loss("cross_entropy", (LOGITS, with_ignored(7)), ROWS, note="ignored"),
    *loss("cross_entropy", (LOGITS, with_ignored(7, 2)), ROWS[:1], ignore_index=2),
    *loss("cross_entropy", (LOGITS, indices(7), WEIGHT), WEIGHTED, ["weight"]),
    *loss("cross_entropy", (LOGITS, indices(7)), [*ROWS, ONE_ROW], label_smoothing=0.3),
    *loss("cross_entropy", (LOGITS, with_ignored(7), WEIGHT), WEIGHTED, ["weight"],
          label_smoothing=0.2),
    *loss("cross_entropy", (LOGITS, with_ignored(40, 3), WEIGHT), [[(4, 40), (4,), (40,)]],
          ["weight"], label_smoothing=0.2, ignore_index=3),
    *loss("cross_entropy", (LOGITS, distribution),
          [[(5, 7)] * 2, [(7,)] * 2, [(2, 7, 3, 1, 5)] * 2], note="probabilities", gradients=(0,)),
    *loss("cross_entropy", (LOGITS, distribution, WEIGHT), [[(3, 7, 2), (3, 7, 2), (7,)]],
          ["weight"], note="probabilities", gradients=(0,), label_smoothing=0.1),
    *loss("nll_loss", (logarithms, indices(7)), [*ROWS, ONE_ROW]),
    *loss("nll_loss", (logarithms, with_ignored(7), WEIGHT), WEIGHTED, ["weight"]),
    *loss("nll_loss", (logarithms, with_ignored(7, 1)), ROWS[:3], ignore_index=1),
]  # fmt: skip
LABELS = {"near misses": "labels of fewer classes, or another ignored index, are refused"}
WRITTEN_OUT = [
    Case("cross_entropy_written_out", (LOGITS, sample), note=note,
         attrs={"dim": dim, "ignore_index": -100, "reduction": reduction}, shapes=shapes,
         skip=LABELS if note else {})
    for note, sample, dim, shapes in (
        ("", indices(1), 1, ROWS),
        ("ignored", with_ignored(7), 1, ROWS),
        ("one row", indices(7), 0, [ONE_ROW]),
    )
    for reduction in REDUCTIONS
] + [
    Case("weighted_cross_entropy_written_out", (LOGITS, with_ignored(7), WEIGHT), gradients=(0,),
         attrs={"dim": 1, "ignore_index": -100, "reduction": reduction}, shapes=WEIGHTED,
         skip=LABELS)
    for reduction in REDUCTIONS
]  # fmt: skip


def signs(random: np.random.Generator, shape: Shape) -> Any:
    """1 and -1."""
    return random.choice([1.0, -1.0], shape)


MARGINS = [
    *loss("margin_ranking_loss", (X, X, signs), TRIPLES, margin=0.25, gradients=(0, 1)),
    *loss("triplet_margin_loss", (X, X, X), [TRIPLES[0], TRIPLES[2]]),
    *loss("triplet_margin_loss", (X, X, X), [TRIPLES[0]], reductions=("sum",), p=3.0, swap=True,
          margin=0.5, skip={"non-finite": "PyTorch gives an infinite norm no gradient"}),
]  # fmt: skip
PER_ROW: Sequence[Sequence[Shape]] = [[(5, 7), (5, 7), (5,)], [(1, 3), (1, 3), (1,)]]
SIGNS = [
    *loss("soft_margin_loss", (X, signs), gradients=(0,)),
    *loss("hinge_embedding_loss", (X, signs), margin=0.5, gradients=(0,)),
    *loss("cosine_embedding_loss", (X, X, signs), PER_ROW, margin=-0.1, gradients=(0, 1)),
]
REFUSED = {"non-finite": "PyTorch refuses negative variances, which are not looked at here"}
SPREAD = uniform(0.5, 2)
COUNTS = whole(0, 9)
LIKELIHOODS = [
    *loss("gaussian_nll_loss", (X, X, SPREAD), [*TRIPLES, *PER_ROW], skip=REFUSED),
    *loss("gaussian_nll_loss", (X, X, SPREAD), [[(5, 7), (5, 7), (5, 1)]], full=True, eps=1.0,
          reductions=("sum",), skip=REFUSED | {"gradient": "below eps it is that of eps itself"}),
    *loss("poisson_nll_loss", (X, COUNTS), full=True, gradients=(0,)),
    *loss("poisson_nll_loss", (SPREAD, COUNTS), log_input=False, gradients=(0,)),
]  # fmt: skip
CASES = [
    *SIGNS,
    *LIKELIHOODS,
    *MARGINS,
    *REGRESSION,
    *BINARY,
    *CLASSES,
    *WRITTEN_OUT,
    *CLASS_MARGINS,
]


def cases(op: str) -> Sequence[Case]:
    """The cases of an op."""
    return [case for case in CASES if case.op == op]
