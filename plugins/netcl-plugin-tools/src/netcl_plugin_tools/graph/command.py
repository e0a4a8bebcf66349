"""The command `netcl graph`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from netcl_core.cli import complain, usage_ends
from netcl_core.errors import FusionError


@click.command()
@click.argument("target", metavar="FILE:FUNC")
@click.option("--shapes", help="The inputs, such as 32x784,784x10 or 4x10,4:int64.")
@click.option("--dtype", default="float32", show_default=True, help="The inputs' dtype.")
@click.option("--device", help="As NETCL_DEVICE.")
@click.option(
    "--recorded", is_flag=True, help="Show the ops that one call records for its gradients."
)
@click.option("--times", is_flag=True, help="Time each kernel, and the same ops one by one.")
@click.option("--svg", metavar="OUT.svg", help="Draw the graph into this file.")
@click.option("--dot", "as_dot", is_flag=True, help="Print the graph in Graphviz' language.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.pass_context
def graph(ctx: click.Context, /, **options: Any) -> None:
    """Show the kernels that a function of ops becomes under jit_compile.

    With --recorded it is called as it is, and shown is the graph that a backward pass goes
    through. With --times floating inputs take gradients. Without --shapes the inputs are what
    example_inputs() of the file returns: a list, or a dict by name. Exit code 1 when the
    function raises or cannot be traced.
    """
    if options["as_dot"] and options["as_json"]:
        raise click.UsageError("--dot and --json: each is the whole of stdout", ctx)
    showing = import_module("netcl_plugin_tools.graph.graph_output")
    try:
        with usage_ends(ctx):
            showing.show(**options)
    except FusionError as error:
        complain(error)
        ctx.exit(1)
