"""Records of tuning, and which settings a call gets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_market.doctor_checks import doctor_checks
from netcl_plugin_kit.kernels.sources import sources_of
from netcl_plugin_kit.testing.forcing import forced, untuned
from netcl_plugin_tools.tune import records as tuning_records
from netcl_plugin_tools.tune.records import forget, text_of, write
from netcl_plugin_tunable import DEFAULT, space
from tuned import BETTER, CLASS, NAME, Offer, X, here, offering, own_folder

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.cli import main
from netcl_core.ops.tuning import Place
from netcl_core.plugins.registry import registry

ROOT = Path(__file__).resolve().parent.parent
SUPPORT = ROOT / "tests" / "support"


@pytest.fixture(autouse=True)
def own_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has a folder of records of its own."""
    with own_folder(tmp_path, monkeypatch):
        yield


@pytest.fixture
def seen() -> list[dict[str, Any]]:
    """The settings of each plan, in order."""
    return []


@pytest.fixture
def offer(fast: nc.Device, seen: list[dict[str, Any]]) -> Iterator[Offer]:
    """Register the plugin with an operator of this space; gives the op's function."""
    with offering(seen) as register:
        yield register


# -- records -----------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_a_record_takes_effect_at_once(
    offer: Offer, seen: list[dict[str, Any]], compiled: bool
) -> None:
    kept = offer()
    function = ag.jit_compile(lambda x: ag.mul(kept(x), 0.5)) if compiled else kept
    x = nc.tensor(X)
    wanted = X * (1 if compiled else 2)
    np.testing.assert_array_equal(function(x).numpy(), wanted)
    write(here(), BETTER, 3.5)
    for _ in range(2):
        np.testing.assert_array_equal(function(x).numpy(), wanted)
    forget([here()])
    np.testing.assert_array_equal(function(x).numpy(), wanted)
    assert seen == [DEFAULT, BETTER, DEFAULT]


def test_a_record_is_for_its_class_of_shapes(offer: Offer, seen: list[dict[str, Any]]) -> None:
    scaled = offer()
    write(here("float32[128]"), BETTER, 2.0)
    for size in (64, 65, 128, 129):
        scaled(np.ones(size, "float32"))
    assert seen == [DEFAULT, BETTER, BETTER, DEFAULT]


def test_another_process_finds_it(offer: Offer, python: Callable[..., str]) -> None:
    offer()
    write(here(), BETTER, 2.0)
    code = f"""
import netcl_core as nc, netcl_core.autograd as ag, numpy as np, netcl_plugin_tunable
nc.plugins.register(netcl_plugin_tunable.plugin, "tunable")
with nc.use_device({nc.default_device().id!r}):
    said = nc.plugins.why("scaled", (16384,))
print(said.settings[0])
"""
    said = python(code, PYTHONPATH=str(SUPPORT))
    today = time.strftime("%Y-%m-%d")
    assert said == (
        f"settings: span=64, waste=0 (measured here on {today}: 2.00 times as fast as the default)"
    )


