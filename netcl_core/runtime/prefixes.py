"""Where the templates of each prefix lie; those of plugins are looked for when one is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar, final

import jinja2
from jinja2.loaders import split_template_path

Loader = TypeVar("Loader")


@final
class Prefixes(dict[str, Loader], Generic[Loader]):
    """Loaders by prefix.

    Attributes:
        promised: What enters a prefix that is not there yet, once somebody looks it up.
    """

    def __init__(self, **loaders: Loader) -> None:
        super().__init__(loaders)
        self.promised: dict[str, Callable[[], None]] = {}

    def __missing__(self, prefix: str) -> Loader:
        enter = self.promised.get(prefix)
        if enter is not None:
            enter()  # which other threads wait for as well
        if prefix not in self:
            raise KeyError(prefix)
        return self[prefix]

    def found(self, prefix: str) -> Loader | None:
        """The loader of a prefix; None if there is none."""
        try:
            return self[prefix]
        except KeyError:
            return None

    def names(self) -> list[str]:
        """Every prefix that is there or promised, sorted."""
        return sorted({*self, *self.promised})


@final
class Folder(jinja2.FileSystemLoader):
    """The templates of a folder, as something reads files."""

    def __init__(self, folder: Path, read: Callable[[Path], bytes]) -> None:
        super().__init__(folder)
        self._read = read

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        """The text of a template, its path, and whether it is still so."""
        path = Path(self.searchpath[0], *split_template_path(template))
        if not path.is_file():
            raise jinja2.TemplateNotFound(template)
        changed = path.stat().st_mtime_ns
        return self._read(path).decode(), str(path), lambda: path.stat().st_mtime_ns == changed
