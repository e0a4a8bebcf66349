"""What a run leaves behind besides the model: the curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from netcl_plugin_train.loop import History


def save_curves(history: History, path: Path, title: str) -> None:
    """Draw the loss of every step, its running mean, and the test accuracy of every epoch."""
    figure = Figure(figsize=(10, 4.2), dpi=120, layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    steps = np.arange(1, len(history.losses) + 1)
    left.plot(steps, history.losses, color="tab:blue", alpha=0.3, linewidth=0.8, label="each step")
    mean = running_mean(history.losses)
    left.plot(steps, mean, color="tab:blue", linewidth=1.8, label="running mean")
    left.set(xlabel="training step", ylabel="cross entropy (nat)", yscale="log", title="Loss")
    left.legend()
    epochs = np.arange(1, len(history.accuracies) + 1)
    percent = 100 * np.asarray(history.accuracies)
    right.plot(epochs, percent, color="tab:orange", marker="o", markersize=3)
    right.set(xlabel="epoch", ylabel="predicted correctly (%)", title="Test accuracy")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path)


def running_mean(values: Sequence[float], share: float = 0.05) -> list[float]:
    """The exponential running mean, in which a new value has the given share."""
    means: list[float] = []
    for value in values:
        means.append(value if not means else (1 - share) * means[-1] + share * value)
    return means
