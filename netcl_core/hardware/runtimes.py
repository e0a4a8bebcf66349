"""Finds the OpenCL runtimes of this machine and environment, and says which can be used.

The system lists its runtimes in a folder of `.icd` files. Those that pip installed lie
elsewhere, some with a wrong path in their `.icd`, and a container often has NVIDIA's library
but no `.icd` at all. Only Linux has such lists; elsewhere nothing is found.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

SYSTEM_VENDORS = Path("/etc/OpenCL/vendors")
NVIDIA_LIBRARY = "libnvidia-opencl.so.1"
LOADER_CACHE = Path("/etc/ld.so.cache")
_MULTIARCH = sysconfig.get_config_var("MULTIARCH") or "."
DEFAULT_FOLDERS = (f"/lib/{_MULTIARCH}", f"/usr/lib/{_MULTIARCH}", "/lib64", "/usr/lib64")
FILENAMES = "OCL_ICD_FILENAMES"
USER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")
GENERATED = "netcl-icd-"

Source = Literal["system", "user", "pip", "nvidia"]


@dataclass(frozen=True)
class Runtime:
    """One OpenCL runtime: where it was listed and whether it can be used.

    `library` is a path, or the bare name as the dynamic linker finds it; `icd`
    is the file that lists it, or None where OCL_ICD_FILENAMES or nothing does.
    """

    name: str
    library: str
    source: Source
    icd: Path | None
    accepted: bool
    reason: str


def discover() -> list[Runtime]:
    """Every OpenCL runtime that is listed or lies in the environment, the rejected ones too.

    Order: the system's, those of OCL_ICD_FILENAMES, of OCL_ICD_VENDORS, pip's, NVIDIA's. Of two
    entries for the same library the first is accepted. Changes nothing and never raises for a
    broken entry; empty on platforms other than Linux.
    """
    if not sys.platform.startswith("linux"):
        return []
    runtimes: list[Runtime] = []
    for runtime in _listed():
        runtimes.append(_without_duplicate(runtime, runtimes))
    nvidia = _nvidia(runtimes)
    return [*runtimes, nvidia] if nvidia else runtimes


def _listed() -> Iterator[Runtime]:
    files = list(_icd_files())
    yield from (_examine(icd, source) for icd, source in files if source == "system")
    yield from _named_by_user()
    yield from (_examine(icd, source) for icd, source in files if source != "system")


def _named_by_user() -> Iterator[Runtime]:
    """The libraries of OCL_ICD_FILENAMES, which the loader in pyopencl's wheel does not read."""
    for library in os.environ.get(FILENAMES, "").split(os.pathsep):
        if library:
            problem = _problem(library)
            reason = problem or f"named in {FILENAMES}"
            yield Runtime(_stem(library), library, "user", None, problem is None, reason)


def _icd_files() -> Iterator[tuple[Path, Source]]:
    """The `.icd` files, each once, sorted within their folder."""
    seen: set[Path] = set()
    for folder, source in _vendor_folders():
        for icd in _listing(folder):
            real = icd.resolve()
            if real not in seen:
                seen.add(real)
                yield icd, source


def _listing(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".icd")
    except OSError:  # absent or not readable: nothing is listed there
        return []


def user_choice() -> str | None:
    """The variable by which the user chose runtimes; a parent process's own folder is no choice."""
    for variable in USER_VARIABLES:
        value = os.environ.get(variable)
        if value and not Path(value).name.startswith(GENERATED):
            return variable
    return None


def _vendor_folders() -> Iterator[tuple[Path, Source]]:
    if chosen := user_choice():
        yield Path(os.environ[chosen]), "user"
    yield SYSTEM_VENDORS, "system"
    if (Path(sys.prefix) / "conda-meta").is_dir():
        yield Path(sys.prefix, "etc/OpenCL/vendors"), "system"
    bundled = bundled_vendors()
    if bundled:
        yield bundled, "pip"
    for root in environment_roots():
        yield root / "etc/OpenCL/vendors", "pip"
        yield root / "pyopencl/.libs", "pip"


def environment_roots() -> list[Path]:
    """The folders under which pip puts a wheel's data files, for every folder on sys.path.

    A virtual environment, `--user` and `--prefix` put them three folders above
    `site-packages`, `--target` into the folder itself.
    """
    roots = [Path(sys.prefix)]
    for entry in map(Path, sys.path):
        if not entry.is_absolute():
            continue
        roots.append(entry)
        if entry.name in {"site-packages", "dist-packages"} and len(entry.parents) > 2:
            roots.append(entry.parents[2])
    return list(dict.fromkeys(roots))


