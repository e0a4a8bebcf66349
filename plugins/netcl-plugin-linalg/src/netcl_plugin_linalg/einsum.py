"""einsum: sums of products by subscripts, as products of matrices from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import netcl_core.autograd as ag
from netcl_core import DTYPES
from netcl_core.autograd import composite
from netcl_core.errors import ArgumentError, DtypeError, ShapeError, message
from netcl_plugin_linalg.products import sum_of_products

#: A letter, or one of the dimensions that an ellipsis stands for.
Label: TypeAlias = str
#: A tensor and the labels of its dimensions.
Labelled: TypeAlias = tuple[Any, tuple[Label, ...]]
_ELLIPSIS: Final = "..."


def einsum(equation: str, *operands: Any) -> Any:
    """The sum of products that subscripts tell, by Einstein's convention.

    >>> ag.einsum("bij,bjk->bik", nc.rand(8, 2, 3), nc.rand(8, 3, 4)).shape
    (8, 2, 4)

    Args:
        equation: Letters for the dimensions of each operand, separated by commas, and after `->`
            the result's: `"bij,bjk->bik"`. Without `->` the result has the letters that
            come once, in order. `...` stands for all other dimensions; a letter that an operand
            has twice takes its diagonal.
        operands: Tensors of one dtype, or a list of them.

    The operands are multiplied from left to right. Raises ArgumentError for an equation that is
    none, ShapeError for sizes that do not fit it.
    """
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], list) else operands
    if not given:
        raise ArgumentError(message("einsum", "no operands", "at least one"))
    terms = ag.as_operands(*given)
    inputs, output = _parsed(equation, [term.ndim for term in terms])
    dtypes = sorted({term.dtype for term in terms})
    if len(dtypes) > 1:
        several = " and ".join(dtypes)
        raise DtypeError(message("einsum", several, "one dtype", "Convert one with astype"))
    pairs = [_diagonal(x, labels) for x, labels in zip(terms, inputs, strict=True)]
    pairs = _without_ones(pairs)
    while len(pairs) > 1:
        first, second, *rest = pairs
        kept = {*output}.union(*(labels for _, labels in rest))
        pairs = [_product(_summed(first, kept | {*second[1]}), _summed(second, kept | {*first[1]}),
                          kept), *rest]  # fmt: skip
    x, labels = _summed(pairs[0], {*output})
    return x if labels == output else ag.permute(x, [labels.index(label) for label in output])


# -- the equation ----------------------------------------------------------------------------


def _parsed(
    equation: Any, ndims: Sequence[int]
) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """The labels of each operand, and of the result."""
    if not isinstance(equation, str) or equation.count("->") > 1:
        raise _wrong(f"the equation {equation!r}", "subscripts such as 'ij,jk->ik'")
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ndims):
        raise _wrong(
            f"{len(parts)} subscripts in {equation!r} for {len(ndims)} operands", "as many"
        )
    inputs = [_labels(part, ndim) for part, ndim in zip(parts, ndims, strict=True)]
    every = [label for labels in inputs for label in labels]
    rest = sorted({label for label in every if label.startswith(".")}, reverse=True)
    if not arrow:
        once = sorted(label for label in {*every} if every.count(label) == 1 and label.isalpha())
        return inputs, (*rest, *once)
    output = _split(right, rest)
    unknown = [label for label in output if label not in every]
    if unknown or len({*output}) < len(output):
        given = f"the result {right!r} of {left!r}"
        raise _wrong(given, "letters of the operands, each once")
    return inputs, output


def _labels(part: str, ndim: int) -> tuple[Label, ...]:
    """The labels of an operand; those of an ellipsis are numbered from the right."""
    count = len(part.replace(_ELLIPSIS, ""))
    spare = ndim - count
    if spare < 0 or (spare and _ELLIPSIS not in part):
        given = f"the subscripts {part!r} for {ndim} dimensions"
        raise ShapeError(message("einsum", given, "a letter for each, or '...' for several"))
    return _split(part, [f".{i:03}" for i in range(spare - 1, -1, -1)])


def _split(part: str, rest: Sequence[Label]) -> tuple[Label, ...]:
    before, dots, after = part.partition(_ELLIPSIS)
    if not (before + after).isascii() or not (before + after or "a").isalpha():
        raise _wrong(f"the subscripts {part!r}", "letters, and '...' at most once")
    return (*before, *(rest if dots else ()), *after)


def _wrong(given: str, expected: str) -> ArgumentError:
    return ArgumentError(message("einsum", given, expected))


# -- the operands ----------------------------------------------------------------------------


def _diagonal(x: Any, labels: tuple[Label, ...]) -> Labelled:
    """An operand with each label once."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            size = x.shape[first]
            if size != x.shape[second]:
                given = f"{label!r} for sizes {size} and {x.shape[second]}"
                raise ShapeError(message("einsum", given, "one size"))
            others = [i for i in range(x.ndim) if i not in (first, second)]
            x = ag.reshape(ag.permute(x, [*others, first, second]),
                           (*[x.shape[i] for i in others], size * size))  # fmt: skip
            x = ag.getitem(x, (..., slice(None, None, size + 1)))
            labels = (*[labels[i] for i in others], label)
    return x, labels


