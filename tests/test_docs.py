"""The documentation names everything, is up to date, and its code runs."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

import broken
import docstrings
import examples
import generate
import matrix_page
import op_pages
import pytest
from netcl_market import failures
from netcl_plugin_kit.check import findings
from netcl_plugin_tools.matrix.signs import SIGNS
from packaging.version import Version

from netcl_core import config, errors, hookspecs, version
from netcl_core.jit import jit

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(python|pycon)\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: The modules whose names are for everybody, and what their examples are run by.
FACES = ("netcl_core", "netcl_core.autograd", "netcl_core.plugins", "netcl_plugin_kit.testing")
#: Names that plugins bring; their examples run on the NumPy path, without kernels to build.
BROUGHT = (
    "netcl_core.nn",
    "netcl_core.nn.init",
    "netcl_core.optim",
    "netcl_core.optim.lr_scheduler",
    "netcl_core.data",
    "netcl_core.amp",
    "netcl_core.autodiff",
    "netcl_core.autograd.ops",
    "netcl_core.capture",
    "netcl_core.distributed",
    "netcl_core.distributions",
    "netcl_core.fft",
    "netcl_core.func",
    "netcl_core.linalg",
    "netcl_core.models",
    "netcl_core.nn.functional",
    "netcl_core.nn.utils",
    "netcl_core.nn.utils.rnn",
    "netcl_core.patterns",
    "netcl_core.serialization",
    "netcl_core.special",
)
#: Where a program of the environment may lie.
PLACES = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
HELP = os.pathsep.join(map(str, (ROOT / "tests" / "support", ROOT / "benchmarks")))
#: Plugins of which nothing runs on a device: commands, what reads others. Their cells are grey.
NO_DEVICE = {
    "netcl-plugin-capture",
    "netcl-plugin-fusion",
    "netcl-plugin-mpi",
    "netcl-plugin-patterns",
    "netcl-plugin-port",
    "netcl-plugin-train",
    "netcl-plugin-kit",
    "netcl-plugin-tools",
    "netcl-plugin-data-kernels",
}
_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)[^)]*\)")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_nothing_generated_is_outdated() -> None:
    stale = [str(path.relative_to(ROOT)) for path in generate.outdated()]
    assert stale == [], "run `make docs`"


@pytest.mark.parametrize("setting", config.SETTINGS.values(), ids=lambda each: each.variable)
def test_every_setting_is_documented(setting: config.Setting) -> None:
    assert f"`{setting.variable}`" in page("configuration.md")
    assert f"`{setting.name}`" in page("configuration.md")
    assert setting.doc.endswith(".")


def test_no_setting_is_read_past_the_table() -> None:
    """A NETCL_ variable that the sources name is one of the table's."""
    known = {setting.variable for setting in config.SETTINGS.values()}
    build_options = {"NETCL_PROBE_TYPE"}
    for path in (ROOT / "netcl_core").rglob("*.py"):
        named = set(re.findall(r"\bNETCL_[A-Z_]+\b", path.read_text(encoding="utf-8")))
        assert named <= known | build_options, path


@pytest.mark.parametrize("name", [n for n in vars(hookspecs) if n.startswith("netcl_")])
def test_every_hook_is_documented(name: str) -> None:
    assert f"`{name}(" in page("hooks.md")
    assert inspect.getdoc(getattr(hookspecs, name))


def test_the_hook_api_version_is_documented() -> None:
    major, minor = version.API_VERSION
    assert f"| {major}.{minor} |" in page("hooks.md")


ERRORS = [
    name
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, errors.NetclError)
]


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_is_documented(name: str) -> None:
    assert f"| `{name}` |" in page("errors.md")


