"""A reference run: data, model and optimizer put together, and trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from netcl_core import Device, amp, data, default_device, distributed, manual_seed, optim, plugins
from netcl_core import autograd as ag
from netcl_core.errors import message
from netcl_plugin_train import tasks
from netcl_plugin_train.checkpoints import Checkpoint
from netcl_plugin_train.loop import History, Stop, TrainingError, Watcher, accuracy, fit

_WEIGHT_DECAY = 1e-3
_NAMESPACES = ("nn", "optim", "data")
#: Samples that are tested at a time.
_TESTED = 500


@final
@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """What a run is told, and what it must be told again to go on.

    The learning rate falls from `lr` to 0 in equal steps; the seed draws the weights
    and the order of the samples.
    """

    task: str
    epochs: int
    batch_size: int
    lr: float
    seed: int = 0
    amp: bool = False


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A finished run; `test` gives a model's accuracy on the samples that it was not trained on."""

    device: Device
    model: Any
    history: History
    test: Callable[[Any], float]
    plugins: tuple[tuple[str, str], ...]

    @property
    def accuracy(self) -> float:
        """That of the trained model."""
        return self.history.accuracies[-1]


def settings_of(task: str, **given: Any) -> TrainingSettings:
    """The task's own settings but for those that are given and not None."""
    usual = tasks.TASKS[task]
    own = {"epochs": usual.epochs, "batch_size": usual.batch_size, "lr": usual.lr}
    return TrainingSettings(task, **own | {name: x for name, x in given.items() if x is not None})


def train(
    settings: TrainingSettings,
    source: Path | None = None,
    watchers: Sequence[Watcher] = (),
    path: Path | None = None,
    resume: bool = False,
    graph: bool = False,
    stop: Stop | None = None,
    profile: Any = None,
) -> Run:
    """Train on the default device with Adam and cross entropy.

    Of a job of several processes each takes its part of every batch. Every epoch has the same
    batches however many they are: the samples that fill no batch are left out.

    Args:
        settings: The whole batch's size counts.
        source: The folder or file of the data, where the task needs one.
        watchers: Told about losses and epochs.
        path: Where rank 0 writes a checkpoint after each epoch, every minute, and at a stop.
        resume: Go on from it, if it is there.
        graph: Capture the first step, and replay it.
        stop: Ends the run early: KeyboardInterrupt, after a checkpoint.
        profile: A `metrics.Profile` to hand the batches on, or None.

    Raises TrainingError, also for settings that are not those of the checkpoint.
    """
    task = tasks.TASKS[settings.task]
    manual_seed(settings.seed)
    training, test = task.data(source)
    model = task.model()
    part = _part(settings.batch_size, len(training))
    sampler = data.DistributedSampler(training, seed=settings.seed, drop_last=True)
    batches = data.DataLoader(training, part, sampler=sampler, drop_last=True)
    optimizer = optim.Adam(model.parameters(), lr=settings.lr, weight_decay=_WEIGHT_DECAY)
    parts = {"model": model, "optimizer": optimizer, "batches": batches}
    if settings.amp:
        parts["scaler"] = amp.GradScaler()
    sample, label = next(iter(data.DataLoader(training, 2)))
    used = used_plugins(lambda: tasks.loss(model(sample), label))
    manual_seed(settings.seed)
    history = History()
    watched = [*watchers]
    if path is not None:
        kept = Checkpoint(path, parts, asdict(settings), stop)
        history = kept.load() if resume else kept.history
        watched.insert(0, kept)
    trained = model
    if distributed.is_initialized():
        if graph:
            several = "--graph in a job of several processes"
            expected = "one process: gradients go over the network between kernels"
            raise TrainingError(message("netcl train", several, expected, "Leave out --graph"))
        trained = distributed.DistributedDataParallel(model)
    total = settings.epochs * len(batches)
    given: Any = batches
    if profile is not None:
        profile.batches, given = batches, profile
    evaluate = partial(accuracy, batches=data.DataLoader(test, _TESTED))
    history = fit(
        trained,
        optimizer,
        tasks.loss,
        given,
        settings.epochs,
        evaluate,
        watched,
        lambda done: settings.lr * (1 - done / total),
        history,
        graph=graph,
        scaler=parts.get("scaler"),
        casts=(lambda: amp.autocast(policy="fp16-storage")) if settings.amp else nullcontext,
        stop=stop,
    )
    return Run(default_device(), model, history, evaluate, used)


def _part(batch_size: int, samples: int) -> int:
    """How many samples of a batch each process takes."""
    size: int = distributed.get_world_size()
    if batch_size % size:
        given = f"a batch of {batch_size} for {size} processes"
        raise TrainingError(message("netcl train", given, f"a multiple of {size}"))
    if batch_size > samples:
        given = f"a batch of {batch_size}"
        raise TrainingError(message("netcl train", given, f"at most the {samples} samples"))
    return batch_size // size


def used_plugins(forward: Callable[[], Any]) -> tuple[tuple[str, str], ...]:
    """(name, version) of the plugins whose ops a forward pass records, and of the namespaces'."""
    with ag.Tape() as tape:
        forward()
    names = {node.op_name for node in tape.nodes} | set(_NAMESPACES)
    return tuple(
        (plugin.distribution, plugin.version)
        for plugin in plugins.list()
        if plugin.state == "active" and (names & set(plugin.provides) or plugin.name == "train")
    )
