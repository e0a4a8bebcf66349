"""What mkdocs is told beyond `mkdocs.yml`: pages that no file of docs/ is, links, notebooks.

A page is written for a reader of the repository, too: its links lead to files of the checkout.
Here a link to a file that has a page leads to this page, and any other to the repository.
"""

from __future__ import annotations

import json
import posixpath
import re
from html import escape
from pathlib import Path
from typing import Any

import jupytext
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
#: What `make market` wrote of this repository's plugins; it is part of the site if it is there.
CATALOGUE = ROOT / "build" / "market" / "site"
#: Modules whose reference is made of their docstrings, by the names under which they are imported.
MODULES = {
    "netcl_core": "netcl_core",
    "netcl_core.autograd": "netcl_core.autograd",
    "netcl_core.plugins": "netcl_core.plugins",
    "netcl_core.errors": "netcl_core.errors",
    "netcl_core.nn": "netcl_plugin_nn.api",
    "netcl_core.optim": "netcl_plugin_optim.api",
    "netcl_core.data": "netcl_plugin_data.api",
    "netcl_core.autodiff": "netcl_plugin_autodiff.api",
    "netcl_core.amp": "netcl_plugin_amp.api",
    "netcl_core.capture": "netcl_plugin_capture.api",
    "netcl_core.patterns": "netcl_plugin_patterns.api",
    "netcl_plugin_kit.testing": "netcl_plugin_kit.testing",
}
#: The reference of every op, which `make site` has written of the registry.
OPS = ROOT / "build" / "op-pages"
#: Files of docs/ that are no part of the site; `exclude_docs` has them, too.
BARE = (".yml", ".json", ".Dockerfile")
_FENCE = re.compile(r"^```(\w+) (.+)$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_DRAWING = re.compile(r"!\[([^\]]*)\]\(([\w-]+\.svg)\)")
_PICTURE = re.compile(
    r'<picture>.*?srcset="(?:docs/)?([\w-]+\.svg)".*?src="(?:docs/)?([\w-]+\.svg)".*?</picture>',
    re.DOTALL,
)
_BLOCK = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def _beyond_docs() -> dict[str, Path]:
    """Path in the site -> file of the checkout, of pages and pictures that lie outside docs/."""
    readmes = sorted(ROOT.glob("plugins/**/netcl-*/README.md"))
    return {
        "CONTRIBUTING.md": ROOT / "CONTRIBUTING.md",
        **{name: Path(__file__).with_name(name) for name in ("netcl.css", "netcl.js")},
        **{f"plugins/{path.parent.name}.md": path for path in readmes},
        **{f"reference/ops/{path.name}": path for path in sorted(OPS.glob("*.md"))},
        **{f"records/{path.name}": path for path in ROOT.glob("benchmarks/records/*.svg")},
    }


def on_config(config: Any) -> Any:
    """Put the pages of modules and of plugins into the navigation."""
    lists = {
        "MODULES": [{name: f"reference/{name}.md"} for name in MODULES],
        "PLUGINS": [
            {Path(name).stem: name} for name in _beyond_docs() if name.startswith("plugins/")
        ],
    }
    pages = [name for name in _beyond_docs() if name.startswith("reference/ops/")]
    lists["OPS"] = [{Path(name).stem: name} for name in pages]
    if CATALOGUE.is_dir():
        market = next(each["The market"] for each in config.nav if "The market" in each)
        market.insert(0, {"All plugins, checked": "market/index.html"})
    config.nav = json.loads(
        re.sub(
            r'"(MODULES|OPS|PLUGINS)"',
            lambda found: json.dumps(lists[found[1]]),
            json.dumps(config.nav),
        )
    )
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add pages from elsewhere, the reference, and each tutorial as a notebook."""
    for uri, path in _beyond_docs().items():
        files.append(File.generated(config, uri, content=path.read_bytes()))
    for name, module in MODULES.items():
        text = f"# {name}\n\n::: {module}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for file in [each for each in files if _is_tutorial(each.src_uri)]:
        notebook = jupytext.writes(jupytext.reads(file.content_string, "md"), "ipynb")
        uri = file.src_uri.replace(".md", ".ipynb")
        files.append(File.generated(config, uri, content=notebook))
    for path in CATALOGUE.rglob("*"):
        if path.is_file():
            uri = f"market/{path.relative_to(CATALOGUE).as_posix()}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrite links and fences, outside code; name a tutorial's notebook under its title."""
    uri = page.file.src_uri
    pages = {path.relative_to(ROOT).as_posix(): at for at, path in _beyond_docs().items()}
    origin = {at: path for path, at in pages.items()}.get(uri, f"docs/{uri}")

    def link(found: re.Match[str]) -> str:
        mark, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        at = pages.get(path) or pages.get(f"{path}/README.md") or path.removeprefix("docs/")
        if (at == path and path != "README.md") or at.endswith(BARE):
            if not config.repo_url:
                return text
            return f"[{text}]({config.repo_url.rstrip('/')}/blob/main/{path}{anchor})"
        at = "index.md" if at == "README.md" else at
        return f"{mark}[{text}]({posixpath.relpath(at, posixpath.dirname(uri) or '.')}{anchor})"

    markdown = _DRAWING.sub(lambda found: _drawn(found[2], "", found[1]), markdown)
    markdown = _PICTURE.sub(
        lambda found: _drawn(found[1], " narrow") + "\n\n" + _drawn(found[2], " wide"), markdown
    )
    parts = _BLOCK.split(_FENCE.sub(_fence, markdown))  # every second one is code
    text = "".join(
        part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts)
    )
    if _is_tutorial(uri):
        name = Path(uri).with_suffix(".ipynb").name
        title, _, rest = text.partition("\n")
        text = f'{title}\n\n<a href="{name}" download>This page as a notebook</a>\n{rest}'
    return text


def _drawn(name: str, kind: str, said: str = "") -> str:
    """A drawing of docs/ in the page itself, where its colours follow the page's."""
    drawing = (ROOT / "docs" / name).read_text(encoding="utf-8").replace("\n", "")
    if said:
        drawing = re.sub(r"<title>.*?</title>", f"<title>{escape(said)}</title>", drawing)
    return f'<div class="drawing{kind}">{drawing}</div>'


def _fence(found: re.Match[str]) -> str:
    """A fence's language with the file's name as its title; what only tests read is dropped."""
    language, rest = found[1], found[2].strip()
    return f"```{language}" if "=" in rest else f'```{language} title="{rest}"'


def _is_tutorial(uri: str) -> bool:
    return uri.startswith("tutorials/") and uri.endswith(".md") and uri != "tutorials/index.md"
