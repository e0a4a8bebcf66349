"""Reads the drawings that Graphviz makes: their boxes, edges and texts, and whether they fit."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from itertools import combinations

from netcl_plugin_tools.graph.dot import cells

SVG = "{http://www.w3.org/2000/svg}"


def box_of(points: str) -> tuple[float, float, float, float]:
    """Around the points of a polygon or a path."""
    numbers = [float(x) for x in re.findall(r"-?\d+\.?\d*", points)]
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def groups(svg: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """What is drawn: `node` or `edge`."""
    return [group for group in svg.iter(f"{SVG}g") if group.get("class", "").startswith(kind)]


def outline(node: ElementTree.Element) -> tuple[float, float, float, float]:
    return box_of(next(node.iter(f"{SVG}path")).get("d", ""))


def texts(group: ElementTree.Element) -> list[str]:
    """The lines of a box or of an edge."""
    return ["".join(line.itertext()) for line in group.iter(f"{SVG}text")]


def head(svg: ElementTree.Element) -> list[ElementTree.Element]:
    """The lines above the graph."""
    return svg.findall(f"{SVG}g/{SVG}text")


def tooltip(group: ElementTree.Element) -> str:
    return next(group.iter(f"{SVG}a")).get("{http://www.w3.org/1999/xlink}title", "")


def ends(edge: ElementTree.Element) -> tuple[str, str]:
    source, _, target = (edge.findtext(f"{SVG}title") or "").partition("->")
    return source, target


def frame(line: ElementTree.Element) -> tuple[float, float, float, float]:
    """Where a line lies: characters of a fixed-width font, Chinese ones as wide as high."""
    size, x, y = (float(line.get(key, "")) for key in ("font-size", "x", "y"))
    text = "".join(line.itertext())
    width = sum(1.0 if cells(each) == 2 else 0.603 for each in text) * size
    left = x - width / 2 if line.get("text-anchor") == "middle" else x
    return left, y - size, left + width, y + size * 0.2


def inside(inner: Sequence[float], outer: Sequence[float]) -> bool:
    return (outer[0] <= inner[0] and inner[2] <= outer[2] + 0.2
            and outer[1] <= inner[1] + 0.2 and inner[3] <= outer[3] + 0.2)  # fmt: skip


def check(svg: ElementTree.Element) -> None:
    """No box or label lies on another one, all lies on the page, and every text in its box."""
    page = box_of(svg.find(f"{SVG}g/{SVG}polygon").get("points", ""))  # type: ignore[union-attr]
    found = []
    for group in groups(svg, "node"):
        found.append(outline(group))
        for line in group.iter(f"{SVG}text"):
            assert inside(frame(line), found[-1]), texts(group)
    found += [frame(line) for group in groups(svg, "edge") for line in group.iter(f"{SVG}text")]
    assert all(inside(each, page) for each in [*found, *map(frame, head(svg))])
    for one, other in combinations(found, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)


def check_edges(svg: ElementTree.Element) -> None:
    """Each edge begins at its source and ends, with its arrow's tip, at its target below."""
    boxes = {group.get("id", ""): outline(group) for group in groups(svg, "node")}
    for edge in groups(svg, "edge"):
        source, target = (boxes[each] for each in ends(edge))
        path = next(edge.iter(f"{SVG}path")).get("d", "")
        x, y = (float(each) for each in path[1:].partition("C")[0].split(","))
        assert source[0] - 1 <= x <= source[2] + 1 and source[1] - 1 <= y <= source[3] + 1
        tip = box_of(next(edge.iter(f"{SVG}polygon")).get("points", ""))
        assert tip[0] <= target[2] + 3 and tip[2] >= target[0] - 3  # the tip is pointed
        assert tip[1] <= target[3] + 3 and tip[3] >= target[1] - 3
        assert target[1] > source[3]
