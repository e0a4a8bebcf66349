"""Layered layout: boxes in rows from top to bottom, edges and their labels between them.

A box stands below everything that it reads from. An edge gets a place in each row that it
passes, as does its label, so that nothing lies on top of anything else.
The order within rows follows Sugiyama, Tagawa and Toda, "Methods for visual understanding
of hierarchical system structures" (1981): sweeps by the mean place of the neighbours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

Size: TypeAlias = tuple[float, float]

_SIDE: Final = 22.0  # between two neighbours in a row
_ROW: Final = 18.0  # between two rows, at least
_TIP: Final = 9.0  # an edge runs straight for this long before it ends
_PORT: Final = 14.0  # between two edges at a box
_SWEEPS: Final = 12
#: How much more a bend resists being moved than a box, so that long edges run straight.
_BEND_WEIGHT: Final = 20.0
#: And how little what makes room for others.
_LOOSE_WEIGHT: Final = 0.01
#: More boxes that read nothing than these stand in several rows.
_ABREAST: Final = 8


@final
@dataclass(eq=False)
class BoxPlace:
    """A rectangle in a row: a box, a label, or (without a key) the bend of a long edge."""

    row: int
    width: float
    height: float
    key: str = ""
    x: float = 0.0  # the middle
    y: float = 0.0  # the top
    loose: bool = False  # what reads nothing and the way from there: it makes room for others
    above: list[BoxPlace] = field(default_factory=list)
    below: list[BoxPlace] = field(default_factory=list)

    @property
    def weight(self) -> float:
        """How much it resists being moved."""
        if self.loose:
            return _LOOSE_WEIGHT
        return 1.0 if self.key else _BEND_WEIGHT


@final
@dataclass(frozen=True)
class Link:
    """An edge to lay out: from and to which box, and the size of its label."""

    source: str
    target: str
    label: Size


@final
@dataclass(frozen=True)
class GraphLayout:
    """Where everything lies: boxes by key, and for each link its label and its path.

    A path is a list of points; it runs straight down within a row and bends between two.
    """

    boxes: dict[str, BoxPlace]
    labels: list[BoxPlace]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def layout(boxes: Mapping[str, Size], links: Sequence[Link]) -> GraphLayout:
    """Lay out boxes, given in an order in which each comes after those it reads from."""
    rows = _rows(list(boxes), links)
    places = {key: BoxPlace(2 * rows[key], *size, key) for key, size in boxes.items()}
    sinks = {link.target for link in links}
    chains = [
        _chain(places, link, f"label{number}", link.source in sinks)
        for number, link in enumerate(links)
    ]
    found = dict.fromkeys([*places.values(), *itertools.chain(*chains)])
    layers: list[list[BoxPlace]] = [[] for _ in range(max((p.row for p in found), default=-1) + 1)]
    for place in found:
        layers[place.row].append(place)
    _sort(layers)
    _set_x(layers)
    height = _set_y(layers)
    for key, place in places.items():
        _align(place, layers[place.row], key in sinks)
    labels = [next(place for place in chain[1:-1] if place.key) for chain in chains]
    paths = _paths(layers, chains)
    width = max((place.x + place.width / 2 for place in found), default=0.0)
    return GraphLayout(places, labels, paths, width, height)


def _rows(keys: Sequence[str], links: Sequence[Link]) -> dict[str, int]:
    """The row of each box by the longest path to it; what reads nothing stands by its reader."""
    rows = dict.fromkeys(keys, 0)
    number = {key: i for i, key in enumerate(keys)}
    for link in sorted(links, key=lambda each: number[each.target]):
        rows[link.target] = max(rows[link.target], rows[link.source] + 1)
    targets = {link.target for link in links}
    beside: dict[int, int] = {}
    for key in keys:
        readers = [rows[link.target] for link in links if link.source == key]
        if key not in targets and readers:
            row = min(readers) - 1
            count = beside[row] = beside.get(row, -1) + 1
            rows[key] = row - count // _ABREAST
    first = min(rows.values(), default=0)
    return {key: row - first for key, row in rows.items()}


def _chain(places: Mapping[str, BoxPlace], link: Link, key: str, last: bool) -> list[BoxPlace]:
    """The places of an edge, its boxes included; the label stands in the first gap or the last."""
    source, target = places[link.source], places[link.target]
    chain = [BoxPlace(row, 0.0, 0.0, loose=not last) for row in range(source.row + 1, target.row)]
    source.loose = not last
    label = chain[-1 if last else 0]
    label.key, (label.width, label.height) = key, link.label
    chain = [source, *chain, target]
    for upper, lower in itertools.pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


# -- the order within rows ---------------------------------------------------------------


def _sort(layers: list[list[BoxPlace]]) -> None:
    """Sort the rows so that few edges cross; the best of several sweeps stays."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for upper, lower in itertools.pairwise(layers if down else layers[::-1]):
            _sort_row(lower, upper, down)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _sort_row(row: list[BoxPlace], other: Sequence[BoxPlace], down: bool) -> None:
    """Sort a row by the mean place of its neighbours in the row before it."""
    number = {place: float(i) for i, place in enumerate(other)}
    wanted: dict[BoxPlace, float] = {}
    for i, place in enumerate(row):
        middle = _mean(place.above if down else place.below, number.get)
        wanted[place] = float(i) if middle is None else middle
    row.sort(key=wanted.__getitem__)


