"""The command `netcl port`: programs for PyTorch become programs for netcl.

Exit codes: 0 ok, 1 a program uses names that are not there, 2 usage.
"""

from __future__ import annotations

from pathlib import Path

import click

from netcl_plugin_port.rewriting import absences, rewritten


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--check", is_flag=True, help="Change nothing; only tell what is not there.")
@click.pass_context
def port(context: click.Context, files: tuple[Path, ...], check: bool) -> None:
    """Change a program's imports from PyTorch to netcl, and tell what is not there.

    Only import lines change. Each name that netcl does not have is listed with its line and with
    what to write instead.
    """
    missing = 0
    for file in files:
        try:
            source = file.read_text(encoding="utf-8")
            found, changed = absences(source), rewritten(source)
        except (SyntaxError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{file}: it is no Python program ({error})") from None
        if changed != source and not check:
            file.write_text(changed, encoding="utf-8")
            click.echo(f"{file}: imports changed")
        for each in found:
            click.echo(f"{file}:{each.line}: {each.name}: {each.why}")
        missing += len(found)
    if missing:
        context.exit(1)
