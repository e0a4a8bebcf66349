"""Renders a new project from the core's `templates/plugin/` and writes it, all or nothing.

The templates hold `<< name >>` and `<% if %>`, since the files that they become are partly
templates themselves; `PACKAGE` and `OP` in their paths are replaced as well.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, final

import click
import jinja2

import netcl_core as nc
from netcl_core import DTYPES, Spec, Tensor
from netcl_core.autograd import Operator
from netcl_core.config import templates
from netcl_core.errors import NetclError, message
from netcl_core.plugins.protocol import RecordKind, registry
from netcl_plugin_kit.kernels.usual import usual_call
from netcl_plugin_kit.new.names import EXAMPLE_OPERATOR, ProjectNames
from netcl_plugin_kit.new.scaffolds import scaffold_of
from netcl_plugin_kit.testing.collection import table_of

_SUFFIX: Final = ".j2"
#: Where a scaffold says that the source is, until its author does: an address of nobody's.
EXAMPLE: Final = "https://example.org"
#: Ends what other templates include and nobody else wants.
_PART: Final = ".part.j2"
#: The rows of a README's table of files.
_FILES: Final = "files.part.j2"
#: What it brings in one line, for its metadata and its manifest.
_SUMMARY: Final = "summary.part.j2"


def create(
    folder: Path,
    kind: RecordKind,
    names: ProjectNames,
    author: str | None = None,
    data_only: bool = False,
) -> list[str]:
    """Write a project; returns the paths of its files, sorted.

    `data_only`: its package holds a manifest and templates, and no Python.

    Raises click.BadParameter if the folder holds something, NetclError if it cannot be written.
    """
    _check_free(folder)
    files = rendered(kind, names, author or author_of(names.distribution), data_only)
    try:
        _write(folder, files)
    except OSError as error:
        given = f"{folder} cannot be written ({error.strerror})"
        text = message("netcl plugins new", given, "a folder to write", "Choose another with --out")
        raise NetclError(text) from error
    return sorted(files)


def author_of(distribution: str) -> str:
    """Who has written a project, where nobody says so."""
    return f"The authors of {distribution}"


def summary(kind: RecordKind, names: ProjectNames) -> str:
    """What a project brings, in the one line that stands for it until the author's own does."""
    environment, _ = _environment(kind)
    return environment.get_template(_SUMMARY).render(_context(kind, names, "")).strip()


def rendered(
    kind: RecordKind, names: ProjectNames, author: str, data_only: bool = False
) -> dict[str, str]:
    """Path -> text of every file of a project."""
    environment, places = _environment(kind)
    context = {**_context(kind, names, author), "data": data_only}
    context["summary"] = summary(kind, names)
    templates = {
        path.relative_to(place).as_posix(): None
        for place in places
        for path in place.rglob(f"*{_SUFFIX}")
        if not path.name.endswith(_PART) and not (data_only and _is_python(path, place))
    }
    return {
        _target(name, names): environment.get_template(name).render(context) for name in templates
    }


def _is_python(path: Path, place: Path) -> bool:
    """Whether a template of a project is for a module of its package, or says that it is typed."""
    inside = path.relative_to(place).parts[0] == "src"
    return inside and path.name.endswith((f".py{_SUFFIX}", f".typed{_SUFFIX}"))


def first_files(kind: RecordKind, names: ProjectNames, data_only: bool = False) -> list[str]:
    """`path  what it holds` of the files that an author changes first, as the README lists them."""
    environment, _ = _environment(kind)
    context = {**_context(kind, names, ""), "data": data_only}
    text = environment.get_template(_FILES).render(context)
    rows = [row.strip("| ").split(" | ", 1) for row in text.splitlines()]
    return [f"{path.strip('`')}  {holds}" for path, holds in rows]


def _environment(kind: RecordKind) -> tuple[jinja2.Environment, list[Path]]:
    """Where a kind's templates are found, and the folders in which they lie."""
    root = templates() / "plugin"
    places = [root / "common", root / scaffold_of(kind)]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([str(place) for place in reversed(places)]),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    environment.filters["quoted"] = _quoted
    return environment, places


