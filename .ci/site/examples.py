"""Fences for the examples of docstrings: without one, Markdown takes `>>>` for three quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>>.*(?:\n *\S.*)*", re.MULTILINE)


class Examples(griffe.Extension):
    """Puts each example into a fence, before a docstring is parsed."""

    def on_object(self, *, obj: griffe.Object, **others: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", obj.docstring.value
            )
