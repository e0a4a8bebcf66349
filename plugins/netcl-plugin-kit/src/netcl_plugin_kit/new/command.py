"""The command `netcl plugins new`: its options and what it prints."""

from __future__ import annotations

import importlib
from pathlib import Path
from textwrap import fill

import click
from netcl_market.tables import print_text

from netcl_core.cli import print_json
from netcl_core.plugins.protocol import RecordKind
from netcl_plugin_kit.new.scaffolds import SCAFFOLDS, scaffold_of


def _kind(ctx: click.Context, param: click.Parameter, name: str) -> RecordKind:
    """The kind of that name; an unknown one is answered with the list of them."""
    if name not in SCAFFOLDS:
        raise click.BadParameter(f"the kind {name!r} is unknown; expected one of:\n{_listed()}")
    return SCAFFOLDS[name]


def _listed() -> str:
    width = max(map(len, SCAFFOLDS)) + 2
    return "\n".join(
        fill(
            kind.brings, 78, initial_indent=f"  {name:{width}}", subsequent_indent=" " * (width + 2)
        )
        for name, kind in SCAFFOLDS.items()
    )


@click.command(epilog="\b\nKinds:\n" + _listed())
@click.argument("name")
@click.option(
    "--kind",
    metavar="KIND",
    required=True,
    callback=_kind,
    shell_complete=lambda ctx, param, begun: [name for name in SCAFFOLDS if name.startswith(begun)],
    help="What the plugin brings; see below.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The project's folder.  [default: netcl-plugin-NAME]",
)
@click.option(
    "--op",
    help="The name of what it brings; for an implementation, the operator that it is for."
    "  [default: NAME with underscores]",
)
@click.option("--author", help="For the licence and the metadata.  [default: the plugin's authors]")
@click.option(
    "--data-only", is_flag=True, help="No Python, only a manifest and templates; for ops."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def new(
    name: str,
    kind: RecordKind,
    out: Path | None,
    op: str | None,
    author: str | None,
    data_only: bool,
    as_json: bool,
) -> None:
    """Start a plugin: a folder with an example that passes its check.

    NAME is the plugin's name, such as swiglu, or its package's, netcl-plugin-swiglu. An existing
    folder has to be empty. Exit code 2: a name cannot be used. 3: the folder cannot be written.
    """
    if data_only and not kind.defined:
        able = " or ".join(name for name, row in SCAFFOLDS.items() if row.defined)
        raise click.BadParameter(f"--data-only needs --kind {able}; a {scaffold_of(kind)} is code")
    naming = importlib.import_module("netcl_plugin_kit.new.names")
    names = naming.chosen(name, kind, op)
    project = importlib.import_module("netcl_plugin_kit.new.project")
    folder = out or Path(names.distribution)
    files = project.create(folder, kind, names, author, data_only)
    steps = [
        f"cd {folder}",
        "python -m pip install -e '.[dev]'",
        "netcl plugins check .",
    ]
    first = project.first_files(kind, names, data_only)
    if as_json:
        data = {"distribution": names.distribution, "plugin": names.name, "op": names.op}
        data |= {"operator": names.operator} if kind.name == "implementation" else {}
        data |= {
            "package": names.package,
            "kind": scaffold_of(kind),
            "data_only": data_only,
            "folder": str(folder),
        }
        print_json({**data, "files": files, "first": first, "next": steps})
        return
    example = names.operator == naming.EXAMPLE_OPERATOR
    what = f"with {names.op} as an example" if example else f"for the operator {names.operator}"
    print(f"{folder}: {len(files)} files, {what}.\n")
    print("Next:", *steps, sep="\n  ")
    print("\nThen make it yours:")
    for row in first:
        print_text(f"  {row}")
