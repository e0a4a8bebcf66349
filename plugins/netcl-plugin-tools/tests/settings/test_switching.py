"""`netcl plugins enable` and `disable`: which file they change, and what in it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from daily import examples
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from netcl_plugin_tools.settings import file, switching
from project_settings import PROJECT, run, settings, states

# -- enable and disable --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["losses", "netcl-plugin-losses", "Netcl_Plugin.losses:losses"])
def test_a_plugin_is_switched_off_and_on(project: Path, name: str) -> None:
    said = run("disable", name)
    assert said.exit_code == 0, said.output
    assert said.stdout == f"netcl-plugin-losses is disabled in {project}\n"
    assert settings(project)["plugins-disable"] == ["netcl-plugin-conv", "netcl-plugin-losses"]
    assert states()["netcl-plugin-losses"] == "disabled"
    written = project.read_text()
    again = run("disable", name, "--json")
    assert not json.loads(again.stdout)["changed"] and project.read_text() == written
    assert run("enable", name).stdout == f"netcl-plugin-losses is enabled in {project}\n"
    assert states()["netcl-plugin-losses"] == "found"
    assert tomllib.loads(project.read_text()) == tomllib.loads(PROJECT)
    kept = [line for line in PROJECT.splitlines() if "#" in line]
    assert [line for line in project.read_text().splitlines() if "#" in line] == kept
    assert run("enable", name).stdout == f"netcl-plugin-losses is already enabled in {project}\n"


def test_a_link_stays_a_link_and_the_mode_as_it_is(project: Path, tmp_path: Path) -> None:
    kept = project.rename(tmp_path / "elsewhere.toml")
    kept.chmod(0o640)
    project.symlink_to(kept)
    assert run("disable", "losses").exit_code == 0
    assert project.is_symlink() and "netcl-plugin-losses" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o640
    assert sorted(tmp_path.iterdir()) == [kept, project]  # nothing is left over


def test_the_last_one_leaves_no_empty_list(project: Path) -> None:
    assert run("enable", "conv").exit_code == 0
    assert settings(project) == {"device": "numpy"}


def test_what_is_not_among_the_only_ones_is_added(project: Path) -> None:
    project.write_text('[tool.netcl]\nplugins = "elementwise, tools"\n')
    assert states()["netcl-plugin-losses"] == "disabled"
    assert run("enable", "losses").exit_code == 0
    assert settings(project)["plugins"] == ["elementwise", "tools", "netcl-plugin-losses"]
    assert states()["netcl-plugin-losses"] == "found"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["disable", "elementwse"], "Did you mean elementwise?"),
        (["enable", "nothing-like-it"], "See `netcl plugins list`"),
        (["prefer", "no_such_op", "linalg"], "no installed plugin provides this op"),
        (
            ["prefer", "matmul", "linalg:host bla"],
            "one of netcl-plugin-linalg, netcl-plugin-linalg:",
        ),
        (["prefer", "matmul", "host blass"], "Did you mean 'host BLAS'?"),
        (["prefer", "matmul"], "exclude each other"),
        (["prefer", "matmul", "linalg", "--forget"], "exclude each other"),
        (["prefer", "matmul", "linalg", "--shapes", "3,3"], "expected --measured"),
    ],
)
def test_what_nobody_is_called_changes_nothing(project: Path, words: list[str], told: str) -> None:
    said = run(*words)
    assert said.exit_code == 2 and told in said.stderr, said.output
    assert project.read_text() == PROJECT


def test_a_variable_that_goes_before_the_file_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_PLUGINS_DISABLE", "conv")
    assert "NETCL_PLUGINS_DISABLE is set, and goes before" in run("disable", "losses").stdout


def test_one_that_is_gone_can_be_taken_out(project: Path) -> None:
    project.write_text('[tool.netcl]\nplugins-disable = ["gone"]\n')
    assert run("enable", "gone").exit_code == 0 and settings(project) == {}


# -- where it is written -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"netcl.toml": '[resolve]\nmatmul = "netcl-plugin-linalg"\n'}),
        (
            {"netcl.toml": "# ours\r\ncache = true\r\n"},
            {
                "netcl.toml": "# ours\r\ncache = true\r\n\r\n"
                '[resolve]\r\nmatmul = "netcl-plugin-linalg"\r\n'
            },
        ),
        (
            {"pyproject.toml": "[tool.a]\nx = 1\n[project]\n[tool.b]\ny = 2"},
            {
                "pyproject.toml": "[tool.a]\nx = 1\n[project]\n[tool.b]\ny = 2\n\n[tool.netcl]\n"
                '[tool.netcl.resolve]\nmatmul = "netcl-plugin-linalg"\n'
            },
        ),
    ],
    ids=["no file", "a file of its own", "a project without a table"],
)
def test_the_file_that_holds_is_written(
    project: Path, before: dict[str, str], after: dict[str, str]
) -> None:
    project.unlink()
    for name, text in before.items():
        project.with_name(name).write_bytes(text.encode())
    assert run("prefer", "matmul", "linalg").exit_code == 0
    found = {each.name: each.read_bytes().decode() for each in project.parent.iterdir()}
    assert found == after


@pytest.mark.parametrize(
    "text", ["[tool]\nnetcl = {device = 'numpy'}\n", "tool.netcl.device = 'numpy'\n"]
)
def test_other_spellings_of_the_table(project: Path, text: str) -> None:
    """Edited right, or refused and left as it was."""
    project.write_text(text)
    said = run("prefer", "matmul", "linalg")
    if said.exit_code == 0:
        assert settings(project) == {
            "device": "numpy",
            "resolve": {"matmul": "netcl-plugin-linalg"},
        }
    else:
        assert "cannot be edited in place" in said.stderr and project.read_text() == text


HEADS = ("", "# ours\n", "[project]\nname = 'x' # y\n\n", "[tool.a]\nb = [1, # one\n 2]\n[x]\n")
OWN = (
    "",
    "[tool.netcl]\n",
    "[tool.netcl] # t\nplugins-disable = ['a', # first\n  'b']\nlock = false\n",
    "[tool.netcl.resolve]\n# who\nf = 'a' # a\n",
    "[tool.netcl]\nplugins-disable = 'a, b'\nresolve = {f = ['a', 'b']}\n",
)
TAILS = ("", "\n[tool.z]\nx = 1 # z\n", "[[list]]\na = 1\n[[list]]\n")
NAMES = st.sampled_from(["a", "b", "c:d"])


@given(
    st.tuples(st.sampled_from(HEADS), st.sampled_from(OWN), st.sampled_from(TAILS)),
    st.lists(st.tuples(st.sampled_from("+-="), NAMES), min_size=1, max_size=4),
)
@settings_of_hypothesis(max_examples=examples(40), deadline=None)
def test_edits_change_what_they_say_and_nothing_else(
    parts: tuple[str, ...], edits: list[tuple[str, str]]
) -> None:
    """Names come into the list and go, an op gets a choice; all else and its comments stay."""
    text = "".join(parts)
    wanted = tomllib.loads(text)
    own = wanted.setdefault("tool", {}).setdefault("netcl", {})
    listed = switching._entries(own, "plugins-disable")
    for sign, name in edits:
        before = text

        def edit(table: Any, sign: str = sign, name: str = name) -> None:
            there = switching._entries(table, "plugins-disable")
            rest = [each for each in there if each != name]
            if sign == "=":
                table.setdefault("resolve", {})["f"] = name
            else:
                now = rest if sign == "-" else there if name in there else [*there, name]
                switching._store(table, "plugins-disable", now)

        text = file._edited("test", Path("pyproject.toml"), text, edit)
        if sign == "=":
            own.setdefault("resolve", {})["f"] = name
        elif sign == "-":
            listed = [each for each in listed if each != name]
        elif name not in listed:
            listed.append(name)
        assert file._edited("test", Path("pyproject.toml"), text, edit) == text
        assert text == before or "netcl" in text
    found = tomllib.loads(text)
    now = found.setdefault("tool", {}).setdefault("netcl", {})
    assert switching._entries(now, "plugins-disable") == listed
    for table in (now, own):
        table.pop("plugins-disable", None)
    assert found == wanted
    for head in (parts[0], parts[2]):
        assert head in text
