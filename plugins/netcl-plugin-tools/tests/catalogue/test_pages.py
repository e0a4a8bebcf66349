"""The pages: sound HTML, no dead link, nothing hostile in them, the same bytes every time."""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import htmlcheck
import pytest
import samples
from htmlcheck import Page
from netcl_plugin_tools.catalogue import rendering
from netcl_plugin_tools.catalogue.code import highlight
from netcl_plugin_tools.catalogue.markdown import render_document
from netcl_plugin_tools.catalogue.rendering import asset

CSP = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return htmlcheck.read_site(site)


def test_every_page_is_sound(pages: dict[Path, Page]) -> None:
    assert len(pages) > 15
    assert {path: page.problems for path, page in pages.items() if page.problems} == {}
    for path, page in pages.items():
        assert set(page.labels) <= page.ids, path


def test_no_link_is_dead(site: Path, pages: dict[Path, Page]) -> None:
    assert htmlcheck.dead_links(site.resolve(), pages) == []


def test_the_checkers_notice(tmp_path: Path) -> None:
    bad = '<p id="a" id="b"><b>x</p><i id="a" style="z">q</i><i id="a" onclick="w">q</i>'
    (tmp_path / "bad.html").write_text(bad)
    links = ("#no", "../up.html", "no.html", "bad.html#a", "https://example.org")
    (tmp_path / "links.html").write_text("".join(f'<a href="{link}">x</a>' for link in links))
    pages = htmlcheck.read_site(tmp_path)
    assert len(pages[tmp_path / "bad.html"].problems) == 7
    assert pages[tmp_path / "links.html"].problems == []
    dead = htmlcheck.dead_links(tmp_path, pages)
    assert dead == [f"links.html -> {link}" for link in links[:3]]


def test_headings_are_in_order(pages: dict[Path, Page]) -> None:
    """One h1, and no level is left out on the way down."""
    for path, page in pages.items():
        assert page.headings.count(1) == 1 and page.headings[0] == 1, path
        steps = [b - a for a, b in pairwise(page.headings)]
        assert max(steps, default=0) <= 1, path


def test_nothing_is_fetched(site: Path, pages: dict[Path, Page]) -> None:
    """Neither the pages nor what they load names anything outside; the browser would refuse it."""
    for path, page in pages.items():
        if "simple" in path.relative_to(site).parts:
            continue
        (policy,) = (tag["content"] for tag in page.tags["meta"] if "http-equiv" in tag)
        assert policy is not None and policy.startswith(CSP), path
        loaded = [*page.tags["script"], *page.tags["link"], *page.tags.get("img", [])]
        for tag in loaded:
            assert not re.match(r"\w+:|//", tag.get("src") or tag.get("href") or ""), path
    for name in ("text.css", "parts.css", "catalogue.js"):
        assert not re.search(r"https?://|url\(|@import|fetch\(|eval\(", asset(name)), name


def test_nothing_hostile_becomes_markup(pages: dict[Path, Page]) -> None:
    """Summaries, op names, reasons, sources, licences and READMEs hold scripts and images."""
    seen = 0
    for path, page in pages.items():
        scripts = [tag.get("src", "") for tag in page.tags.get("script", [])]
        assert all(src and src.endswith("assets/catalogue.js") for src in scripts), path
        for image in page.tags.get("img", []):
            assert (image["src"] or "").endswith(".svg"), path
        assert not [link for link in page.links if link.lower().startswith(("javascript", "data"))]
        seen += "alert(1)" in page.text
    assert seen >= 6
    badge = samples.EVIL
    assert badge not in "".join(path.read_text() for path in pages)


def test_a_readme_as_html() -> None:
    made = str(render_document(samples.README, "text/markdown", "readme", "netcl-plugin-swiglu"))
    assert "<h1" not in made and '<h3 id="readme-details">Details</h3>' in made
    assert "&lt;b&gt;raw&lt;/b&gt;" in made and "<script" not in made and "<img" not in made
    assert '<a href="https://example.org/?a=1&amp;b=2" rel="nofollow noopener noreferrer">' in made
    assert "[bad](javascript" in made and "<a>file</a>" in made
    assert '<a href="#readme-details">down</a>' in made
    assert '<span class="image">[picture]</span>' in made
    assert '<td class="right">2</td>' in made and "style=" not in made
    assert '<span class="c"># &lt;i&gt;not&lt;/i&gt; markup</span>' in made
    plain = render_document("<b> *x*", "text/x-rst", "readme")
    assert plain == '<pre class="plain">&lt;b&gt; *x*</pre>'
    assert render_document("", "text/markdown", "readme") == ""


