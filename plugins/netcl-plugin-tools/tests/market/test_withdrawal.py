"""What is yanked, in quarantine or warned of: in the index, on pages, in the feed, on machines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import samples
from click.testing import CliRunner
from htmlcheck import Page
from netcl_market.advisories import Advisory, as_json, read_advisories, read_withdrawals

from netcl_core.cli.main import netcl
from netcl_core.errors import RecordError

GATE, ODD = "netcl-plugin-gate", "netcl-plugin-odd"
WHY = "Its gradient is wrong & <b>"
WITHDRAWN = """
[[yanked]]
name = "Netcl_Plugin_Gate"
versions = "==2.0"
text = "Its gradient is wrong & <b>"
date = "2026-11-27"
[[quarantined]]
name = "netcl-plugin-odd"
text = "It sends files away"
date = "2026-11-26"
[[advisory]]
id = "M-1"
name = "netcl-plugin-gate"
versions = "<1.5"
fixed = "1.5"
text = "It reads one element too many"
date = "2026-11-25"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("withdrawn")
    for name, version in ((GATE, "1.0"), (GATE, "1.5"), (GATE, "2.0"), (ODD, "1.0")):
        stem = name.removeprefix("netcl-plugin-")
        text = samples.manifest(stem, [stem])
        samples.wheel(folder / "wheels", name, version, text=text, plugin=stem)
    (folder / "wheels" / "withdrawals.toml").write_text(WITHDRAWN)
    result = samples.build(folder / "wheels", folder / "out")
    assert result.exit_code == 0, result.output
    return folder / "out"


def test_the_index_says_what_pip_must_not_take(site: Path) -> None:
    gate, odd = (
        json.loads((site / "simple" / name / "index.json").read_text()) for name in (GATE, ODD)
    )
    yanked = {one["filename"].split("-")[1]: one.get("yanked", False) for one in gate["files"]}
    assert yanked == {"1.0": False, "1.5": False, "2.0": WHY}
    assert gate["project-status"] == {"status": "active"}
    assert odd["project-status"] == {"status": "quarantined", "reason": "It sends files away"}
    assert odd["files"] == []
    links = Page(site / "simple" / GATE / "index.html").tags["a"]
    assert [link.get("data-yanked") for link in links] == [
        None,
        None,
        "Its gradient is wrong & <b>",
    ]
    html = (site / "simple" / ODD / "index.html").read_text()
    assert '<meta name="pypi:project-status" content="quarantined">' in html and "<a" not in html
    assert not [*(site / "wheels").glob("netcl_plugin_odd*")]


def test_pages_feed_and_file_say_it(site: Path) -> None:
    gate, odd = (" ".join(Page(site / f"plugins/{name}.html").text.split()) for name in (GATE, ODD))
    assert "Advisory" in gate or "M-1" in gate
    assert "1.5 latest" in gate and "2.0 yanked" in gate
    assert "In quarantine" in odd and "pip install" not in odd
    feed = (site / "feed.xml").read_text()
    assert "netcl-plugin-odd of every version: quarantined" in feed
    assert "netcl-plugin-gate ==2.0: yanked" in feed and "Take 1.5" in feed
    rows = read_advisories(site / "advisories.json")
    assert [row.kind for row in rows] == ["yanked", "quarantined", "advisory"]


def test_a_row_hits_what_it_names() -> None:
    row = Advisory("yanked", "netcl-plugin-gate", "why", "2026-11-27", ">=2")
    hit = ("2.0", "2.1rc1", "3.dev1", "no version")
    assert all(row.hits("Netcl.Plugin_Gate", each) for each in hit)
    assert not row.hits(GATE, "1.9") and not row.hits("netcl-plugin-gates", "2.0")


BAD: dict[str, Any] = {
    "no TOML": "[[yanked",
    "a word for yanked": WITHDRAWN.replace("[[yanked]]", "[[yankd]]"),
    "a word for versions": WITHDRAWN.replace("versions", "version"),
    "a version that is none": WITHDRAWN.replace("==2.0", "2,0"),
    "no date": WITHDRAWN.replace('date = "2026-11-27"', ""),
    "no day": WITHDRAWN.replace("2026-11-27", "soon"),
    "no text": WITHDRAWN.replace("It sends files away", " "),
    "a quarantine of versions": WITHDRAWN.replace(
        "[[quarantined]]", '[[quarantined]]\nversions="<2"'
    ),
    "another alphabet": WITHDRAWN.replace("netcl-plugin-odd", "netcl-plugin-\u043edd"),
    "a table for a list": "[yanked]\nname = 'x'",
}


@pytest.mark.parametrize("what", BAD)
def test_a_withdrawal_that_would_hit_nothing_is_an_error(tmp_path: Path, what: str) -> None:
    (tmp_path / "withdrawals.toml").write_text(BAD[what], encoding="utf-8")
    with pytest.raises(RecordError, match="withdrawals"):
        read_withdrawals(tmp_path / "withdrawals.toml")


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": 9}', '{"schema": 1, "advisories": [1]}', "[" * 9999]
)
def test_a_file_that_is_none_is_no_clean_bill(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "advisories.json"
    path.write_text(text)
    with pytest.raises(RecordError, match="advisories"):
        read_advisories(path)
    monkeypatch.setenv("NETCL_ADVISORIES", str(path))
    assert "advisories" in _doctor()[1] and _doctor()[0] != 0


def test_machines_are_warned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`netcl doctor` and `netcl plugins lock --check`, by the setting, which may be relative."""
    row = Advisory("advisory", "netcl-plugin-tools", "a hole", "2026-11-27", "", "M-2", "9.9")
    (tmp_path / "advisories.json").write_text(as_json([row]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NETCL_ADVISORIES", "advisories.json")
    code, said = _doctor()
    assert code == 1 and "NP514: netcl-plugin-tools" in said and "Take 9.9" in said
    (tmp_path / "advisories.json").write_text(
        as_json([Advisory("yanked", GATE, "x", "2026-11-27")])
    )
    assert "none of what is installed" in _doctor()[1]


def _doctor() -> tuple[int, str]:
    result = CliRunner().invoke(netcl, ["doctor", "--json"])
    return result.exit_code, result.output