def bundled_vendors() -> Path | None:
    """The folder beside pyopencl that the loader in its wheel reads in any case.

    None where pyopencl is missing or uses the loader of the system or of conda.
    """
    try:
        spec = importlib.util.find_spec("pyopencl")
    except ValueError:  # a placeholder in sys.modules without a spec
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / ".libs"
    return folder if any(folder.glob("libOpenCL*")) else None


def _examine(icd: Path, source: Source) -> Runtime:
    """One `.icd` file as a Runtime; a wrong path is repaired where the library can be found."""
    runtime = Runtime(icd.stem, "", source, icd, False, "")
    try:
        library = listed_library(icd)
    except (OSError, UnicodeDecodeError) as error:
        return replace(runtime, reason=f"the file cannot be read: {error}")
    if not library:
        return replace(runtime, reason="the file is empty")
    beside = icd.parent / library
    if source == "pip" and "/" not in library and beside.is_file():
        library = str(beside)
    runtime = replace(runtime, library=library)
    problem = _problem(library)
    if problem is None:
        return replace(runtime, accepted=True, reason=_how_listed(icd, source))
    return _repaired(runtime) or replace(runtime, reason=problem + _target_hint(icd))


def listed_library(icd: Path) -> str:
    lines = icd.read_text(encoding="utf-8").strip().splitlines()
    return lines[0].strip() if lines else ""


def _how_listed(icd: Path, source: Source) -> str:
    if source == "user":
        return f"listed in the folder of {user_choice()}"
    if source == "system":
        return "listed by the system"
    if icd.parent == bundled_vendors():
        return "installed by pip, listed beside pyopencl"
    return "installed by pip"


def _problem(library: str) -> str | None:
    """Why a library cannot be loaded, or None."""
    if "/" in library:
        return None if Path(library).is_file() else f"{library} does not exist"
    return None if locate(library) else load_error(library)


def locate(soname: str) -> Path | None:
    """The file that a bare library name stands for, read from the linker's own lists."""
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and (path := Path(folder, soname)).is_file():
            return path
    try:
        listed = LOADER_CACHE.read_bytes()
    except OSError:  # no such cache (musl)
        listed = b""
    for match in re.finditer(rb"(/[^\0]*/" + re.escape(soname.encode()) + rb")\0", listed):
        if (path := Path(os.fsdecode(match[1]))).is_file():
            return path
    # The cache lists a library under its soname alone; a full file name is searched for.
    for folder in DEFAULT_FOLDERS:
        if (path := Path(folder, soname)).is_file():
            return path
    return None


def load_error(library: str) -> str | None:
    """What the dynamic linker says against a library, or None when it loads."""
    try:
        ctypes.CDLL(library)
    except OSError as error:
        return str(error)
    return None


def _repaired(runtime: Runtime) -> Runtime | None:
    """The runtime with a library of the same file name in the environment, if there is one."""
    name = Path(runtime.library).name
    for root in environment_roots():
        for folder in ("lib", "lib64"):
            path = root / folder / name
            if path.is_file():
                reason = f"the listed {runtime.library} does not exist; found in the environment"
                return replace(runtime, library=str(path), accepted=True, reason=reason)
    return None


def _target_hint(icd: Path) -> str:
    """pip's `--target` leaves out a wheel's `lib` folder, which no message of pip mentions."""
    if len(icd.parents) > 3 and str(icd.parents[3]) in sys.path:
        return " (pip install --target leaves out a wheel's lib folder; use --prefix or --user)"
    return ""


def _identity(library: str) -> Path:
    path = Path(library) if "/" in library else locate(library) or Path(library)
    return path.resolve() if path.is_absolute() else path


def _without_duplicate(runtime: Runtime, before: list[Runtime]) -> Runtime:
    if not runtime.accepted:
        return runtime
    for other in (one for one in before if one.accepted):
        if _identity(other.library) == _identity(runtime.library):
            reason = f"the same library as in {other.icd or other.library}"
            return replace(runtime, accepted=False, reason=reason)
        if runtime.source == "pip" and _stem(other.library) == _stem(runtime.library):
            reason = f"{other.library}, a copy of this runtime, comes first; two would clash"
            return replace(runtime, accepted=False, reason=reason)
    return runtime


def _stem(library: str) -> str:
    """A library's name without its version: libpocl.so.2.10.0 -> libpocl."""
    return Path(library).name.split(".so")[0]


def _nvidia(before: list[Runtime]) -> Runtime | None:
    """NVIDIA's library where it can be loaded but no `.icd` names it, as in many containers."""
    listed = any(r.accepted and Path(r.library).name.startswith("libnvidia-opencl") for r in before)
    if listed or load_error(NVIDIA_LIBRARY) is not None:
        return None
    reason = "can be loaded, but no .icd file lists it"
    return Runtime("nvidia", NVIDIA_LIBRARY, "nvidia", None, True, reason)
