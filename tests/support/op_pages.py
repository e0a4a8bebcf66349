"""The reference of every op, one page per plugin, for the site: `op_pages.py FOLDER`.

    ## swish
    value        x * (1 / (1 + exp(-(x))))
    gradient     of x: ...
    docstring    one sentence, an example, arguments
    dtypes       on which runtime each dtype passed (docs/ops.md)
    kernels      who computes it, and what that needs

Everything is asked of the registry, of docstrings, and of docs/ops.md; nothing is written twice.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from api_reference import signature
from netcl_plugin_kit.kernels.listing import OfferedKernel, kernels_of
from op_table import SHORT

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive
from netcl_core.plugins.protocol import Row, registry

ROOT = Path(__file__).resolve().parents[2]
#: Longer expressions are read in the template.
_LONGEST = 400
_SECTION = re.compile(r"(Args|Returns|Raises|Attributes|Example):$")
_LAST = -1_000_000


def pages() -> dict[str, str]:
    """File name -> page, one for each plugin that has ops."""
    table, pages_of = measured(), defaultdict(list)
    rows = {name: registry.op_rows(name)[0] for name in ops()}
    kernels = defaultdict(list)
    for kernel in kernels_of(rows.values()):
        kernels[kernel.op].append(kernel)
    for name, row in rows.items():
        of = getattr(row.record, "alias_of", "")
        lines = [*entry(name, row, table), "", *_kernels(row, kernels[name]), ""]
        if of:
            lines = [f"## {name}", "", f"Another name of [{of}](#{of}).", ""]
        pages_of[row.provider].append("\n".join(lines))
    return {
        f"{provider.removeprefix('netcl-plugin-')}.md": _page(provider, entries)
        for provider, entries in sorted(pages_of.items())
    }


def ops() -> list[str]:
    """The public ops of the plugins of this repository."""
    own = {path.parent.name for path in ROOT.glob("plugins/netcl-plugin-*/pyproject.toml")}
    registry.load()
    return [
        name for name in sorted(registry.op_names()) if registry.op_rows(name)[0].provider in own
    ]


def measured() -> dict[str, tuple[str, dict[str, str]]]:
    """Op -> whether it has a gradient, and runtime -> dtypes, as docs/ops.md has them."""
    rows_of, runtimes = {}, []
    for line in (ROOT / "docs" / "ops.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[:2] == ["op", "gradient"]:
            runtimes = cells[2:]
        elif len(cells) == 2 + len(runtimes) > 2 and cells[0].startswith("`"):
            rows_of[cells[0].strip("`")] = cells[1], dict(zip(runtimes, cells[2:], strict=True))
    return rows_of


def entry(name: str, row: Row, table: dict[str, tuple[str, dict[str, str]]]) -> Iterator[str]:
    """The section of an op."""
    function, record = getattr(ag, name), row.record
    yield from [f"## {name}", "", "```py", f"ag.{name}{signature(function)}", "```", ""]
    yield from [*prose(inspect.getdoc(function) or ""), ""]
    if isinstance(record, AutogradPrimitive):
        yield from formulas(record)
    yield from ["", *dtypes(*table[name])] if name in table else []


def formulas(record: AutogradPrimitive) -> Iterator[str]:
    """The expressions of an elementwise op, where they are short enough to be read."""
    defaults = record.default_attrs()
    if record.arity is None or defaults is None:
        return
    attrs = {key: value if isinstance(value, str) else key for key, value in defaults.items()}
    names = list(record.inputs or [f"x{i}" for i in range(record.arity)])
    lines = {"value": " ".join(str(record.forward(list(names), dict(attrs))).split())}
    if record.backward is not None:
        gradients = record.backward(list(names), "grad", dict(attrs), "out")
        pairs = zip(names, gradients, strict=True)
        lines |= {f"gradient of {x}": " ".join(said.split()) for x, said in pairs if said}
    short = {what: said for what, said in lines.items() if len(said) <= _LONGEST}
    if short:
        yield from ["As C expressions of one element:", "", "```c"]
        yield from (f"{said}  // {what}" for what, said in short.items())
        yield "```"
    if len(short) < len(lines) and record.template:
        longer = " and ".join(what for what in lines if what not in short)
        yield from ["", f"The expression of the {longer} is longer: template `{record.template}`."]


def prose(doc: str) -> Iterator[str]:
    """A docstring as Markdown: examples in fences, `Args:` as a list."""
    fenced = inside = False
    doc = re.sub(r"^\w+\(.*?\): (.)", lambda match: match[1].upper(), doc, flags=re.DOTALL)
    for line in doc.splitlines():
        if line.lstrip().startswith(">>>") and not fenced:
            yield from ["", "```pycon"]
            fenced = True
        if fenced and not line.strip():
            yield "```"
            fenced = False
        heading = _SECTION.match(line)
        if fenced:
            yield line.strip() if inside else line
        elif heading:
            inside = True
            yield from ["", f"**{heading[1]}**", ""]
        elif inside and re.match(r" {4}\S", line):
            yield re.sub(r"^([\w, *]+?): ", r"- `\1`: ", line.strip())
        elif inside and line.startswith(" "):
            yield f"  {line.strip()}"
        else:
            inside = inside and not line
            yield line
    if fenced:
        yield "```"


def dtypes(gradient: str, cells: dict[str, str]) -> Iterator[str]:
    """The dtypes of every runtime, in one line where all have the same."""
    differentiable = "differentiable" if gradient == "yes" else "no gradient"
    cells = {runtime: _long(said) for runtime, said in cells.items()}
    if len(set(cells.values())) == 1:
        yield f"**Dtypes** ({differentiable}), on {', '.join(cells)}: {next(iter(cells.values()))}"
        return
    yield f"**Dtypes** ({differentiable})"
    yield ""
    yield from (f"- {runtime}: {said}" for runtime, said in cells.items())


def _long(cell: str) -> str:
    """The full names of the dtypes of a cell."""
    names = {short: name for name, short in SHORT.items()}
    return ", ".join(names.get(word, word) for word in cell.split())


def _kernels(row: Row, offered: list[OfferedKernel]) -> Iterator[str]:
    if getattr(row.record, "view", None) is not None:
        yield "**Kernels**: none for a view of the tensor; a copy where the elements cannot stay."
        return
    if isinstance(row.record, AutogradPrimitive):
        yield "**Kernels**: made of the expressions, for every OpenCL device; " + (
            "compiled functions fuse it with its neighbours."
            if row.record.fusible
            else "not fused."
        )
        return
    kernels = [each for each in offered if each.priority != _LAST]
    if not kernels:
        yield "**Kernels**: those of the ops that it is made of."
        return
    yield from ["**Kernels**, the highest priority that fits first", ""]
    for each in sorted(kernels, key=lambda kernel: -kernel.priority):
        needs = f"needs {each.needs}" if each.needs else "every OpenCL device"
        tuned = f"; tunable: {', '.join(each.settings)}" if each.settings else ""
        yield f"- {each.kernel} ({each.provider}, priority {each.priority}): {needs}{tuned}"
    yield "- NumPy where there is no OpenCL"


def _page(provider: str, entries: list[str]) -> str:
    head = (
        f"# Ops of {provider}\n\n{len(entries)} ops, written from the registry, docstrings, and "
        "the last run of all cases on [every runtime](../../docs/ops.md). In expressions `grad` is "
        "the gradient of the result, and `out` the result.\n\n"
    )
    return head + "\n".join(entries)


def main(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    with nc.use_device("numpy"):
        for name, text in pages().items():
            (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
