"""Shows the OpenCL runtimes of this environment to the ICD loader, which reads one folder alone.

That is the system's. `install` writes a folder that lists the system's runtimes and all
others that can be used, and names it in OCL_ICD_VENDORS before the loader starts. Only
Linux has this loader; elsewhere nothing is done.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from netcl_core import config
from netcl_core.files import Scratch, keep_whole
from netcl_core.hardware import runtimes
from netcl_core.hardware.runtimes import Runtime
from netcl_core.market import market_module

Status = Literal["off", "foreign", "user", "system", "generated"]


@dataclass(frozen=True)
class Installation:
    """What `install` did: how the loader finds its runtimes, and why so.

    `runtimes`: what was discovered, where some of it was left out.
    """

    status: Status
    vendors: Path | None
    reason: str
    runtimes: tuple[Runtime, ...] = ()


_lock = threading.Lock()
_installation: Installation | None = None


def install() -> Installation:
    """Show the discovered runtimes to the loader, once per process.

    Must run before the first OpenCL call of the process, at which the loader
    reads OCL_ICD_VENDORS; `devices` sees to it. A choice of the user's
    (OCL_ICD_VENDORS, OPENCL_VENDOR_PATH) and `icd-discovery` off are respected.
    Raises ConfigError for a bad setting, nothing else.
    """
    global _installation
    with _lock:
        if _installation is None:
            _installation = _install()
        return _installation


def _install() -> Installation:
    if not sys.platform.startswith("linux"):
        return Installation("foreign", None, f"{sys.platform} has a loader of its own")
    chosen = runtimes.user_choice()
    if chosen and not config.get("icd-discovery"):
        return _chosen(chosen)
    if not config.get("icd-discovery"):
        os.environ.pop("OCL_ICD_VENDORS", None)  # inherited from a parent that had it on
        return Installation("off", None, "icd-discovery is off")
    listed = runtimes.discover()
    usable = _without_deadly(listed)
    deadly = usable != listed
    if chosen and not deadly:
        return _chosen(chosen)
    if not deadly and not any(map(_needs_listing, usable)):
        os.environ.pop("OCL_ICD_VENDORS", None)
        return Installation("system", None, "the loader finds every usable runtime by itself")
    folder = vendors_folder(_entries(usable))
    os.environ["OCL_ICD_VENDORS"] = str(folder)
    reason = "lists the system's runtimes and the environment's"
    if deadly:
        reason += ", but for those that ended a trial process"
    return Installation("generated", folder, reason, tuple(usable) if deadly else ())


def _without_deadly(listed: list[Runtime]) -> list[Runtime]:
    """The runtimes without those that end or hang a process, as netcl-market finds."""
    market = None
    with suppress(Exception):  # a broken one is told when plugins are looked for
        market = market_module("driver_trial")
    if market is None:
        return listed
    reasons = market.deadly([runtime.library for runtime in listed if runtime.accepted])
    return [
        replace(runtime, accepted=False, reason=reasons[runtime.library])
        if runtime.accepted and runtime.library in reasons
        else runtime
        for runtime in listed
    ]


def _chosen(variable: str) -> Installation:
    text = f"{variable} is set and stays as it is"
    return Installation("user", Path(os.environ[variable]), text)


def _listed_beside_pyopencl(runtime: Runtime) -> bool:
    return runtime.icd is not None and runtime.icd.parent == runtimes.bundled_vendors()


def _needs_listing(runtime: Runtime) -> bool:
    """Whether the loader would miss an accepted runtime."""
    if not runtime.accepted or _listed_beside_pyopencl(runtime):
        return False
    if runtime.icd is None or runtime.icd.parent != runtimes.SYSTEM_VENDORS:
        return True
    return runtime.library != runtimes.listed_library(runtime.icd)  # repaired


def _entries(listed: list[Runtime]) -> dict[str, str]:
    """File name -> library of the generated folder: all but what pyopencl's loader adds itself."""
    wanted = [r for r in listed if r.accepted and not _listed_beside_pyopencl(r)]
    return {f"{index:02}-{r.name}.icd": r.library for index, r in enumerate(wanted)}


def vendors_folder(entries: dict[str, str]) -> Path:
    """A folder with these `.icd` files, the same one for the same content.

    The folder decides which code the process loads, so only one that belongs
    to this user and holds exactly this content is taken; else a private
    temporary one serves for this process.
    """
    digest = hashlib.sha256(repr(sorted(entries.items())).encode()).hexdigest()[:16]
    folder = config.cache_root() / "icd" / f"{runtimes.GENERATED}{digest}"
    try:
        if not folder.is_dir() or not _holds(folder, entries):
            _write(entries, folder)
        if _holds(folder, entries):
            return folder
    except OSError:  # no writable cache: a folder for this process alone serves as well
        pass
    return _private_folder(entries)


def _write(entries: dict[str, str], folder: Path) -> None:
    for name, library in entries.items():
        keep_whole(folder / name, f"{library}\n".encode())


def _holds(folder: Path, entries: dict[str, str]) -> bool:
    if folder.stat().st_uid != os.getuid():
        return False
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.icd")}
    return present == {name: f"{library}\n" for name, library in entries.items()}


@lru_cache(maxsize=1)
def _scratch() -> Scratch:
    """Removed when the process ends."""
    return Scratch("icd")


def _private_folder(entries: dict[str, str]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=runtimes.GENERATED, dir=_scratch().name))
    _write(entries, folder)
    return folder
