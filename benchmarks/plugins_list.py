"""Time of a whole `netcl plugins list` process with 300 installed distributions.

    python benchmarks/plugins_list.py [runs]

Ten of the distributions are plugins with a manifest of twenty ops. The figures are the
best and the median wall time of the runs, in milliseconds, and how many times that of Python
alone the best is, which says more on a busy machine. The target is a median of 150 ms, in a
pipe and on a terminal.
"""

from __future__ import annotations

import os
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNT, PLUGINS, OPS, TARGET = 300, 10, 20, 150.0
PROVIDES = """
[[provides]]
name = "op_{0}_{1}"
kind = "primitive"
dtypes = ["float16", "float32", "float64"]
differentiable = true
elementwise = true
priority = 0
"""


def fill(site: Path) -> None:
    """Write the metadata of all the distributions."""
    for number in range(COUNT):
        name = f"distribution_{number}"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        points = f"[console_scripts]\n{name} = {name}:main\n"
        record = f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n"
        if number < PLUGINS:
            metadata += "Requires-Python: >=3.11\nRequires-Dist: netcl-core>=0.1,<0.2\n"
            points += f"[netcl_core.plugins]\n{name} = {name}:plugin\n"
            points += f"[netcl_core.manifest]\n{name} = {name}:netcl_plugin.toml\n"
            record += f"{name}/netcl_plugin.toml,,\n"
            (site / name).mkdir()
            manifest = f'schema = 1\n[plugin]\nname = "{name}"\napi = [1, 0]\n'
            manifest += "".join(PROVIDES.format(number, op) for op in range(OPS))
            (site / name / "netcl_plugin.toml").write_text(manifest)
        (info / "METADATA").write_text(metadata + "\nA text.\n" * 40)
        (info / "entry_points.txt").write_text(points)
        (info / "RECORD").write_text(record)


def _processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(command: list[str], environment: dict[str, str], runs: int) -> tuple[list[float], ...]:
    """Wall and processor time of each run in milliseconds, in a pipe."""
    wall, used = [], []
    for _ in range(runs):
        start, before = time.perf_counter(), _processor_time()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        wall.append(1000 * (time.perf_counter() - start))
        used.append(1000 * (_processor_time() - before))
    return wall, used


def on_terminal(command: list[str], environment: dict[str, str], runs: int) -> list[float]:
    """Wall time of each run in milliseconds, on a pseudo-terminal."""
    wall = []
    for _ in range(runs):
        controller, terminal = pty.openpty()
        start = time.perf_counter()
        child = subprocess.Popen(command, env=environment, stdout=terminal)
        os.close(terminal)
        try:
            while os.read(controller, 65536):
                pass
        except OSError:  # Linux says so when the child has closed its end
            pass
        child.wait()
        wall.append(1000 * (time.perf_counter() - start))
        os.close(controller)
    return wall


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
        path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH", ""))))
        environment = {**os.environ, "PYTHONPATH": path, "NETCL_CACHE_DIR": folder}
        command = [sys.executable, "-m", "netcl_core.cli.start", "plugins", "list"]
        pipe, used = measure(command, environment, runs)
        terminal = on_terminal(command, environment, runs)
        rows = {
            "python alone": _python("pass", environment, runs),
            "importlib_metadata": _python("import importlib_metadata", environment, runs),
            "netcl plugins list": pipe,
            "  processor time": used,
            "  on a terminal": terminal,
        }
        for name, times in rows.items():
            ratio = min(times) / min(rows["python alone"])
            middle = statistics.median(times)
            print(f"{name:20} best {min(times):6.1f} ms  median {middle:6.1f} ms  {ratio:5.1f} x")
        met = max(statistics.median(pipe), statistics.median(terminal)) < TARGET
        print(f"target: a median of {TARGET:g} ms; {'met' if met else 'missed'}")


def _python(code: str, environment: dict[str, str], runs: int) -> list[float]:
    return measure([sys.executable, "-c", code], environment, runs)[0]


if __name__ == "__main__":
    main()
