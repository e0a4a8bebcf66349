"""The run `digits`: a multi-layer perceptron on scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, final

from netcl_core import Device, data, default_device, manual_seed, nn, optim, plugins
from netcl_core import autograd as ag
from netcl_plugin_train.loop import History, Watcher, accuracy, fit

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


def train(settings: Settings, watcher: Watcher | None = None) -> Run:
    """Train on the default device with Adam and cross entropy; raises TrainingError."""
    manual_seed(settings.seed)
    model = mlp()
    training, test = data.digits()
    batches = data.DataLoader(training, settings.batch_size, shuffle=True, seed=settings.seed)
    loss = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=settings.lr, weight_decay=_WEIGHT_DECAY)
    sample, label = training[:1]
    used = used_plugins(lambda: loss(model(sample), label))
    total = settings.epochs * len(batches)
    history = fit(
        model,
        optimizer,
        loss,
        batches,
        settings.epochs,
        partial(accuracy, batches=data.DataLoader(test, len(test))),
        watcher,
        lambda done: settings.lr * (1 - done / total),
    )
    return Run(default_device(), model, history, history.accuracies[-1], used)


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
