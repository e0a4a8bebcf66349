"""ctc_loss: how unlikely the outputs of a sequence make its labels, in whatever places they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from netcl_plugin_tensor.selecting import GATHER

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError, message
from netcl_plugin_losses.arguments import checked, floating

_WHO: Final = "ctc_loss"
#: The logarithm of what counts as 0: its gradients are numbers, which those of -inf are not.
_NEVER: Final = -1e30


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """Connectionist temporal classification: -log of the sum over all alignments with the labels.

    >>> outputs = nc.log_softmax(nc.zeros(2, 1, 3), -1)
    >>> round(ag.ctc_loss(outputs, nc.tensor([[1]]), (2,), (1,)).item(), 4)  # -log(3 / 9)
    1.0986

    Args:
        log_probs: Logarithms of probabilities, as `log_softmax` gives them, (T, N, C) or (T, C).
        targets: The labels, integers: (N, S), or all sequences' one after the other; of a
            single sequence (S,).
        input_lengths: How many outputs of each sequence count, (N,) or a number. They and the
            other lengths are read by the host.
        target_lengths: How many labels each sequence has.
        blank: The class that stands for no label.
        reduction: `'mean'` of the losses over the numbers of labels, `'sum'` or `'none'`.
        zero_infinity: Whether the loss of labels that do not fit into their sequence counts as 0,
            and has no gradient, in place of infinity.

    The gradient is PyTorch's: the gradient of logits behind `log_softmax`. It is the same once it
    has gone back through `log_softmax`.

    Raises:
        ShapeError: Shapes and lengths do not fit each other.
        AttributeValueError: A label or `blank` is no class.

    (Graves, Fernandez, Gomez, Schmidhuber 2006, doi:10.1145/1143844.1143891)
    """
    checked(_WHO, reduction)
    x, labels = ag.as_operands(log_probs, targets)
    floating(_WHO, "log_probs", x)
    if x.ndim not in (2, 3):
        raise ShapeError(message(_WHO, f"log_probs of shape {x.shape}", "(T, N, C) or (T, C)"))
    single = x.ndim == 2
    if single:
        x = ag.unsqueeze(x, 1)
    steps, batch, classes = x.shape
    if isinstance(blank, bool) or not isinstance(blank, int) or not 0 <= blank < classes:
        raise AttributeValueError(message(_WHO, f"blank={blank!r}", f"0 to {classes - 1}"))
    lengths = _lengths("input_lengths", input_lengths, batch, steps)
    counts = _lengths("target_lengths", target_lengths, batch, None)
    paths = _extended(labels, counts, batch, blank, classes)
    wide = x.astype(nc.DTYPES[x.dtype].wide)
    loss = _losses(wide, paths, lengths, counts, blank)
    impossible = ag.gt(loss, -_NEVER / 2)
    loss = ag.where(impossible, 0.0 if zero_infinity else np.inf, loss)
    live = ag.logical_not(impossible) if zero_infinity else None
    loss = ag.add(loss, _of_logits(wide, lengths, live)).astype(x.dtype)
    if reduction == "sum":
        return ag.sum(loss)
    if reduction == "none":
        return ag.squeeze(loss, 0) if single else loss
    shares = Tensor.from_host(np.maximum(counts, 1).astype("float32"), x.device)
    return ag.mean(ag.div(loss, shares.astype(x.dtype)))


def _lengths(name: str, given: Any, batch: int, most: int | None) -> Any:
    """Lengths as int64 on the host."""
    lengths = np.asarray(given.to_host() if isinstance(given, Tensor) else given)
    if not lengths.size and not batch:
        return np.zeros(0, np.int64)
    if not np.issubdtype(lengths.dtype, np.integer):
        raise DtypeError(message(_WHO, f"{name} of dtype {lengths.dtype}", "integers"))
    if lengths.size != batch:
        given = f"{name} of shape {lengths.shape}"
        raise ShapeError(message(_WHO, given, f"one for each of {batch} sequences"))
    lengths = lengths.reshape(batch).astype(np.int64)
    if batch and (lengths.min() < 0 or (most is not None and lengths.max() > most)):
        expected = "none below 0" if most is None else f"0 to {most}"
        raise ShapeError(message(_WHO, f"{name} of {lengths.tolist()}", expected))
    return lengths


def _extended(labels: Any, counts: Any, batch: int, blank: int, classes: int) -> Any:
    """(N, 2 * most labels + 1): blanks, with the labels between them."""
    if nc.DTYPES[labels.dtype].category != 1:
        raise DtypeError(message(_WHO, f"targets of dtype {labels.dtype}", "integers"))
    most, names = int(counts.max(initial=0)), labels.astype("int64")
    taps = np.arange(most)
    if labels.ndim == 2:
        fits = labels.shape[0] == batch and most <= labels.shape[1]
        begins = np.arange(batch) * labels.shape[1]
    else:
        fits = labels.ndim == 1 and int(counts.sum()) == labels.size
        begins = np.cumsum(counts) - counts
    if not fits:
        given = f"targets of shape {labels.shape} with lengths {counts.tolist()}"
        raise ShapeError(message(_WHO, given, f"(N, S), N = {batch}, or (sum of the lengths,)"))
    there = taps < counts[:, None]
    places = np.where(there, begins[:, None] + taps, 0)
    shape, device = (batch, 2 * most + 1), labels.device
    if not most or not batch:
        return Tensor.full(shape, blank, "int64", device)
    ag.check_data(_check_labels, (labels.value,), (places[there], classes))
    flat = Tensor.from_host(places.reshape(-1).astype(np.int64), device)
    taken = ag.reshape(ag.index_select(ag.reshape(names, (-1,)), 0, flat), (batch, most))
    taken = ag.where(Tensor.from_host(there, device), taken, blank)
    pairs = ag.stack([taken, Tensor.full((batch, most), blank, "int64", device)], 2)
    first = Tensor.full((batch, 1), blank, "int64", device)
    return ag.cat([first, ag.reshape(pairs, (batch, 2 * most))], 1)


def _check_labels(given: Sequence[Any], settings: Any) -> None:
    """Raise AttributeValueError for a label that counts and is no class."""
    labels, (places, classes) = given[0], settings
    low, high = labels.int_range()
    if low >= 0 and high < classes:
        return
    chosen = labels.to_host().reshape(-1)[places]
    for label in chosen[(chosen < 0) | (chosen >= classes)][:1]:
        raise AttributeValueError(message(_WHO, f"the label {label}", f"0 to {classes - 1}"))


def _losses(x: Any, paths: Any, lengths: Any, counts: Any, blank: int) -> Any:
    """Minus the logarithm of the sum over all alignments, (N,), by the forward recursion."""
    steps, batch, _ = x.shape
    places, device = paths.shape[1], x.device
    index = ag.expand(ag.unsqueeze(paths, 0), (steps, batch, places))
    heard = ag.clamp(GATHER(x, 2, index), min=_NEVER) if steps else None
    begin = Tensor.from_host(np.where(np.arange(places + 2) == 2, 0.0, _NEVER), device)
    ahead = ag.expand(ag.unsqueeze(begin.astype(x.dtype), 0), (batch, places + 2))
    never = ag.getitem(ahead, (slice(None), slice(0, 2)))
    with ag.no_grad():  # a label may follow another at once, unless it is the same
        skips = ag.cat([ag.full((batch, 2), blank, dtype="int64", device=device), paths], 1)
        before = ag.getitem(skips, (slice(None), slice(0, places)))
        may_skip = ag.logical_and(ag.ne(paths, blank), ag.ne(paths, before))
    state = ag.getitem(ahead, (slice(None), slice(2, None)))
    for t in range(int(lengths.max(initial=0))):
        ahead = ag.cat([never, state], 1)
        two = ag.where(may_skip, ag.getitem(ahead, (slice(None), slice(0, places))), _NEVER)
        one = ag.getitem(ahead, (slice(None), slice(1, places + 1)))
        moved = ag.add(ag.logaddexp(ag.logaddexp(state, one), two), ag.getitem(heard, t))
        if (lengths > t).all():
            state = moved
        else:
            live = Tensor.from_host((lengths > t)[:, None], device)
            state = ag.where(live, moved, state)
    ends = Tensor.from_host(np.stack([2 * counts, np.maximum(2 * counts - 1, 0)], 1), device)
    last = ag.gather(state, 1, ends)
    some = Tensor.from_host((counts > 0)[:, None] | np.array([True, False]), device)
    last = ag.where(some, last, _NEVER)
    return ag.neg(ag.logaddexp(ag.select(last, 1, 0), ag.select(last, 1, 1)))


def _of_logits(x: Any, lengths: Any, live: Any) -> Any:
    """Zeros (N,) with the gradient of sum(exp(x)) over what counts: a softmax's part of it."""
    inside = np.arange(x.shape[0])[:, None, None] < lengths[:, None]
    shares = ag.where(Tensor.from_host(inside, x.device), ag.exp(x), 0.0)
    total = ag.sum(shares, (0, 2))
    if live is not None:
        total = ag.where(live, total, 0.0)
    return ag.sub(total, total.detach())


def records() -> Sequence[ag.Operator]:
    """The losses of this module."""
    return [ag.composite(ctc_loss)]
