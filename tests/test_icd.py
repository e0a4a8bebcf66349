"""Runtimes are found, repaired and shown to the loader, and nothing of the system's is hidden."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from netcl_core.hardware import icd, runtimes


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty machine: no system runtimes, no environment, no NVIDIA, nothing installed yet."""
    monkeypatch.setattr(runtimes, "SYSTEM_VENDORS", tmp_path / "etc")
    monkeypatch.setattr(runtimes, "LOADER_CACHE", tmp_path / "no-cache")
    monkeypatch.setattr(runtimes, "NVIDIA_LIBRARY", "libnot-there-nvidia.so.1")
    monkeypatch.setattr(icd, "_installation", None)
    monkeypatch.setattr(icd, "_without_deadly", list)
    monkeypatch.setattr(runtimes, "bundled_vendors", lambda: None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path / "cache"))
    # Recorded first, so that what the code under test sets is taken back.
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    return tmp_path


def list_icd(folder: Path, name: str, library: str | Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.icd"
    path.write_text(str(library))
    return path


def library(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    return path


def system_runtime(machine: Path, name: str = "sys") -> Path:
    path = library(machine / f"usr/lib{name}.so")
    list_icd(machine / "etc", name, path)
    return path


def pip_runtime(machine: Path, name: str = "fast", root: str = "env") -> Path:
    path = library(machine / root / f"lib/lib{name}.so")
    list_icd(machine / root / "etc/OpenCL/vendors", name, f"/opt/nowhere/lib{name}.so")
    return path


def test_nothing_there(machine: Path) -> None:
    assert runtimes.discover() == []
    assert icd.install().status == "system"
    assert not os.environ.get("OCL_ICD_VENDORS")


def test_system_alone_needs_no_folder(machine: Path) -> None:
    system_runtime(machine)
    (found,) = runtimes.discover()
    assert (found.source, found.accepted, found.reason) == ("system", True, "listed by the system")
    assert icd.install().status == "system"


def test_wrong_path_is_repaired(machine: Path) -> None:
    path = pip_runtime(machine)
    (found,) = runtimes.discover()
    assert found.accepted and found.library == str(path) and found.source == "pip"
    assert "/opt/nowhere/libfast.so does not exist" in found.reason


def test_wrong_path_without_library_is_rejected(machine: Path) -> None:
    list_icd(machine / "env/etc/OpenCL/vendors", "emu", "/opt/nowhere/libemu.so")
    (found,) = runtimes.discover()
    assert not found.accepted
    assert found.reason == "/opt/nowhere/libemu.so does not exist"


@pytest.mark.parametrize("content", ["", "\n", "  \n\n"])
def test_empty_icd_is_rejected(machine: Path, content: str) -> None:
    list_icd(machine / "etc", "empty", content)
    assert [(r.accepted, r.reason) for r in runtimes.discover()] == [(False, "the file is empty")]


def test_binary_icd_is_rejected(machine: Path) -> None:
    list_icd(machine / "etc", "bad", "").write_bytes(b"\xff\xfe\x00")
    (found,) = runtimes.discover()
    assert not found.accepted and "cannot be read" in found.reason


def test_bare_name_that_does_not_load_is_rejected(machine: Path) -> None:
    list_icd(machine / "etc", "gone", "libgone-for-good.so.7")
    (found,) = runtimes.discover()
    assert not found.accepted and "libgone-for-good.so.7" in found.reason


def test_bare_name_is_found_in_the_linkers_lists(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library(machine / "usr/libbare.so.2")
    listed = machine / "ld.so.cache"
    listed.write_bytes(b"x\0libbare.so.2\0" + os.fsencode(path) + b"\0more\0")
    monkeypatch.setattr(runtimes, "LOADER_CACHE", listed)
    assert runtimes.locate("libbare.so.2") == path
    assert runtimes.locate("bare.so.2") is None
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{machine / 'own'}:")
    own = library(machine / "own/libbare.so.2")
    assert runtimes.locate("libbare.so.2") == own


@pytest.mark.parametrize(
    ("entry", "root"),
    [
        ("user/lib/python3.11/site-packages", "user"),
        ("usr/lib/python3/dist-packages", "usr"),
        ("target", "target"),
    ],
)
def test_every_install_scheme(
    machine: Path, monkeypatch: pytest.MonkeyPatch, entry: str, root: str
) -> None:
    monkeypatch.setattr(sys, "path", ["", "relative", str(machine / entry)])
    path = pip_runtime(machine, root=root)
    (found,) = runtimes.discover()
    assert found.accepted and found.library == str(path)


def test_target_without_lib_explains_itself(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(machine / "target")])
    list_icd(machine / "target/etc/OpenCL/vendors", "cpu", "/opt/nowhere/libcpu.so")
    (found,) = runtimes.discover()
    assert not found.accepted and "--target leaves out" in found.reason


def test_wheel_libraries_beside_another_pyopencl(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(machine / "target")])
    path = library(machine / "target/pyopencl/.libs/libpocl-1.so")
    list_icd(path.parent, "pocl", path.name)
    (found,) = runtimes.discover()
    assert found.accepted and found.library == str(path)
    assert icd.install().status == "generated"


def test_what_pyopencl_lists_itself_is_not_listed_twice(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = library(machine / "site/pyopencl/.libs/libpocl-1.so")
    list_icd(path.parent, "pocl", path.name)
    monkeypatch.setattr(runtimes, "bundled_vendors", lambda: path.parent)
    (found,) = runtimes.discover()
    assert found.accepted and "beside pyopencl" in found.reason
    assert icd.install().status == "system"


def test_same_library_counts_once(machine: Path) -> None:
    real = system_runtime(machine)
    link = machine / "usr/liblink.so"
    link.symlink_to(real)
    list_icd(machine / "etc", "zlink", link)
    first, second = runtimes.discover()
    assert first.accepted and not second.accepted
    assert second.reason == f"the same library as in {machine / 'etc/sys.icd'}"


def test_second_copy_from_pip_stays_out(machine: Path) -> None:
    system_runtime(machine, "fast")
    pip_runtime(machine, "fast")
    system, pip = runtimes.discover()
    assert system.accepted and not pip.accepted and "comes first" in pip.reason


def test_unlisted_nvidia_is_added(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "NVIDIA_LIBRARY", "libc.so.6")  # one that surely loads
    kept = system_runtime(machine)
    _, nvidia = runtimes.discover()
    assert (nvidia.name, nvidia.source, nvidia.icd) == ("nvidia", "nvidia", None)
    folder = icd.install().vendors
    assert folder is not None
    assert {p.read_text() for p in folder.iterdir()} == {"libc.so.6\n", f"{kept}\n"}


def test_listed_nvidia_is_not_added(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "NVIDIA_LIBRARY", "libc.so.6")
    list_icd(machine / "etc", "nvidia", library(machine / "usr/libnvidia-opencl.so.1"))
    assert [r.source for r in runtimes.discover()] == ["system"]


def test_install_keeps_the_systems_runtimes(machine: Path) -> None:
    libraries = {str(system_runtime(machine)), str(pip_runtime(machine))}
    done = icd.install()
    assert done.status == "generated"
    assert os.environ["OCL_ICD_VENDORS"] == str(done.vendors)
    assert done.vendors is not None
    assert {p.read_text().strip() for p in done.vendors.iterdir()} == libraries
    pip_runtime(machine, "late")
    assert icd.install() is done


def test_install_from_many_threads(machine: Path) -> None:
    pip_runtime(machine)
    seen: list[icd.Installation] = []
    threads = [threading.Thread(target=lambda: seen.append(icd.install())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 16 and all(one is seen[0] for one in seen)


def test_many_writers_share_one_whole_folder(machine: Path) -> None:
    entries = {f"{n:02}-x.icd": f"/lib/{n}.so" for n in range(50)}
    seen: list[Path] = []
    threads = [
        threading.Thread(target=lambda: seen.append(icd.vendors_folder(entries))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1
    assert len(list(seen[0].iterdir())) == 50
    assert [p.name for p in seen[0].parent.iterdir()] == [seen[0].name]  # nothing left behind


def test_a_changed_folder_is_not_trusted(machine: Path) -> None:
    entries = {"00-x.icd": "/lib/x.so"}
    folder = icd.vendors_folder(entries)
    (folder / "01-evil.icd").write_text("/tmp/evil.so")
    other = icd.vendors_folder(entries)
    assert other != folder
    assert [p.name for p in other.iterdir()] == ["00-x.icd"]


def test_foreign_folder_is_not_trusted(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"00-x.icd": "/lib/x.so"}
    folder = icd.vendors_folder(entries)
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    assert icd.vendors_folder(entries) != folder


def test_cache_that_cannot_be_written(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "file").write_text("")
    monkeypatch.setenv("NETCL_CACHE_DIR", str(machine / "file"))
    folder = icd.vendors_folder({"00-x.icd": "/lib/x.so"})
    assert (folder / "00-x.icd").read_text() == "/lib/x.so\n"


@pytest.mark.parametrize("variable", runtimes.USER_VARIABLES)
def test_a_users_choice_stays(
    machine: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    pip_runtime(machine)
    monkeypatch.setenv(variable, "/my/own")
    done = icd.install()
    assert done.status == "user" and variable in done.reason
    assert os.environ[variable] == "/my/own"


def test_a_parents_folder_is_no_choice(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/cache/icd/netcl-icd-0123")
    assert icd.install().status == "system"
    assert "OCL_ICD_VENDORS" not in os.environ


def test_switched_off(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip_runtime(machine)
    monkeypatch.setenv("NETCL_ICD_DISCOVERY", "0")
    assert icd.install().status == "off"
    assert not os.environ.get("OCL_ICD_VENDORS")


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_elsewhere_nothing_is_done(
    machine: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    pip_runtime(machine)
    monkeypatch.setattr(sys, "platform", system)
    assert runtimes.discover() == []
    assert icd.install().status == "foreign"


def test_real_loader_sees_system_and_environment(python: Callable[..., str]) -> None:
    """Whatever platforms the system's list gives are still there after install."""
    code = "import json, pyopencl as cl; print(json.dumps([p.name for p in cl.get_platforms()]))"
    pytest.importorskip("pyopencl")
    before = json.loads(python(f"try:\n {code}\nexcept Exception: print('[]')"))
    after = json.loads(python(f"from netcl_core.hardware import icd\nicd.install()\n{code}"))
    assert set(before) <= set(after)
    if any(r.accepted and r.name == "intel-cpu" for r in runtimes.discover()):
        assert "Intel(R) OpenCL" in after


def test_libraries_of_ocl_icd_filenames_are_listed_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    library = tmp_path / "libmine.so.1"
    library.touch()
    monkeypatch.setenv("OCL_ICD_FILENAMES", f"{library}:/nowhere/libgone.so")
    found = {runtime.library: runtime for runtime in runtimes.discover()}
    assert found[str(library)].accepted
    assert found[str(library)].source == "user"
    assert found["/nowhere/libgone.so"].reason == "/nowhere/libgone.so does not exist"
    assert str(library) in icd._entries(runtimes.discover()).values()