def test_headings_of_a_readme_have_ids_of_their_own() -> None:
    made = str(render_document("## A\n\n## A\n\n## A-1\n\n###### deep", "text/markdown", "readme"))
    names = re.findall(r'id="([^"]+)"', made)
    assert len(set(names)) == 4
    assert re.findall(r"<h(\d)", made) == ["3", "3", "3", "4"]


def test_a_kernel_in_colours() -> None:
    word = "__" + "kernel"
    made = highlight(
        f"{word} void f(__global const float4 *x) {{ x[get_global_id(0)] < 1.0f; }}", "opencl"
    )
    assert f'<span class="k">{word} </span>' in made and '<span class="t">float4 </span>' in made
    assert '<span class="b">get_global_id</span>' in made and "&lt; " in made
    assert highlight("<x>", "no such language") == "&lt;x&gt;"
    assert highlight("<" * 300_000, "python") == "&lt;" * 300_000


def test_an_op_page_shows_what_was_found(site: Path, pages: dict[Path, Page]) -> None:
    text = " ".join(pages[site / "plugins/netcl-plugin-swiglu/swiglu.html"].text.split())
    for said in (
        "87 % of a copy on Intel(R) OpenCL",
        "11 of 12 seeded faults noticed",
        "Seeded faults that nobody noticed",
        "float16, float32",
        "OpenCL 1.2; cl_khr_fp16 if there; 4,096 bytes of local memory; gpu or cpu",
        "Recorded 2026-03-04 with core 0.1.1",
        "no half precision",
        "OpenCL C, 1 lines, as rendered for Intel(R) OpenCL and Portable Computing Language",
    ):
        assert said in text
    raw = (site / "plugins/netcl-plugin-swiglu/swiglu.html").read_text(encoding="utf-8")
    assert raw.count('class="kernel"') == 4  # two directions, OpenCL and NumPy
    assert '<meter min="0" max="1" value="0.87">' in raw


def test_ops_with_impossible_names_have_pages(site: Path, pages: dict[Path, Page]) -> None:
    folder = site / "plugins" / "netcl-plugin-evil"
    names = sorted(path.name.lower() for path in folder.iterdir())
    assert len(set(names)) == 5
    assert all(re.fullmatch(r"[a-z0-9_-]+\.html", name) and len(name) < 80 for name in names)
    assert not (site / "up.html").exists()


def test_the_same_input_gives_the_same_bytes(inputs: Path, site: Path, tmp_path: Path) -> None:
    """Also from copies with other dates, elsewhere."""
    shutil.copytree(inputs, tmp_path / "copy")
    again = tmp_path / "out"
    samples.build(tmp_path / "copy" / "wheels", again, "--records", str(tmp_path / "copy/records"))
    first = {path.relative_to(site): path for path in site.rglob("*") if path.is_file()}
    second = {path.relative_to(again): path for path in again.rglob("*") if path.is_file()}
    assert first.keys() == second.keys()
    assert [name for name in first if first[name].read_bytes() != second[name].read_bytes()] == []


# -- contrast --------------------------------------------------------------------------


def colours(dark: bool) -> dict[str, str]:
    light_part, dark_part = asset("text.css").split("@media (prefers-color-scheme: dark)")
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{6})", light_part))
    if dark:
        found |= dict(re.findall(r"--([\w-]+): (#[0-9a-fA-F]{6})", dark_part.split("*,")[0]))
    return found


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


TOKENS = ("key", "type", "name", "number", "string", "note", "pragma", "builtin")
PAIRS = [
    *((text, ground) for text in ("ink", "soft", "accent") for ground in ("paper", "panel")),
    *((tone, f"{tone}-ground") for tone in ("good", "bad", "warn", "off")),
    *((tone, "paper") for tone in ("good", "bad", "warn", "off")),
    *((token, "code-ground") for token in TOKENS),
    *((text, "mark") for text in ("ink", "soft")),
]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_has_enough_contrast(text: str, ground: str, dark: bool) -> None:
    """WCAG 2, level AA."""
    found = colours(dark)
    assert contrast(found[text], found[ground]) >= 4.5
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_names_break_behind_underscores_and_no_op_is_faster_than_a_copy() -> None:
    assert rendering.breaks("a_<b>") == "a_<wbr>&lt;b&gt;"
    assert (rendering.percent(0.874), rendering.percent(1.88)) == ("87 %", "over 100 %")
