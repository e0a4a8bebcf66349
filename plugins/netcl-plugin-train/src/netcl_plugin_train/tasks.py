"""What `netcl train` can train: the data, the model and the usual settings of each task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, final

from netcl_core import autograd as ag
from netcl_core import data, models, nn
from netcl_core.errors import message
from netcl_plugin_train.loop import TrainingError

#: The bytes of a sample of text, and the share of a file that is kept for the test.
_CONTEXT, _TEST = 64, 10


@final
@dataclass(frozen=True, slots=True)
class Task:
    """A reference run.

    Attributes:
        model: Makes the network.
        data: (train, test) of the command's second argument.
        about: The network in a few words.
        epochs, batch_size, lr: What a run takes if it is told nothing.
    """

    model: Callable[[], Any]
    data: Callable[[Any], tuple[Any, Any]]
    about: str
    epochs: int
    batch_size: int
    lr: float


def loss(output: Any, target: Any) -> Any:
    """The mean cross entropy, over all positions of a text too."""
    return ag.cross_entropy(output.flatten(0, -2), target.flatten())


def _perceptron() -> Any:
    layers: list[Any] = []
    for inputs, outputs in pairwise((64, 128, 64, 10)):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _convolutions() -> Any:
    layers: list[Any] = []
    for inputs, outputs in pairwise((1, 16, 32)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * 7 * 7, 10))


def _text(path: Path) -> tuple[Any, Any]:
    """The first nine tenths of a file's bytes, and the last."""
    whole = data.text_bytes(path, _CONTEXT, _CONTEXT)
    kept = whole.raw.size // _TEST
    if kept <= _CONTEXT:
        given, least = f"{path} has {whole.raw.size} bytes", _TEST * (_CONTEXT + 1)
        raise TrainingError(message("netcl train text", given, f"at least {least}"))
    parts = whole.raw[:-kept], whole.raw[-kept:]
    train, test = (data.TextBytes(raw, _CONTEXT, _CONTEXT) for raw in parts)
    return train, test


TASKS: Final = {
    "digits": Task(_perceptron, lambda _: data.digits(), "64-128-64-10", 30, 32, 1e-2),
    "mnist": Task(_convolutions, data.mnist, "two convolutions of 3 x 3", 5, 64, 1e-3),
    "cifar10": Task(
        lambda: models.ResNet((1, 1, 1), classes=10, width=16, small=True),
        data.cifar10,
        "a ResNet of 3 blocks",
        10,
        64,
        3e-3,
    ),
    "text": Task(
        lambda: models.GPT2(256, _CONTEXT, width=128, layers=2, heads=4),
        _text,
        "a GPT of 2 layers of 128, for bytes",
        3,
        32,
        1e-3,
    ),
}
