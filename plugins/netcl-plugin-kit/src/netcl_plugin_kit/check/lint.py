"""Static findings of templates and expressions: each is parsed, and rendered for each dtype.

Nothing is built or launched. Kernels of structured ops are planned for two devices that
need not be there, a CPU and a GPU, with the shapes of the op's cases.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from jinja2 import nodes
from netcl_plugin_fusion.derivative import ZERO

from netcl_core import DTYPES, Spec
from netcl_core.autograd import AutogradPrimitive, Operator
from netcl_core.errors import PrimitiveError, TemplateError
from netcl_core.inspect.expressions import GRAD, OUT, Name, walk
from netcl_core.inspect.sources import (
    PLAIN,
    backward_source,
    collapse,
    environment,
    forward_source,
    get_template,
    infer,
    record_region,
)
from netcl_core.inspect.streams import Kind, stand_in
from netcl_plugin_kit.check.findings import CheckFinding
from netcl_plugin_kit.kernels.sources import record_signature, sources_of
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.samples import FLOATS
from netcl_plugin_kit.testing.verification import Use, uses

SUFFIX: Final = ".cl.j2"
#: What no kernel needs: it prints, or reads files of the machine that builds it.
_FOREIGN: Final = re.compile(r"\bprintf\s*\(|(?:#|%:|\?\?=)\s*include\b[^\n]*")
_COMMENTS: Final = re.compile(r"/\*.*?\*/|//[^\n]*|\{#.*?#\}", re.DOTALL)
_SHAPE: Final = (1024,)
#: The vector forms of the kernels that CPUs and GPUs get.
_STYLES: Final = ("vector16", "vector4")
_KINDS: Final[tuple[Kind, ...]] = ("cpu", "gpu")


def dtypes_of(promised: Sequence[str]) -> tuple[str, ...]:
    """The dtypes to render for: all floating ones, and what else a manifest promises."""
    return (*FLOATS, *(name for name in promised if name in DTYPES and name not in FLOATS))


# -- files -----------------------------------------------------------------------------


def check_file(template: str) -> Iterator[CheckFinding]:
    """A template is valid Jinja, and its macros read their arguments.

    `forward` and `backward` share theirs: what either reads is read.
    """
    try:
        unread = _unread_arguments(template)
        if match := _FOREIGN.search(_without_comments(template)):
            yield CheckFinding("NC407", f"{template}: {match[0]}")
    except TemplateError as error:
        yield CheckFinding(_code_of(error, "NC401"), str(error))
        return
    both = set(unread.get("forward", ())) & set(unread.get("backward", unread.get("forward", ())))
    for macro, names in unread.items():
        for name in names if macro != "backward" else ():  # it takes all that forward takes
            if macro != "forward" or name in both:
                yield CheckFinding(
                    "NC403", f"{template}: {macro} never reads its argument {name!r}"
                )


def _without_comments(template: str) -> str:
    """The text of a template without the comments of C and Jinja."""
    text = Path(str(get_template(template).filename)).read_text(encoding="utf-8")
    return _COMMENTS.sub(" ", text)


def _code_of(error: Exception, else_code: str) -> str:
    """The code of an error in a template: what the sandbox refuses has one of its own."""
    return "NC406" if getattr(error, "code", "") in {"NP316", "NP317"} else else_code


def templates(prefix: str) -> list[str]:
    """The kernel templates of a plugin; what else it renders is its own affair."""
    return environment().list_templates(
        filter_func=lambda name: name.startswith(f"{prefix}/") and name.endswith(SUFFIX)
    )


def _unread_arguments(template: str) -> dict[str, list[str]]:
    """For each macro of a template those of its arguments that its text does not read.

    Raises TemplateError if the template is missing or no valid Jinja.
    """
    path = get_template(template).filename  # raises an error that reads as everywhere
    assert path is not None  # it comes from a folder
    tree = environment().parse(Path(path).read_text(encoding="utf-8"))
    return {
        macro.name: [arg.name for arg in macro.args if arg.name not in _read_by(macro)]
        for macro in tree.find_all(nodes.Macro)
    }


def _read_by(macro: nodes.Macro) -> set[str]:
    """The names in a macro's Jinja, and the words of its text: an op's inputs keep their names."""
    inside = [*macro.body, *macro.defaults]
    parts = [node for part in inside for node in (part, *part.find_all(nodes.Node))]
    texts = (node.data for node in parts if isinstance(node, nodes.TemplateData))
    names = {node.name for node in parts if isinstance(node, nodes.Name)}
    return names.union(*(re.findall(r"[A-Za-z_]\w*", text) for text in texts))


# -- elementwise ops -------------------------------------------------------------------


def check_primitive(record: AutogradPrimitive) -> Iterator[CheckFinding]:
    """The expressions of a primitive parse for every choice of its words."""
    try:
        uses_of_inputs = list(uses(record))
    except Exception as error:  # a plugin's callable may raise anything
        yield _wrong_expression(record, error)
        return
    for use in uses_of_inputs:
        parsed = record.parsed(use.arity, use.choices)
        for name, tree in zip(parsed.inputs, parsed.backward or (), strict=False):
            if tree not in (None, ZERO) and Name(GRAD) not in walk(tree):
                yield CheckFinding(
                    "NC403", f"the gradient of {name} does not read grad", record.name
                )
                return


def _wrong_expression(record: AutogradPrimitive, error: Exception) -> CheckFinding:
    text = str(error) if isinstance(error, PrimitiveError) else f"{type(error).__name__}: {error}"
    if isinstance(error, TemplateError) or type(error).__module__.startswith("jinja2"):
        return CheckFinding(_code_of(error, "NC401"), text, record.name)
    wrong = record.arity is not None and _gradient_counts(record) - {record.arity}
    return CheckFinding("NC404" if wrong else "NC402", text, record.name)


def _gradient_counts(record: AutogradPrimitive) -> set[int]:
    """How many gradients a backward gives, over all choices of its words."""
    words = [record.choices.get(name) or [name] for name in record.attrs]
    names = list(record.inputs or (f"x{i}" for i in range(record.arity or 0)))
    counts = set()
    for choice in itertools.product(*words) if record.backward is not None else ():
        attrs = dict(zip(record.attrs, choice, strict=True))
        with contextlib.suppress(Exception):  # it is reported by what it raised before
            texts = record.backward(names, GRAD, attrs, OUT)  # type: ignore[misc]
            counts.add(1 if isinstance(texts, str) else len(texts))
    return counts


def check_rendering(record: AutogradPrimitive, dtype: str) -> Iterator[CheckFinding]:
    """The kernels of a primitive are rendered in a dtype, forward and backward."""
    try:
        for use in uses(record):
            _render(use, dtype)
    except Exception as error:  # whatever it is, the kernel cannot be made
        text = f"{type(error).__name__}: {error}"
        yield CheckFinding(_code_of(error, "NC405"), text, record.name, dtype)


def _render(use: Use, dtype: str) -> None:
    specs = [Spec(_SHAPE, dtype)] * use.arity
    attrs = {**dict(use.choices), **use.numbers}
    region = record_region(use.record, [True] * use.arity, attrs)
    signature = record_signature(specs, attrs)
    types, shape = infer(region, signature)
    given = [_SHAPE] * use.arity
    for style in _STYLES:
        key = collapse(given, shape).key
        forward_source(region, types, style, key, PLAIN)
        trees = region.steps[0].parsed.backward or ()
        floating = DTYPES[dtype].floating and DTYPES[types.outputs[0]].floating
        needs = tuple(tree is not None and floating for tree in trees)
        if any(needs):
            key = collapse([*given, shape], shape).key
            backward_source(region, types, needs, (True,), style, key, PLAIN)


# -- structured ops --------------------------------------------------------------------


def check_kernels(operator: Operator, cases: Sequence[Case], dtype: str) -> Iterator[CheckFinding]:
    """The kernels of a structured op are rendered in a dtype, for every case that takes it."""
    for case in cases:
        for kind in _KINDS if dtype in case.takes and case.call is None else ():
            try:
                arrays = case.sample(case.variants[0], dtype)
                specs = [Spec(array.shape, array.dtype.name) for array in arrays]
                sources_of(operator.name, stand_in(kind), dtype, specs, case.attrs)
            except Exception as error:  # whatever it is, the kernel cannot be made
                text = f"{case} on a {kind}: {type(error).__name__}: {error}"
                yield CheckFinding(_code_of(error, "NC405"), text, operator.name, dtype)


def plannable(cases: Sequence[Case]) -> bool:
    """Whether a case tells with which arguments the op itself is called."""
    return any(case.call is None for case in cases)
