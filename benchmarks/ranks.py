"""Time of a training step in several processes over links of 1 and 10 Gbit/s.

    python benchmarks/ranks.py [processes]

Each process is a host of its own: a network namespace whose link is shaped by `tc`, in a bridge.
That needs Linux, root, `ip`, `tc` and MPICH. The model is 8 layers of 1024 x 1024 with 34 MB of
gradients and 256 rows in each process, on the NumPy path with one thread. Three times are those
of the fastest step, in milliseconds: the step alone (`no_sync`), with all gradients in one bucket,
which leaves after the backward pass, and with buckets of 4 MB, which leave while it runs.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

LAYERS, WIDTH, ROWS, STEPS, RATES = 8, 1024, 256, 12, (1, 10)
#: mpiexec calls it in the place of ssh, as `launch [options] HOST COMMAND`.
LAUNCH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1; shift
exec ip netns exec netcl-${host##*.} unshare -u sh -c "hostname $host; $*"
"""


def step_times() -> None:
    """In each process: measure; rank 0 prints."""

    import netcl_core as nc
    from netcl_core import distributed, nn, optim

    distributed.init("numpy", timeout=60)
    times = {}
    for name, cap in (("alone", 4.0), ("one bucket", 1e6), ("buckets", 4.0)):
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)]
        model = distributed.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=cap)
        optimizer = optim.SGD(model.parameters(), lr=0.01)
        x = nc.randn(ROWS, WIDTH)
        seen = []
        for _ in range(STEPS):
            distributed.barrier()
            begin = time.perf_counter()
            with model.no_sync() if name == "alone" else nullcontext():
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), x).backward()
            optimizer.step()
            seen.append(1000 * (time.perf_counter() - begin))
        times[name] = min(seen[2:])
    if distributed.rank() == 0:
        print(json.dumps(times))


@contextmanager
def hosts(count: int, gigabits: int) -> Iterator[list[str]]:
    """The addresses of namespaces whose links have this rate."""

    def ip(*words: str, check: bool = True) -> None:
        subprocess.run(words, check=check, stderr=None if check else subprocess.DEVNULL)

    def clear() -> None:
        for n in range(1, count + 1):
            ip("ip", "netns", "del", f"netcl-{n}", check=False)
        ip("ip", "link", "del", "netcl-bridge", check=False)

    clear()
    try:
        ip("ip", "link", "add", "netcl-bridge", "type", "bridge")
        ip("ip", "address", "add", "10.77.0.254/24", "dev", "netcl-bridge")
        ip("ip", "link", "set", "netcl-bridge", "up")
        for n in range(1, count + 1):
            space, link = f"netcl-{n}", f"netcl-v{n}"
            ip("ip", "netns", "add", space)
            ip(*f"ip link add {link} type veth peer name eth0 netns {space}".split())
            ip("ip", "link", "set", link, "master", "netcl-bridge", "up")
            ip("ip", "-n", space, "address", "add", f"10.77.0.{n}/24", "dev", "eth0")
            for interface in ("eth0", "lo"):
                ip("ip", "-n", space, "link", "set", interface, "up")
            shape = f"root tbf rate {gigabits}gbit burst 1mb latency 50ms"
            ip("ip", "netns", "exec", space, "tc", "qdisc", "add", "dev", "eth0", *shape.split())
        yield [f"10.77.0.{n}" for n in range(1, count + 1)]
    finally:
        clear()


def main() -> None:
    """Measure at each rate and print a table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    mpiexec = shutil.which("mpiexec", path=places)
    if mpiexec is None or not all(map(shutil.which, ("ip", "tc", "unshare"))) or os.geteuid():
        sys.exit("It needs Linux, root, ip, tc, unshare and mpiexec.")
    print(f"{count} processes, {os.cpu_count()} cores; milliseconds a step")
    print("| Gbit/s | step alone | one bucket | buckets of 4 MB | hidden |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        launch = Path(folder, "launch")
        launch.write_text(LAUNCH)
        launch.chmod(0o755)
        for rate in RATES:
            with hosts(count, rate) as names:
                command = [mpiexec, "-launcher", "ssh", "-launcher-exec", str(launch)]
                command += ["-localhost", "10.77.0.254", "-hosts", ",".join(names)]
                command += ["-n", str(count), sys.executable, __file__, "--measure"]
                threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
                env = {**os.environ, **threads, "UCX_TLS": "tcp,self", "NETCL_DEVICE": "numpy"}
                done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE)
            alone, one, many = json.loads(done.stdout).values()
            hidden = (one - many) / (one - alone)
            print(f"| {rate} | {alone:.0f} | {one:.0f} | {many:.0f} | {hidden:.0%} |")


if __name__ == "__main__":
    step_times() if sys.argv[1:] == ["--measure"] else main()
