"""Records are merged by rule, and what nobody has recorded is never shown as a pass."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import samples
from netcl_plugin_kit.testing.records import CheckRecord, Outcome, OutcomeState
from netcl_plugin_tools.catalogue.evidence import load
from netcl_plugin_tools.catalogue.findings import merge, reached
from netcl_plugin_tools.catalogue.views import SIGNS, by_check, matrix, reasons
from netcl_plugin_tools.matrix.runtimes import RUNTIMES
from samples import INTEL, cell, record

OLD, NEW = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"


def states(*records: CheckRecord) -> dict[str, str]:
    return {one.outcome.check: one.outcome.state for one in merge(records).outcomes}


def small(
    state: OutcomeState, date: str = NEW, core: str = "0.1.1", check: str = "values"
) -> CheckRecord:
    """A record of one outcome."""
    outcome = Outcome(check, state, "op", "opencl:0", "float32")
    whole = "fail" if state == "failed" else "pass"
    return record(
        outcomes=(outcome,), date=date, core=core, kernels=(), devices=(INTEL,), state=whole
    )


def test_of_two_records_the_newer_counts() -> None:
    assert states(small("failed", OLD), small("passed", NEW)) == {"values": "passed"}
    assert states(small("failed", NEW), small("passed", OLD)) == {"values": "failed"}
    assert states(small("failed", "2026-02-01T00:00:00"), small("passed", OLD)) == {
        "values": "failed"
    }


def test_a_newer_core_counts_more_than_a_newer_date() -> None:
    assert states(small("passed", OLD, "0.10"), small("failed", NEW, "0.9")) == {"values": "passed"}


def test_an_older_record_still_says_what_the_newer_does_not() -> None:
    said = states(small("failed", OLD, check="gradient"), small("passed", NEW))
    assert said == {"gradient": "failed", "values": "passed"}


def test_devices_of_two_machines_are_told_apart_by_more_than_their_number() -> None:
    other = replace(INTEL, name="GPU", platform="Vendor", kind="gpu")
    one, two = small("passed"), replace(small("failed", OLD), devices=(other,))
    merged = merge([one, two])
    assert [where.title for where in merged.devices] == ["Intel(R) OpenCL", "Vendor"]
    assert merged.verdict == "failed"


def test_of_several_cases_of_a_check_the_worst_counts() -> None:
    def three(*given: OutcomeState) -> str:
        made = tuple(Outcome("values", state, "op", "opencl:0", "float32") for state in given)
        return states(record(outcomes=made))["values"]

    assert three("passed", "failed", "skipped") == "failed"
    assert three("passed", "xfailed") == "xfailed"
    assert three("passed", "skipped") == "skipped"


def test_verdicts() -> None:
    assert merge([]).verdict == "none"
    assert merge([small("skipped")]).verdict == "skipped"
    assert merge([small("passed")]).of("op").verdict == "passed"
    assert merge([small("passed")]).of("another").verdict == "none"
    assert merge([record(outcomes=(), state="fail")]).verdict == "failed"  # it broke off


def test_the_deepest_record_gives_the_level() -> None:
    """A newer look at the manifest alone does not hide that kernels ran, and the reverse."""
    full, static = small("passed", OLD), replace(small("passed", NEW), level="static")
    assert merge([static, full]).deepest == full
    assert merge([static]).deepest == static and merge([]).deepest is None
    noted = [replace(full, notes=("b", "a")), replace(static, notes=("a",))]
    assert merge(noted).notes == ["a", "b"]


def test_a_part_of_a_level_does_not_look_like_all_of_it(tmp_path: Path) -> None:
    """A cell of Oclgrind runs `--level full --only sanitizer`."""
    part = replace(
        small("passed", check="sanitizer"), mutants=(), roofline=(), parts=("sanitizer",)
    )
    assert part.level == "full" and reached(part) == "run"
    assert reached(replace(part, outcomes=())) == "static"
    assert reached(small("passed")) == "full"
    unwatched = replace(small("passed"), parts=("values", "mutants", "roofline"))
    assert reached(unwatched) == "run"  # nothing watched its memory
    out = market_of(tmp_path, part.as_json())
    assert "passing (run)" in badge_of(out, "checks") and "full check" not in page_of(out)


def test_a_static_check_alone_does_not_look_like_more(tmp_path: Path) -> None:
    """Neither on the card nor on the badge."""
    text = samples.manifest("gate", ["gate"])
    wheel = samples.wheel(tmp_path / "w", "netcl-plugin-gate", text=text, plugin="gate")
    (tmp_path / "r").mkdir()
    made = Outcome("templates", "passed", "gate")
    static = record(plugin="gate", version="1.0", level="static", state="pass", outcomes=(made,),
                    devices=(), kernels=(), mutants=(), roofline=(), parts=())  # fmt: skip
    (tmp_path / "r" / "static.json").write_text(samples.text_of(static.as_json(), wheel))
    out = tmp_path / "out"
    samples.build(tmp_path / "w", out, "--records", str(tmp_path / "r"))
    front = (out / "index.html").read_text(encoding="utf-8")
    assert "static check 2026-03-04" in front
    op = (out / "plugins/netcl-plugin-gate/gate.html").read_text(encoding="utf-8")
    for page in (front, op):
        assert '<span class="state off"><span aria-hidden="true">□</span> not run</span>' in page
    badge = (out / "badges/netcl-plugin-gate/checks.svg").read_text(encoding="utf-8")
    assert "passing (static)" in badge


def test_what_did_not_run_is_never_green() -> None:
    green = {state for state, sign in SIGNS.items() if sign.tone == "good"}
    assert green == {"passed", "pass"}
    assert len({sign.sign for sign in SIGNS.values()}) >= 6  # no state by colour alone


def test_equal_sources_are_shown_once() -> None:
    kernels = merge([record()]).of("swiglu").kernels
    forward = [one for one in kernels if one.direction == "forward"]
    places = sorted([where.title for where in one.where] for one in forward)
    assert places == [["Intel(R) OpenCL", "Portable Computing Language"], ["NumPy"]]


def test_a_table_of_an_op() -> None:
    rows = {row.name: row for row in by_check(merge([record()]).of("geglu"))}
    assert [[g.state for g in groups] for groups in rows["gradient"].groups] == [[], [], ["failed"]]
    half = rows["values"].groups[2]
    assert [(g.state, g.dtypes) for g in half] == [
        ("passed", ("float32",)),
        ("skipped", ("float16",)),
    ]


def test_reasons_are_grouped_and_failures_come_first() -> None:
    found = reasons(merge([record()]).outcomes)
    assert [one.state for one in found] == ["failed", "failed", "xfailed", "skipped"]
    assert found[0].check == "gradient" and found[0].remedy == "Derive it"
    assert found[-1].where == (
        "geglu float16 on Portable Computing Language",
        "swiglu float16 on Portable Computing Language",
    )


def test_the_matrix(tmp_path: Path) -> None:
    given = [
        cell("intel", "fail", date="2026-01-01T00:00:00+00:00"),
        cell("intel", "pass"),
        cell("pocl", python="3.9"),
        cell("other"),
    ]
    made = samples.wheel(tmp_path / "w", "netcl-plugin-swiglu", "0.10.post1",
                         text=samples.manifest("swiglu"), plugin="swiglu")  # fmt: skip
    for number, one in enumerate(given):
        (tmp_path / f"{number}.json").write_text(samples.text_of(one, made))
    made = matrix(load(tmp_path).cells)
    assert made.runtimes == (*RUNTIMES, "other") and "pocl-wheel" in made.runtimes
    assert [(core, python) for core, python, _ in made.rows] == [
        ("0.1.1", "3.12"),
        ("0.1.1", "3.9"),
    ]
    result = samples.build(tmp_path / "w", tmp_path / "out" / "site", "--records", str(tmp_path))
    assert result.exit_code == 2  # the records lie around the catalogue
    records = tmp_path / "r"
    records.mkdir()
    for path in tmp_path.glob("*.json"):
        path.rename(records / path.name)
    result = samples.build(tmp_path / "w", tmp_path / "site", "--records", str(records))
    assert result.exit_code == 0, result.output
    page = (tmp_path / "site" / "plugins" / "netcl-plugin-swiglu.html").read_text(encoding="utf-8")
    assert "matrix: 3 pass" in page  # the newer of the two for Intel counts
    assert page.count('class="cell none"') == 2 * 7 - 3


def market_of(tmp_path: Path, *records: dict[str, Any] | list[Any]) -> Path:
    """The folder of a catalogue of swiglu 0.10.post1 and some records."""
    text = samples.manifest("swiglu", ["op"])
    made = samples.wheel(
        tmp_path / "w", "netcl-plugin-swiglu", "0.10.post1", text=text, plugin="swiglu"
    )
    (tmp_path / "r").mkdir()
    for number, one in enumerate(records):
        (tmp_path / "r" / f"{number}.json").write_text(samples.text_of(one, made))
    result = samples.build(tmp_path / "w", tmp_path / "out", "--records", str(tmp_path / "r"))
    assert result.exit_code == 0, result.output
    return tmp_path / "out"


def page_of(out: Path) -> str:
    return (out / "plugins" / "netcl-plugin-swiglu.html").read_text(encoding="utf-8")


def badge_of(out: Path, kind: str) -> str:
    return (out / "badges" / "netcl-plugin-swiglu" / f"{kind}.svg").read_text(encoding="utf-8")


def test_levels_of_a_cell_are_kept_apart(tmp_path: Path) -> None:
    """A newer look at the manifest does not replace a failure of kernels that ran."""
    run = cell("intel", "fail", date=OLD)
    out = market_of(tmp_path, run, cell("intel", level="static", date=NEW))
    assert "matrix: 1 pass, 1 fail" in page_of(out) and "matrix: 1/2" in badge_of(out, "matrix")
    assert "<td>run</td>" in page_of(out) and "<td>static</td>" in page_of(out)


def test_a_set_up_error_without_a_device_goes_when_the_cell_has_run(tmp_path: Path) -> None:
    nowhere = {"name": "intel", "platform": "", "driver": "", "device": ""}
    broken = cell("intel", "setup_error", date=OLD, runtime=nowhere)
    later = cell("pocl", "setup_error", date=NEW, runtime=nowhere | {"name": "pocl"})
    out = market_of(tmp_path, broken, cell("intel", date=NEW), later, cell("pocl", date=OLD))
    assert "matrix: 2 pass, 1 not set up" in page_of(out)  # what was broken later still counts


def test_what_could_not_be_set_up_is_not_green(tmp_path: Path) -> None:
    """As on the board of the matrix: 3 of 8 are no pass."""
    names = ("intel", "pocl", "gpu", "numpy", "a", "b", "c", "d")
    cells = [cell(name, "pass" if n < 3 else "setup_error") for n, name in enumerate(names)]
    out = market_of(tmp_path, *cells)
    assert '<span class="state warn"><span aria-hidden="true">!</span> matrix: 3 pass' in page_of(
        out
    )
    badge = badge_of(out, "matrix")
    assert "matrix: 3/8" in badge and "#8a5300" in badge


def test_a_cell_of_another_build_is_not_used(tmp_path: Path) -> None:
    """Neither it nor its check; a cell names its wheel in what decides its content."""
    passed = small("passed").as_json()
    other = cell("intel", content={"plugin": "1" * 64}, check=passed)
    out = market_of(tmp_path, other)
    assert "No cell of the matrix" in page_of(out) and "No record of a check" in page_of(out)
    found = load(tmp_path / "r")
    assert found.checks[0].wheel_sha256 == "1" * 64


def test_the_check_of_a_cell_that_could_not_be_set_up_says_nothing(tmp_path: Path) -> None:
    out = market_of(tmp_path, cell("intel", "setup_error", check=small("failed").as_json()))
    assert "not checked" in badge_of(out, "checks")


def test_a_list_of_records(tmp_path: Path) -> None:
    """What `netcl plugins check --json` prints without a NAME; all of it or nothing."""
    both = [small("passed").as_json(), small("failed", check="gradient").as_json()]
    out = market_of(tmp_path, both)
    assert "failing (full)" in badge_of(out, "checks")
    (tmp_path / "r" / "bad.json").write_text(json.dumps([both[0], 3]))
    found = load(tmp_path / "r")
    assert len(found.checks) == 2 and [file for file, _ in found.refused] == ["bad.json"]


def test_a_namespace_has_scenarios_and_no_ops(tmp_path: Path) -> None:
    """They stand in a table of their own and say what is known of the namespace."""
    text = samples.manifest("opt", {"opt": "namespace", "op": "primitive"})
    wheel = samples.wheel(tmp_path / "w", "netcl-plugin-opt", text=text, plugin="opt")
    names: dict[str, OutcomeState] = {"opt-Adam": "passed", "opt-SGD": "failed", "op": "passed"}
    made = [Outcome("scenario", state, name, "opencl:0") for name, state in names.items()]
    (tmp_path / "r").mkdir()
    one = record(plugin="opt", version="1.0", outcomes=tuple(made), devices=(INTEL,))
    (tmp_path / "r" / "one.json").write_text(samples.text_of(one.as_json(), wheel))
    samples.build(tmp_path / "w", tmp_path / "out", "--records", str(tmp_path / "r"))
    page = (tmp_path / "out" / "plugins" / "netcl-plugin-opt.html").read_text(encoding="utf-8")
    ops, scenarios = page.split('<th scope="col">Scenario</th>')
    assert "opt-" not in ops.partition('<th scope="col">Op</th>')[2]
    assert "opt-Adam" in scenarios and "opt-SGD" in scenarios
    brought = ops.partition('<th scope="row">opt</th>')[2].partition("</tr>")[0]
    assert "failed" in brought


def test_a_policy_and_a_pattern_have_pages(tmp_path: Path) -> None:
    """A policy has a storage dtype and no kernels, a pattern what an op has but for a gradient."""
    text = samples.manifest("mixed", {"careful": "amp_policy", "pair": "pattern"})
    policy, rest = text.split('kind = "amp_policy"')
    _, _, rest = rest.partition("[[provides]]")
    text = f'{policy}kind = "amp_policy"\nstorage = "float16"\n[[provides]]{rest}'
    wheel = samples.wheel(tmp_path / "w", "netcl-plugin-mixed", text=text, plugin="mixed")
    made = [Outcome("policy", "failed", "careful", "opencl:0", "float16", "exp is off by 1")]
    (tmp_path / "r").mkdir()
    one = record(plugin="mixed", version="1.0", outcomes=tuple(made), devices=(INTEL,))
    (tmp_path / "r" / "one.json").write_text(samples.text_of(one.as_json(), wheel))
    samples.build(tmp_path / "w", tmp_path / "out", "--records", str(tmp_path / "r"))
    folder = tmp_path / "out" / "plugins" / "netcl-plugin-mixed"
    careful, pair = ((folder / f"{name}.html").read_text() for name in ("careful", "pair"))
    assert "<dt>Storage</dt><dd>float16</dd>" in careful and "exp is off by 1" in careful
    assert "Kernels as rendered" not in careful and "<dt>Gradient</dt>" not in careful + pair
    assert "float16, float32" in pair and "Which ops mixed precision computes" in careful
    index = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "plugins/netcl-plugin-mixed/careful.html" in index


def test_bad_records_are_named(inputs: Path) -> None:
    evidence = load(inputs / "records")
    refused = {file.removesuffix(".json") for file, _ in evidence.refused}
    assert refused == {
        "bad-kind", "bad-schema", "bad-list", "bad-state", "bad-runtime", "bad-json", "bad-depth",
        "bad-nest",
    }  # fmt: skip
    assert len(evidence.cells) == 5 and len(evidence.checks) == 4


def test_records_of_what_is_not_here_are_said(inputs: Path, tmp_path: Path) -> None:
    records = str(inputs / "records")
    result = samples.build(inputs / "wheels", tmp_path / "out", "--records", records, "--json")
    elsewhere, build = sorted(json.loads(result.stdout)["unused"])
    assert elsewhere == "netcl-plugin-elsewhere 0.10.post1: no wheel of it is here"
    assert "the record is of another build (000000000000)" in build


def test_no_record_at_all(inputs: Path, tmp_path: Path) -> None:
    samples.build(inputs / "wheels", tmp_path / "out")
    front = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "No record of a check was given" in front and "✓" not in front
    page = (tmp_path / "out" / "plugins/netcl-plugin-swiglu.html").read_text(encoding="utf-8")
    assert "No record of a check of version 0.10.post1 was given" in page
    assert "No cell of the matrix of version 0.10.post1 was given" in page
    op = (tmp_path / "out" / "plugins/netcl-plugin-swiglu/swiglu.html").read_text(encoding="utf-8")
    assert "no rendered source" in op
