"""The command `netcl port`: programs for PyTorch become programs for netcl.

Exit codes: 0 ok, 1 a program uses names that are not there, 2 usage.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from netcl_core.cli import print_json
from netcl_plugin_port.rewriting import absences, rewritten


@click.command()
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--check", is_flag=True, help="Change nothing; only list missing names.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@click.pass_context
def port(context: click.Context, files: tuple[Path, ...], check: bool, as_json: bool) -> None:
    """Change a program's imports from PyTorch to netcl.

    Only import lines change. Each name that netcl lacks is listed with its line and with what to
    write instead. Exit code 1: such names were found.
    """
    rows: list[dict[str, Any]] = []
    for file in files:
        try:
            source = file.read_text(encoding="utf-8")
            missing_names, changed = absences(source), rewritten(source)
        except (SyntaxError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{file}: it is no Python program ({error})") from None
        if changed != source and not check:
            file.write_text(changed, encoding="utf-8")
        missing = [
            {"line": name.line, "name": name.name, "why": name.why} for name in missing_names
        ]
        rows.append(
            {"file": str(file), "changed": changed != source and not check, "missing": missing}
        )
    if as_json:
        print_json(rows)
    for row in () if as_json else rows:
        if row["changed"]:
            click.echo(f"{row['file']}: imports changed")
        for absence in row["missing"]:
            click.echo(f"{row['file']}:{absence['line']}: {absence['name']}: {absence['why']}")
    context.exit(1 if any(row["missing"] for row in rows) else 0)
