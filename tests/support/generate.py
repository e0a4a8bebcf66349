"""Writes what follows from the code and the records: catalogue, reference pages, tables, drawings.

    python tests/support/generate.py            write the files that differ
    python tests/support/generate.py --check    name them and exit with 1 instead

Pages keep what people wrote outside `<!-- generated: NAME -->` ... `<!-- end -->`.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import api_reference
import beside_pytorch
import concept_drawings
import manifests
import program_losses
import readme_drawings
import renewal
from broken import BROKEN, DEADLY
from faulty import FAULTY
from harness.pages import last_records, section
from harness.plot import svg
from netcl_market.failures import FAILURES
from netcl_plugin_kit.check.findings import KINDS as STATIC_FINDINGS
from netcl_plugin_kit.check.findings import NOTES
from netcl_plugin_kit.new.names import ProjectNames
from netcl_plugin_kit.new.project import rendered
from netcl_plugin_kit.new.scaffolds import SCAFFOLDS
from netcl_plugin_kit.testing import vocabulary
from netcl_plugin_kit.testing.findings import KINDS as RUN_FINDINGS

import netcl_core as nc
from netcl_core import config, errors, hookspecs
from netcl_core.plugins.kinds import KINDS

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = "netcl_core/plugins/catalogue.json"
RECORDS = ROOT / "benchmarks" / "records"
SCHEMA = "plugins/netcl-market/src/netcl_market/manifest_schema.json"
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def first_party() -> dict[str, dict[str, Any]]:
    """Distribution name -> `[project]` table of every plugin of this repository."""
    tables = [
        tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for path in sorted(ROOT.glob("plugins/*/pyproject.toml"))
    ]
    return {table["name"]: table for table in tables}


# -- the generated parts of pages ------------------------------------------------------


def settings_table() -> Iterator[str]:
    """Every setting with its variable, its key, its default and its meaning."""
    yield "| variable | key in `[tool.netcl]` | default | meaning |"
    yield "|---|---|---|---|"
    for setting in config.SETTINGS.values():
        default = json.dumps(setting.default)
        yield f"| `{setting.variable}` | `{setting.name}` | `{default}` | {setting.doc} |"


def hooks_table() -> Iterator[str]:
    """Every hook with its argument, its meaning, and the hook API in which it came."""
    yield "| hook | since | meaning |"
    yield "|---|---|---|"
    for name, since in hookspecs.SINCE.items():
        hook = getattr(hookspecs, name)
        arguments = ", ".join(inspect.signature(hook).parameters)
        version = ".".join(map(str, since))
        yield f"| `{name}({arguments})` | {version} | {_first_paragraph(hook)} |"


def provides_table() -> Iterator[str]:
    """Every kind of row of a manifest, with what it is for, its hook and its keys."""
    yield "| `kind` | what it is | hook | further keys |"
    yield "|---|---|---|---|"
    for kind in KINDS.values():
        keys = ", ".join(f"`{key}`" for key in kind.keys)
        yield f"| `{kind.name}` | {kind.brings} | `{kind.hook}` | {keys} |"


def errors_table() -> Iterator[str]:
    """Every error class with its bases and its meaning."""
    yield "| error | is a | meaning |"
    yield "|---|---|---|"
    for name, error in vars(errors).items():
        if inspect.isclass(error) and issubclass(error, errors.NetclError):
            bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
            yield f"| `{name}` | {bases} | {_first_paragraph(error)} |"


def failures_table() -> Iterator[str]:
    """Every kind of failure with its meaning, its remedy and the broken plugins that prove it."""
    examples: dict[str, list[str]] = {}
    for row in {**BROKEN, **DEADLY}.values():
        examples.setdefault(row.failure, []).append(row.what)
    yield "| code | state | what is wrong | what to do | proved with |"
    yield "|---|---|---|---|---|"
    for code, kind in sorted(FAILURES.items()):
        proof = "; ".join(examples.get(code, []))
        anchor = f'<a id="{code.lower()}"></a>{code}'
        yield f"| {anchor} | {kind.state} | {kind.meaning} | {kind.remedy} | {proof} |"


def findings_table() -> Iterator[str]:
    """Every kind of finding of a check, with the faulty plugins that prove it."""
    examples: dict[str, list[str]] = {}
    for row in FAULTY.values():
        examples.setdefault(row.code, []).append(row.what)
    yield "| code | check | what is wrong | what to do | proved with |"
    yield "|---|---|---|---|---|"
    for code, kind in {**STATIC_FINDINGS, **NOTES, **RUN_FINDINGS}.items():
        proof = "; ".join(examples.get(code, []))
        anchor = f'<a id="{code.lower()}"></a>{code}'
        yield f"| {anchor} | `{kind.check}` | {kind.meaning} | {kind.remedy} | {proof} |"


def checks_table() -> Iterator[str]:
    """Every check of the conformance kit with its meaning and its remedy."""
    yield "| check | holds if | when it fails |"
    yield "|---|---|---|"
    for name, check in vocabulary.CHECKS.items():
        yield f"| `{name}` | {check.meaning} | {check.remedy} |"


def plugins_table() -> Iterator[str]:
    """Every first-party plugin with what it brings."""
    yield "| package | brings |"
    yield "|---|---|"
    for name, table in first_party().items():
        yield f"| [`{name}`](plugins/{name}) | {table['description'].replace(' for netcl', '')} |"


def kinds_table() -> Iterator[str]:
    """Every kind of project that `netcl plugins new` makes."""
    yield "| `--kind` | the project brings |"
    yield "|---|---|"
    for name, kind in SCAFFOLDS.items():
        yield f"| `{name}` | {kind.brings} |"


def new_files_table() -> Iterator[str]:
    """The files of a new operator that an author looks at, from its README."""
    yield "| file | holds |"
    yield "|---|---|"
    yield from (row for row in _new("operator")["README.md"].splitlines() if "| `src/" in row)


def new_primitive() -> Iterator[str]:
    """The template of a new primitive."""
    yield from _fenced("jinja", _new("primitive")[f"{PACKAGE}/templates/bump.cl.j2"])


def new_kernels() -> Iterator[str]:
    """The template of a new operator."""
    yield from _fenced("jinja", _new("operator")[f"{PACKAGE}/templates/bump.cl.j2"])


def new_launch() -> Iterator[str]:
    """The part of a new operator that says how devices compute it."""
    text = _new("operator")[f"{PACKAGE}/operators.py"]
    yield from _fenced("py", text.partition("# -- how OpenCL")[2].partition("\n")[2].strip())


def benchmarks_tables() -> Iterator[str]:
    """The last benchmark record of each device, as tables."""
    records = last_records(RECORDS)
    if not records:
        yield "None yet. This makes one:"
        yield "`python benchmarks --json benchmarks/records/NAME.json && make docs`"
    for name, record in records.items():
        yield from section(record, f"../benchmarks/records/{name}.svg")


def of_pytorch() -> Iterator[str]:
    """How many of PyTorch's names there are."""
    yield from beside_pytorch.here(nc)


