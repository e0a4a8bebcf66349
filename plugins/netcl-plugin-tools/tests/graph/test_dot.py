"""The parts that drawings are made of: texts, and the error without a renderer."""

from __future__ import annotations

import numpy as np
import pytest
from netcl_plugin_tools.graph import dot

import netcl_core.autograd as ag
from netcl_core.errors import FusionError


def test_lower_of_what_has_no_key_is_an_error_too() -> None:
    jitted = ag.jit_compile(lambda x, options: x * 2)
    with pytest.raises(FusionError, match="of type set cannot be part of a key"):
        jitted.lower(np.zeros(3, np.float32), set())


@pytest.mark.parametrize("limit", [1, 5, 12])
def test_texts_are_cut_to_cells(limit: int) -> None:
    for given in ("", "short", "a longer text of words", "数字数字数字数字"):
        assert dot.cells(dot.shorten(given, limit)) <= limit
        assert all(dot.cells(line) <= limit for line in dot.fold(given, limit))
    assert dot.shorten("a longer text", 5) == "a lo…"
    assert dot._clean("a\x00b\nc\x1b") == "a?b\nc?"
