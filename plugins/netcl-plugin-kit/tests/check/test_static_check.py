"""The static check: a sound plugin passes, and each fault gives its finding and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from broken import BROKEN, DEADLY, install_broken
from distributions import TEMPLATE as PLUS
from distributions import install
from faulty import FAULTY, NAME, Faulty
from netcl_plugin_kit.check import checking
from netcl_plugin_kit.check.apart import PATIENCE
from netcl_plugin_kit.check.checking import checks_of
from netcl_plugin_kit.check.findings import KINDS
from netcl_plugin_kit.check.registration import differences
from netcl_plugin_kit.testing.records import CheckRecord, Outcome, from_json

#: They start processes.
pytestmark = pytest.mark.turns(2)

SOUND = Faulty("", "", "")
#: For what hangs, where the parent waits until nothing was heard for so long.
IMPATIENT = 4.0


def check(target: str, **options: Any) -> CheckRecord:
    """A check of the level `static`."""
    return checking.check(target, "static", **options)


def failures(record: CheckRecord) -> list[Outcome]:
    return [each for each in record.outcomes if each.state == "failed"]


def test_a_sound_plugin_passes(tmp_path: Path) -> None:
    record = check(str(SOUND.wheel(tmp_path)))
    assert failures(record) == [] and record.state == "pass" and record.notes == ()
    assert (record.plugin, record.version, record.level) == (NAME, "1.0", "static")
    assert len(record.wheel_sha256) == 64
    assert {each.check for each in record.outcomes} == set(checks_of("static"))
    assert {each.state for each in record.outcomes} == {"passed"}
    rendered = {each.dtype for each in record.outcomes if each.check == "templates" and each.dtype}
    assert rendered == {"bfloat16", "float16", "float32", "float64"}


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", FAULTY)
def test_a_fault_is_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    row = FAULTY[name]
    patience = IMPATIENT if name == "hanging" else PATIENCE
    record = check(str(row.wheel(tmp_path)), patience=patience)
    assert record.state == "fail"
    first, *others = failures(record)
    assert first.reason.startswith(f"{row.code}: ") and row.says in first.reason
    assert first.check == KINDS[row.code].check and first.op == row.op
    assert {each.reason[:5] for each in others} <= {row.code, *row.also}
    assert all(each.remedy for each in failures(record))
    states = {(each.op, each.state) for each in record.outcomes if each.check == "registration"}
    assert len(states) == len({op for op, _ in states})  # none has passed and failed
    assert from_json(record.as_json()) == record


def test_every_kind_of_finding_is_proved() -> None:
    """But for a project that cannot be built, which is no wheel."""
    assert KINDS.keys() - {row.code for row in FAULTY.values()} == {"NC109"}


def test_the_remedy_for_a_missing_row_is_the_row(tmp_path: Path) -> None:
    record = check(str(FAULTY["unlisted_op"].wheel(tmp_path)), only=["registration"])
    (outcome,) = failures(record)
    assert 'Write into netcl_plugin.toml:\n[[provides]]\nname = "odd"\n' in outcome.remedy
    assert "differentiable = false\nelementwise = true\npriority = 0" in outcome.remedy


def test_the_order_of_a_manifests_rows_says_nothing() -> None:
    rows = [
        {"kind": "implementation", "name": "op", "priority": priority, "dtypes": [dtype]}
        for priority, dtype in ((10, "float32"), (2, "float32"), (2, "float64"))
    ]
    assert differences(rows, rows[::-1]) == []
    changed = [{**rows[0], "priority": "high"}, *rows[1:]]
    assert [each.code for each in differences(rows, changed)] == ["NC306"]


def test_what_was_found_before_a_crash_is_kept(tmp_path: Path) -> None:
    record = check(str(FAULTY["leaving"].wheel(tmp_path)))
    passed = {each.check for each in record.outcomes if each.state == "passed"}
    assert {"wheel", "metadata", "licence", "manifest", "load"} <= passed
    (outcome,) = failures(record)
    assert "while checking the conformance cases" in outcome.reason


def test_notes_are_no_failures(tmp_path: Path) -> None:
    headers = ["License-Expression: MIT", "Requires-Python: >=3.11",
               "Requires-Dist: netcl-core>=0.1,<0.2"]  # fmt: skip
    record = check(str(Faulty("", "", "", headers=headers).wheel(tmp_path)), only=["licence"])
    assert record.state == "pass" and "without a licence file" in record.notes[0]
    assert from_json(record.as_json()) == record


# -- plugins that do not load ----------------------------------------------------------


@pytest.fixture(scope="module")
def broken_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """All broken plugins, the deadly ones too, installed side by side."""
    site = tmp_path_factory.mktemp("broken")
    for name in (*BROKEN, *DEADLY):
        install_broken(site, name)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        yield site


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", [*BROKEN, *DEADLY])
def test_a_broken_plugin_has_its_code(broken_site: Path, name: str) -> None:
    row = {**BROKEN, **DEADLY}[name]
    patience = IMPATIENT if name == "hang" else PATIENCE
    record = check(f"netcl-plugin-{name}", only=["load"], patience=patience)
    (outcome,) = failures(record)
    assert outcome.check == "load" and outcome.reason.startswith(f"{row.failure}: the plugin ")
    assert row.reason in outcome.reason or name == "hang"
    assert outcome.remedy and record.plugin == f"netcl-plugin-{name}"


def test_the_rest_of_a_broken_plugin_is_checked(broken_site: Path) -> None:
    record = check("netcl-plugin-raising")
    codes = {each.reason[:5] for each in failures(record)}
    assert {"NP207", "NC201", "NC203", "NC204", "NC301"} == codes
    skipped = {each.check: each.reason for each in record.outcomes if each.state == "skipped"}
    assert skipped == dict.fromkeys(
        ("registration", "templates", "derivative"), "the plugin does not load"
    )


# -- what counts, and what does not ----------------------------------------------------


def test_a_single_primitive_needs_no_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from netcl_core.autograd import AutogradPrimitive\n"
    code += "op = AutogradPrimitive.from_template('lone/lone.cl.j2')\n"
    files = {"lone_package/__init__.py": code, "lone_package/templates/lone.cl.j2": PLUS}
    install(tmp_path, "lone", files, {"netcl_core.primitives": {"lone": "lone_package:op"}})
    monkeypatch.syspath_prepend(str(tmp_path))
    record = check("lone", only=["manifest", "registration", "templates", "derivative"])
    assert failures(record) == []
    assert [each.op for each in record.outcomes if each.check == "derivative"] == ["lone"]
    assert [note for note in record.notes if "netcl-plugin-" in note]


def test_only_what_is_asked_for_is_checked(tmp_path: Path) -> None:
    wheel = str(FAULTY["no_licence"].wheel(tmp_path))
    record = check(wheel, only=["derivative"])
    assert {each.check for each in record.outcomes} == {"derivative"}
    assert record.state == "pass"
    assert {each.check for each in check(wheel, only=["licence"]).outcomes} == {"licence"}


def test_a_wheel_hides_the_installed_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "site", NAME, {"netcl_plugin_sound/__init__.py": "raise SystemExit"},
            {"netcl_core.plugins": {"sound": "netcl_plugin_sound:plugin"}})  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    wheel = str(SOUND.wheel(tmp_path))
    assert check(wheel).state == "pass"
    assert check(NAME, only=["load"]).state == "fail"


def test_the_users_settings_do_not_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_PLUGINS_DISABLE", "sound")
    monkeypatch.setenv("NETCL_PLUGINS", "")
    monkeypatch.setenv("NETCL_PLUGINS_STRICT", "1")
    assert check(str(SOUND.wheel(tmp_path))).state == "pass"
