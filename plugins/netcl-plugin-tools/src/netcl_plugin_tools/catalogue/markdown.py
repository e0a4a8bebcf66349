"""A README as HTML that can do no harm: no raw HTML, no script, nothing fetched.

Links go to the web or to a heading of the same text; what a repository would show beside
its README (images, other files) is not here, so that such links are left as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup
from netcl_plugin_kit.packages.metadata import is_web_address

from netcl_plugin_tools.catalogue.code import highlight

#: The level of the heading of the section that a document stands in.
_SECTION: Final = 2


def render_document(text: str, kind: str, prefix: str, title: str = "") -> Markup:
    """A document as HTML; what is no Markdown is shown as it is.

    `prefix` begins the ids of its headings; a first heading that says no more than `title`
    is left out.
    """
    if kind != "text/markdown":
        return Markup('<pre class="plain">{}</pre>').format(text)
    tokens = _PARSER.parse(text)
    _drop_title(tokens, title)
    anchors = _name_headings(tokens, prefix)
    _judge_links(tokens, anchors)
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))


class _Renderer(RendererHTML):
    """Code in colours, tables that scroll, images as the text that stands for them."""

    def fence(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        words = tokens[idx].info.split()
        code = highlight(tokens[idx].content, words[0] if words else "")
        return f'<pre class="code" tabindex="0"><code>{code}</code></pre>\n'

    code_block = fence

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        alt = self.renderInlineAsText(tokens[idx].children, options, env) or "image"
        return f'<span class="image">[{escape(alt)}]</span>'

    def table_open(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return '<div class="scroll" tabindex="0"><table>\n'

    def table_close(
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        return "</table></div>\n"


_PARSER: Final = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer).enable("table")


def _drop_title(tokens: list[Token], title: str) -> None:
    if [token.type for token in tokens[:2]] == ["heading_open", "inline"]:
        said = tokens[1].content.strip().strip("`").lower().replace("_", "-")
        if tokens[0].tag == "h1" and said == title.lower():
            del tokens[:3]


def _name_headings(tokens: Sequence[Token], prefix: str) -> dict[str, str]:
    """Give every heading an id; returns what a link calls it -> its id."""
    headings: dict[str, str] = {}
    open_levels: list[str] = []
    for token, text in pairwise(tokens):
        if token.type == "heading_open":
            slug = re.sub(r"[^\w\- ]", "", text.content.lower()).strip().replace(" ", "-")
            name, number = slug, 0
            while name in headings:
                number += 1
                name = f"{slug}-{number}"
            headings[name] = f"{prefix}-{name}"
            token.attrSet("id", headings[name])
            while open_levels and open_levels[-1] >= token.tag:
                open_levels.pop()
            open_levels.append(token.tag)
        if token.type in {"heading_open", "heading_close"}:
            # One level below the heading that it stands under: none is left out on the way.
            token.tag = f"h{min(_SECTION + len(open_levels), 6)}"
    return headings


def _judge_links(tokens: Sequence[Token], anchors: dict[str, str]) -> None:
    """Links to the web and to headings stay; what would lead nowhere becomes text.

    A column's alignment becomes a class, since the pages allow no inline style.
    """
    for token in tokens:
        if "style" in token.attrs:
            token.attrs["class"] = str(token.attrs.pop("style")).rpartition(":")[2]
        _judge_links(token.children or (), anchors)
        if token.type == "link_open":
            href = str(token.attrGet("href") or "")
            token.attrs = {}
            if href.removeprefix("#") in anchors and href.startswith("#"):
                token.attrs["href"] = f"#{anchors[href[1:]]}"
            elif is_web_address(href):
                token.attrs |= {"href": href, "rel": "nofollow noopener noreferrer"}
