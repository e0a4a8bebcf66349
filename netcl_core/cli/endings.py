"""How errors end a command: their text on stderr, and the exit code; plugins' commands too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import click

from netcl_core.errors import (
    ArgumentError,
    AttributeValueError,
    DtypeError,
    MissingOpError,
    NetclError,
    ShapeError,
    TargetError,
)

#: What a command's arguments can get wrong.
_USAGE: Final = (
    MissingOpError,
    ArgumentError,
    AttributeValueError,
    DtypeError,
    ShapeError,
    TargetError,
)


@contextmanager
def usage_ends(ctx: click.Context) -> Iterator[None]:
    """End a command with exit code 2 if it raises what its arguments can get wrong."""
    try:
        yield
    except _USAGE as error:
        complain(error)
        ctx.exit(2)


def ended_by(error: Exception) -> int:
    """The exit code of a command that raised; what is no NetclError is raised again."""
    if not isinstance(error, NetclError):
        raise error
    complain(error)
    return 3


def complain(error: NetclError) -> None:
    """Print an error on stderr, with all its lines."""
    first, *more = str(error).splitlines() or [type(error).__name__]
    click.secho(f"netcl: {first}", fg="red", err=True)
    for line in more:
        click.echo(line, err=True)