def changed(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    """A record with other fields, in a file that is otherwise right."""
    return lambda data: {**data, "records": [{**data["records"][0], **fields}]}


DAMAGED: dict[str, tuple[Any, str]] = {
    "no JSON": (b"{", "is damaged: "),
    "empty": (b"", "is damaged: "),
    "no text": (b"\xff\xfe\x00\x80", "is damaged: "),
    "deep": (b"[" * 200_000, "is damaged: "),
    "long number": (b"1" * 10_000, "is damaged: "),
    "too long": (b" " * (2 << 20), "is no file of records"),
    "a list": ([], "it does not say 'netcl tuning': 1"),
    "another form": (lambda data: {**data, "netcl tuning": 2}, "it does not say"),
    "no records": (lambda data: {**data, "records": None}, "it has no list of records"),
    "a number": (lambda data: {**data, "records": [3]}, "a record is a int"),
    "no settings": (changed(settings=None), "a record has no settings"),
    "no gain": (changed(gain="much"), "a record's gain is no positive number"),
    "NaN": (changed(gain=float("nan")), "a record's gain is no positive number"),
    "a null date": (changed(date=None), "a record's date is no line of text"),
    "an escape": (changed(date="\x1b[2J"), "a record's date is no line of text"),
    "another's": (changed(device="Z80"), "holds a record of something else: tunable:scaled"),
    "another class": (changed(shape_class="float32[1]"), "holds a record of something else"),
    "another value": (changed(settings={**BETTER, "span": 7}), "span=7 is not among 16, 64"),
    "a bool": (changed(settings={**BETTER, "waste": False}), "waste=False is not among 400, 0"),
    "a text": (changed(settings={**BETTER, "span": "64"}), "span='64' is not among 16, 64"),
    "too few": (changed(settings={"span": 64}), "span instead of span, waste"),
    "too many": (changed(settings={**BETTER, "x": 1}), "span, waste, x instead of span, waste"),
    "nested": (changed(settings={**BETTER, "span": [64]}), r"span=[64] is not among 16, 64"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_cannot_be_used_is_ignored_with_a_reason(
    name: str, offer: Offer, seen: list[dict[str, Any]]
) -> None:
    scaled = offer()
    write(here(), BETTER, 2.0)
    path = tuning_records.path_of(here())
    content, text = DAMAGED[name]
    if callable(content):
        content = content(json.loads(path.read_text()))
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    registry.renew()
    np.testing.assert_array_equal(scaled(X).numpy(), X * 2)
    assert seen == [DEFAULT]
    default, ignored = nc.plugins.why("scaled", X.shape).settings
    assert default == f"settings: span=16, waste=400 (the default; no record for {CLASS})"
    assert ignored.startswith("ignored: ") and text in ignored


def test_a_file_that_is_none_is_ignored(offer: Offer) -> None:
    scaled = offer()
    path = tuning_records.path_of(here())
    path.parent.mkdir()
    os.mkfifo(path)  # to read it would wait for ever
    np.testing.assert_array_equal(scaled(X).numpy(), X * 2)
    path.unlink()
    path.mkdir()
    assert f"{path.name} is no file of records" in str(nc.plugins.why("scaled", X.shape))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_file_can_raise(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(content)
    records, fault = tuning_records.read(path, "any")
    assert records == [] and fault


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*Place.__dataclass_fields__, "date", "gain"]), json_values))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_record_can_raise(tmp_path: Path, row: dict[str, Any]) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps({tuning_records.FORM: 1, "records": [{**row, "settings": {}}]}))
    records, fault = tuning_records.read(path, "any")
    assert bool(records) != bool(fault)


def test_settings_that_do_not_fit_are_ignored(offer: Offer, seen: list[dict[str, Any]]) -> None:
    def fits(request: ag.Request, settings: Any) -> str | None:
        long = request.output.size > 16_000 and settings["span"] > 16
        return "64 do not fit above 16,000" if long else None

    scaled = offer(space(fits=fits))
    write(here(), BETTER, 2.0)
    for size in (16_000, 16_001):  # of one class
        scaled(np.ones(size, "float32"))
    assert seen == [BETTER, DEFAULT]
    assert "64 do not fit above 16,000" in str(nc.plugins.why("scaled", (16_001,)))


def test_the_doctor_counts_records_and_names_damaged_files(offer: Offer) -> None:
    offer()
    write(here(), BETTER, 2.0)
    write(here("float32[2]"), BETTER, 2.0)
    (tuning_records.folder() / "odd.json").write_text("odd")
    tuning_records.path_of(here()).rename(tuning_records.folder() / "moved.json")
    whole, moved, odd = (each for each in doctor_checks() if "of tuning" in each[0])
    place = f"1 for {nc.default_device().name} in {tuning_records.folder()}"
    assert whole == ("tools: records of tuning", True, place)
    assert not moved[1] and moved[2].startswith("moved.json holds a record of something else")
    assert not odd[1] and odd[2].startswith("odd.json is damaged: ")


