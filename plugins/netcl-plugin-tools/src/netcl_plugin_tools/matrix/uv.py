"""Uv: the tool that finds Pythons, resolves requirements and makes environments."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from netcl_core.errors import MissingExtraError, message
from netcl_plugin_tools.matrix.processes import Ended, Processes, clean_variables

find_uv_bin: Callable[[], str] | None = None
with contextlib.suppress(ImportError):  # a system's uv may be there without its package
    from uv import find_uv_bin

UPGRADE: Final = "Run `pip install --upgrade uv`"
_REFUSES: Final = "No solution found when resolving dependencies"
#: uv concludes the same of what is missing and of what excludes each other; these words tell which.
_MISSES: Final = re.compile(r"not found in the (cache|package|provided)|(was|were) not found|"
                            r"network was disabled")  # fmt: skip


def find_uv() -> str:
    """The program: that of the package `uv`, else one on PATH; MissingExtraError without any."""
    try:
        path = find_uv_bin() if find_uv_bin is not None else None
    except FileNotFoundError:
        path = None
    path = path or shutil.which("uv")
    if path is None:
        given = "uv, which makes the environments, is neither installed nor on PATH"
        raise MissingExtraError(message("netcl matrix", given, "", UPGRADE))
    return path


@final
@dataclass(frozen=True, slots=True)
class Uv:
    """How uv is called: what it fetched is kept in `cache`, and it fetches only if `download`.

    Offline it sees the cache and what `links` hold, folders of wheels. Online it asks the index
    that it is configured for, or `index_url`.
    """

    program: str
    cache: Path
    processes: Processes
    links: tuple[Path, ...] = ()
    download: bool = False
    index_url: str = ""

    def run(self, *words: Any, index: bool = False) -> Ended:
        """Run a command of uv, such as `venv`; only with `index` may it look for wheels."""
        command = [self.program, "--no-progress", "--color", "never", "--cache-dir", self.cache]
        if not (index and self.download):
            command += ["--offline"]
        self.cache.mkdir(parents=True, exist_ok=True)
        return self.processes.run(
            [*command, *words], self.cache.parent, _variables(), shut_in=False
        )

    @property
    def sources(self) -> list[Any]:
        """The options that say where wheels come from."""
        index = ["--default-index", self.index_url] if self.index_url else []
        return [*index, *(option for link in self.links for option in ("--find-links", link))]


def _variables() -> dict[str, str]:
    """Uv's own settings, and Pythons of pyenv, which has only some of them on PATH."""
    own = {name: text for name, text in os.environ.items() if name.startswith("UV_")}
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    folders = [os.environ.get("PATH", os.defpath), *map(str, root.glob("versions/*/bin"))]
    return {**clean_variables(), **own, "UV_PYTHON_DOWNLOADS": "never",
            "PATH": os.pathsep.join(folders)}  # fmt: skip


def conflict(ended: Ended) -> str:
    """What excludes what, in uv's words and one line; empty if uv ended for another reason."""
    _, refused, text = ended.stderr.partition(_REFUSES)
    if not refused or _MISSES.search(text):
        return ""
    cause = text.partition("\nhint:")[0]
    return " ".join(cause.split()).lstrip(": ╰─▶").removeprefix("cause: ")