def test_no_error_class_stands_elsewhere() -> None:
    """The family is in one file, so that the page is complete."""
    outside = [
        path.name
        for path in (ROOT / "netcl_core").rglob("*.py")
        if path.name != "errors.py"
        and re.search(r"^class \w+\(\w*Error\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert outside == []


@pytest.mark.parametrize("name", [n for n in vars(jit.Jitted) if not n.startswith("_")])
def test_every_method_of_a_compiled_function_is_documented(name: str) -> None:
    assert f"| `.{name}(" in page("jit.md")
    assert inspect.getdoc(getattr(jit.Jitted, name))


@pytest.mark.parametrize("path", [*PAGES, *TUTORIALS], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def _blocks(path: Path) -> list[tuple[str, str, str]]:
    """A page's blocks: the code on the lines where it stands, its kind, its name."""
    text, found = path.read_text(encoding="utf-8"), []
    for match in _FENCE.finditer(text):
        line = text[: match.start()].count("\n") + 2
        name = f"{path.relative_to(ROOT)}:{line}"
        found.append(("\n" * (line - 1) + match[2], match[1], name))
    return found


@pytest.mark.parametrize(
    "path",
    [path for path in (*PAGES, *sorted(ROOT.glob("plugins/*/README.md"))) if _blocks(path)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
@pytest.mark.turns(2)
def test_code_blocks_run(python: Callable[..., str], tmp_path: Path, path: Path) -> None:
    """In one process, as a reader runs them, but each with names of its own."""
    blocks = tmp_path / "blocks.json"
    blocks.write_text(json.dumps(_blocks(path)), encoding="utf-8")
    python(f"import examples; examples.check_blocks({str(blocks)!r})", PYTHONPATH=HELP)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.nightly] if path.stem == "two-processes" else [])
        for path in TUTORIALS
        if _blocks(path)
    ],
    ids=lambda path: path.stem,
)
@pytest.mark.turns(2)
def test_tutorials_print_what_they_say(python: Callable[..., str], path: Path) -> None:
    """From top to bottom in one process, as the notebook that is made of the page."""
    if path.stem == "keep-pytorch":
        pytest.importorskip("torch")
    if path.stem == "two-processes" and shutil.which("mpiexec", path=PLACES) is None:
        pytest.skip("no mpiexec: pip install mpich")
    python(f"import examples; examples.check_tutorial({str(path)!r})", PYTHONPATH=HELP)


@pytest.mark.parametrize("face", FACES)
def test_examples_of_docstrings_run(python: Callable[..., str], face: str) -> None:
    python(f"import examples; examples.check_face({face!r})", PYTHONPATH=HELP)


def test_examples_of_what_plugins_bring_run(python: Callable[..., str]) -> None:
    code = f"import examples; [examples.check_face(each) for each in {BROUGHT}]"
    python(code, PYTHONPATH=HELP, NETCL_DEVICE="numpy")


@pytest.mark.parametrize("face", [*FACES, *BROUGHT])
def test_public_functions_and_classes_have_an_example(face: str) -> None:
    named = dict(examples.public(face))
    assert named
    assert [name for name, each in named.items() if ">>>" not in (inspect.getdoc(each) or "")] == []


@pytest.mark.parametrize("face", [*FACES, *BROUGHT])
def test_docstrings_name_arguments_and_errors(face: str) -> None:
    known = docstrings.everything((*FACES, *BROUGHT))
    assert list(docstrings.unnamed(face, known)) == []
    assert list(docstrings.unsaid(face)) == []


@pytest.mark.parametrize("face", [*FACES, *BROUGHT])
def test_docstrings_tell_shapes(face: str) -> None:
    assert list(docstrings.shapeless(face, docstrings.everything((*FACES, *BROUGHT)))) == []


def test_docstrings_tell_dtypes() -> None:
    assert list(docstrings.dtypeless(docstrings.everything((*FACES, *BROUGHT)))) == []


def test_every_op_has_its_section() -> None:
    """With an example, and with who computes it, if it is no further name of another."""
    sections = [part for page in op_pages.pages().values() for part in page.split("\n## ")[1:]]
    assert [part.partition("\n")[0] for part in sections if "Another name" not in part]
    assert sorted(part.partition("\n")[0] for part in sections) == op_pages.ops()
    bare = [
        part.partition("\n")[0]
        for part in sections
        if "Another name of" not in part and not (">>>" in part and "**Kernels**" in part)
    ]
    assert bare == []


def test_every_room_is_in_the_table() -> None:
    rooms = {path.parent.name for path in (ROOT / "netcl_core").glob("*/__init__.py")}
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE)) == rooms


@pytest.mark.parametrize("code", failures.FAILURES)
def test_every_kind_of_plugin_failure_is_documented(code: str) -> None:
    assert f'<a id="{code.lower()}"></a>{code} |' in page("plugin-errors.md")


@pytest.mark.parametrize("code", findings.KINDS)
def test_every_kind_of_finding_is_documented(code: str) -> None:
    assert f'<a id="{code.lower()}"></a>{code} |' in page("check-findings.md")
    assert f"`{findings.KINDS[code].check}`" in page("publishing.md")


