"""docs/architecture.md lists the files that are entered, in order: compared with what happens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
_LIST = re.compile(r"<!-- entered: (.+?) -->\n(.*?)<!-- end -->", re.DOTALL)
_NAME = re.compile(r"`([\w/]+(?:\.py|/))`")
#: No other plugin and no lock file, so that every environment sees the same.
ALONE = {"NETCL_PLUGINS": "netcl-plugin-elementwise", "NETCL_LOCK": "0"}
BESIDES = ", besides those of a first call"


def listed() -> dict[str, list[str]]:
    """The files of each list: what stands before an item's colon."""
    return {
        title: [name for line in text.splitlines() for name in _NAME.findall(line.split(":")[0])]
        for title, text in _LIST.findall(PAGE.read_text(encoding="utf-8"))
    }


def folded(files: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Files in order; those of a folder are one."""
    places = [next((x for x in folders if file.startswith(x)), file) for file in files]
    return list(dict.fromkeys(places))


@pytest.fixture
def entered(python: Callable[..., str]) -> Callable[[str], dict[str, list[str]]]:
    """What a scene enters, in a fresh process; programs and manifests are known from another."""

    def run(scene: str) -> dict[str, list[str]]:
        settings = ALONE if scene == "plugin" else {}
        script = str(ROOT / "tests" / "support" / "entered.py")
        code = (
            f"import runpy, sys; sys.argv[1:] = [{scene!r}]\n"
            f"runpy.run_path({script!r}, run_name='__main__')"
        )
        python(code, **settings)
        found: dict[str, list[str]] = json.loads(python(code, **settings))
        if not found:
            pytest.skip("the page tells of an OpenCL device")
        return found

    return run


def test_every_file_of_the_page_exists() -> None:
    names = [name for files in listed().values() for name in files]
    assert names and [name for name in names if not (ROOT / "netcl_core" / name).exists()] == []


def test_a_call_enters_the_files_of_the_page(entered: Callable[..., dict[str, list[str]]]) -> None:
    found = entered("call")
    assert found["first call"] == listed()["first call"]
    assert found["later calls"] == listed()["later calls"]
    assert len(found["first call"]) <= 18 and len(found["later calls"]) <= 7


def test_a_gradient_enters_the_files_of_the_page(
    entered: Callable[..., dict[str, list[str]]],
) -> None:
    assert entered("gradient")["later gradients"] == listed()["later gradients"]


def test_a_compiled_call_enters_the_files_of_the_page(
    entered: Callable[..., dict[str, list[str]]],
) -> None:
    found, page = entered("trace"), listed()
    first = [x for x in found["first compiled call"] if x not in page["first call"]]
    assert first == page["first compiled call" + BESIDES]
    assert found["later compiled calls"] == page["later compiled calls"]


def test_a_plugin_enters_the_files_of_the_page(
    entered: Callable[..., dict[str, list[str]]],
) -> None:
    page = listed()["a plugin"]
    folders = [name for name in page if name.endswith("/")]
    assert folded(entered("plugin")["a plugin"], folders) == page
