"""A run from the command line: train, save, check what was saved, show."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from netcl_core import default_device, distributed, nn, use_device
from netcl_core.cli import print_json
from netcl_core.errors import NetclError, message
from netcl_plugin_train import digits, files, report
from netcl_plugin_train.loop import TrainingError


class OutputError(NetclError, OSError):
    """The folder of a run cannot be written."""


def run_digits(
    folder: Path,
    device: str | None,
    epochs: int,
    batch_size: int,
    lr: float,
    seed: int,
    resume: bool,
    as_json: bool,
) -> int:
    """Train, save and show; returns the exit code. Raises DeviceError and OutputError.

    Under an MPI launcher its processes train one model, and rank 0 alone saves and shows.
    """
    settings = digits.Settings(epochs, batch_size, lr, seed)
    if distributed.is_available():
        distributed.init(device)
    shows = distributed.get_rank() == 0
    with use_device(device) if device else nullcontext():
        _prepare(folder)
        title = f"digits on {default_device()}"
        display = report.Display(report.console(stderr=as_json), title, epochs) if shows else None
        kept = folder / "checkpoint.safetensors"
        try:
            with display or nullcontext():
                run = digits.train(settings, display, kept, resume)
        except TrainingError as error:
            if shows:
                click.secho(f"netcl: {error}", fg="red", err=True)
            return 1
        except KeyboardInterrupt:
            if shows:
                click.echo(f"netcl: stopped. Go on: {_command()}", err=True)
            return 130
        return _finish(run, folder, as_json) if shows else 0


def _command() -> str:
    """What goes on with this run: its own arguments, and --resume."""
    given = [word for word in sys.argv[1:] if word != "--resume"]
    return " ".join(["netcl", *given, "--resume"])


def _finish(run: digits.Run, folder: Path, as_json: bool) -> int:
    """Save and show a run, and hold that the model loads again; returns the exit code."""
    model, curves = folder / "model.safetensors", folder / "curves.png"
    about = {"dataset": "digits", "sizes": "-".join(map(str, digits.SIZES))}
    nn.save(run.model, model, about)
    files.save_curves(run.history, curves, f"digits, {run.device} ({run.device.name})")
    again = _reloaded_accuracy(model)
    if as_json:
        print_json(_data(run, again, model, curves))
    else:
        report.print_facts(_facts(run, again, model, curves))
    return 0 if again == run.accuracy else 1


def _prepare(folder: Path) -> None:
    """Make the folder and hold that it can be written, before the run and not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".netcl-probe"
        probe.touch()
        probe.unlink(missing_ok=True)  # another process of the job may have been faster
    except OSError as error:
        raise OutputError(
            message(
                "netcl train", f"{folder} cannot be written: {error}", "", "Choose another --out"
            )
        ) from error


def _reloaded_accuracy(path: Path) -> float:
    """The test accuracy of the model as it was saved."""
    model = digits.mlp()
    nn.load(model, path)
    return digits.test_accuracy(model)


def _data(run: digits.Run, again: float, model: Path, curves: Path) -> dict[str, Any]:
    return {
        "device": str(run.device),
        "device_name": run.device.name,
        "platform": run.device.platform,
        "processes": distributed.get_world_size(),
        "plugins": dict(run.plugins),
        "steps_per_second": run.history.steps_per_second,
        "test_accuracy": run.accuracy,
        "test_accuracy_reloaded": again,
        "model": str(model),
        "curves": str(curves),
    }


def _facts(run: digits.Run, again: float, model: Path, curves: Path) -> list[tuple[str, Any]]:
    verdict = "loads back, same accuracy" if again == run.accuracy else f"loads back with {again}"
    return [
        ("device", f"{run.device.name} ({run.device}, {run.device.platform})"),
        ("processes", distributed.get_world_size()),
        ("plugins", ", ".join(f"{name} {version}" for name, version in run.plugins)),
        ("steps per second", f"{run.history.steps_per_second:,.0f}"),
        ("test accuracy", f"{run.accuracy:.4f}"),
        ("model", f"{model} ({verdict})"),
        ("curves", curves),
    ]
