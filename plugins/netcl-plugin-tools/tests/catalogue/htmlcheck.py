"""Reads HTML pages with the standard library: is each sound, and does every link lead somewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


class Page(HTMLParser):
    """One page: what is wrong with it, its ids, links, headings and text."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.problems: list[str] = []
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.labels: list[str] = []
        self.headings: list[int] = []
        self.tags: dict[str, list[dict[str, str | None]]] = {}
        self.text = ""
        self._open: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.setdefault(tag, []).append(given)
        if tag not in VOID:
            self._open.append(tag)
        if len(given) != len(attrs):
            self.problems.append(f"<{tag}> has an attribute twice")
        if "style" in given or any(name.startswith("on") for name in given):
            self.problems.append(f"<{tag}> has an inline style or script")
        name = given.get("id")
        if name is not None:
            if name in self.ids or not name:
                self.problems.append(f"the id {name!r} is there twice")
            self.ids.add(name)
        self.links += [value for key in ("href", "src") if (value := given.get(key)) is not None]
        self.labels += (given.get("aria-labelledby") or given.get("aria-controls") or "").split()
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> closes {self._open[-1:]} at {self.getpos()}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def read_site(folder: Path) -> dict[Path, Page]:
    """Every page of a site."""
    return {path: Page(path) for path in sorted(folder.rglob("*.html"))}


def dead_links(folder: Path, pages: dict[Path, Page]) -> list[str]:
    """Every internal link, `page -> link`, whose file or anchor is not there."""
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            inside = target.is_relative_to(folder.resolve()) and target.is_file()
            there = pages.get(target)
            lost = parts.fragment and there is not None and parts.fragment not in there.ids
            if not inside or (lost and not parts.fragment.startswith("sha256=")):
                dead.append(f"{path.relative_to(folder)} -> {link}")
    return dead
