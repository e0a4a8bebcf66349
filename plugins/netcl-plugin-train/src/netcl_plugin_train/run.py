"""A run from the command line: train, save, check what was saved, show."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from netcl_core import data, default_device, distributed, nn, use_device
from netcl_core.cli import print_json
from netcl_core.errors import NetclError, message
from netcl_plugin_train import checkpoints, metrics, report, training
from netcl_plugin_train.loop import Stop, TrainingError
from netcl_plugin_train.tasks import TASKS
from netcl_plugin_train.training import Run, TrainingSettings


class OutputError(NetclError, OSError):
    """The folder of a run cannot be written."""


def run(
    folder: Path,
    task: str,
    source: Path | None,
    device: str | None,
    logs: Sequence[str],
    profile: bool,
    plot: bool,
    graph: bool,
    resume: bool,
    as_json: bool,
    **settings: Any,
) -> int:
    """Train, save and show; returns the exit code.

    Under an MPI launcher its processes train one model, and rank 0 alone saves and shows.

    Raises DeviceError, OutputError and MissingExtraError.
    """
    told = training.settings_of(task, **settings)
    if distributed.is_available():
        distributed.init(device)
    shows = distributed.get_rank() == 0
    with use_device(device) if device else nullcontext():
        _prepare(folder)
        kept = folder / "checkpoint.safetensors"
        watchers: list[Any] = []
        scope = ExitStack()
        seen = metrics.Profile(folder) if profile and shows else None
        if shows:
            title = f"{task} on {default_device()}"
            display = report.Display(report.console(stderr=as_json), title, told.epochs)
            steps = checkpoints.steps_of(kept) if resume else 0
            watchers = [*(metrics.LOGS[log](folder, steps) for log in logs)]
            watchers.append(scope.enter_context(display))
        try:
            with scope, Stop() as stop:
                done = training.train(told, source, watchers, kept, resume, graph, stop, seen)
        except (TrainingError, data.MissingDataError, data.DataFormatError) as error:
            if shows:
                click.secho(f"netcl: {error}", fg="red", err=True)
            return 1 if isinstance(error, TrainingError) else 3
        except KeyboardInterrupt:
            if shows:
                click.echo(f"netcl: stopped. Go on: {_command()}", err=True)
            return 130
        written = [folder / "model.safetensors", *(x.path for x in watchers if hasattr(x, "path"))]
        if seen is not None:
            written += [path for path in (seen.table, seen.trace) if path.exists()]
        return _finish(done, told, folder, written, plot, as_json) if shows else 0


def _command() -> str:
    """What goes on with this run: its own arguments, and --resume."""
    given = [word for word in sys.argv[1:] if word != "--resume"]
    return shlex.join(["netcl", *given, "--resume"])


def _finish(
    run: Run, told: TrainingSettings, folder: Path, written: list[Path], plot: bool, as_json: bool
) -> int:
    """Save and show a run, and hold that the model loads again; returns the exit code."""
    model = written[0]
    about = {"task": told.task, "network": TASKS[told.task].about}
    nn.save(run.model, model, about)
    if plot:
        files = import_module("netcl_plugin_train.files")  # matplotlib takes its time
        written.append(folder / "curves.png")
        files.save_curves(
            run.history, written[-1], f"{told.task}, {run.device} ({run.device.name})"
        )
    again = _reloaded_accuracy(run, told.task, model)
    if as_json:
        print_json(_data(run, again, written))
    else:
        report.print_facts(_facts(run, again, written))
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


def _reloaded_accuracy(run: Run, task: str, path: Path) -> float:
    """The test accuracy of the model as it was saved."""
    model = TASKS[task].model()
    nn.load(model, path)
    return run.test(model)


def _data(run: Run, again: float, written: list[Path]) -> dict[str, Any]:
    return {
        "device": str(run.device),
        "device_name": run.device.name,
        "platform": run.device.platform,
        "processes": distributed.get_world_size(),
        "plugins": dict(run.plugins),
        "steps_per_second": run.history.steps_per_second,
        "test_accuracy": run.accuracy,
        "test_accuracy_reloaded": again,
        **{path.stem: str(path) for path in written},
    }


def _facts(run: Run, again: float, written: list[Path]) -> list[tuple[str, Any]]:
    verdict = "loads back, same accuracy" if again == run.accuracy else f"loads back with {again}"
    model, *others = written
    return [
        ("device", f"{run.device.name} ({run.device}, {run.device.platform})"),
        ("processes", distributed.get_world_size()),
        ("plugins", ", ".join(f"{name} {version}" for name, version in run.plugins)),
        ("steps per second", f"{run.history.steps_per_second:,.0f}"),
        ("test accuracy", f"{run.accuracy:.4f}"),
        ("model", f"{model} ({verdict})"),
        *((path.stem, path) for path in others),
    ]
