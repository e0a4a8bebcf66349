"""What the drawings of the documentation are made of: text, boxes and arrows, in SVG.

Their colours follow the reader's light or dark scheme. `.ci/site/hooks.py` puts a drawing itself
into its page, where it follows the switch of the site. 380 units across are a phone's width, so
that their text has its size there.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

WIDTH = 380
_LIGHT = "--ink:#1f2328;--paper:#f6f8fa;--box:#fff;--line:#57606a;--mark:#00695c"
_DARK = "--ink:#e6edf3;--paper:#1b1f27;--box:#2a303b;--line:#9aa5b1;--mark:#4db6ac"
_STYLE = (
    f"svg.netcl{{{_LIGHT};fill:var(--ink);font:13px system-ui,sans-serif}}"
    f"@media(prefers-color-scheme:dark){{svg.netcl{{{_DARK}}}}}"
    "svg.netcl .paper{fill:var(--paper)}"
    "svg.netcl .box{fill:var(--box);stroke:var(--line)}"
    "svg.netcl .one{fill:var(--box);stroke:var(--mark);stroke-width:2}"
    "svg.netcl .mark{fill:var(--mark)}svg.netcl .bar{fill:var(--line)}"
    "svg.netcl .to{fill:none;stroke:var(--line);stroke-width:1.5}"
    "svg.netcl .back{fill:none;stroke:var(--mark);stroke-width:1.5}"
    "svg.netcl .code{font:12px ui-monospace,monospace;white-space:pre}"
    "svg.netcl .head{font-weight:600}"
)


def svg(width: float, height: float, title: str, body: Iterable[str]) -> str:
    """A drawing; its title is what a reader hears who does not see it."""
    return "\n".join(
        [
            f'<svg class="netcl" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
            *body,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, said: str, *, kind: str = "", anchor: str = "start") -> str:
    """One line; `kind` is one or several of code, head and mark."""
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{escape(said)}</text>'


def box(
    x: float, y: float, width: float, lines: list[str], *, kind: str = "box", code: bool = False
) -> tuple[str, float]:
    """Centred lines in a frame, and where the frame ends below."""
    height = 14 + 18 * len(lines)
    frame = f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'
    inside = [
        text(x + width / 2, y + 20 + 18 * number, line, kind="code" * code, anchor="middle")
        for number, line in enumerate(lines)
    ]
    return "".join([frame, *inside]), y + height


def arrow(points: str, x: float, y: float, towards: str = "down", kind: str = "to") -> str:
    """A path with its head at (x, y)."""
    heads = {"down": "-4 -7h8z", "up": "-4 7h8z", "right": "-7 -4v8z", "left": "7 -4v8z"}
    head = f'<path class="{"mark" if kind == "back" else "bar"}" d="M{x} {y}l{heads[towards]}"/>'
    return f'<path class="{kind}" d="{points}"/>{head}'


def down(x: float, start: float, end: float) -> str:
    """A straight arrow from one box to the next."""
    return arrow(f"M{x} {start}V{end - 4}", x, end)