def test_every_failure_of_a_plugin_is_proved_by_a_broken_one() -> None:
    """But for two names that collide, which takes two plugins, a reader that is not there, and a
    file that changes under a lock (tests/test_lock_between.py)."""
    proved = {row.failure for row in {**broken.BROKEN, **broken.DEADLY}.values()}
    kinds = {code for code, kind in failures.FAILURES.items() if kind.state}
    assert kinds - proved == {"NP106", "NP113", "NP114", "NP512"}
    assert len(broken.BROKEN) >= 20


def test_every_warning_is_documented() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, Warning) and name != "FusionSkipped":
            assert f"`{name}`" in page("errors.md")


# -- prose -----------------------------------------------------------------------------

#: What makes a sentence hard to read or says nothing -> what to write.
PROSE = {
    r"\b(that|those) of\b": "name the thing again",
    r"\bof which\b": "two sentences",
    r"\b(by|of|from|to|with) whom\b": "two sentences",
    r"(?:^|[.:;] )Who(ever)? (?!are|is|has|does)[a-z]+ ": "'if you ...', or 'authors who ...'",
    r"\bis what [a-z]+s\b": "say who does it",
    r"\bbut for\b": "'except'",
    r"\b(utili[sz]e|leverage|facilitate)s?\b": "'use', 'help'",
    r"\b(simply|obviously|of course|easily|basically)\b": "leave it out",
    r"\b(e\.g\.|i\.e\.|etc\.)": "'for example', 'that is', or the whole list",
    r"\b(hereby|herein|thereof|whereby|therein)\b": "plain words",
    r"\bin order to\b": "'to'",
    r"\bkin\b": "'similar ...'",
}


#: The most words of a sentence, code and numbers left out.
LONGEST = 40


def hard_to_read(text: str) -> list[str]:
    """What to change in a text, with its lines; `text` has no code."""
    found = [
        f"line {text[: match.start()].count(chr(10)) + 1}: {match[0].strip()!r}: {advice}"
        for pattern, advice in PROSE.items()
        for match in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE)
    ]
    for paragraph in re.split(r"\n\s*\n|\n\s*(?:[-*|#]|\d+\.) ?", text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
        for sentence in re.split(r"(?<=[.!?:;|])\s+|\s\u00b7\s", plain):
            if (words := len(re.findall(r"[^\W\d][\w'-]*", sentence))) > LONGEST:
                found.append(f"{sentence[:60]!r}...: {words} words: several sentences")
    return found


@pytest.mark.parametrize(
    "path",
    [*PAGES, *TUTORIALS, *sorted(ROOT.glob("plugins/**/netcl-*/README.md"))],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_prose_is_plain(path: Path) -> None:
    """Outside code, comments and generated parts."""
    text = re.sub(
        r"<!-- generated.*?<!-- end -->|<!--.*?-->|^```.*?^```|`[^`]*`",
        lambda match: "\n" * match[0].count("\n"),
        path.read_text(encoding="utf-8"),
        flags=re.DOTALL | re.MULTILINE,
    )
    assert hard_to_read(text) == []


@pytest.mark.parametrize("face", [*FACES, *BROUGHT])
def test_docstrings_are_plain(face: str) -> None:
    found = {}
    for name, each in examples.public(face):
        doc = inspect.getdoc(each) or ""
        doc = re.sub(r"^ *>>>.*\n(?: *\S.*\n)*", "\n", doc + "\n", flags=re.MULTILINE)
        doc = re.sub(r"^ *[\w, *]+: ", "\n\n", doc, flags=re.MULTILINE)  # an argument
        if found_here := hard_to_read(re.sub(r"`[^`]*`", "", doc)):
            found[name] = found_here
    assert found == {}


# -- the published matrix --------------------------------------------------------------


def test_the_published_matrix_is_whole() -> None:
    """Every plugin of ours and every example, on three cores and more, two Pythons, three runtimes.

    It shows what does not work, too.
    """
    board = matrix_page.published()
    plugins = {path.parent.name for path in ROOT.glob("plugins/**/netcl-plugin-*/pyproject.toml")}
    cores = {core for _, core in board}
    assert len(cores) >= 3 and board.keys() == {(p, c) for p in plugins for c in cores}
    columns = set(next(iter(board.values())))
    for runtime in ("intel", "pocl", "oclgrind"):
        assert {f"{runtime} {python}" for python in ("3.11", "3.12")} <= columns
    signs = [sign for row in board.values() for sign in row.values()]
    assert {"✓", "/"} <= set(signs) <= {each.sign for each in SIGNS.values()}
    newest = max(cores, key=Version)
    assert all("✓" in board[plugin, newest].values() for plugin in plugins - NO_DEVICE)


def test_the_readme_leads_to_every_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in pages if f"](docs/{name})" not in text] == []
