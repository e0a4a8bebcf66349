"""The training loop: what every reference run shares, without any presentation."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
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

    def step(self, steps: int, loss: float, rate: float) -> None:
        """`steps` are done; `loss` and the learning rate are the newest that are known."""

    def epoch(self, epochs: int, history: History) -> None:
        """`epochs` are done."""


@final
class Stop:
    """A request to end a run at the next step: in its `with` block, Ctrl-C. A second one is one.

    It is heard by the main thread alone, as Python's signals are.

    Attributes:
        asked: Whether this process was asked.
        agreed: Whether all processes end once the watchers know of the last step.
    """

    def __init__(self) -> None:
        self.asked = self.agreed = False
        self._before: Any = None

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _ask(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True


def fit(
    model: Any,
    optimizer: Any,
    loss: Callable[[Any, Any], Any],
    batches: Iterable[tuple[Any, Any]],
    epochs: int,
    evaluate: Callable[[Any], float] | None = None,
    watchers: Sequence[Watcher] = (),
    schedule: Callable[[int], float] | None = None,
    history: History | None = None,
    *,
    graph: bool = False,
    scaler: Any = None,
    casts: Callable[[], Any] = nullcontext,
    stop: Stop | None = None,
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
        watchers: Told about the losses and epochs, in their order.
        schedule: `steps done -> learning rate` of the next step; None leaves it as it is.
        history: Of the run that this one goes on with; it is added to.
        graph: Whether the first step with batches of a shape is captured, and then replayed.
        scaler: An `amp.GradScaler`, or None.
        casts: Makes the context of a forward pass, such as `amp.autocast`.
        stop: Asked after each step, of several processes after every ten.

    The losses of several processes are averaged. Raises TrainingError if one is NaN or infinite,
    KeyboardInterrupt if `stop` was asked for, once the watchers know of all steps.
    """
    history = History() if history is None else history
    set_epoch = getattr(getattr(batches, "sampler", None), "set_epoch", None)
    graphs: dict[Any, Any] = {}

    def step(inputs: Any, targets: Any) -> Any:
        optimizer.zero_grad()
        with casts():
            value = loss(model(inputs), targets)
        if scaler is None:
            value.backward()
            optimizer.step()
        else:
            scaler.scale(value).backward()
            scaler.step(optimizer)
            scaler.update()
        return value.detach()

    def run(inputs: Any, targets: Any, done: int) -> Any:
        if schedule is not None:
            optimizer.lr = schedule(done)
        if not graph:
            return step(inputs, targets)
        key = inputs.shape, targets.shape
        if key not in graphs:
            graphs[key] = ag.capture(step, inputs, targets, params=model.parameters())
            return graphs[key].outputs.clone()
        return graphs[key](inputs, targets).clone()  # which the next replay overwrites

    told = _Told(history, watchers, optimizer, stop)
    for epoch in range(len(history.seconds), epochs):
        begin, done = time.perf_counter(), len(history.losses)
        if set_epoch is not None:
            set_epoch(epoch)
        model.train()
        for inputs, targets in batches:
            told.add(run(inputs, targets, len(history.losses) + len(told.waiting)))
        told.fetch()
        history.seconds.append(time.perf_counter() - begin)
        history.steps.append(len(history.losses) - done)
        if evaluate is not None:
            history.accuracies.append(evaluate(model))
        for watcher in watchers:
            watcher.epoch(epoch + 1, history)
    return history


@final
class _Told:
    """Losses that are still on the device, and who is told of them once they are fetched."""

    def __init__(
        self, history: History, watchers: Sequence[Watcher], optimizer: Any, stop: Stop | None
    ) -> None:
        self.waiting: list[Any] = []
        self._history = history
        self._watchers = watchers
        self._optimizer = optimizer
        self._stop = Stop() if stop is None else stop
        self._alone = distributed.get_world_size() == 1

    def add(self, loss: Any) -> None:
        """Take the loss of a step."""
        self.waiting.append(loss)
        if len(self.waiting) == _FETCH_EVERY or (self._alone and self._stop.asked):
            self.fetch()

    def fetch(self) -> None:
        """Read what is there, and tell."""
        if not self.waiting:
            return
        stop = self._stop
        stop.agreed = stop.asked
        losses = [float(value.item()) for value in self.waiting]
        self.waiting.clear()
        if not self._alone:  # all give up, and stop, at the same step
            both = tensor([*losses, float(stop.asked)], device="numpy")
            *losses, asked = distributed.all_reduce(both, "MEAN").tolist()
            stop.agreed = asked > 0
        for number in losses:
            self._history.losses.append(number)
            if not math.isfinite(number):
                given = f"the loss of step {len(self._history.losses)} is {number}"
                remedy = "Lower the learning rate"
                raise TrainingError(message("fit", given, "a finite loss", remedy))
        for watcher in self._watchers:
            watcher.step(len(self._history.losses), losses[-1], self._optimizer.lr)
        if stop.agreed:
            raise KeyboardInterrupt


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
                total += guesses.size
    finally:
        model.train(before)
    return right / total if total else 0.0
