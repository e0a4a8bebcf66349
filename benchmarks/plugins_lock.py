"""Time of verifying a lock file at load: the first time, and with RECORDs remembered.

    python benchmarks/plugins_lock.py [runs]

Fifty plugins with a RECORD of 200 rows each; a lock with the sources of 200 ops on three devices.
The figures are the best and the median of the runs, in milliseconds; the target for
a load from memory is 5 ms. `parse` is reading the lock, which every load does.
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

PLUGINS, ROWS, OPS, DEVICES, TARGET = 50, 200, 200, 3, 5.0
KEYS = [f"{t} {d}" for t in ("float16", "float32", "float64") for d in ("forward", "backward")]


def fill(site: Path) -> None:
    """Write the metadata of the plugins."""
    for number in range(PLUGINS):
        name = f"netcl_plugin_{number}"
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text(f"[netcl_core.plugins]\n{name} = {name}:plugin\n")
        rows = (f"{name}/{row}.py,sha256={_digest(name, row)},100" for row in range(ROWS))
        (info / "RECORD").write_text("\n".join(rows) + "\n")


def _digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def lock_text() -> str:
    """A lock of the size that an installation with many ops has."""
    from netcl_core.plugins.market.finding import distributions
    from netcl_core.plugins.market.installed import by_name, core

    own = core()
    device = {
        "choices": {f"op_{op}": {"*": ["netcl-plugin-1"]} for op in range(0, OPS, 10)},
        "sources": {f"op_{op}": {key: _digest(op, key) for key in KEYS} for op in range(OPS)},
    }
    plugins = {
        name: {"version": one.version, "record": one.record_digest()}
        for name, one in by_name(distributions()).items()
    }
    table = {
        "schema": 1,
        "core": {"version": own.version, "record": own.record_digest()},
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

        from netcl_core import config
        from netcl_core.plugins.market.finding import distributions
        from netcl_core.plugins.market.lock import parse
        from netcl_core.plugins.market.lock_verification import verify

        installed = distributions()

        def afresh() -> None:
            config.plugin_memory("records.json").unlink(missing_ok=True)
            assert verify(path, installed)[1] == []

        rows = {
            "first time": measure(runs, afresh),
            "from memory": measure(runs, lambda: verify(path, installed)),
            "parse alone": measure(runs, lambda: parse(path.read_bytes())),
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
