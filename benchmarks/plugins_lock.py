"""Time of verifying a lock file at load: the first time, and with receipts of all files.

    python benchmarks/plugins_lock.py [runs]

Ten plugins of 30 files each; a lock with the choices and sources of 200 ops on three devices. The
core's own files are not among them. The figures are the best and the median of the runs, in
milliseconds; the target for a load from memory is 5 ms. `parse` is reading what a load needs of the
lock, which every load does.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PLUGINS, ROWS, OPS, DEVICES, TARGET = 10, 30, 200, 3, 5.0
KEYS = [f"{t} {d}" for t in ("float16", "float32", "float64") for d in ("forward", "backward")]


def fill(site: Path) -> None:
    """Write the plugins, as if they had been there for long."""
    for number in range(PLUGINS):
        name = f"netcl_plugin_{number}"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text(f"[netcl_core.plugins]\n{name} = {name}:plugin\n")
        (site / name).mkdir()
        files = [f"{name}/__init__.py", *(f"{name}/{row}.py" for row in range(ROWS))]
        for file in files:
            (site / file).write_text(_digest(file) * 50)
        rows = (f"{file},sha256=x,100" for file in files)
        (info / "RECORD").write_text("\n".join(rows) + "\n")


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def lock_text() -> str:
    """A lock of the size that an installation with many ops has."""
    from netcl_market.finding import distributions
    from netcl_market.installed import by_name
    from netcl_market.lock_verification import digest_now

    from netcl_core.version import VERSION

    device = {
        "choices": {f"op_{op}": {"*": ["netcl-plugin-1"]} for op in range(OPS)},
        "sources": {f"op_{op}": {key: _digest(op, key) for key in KEYS} for op in range(OPS)},
    }
    plugins = {
        name: {"version": one.version, "files": digest_now(one), "editable": one.editable}
        for name, one in by_name(distributions()).items()
    }
    table = {
        "schema": 2,
        "core": {"version": VERSION, "editable": True},
        "plugins": plugins,
        "devices": {f"P | D{number}": device for number in range(DEVICES)},
    }
    return json.dumps(table, indent=1)


def measure(runs: int, work: Callable[[], object]) -> list[float]:
    """Wall time of each run in milliseconds."""
    wall = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        wall.append(1000 * (time.perf_counter() - start))
    return wall


def main() -> None:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    with tempfile.TemporaryDirectory() as folder:
        site, path = Path(folder, "site"), Path(folder, "netcl.lock")
        fill(site)
        sys.path.insert(0, str(site))
        os.environ["NETCL_CACHE_DIR"] = folder
        path.write_text(lock_text())

        from netcl_market import file_digests
        from netcl_market.finding import distributions
        from netcl_market.lock import parse
        from netcl_market.lock_verification import verify

        from netcl_core import config

        installed = distributions()
        file_digests._SETTLED_NS = 0

        def afresh() -> None:
            config.plugin_memory("files.json").unlink(missing_ok=True)
            assert verify(path, installed)[1] == []

        rows = {
            "first time": measure(runs, afresh),
            "from memory": measure(runs, lambda: verify(path, installed)),
            "parse alone": measure(runs, lambda: parse(path.read_bytes(), sources=False)),
        }
        print(f"{len(installed)} plugins, a lock of {path.stat().st_size / 1024:.0f} KiB")
        for name, times in rows.items():
            print(f"{name:16} best {min(times):6.2f} ms  median {statistics.median(times):6.2f} ms")
        ratio = statistics.median(rows["first time"]) / statistics.median(rows["from memory"])
        met = statistics.median(rows["from memory"]) < TARGET
        print(f"remembering is {ratio:.0f} times faster; target {TARGET:g} ms: ", end="")
        print("met" if met else "missed")


if __name__ == "__main__":
    main()
