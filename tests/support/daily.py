"""Which of the tests run every day; `--nightly` runs all of them.

    @pytest.mark.parametrize("dtype", DTYPES)  # 8 of them
    @pytest.mark.parametrize("shape", SHAPES)  # and 5: 40 tests at night, 8 by day

By day a product of parameters is cut down to rows that meet each value of each parameter, which
rows depends on the seed of the day. `@pytest.mark.sample(10)` asks for ten rows at most,
`@pytest.mark.nightly` for none, and `@settings(max_examples=examples(60))` for a quarter of the
examples of a property. With `@pytest.mark.turns(3)`, where tests start processes, each test of a
file runs one day in three. By day `nc.devices()` lists one OpenCL device; `nc.get_device` finds
the others. By night a product of parameters runs whole on the first one, and cut down on the
others. `--first` runs one test of each file: where all tests have passed elsewhere, it asks
whether they find here what they need. `--layers --collect-only` counts the tests of each layer of
the pyramid in CONTRIBUTING.
"""

from __future__ import annotations

import collections
import datetime
import functools
import os
import random
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import pytest

import netcl_core as nc
from netcl_core.hardware import device_table

#: What fuzz tests and samples draw by; the same all day, in Greenwich.
SEED: Final = int(
    os.environ.get("NETCL_TEST_SEED") or f"{datetime.datetime.now(datetime.UTC):%Y%m%d}"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--nightly", action="store_true", help="Run every test and all parameters.")
    parser.addoption("--first", action="store_true", help="Run the first test of each file.")
    parser.addoption("--layers", action="store_true", help="Count the tests of each layer.")


#: Other conftests ask for devices before there are options.
_nightly = "--nightly" in sys.argv
T = TypeVar("T")

_all_devices = device_table.all_devices
#: A second runtime builds every kernel again, and some take it seconds.
_others = [device for device in _all_devices() if device.backend == "opencl"][1:]

if not _nightly:

    @functools.wraps(_all_devices)
    def _devices_of_the_day() -> list[nc.Device]:
        return [device for device in _all_devices() if device not in _others]

    device_table.all_devices = _devices_of_the_day


def examples(count: int) -> int:
    """How many examples hypothesis draws for a property that is worth so many: by day a quarter."""
    return count if _nightly else max(5, count // 4)


def today(values: Iterable[T], every: int = 4) -> list[T]:
    """By day one in so many of some values, another one each day; by night all of them."""
    return [x for number, x in enumerate(values) if _nightly or (number + SEED) % every == 0]


def pytest_report_header() -> str:
    """Say how to have the same tests tomorrow."""
    return f"seed of the day: NETCL_TEST_SEED={SEED}"


#: Of the fixtures that run a test on OpenCL.
_DEVICES: Final = {"device", "either", "fast", "opencl", "gpu"}


def layer_of(item: Any) -> str:
    """Which layer of the pyramid a test belongs to."""
    if item.originalname == "test_conformance":
        return "conformance"
    if hasattr(item.obj, "hypothesis") or "fuzz" in item.path.stem:
        return "properties"
    devices = [*_parameters(item).values(), *_DEVICES.intersection(item.fixturenames)]
    return "a device" if any(map(_is_device, devices)) else "laws and seams"


def _is_device(value: Any) -> bool:
    return value in _DEVICES if isinstance(value, str) else isinstance(value, nc.Device)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how many tests each layer has."""
    if config.getoption("layers"):
        left = terminalreporter.stats.get("deselected", ())
        for when, items in {"today": config.stash[_TODAY], "at night": left}.items():
            counts = collections.Counter(map(layer_of, items))
            terminalreporter.write_line(f"{when}: {dict(counts.most_common())}")


_TODAY: Final = pytest.StashKey[list[pytest.Item]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note what is left."""
    session.config.stash[_TODAY] = session.items


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to the night what belongs there."""
    if config.getoption("first"):
        _keep(
            config,
            items,
            {id(item) for item in {each.path: each for each in reversed(items)}.values()},
        )
    kept: set[int] = set()
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _nightly and not _elsewhere(item):
            kept.add(id(item))
        elif _nightly or item.get_closest_marker("nightly") is None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, rows in tests.items():
        kept.update(map(id, _sample(name, rows)))
    every = _nightly or config.getoption("first")  # which shall run one, whatever the day
    _keep(config, items, kept if every else set(map(id, _in_turn(items, kept))))


def _in_turn(items: Iterable[pytest.Item], kept: Collection[int]) -> Iterator[pytest.Item]:
    """Those of the kept tests whose turn it is today."""
    numbers: collections.Counter[Any] = collections.Counter()
    for item in items:
        if id(item) in kept:
            mark = item.get_closest_marker("turns")
            if mark is None or (numbers[item.path] + SEED) % mark.args[0] == 0:
                yield item
            numbers[item.path] += mark is not None


def _elsewhere(item: pytest.Item) -> bool:
    """Whether a parameter of a test is a second OpenCL device."""
    return any(value in _others for value in _parameters(item).values() if _is_device(value))


def _keep(config: pytest.Config, items: list[pytest.Item], kept: Collection[int]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _parameters(item: pytest.Item) -> Mapping[str, Any]:
    call = getattr(item, "callspec", None)
    return {} if call is None else call.params


def _sample(name: str, rows: Sequence[pytest.Item]) -> Iterable[pytest.Item]:
    """The rows of a test that run today."""
    mark = rows[0].get_closest_marker("sample")
    values = [{name: id(value) for name, value in _parameters(row).items()} for row in rows]
    chosen = covering(values, random.Random(f"{SEED} {name}"))
    return [rows[number] for number in (chosen if mark is None else chosen[: mark.args[0]])]


def covering(rows: Sequence[Mapping[str, int]], draw: random.Random) -> list[int]:
    """Numbers of rows in which each value of each column occurs, about as few as there can be.

    >>> len(covering([{"x": x, "y": y} for x in range(8) for y in range(5)], random.Random(1)))
    8
    """
    order = draw.sample(range(len(rows)), len(rows))
    if not rows or not rows[0]:
        return order
    chosen: list[int] = []
    seen: set[tuple[str, int]] = set()
    for wanted in range(len(rows[0]), 0, -1):  # first the rows of which every value is new
        for number in order:
            if len(rows[number].items() - seen) >= wanted:
                chosen.append(number)
                seen |= rows[number].items()
    return chosen
