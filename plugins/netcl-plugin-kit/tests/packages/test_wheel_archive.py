"""A wheel is opened as a file that nobody trusts: by the check, which unpacks it, as by others."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from netcl_plugin_kit.packages import wheel_archive
from netcl_plugin_kit.packages.wheel import read_wheel
from netcl_plugin_kit.packages.wheel_archive import is_safe, opened

from netcl_core.cli.main import netcl
from netcl_core.errors import PluginError

#: They start processes.
pytestmark = pytest.mark.turns(2)

INFO = "netcl_plugin_odd-1.0.dist-info"
FILES = {
    "netcl_plugin_odd/__init__.py": "plugin = None",
    f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: netcl-plugin-odd\nVersion: 1.0\n",
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\n",
    f"{INFO}/RECORD": "",
}
HOSTILE = (
    "../up.py",
    "/etc/up.py",
    "a/../../up.py",
    "c:/up.py",
    "a\\up.py",
    "a//up.py",
    "netcl_plugin_odd-1.0.data/purelib/../../../up.py",
    "netcl_plugin_odd-1.0.data/purelib//etc/up.py",
    "netcl_plugin_odd/x.py.",
    "netcl_plugin_odd/x.py ",
)


def wheel(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    path = folder / "netcl_plugin_odd-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {**FILES, **(files or {})}.items():
            archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_DEFLATED)
    return path


def check(path: Path) -> tuple[int, str]:
    """How `netcl plugins check` ends, and what it says."""
    result = CliRunner().invoke(netcl, ["plugins", "check", str(path), "--level", "static"])
    return result.exit_code, " ".join(result.output.split())


def test_what_unpacks_to_too_much_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the sum of its parts, each of which may be small, and before anything is written."""
    path = wheel(tmp_path, {f"netcl_plugin_odd/{i}.txt": b"0" * (1 << 20) for i in range(5)})
    assert path.stat().st_size < 1 << 20
    monkeypatch.setattr(wheel_archive, "TOTAL_LIMIT", 4 << 20)
    code, said = check(path)
    assert (
        code == 2 and "it is no wheel (the wheel: unpacked it has 5 MiB; expected at most" in said
    )
    with pytest.raises(PluginError, match="unpacked it has 5 MiB"):
        read_wheel(path)


def test_a_document_has_a_limit(tmp_path: Path) -> None:
    path = wheel(tmp_path, {f"{INFO}/METADATA": FILES[f"{INFO}/METADATA"] + "\n" + "x" * (5 << 20)})
    code, said = check(path)
    assert code == 2 and f"{INFO}/METADATA has 52429" in said
    with pytest.raises(PluginError, match="at most 4194304"):
        read_wheel(path)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_leads_nowhere(tmp_path: Path, name: str) -> None:
    """The reader refuses it; the check says it and writes nothing outside its folder."""
    folder = tmp_path / "site"
    path = wheel(tmp_path, {name: "x = 1"})
    with opened(path) as archive:
        archive.unpack(folder)
    written = {each.relative_to(tmp_path).as_posix() for each in tmp_path.rglob("*.py")}
    assert written == {"site/netcl_plugin_odd/__init__.py"} and not is_safe(name)
    code, said = check(path)
    assert code == 1 and "NC106" in said
    with pytest.raises(PluginError, match="paths below its own folder"):
        read_wheel(path)


def test_a_file_that_is_there_twice(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    with (
        zipfile.ZipFile(path, "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("netcl_plugin_odd/__init__.py", "plugin = 1")
    result = CliRunner().invoke(
        netcl, ["plugins", "check", str(path), "--level", "static", "--json"]
    )
    wrong = "its RECORD differs from what it holds: netcl_plugin_odd/__init__.py (there twice)"
    assert result.exit_code == 1 and f"NC102: {wrong}" in result.stdout
    with pytest.raises(PluginError, match="twice; expected each file once"):
        read_wheel(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("netcl_plugin_odd/__INIT__.py", "names that differ"),
        (f"{INFO}/direct_url.json", "installers write that"),
        (f"{INFO}/INSTALLER", "installers write that"),
    ],
)
def test_a_file_that_is_another_somewhere(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(PluginError, match=said):
        read_wheel(wheel(tmp_path, {name: ""}))


@pytest.mark.parametrize("what", ["before", "between", "behind", "link"])
def test_what_readers_of_zip_files_take_for_other_files(tmp_path: Path, what: str) -> None:
    """Some read from the start, and would install what no check has seen."""
    path = wheel(tmp_path)
    assert read_wheel(path).name == "netcl-plugin-odd"
    data = path.read_bytes()
    if what == "before":
        path.write_bytes(wheel(tmp_path).read_bytes() + data)
    elif what == "behind":
        path.write_bytes(data + b"PK")
    else:
        with zipfile.ZipFile(path, "a") as archive:
            info = zipfile.ZipInfo("netcl_plugin_odd/other.py")
            info.external_attr = 0o120777 << 16
            archive.writestr(info, "x = 1")
            if what == "between":  # it is there, and the directory does not name it
                archive.filelist.remove(info)
    with pytest.raises(PluginError, match=r"of no file|is a link"):
        read_wheel(path)


def test_a_length_that_lies(tmp_path: Path) -> None:
    """The directory says less than there is: it is not read beyond that, and not taken for it."""
    path = wheel(tmp_path, {"netcl_plugin_odd/big.txt": b"0" * (1 << 20)})
    data, size = path.read_bytes(), (1 << 20).to_bytes(4, "little")
    path.write_bytes(data.replace(size, (9).to_bytes(4, "little")))
    code, said = check(path)
    assert code == 2 and "it cannot be unzipped (Bad CRC-32" in said


def test_a_record_that_is_no_list(tmp_path: Path) -> None:
    """csv refuses so long a field; the check goes on, and says that nothing is listed."""
    points = "[netcl_core.plugins]\nodd = netcl_plugin_odd:plugin\n"
    files = {f"{INFO}/RECORD": "x" * 200_000, f"{INFO}/entry_points.txt": points}
    path = wheel(tmp_path, files)
    code, said = check(path)
    assert code == 1 and "netcl_plugin_odd/__init__.py (not listed)" in said
    with pytest.raises(PluginError, match="its RECORD: field larger than field limit"):
        read_wheel(path)
