"""The two drawings of the README: a function beside its kernel, and programs beside their peers.

What they show is read where it is true: the kernel from the compiler, the times from
`docs/performance.md`.
"""

from __future__ import annotations

import linecache
import re
from functools import cache
from pathlib import Path
from typing import Any

from drawing import svg, text

import netcl_core as nc
import netcl_core.autograd as ag

DOCS = Path(__file__).resolve().parents[2] / "docs"
PROGRAM = """\
@ag.jit_compile
def gate(x, y):
    return ag.relu(x * 0.5) * y + x
"""
_GPT_16 = "the same under `fp16-storage`, PyTorch's autocast | 22.5"
#: What is drawn: a label, the row's first words in performance.md, our column, and the peers'.
_TIMES = [
    ("chain of 4 ops, forward + backward, 2^20 floats, CPU", "forward + backward, 2^20", 1, {
        "PyTorch": 2, "torch.compile": 3, "JAX": 4}),
    ("MLP, training step, batch 128, H200", "128 | 691", 3, {
        "PyTorch": 4, "torch.compile": 5, "CUDA graph": 6}),
    ("GPT 8 x 512, training step, 16 bits, H200", _GPT_16, 3, {
        "PyTorch": 4}),
    ("ResNet-18, training step, float32, H200", "ResNet-18, batch 128, SGD, float32", 3, {
        "PyTorch": 4}),
]  # fmt: skip


@cache
def compiled_gate() -> Any:
    """The kernels of `gate`, forward and backward; None where no OpenCL runtime has a CPU."""
    devices = [device for device in nc.devices() if device.has_kernels and device.kind == "cpu"]
    if not devices:
        return None
    before = nc.default_device()
    nc.use_device(devices[0])
    try:
        linecache.cache["gate.py"] = (len(PROGRAM), None, PROGRAM.splitlines(True), "gate.py")
        names: dict[str, Any] = {"ag": ag}
        exec(compile(PROGRAM, "gate.py", "exec"), names)
        x, y = (nc.ones(64, 32, requires_grad=True) for _ in range(2))
        return names["gate"].lower(x, y)
    finally:
        nc.use_device(before)


def loop_of(source: str) -> str:
    """The loop of a kernel that takes element by element."""
    match = re.search(r"^ *for \(; i < end.*?^ *\}\n", source, re.DOTALL | re.MULTILINE)
    assert match
    return match[0]


def kernel(source: str, *, narrow: bool) -> str:
    """`gate` beside the loop of its kernel, or for narrow screens above it."""
    name = re.search("__" + r"kernel void \w+", source)
    assert name
    shown = f"{name[0]}(...)\n{{\n    ...\n{loop_of(source)}}}\n"
    first, second = PROGRAM.splitlines(), shown.splitlines()
    lines = len(first) + len(second) if narrow else max(len(first), len(second))
    x, y = (24, 74 + 18 * len(first)) if narrow else (330, 28)
    body = _code("Python", first, 24, 28)
    body += _code("OpenCL C, written by netcl", second, x, y)
    said = "A Python function and the loop of its kernel"
    return svg(460 if narrow else 780, 60 + 18 * lines + 46 * narrow, said, body)


def peers() -> str:
    """Bars: how long each program takes in parts of PyTorch's time, ours and others'."""
    lines = (DOCS / "performance.md").read_text(encoding="utf-8").splitlines()
    body, y = [], 30
    for label, start, ours, others in _TIMES:
        row = next(line for line in lines if line.startswith(f"| {start}"))
        cells = row.strip("| ").split(" | ")
        times = {"netcl": _number(cells[ours])}
        times |= {name: _number(cells[at]) for name, at in others.items()}
        body.append(text(20, y, label, kind="head"))
        for name, time in times.items():
            y += 22
            part = time / times["PyTorch"]
            kind = "mark" if name == "netcl" else "bar"
            body.append(text(114, y, name, anchor="end"))
            body.append(
                f'<rect class="{kind}" x="122" y="{y - 12}" width="{270 * part:.0f}" height="15"/>'
            )
            body.append(text(130 + 270 * part, y, f"{part:.2f}"))
        y += 34
    return svg(460, y - 10, "Times in parts of PyTorch's: shorter is faster", body)


def wanted() -> dict[Path, str]:
    """File -> drawing, of those that can be made here."""
    drawn = {DOCS / "peers.svg": peers()}
    gate = compiled_gate()
    if gate is not None:
        drawn[DOCS / "kernel.svg"] = kernel(gate.forward_source, narrow=False)
        drawn[DOCS / "kernel-narrow.svg"] = kernel(gate.forward_source, narrow=True)
    return drawn


def _number(cell: str) -> float:
    return float(cell.split()[0].replace(",", ""))


def _code(title: str, lines: list[str], x: int, y: int) -> list[str]:
    body = [text(x, y, title, kind="head")]
    for number, line in enumerate(lines):
        drawn = text(x, y + 26 + 18 * number, line, kind="code")
        body.append(re.sub(r"(  //.*)(?=</text>)", r'<tspan class="mark">\1</tspan>', drawn))
    return body