def _quoted(text: str) -> str:
    """A text as TOML and Python write it: JSON, but without halves of characters and DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f")


def _context(kind: RecordKind, names: ProjectNames, author: str) -> dict[str, Any]:
    major, minor, *_ = nc.__version__.split(".")
    return {
        **{field: getattr(names, field) for field in names.__slots__},
        "facts": None if names.operator == EXAMPLE_OPERATOR else facts_of(names.operator),
        "kind": kind.name,
        "scaffold": scaffold_of(kind),
        "source": f"{EXAMPLE}/{names.distribution}",
        "author": author,
        "year": date.today().year,
        "api": list(nc.API_VERSION),
        "core": f"netcl-core>={nc.__version__},<{major}.{int(minor) + 1}",
    }


def _target(name: str, names: ProjectNames) -> str:
    path = name.removesuffix(_SUFFIX)
    return path.replace("PACKAGE", names.package).replace("OP", names.op)


def _check_free(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise click.BadParameter(
            message(
                "netcl plugins new",
                f"{folder} exists and is not empty",
                "a new or an empty folder",
                "Choose another with --out",
            )
        )


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder that is new or empty; after an error it is so again."""
    fresh = not folder.exists()
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    except BaseException:
        for entry in {name.partition("/")[0] for name in files}:
            _remove(folder / entry)
        if fresh and folder.is_dir():
            folder.rmdir()
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- what a new implementation knows of its operator, from the largest case ----------------

_DTYPE: Final = "float32"
_FLOATS: Final = ("bfloat16", "float16", "float32", "float64")


@final
@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """An operator as its implementations meet it.

    Attributes:
        provider: The distribution that brings it.
        inputs: (name, dtype, shape) of the tensors in the case, a kernel's `("in", i)`.
        attrs: The metadata of the case, as `request.attrs` has it.
        dtypes: The floating dtypes that its cases take.
        case: The name of the case; empty without one.
    """

    provider: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    attrs: dict[str, Any]
    dtypes: tuple[str, ...]
    case: str

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """(C type or empty: the one to compute in, name) of the attributes that are numbers."""
        kinds = {int: "int", float: ""}
        return [
            (kinds[type(attr)], name) for name, attr in self.attrs.items() if type(attr) in kinds
        ]

    def storage(self, dtype: str) -> str:
        """What an input's elements are in a kernel; empty for those of the result's dtype."""
        return "" if DTYPES[dtype].floating else DTYPES[dtype].storage


def facts_of(op: str) -> OperatorFacts:
    """The facts of an installed operator; without a case that tells them, one input."""
    row = registry.find_op(op)
    assert row is not None  # `chosen` has looked
    assert isinstance(row.record, Operator)
    usual = usual_call(op, _DTYPE)
    taken = {take for case in table_of(row.provider).cases_of(op) for take in case.takes}
    dtypes = tuple(dtype for dtype in _FLOATS if dtype in taken) or _FLOATS
    if usual is None:
        return OperatorFacts(row.provider, (("x", _DTYPE, ()),), {}, dtypes, "")
    names = list(row.record.signature.parameters)
    tensors = {name: attr for name, attr in usual.attrs.items() if isinstance(attr, Tensor)}
    pairs: list[tuple[str, Any]] = [*zip(names, usual.inputs, strict=False), *tensors.items()]
    inputs = tuple((name, tensor.dtype, tuple(tensor.shape)) for name, tensor in pairs)
    attrs = _attributes(row.record, usual.inputs, usual.attrs)
    return OperatorFacts(row.provider, inputs, attrs, dtypes, usual.case)


def _attributes(operator: Operator, inputs: list[Spec], given: dict[str, Any]) -> dict[str, Any]:
    tensors = [Tensor.zeros(spec.shape, spec.dtype, "numpy") for spec in inputs]
    if operator.function is None:
        assert operator.bind is not None
        return dict(operator.bind(*tensors, **given)[1])
    bound = operator.signature.bind(*tensors, **given)
    bound.apply_defaults()
    operands = {*operator.operands, *list(bound.arguments)[: len(tensors)]}
    return {name: argument for name, argument in bound.arguments.items() if name not in operands}
