"""The pages in a browser: search, keys, kernels, widths, themes, and nothing in the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import chromium
import pytest
from chromium import Browser

pytestmark = pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium")
PAGES = (
    "index.html",
    "reading.html",
    "findings.html",
    "plugins/netcl-plugin-swiglu.html",
    "plugins/netcl-plugin-evil.html",
    "plugins/netcl-plugin-swiglu/swiglu.html",
    "plugins/netcl-plugin-swiglu/gate.html",
)
#: What is printed only in part, since paper does not scroll.
CUT = """
[...document.querySelectorAll("pre, .scroll")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1)
  .map((e) => e.textContent.slice(0, 80))
"""
#: The headers of tables that are three lines high, or more.
TALL = """
[...document.querySelectorAll("thead")].filter((e) => !e.closest(".prose") && e.offsetHeight > 60)
  .map((e) => [e.textContent.slice(0, 80), e.offsetHeight])
"""
SHOWN = "[...document.querySelectorAll('{}')].filter((e) => e.checkVisibility()).map((e) => {})"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_to_complain(browser: Browser) -> Iterator[None]:
    browser.complaints.clear()
    yield
    assert browser.complaints == []


def shown(browser: Browser, selector: str, value: str = "e.dataset.name") -> list[str]:
    found: list[str] = browser.evaluate(SHOWN.format(selector, value))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_wider_than_its_window(browser: Browser, site: Path, page: str) -> None:
    for width in (320, 390, 768, 1600):
        browser.open(f"{site.as_uri()}/{page}", width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, width
        assert browser.evaluate(TALL) == [], width
    browser.open(f"{site.as_uri()}/{page}", 700, media="print")  # A4 at 96 dpi, within margins
    assert browser.evaluate("document.documentElement.scrollWidth") <= 700
    assert browser.evaluate(CUT) == []


def test_styles_are_there_and_follow_the_theme(browser: Browser, site: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.open(f"{site.as_uri()}/index.html")
    light = browser.evaluate(ground)
    browser.open(f"{site.as_uri()}/index.html", dark=True)
    assert {light, browser.evaluate(ground)} == {"rgb(252, 251, 248)", "rgb(20, 22, 26)"}


def test_search_by_address(browser: Browser, site: Path) -> None:
    browser.open(f"{site.as_uri()}/index.html?q=SWIGLU%20primitive")
    assert browser.evaluate("document.querySelector('#query').value") == "SWIGLU primitive"
    ops = shown(browser, "#ops tbody tr")
    assert ops == ["Swiglu", "swiglu", "geglu"]  # gate is an operator
    assert browser.evaluate("document.querySelector('.hits').textContent") == "1 plugin, 3 ops"


def test_search_by_typing(browser: Browser, site: Path) -> None:
    """A slash begins, what fits best comes first, Escape ends, Enter goes there."""
    browser.open(f"{site.as_uri()}/index.html")
    everything = shown(browser, "#ops tbody tr")
    assert len(everything) == 8 and len(shown(browser, ".card")) == 3
    browser.press("/", "/")
    assert browser.evaluate("document.activeElement.id") == "query"
    browser.type("swiglu")
    assert shown(browser, "#ops tbody tr")[:2] == ["Swiglu", "swiglu"]
    assert shown(browser, ".card") == ["netcl-plugin-swiglu"]
    browser.type(" nonsense")
    assert shown(browser, "#ops tbody tr") == shown(browser, ".card") == []
    assert shown(browser, ".nothing", "e.textContent") == ["Nothing here has all of that."]
    browser.press("Escape")
    assert shown(browser, "#ops tbody tr") == everything
    browser.type("geglu")
    browser.press("Enter")
    browser.wait()
    assert browser.evaluate("location.pathname").endswith("/netcl-plugin-swiglu/geglu.html")


def test_filters(browser: Browser, site: Path) -> None:
    """By kind, device, dtype and licence, together, and with words; the address can ask for it."""
    browser.open(f"{site.as_uri()}/index.html")
    options = "[...document.querySelectorAll('.filters select')].map((e) => [e.name, e.length - 1])"
    offered = dict(browser.evaluate(options))
    assert offered.keys() >= {"kind", "device"} and min(offered.values()) > 1
    choose = (
        "(() => {{ const s = document.querySelector('select[name={}]');"
        " s.value = [...s.options].find((o) => o.text === '{}')?.value ?? '';"
        " s.dispatchEvent(new Event('change')); }})()"
    )
    everything = shown(browser, "#ops tbody tr")
    browser.evaluate(choose.format("device", "NumPy"))
    assert shown(browser, "#ops tbody tr") == ["geglu", "swiglu"]
    assert shown(browser, ".card") == ["netcl-plugin-swiglu"]
    browser.press("/", "/")
    browser.type("geg")
    assert shown(browser, "#ops tbody tr") == ["geglu"]
    browser.evaluate(choose.format("kind", "operator"))
    assert shown(browser, ".nothing", "e.textContent") == ["Nothing here has all of that."]
    browser.press("Escape")
    for name in ("kind", "device"):
        browser.evaluate(choose.format(name, "any"))
    assert shown(browser, "#ops tbody tr") == everything
    browser.open(f"{site.as_uri()}/index.html?kind=operator")
    assert shown(browser, "#ops tbody tr", "e.cells[3].textContent") == ["operator"]


def test_a_kernel_is_chosen(browser: Browser, site: Path) -> None:
    browser.open(f"{site.as_uri()}/plugins/netcl-plugin-swiglu/swiglu.html")
    kernels = "e.dataset.direction + ' ' + e.querySelector('figcaption').textContent.slice(0, 6)"
    assert shown(browser, ".kernel", kernels) == ["forward OpenCL"]
    browser.evaluate("document.querySelector('input[value=backward]').click()")
    assert shown(browser, ".kernel", kernels) == ["backward OpenCL"]
    numpy = "[...document.querySelectorAll('label')].find((e) => e.textContent == 'NumPy').click()"
    browser.evaluate(numpy)
    assert shown(browser, ".kernel", kernels) == ["backward Python"]


def test_without_javascript_everything_is_there(browser: Browser, site: Path) -> None:
    browser.open(f"{site.as_uri()}/index.html", script=False)
    assert len(shown(browser, "#ops tbody tr")) == 8
    assert shown(browser, "#query, .copy", "e.id") == []  # what would do nothing is not shown
    browser.open(f"{site.as_uri()}/plugins/netcl-plugin-swiglu/swiglu.html", script=False)
    assert len(shown(browser, ".kernel > summary", "e.textContent")) == 4
    assert shown(browser, "input, button", "e.name") == []


def test_the_address_of_the_index_is_filled_in(browser: Browser, site: Path) -> None:
    browser.open(f"{site.as_uri()}/plugins/netcl-plugin-swiglu.html")
    commands = shown(browser, ".command code", "e.textContent")
    assert commands == [f"pip install --index-url {site.as_uri()}/simple/ netcl-plugin-swiglu"]


def test_only_the_site_itself_may_be_asked(browser: Browser, site: Path) -> None:
    """The policy of the pages holds back what a page should never do."""
    browser.open(f"{site.as_uri()}/index.html")
    tried = "fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'held back')"
    assert browser.evaluate(tried, wait=True) == "held back"
    assert any("Content Security Policy" in text for text in browser.complaints)
    browser.complaints.clear()
