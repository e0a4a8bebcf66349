"""The command `netcl plugins new`: its options and what it prints."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import click

from netcl_plugin_workbench.new.kinds import KINDS, Kind


def _kind(ctx: click.Context, param: click.Parameter, name: str) -> Kind:
    """The kind of that name; an unknown one is answered with the list of them."""
    if name not in KINDS:
        raise click.BadParameter(f"the kind {name!r} is unknown; expected one of:\n{_listed()}")
    return KINDS[name]


def _listed() -> str:
    width = max(map(len, KINDS))
    return "\n".join(f"  {kind.name:{width}}  {kind.summary}" for kind in KINDS.values())


@click.command(epilog="\b\nKinds:\n" + _listed())
@click.argument("name")
@click.option(
    "--kind", metavar="KIND", required=True, callback=_kind, help="What it brings; see below."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The project's folder.  [default: netcl-plugin-NAME]",
)
@click.option("--op", help="The op's name.  [default: NAME with underscores]")
@click.option("--author", help="For the licence and the metadata.  [default: the plugin's authors]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def new(
    name: str, kind: Kind, out: Path | None, op: str | None, author: str | None, as_json: bool
) -> None:
    """Start a plugin: a folder with a small op that passes its own check.

    NAME is the plugin's name, such as swiglu, or its package's, netcl-plugin-swiglu. An
    existing folder has to be empty. Exit code 2 when a name cannot be used, 3 when
    the folder cannot be written.
    """
    names = importlib.import_module("netcl_plugin_workbench.new.names").chosen(name, op)
    project = importlib.import_module("netcl_plugin_workbench.new.project")
    folder = out or Path(names.distribution)
    files = project.create(folder, kind, names, author)
    steps = [
        f"cd {folder}",
        "python -m pip install -e '.[dev]'",
        "netcl plugins check .",
    ]
    first = [line.format(package=names.package, op=names.op) for line in kind.first]
    if as_json:
        data = {"distribution": names.distribution, "plugin": names.name, "op": names.op}
        data |= {"package": names.package, "kind": kind.name, "folder": str(folder)}
        print(json.dumps({**data, "files": files, "first": first, "next": steps}, indent=2))
        return
    print(f"{folder}: {len(files)} files, with the op {names.op} as an example.\n")
    print("Next:", *steps, sep="\n  ")
    print("\nThen make it yours:", *first, sep="\n  ")
