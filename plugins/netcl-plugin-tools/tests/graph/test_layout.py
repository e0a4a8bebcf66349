"""The parts that drawings are made of: layers, places and texts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from netcl_plugin_tools.graph import text
from netcl_plugin_tools.graph.layout import Link, fit, layout

import netcl_core.autograd as ag
from netcl_core.errors import FusionError


def test_lower_of_what_has_no_key_is_an_error_too() -> None:
    jitted = ag.jit_compile(lambda x, options: x * 2)
    with pytest.raises(FusionError, match="of type set cannot be part of a key"):
        jitted.lower(np.zeros(3, np.float32), set())


def test_fit_is_the_nearest_with_gaps() -> None:
    assert fit([0, 10, 20], [5, 5], [1, 1, 1]) == [0, 10, 20]
    assert fit([3, 3], [4], [1, 1]) == [1, 5]
    assert fit([3, 3], [4], [3, 1]) == [2, 6]
    assert fit([-9, 50], [4], [1, 1], 0, 10) == [0, 10]
    assert fit([], [], []) == []


def test_random_graphs_have_room_for_everything() -> None:
    random = np.random.default_rng(5)
    for count in (1, 2, 9, 40):
        boxes = {f"b{i}": tuple(random.uniform(20, 200, 2)) for i in range(count)}
        links = [
            Link(f"b{i}", f"b{j}", (random.uniform(10, 90), 12.0))
            for j in range(1, count)
            for i in random.choice(j, min(j, int(random.integers(0, 4))), replace=False)
        ]
        found = layout(boxes, links)
        places = [*found.boxes.values(), *found.labels]
        for one, other in combinations(places, 2):
            beside = abs(one.x - other.x) >= (one.width + other.width) / 2 - 1e-6
            assert beside or one.y + one.height <= other.y or other.y + other.height <= one.y
        assert all(place.x - place.width / 2 >= -1e-6 for place in places)


@pytest.mark.parametrize("limit", [1, 5, 12])
def test_texts_are_cut_to_cells(limit: int) -> None:
    for given in ("", "short", "a longer text of words", "数字数字数字数字"):
        assert text.columns(text.shorten(given, limit)) <= limit
        assert all(text.columns(line) <= limit for line in text.fold(given, limit))
    assert text.shorten("a longer text", 5) == "a lo…"
    assert text.clean("a\x00b\nc\x1b") == "a?b\nc?"