def _mean(places: Sequence[BoxPlace], value: Callable[[BoxPlace], float | None]) -> float | None:
    values = [found for place in places if (found := value(place)) is not None]
    return sum(values) / len(values) if values else None


def _crossings(layers: Sequence[Sequence[BoxPlace]]) -> int:
    """How many pairs of edges between two rows cross."""
    count = 0
    for upper, lower in itertools.pairwise(layers):
        number = {place: i for i, place in enumerate(lower)}
        ends = [sorted(number[each] for each in place.below) for place in upper]
        seen: list[int] = []
        for targets in ends:
            count += sum(one > target for target in targets for one in seen)
            seen += targets
    return count


# -- coordinates -------------------------------------------------------------------------


def _set_x(layers: Sequence[Sequence[BoxPlace]]) -> None:
    for layer in layers:
        _spread(layer, [0.0] * len(layer))
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            _spread(layer, [_wanted(p, p.above if down else p.below) for p in layer])
    for layer in layers:  # at last each between all of its neighbours
        _spread(layer, [_wanted(p, [*p.above, *p.below]) for p in layer])
    left = min((p.x - p.width / 2 for layer in layers for p in layer), default=0.0)
    for place in itertools.chain(*layers):
        place.x -= left


def _wanted(place: BoxPlace, neighbours: Sequence[BoxPlace]) -> float:
    """Where a place wants to be: between those neighbours that do not give way to it."""
    firm = [each for each in neighbours if not each.loose]
    middle = _mean(firm or neighbours, lambda each: each.x)
    return place.x if middle is None else middle


def _spread(layer: Sequence[BoxPlace], wanted: Sequence[float]) -> None:
    """Put the places of a row as near to where they want to be as their widths allow."""
    gaps = [(one.width + other.width) / 2 + _SIDE for one, other in itertools.pairwise(layer)]
    found = fit(wanted, gaps, [place.weight for place in layer])
    for place, x in zip(layer, found, strict=True):
        place.x = x


def fit(
    wanted: Sequence[float],
    gaps: Sequence[float],
    weights: Sequence[float],
    low: float = float("-inf"),
    high: float = float("inf"),
) -> list[float]:
    """Numbers of least weighted squared distance to `wanted`, with at least `gaps` between them.

    They lie from `low` to `high` if there is room. Pooled adjacent violators: Ayer et al.,
    "An empirical distribution function for sampling with incomplete information" (1955).
    """
    offsets = list(itertools.accumulate(gaps, initial=0.0))[: len(wanted)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for x, offset, weight in zip(wanted, offsets, weights, strict=True):
        mean, total, count = x - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, number = pools.pop()
            mean = (mean * total + other * more) / (total + more)
            total, count = total + more, count + number
        pools.append((mean, total, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    high -= offsets[-1] if offsets else 0.0
    return [max(low, min(high, mean)) + offset for mean, offset in zip(means, offsets, strict=True)]


def _set_y(layers: Sequence[Sequence[BoxPlace]]) -> float:
    """Set the tops of the rows; the gap below one grows with how far its edges run sideways."""
    y = 0.0
    for layer in layers:
        for place in layer:
            place.y = y
        far = max((abs(p.x - q.x) for p in layer for q in p.below), default=0.0)
        y += _height(layer) + _ROW + min(24.0, far / 12)
    return max((place.y + place.height for layer in layers for place in layer), default=0.0)


def _height(layer: Sequence[BoxPlace]) -> float:
    return max(place.height for place in layer)


def _align(place: BoxPlace, layer: Sequence[BoxPlace], reads: bool) -> None:
    """In a row of unequal heights: what reads nothing at the bottom, results at the top."""
    room = _height(layer) - place.height
    if not reads:
        place.y += room
    elif place.below:
        place.y += room / 2


# -- paths -------------------------------------------------------------------------------


def _paths(
    layers: Sequence[Sequence[BoxPlace]], chains: Sequence[list[BoxPlace]]
) -> list[list[tuple[float, float]]]:
    tops = [min(place.y for place in layer) for layer in layers]
    bottoms = [top + _height(layer) for top, layer in zip(tops, layers, strict=True)]
    starts = _ports(chains, 0)
    ends = _ports(chains, -1)
    paths = []
    for chain, start, end in zip(chains, starts, ends, strict=True):
        source, target = chain[0], chain[-1]
        points = [(start, source.y + source.height), (start, bottoms[source.row])]
        for place in chain[1:-1]:
            points += [(place.x, tops[place.row]), (place.x, bottoms[place.row])]
        points += [(end, tops[target.row] - _TIP), (end, target.y)]
        paths.append(points)
    return paths


def _ports(chains: Sequence[list[BoxPlace]], end: int) -> list[float]:
    """Where each edge touches its box: below its next place if it can, never on another's."""
    towards = 1 if end == 0 else -2
    groups: dict[BoxPlace, list[int]] = {}
    for i, chain in enumerate(chains):
        groups.setdefault(chain[end], []).append(i)
    found = [0.0] * len(chains)
    for box, numbers in groups.items():
        numbers.sort(key=lambda i: chains[i][towards].x)
        room = box.width - 2 * _PORT
        gap = min(_PORT, room / max(1, len(numbers) - 1))
        wanted = [chains[i][towards].x for i in numbers]
        left = box.x - room / 2
        gaps = [gap] * (len(numbers) - 1)
        for i, x in zip(numbers, fit(wanted, gaps, [1.0] * len(numbers), left, left + room),
                        strict=True):  # fmt: skip
            found[i] = x
    return found
