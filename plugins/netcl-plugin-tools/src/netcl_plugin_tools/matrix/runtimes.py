"""The OpenCL runtimes of a matrix: what each is made of, and how a cell sees it alone.

A cell is shown a folder with the `.icd` files of one runtime and nothing else
(OCL_ICD_VENDORS), so that no other can answer in its place. Which device answers, and with
which driver, is asked once per run, in a child process that may crash.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from netcl_plugin_tools.matrix.processes import Processes, clean_variables

SYSTEM: Final = Path("/etc/OpenCL/vendors")
_NVIDIA: Final = "libnvidia-opencl.so.1"
_SECONDS: Final = 120  # a first build on a slow machine


@final
@dataclass(frozen=True, slots=True)
class CellRuntime:
    """One kind of runtime.

    Attributes:
        packages: What is installed for it; else the system has to have it.
        platform: A part of its platform's name, in lower case; empty: any.
        kind: The kind of device that is wanted.
        tool: The program that cells run under, instead of a library that they load.
    """

    name: str
    title: str
    platform: str = ""
    kind: str = "cpu"
    packages: tuple[str, ...] = ()
    tool: str = ""

    def fits(self, device: Mapping[str, Any]) -> bool:
        """Whether a device, as `netcl devices --json` describes it, is one of this runtime's."""
        backend, kind, platform = (str(device[key]) for key in ("backend", "kind", "platform"))
        if "numpy" in (self.name, backend):
            return self.name == backend
        return self.kind == kind and self.platform in platform.lower()


RUNTIMES: Final[Mapping[str, CellRuntime]] = {
    runtime.name: runtime
    for runtime in (
        CellRuntime("intel", "Intel's CPU runtime, from pip", "intel",
                packages=("intel-opencl-rt", "intel-cmplr-lib-rt")),
        CellRuntime("pocl", "PoCL, the system's", "portable computing"),
        CellRuntime("pocl-wheel", "PoCL, from pip", "portable computing",
                packages=("pocl-binary-distribution",)),
        CellRuntime("oclgrind", "the simulator Oclgrind: --only sanitizer", tool="oclgrind"),
        CellRuntime("gpu", "a GPU with the system's driver", kind="gpu"),
        CellRuntime("numpy", "the NumPy path, without OpenCL"),
    )
}  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class Presence:
    """A runtime on this machine, or why a cell cannot have it.

    Attributes:
        missing: Why it is not there, which is nobody's fault; empty if it is.
        problem: Why it could not be set up; empty if it could.
        vendors: The folder that OCL_ICD_VENDORS names.
        device: The device as `netcl devices --json` describes it, if it could be asked.
    """

    runtime: CellRuntime
    missing: str = ""
    problem: str = ""
    vendors: Path = Path()
    device: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> dict[str, str]:
        """What records say of it."""
        return {
            "name": self.runtime.name,
            "platform": self.device.get("platform", ""),
            "driver": self.device.get("driver_version", ""),
            "device": self.device.get("name", ""),
        }

    @property
    def spec(self) -> str:
        """What `--device` is given; empty where the check makes its own choice."""
        return "" if self.runtime.tool else self.device.get("id", "opencl")


def libraries(runtime: CellRuntime, layer: Path | None, system: Path = SYSTEM) -> list[str]:
    """The libraries to list for a runtime: those of its packages, or those of the system."""
    if runtime.packages:
        return [] if layer is None else list(_of_packages(layer))
    listed = [line for icd in sorted(system.glob("*.icd")) for line in _lines(icd)]
    if runtime.platform:
        return [device for device in listed if runtime.name in Path(device).name]
    if runtime.kind != "gpu":
        return []
    unlisted = [] if any("nvidia" in device for device in listed) else [_NVIDIA]
    return [device for device in listed if "pocl" not in Path(device).name] + unlisted


def _of_packages(layer: Path) -> Iterator[str]:
    """The libraries that packages list, looked for by name: the paths in them are often wrong."""
    for icd in sorted(layer.rglob("*.icd")):
        for line in _lines(icd):
            name = Path(line).name
            places = (layer / "lib" / name, icd.parent / name)
            yield from [str(place) for place in places if place.is_file()][:1]


def _lines(icd: Path) -> list[str]:
    return [line.strip() for line in icd.read_text(encoding="utf-8").splitlines() if line.strip()]


def list_alone(names: Sequence[str], folder: Path) -> Path:
    """Write the `.icd` files that list some libraries into a new folder; returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        (folder / f"{number:02}.icd").write_text(f"{name}\n", encoding="utf-8")
    return folder


Ask = Callable[[Path], Mapping[str, Any]]


def devices_here(processes: Processes, work: Path) -> Ask:
    """A function that asks a child process which devices the runtimes of a folder have."""

    def ask(vendors: Path) -> Mapping[str, Any]:
        command = [sys.executable, "-m", "netcl_core.cli.start", "devices", "--json"]
        variables = {**clean_variables(), **variables_for(vendors, work)}
        ended = processes.run(command, work, variables, _SECONDS, shut_in=False)
        if ended.code != 0:
            return {"problem": f"netcl devices {ended.how}\n{ended.tail}"}
        listed_devices: Mapping[str, Any] = json.loads(ended.stdout)
        return listed_devices

    return ask


def variables_for(vendors: Path, cache: Path) -> dict[str, str]:
    """What shows one runtime alone, and keeps what it builds to itself."""
    return {
        "OCL_ICD_VENDORS": str(vendors),
        "NETCL_CACHE_DIR": str(cache / "netcl"),
        "POCL_CACHE_DIR": str(cache / "pocl"),
    }


def locate(runtime: CellRuntime, layer: Path | None, folder: Path, ask: Ask) -> Presence:
    """Find a runtime on this machine; `folder` is where its `.icd` files are written."""
    if runtime.tool:
        return _tool(runtime, list_alone([], folder))
    names = libraries(runtime, layer)
    if runtime.packages and not names:
        return Presence(runtime, problem=f"{', '.join(runtime.packages)} list no library")
    if not names and runtime.name != "numpy":
        return Presence(runtime, missing=f"{runtime.title} is not there: {SYSTEM} lists none")
    vendors = list_alone(names, folder)
    answer = ask(vendors)
    if "problem" in answer:
        return Presence(runtime, problem=answer["problem"], vendors=vendors)
    device = next((each for each in answer["devices"] if runtime.fits(each)), None)
    if device is not None:
        return Presence(runtime, vendors=vendors, device=device)
    return _without_device(runtime, vendors, answer)


def _tool(runtime: CellRuntime, vendors: Path) -> Presence:
    path = shutil.which(runtime.tool)
    if path is None:
        return Presence(runtime, missing=f"{runtime.tool} is not on PATH")
    said = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    version = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
    driver = version[0] if version else ""
    facts = {"platform": runtime.tool, "name": "simulator", "driver_version": driver}
    return Presence(runtime, vendors=vendors, device=facts)


def _without_device(runtime: CellRuntime, vendors: Path, answer: Mapping[str, Any]) -> Presence:
    """A runtime none of whose devices can be used here: cells find out for themselves why."""
    for each in answer["rejected"]:
        if runtime.platform and runtime.platform in each["platform"].lower():
            device = {"platform": each["platform"], "name": each["name"]}
            return Presence(runtime, vendors=vendors, device=device)
    reason = answer["opencl_problem"] or "no device of its kind was found"
    return Presence(runtime, missing=f"{runtime.title} is not there: {reason}")
