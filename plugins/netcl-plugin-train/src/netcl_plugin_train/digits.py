"""The run `digits`: a multi-layer perceptron on scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, final

from netcl_core import Device, data, default_device, distributed, manual_seed, nn, optim, plugins
from netcl_core import autograd as ag
from netcl_core.errors import message
from netcl_plugin_train.checkpoints import Checkpoint
from netcl_plugin_train.loop import History, TrainingError, Watcher, accuracy, fit

SIZES = (64, 128, 64, 10)
_WEIGHT_DECAY = 1e-3
_NAMESPACES = ("nn", "optim", "data")


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """What a run can be told.

    The learning rate falls from `lr` to 0 in equal steps; the seed draws the weights
    and the order of the samples.
    """

    epochs: int = 30
    batch_size: int = 32
    lr: float = 1e-2
    seed: int = 0


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A finished run."""

    device: Device
    model: Any
    history: History
    accuracy: float
    plugins: tuple[tuple[str, str], ...]


def mlp(sizes: Sequence[int] = SIZES) -> Any:
    """Linear layers of these sizes with ReLU between them."""
    layers: list[Any] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def test_accuracy(model: Any) -> float:
    """The accuracy of a model on the digits that it was not trained on."""
    test = data.digits()[1]
    return accuracy(model, data.DataLoader(test, len(test)))


def train(
    settings: Settings,
    watcher: Watcher | None = None,
    path: Path | None = None,
    resume: bool = False,
) -> Run:
    """Train on the default device with Adam and cross entropy.

    Of a job of several processes each takes its part of every batch. Every epoch has the same
    batches however many they are: the samples that fill no batch are left out.

    Args:
        settings: The whole batch's size counts.
        watcher: Told about losses and epochs.
        path: Where rank 0 writes a checkpoint after each epoch.
        resume: Go on from it, if it is there.

    Raises TrainingError, also for settings that are not those of the checkpoint.
    """
    manual_seed(settings.seed)
    model = mlp()
    training, test = data.digits()
    part = _part(settings.batch_size, len(training))
    sampler = data.DistributedSampler(training, seed=settings.seed, drop_last=True)
    batches = data.DataLoader(training, part, sampler=sampler, drop_last=True)
    loss = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=settings.lr, weight_decay=_WEIGHT_DECAY)
    sample, label = training[:1]
    used = used_plugins(lambda: loss(model(sample), label))
    history = History()
    if path is not None:
        kept = Checkpoint(path, model, optimizer, asdict(settings), watcher)
        watcher = kept
        history = kept.load() if resume else history
    trained = model
    if distributed.is_initialized():
        trained = distributed.DistributedDataParallel(model)
    total = settings.epochs * len(batches)
    history = fit(
        trained,
        optimizer,
        loss,
        batches,
        settings.epochs,
        partial(accuracy, batches=data.DataLoader(test, len(test))),
        watcher,
        lambda done: settings.lr * (1 - done / total),
        history,
    )
    return Run(default_device(), model, history, history.accuracies[-1], used)


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
