"""The command `netcl tune`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from netcl_core.cli import usage_ends


@click.command()
@click.argument("target", metavar="[OP|FILE:FUNC]", default="")
@click.option("--shapes", help="The inputs, such as 32x784,784x10 or 4x10,4:int64.")
@click.option("--attr", "attrs", multiple=True, metavar="NAME=VALUE", help="An attribute of OP.")
@click.option("--dtype", default="float32", show_default=True, help="The inputs' dtype.")
@click.option("--device", help="As NETCL_DEVICE.")
@click.option("--budget", default=60.0, show_default=True, help="For how many seconds, in all.")
@click.option("--backward", is_flag=True, help="The gradients of what FUNC returns, too.")
@click.option("--again", is_flag=True, help="Measure what has a record of yours, too.")
@click.option("--forget", is_flag=True, help="Remove your records, of OP or all; measure nothing.")
@click.option(
    "--export",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="OUT.json",
    help="Write your records, of OP or all, as a plugin ships them; measure nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.pass_context
def tune(ctx: click.Context, /, **options: Any) -> None:
    """Measure which settings of OP's kernels, or of those that FUNC runs, are the fastest here.

    Without --shapes OP is run with its conformance cases, and FUNC with what example_inputs() of
    the file returns. Without a target: every op that has settings. What is found is recorded for
    this device and counts from now on; Ctrl-C keeps what was measured.

    Exit code 1 when nothing of it has settings.
    """
    with usage_ends(ctx):
        ctx.exit(import_module("netcl_plugin_tools.tune.tuning").run(**options))
