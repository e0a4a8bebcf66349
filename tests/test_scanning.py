"""The scan of installed distributions finds what importlib-metadata finds, in every form."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import importlib_metadata
import pytest
from distributions import install
from netcl_market import scanning
from netcl_market.finding import distributions, version_of

POINTS = {"netcl_core.plugins": {"s_one": "s_one:plugin"}}


def metadata_of(name: str) -> str:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.0\n\ntext\n"


def points_of(name: str) -> str:
    return f"[netcl_core.plugins]\n{name} = {name}:plugin\n"


def folder(site: Path) -> Path:
    install(site, "s-one", {}, POINTS, "3.0")
    return site


def egg_info(site: Path) -> Path:
    inner = site / "s_one-3.0-py3.11.egg-info"
    inner.mkdir(parents=True)
    (inner / "PKG-INFO").write_text(metadata_of("s-one"))
    (inner / "entry_points.txt").write_text(points_of("s_one"))
    return site


def egg(site: Path) -> Path:
    inner = site / "s_one-3.0-py3.11.egg" / "EGG-INFO"
    inner.mkdir(parents=True)
    (inner / "PKG-INFO").write_text(metadata_of("s-one"))
    (inner / "entry_points.txt").write_text(points_of("s_one"))
    return inner.parent


def archive(site: Path) -> Path:
    return _packed(site / "packages.zip", "s_one-3.0.dist-info", "METADATA")


def zipped_egg(site: Path) -> Path:
    return _packed(site / "s_one-3.0-py3.11.egg", "EGG-INFO", "PKG-INFO")


def _packed(path: Path, inner: str, metadata: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{inner}/{metadata}", metadata_of("s-one"))
        file.writestr(f"{inner}/entry_points.txt", points_of("s_one"))
    return path


@pytest.mark.parametrize("make", [folder, egg_info, egg, archive, zipped_egg])
def test_every_form_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], Path]
) -> None:
    monkeypatch.syspath_prepend(str(make(tmp_path / "site")))
    (found,) = [each for each in distributions() if each.name == "s-one"]
    assert found.version == "3.0" and found.points == {
        ("netcl_core.plugins", "s_one"): "s_one:plugin"
    }
    assert version_of("S.One") == importlib_metadata.version("s-one") == "3.0"
    assert not found.problem and "s_one" in found.location


def test_it_finds_what_is_installed_here() -> None:
    """The whole environment, with editable installations, as importlib-metadata sees it."""
    theirs = sorted(
        str(getattr(each, "_path", each)) for each in importlib_metadata.distributions()
    )
    ours = sorted(scanning.location(each) for each in scanning.fresh().handles)
    assert [os.path.normpath(each) for each in ours] == [os.path.normpath(each) for each in theirs]
    for name in ("numpy", "netcl-core", "Pluggy", "importlib_metadata", "netcl_plugin.nn"):
        assert version_of(name) == importlib_metadata.version(name)


class Finder:
    """A finder of another kind, such as an editable installation may bring."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def find_spec(self, *_: Any) -> None:
        return None

    def find_distributions(self, context: Any) -> Iterator[Any]:
        assert context.path == sys.path
        yield importlib_metadata.PathDistribution(self.site / "s_one-3.0.dist-info")


def test_other_finders_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finder = Finder(folder(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    assert "s-one" in [each.name for each in distributions()]
    assert version_of("s_one") == "3.0"


def test_what_is_not_there_and_what_is_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of the path that do not exist, are no folder or no text; a metadata file as such."""
    (tmp_path / "plain.txt").write_text("no archive")
    (tmp_path / "flat-1.0.egg-info").write_text("Name: flat\nVersion: 1.0\n")
    strange: list[Any] = [str(tmp_path / "nowhere"), str(tmp_path / "plain.txt"), 3, str(tmp_path)]
    monkeypatch.setattr(sys, "path", [*strange, *sys.path])
    assert "flat" not in [each.name for each in distributions()]
    assert version_of("flat") is None and version_of("nobody") is None


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_a_listing_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    """Two versions in one folder, as a broken upgrade leaves them: always the same one counts."""
    for version in ("1.0", "2.0"):
        install(tmp_path, "s-two", {}, {"netcl_core.plugins": {"s_two": "s_two:plugin"}}, version)
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: real(path)[::order])
    monkeypatch.syspath_prepend(str(tmp_path))
    (found,) = [each for each in distributions() if each.name == "s-two"]
    assert found.version == version_of("s-two") == "1.0"


def test_a_copy_without_metadata_hides_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first" / "s_one-9.dist-info").mkdir(parents=True)
    for place in (folder(tmp_path / "second"), tmp_path / "first"):
        monkeypatch.syspath_prepend(str(place))
    assert [each.version for each in distributions() if each.name == "s-one"] == ["3.0"]
    assert version_of("s-one") == importlib_metadata.version("s-one") == "3.0"


def test_a_look_up_follows_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert version_of("s-one") is None
    monkeypatch.syspath_prepend(str(folder(tmp_path)))
    assert version_of("s-one") == "3.0"
    assert scanning.latest() is scanning.latest()


def test_it_goes_without_importlib_metadata(tmp_path: Path, python: Callable[..., str]) -> None:
    folder(tmp_path)
    code = "import sys; from netcl_market import finding; finding.distributions()\n"
    code += "print('importlib_metadata' in sys.modules, 'importlib.metadata' in sys.modules)"
    assert python(code, PYTHONPATH=str(tmp_path)) == "False False"
