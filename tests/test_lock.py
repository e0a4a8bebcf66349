"""The lock file: written and read back exactly, held against what is installed, junk is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_market import lock as locks
from netcl_market.lock import ANY_DTYPE, DevicePart, Lock, Pin, parse
from netcl_market.lock_differences import differences
from netcl_market.lock_verification import verify
from netcl_plugin_tools.lock.text import text_of

from netcl_core.errors import ConfigError, PluginError
from netcl_core.plugins.protocol import lock_file, nearest_lock_file

TEXT = st.text(max_size=8)
PINS = st.builds(Pin, TEXT, TEXT, st.booleans())
ORDERS = st.lists(TEXT, max_size=3).map(tuple)
CHOICES = st.dictionaries(st.just(ANY_DTYPE) | TEXT, ORDERS, min_size=1, max_size=3)
PARTS = st.builds(
    DevicePart,
    st.dictionaries(TEXT, CHOICES, max_size=3),
    st.dictionaries(TEXT, TEXT, max_size=3),
)
LOCKS = st.builds(
    Lock,
    PINS,
    st.dictionaries(TEXT, PINS, max_size=3),
    st.dictionaries(TEXT, PARTS, max_size=3),
    st.booleans(),
)
SAMPLE = Lock(
    Pin("0.1.1", "c0"),
    {"netcl-plugin-a": Pin("1.0", "a0"), "netcl-plugin-b": Pin("2.0", "b0", True)},
    {
        "P | D": DevicePart(
            {
                "gelu": {ANY_DTYPE: ("netcl-plugin-a",)},
                "matmul": {"float32": ("netcl-plugin-a:tiles", "netcl-plugin-b:BLAS")},
            },
            {"netcl-plugin-a": "f0", "netcl-plugin-b": "g0"},
        ),
        "NumPy": DevicePart({}, {"netcl-plugin-a": "n0"}),
    },
)
fixed = settings(deadline=None)


# -- the file --------------------------------------------------------------------------


@fixed
@given(LOCKS)
def test_what_is_written_is_read_back_exactly(lock: Lock) -> None:
    text = text_of(lock)
    assert parse(text.encode()) == lock
    assert text_of(parse(text.encode())) == text


def test_the_order_of_facts_does_not_change_the_file() -> None:
    turned = Lock(
        SAMPLE.core,
        dict(reversed(SAMPLE.plugins.items())),
        dict(reversed(SAMPLE.devices.items())),
    )
    assert text_of(turned) == text_of(SAMPLE)


def test_one_distribution_is_one_line() -> None:
    later = replace(SAMPLE, plugins={**SAMPLE.plugins, "netcl-plugin-a": Pin("1.1", "a0")})
    before, after = text_of(SAMPLE).splitlines(), text_of(later).splitlines()
    (changed,) = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert changed[0].startswith('  "netcl-plugin-a": {"version": "1.0", "files": "a0"')
    assert changed[1] == changed[0].replace("1.0", "1.1")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@fixed
@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_junk_is_named(data: bytes) -> None:
    with pytest.raises(PluginError) as caught:
        parse(data)
    assert caught.value.code == "NP501"
    assert str(caught.value).startswith("netcl.lock: ")


@fixed
@given(LOCKS, st.randoms(use_true_random=False), JSON)
def test_a_value_of_a_wrong_type_is_named(lock: Lock, random: Any, value: Any) -> None:
    """Whatever stands anywhere in the file: it is read as a lock, or is an error of ours."""
    table: Any = json.loads(text_of(lock))
    holder, key = table, random.choice(sorted(table))
    while isinstance(holder[key], dict) and holder[key] and random.random() < 0.8:
        holder = holder[key]
        key = random.choice(sorted(holder))
    holder[key] = value
    try:
        said = ""
        parse(json.dumps(table).encode())
    except PluginError as error:
        said = error.code
    assert said in {"", "NP501", "NP502"}


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"schema": 4}, "NP502", "schema 4; expected schema 3. Upgrade netcl-core"),
        ({"schema": 1}, "NP502", "schema 1; expected schema 3. Delete it and write it again"),
        ({"schema": True}, "NP501", "schema is True, which should be of type int"),
        ({"core": []}, "NP501", "core is []"),
        ({"core": {"version": 1}}, "NP501", "core.version is 1"),
        ({"plugins": {"a": {}}}, "NP501", "plugins.a.version is None"),
        ({"plugins": {"a": {"version": "1", "editable": "no"}}}, "NP501", "plugins.a.editable"),
        ({"devices": {"D": {"choices": []}}}, "NP501", "devices.D.choices"),
        (
            {"devices": {"D": {"choices": {"p": {"f": {"*": "a"}}}, "sources": {}}}},
            "NP501",
            "devices.D.choices.p.f.* is 'a', which should be a list of texts",
        ),
        (
            {"devices": {"D": {"choices": {}, "sources": {"f": 1}}}},
            "NP501",
            "devices.D.sources.f is 1, which should be a text",
        ),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], code: str, said: str) -> None:
    table = {**json.loads(text_of(SAMPLE)), **change}
    with pytest.raises(PluginError) as caught:
        parse(json.dumps(table).encode())
    assert caught.value.code == code and said in str(caught.value)


def test_what_stands_there_twice_is_junk() -> None:
    """A merge of two branches can leave that; the second must not go unseen before the first."""
    text = text_of(SAMPLE).replace('"core": ', '"core": {"version": "9", "files": ""},\n "core": ')
    with pytest.raises(PluginError, match="'core' is there twice"):
        parse(text.encode())


def test_a_file_nested_without_end_is_junk() -> None:
    with pytest.raises(PluginError, match="it is no JSON"):
        parse(b'{"a":' * 100_000)


# -- every single change is found ------------------------------------------------------


def changes(lock: Lock, data: st.DataObject) -> tuple[Lock, str]:
    """A lock with one thing changed, and the code of the difference."""
    other = data.draw(st.text(min_size=1, max_size=5), "other")
    kind = data.draw(st.sampled_from(["choice", "source"]))
    if kind == "choice":
        part = lock.devices["P | D"]
        op = data.draw(st.sampled_from(sorted(part.choices)))
        rows = dict(part.choices[op])
        dtype = data.draw(st.sampled_from(sorted(rows)))
        rows[dtype] = (*rows[dtype][:-1], rows[dtype][-1] + other)
        made = DevicePart({**part.choices, op: rows}, part.sources)
        return replace(lock, devices={**lock.devices, "P | D": made}), "NP507"
    device = data.draw(st.sampled_from(sorted(lock.devices)))
    part = lock.devices[device]
    who = data.draw(st.sampled_from(sorted(part.sources)))
    made = DevicePart(part.choices, {**part.sources, who: part.sources[who] + other})
    return replace(lock, devices={**lock.devices, device: made}), "NP508"


@fixed
@given(st.data())
def test_a_single_change_is_found_and_told_apart(data: st.DataObject) -> None:
    changed, code = changes(SAMPLE, data)
    (found,) = differences(changed, SAMPLE)
    assert found.code == code and found.remedy
    (back,) = differences(SAMPLE, changed)
    assert back.code == code
    assert differences(SAMPLE, SAMPLE) == differences(changed, changed) == []


def test_what_only_one_of_the_two_renders_is_a_difference() -> None:
    part = SAMPLE.devices["P | D"]
    less = replace(SAMPLE, devices={**SAMPLE.devices, "P | D": DevicePart(part.choices, {})})
    found, _ = differences(SAMPLE, less)
    assert str(found).startswith(
        "NP508: netcl-plugin-a: on P | D the sources of the ops that it serves. "
    )
    fewer = DevicePart({"matmul": part.choices["matmul"]}, part.sources)
    (found,) = differences(SAMPLE, replace(SAMPLE, devices={**SAMPLE.devices, "P | D": fewer}))
    assert found.text == "on P | D locked is netcl-plugin-a, now it is nobody"


# -- where it is -----------------------------------------------------------------------


def test_the_nearest_file_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert lock_file() is None
    (tmp_path / "netcl.lock").touch()
    assert lock_file() == tmp_path / "netcl.lock"
    (inner / "netcl.lock").touch()
    assert lock_file() == inner / "netcl.lock"
    monkeypatch.setenv("NETCL_LOCK", "0")
    assert lock_file() is None and nearest_lock_file() == inner / "netcl.lock"
    monkeypatch.setenv("NETCL_LOCK", "other.lock")
    assert lock_file() == inner / "other.lock"


@pytest.mark.parametrize(
    ("value", "found"),
    [("false", None), ("true", "netcl.lock"), ('"locks/x"', "locks/x"), ('""', "netcl.lock")],
)
def test_the_setting_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, found: str | None
) -> None:
    """A path in `[tool.netcl]` counts from the folder of its file."""
    (tmp_path / "pyproject.toml").write_text(f"[tool.netcl]\nlock = {value}\n")
    (tmp_path / "netcl.lock").touch()
    inner = tmp_path / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner)
    assert lock_file() == (None if found is None else tmp_path / found)


def test_a_setting_that_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netcl.toml").write_text("lock = 3\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"\[tool.netcl\] lock"):
        lock_file()


@pytest.mark.parametrize("name", ["no.lock", "/dev/zero"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    for reading in (locks.read, lambda path: verify(path, [])):
        with pytest.raises(PluginError) as caught:
            reading(tmp_path / name)
        assert caught.value.code == "NP501"


# -- its choices -----------------------------------------------------------------------


class D:
    has_kernels, platform, name = True, "P", "D"


class N:
    has_kernels = False


@pytest.mark.parametrize(
    ("device", "op", "dtype", "order"),
    [
        (D(), "gelu", "", ("netcl-plugin-a",)),
        (D(), "matmul", "float32", ("netcl-plugin-a:tiles", "netcl-plugin-b:BLAS")),
        (D(), "matmul", "", ()),
        (D(), "matmul", "float64", ()),
        (D(), "relu", "", ()),
        (N(), "gelu", "", ()),
        (None, "gelu", "", ("netcl-plugin-a",)),
    ],
)
def test_order(device: Any, op: str, dtype: str, order: tuple[str, ...]) -> None:
    assert SAMPLE.order(op, device, dtype) == order


def test_devices_that_do_not_agree_say_nothing_of_all() -> None:
    more = DevicePart({"gelu": {ANY_DTYPE: ("netcl-plugin-b",)}}, {})
    lock = replace(SAMPLE, devices={**SAMPLE.devices, "Q | E": more})
    assert lock.order("gelu", None) == () and lock.order("gelu", D()) == ("netcl-plugin-a",)
    assert lock.knows("gelu") and not lock.knows("matmul") and not lock.knows("relu")


def test_an_order_for_a_known_device_needs_no_other(python: Callable[..., str]) -> None:
    """Reading a lock imports neither pyopencl nor NumPy."""
    code = "import sys, netcl_market.lock_verification\n"
    code += "print({'numpy', 'pyopencl', 'pluggy', 'click'} & sys.modules.keys())"
    assert python(code) == "set()"
