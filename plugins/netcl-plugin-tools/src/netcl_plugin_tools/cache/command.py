"""The command `netcl cache`: its options. The work is imported when it runs."""

from __future__ import annotations

from importlib import import_module

import click

#: What may be removed; `programs` alone is made again by whoever needs it.
REMOVABLE = ("programs", "tuning", "speed")


@click.command()
@click.option(
    "--empty",
    type=click.Choice([*REMOVABLE, "all"]),
    is_flag=False,
    flag_value=REMOVABLE[0],
    help="Remove built programs, or what is named.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def cache(ctx: click.Context, empty: str | None, as_json: bool) -> None:
    """Show the cache folder: what lies there, how much, and the bound; or make it empty.

    Other processes may go on: what they miss they make again. `tuning` and `speed` are
    measurements, which nobody makes again by himself.
    """
    kinds = REMOVABLE if empty == "all" else tuple(filter(None, [empty]))
    ctx.exit(import_module("netcl_plugin_tools.cache.folder").show(kinds, as_json))