def _without_ones(pairs: Sequence[Labelled]) -> list[Labelled]:
    """Operands without the dimensions of size 1 that others have with another size."""
    sizes: dict[Label, int] = {}
    for x, labels in pairs:
        for label, size in zip(labels, x.shape, strict=True):
            known = sizes.setdefault(label, size)
            if 1 not in (known, size) and known != size:
                given = f"{label!r} for sizes {known} and {size}"
                raise ShapeError(message("einsum", given, "equal sizes, or 1"))
            sizes[label] = size if known == 1 else known
    terms = []
    for x, labels in pairs:
        kept = [i for i, label in enumerate(labels) if x.shape[i] == sizes[label]]
        x = x if len(kept) == x.ndim else ag.reshape(x, [x.shape[i] for i in kept])
        terms.append((x, tuple([labels[i] for i in kept])))
    return terms


def _summed(pair: Labelled, kept: set[Label]) -> Labelled:
    """An operand summed over the labels that nothing else has."""
    x, labels = pair
    over = [i for i, label in enumerate(labels) if label not in kept]
    if not over:
        return pair
    return ag.sum(x, over, dtype=x.dtype), tuple([label for label in labels if label in kept])


# -- products ----------------------------------------------------------------------------------


def _product(first: Labelled, second: Labelled, kept: set[Label]) -> Labelled:
    """The product of two operands, summed over what both have and nothing else."""
    (x, a), (y, b) = first, second
    shared = [label for label in a if label in b]
    batch = [label for label in shared if label in kept]
    inner = [label for label in shared if label not in kept]
    rows = [label for label in a if label not in b]
    columns = [label for label in b if label not in a]
    if not inner or (not rows and not columns and DTYPES[x.dtype].floating):
        order = (*batch, *rows, *columns, *inner)
        places = tuple(range(len(order) - len(inner), len(order)))
        x, y = (_aligned(operand, order) for operand in (first, second))
        product = sum_of_products(x, y, places) if inner else ag.mul(x, y)
        return product, order[: len(order) - len(inner)]
    sizes = dict(zip((*a, *b), (*x.shape, *y.shape), strict=True))
    x, turned_x = _as_matrices(first, batch, rows, inner, sizes)
    y, turned_y = _as_matrices(second, batch, inner, columns, sizes)
    labels = (*batch, *rows, *columns)
    product = ag.matmul(x, y, turned_x, turned_y)
    return _shaped(product, [sizes[label] for label in labels]), labels


def _shaped(x: Any, shape: Sequence[int]) -> Any:
    """In another shape; as it is where that is its own, so that neighbours may join its kernel."""
    return x if x.shape == tuple(shape) else ag.reshape(x, shape)


def _aligned(pair: Labelled, order: Sequence[Label]) -> Any:
    """An operand that broadcasts against others with their labels in an order."""
    x, labels = pair
    own = [label for label in order if label in labels]
    if tuple(own) != labels:
        x = ag.permute(x, [labels.index(label) for label in own])
    sizes = dict(zip(own, x.shape, strict=True))
    return _shaped(x, [sizes.get(label, 1) for label in order])


def _as_matrices(
    pair: Labelled,
    batch: Sequence[Label],
    rows: Sequence[Label],
    columns: Sequence[Label],
    sizes: dict[Label, int],
) -> tuple[Any, bool]:
    """An operand as matrices, and whether they are transposed: then nothing has to be moved."""
    x, labels = pair
    turned = labels == (*batch, *columns, *rows) and bool(rows) and bool(columns)
    outer, inner = (columns, rows) if turned else (rows, columns)
    order = (*batch, *outer, *inner)
    if labels != order:
        x = ag.permute(x, [labels.index(label) for label in order])
    lead = [math.prod(sizes[label] for label in batch)] if batch else []
    heights = [math.prod(sizes[label] for label in part) for part in (outer, inner)]
    return _shaped(x, [*lead, *heights]), turned


OPERATORS = (composite(einsum, method=False),)
