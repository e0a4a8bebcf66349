"""The figures of docs/concepts.md, and the sources that stand in it.

What a figure says of a program is asked of the program: the nodes of a real tape, the ops of a
kernel that was compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from drawing import WIDTH, arrow, box, down, svg, text
from readme_drawings import PROGRAM, compiled_gate, loop_of

import netcl_core as nc
import netcl_core.autograd as ag

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_MIDDLE = WIDTH / 2


def tape() -> str:
    """A recorded program as boxes, each below what it reads, and the way of its gradients."""
    with ag.Tape() as recorded, nc.use_device("numpy"):
        w = nc.tensor([1.0, 2.0], requires_grad=True)
        ag.sum(ag.add(ag.relu(ag.mul(w, 3.0)), w))
    nodes = list(recorded.nodes)
    names = ["w, a leaf", *(node.op_name or "" for node in nodes)]
    rows = {id(node): row for row, node in enumerate(nodes, 1)}
    reads = [[rows.get(id(parent), 0) for parent in node.parents] for node in nodes]  # 0: w
    body, tops = [text(24, 28, "the tape, in the order of the calls", kind="head")], []
    left, width, step = 130.0, 120.0, 62
    for row, name in enumerate(names):
        drawn, _ = box(left, 46 + step * row, width, [name], kind="box" if row else "one")
        body.append(drawn)
        tops.append(46 + step * row)
    for row, parents in enumerate(reads, 1):
        for parent in parents:
            start, end = tops[parent] + 32, tops[row]
            if parent == row - 1:
                body.append(down(left + 40, start, end))
                up = f"M{left + 80} {end}V{start + 4}"
                body.append(arrow(up, left + 80, start, "up", "back"))
            else:
                here, there = tops[parent] + 16, tops[row] + 16
                path = f"M{left} {here}H{left - 40}V{there}H{left - 4}"
                body.append(arrow(path, left, there, "right"))
                side = left + width
                path = f"M{side} {there}H{side + 40}V{here}H{side + 4}"
                body.append(arrow(path, side, here, "left", "back"))
    low = tops[-1] + 62
    body.append(text(24, low, "grey: what a node reads"))
    body.append(text(24, low + 20, "green: where its gradient goes", kind="mark"))
    said = f"A tape of {len(nodes)} nodes, {', '.join(names[1:])}: calls go down, gradients up"
    return svg(WIDTH, low + 38, said, body)


def record() -> str:
    """One record above, and what the core makes of it below."""
    parts = [
        ["a kernel, and one", "for its gradients"],
        ["its lines in", "fused kernels"],
        ["every dtype,", "vectors, strides"],
        ["broadcasting, and", "sums in gradients"],
        ["a NumPy function"],
        ["ag.swish, x.swish()"],
        ["its page in the", "reference"],
        ["gradient checks,", "conformance tests"],
    ]
    body = [text(24, 28, "you write", kind="head")]
    drawn, y = box(90, 42, 200, ["swish.cl.j2", "forward, backward"], kind="one")
    body += [drawn, text(24, y + 40, "the core makes", kind="head")]
    top = y + 58
    for row in range(0, len(parts), 2):
        height = 14 + 18 * max(len(parts[row]), len(parts[row + 1]))
        for column, lines in enumerate(parts[row : row + 2]):
            here = top + (height - 14 - 18 * len(lines)) / 2
            body.append(box(24 + 172 * column, here, 160, lines)[0])
        top += height + 14
    body.append(down(_MIDDLE, y, y + 54))
    return svg(WIDTH, top + 8, "One template, from which the core makes eight things", body)


def chain(source: str) -> str:
    """The ops of a kernel one by one, with memory between them, and in one."""
    match = re.search(r"void (\w+)_forward\(", source)
    assert match
    ops = match[1].split("_")
    body = [text(24, 28, "op by op", kind="head"), text(214, 28, "compiled", kind="head")]
    y, step = 44.0, 58
    for row, op in enumerate(ops):
        body.append(box(24, y + step * row, 142, [f"kernel {row + 1}: {op}"])[0])
        if row:
            body.append(down(95, y + step * row - 26, y + step * row))
            body.append(text(103, y + step * row - 9, "memory", kind="bar"))
    low = y + step * (len(ops) - 1) + 32
    height = low - y
    body.append(
        f'<rect class="one" x="214" y="{y}" width="142" height="{height}" rx="5"/>'
        + text(285, y + 22, "kernel 1", anchor="middle")
    )
    space = (height - 66) / (len(ops) - 1)
    for row, op in enumerate(ops):
        body.append(text(285, y + 52 + space * row, op, kind="code", anchor="middle"))
        if row:
            here = y + 52 + space * row
            body.append(down(285, here - space + 7, here - 13))
    body.append(text(24, low + 28, f"{len(ops)} launches, {len(ops) - 1} tensors in between"))
    body.append(text(24, low + 48, "one launch, values stay in registers", kind="mark"))
    said = f"The ops {', '.join(ops)} as {len(ops)} kernels, and as one compiled kernel"
    return svg(WIDTH, low + 66, said, body)


def choice() -> str:
    """The rules in their order."""
    rules = [
        ["1  nc.prefer, in this thread"],
        ["2  who cannot run it here is dropped:", "device, dtype, shape"],
        ["3  the setting resolve, NETCL_RANK"],
        ["4  the lock file"],
        ["5  the highest priority"],
    ]
    body, y = [text(24, 28, "all who offer the op", kind="head")], 44.0
    for number, lines in enumerate(rules):
        drawn, end = box(24, y, 258, lines)
        body.append(drawn)
        middle = (y + end) / 2
        if number != 1:
            body.append(arrow(f"M282 {middle}H330V{318}", 330, 322, "down", "back"))
        body.append(down(120, end, end + 24))
        body.append(text(130, end + 16, "none decides" if number != 1 else "several are left"))
        y = end + 24
    body.append(box(24, y, 200, ["AmbiguousOpError", "names those that are tied"])[0])
    drawn, end = box(248, 324, 116, ["it serves,", "and why() says", "by which rule"], kind="one")
    body.append(drawn)
    said = "Five rules, one after the other; the first that picks a candidate decides"
    return svg(WIDTH, max(end, y + 50) + 16, said, body)


def lock() -> str:
    """What is compared before anything is imported, and what lies outside."""
    body = [text(24, 28, "once: netcl plugins lock", kind="head")]
    drawn, y = box(
        24, 42, 332, ["netcl.lock", "every file's digest, who serves what,", "the rendered kernels"]
    )
    body += [drawn, text(24, y + 38, "at each start, before any import", kind="head")]
    top = y + 52
    drawn, end = box(24, top, 150, ["installed files"])
    other, _ = box(206, top, 150, ["netcl.lock"])
    body += [drawn, other]
    same, low = box(95, end + 34, 190, ["are they the same?"], kind="one")
    body += [same, down(110, end, end + 34), down(270, end, end + 34)]
    yes, last = box(24, low + 46, 150, ["plugins are imported,", "the same kernels run"])
    no, _ = box(206, low + 46, 150, ["an error names", "what changed"])
    body += [yes, no, down(110, low, low + 46), down(270, low, low + 46)]
    body += [text(118, low + 28, "yes"), text(278, low + 28, "no, strict")]
    body.append(text(24, last + 32, "outside: Python, other packages, the driver,", kind="bar"))
    body.append(text(24, last + 50, "and whoever can write the lock file itself", kind="bar"))
    said = "The lock file is compared with the installed files before any plugin is imported"
    return svg(WIDTH, last + 68, said, body)


def wanted() -> dict[Path, str]:
    """File -> drawing, of those that can be made here."""
    figures: dict[str, Callable[[], str]] = {
        "tape": tape, "record": record, "choice": choice, "lock": lock,
    }  # fmt: skip
    gate = compiled_gate()
    if gate is not None:
        figures["chain"] = lambda: chain(gate.forward_source)
    return {DOCS / f"concept-{name}.svg": draw() for name, draw in figures.items()}


# -- generated parts of the page -------------------------------------------------------


def swish_template() -> Iterator[str]:
    """The one definition of swish."""
    folder = ROOT / "plugins" / "netcl-plugin-elementwise" / "src" / "netcl_plugin_elementwise"
    whole = (folder / "templates" / "swish.cl.j2").read_text(encoding="utf-8")
    yield from ["```jinja", *whole.rstrip().splitlines(), "```"]


def chain_sources() -> Iterator[str] | None:
    """The program, and the loops of its two kernels; None where there is no CPU runtime."""
    gate = compiled_gate()
    return None if gate is None else _sources(gate)


def _sources(gate: Any) -> Iterator[str]:
    yield from ["```py", *PROGRAM.rstrip().splitlines(), "```", ""]
    kernels = {"The kernel of the call": gate.forward_source}
    kernels["The kernel of both gradients"] = gate.backward_source
    for label, source in kernels.items():
        lines = [line.removeprefix("    ") for line in loop_of(source).rstrip().splitlines()]
        yield from [f"{label}:", "", "```c", *lines, "```", ""]
