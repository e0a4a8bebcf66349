"""What plugins cost that are installed and not used: a process with 1,000 beside one with 10.

    python benchmarks/plugins_many.py [runs] [--count N]

Each plugin is a distribution with a package, a manifest of four ops, and hooks that register
them; every tenth comes by the short road instead. They are found beside what is installed here.
The processes take turns; the figures are the best wall and processor time of each, with the disk
cache filled, the wall time of the first that filled it, and what the many cost more than the few.
The targets are 300 ms more for the first op, and 600 ms for `netcl plugins list`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

FEW, OPS, SHORT = 10, 4, 10
LIST = "netcl plugins list"
FIRST_OP = "import numpy as np, netcl_core as nc, netcl_core.autograd as ag\n{}"
PROCESSES = {
    "the face": [sys.executable, "-c", FIRST_OP.format("")],
    "first op": [sys.executable, "-c", FIRST_OP.format("ag.relu(np.float32([1, 2])).numpy()")],
    "first op of the many": [
        sys.executable, "-c", FIRST_OP.format("ag.op_1_0(np.float32([1, 2])).numpy()")],
    "first compiled call": [
        sys.executable, "-c", FIRST_OP.format(
            "ag.jit_compile(lambda x: ag.add(ag.relu(x), x))(ag.tensor(np.float32([1]))).numpy()")],
    LIST: [sys.executable, "-m", "netcl_core.cli.start", "plugins", "list"],
}  # fmt: skip
TARGETS = {"first op": 300.0, LIST: 600.0}
MODULE = """
from netcl_core import hookimpl
from netcl_core.autograd import AutogradPrimitive


def _op(name):
    return AutogradPrimitive(
        name, lambda inputs, attrs: f"{{inputs[0]}} * 2",
        lambda inputs, grad, attrs, out: [f"{{grad}} * 2"], arity=1)


class Plugin:
    @hookimpl
    def netcl_register_primitives(self, registry):
        for each in range({ops}):
            registry.add(_op(f"op_{number}_{{each}}"))


plugin = Plugin()
op_{number} = _op("op_{number}")
"""
ROW = """
[[provides]]
name = "op_{0}_{1}"
kind = "primitive"
dtypes = ["bfloat16", "float16", "float32", "float64"]
differentiable = true
elementwise = true
priority = 0
"""


def fill(site: Path, count: int) -> None:
    """Install that many plugins, as pip would."""
    for number in range(count):
        package = f"many_{number}"
        info = site / f"netcl_plugin_{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / package).mkdir()
        files = {f"{package}/__init__.py": MODULE.format(ops=OPS, number=number)}
        if number % SHORT == SHORT - 1:
            points = f"[netcl_core.primitives]\nop_{number} = {package}:op_{number}\n"
        else:
            points = f"[netcl_core.plugins]\n{package} = {package}:plugin\n"
            points += f"[netcl_core.manifest]\n{package} = {package}:netcl_plugin.toml\n"
            rows = "".join(ROW.format(number, op) for op in range(OPS))
            files[f"{package}/netcl_plugin.toml"] = (
                f'schema = 1\n[plugin]\nname = "{package}"\napi = [1, 0]\nlicense = "MIT"\n{rows}'
            )
        files[f"{info.name}/METADATA"] = (
            f"Metadata-Version: 2.1\nName: netcl-plugin-many-{number}\nVersion: 1.0\n"
            "Requires-Python: >=3.11\nRequires-Dist: netcl-core>=0.1,<0.2\n" + "\nA text.\n" * 40
        )
        files[f"{info.name}/entry_points.txt"] = points
        record = "".join(f"{name},,\n" for name in files) + f"{info.name}/RECORD,,\n"
        files[f"{info.name}/RECORD"] = record
        for name, text in files.items():
            (site / name).write_text(text)


def once(command: list[str], site: Path) -> tuple[float, float]:
    """Wall and processor time of one process in milliseconds."""
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": path, "NETCL_CACHE_DIR": str(site / "cache")}
    start, before = time.perf_counter(), _processor_time()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.perf_counter() - start), 1000 * (_processor_time() - before)


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name: str, sites: Mapping[int, Path], runs: int) -> str:
    """What is to be said of one kind of process."""
    times: dict[int, list[tuple[float, float]]] = {count: [] for count in sites}
    for _ in range(runs + 1):  # the first fills the caches
        for count, site in sites.items():
            times[count].append(once(PROCESSES[name], site))
    text = f"{name:22}"
    best = {
        count: [min(one) for one in zip(*columns[1:], strict=True)]
        for count, columns in times.items()
    }
    for count, (wall, used) in best.items():
        text += (
            f" {count:5}: {wall:6.0f} ms, processor {used:6.0f} ms, first {times[count][0][0]:6.0f}"
        )
    few, many = best.values()
    more = [one - other for one, other in zip(many, few, strict=True)]
    text += f"  more: {more[0]:5.0f} ms, processor {more[1]:5.0f} ms"
    if name not in TARGETS:
        return text
    counted = many[0] if name == LIST else more[0]
    return f"{text}  target {TARGETS[name]:g}: {'met' if counted < TARGETS[name] else 'missed'}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("runs", type=int, nargs="?", default=7)
    parser.add_argument("--count", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sites = {count: Path(folder, str(count)) for count in (FEW, given.count)}
        for count, site in sites.items():
            fill(site, count)
        for name in PROCESSES:
            print(measure(name, sites, given.runs), flush=True)


if __name__ == "__main__":
    main()