def test_the_command_why_shows_what_decided(offer: Offer) -> None:
    offer()

    def why(*arguments: str) -> Result:
        return CliRunner().invoke(main.netcl, ["plugins", "why", *arguments])

    shapes = ("--shapes", "128x128", "--attr", "factor=3.0")
    shown = "settings: span=16, waste=400 (the default; no record for float32[128x128])"
    assert why("scaled", *shapes).stdout.splitlines()[-1] == shown
    assert json.loads(why("scaled", *shapes, "--json").stdout)["settings"] == [shown]
    assert json.loads(why("scaled", "--json").stdout)["settings"] == []
    assert why("exp", "--shapes", "3").exit_code == 0  # an elementwise op has no settings
    assert why("scaled", "--shapes", "3y").exit_code == 2
    assert why("scaled", "--shapes", "3", "--attr", "no=1").exit_code == 2


# -- records that come with a plugin -------------------------------------------------------------


@pytest.fixture
def ship(tmp_path: Path) -> Callable[..., Path]:
    """Give the plugin a folder of templates with records beside it."""

    def make(**fields: Any) -> Path:
        package = tmp_path / "package"
        (package / "tuning").mkdir(parents=True, exist_ok=True)
        if not (package / "templates").exists():
            (package / "templates").symlink_to(SUPPORT / "netcl_plugin_tunable" / "templates")
        record = tuning_records.TuningRecord(here(), BETTER, 1.5, "2026-01-02")
        data = json.loads(text_of([record]))
        data["records"][0].update(fields)
        path = package / "tuning" / "some.json"
        path.write_text(json.dumps(data))
        nc.plugins.manager.add_templates("tunable", package / "templates")
        registry.renew()
        return path

    return make


@pytest.mark.parametrize("fields", [{}, {"driver": ""}, {"driver": "", "platform": ""}])
def test_shipped_records_serve_after_the_user_s(
    offer: Offer, seen: list[dict[str, Any]], ship: Callable[..., Path], fields: dict[str, Any]
) -> None:
    scaled = offer()
    ship(**fields)
    scaled(X)
    said = str(nc.plugins.why("scaled", X.shape))
    assert "shipped as tuning/some.json, measured on 2026-01-02: 1.50 times as fast" in said
    write(here(), {"span": 16, "waste": 0}, 2.0)
    scaled(X)
    assert seen == [BETTER, {"span": 16, "waste": 0}]


@pytest.mark.parametrize(
    "fields",
    [
        {"device": "another"},
        {"driver": "another"},
        {"implementation": "other:scaled:by spans"},
        {"shape_class": "float32[1]"},
    ],
    ids=str,
)
def test_shipped_records_for_others_do_not_serve(
    offer: Offer, seen: list[dict[str, Any]], ship: Callable[..., Path], fields: dict[str, Any]
) -> None:
    scaled = offer()
    ship(**fields)
    scaled(X)
    assert seen == [DEFAULT] and len(nc.plugins.why("scaled", X.shape).settings) == 1


def test_a_damaged_shipped_file_is_named(offer: Offer, ship: Callable[..., Path]) -> None:
    scaled = offer()
    ship().write_text("no JSON")
    nc.plugins.manager.add_templates("tunable", ship().parent.parent / "templates")
    ship(settings={"span": 3})
    np.testing.assert_array_equal(scaled(X).numpy(), X * 2)
    assert "span instead of span, waste" in str(nc.plugins.why("scaled", X.shape))


# -- several processes ---------------------------------------------------------------------------

WRITER = """
import sys
from netcl_plugin_tools.tune import records as tuning_records
from netcl_plugin_tools.tune.records import write
number, count = map(int, sys.argv[1:])
print("ready", flush=True)
for i in range(count):
    for shapes in (f"own {number} {i}", f"shared {i % 5}"):
        place = tuning_records.Place("p", "d", "v", "a:b:c", shapes)
        write(place, {"n": number}, 1.0 + i)
"""


