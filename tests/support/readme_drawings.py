"""The two drawings of the README: a function beside its kernel, and programs beside their peers.

What they show is read where it is true: the kernel from the compiler, the times from
`docs/performance.md`.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag

DOCS = Path(__file__).resolve().parents[2] / "docs"
_PROGRAM = """\
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
    ("ResNet-18, training step, float32, H200", "ResNet-18, batch 128", 3, {"PyTorch": 4}),
]  # fmt: skip


def kernel() -> str | None:
    """`gate` beside the loop of its kernel; None where there is no OpenCL runtime of a CPU."""
    devices = [each for each in nc.devices() if each.has_kernels and each.kind == "cpu"]
    if not devices:
        return None
    before = nc.default_device()
    nc.use_device(devices[0])
    try:
        linecache.cache["gate.py"] = (len(_PROGRAM), None, _PROGRAM.splitlines(True), "gate.py")
        names: dict[str, Any] = {"ag": ag}
        exec(compile(_PROGRAM, "gate.py", "exec"), names)
        source = names["gate"].lower(nc.ones(64, 32), nc.ones(64, 32)).forward_source
    finally:
        nc.use_device(before)
    loop = re.search(r"^ *for \(; i < end.*?^ *\}\n", source, re.DOTALL | re.MULTILINE)
    name = re.search("__" + r"kernel void \w+", source)
    assert loop and name
    shown = f"{name[0]}(...)\n{{\n    ...\n{loop[0]}}}\n"
    left, right = _PROGRAM.splitlines(), shown.splitlines()
    height = 62 + 19 * max(len(left), len(right))
    body = [*_code("Python", left, 20), *_code("OpenCL, written by netcl", right, 330)]
    return _svg(800, height, "A Python function and the loop of its kernel", body)


def peers() -> str:
    """Bars: how long each program takes in parts of PyTorch's time, ours and others'."""
    lines = (DOCS / "performance.md").read_text(encoding="utf-8").splitlines()
    body, y = [], 30
    for label, start, ours, others in _TIMES:
        row = next(line for line in lines if line.startswith(f"| {start}"))
        cells = row.strip("| ").split(" | ")
        times = {"netcl": _number(cells[ours])}
        times |= {name: _number(cells[at]) for name, at in others.items()}
        body.append(f'<text x="20" y="{y}" font-weight="600">{escape(label)}</text>')
        for name, time in times.items():
            y += 22
            part = time / times["PyTorch"]
            colour = "#00796b" if name == "netcl" else "#9aa5b1"
            body.append(f'<text x="130" y="{y}" text-anchor="end">{name}</text>')
            body.append(
                f'<rect x="140" y="{y - 12}" width="{600 * part:.0f}" height="15" fill="{colour}"/>'
            )
            body.append(f'<text x="{150 + 600 * part:.0f}" y="{y}">{part:.2f}</text>')
        y += 34
    return _svg(820, y - 10, "Times in parts of PyTorch's: shorter is faster", body)


def wanted() -> dict[Path, str]:
    """File -> drawing, of those that can be made here."""
    drawn = {DOCS / "kernel.svg": kernel(), DOCS / "peers.svg": peers()}
    return {path: text for path, text in drawn.items() if text is not None}


def _number(cell: str) -> float:
    return float(cell.split()[0].replace(",", ""))


def _code(title: str, lines: list[str], x: int) -> Iterator[str]:
    yield f'<text x="{x}" y="30" font-weight="600">{escape(title)}</text>'
    for number, line in enumerate(lines):
        code, mark, comment = escape(line, quote=False).partition("  //")
        said = f'{code}<tspan fill="#00796b">{mark}{comment}</tspan>'
        yield (
            f'<text x="{x}" y="{58 + 19 * number}" xml:space="preserve" '
            f'font-family="ui-monospace, monospace" font-size="13">{said}</text>'
        )


def _svg(width: int, height: int, title: str, body: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        'font-family="system-ui, sans-serif" font-size="14" fill="#1f2933" role="img">'
    )
    card = f'<rect width="{width}" height="{height}" rx="8" fill="#f6f8fa"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", card, *body, "</svg>", ""])
