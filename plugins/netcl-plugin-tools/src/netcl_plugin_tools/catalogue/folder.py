"""The folder that a catalogue is written to: replaced as a whole, and only if it is one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from click import UsageError

from netcl_core.errors import NetclError, message
from netcl_core.inspect.data import Scratch

MARKER: Final = ".netcl-catalogue"
_OWN: Final = {
    MARKER, "index.html", "reading.html", "findings.html", "catalogue.json", "feed.xml",
    "advisories.json", "assets", "badges", "plugins", "simple", "wheels",
}  # fmt: skip


class FolderError(NetclError, OSError):
    """The folder of a catalogue cannot be written."""


def check_target(out: Path, inputs: list[Path]) -> None:
    """Raise UsageError if replacing the folder would lose anything that is no catalogue."""
    target = out.resolve()
    for folder in (path.resolve() for path in inputs):
        if target.is_relative_to(folder) or folder.is_relative_to(target):
            raise UsageError(message("--out", f"{out} and {folder} lie in each other", "apart"))
    there = {path.name for path in out.iterdir()} if out.is_dir() else set()
    strangers = sorted(there - _OWN)
    if there and (strangers or MARKER not in there):
        named = strangers[0] if strangers else min(there)
        remedy = "Name another folder, or empty it"
        raise UsageError(
            message("--out", f"{out} holds {named}", "a new folder, or a catalogue", remedy)
        )


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A new folder beside `out` that takes its place at the end.

    After an error `out` is as before; what a killed build left beside it is removed. Raises
    FolderError where nothing can be written.
    """
    try:
        with _replacing(out.absolute()) as folder:
            yield folder
    except OSError as error:
        remedy = "Choose another --out"
        text = message("catalogue", f"{out} cannot be written: {error}", "", remedy)
        raise FolderError(text) from error


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    out.parent.mkdir(parents=True, exist_ok=True)
    with Scratch("catalogue", out.parent) as scratch:
        work = Path(scratch)
        new = work / "new"
        new.mkdir()  # with the permissions of everyone's folders; mkdtemp's own are private
        (new / MARKER).write_text("netcl catalogue build wrote this folder and replaces it.\n")
        yield new
        old = work / "old"
        try:
            if out.exists():
                out.replace(old)
            new.replace(out)
        except BaseException:  # also an interrupt: below, `old` is deleted
            if old.exists() and not out.exists():
                old.replace(out)
            raise


def write(folder: Path, path: str, content: str | bytes) -> None:
    """Write one file below the folder; text ends its lines the same way on every system."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
