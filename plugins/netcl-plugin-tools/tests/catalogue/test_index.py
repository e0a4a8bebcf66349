"""The package index is what the specifications say, pip installs from it, search reads it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import samples
from click.testing import CliRunner
from htmlcheck import Page

from netcl_core.cli.main import netcl


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_html_and_json_say_the_same(site: Path) -> None:
    folder = site / "simple" / "netcl-plugin-swiglu"
    data = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    assert data["meta"] == {"api-version": "1.4"} and data["name"] == "netcl-plugin-swiglu"
    assert data["versions"] == ["0.9", "0.10", "0.10.post1", "0.11rc1"]
    links = Page(folder / "index.html").tags["a"]
    assert len(links) == len(data["files"]) == 4
    for link, one in zip(links, data["files"], strict=True):
        wheel = (folder / one["url"]).resolve()
        assert wheel.name == one["filename"] and wheel.stat().st_size == one["size"]
        assert one["hashes"] == {"sha256": digest(wheel)}
        assert link["href"] == f"{one['url']}#sha256={digest(wheel)}"
        metadata = wheel.with_name(f"{wheel.name}.metadata")
        assert one["core-metadata"] == {"sha256": digest(metadata)}
        wanted = f"sha256={digest(metadata)}"
        assert link["data-core-metadata"] == link["data-dist-info-metadata"] == wanted
        assert one["requires-python"] == link["data-requires-python"] == ">=3.8"
        assert b"Name: netcl-plugin-swiglu" in metadata.read_bytes()


def test_every_distribution_is_in_the_index(site: Path) -> None:
    data = json.loads((site / "simple" / "index.json").read_text(encoding="utf-8"))
    names = [one["name"] for one in data["projects"]]
    assert names == [
        "netcl-plugin-evil", "netcl-plugin-plain", "netcl-plugin-swiglu", "sample-helper",
    ]  # fmt: skip
    page = Page(site / "simple" / "index.html")
    assert [link["href"] for link in page.tags["a"]] == [f"{name}/" for name in names]


def test_search_reads_the_catalogue(site: Path, tmp_path: Path) -> None:
    def search(word: str, file: Path) -> tuple[int, str]:
        command = ["plugins", "search", word, "--catalogue", str(file), "--json"]
        result = CliRunner().invoke(netcl, command)
        return result.exit_code, result.stdout

    code, said = search("swiglu", site / "catalogue.json")
    assert code == 0
    hits = [(hit["name"], hit["kind"], hit["package"]) for hit in json.loads(said)]
    assert hits[:2] == [
        ("Swiglu", "primitive", "netcl-plugin-evil"),
        ("swiglu", "primitive", "netcl-plugin-swiglu"),
    ]
    code, said = search("relu", site / "catalogue.json")  # the bundled one is not looked at
    assert code == 0 and all(hit["here"] for hit in json.loads(said))
    assert search("nobody_has_this", site / "catalogue.json")[0] == 1
    for text in (
        "[]",
        '{"schema": 2, "packages": {}}',
        '{"schema": 1, "packages": {"a": {}}}',
        "{",
    ):
        (tmp_path / "bad.json").write_text(text)
        assert search("x", tmp_path / "bad.json")[0] == 3, text


# -- pip -------------------------------------------------------------------------------


@pytest.fixture
def server(site: Path) -> Iterator[str]:
    """The site over HTTP, from this machine to itself."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()
        thread.join()


def pip(target: Path, index: str, *what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check"]
    command += ["install", "--no-cache-dir", "--target", str(target), "--index-url", index, *what]
    variables = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "NO_PROXY": "*"}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.packaging
@pytest.mark.parametrize("scheme", ["file", "http"])
def test_pip_installs_from_it(
    site: Path, tmp_path: Path, scheme: str, request: pytest.FixtureRequest
) -> None:
    """The newest version that is no pre-release, and what it depends on."""
    top = site.as_uri() if scheme == "file" else request.getfixturevalue("server")
    done = pip(tmp_path / "there", f"{top}/simple/", "netcl-plugin-swiglu")
    assert done.returncode == 0, done.stdout + done.stderr
    there = {path.name for path in (tmp_path / "there").glob("*.dist-info")}
    assert there == {"netcl_plugin_swiglu-0.10.post1.dist-info", "sample_helper-1.2.dist-info"}
    if scheme == "http":
        assert ".whl.metadata" in done.stdout  # what it needs was known before the wheel came


@pytest.mark.packaging
def test_pip_notices_a_changed_wheel(inputs: Path, tmp_path: Path) -> None:
    """The hash of the index is the one of the wheel that was read."""
    samples.build(inputs / "wheels", tmp_path / "out")
    (wheel,) = (tmp_path / "out" / "wheels").glob("sample_helper*.whl")
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    done = pip(tmp_path / "there", f"{(tmp_path / 'out').as_uri()}/simple/", "sample-helper")
    assert done.returncode != 0 and "HASHES" in done.stderr


def test_each_wheel_has_an_sbom(site: Path) -> None:
    """Its own digest, and what it needs without extras."""
    wheel = "netcl_plugin_swiglu-0.10.post1-py3-none-any.whl"
    made = json.loads((site / "wheels" / f"{wheel}.cdx.json").read_text(encoding="utf-8"))
    this = made["metadata"]["component"]
    assert this["hashes"] == [{"alg": "SHA-256", "content": samples.digest()}]
    assert this["licenses"] == [{"license": {"name": "MIT"}}]
    assert [each["name"] for each in made["components"]] == ["sample-helper"]
    page = (site / "plugins" / "netcl-plugin-swiglu.html").read_text(encoding="utf-8")
    assert f"wheels/{wheel}.cdx.json" in page
