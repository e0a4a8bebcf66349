"""The pages: what each template is given."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from netcl_plugin_kit.packages.metadata import clean_line
from netcl_plugin_kit.testing.records import Roofline

from netcl_core.plugins.protocol import KINDS
from netcl_plugin_tools.catalogue.badges import BADGES
from netcl_plugin_tools.catalogue.beside import beside, slowest
from netcl_plugin_tools.catalogue.changes import changes
from netcl_plugin_tools.catalogue.code import highlight
from netcl_plugin_tools.catalogue.filters import (
    choices,
    facts_of,
    facts_of_all,
    licence_of,
    numbered,
)
from netcl_plugin_tools.catalogue.findings import Findings, FoundKernel, Where, reached
from netcl_plugin_tools.catalogue.installing import command, elsewhere
from netcl_plugin_tools.catalogue.markdown import render_document
from netcl_plugin_tools.catalogue.model import MarketContent, Op, Project
from netcl_plugin_tools.catalogue.rendering import gradient, needs, render
from netcl_plugin_tools.catalogue.views import (
    SIGNS,
    by_check,
    by_namespace,
    by_op,
    matrix,
    numbers,
    op_verdict,
    reasons,
    specimen,
)
from netcl_plugin_tools.matrix.board import together

#: The squares of a card; more would not be told apart.
_STRIP: Final = 96
#: What the address of a source is called, of the well-known labels of project URLs.
_SOURCES: Final = {"source", "sourcecode", "repository", "code", "github"}
_LANGUAGES: Final = {"opencl": "OpenCL C", "python": "Python"}


def pages(market: MarketContent) -> Iterator[tuple[str, str]]:
    """(path, text) of every page."""
    verdicts = {plugin.name: verdicts_of(plugin) for plugin in market.plugins}
    yield "index.html", _front(market, verdicts)
    yield "reading.html", render("reading.html.j2", market=market, root="")
    yield "findings.html", render("findings.html.j2", market=market, root="")
    for plugin in market.plugins:
        yield f"plugins/{plugin.name}.html", _plugin(market, plugin, verdicts[plugin.name])
        for op in plugin.pages:
            yield f"plugins/{plugin.name}/{op.slug}.html", _op(market, plugin, op)


def verdicts_of(plugin: Project) -> dict[str, str]:
    """Op -> the one word for its checks, of all ops with a page."""
    return {op.row.name: op_verdict(plugin, op) for op in plugin.pages}


# -- the front page --------------------------------------------------------------------


def _front(market: MarketContent, verdicts: dict[str, dict[str, str]]) -> str:
    cards = [facts_of_all(plugin) for plugin in market.plugins]
    given = choices(cards)
    rows = [
        {
            **_op_row(plugin, op, verdicts[plugin.name][op.row.name]),
            "facts": numbered(facts_of(plugin, op), given),
        }
        for plugin in market.plugins
        for op in plugin.pages
    ]
    return render(
        "index.html.j2",
        market=market,
        root="",
        numbers=numbers(market),
        specimen=_specimen(market),
        cards=[
            {**_card(plugin, verdicts[plugin.name]), "facts": numbered(facts, given)}
            for plugin, facts in zip(market.plugins, cards, strict=True)
        ],
        given=given,
        raced=any(row["beside"] for row in rows),
        rows=sorted(rows, key=lambda row: (row["name"].lower(), row["plugin"])),
    )


def _specimen(market: MarketContent) -> dict[str, Any] | None:
    chosen = specimen(market)
    if chosen is None:
        return None
    plugin, op, kernel = chosen
    return {
        "op": op.name,
        "href": f"plugins/{plugin.name}/{op.slug}.html",
        "dtype": kernel.dtype,
        "device": kernel.where[0].title,
        "source": highlight(kernel.source, kernel.language),
    }


def _card(plugin: Project, verdicts: dict[str, str]) -> dict[str, Any]:
    latest = plugin.latest
    kinds = Counter(op.row.kind for op in plugin.ops)
    maturity = next((manifest.maturity for manifest in plugin.manifests if manifest.maturity), "")
    return {
        "name": plugin.name,
        "href": f"plugins/{plugin.name}.html",
        "summary": plugin.summary,
        "version": latest.version,
        "maturity": clean_line(maturity),
        "kind": "data" if plugin.latest.wheel.is_data else "code",
        "licence": licence_of(plugin),
        "brings": ", ".join(f"{n} {_plural(kind, n)}" for kind, n in sorted(kinds.items())),
        "strip": [verdicts[op.row.name] for op in plugin.pages][:_STRIP],
        "verdict": latest.findings.verdict,
        "check": _check_text(latest.findings),
        "matrix_state": together(latest.cell_counts)[0],
        "matrix": _matrix_text(latest.cell_counts),
        "search": " ".join([plugin.name, plugin.summary, *kinds]).lower(),
    }


def _plural(kind: str, number: int) -> str:
    word = kind.replace("_", " ")
    if number == 1:
        return word
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"


def _check_text(findings: Findings) -> str:
    """`full check 2026-11-20`, or what else there is to say in a few words."""
    record = findings.deepest
    if record is None:
        return "no record of a check"
    failed = sum(one.outcome.state == "failed" for one in findings.outcomes)
    if failed:
        return f"{failed} of {len(findings.outcomes):,} checks {'fails' if failed == 1 else 'fail'}"
    return f"{reached(record)} check {record.date[:10]}"


def _matrix_text(counts: Counter[str]) -> str:
    words = {"pass": "pass", "fail": "fail", "setup_error": "not set up"}
    said = [f"{counts[state]} {word}" for state, word in words.items() if counts[state]]
    return f"matrix: {', '.join(said) or SIGNS[together(counts)[0]].word}"


def _op_row(plugin: Project, op: Op, verdict: str) -> dict[str, Any]:
    return {
        "name": op.name,
        "href": f"plugins/{plugin.name}/{op.slug}.html",
        "verdict": verdict,
        "gradient": gradient(op.row.differentiable),
        "kind": op.row.kind,
        "dtypes": op.row.dtypes,
        "checked": _checked(plugin, op),
        "beside": slowest(beside(plugin.latest.findings.of(op.row.name))),
        "plugin": plugin.name,
        "plugin_href": f"plugins/{plugin.name}.html",
        "search": f"{op.name} {op.row.kind} {plugin.name}".lower(),
    }


def _checked(plugin: Project, op: Op) -> str:
    """The day of an op's newest outcome; empty without one."""
    return max(
        (one.date[:10] for one in plugin.latest.findings.of(op.row.name).outcomes), default=""
    )


