"""The training loop: what it records, when it evaluates, when it gives up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_train import training
from netcl_plugin_train.loop import History, TrainingError, accuracy, fit

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import data, nn, optim

everywhere = pytest.mark.parametrize(
    "device", [each for each in nc.devices() if not each.simulator], ids=str
)


def points() -> data.TensorDataset:
    """Two classes that a line separates."""
    random = np.random.default_rng(0)
    x = random.standard_normal((64, 2)).astype(np.float32)
    return data.TensorDataset(x, (x[:, 0] > x[:, 1]).astype(np.int64))


class Notes:
    """A watcher that writes down what it is told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, float]] = []
        self.epochs: list[int] = []

    def step(self, steps: int, loss: float, rate: float) -> None:
        self.steps.append((steps, loss))

    def epoch(self, epochs: int, history: History) -> None:
        self.epochs.append(epochs)


@everywhere
def test_a_line_is_learned(device: Any) -> None:
    with nc.use_device(device):
        nc.manual_seed(0)
        model, notes, rates = nn.Linear(2, 2), Notes(), []
        batches = data.DataLoader(points(), 5, shuffle=True, seed=0)
        optimizer = optim.Adam(model.parameters(), lr=0.5)

        def schedule(done: int) -> float:
            rates.append(done)
            return 0.1

        evaluate = lambda net: accuracy(net, batches)  # noqa: E731 - read beside its use
        loss = nn.CrossEntropyLoss()
        history = fit(model, optimizer, loss, batches, 4, evaluate, [notes], schedule)
    assert history.accuracies[-1] > 0.95 and len(history.accuracies) == 4
    assert len(history.losses) == 52 and history.losses[-1] < history.losses[0]
    assert history.steps == [13] * 4 and history.steps_per_second > 0
    assert rates == list(range(52)) and optimizer.lr == 0.1
    assert notes.epochs == [1, 2, 3, 4]
    assert [steps for steps, _ in notes.steps] == [10, 13, 23, 26, 36, 39, 49, 52]
    assert notes.steps[-1][1] == history.losses[-1]


def test_a_run_that_diverges_stops() -> None:
    with nc.use_device("numpy"):
        model = nn.Linear(2, 2)
        optimizer = optim.SGD(model.parameters(), lr=1e38)
        loss = lambda out, _: ag.sum(ag.square(out))  # noqa: E731 - read beside its use
        with pytest.raises(TrainingError, match=r"the loss of step \d+ is (inf|nan)"):
            fit(model, optimizer, loss, data.DataLoader(points(), 8), 2)


def test_accuracy_counts_and_leaves_the_model_as_it_was() -> None:
    class Mode(nn.Module):
        def forward(self, x: Any) -> Any:
            assert not self.training and not ag.is_grad_enabled()
            return x

    inputs, labels = np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0])
    batches = data.DataLoader(data.TensorDataset(inputs, labels), 3, device="numpy")
    model = Mode()
    assert accuracy(model, batches) == 0.75 and model.training
    with pytest.raises(ZeroDivisionError):
        accuracy(model.eval(), (1 / 0 for _ in range(1)))
    assert not model.training
    assert accuracy(model, []) == 0.0


def test_speed_leaves_out_the_first_epoch() -> None:
    assert History(seconds=[9.0, 1.0, 1.0], steps=[10, 10, 20]).steps_per_second == 15
    assert History(seconds=[2.0], steps=[10]).steps_per_second == 5
    assert History().steps_per_second == 0


@everywhere
def test_digits_are_learned(device: Any) -> None:
    with nc.use_device(device):
        run = training.train(training.settings_of("digits"))
    assert run.device is device
    assert run.accuracy >= 0.97
    names = {name for name, _ in run.plugins}
    ours = {"data", "elementwise", "linalg", "losses", "nn", "optim", "train"}
    assert {f"netcl-plugin-{name}" for name in ours} <= names
