"""`netcl plugins new`: names, folders, what it prints, and that it leaves nothing half done."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from netcl_plugin_kit.new import project
from netcl_plugin_kit.new.names import ProjectNames, chosen
from netcl_plugin_kit.new.scaffolds import SCAFFOLDS

import netcl_core as nc
from netcl_core.cli.main import netcl
from netcl_core.plugins.kinds import KINDS

PRIMITIVE = KINDS["primitive"]
KIND = pytest.mark.parametrize("kind", SCAFFOLDS)


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths are the test's own."""
    monkeypatch.chdir(tmp_path)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(netcl, ["plugins", "new", *arguments], catch_exceptions=False)


def complaint(result: Result) -> str:
    """What a refusal says, in one line."""
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("given", "op", "names"),
    [
        ("tulip", None, ProjectNames("tulip", "netcl-plugin-tulip", "netcl_plugin_tulip", "tulip")),
        ("netcl-plugin-tulip", None, chosen("tulip", PRIMITIVE)),
        ("Netcl_Plugin.Tulip", None, chosen("tulip", PRIMITIVE)),
        ("a-b2", None, ProjectNames("a-b2", "netcl-plugin-a-b2", "netcl_plugin_a_b2", "a_b2")),
        ("a_b2", "other", ProjectNames("a-b2", "netcl-plugin-a-b2", "netcl_plugin_a_b2", "other")),
    ],
)
def test_names(given: str, op: str | None, names: ProjectNames) -> None:
    assert chosen(given, PRIMITIVE, op) == names


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["2fast"], "the name '2fast'; expected letters, digits and hyphens"),
        (["netcl-plugin-"], "the name 'netcl-plugin-'"),
        (["a/b"], "the name 'a/b'"),
        (["x" * 25], "at most 24 characters. Try one like 'swiglu'"),
        (["core"], "one that is not the core's"),
        (["kit"], "netcl-plugin-kit is installed; expected a new name. Choose another, "
         "or first run: pip uninstall netcl-plugin-kit"),
        (["elementwise"], "netcl-plugin-elementwise is "),
        (["tulip", "--op", "gelu"], "the op 'gelu' exists: netcl-plugin-elementwise brings it"),
        (["gelu"], "Choose another with --op"),
        (["tulip", "--op", "backward"], "netcl_core.autograd.backward is the core's own"),
        (["tulip", "--op", "lambda"], "the op 'lambda'; expected a Python name"),
        (["tulip", "--op", "Tulip"], "in small letters"),
        (["tulip", "--op", "2l"], "the op '2l'"),
        (["tulip", "--op", ""], "the op ''"),
    ],
)  # fmt: skip
def test_names_that_are_refused(arguments: list[str], text: str, tmp_path: Path) -> None:
    assert text in complaint(call(*arguments, "--kind", "primitive"))
    assert list(tmp_path.iterdir()) == []


def test_an_implementation_is_for_the_operator_that_is_named() -> None:
    """With the inputs, attributes and dtypes of the operator's case, and its own kernel's name."""
    result = call("tulip", "--kind", "implementation", "--op", "rms_norm")
    assert result.exit_code == 0 and "for the operator rms_norm" in result.output
    package = Path("netcl-plugin-tulip", "src", "netcl_plugin_tulip")
    module = (package / "implementations.py").read_text(encoding="utf-8")
    assert 'OPERATOR = "rms_norm"\n' in module and 'NAME = "tulip"\n' in module
    assert "    x: float32, [4, 6, 5]\n" in module and '("float"' not in module
    assert '(dtype.compute, request.attrs["eps"])' in module and "reject=unwritten" in module
    kernel = (package / "templates" / "tulip.cl.j2").read_text(encoding="utf-8")
    assert "*in0,  // x\n" in kernel and "const {{ acc }} eps)" in kernel
    assert "softmax" not in (package / "netcl_plugin.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("op", "text"),
    [
        ("rms_nrm", "no installed plugin brings the op 'rms_nrm'; expected an installed operator. "
         "Did you mean --op rms_norm?"),
        ("relu", "'relu' is one C expression (netcl-plugin-elementwise), which has no implemen"),
    ],
)  # fmt: skip
def test_what_has_no_implementations(op: str, text: str, tmp_path: Path) -> None:
    assert text in complaint(call("tulip", "--kind", "implementation", "--op", op))
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_kind_lists_the_kinds() -> None:
    said = complaint(call("tulip", "--kind", "flower"))
    assert "the kind 'flower' is unknown" in said
    assert all(f"{name} {kind.brings}" in said for name, kind in SCAFFOLDS.items())


def test_a_kind_is_needed() -> None:
    assert "Missing option '--kind'" in complaint(call("tulip"))