def source_of(plugin: Project) -> str:
    """The address of its source, as its metadata name it; empty if they do not."""
    for label, url in plugin.latest.wheel.metadata.links:
        if label.lower().replace(" ", "") in _SOURCES:
            return url
    return ""


# -- a plugin and an op ----------------------------------------------------------------


def _plugin(market: MarketContent, plugin: Project, verdicts: dict[str, str]) -> str:
    latest = plugin.latest
    findings, metadata = latest.findings, latest.wheel.metadata
    rooflines: dict[tuple[str, Where], list[Roofline]] = defaultdict(list)
    for where, one in findings.roofline:
        rooflines[one.op, where].append(one)
    return render(
        "plugin.html.j2",
        market=market,
        root="../",
        base=f"{plugin.name}/",
        plugin=plugin,
        latest=latest,
        findings=findings,
        verdicts=verdicts,
        card=_card(plugin, verdicts),
        licence=licence_of(plugin),
        install=command(market, plugin),
        elsewhere=elsewhere(market, plugin),
        source=source_of(plugin),
        beside={
            op.row.name: raced
            for op in plugin.pages
            if (raced := slowest(beside(findings.of(op.row.name)))) is not None
        },
        readme=render_document(metadata.readme, metadata.readme_type, "readme", plugin.name),
        changelog=render_document(latest.wheel.changelog, "text/markdown", "change", "changelog"),
        needs=sorted({text for manifest in plugin.manifests for text in needs(manifest.requires)}),
        raced=sorted({where for where, _ in findings.roofline}),
        rooflines=rooflines,
        dated=_dated(findings),
        general=[one for one in findings.outcomes if not one.outcome.op],
        by_op=by_op(plugin),
        by_scenario=by_op(plugin, scenarios=True),
        namespaces=by_namespace(plugin),
        reasons=reasons(findings.outcomes),
        mutants=sum(one.total for one in findings.mutants),
        caught=sum(one.caught for one in findings.mutants),
        matrix=matrix(latest.cells),
        badges=BADGES,
        changes=[*changes(plugin)],
    )


def _op(market: MarketContent, plugin: Project, op: Op) -> str:
    findings = plugin.latest.findings.of(op.row.name)
    places = sorted({where for kernel in findings.kernels for where in kernel.where})
    numbered = {where: str(number) for number, where in enumerate(places)}
    return render(
        "op.html.j2",
        market=market,
        root="../../",
        plugin=plugin,
        op=op,
        findings=findings,
        verdict=op_verdict(plugin, op),
        kernels=[_kernel(kernel, numbered) for kernel in sorted(findings.kernels, key=_first)],
        choices=_choices(findings, numbered),
        by_check=by_check(findings),
        beside=beside(findings),
        source=source_of(plugin),
        dated=_dated(findings),
        reasons=reasons(findings.outcomes),
        is_op=KINDS[op.row.kind].is_op,
        brings=KINDS[op.row.kind].brings,
    )


def _dated(findings: Findings) -> list[str]:
    """`2026-11-20 with core 0.1.1`, of all outcomes."""
    return sorted({f"{one.date[:10]} with core {one.core}" for one in findings.outcomes})


def _first(kernel: FoundKernel) -> tuple[bool, bool, bool, str, tuple[Where, ...]]:
    """Forward before backward, float32 and OpenCL first: what most readers look for."""
    return (
        kernel.direction != "forward",
        kernel.dtype != "float32",
        kernel.language != "opencl",
        kernel.dtype,
        kernel.where,
    )


def _kernel(kernel: FoundKernel, numbered: dict[Where, str]) -> dict[str, Any]:
    return {
        "direction": kernel.direction,
        "dtype": kernel.dtype,
        "devices": " ".join(numbered[where] for where in kernel.where),
        "names": " and ".join(where.title for where in kernel.where),
        "language": _LANGUAGES.get(kernel.language, kernel.language),
        "lines": kernel.source.strip("\n").count("\n") + 1,
        "html": highlight(kernel.source, kernel.language),
    }


def _choices(findings: Findings, numbered: dict[Where, str]) -> dict[str, list[tuple[str, str]]]:
    """What a reader can choose a kernel by: (value, label), the first is the first kernel's."""
    kernels = sorted(findings.kernels, key=_first)
    directions = dict.fromkeys(kernel.direction for kernel in kernels)
    dtypes = dict.fromkeys(kernel.dtype for kernel in kernels)
    places = dict.fromkeys(chain.from_iterable(kernel.where for kernel in kernels))
    return {
        "Direction": [(name, name) for name in directions],
        "Device": [(numbered[where], where.title) for where in places],
        "Dtype": [(name, name) for name in dtypes],
    }
