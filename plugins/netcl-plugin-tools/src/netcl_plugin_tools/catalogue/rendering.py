"""The Jinja environment of the pages: every value is escaped, every undefined name an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup
from netcl_market.manifests import Requires

from netcl_core.config import templates
from netcl_plugin_tools.catalogue.views import SIGNS, short

ASSETS: Final = ("text.css", "parts.css", "catalogue.js", "icon.svg")


def asset(name: str) -> str:
    """The text of a file that pages refer to."""
    return (_folder() / name).read_text(encoding="utf-8")


def render(name: str, **context: Any) -> str:
    """Render a page."""
    return _ENVIRONMENT.get_template(name).render(**context)


def gradient(differentiable: object) -> str:
    """What a manifest says of an op's gradient, in a word."""
    if not isinstance(differentiable, bool):
        return ""
    return "yes" if differentiable else "no"


def percent(fraction: float) -> str:
    """`87 %`; an op beyond the speed of a copy has not read all of its inputs."""
    return f"{100 * fraction:.0f} %" if fraction <= 1 else "over 100 %"


def breaks(name: str) -> Markup:
    """A name that a narrow column breaks behind underscores."""
    return Markup("_<wbr>").join(name.split("_"))  # join escapes the parts


def needs(requires: Requires) -> list[str]:
    """What a plugin asks of a device, one text each."""
    texts = [f"OpenCL {requires.opencl}" if requires.opencl else ""]
    texts += requires.extensions
    texts += [f"{name} if there" for name in requires.optional_extensions]
    if requires.local_mem_bytes:
        texts.append(f"{requires.local_mem_bytes:,} bytes of local memory")
    if requires.max_work_group_size:
        texts.append(f"work-groups of {requires.max_work_group_size:,}")
    texts.append(" or ".join(requires.device_types))
    return [text for text in texts if text]


def _folder() -> Path:
    return templates() / "catalogue"


def environment(folder: Path) -> jinja2.Environment:
    """The environment of a folder of pages; Markdown and YAML take values as they are."""
    environment_of_pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=lambda name: name is None or not name.endswith((".md.j2", ".yml.j2")),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment_of_pages.globals["signs"] = SIGNS
    environment_of_pages.filters |= {
        "short": short,
        "gradient": gradient,
        "percent": percent,
        "needs": needs,
        "breaks": breaks,
    }
    return environment_of_pages


_ENVIRONMENT: Final = environment(_folder())