@KIND
def test_what_is_written(kind: str) -> None:
    result = call("tulip-bulb", "--kind", kind, "--author", 'Carl "L" Linné')
    assert result.exit_code == 0, result.output
    folder = Path("netcl-plugin-tulip-bulb")
    package = folder / "src" / "netcl_plugin_tulip_bulb"
    table = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert table["authors"] == [{"name": 'Carl "L" Linné'}]
    owner = {"amp-policy": "amp", "pattern": "patterns"}.get(kind)
    records = [f"netcl-plugin-{owner}>=0.1,<0.2"] if owner else []
    assert table["dependencies"] == [f"netcl-core>={nc.__version__},<0.2", *records]
    assert 'Carl "L" Linné' in (folder / "LICENSE").read_text(encoding="utf-8")
    template = package / "templates" / "tulip_bulb.cl.j2"
    assert template.is_file() == ("templates" in SCAFFOLDS[kind].keys)
    assert (folder / ".github" / "workflows" / "ci.yml").is_file()
    assert (folder / ".gitignore").is_file()
    left = [
        path
        for path in folder.rglob("*")
        if path.is_file() and ("<<" in path.read_text(encoding="utf-8") or path.suffix == ".part")
    ]
    assert left == []


@KIND
def test_what_is_printed(kind: str) -> None:
    lines = call("tulip", "--kind", kind).output.splitlines()
    place = lines.index("Next:")
    assert [line.split()[0] for line in lines[place + 1 : place + 4]] == ["cd", "python", "netcl"]
    assert all(line.startswith("  ") for line in lines[place + 1 : place + 4])
    told = lines[lines.index("Then make it yours:") + 1 :]
    named = [line.split()[0] for line in told if not line.startswith("   ")]
    assert named and max(map(len, lines)) <= 80
    assert all((Path("netcl-plugin-tulip") / name).is_file() for name in named)


@KIND
def test_json(kind: str, tmp_path: Path) -> None:
    op, own = ("softmax", "tulip") if kind == "implementation" else ("bloom", "bloom")
    result = call("tulip", "--kind", kind, "--op", op, "--out", "here/there", "--json")
    data = json.loads(result.output)
    assert (data["plugin"], data["op"], data["kind"]) == ("tulip", own, kind)
    assert data.get("operator", op) == op
    assert data["distribution"] == "netcl-plugin-tulip"
    assert len(data["next"]) == 3
    there = tmp_path / "here" / "there"
    written = sorted(p.relative_to(there).as_posix() for p in there.rglob("*") if p.is_file())
    assert data["files"] == written


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    assert call("tulip", "--kind", "primitive", "--out", ".").exit_code == 0
    assert (tmp_path / "pyproject.toml").is_file()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "netcl-plugin-tulip"
    folder.mkdir()
    (folder / "notes").write_text("mine")
    said = complaint(call("tulip", "--kind", "primitive"))
    assert "netcl-plugin-tulip exists and is not empty; expected a new or an empty folder" in said
    assert [path.name for path in folder.iterdir()] == ["notes"]


@pytest.mark.parametrize("there", [True, False])
def test_an_error_leaves_nothing(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "netcl-plugin-tulip"
    if there:
        folder.mkdir()
    write, written = Path.write_text, []

    def full(path: Path, *args: object, **kwargs: object) -> int:
        if len(written) == 5:
            raise OSError(28, "No space left on device")
        written.append(path)
        return write(path, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", full)
    result = call("tulip", "--kind", "operator")
    assert result.exit_code == 3
    assert "netcl-plugin-tulip cannot be written (No space left on device)" in result.output
    assert len(written) == 5
    assert folder.exists() == there
    assert not there or list(folder.iterdir()) == []


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = call("tulip", "--kind", "primitive", "--out", "file/out")
    assert result.exit_code == 3 and "cannot be written (Not a directory)" in result.output


def test_any_author_is_written(tmp_path: Path) -> None:
    """Also with characters that JSON writes in halves, and TOML does not."""
    author = 'Ada "\U0001f431" \\ \x7f \u4e2d'
    for kind in SCAFFOLDS.values():
        files = project.rendered(
            kind, ProjectNames("t", "netcl-plugin-t", "netcl_plugin_t", "t"), author
        )
        (given,) = tomllib.loads(files["pyproject.toml"])["project"]["authors"]
        assert given == {"name": author}


def test_every_kind_has_its_files() -> None:
    """A row of the table without a folder of templates would write a project without an op."""
    for kind in SCAFFOLDS.values():
        names = ProjectNames("tulip", "netcl-plugin-tulip", "netcl_plugin_tulip", "bloom")
        files = project.rendered(kind, names, "nobody")
        template = "src/netcl_plugin_tulip/templates/bloom.cl.j2"
        assert (template in files) == ("templates" in kind.keys)
        first = project.first_files(kind, names)
        assert first and all(line.split()[0] in files for line in first)