def not_of_pytorch() -> Iterator[str]:
    """Which of PyTorch's names are not there."""
    yield from beside_pytorch.absences(nc)


PACKAGE = "src/netcl_plugin_bump"


def _new(kind: str) -> dict[str, str]:
    """What `netcl plugins new bump` writes."""
    names = ProjectNames("bump", "netcl-plugin-bump", "netcl_plugin_bump", "bump")
    return rendered(SCAFFOLDS[kind], names, "nobody")


def _fenced(language: str, text: str) -> Iterator[str]:
    yield f"```{language}"
    yield from text.rstrip().splitlines()
    yield "```"


def _first_paragraph(thing: Any) -> str:
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split()).replace("|", "\\|")


#: Name -> the lines of a part; None where they cannot be made here, and stay as they are.
PARTS: dict[str, Callable[[], Iterator[str] | None]] = {
    "benchmarks": benchmarks_tables,
    "checks": checks_table,
    "settings": settings_table,
    "hooks": hooks_table,
    "errors": errors_table,
    "plugins": plugins_table,
    "failures": failures_table,
    "findings": findings_table,
    "kinds": kinds_table,
    "provides": provides_table,
    "new_files": new_files_table,
    "new_primitive": new_primitive,
    "new_kernels": new_kernels,
    "new_launch": new_launch,
    "swish": concept_drawings.swish_template,
    "chain": concept_drawings.chain_sources,
    "api": api_reference.page,
    "programs": program_losses.table,
    "of_pytorch": of_pytorch,
    "not_of_pytorch": not_of_pytorch,
    "beside_pytorch": beside_pytorch.differences,
}


def page(text: str) -> str:
    """A page's text with its generated parts renewed."""

    def renew(match: re.Match[str]) -> str:
        lines = PARTS[match[2]]()
        return match[0] if lines is None else "\n".join([match[1] + next(lines), *lines, match[3]])

    return _BLOCK.sub(renew, text)


def manifest_schema() -> dict[str, Any]:
    """The schema of manifests, with what the table of kinds says of `[[provides]]`."""
    schema: dict[str, Any] = json.loads((ROOT / SCHEMA).read_text(encoding="utf-8"))
    rows = schema["properties"]["provides"]["items"]
    rows["properties"]["kind"] = {"enum": [*KINDS]}
    rows["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": kind.name}}, "required": ["kind"]},
            "then": {"propertyNames": {"enum": ["name", "kind", *kind.keys]}},
        }
        for kind in KINDS.values()
    ]
    return schema


def wanted() -> dict[Path, str]:
    """What each file with generated content ought to hold."""
    files = {
        ROOT / CATALOGUE: json.dumps(manifests.catalogue(), indent=1) + "\n",
        ROOT / SCHEMA: json.dumps(manifest_schema(), indent=1) + "\n",
        ROOT / "docs" / "pytorch-names.json": json.dumps(beside_pytorch.listed(nc), indent=1)
        + "\n",
        **readme_drawings.wanted(),
        **concept_drawings.wanted(),
        **{RECORDS / f"{name}.svg": svg(record) for name, record in last_records(RECORDS).items()},
    }
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if _BLOCK.search(text):
            files[path] = page(text)
    return files


def outdated() -> dict[Path, str]:
    """The files that differ from what they ought to hold."""
    return {
        path: text
        for path, text in wanted().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


if __name__ == "__main__":
    renewal.main(outdated)
