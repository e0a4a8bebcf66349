"""The training loop: what every reference run shares, without any presentation."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import numpy as np

from netcl_core import autograd as ag
from netcl_core import distributed, tensor
from netcl_core.errors import NetclError, message

#: Losses are fetched from the device in lots, since each fetch waits for it.
_FETCH_EVERY = 10


class TrainingError(NetclError, RuntimeError):
    """A run cannot go on: its loss is not finite."""


@final
@dataclass(slots=True)
class History:
    """What a run has done so far: the loss of every step, accuracy and seconds of every epoch."""

    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @property
    def steps_per_second(self) -> float:
        """Training steps per second; without the first epoch, which builds the kernels."""
        first = 1 if len(self.seconds) > 1 else 0
        seconds = sum(self.seconds[first:])
        return sum(self.steps[first:]) / seconds if seconds else 0.0


class Watcher(Protocol):
    """Who wants to know how a run goes on."""

    def step(self, steps: int, loss: float) -> None:
        """`steps` are done; `loss` is the newest that is known."""

    def epoch(self, epochs: int, history: History) -> None:
        """`epochs` are done."""


def fit(
    model: Any,
    optimizer: Any,
    loss: Callable[[Any, Any], Any],
    batches: Iterable[tuple[Any, Any]],
    epochs: int,
    evaluate: Callable[[Any], float] | None = None,
    watcher: Watcher | None = None,
    schedule: Callable[[int], float] | None = None,
    history: History | None = None,
) -> History:
    """Train a model; of a job of several processes each calls this with its part of the batches.

    Args:
        model: An nn.Module.
        optimizer: It holds the model's parameters.
        loss: `(output, target) -> 0-d loss`.
        batches: (input, target) tensors; iterated over once per epoch. If its sampler has
            `set_epoch`, that is called before.
        epochs: How often in all, with those of `history`.
        evaluate: `model -> accuracy`, called after each epoch; its time does not count.
        watcher: Told about the losses and epochs.
        schedule: `steps done -> learning rate` of the next step; None leaves it as it is.
        history: Of the run that this one goes on with; it is added to.

    The losses of several processes are averaged. Raises TrainingError if one is NaN or infinite.
    """
    history = History() if history is None else history
    set_epoch = getattr(getattr(batches, "sampler", None), "set_epoch", None)

    def step(inputs: Any, targets: Any, done: int) -> Any:
        value = loss(model(inputs), targets)
        optimizer.zero_grad()
        value.backward()
        if schedule is not None:
            optimizer.lr = schedule(done)
        optimizer.step()
        return value.detach()

    for epoch in range(len(history.seconds), epochs):
        begin, done = time.perf_counter(), len(history.losses)
        if set_epoch is not None:
            set_epoch(epoch)
        model.train()
        _epoch(step, batches, history, watcher)
        history.seconds.append(time.perf_counter() - begin)
        history.steps.append(len(history.losses) - done)
        if evaluate is not None:
            history.accuracies.append(evaluate(model))
        if watcher is not None:
            watcher.epoch(epoch + 1, history)
    return history


def _epoch(
    step: Callable[[Any, Any, int], Any],
    batches: Iterable[tuple[Any, Any]],
    history: History,
    watcher: Watcher | None,
) -> None:
    """All batches once; losses are fetched in lots."""
    waiting: list[Any] = []
    for inputs, targets in batches:
        waiting.append(step(inputs, targets, len(history.losses) + len(waiting)))
        if len(waiting) == _FETCH_EVERY:
            _fetch(waiting, history, watcher)
    _fetch(waiting, history, watcher)


def _fetch(waiting: list[Any], history: History, watcher: Watcher | None) -> None:
    """Read the losses that are still on the device."""
    losses = [float(value.item()) for value in waiting]
    if losses and distributed.get_world_size() > 1:  # so that all give up at the same step
        losses = distributed.all_reduce(tensor(losses, device="numpy"), "MEAN").tolist()
    for number in losses:
        history.losses.append(number)
        if not math.isfinite(number):
            given = f"the loss of step {len(history.losses)} is {number}"
            raise TrainingError(message("fit", given, "a finite loss", "Lower the learning rate"))
    if waiting and watcher is not None:
        watcher.step(len(history.losses), history.losses[-1])
    waiting.clear()


def accuracy(model: Any, batches: Iterable[tuple[Any, Any]]) -> float:
    """The share of samples whose largest output is their class; the model is not changed.

    `batches` are (input, class indices); the model runs in evaluation mode.
    """
    before, right, total = model.training, 0, 0
    model.eval()
    try:
        with ag.no_grad():
            for inputs, targets in batches:
                guesses = np.argmax(model(inputs).to_host(), axis=-1)
                right += int((guesses == np.asarray(targets)).sum())
                total += len(guesses)
    finally:
        model.train(before)
    return right / total if total else 0.0
