"""The command `netcl train`: its options.

Exit codes: 0 ok, 1 the run failed, 2 usage, 3 the environment (no such device, a
folder that cannot be written, data that are not there), 130 stopped by Ctrl-C.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

#: The tasks, and what the second argument of each is.
_TASKS: Final = {"digits": "", "mnist": "FOLDER", "cifar10": "FOLDER", "text": "FILE"}
#: Where the data of a task come from.
_WHERE: Final = {
    "mnist": "with the four .gz files of https://ossci-datasets.s3.amazonaws.com/mnist/",
    "cifar10": "with what https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz unpacks to",
    "text": "of any text, such as a book of https://www.gutenberg.org",
}


@click.command()
@click.argument("task", type=click.Choice([*_TASKS]))
@click.argument("source", metavar="[FOLDER|FILE]", type=click.Path(path_type=Path), required=False)
@click.option("--device", help="'opencl:0', 'opencl:<part of a name>' or 'numpy'.")
@click.option("--epochs", type=click.IntRange(1), help="Passes over the data.  [30, 5, 10, 3]")
@click.option(
    "--batch-size",
    type=click.IntRange(1),
    help="Samples per step, of all processes.  [32, 64, 64, 32]",
)
@click.option(
    "--lr",
    type=click.FloatRange(0, min_open=True),
    help="The first learning rate.  [0.01, 0.001, 0.003, 0.001]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="For weights and order."
)
@click.option("--amp", is_flag=True, help="Compute products in half precision.")
@click.option("--graph", is_flag=True, help="Capture the first step and replay it.")
@click.option(
    "--log",
    "logs",
    type=click.Choice(["json", "tensorboard"]),
    multiple=True,
    help="Write metrics: metrics.jsonl, or TensorBoard's events; repeatable.",
)
@click.option("--plot", is_flag=True, help="Draw loss and accuracy: curves.png.")
@click.option(
    "--profile", is_flag=True, help="Time the kernels of 20 steps: profile.txt, trace.json."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder for all that is written.  [default: runs/TASK]",
)
@click.option(
    "--resume", is_flag=True, help="Continue from the checkpoint in --out, if there is one."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON; progress goes to stderr.")
@click.pass_context
def train(
    ctx: click.Context, /, task: str, source: Path | None, out: Path | None, **options: Any
) -> None:
    """Train a reference model; report speed and accuracy.

    TASK is digits (a perceptron for scikit-learn's 8 x 8 digits), mnist FOLDER (two convolutions),
    cifar10 FOLDER (a small ResNet) or text FILE (a small GPT for the file's bytes). The numbers in
    brackets are the defaults of these four. Adam minimizes the cross entropy, and the learning
    rate falls to 0 over the run.

    Ctrl-C writes a checkpoint and says how to go on.

    `mpiexec -n 4 netcl train digits` trains in 4 processes, each on a part of every batch.
    """
    if (source is not None) is not bool(_TASKS[task]):
        given = f"a {_TASKS[task]} {_WHERE[task]}" if source is None else "no second argument"
        raise click.UsageError(f"{task} takes {given}", ctx)
    run = import_module("netcl_plugin_train.run")  # the libraries are loaded only to train
    folder = Path("runs") / task if out is None else out
    ctx.exit(run.run(folder, task, source, **options))
