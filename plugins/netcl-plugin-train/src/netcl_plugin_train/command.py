"""The command `netcl train`: options, and the order of what a run does.

Exit codes: 0 ok, 1 the run failed, 2 usage, 3 the environment (no such device, a
folder that cannot be written).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

_DATASETS = ("digits",)


@click.command()
@click.argument("dataset", type=click.Choice(_DATASETS))
@click.option("--device", help="'opencl:0', 'opencl:<part of a name>' or 'numpy'.")
@click.option(
    "--epochs", type=click.IntRange(1), default=30, show_default=True, help="Passes over the data."
)
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="Samples per step, of all processes.",
)
@click.option(
    "--lr",
    type=click.FloatRange(0, min_open=True),
    default=1e-2,
    show_default=True,
    help="The first learning rate.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="For weights and order."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for model and curves.  [default: runs/<dataset>]",
)
@click.option(
    "--resume", is_flag=True, help="Continue from the checkpoint in --out, if there is one."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; progress goes to stderr.")
@click.pass_context
def train(ctx: click.Context, /, dataset: str, out: Path | None, **options: Any) -> None:
    """Train a reference model; report speed and accuracy.

    'digits' is a perceptron 64-128-64-10 for scikit-learn's 8 x 8 digits, trained with Adam and
    cross entropy. The learning rate falls to 0 over the run.

    `mpiexec -n 4 netcl train digits` trains it in 4 processes, each on a part of every batch.
    """
    run = import_module("netcl_plugin_train.run")  # the libraries are loaded only to train
    folder = Path("runs") / dataset if out is None else out
    ctx.exit(run.run_digits(folder, **options))
