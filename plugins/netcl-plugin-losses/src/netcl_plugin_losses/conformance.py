"""The cases of the losses, in every form: what each is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from netcl_plugin_kit.testing import Case, indices, normal, uniform, whole

import netcl_core.autograd as ag

Arrays = Sequence[Any]
Shape = tuple[int, ...]
X, LOGITS, P = normal(), normal(3), uniform(0.05, 0.95)
WEIGHT = uniform(0.25, 3)
REDUCTIONS = ("mean", "sum", "none")
#: Odd sizes, one element, five dimensions.
PAIRS: Sequence[Sequence[Shape]] = [[(5, 7)] * 2, [(1,)] * 2, [(2, 3, 1, 5, 7)] * 2]
AT_TIES = {"gradient": "equal inputs are kinks"}
BEYOND = {
    "non-finite": "PyTorch refuses probabilities beyond 0 to 1; here they are clamped, or give NaN"
}
AT_EDGES = BEYOND | {
    "gradient": "0 and 1 are the edges of the domain",
    "values in float64": "PyTorch's bounds are rounded there: its 1e-12 to float32, its 1 - 1e-7",
}
INFINITE = {
    "non-finite": "PyTorch's (1 - target) * input is NaN at -inf, where the loss is infinite"
}


def distribution(random: np.random.Generator, shape: Shape) -> Any:
    """Probabilities of classes along axis 1."""
    values = random.uniform(0.1, 1, shape)
    return values / values.sum(min(1, len(shape) - 1), keepdims=True)


def edges(random: np.random.Generator, shape: Shape) -> Any:
    """Probabilities of which half are 0 or 1, where logarithms are clamped."""
    return random.choice([0.0, 1.0, 0.25, 0.75], shape)


def logarithms(random: np.random.Generator, shape: Shape) -> Any:
    """Logarithms of probabilities."""
    return -random.uniform(0.05, 0.95, shape)


def with_ignored(classes: int, ignored: int = -100) -> Any:
    """Class indices, every third of them ignored."""

    def sample(random: np.random.Generator, shape: Shape) -> Any:
        found = np.asarray(random.integers(0, classes, shape))
        found.reshape(-1)[::3] = ignored
        return found  # fmt: skip

    return sample


def loss(
    op: str,
    inputs: Arrays,
    shapes: Sequence[Sequence[Shape]] = PAIRS,
    names: Sequence[str] = (),
    torch: Callable[..., Any] | None = None,
    note: str = "",
    reductions: Sequence[str] = REDUCTIONS,
    gradients: Sequence[int] | None = None,
    skip: Any = None,
    **attrs: Any,
) -> Iterator[Case]:
    """A case per reduction; the last inputs go by `names`, as `weight` does."""
    first = len(inputs) - len(names)

    def split(tensors: Arrays) -> tuple[Arrays, dict[str, Any]]:
        return tensors[:first], attrs | dict(zip(names, tensors[first:], strict=True))

    for reduction in reductions:

        def ours(*tensors: Any, reduction: str = reduction) -> Any:
            data, rest = split(tensors)
            return getattr(ag, op)(*data, **rest, reduction=reduction)  # fmt: skip

        def theirs(t: Any, *tensors: Any, reduction: str = reduction) -> Any:
            data, rest = split(tensors)
            function = torch or getattr(t.nn.functional, op)
            data = (t, *data) if torch else data
            return function(*data, **rest, reduction=reduction)

        words = [*names, *(f"{k}={v}" for k, v in attrs.items()), note, reduction]
        title = "-".join(filter(None, words))
        yield Case(op, inputs, theirs, call=ours, shapes=shapes, skip=skip or {},
                   gradients=gradients or range(first), note=title)  # fmt: skip


TRIPLES: Sequence[Sequence[Shape]] = [[(5, 7)] * 3, [(1,)] * 3, [(2, 3, 1, 5, 7)] * 3]
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
CASES = [*SIGNS, *LIKELIHOODS, *MARGINS, *REGRESSION, *BINARY, *CLASSES, *WRITTEN_OUT]


def cases(op: str) -> Sequence[Case]:
    """The cases of an op."""
    return [case for case in CASES if case.op == op]