def started(number: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(number), str(count)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_processes_that_write_at_once_lose_nothing() -> None:
    processes = [started(number, 60) for number in (1, 2)]
    for each in processes:
        each.communicate(timeout=60)
        assert each.returncode == 0
    records, faults = tuning_records.all_own()
    assert faults == []
    found = {each.place.shape_class: each.settings["n"] for each in records}
    wanted = {f"own {number} {i}": number for number in (1, 2) for i in range(60)}
    assert {k: v for k, v in found.items() if k.startswith("own")} == wanted
    assert {k for k in found if k.startswith("shared")} == {f"shared {i}" for i in range(5)}


def test_a_killed_process_leaves_whole_records() -> None:
    for wanted in (0, 1, 2):  # the last two are killed while they write
        process = started(3, 100_000)
        late = time.monotonic() + 30
        while len(tuning_records.all_own()[0]) < wanted and time.monotonic() < late:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
    records, faults = tuning_records.all_own()
    assert faults == [] and len(records) > 1
    assert {each.settings["n"] for each in records} == {3}


@pytest.mark.parametrize("how", ["no cache", "a file in the way"])
def test_what_cannot_be_written_serves_this_process(
    how: str, offer: Offer, seen: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled = offer()
    if how == "no cache":
        monkeypatch.setenv("NETCL_CACHE", "0")
    else:
        tuning_records.folder().write_text("")
    write(here(), BETTER, 2.0)
    scaled(X)
    assert seen == [BETTER] and not tuning_records.folder().is_dir()
    assert [each.place for each in tuning_records.all_own()[0]] == [here()]


# -- settings that are set -----------------------------------------------------------------------


def test_forced_settings_hold_within(offer: Offer, seen: list[dict[str, Any]]) -> None:
    scaled = offer(space(fits=lambda request, s: "no" if s == {"span": 64, "waste": 400} else None))
    x = nc.tensor(X)
    write(here(), {"span": 16, "waste": 0}, 2.0)
    with pytest.raises(KeyError), forced(NAME, {"waste": 400}):
        scaled(x)
        with forced(NAME, {"span": 64}):  # with the default's 400 it does not fit
            scaled(x)
        scaled(x)
        raise KeyError
    scaled(x)
    wanted = [(16, 400), (64, 0), (16, 400), (16, 0)]
    assert [(each["span"], each["waste"]) for each in seen] == wanted


def test_where_nothing_is_to_be_tuned_records_do_not_count(
    offer: Offer, seen: list[dict[str, Any]]
) -> None:
    scaled = offer()
    write(here(), BETTER, 2.0)
    with untuned():
        said = sources_of("scaled", inputs=[nc.Spec(X.shape, "float32")])
        scaled(X)
    assert "settings: span=16, waste=400 (as they are tried)" in said.why
    scaled(X)
    assert seen[-2:] == [DEFAULT, BETTER]


# -- on first use --------------------------------------------------------------------------------


def test_the_setting_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_TUNING", "always")
    with pytest.raises(nc.errors.ConfigError, match="off or first-use"):
        nc.config.get("tuning")


def test_without_the_plugin_that_measures_it_says_so(
    fast: nc.Device, python: Callable[..., str]
) -> None:
    code = f"""
import netcl_core as nc, netcl_core.autograd as ag, numpy as np, netcl_plugin_tunable
nc.plugins.register(netcl_plugin_tunable.plugin, "tunable")
with nc.use_device({fast.id!r}):
    try:
        ag.scaled(np.ones(3, "float32"))
    except nc.errors.MissingNamespaceError as error:
        print(error, *error.__notes__)
"""
    only = {"NETCL_PLUGINS": "netcl-plugin-elementwise", "NETCL_TUNING": "first-use"}
    said = python(code, PYTHONPATH=str(SUPPORT), NETCL_LOCK="0", **only)
    assert "netcl_core.tuning: no installed plugin" in said and "netcl-plugin-tools" in said
    assert said.endswith("The setting `tuning` is `first-use`: without the plugin set it to `off`")
