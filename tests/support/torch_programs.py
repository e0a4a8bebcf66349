"""Trains programs on PyTorch's CPU and on the device netcl, and prints tables for docs/torch.md.

    python tests/support/torch_programs.py [-k NAME] [--steps 20]

The first table has the losses of both and what the host computed; the second what PyTorch's
`opcheck` and `gradcheck` say of three ops of netcl's; the last counts the core ATen ops.
"""

from __future__ import annotations

import argparse
import runpy
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch  # isort: split

import netcl_torch
from netcl_plugin_torch.dispatch import OPS as WAYS
from netcl_plugin_torch.host import by_host
from netcl_plugin_torch.registration import load

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "plugins" / "netcl-plugin-torch" / "tests" / "test_programs.py"
#: Ops with arguments that PyTorch's checks get.
OPS: dict[str, tuple[Any, ...]] = {
    "rms_norm": ((3, 4), [4], (4,)),
    "gelu": ((3, 5),),
    "smooth_l1_loss": ((4, 3), (4, 3)),
}
CHECKS = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)


def programs(name: str, steps: int) -> Iterator[str]:
    """A row for each program: losses of the first and the last step, and fallbacks."""
    parts = runpy.run_path(str(PROGRAMS))
    yield "| program | loss before, after: PyTorch's CPU | netcl | largest difference | fallbacks |"
    yield "|---|---|---|---|---|"
    for title, (make, batch, optimizer) in parts["PROGRAMS"].items():
        if name not in title:
            continue
        torch.manual_seed(7)
        model, batches = make(), [batch()] * steps
        expected, _ = parts["trained"](model, batches, optimizer, "cpu")
        torch.netcl.reset_fallbacks()
        losses, _ = parts["trained"](model, batches, optimizer, "netcl")
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
        fallbacks = sum(torch.netcl.fallbacks().values())
        pairs = [f"{x[0]:.5f}, {x[-1]:.5f}" for x in (expected, losses)]
        yield f"| {title} | {pairs[0]} | {pairs[1]} | {worst:.1e} | {fallbacks} |"


def checked() -> Iterator[str]:
    """A row for each op: what opcheck says on the CPU and on netcl, and gradcheck on both."""
    yield "| op | device | gradcheck | opcheck |"
    yield "|---|---|---|---|"
    for name, shapes in OPS.items():
        op = netcl_torch.op(name)
        for device in ("cpu", "netcl"):
            torch.manual_seed(0)
            make = partial(torch.randn, dtype=torch.float64, device=device, requires_grad=True)
            args = tuple(make(x) if isinstance(x, tuple) else x for x in shapes)
            # PyTorch has two of the checks for its own devices alone
            which = CHECKS if device == "cpu" else (CHECKS[0], CHECKS[2])
            said = torch.library.opcheck(op.default, args, test_utils=which)
            text = ", ".join(f"{key.removeprefix('test_')} {value}" for key, value in said.items())
            yield f"| {name} | {device} | {torch.autograd.gradcheck(op, args)} | {text} |"


def core() -> Iterator[str]:
    """How many core ATen ops there are, and which of them only the host has."""
    load()
    every = [getattr(getattr(torch.ops.aten, packet), kind)
             for packet in dir(torch.ops.aten) if not packet.startswith("__")
             for kind in getattr(getattr(torch.ops.aten, packet), "overloads", list)()]  # fmt: skip
    tagged = [op for op in every if torch.Tag.core in op.tags]
    kernels = [getattr(WAYS[op], "kernel", WAYS[op]) for op in tagged]  # of prepared ops theirs
    names = [op.name().removeprefix("aten::") for op in tagged]
    ways = zip(names, kernels, strict=True)
    left = [name for name, way in ways if isinstance(way, partial) and way.func is by_host]
    count = f"{len(tagged) - len(left)} of {len(tagged)} core ATen ops"
    yield f"{count} have a kernel of netcl's or are"
    yield f"made of such; by the host alone: {', '.join(left) or 'none'}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-k", dest="name", default="")
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for part in (core(), checked(), programs(given.name, given.steps)):
        for line in part:
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
