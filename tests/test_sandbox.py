"""Templates reach nothing of Python, and end: what escapes Jinja's sandbox or fills a machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from netcl_market.sandbox import STEPS

from netcl_core.errors import TemplateError
from netcl_core.runtime import rendering

REACHING = {
    "globals": "{{ cycler.__init__.__globals__.os.getcwd() }}",
    "never rendered": "{% if false %}{{ cycler['__init__'] }}{% endif %}",
    "put together": "{{ ''['__cla' ~ 'ss__'] }}",
    "format": "{{ '{0.__class__}'.format(1) }}",
    "format by name": "{% set f = ''['form' ~ 'at'] %}{{ f(1) }}",
    "a change": "{% set a = [1] %}{{ a.append(2) }}",
    "ljust": "{{ 'a'.ljust(10 ** 9) }}",
    "to_bytes": "{{ (1).to_bytes(1500000000, 'big')|length }}",
    "encode": "{{ 'a'.encode() }}",
}
_GROW = "{% set of = namespace(x=[1], t='ab', n=9) %}{% for _ in range(90) %}{% set of."
ENDLESS = {
    "loops": "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "filtered": "{% for a in range(90000) if range(90000)|map('upper')|list %}{% endfor %}",
    "macros": "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}"
    "{{ f(90) }}",
    "recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "itself": "{% include 'hostile/odd.cl.j2' %}",
    "an import of itself": "{% import 'hostile/odd.cl.j2' as me %}",
    "prints": "{% for a in range(90000) %}{{ 'x' * 1000 }}{% endfor %}",
    "a long text": "{{ 'x' * 10 ** 9 }}",
    "twice as long": f"{_GROW}t = of.t ~ of.t %}}{{% endfor %}}",
    "twice as large": f"{_GROW}x = [of.x, of.x] %}}{{% endfor %}}{{{{ of.x }}}}",
    "a dict in a dict": f"{_GROW}x = dict(a=of.x, b=of.x) %}}{{% endfor %}}{{{{ of.x }}}}",
    "a power": "{{ 10 ** 10 ** 10 }}",
    "squares": f"{_GROW}n = of.n * of.n %}}{{% endfor %}}",
    "a wide place": "{{ '%1000000000d' % 1 }}",
    "a place of any width": "{{ '%*d'|format(1000000000, 1) }}",
    "a place with parentheses": "{{ '%(a(b))1500000000d' % {'a(b)': 1} }}",
    "many places": "{{ '%(a)s' * 100000 % {'a': 'b' * 900000} }}",
    "searches": "{% set s = 'a' * 3900000 %}{% for _ in range(9000) %}{{ 'b' in s }}{% endfor %}",
    "counts": "{% set s = 'a' * 3900000 %}{% for _ in range(9000) %}{{ s.count('b') }}{% endfor %}",
    "parts": "{% set s = 'a' * 3900000 %}{% for _ in range(90000) %}{{ s[1:][0] }}{% endfor %}",
    "replace": "{% set a = 'a' * 900000 %}{{ a|replace('a', a) }}",
    "join": "{{ range(90000)|join('a' * 90000) }}",
    "range": "{{ range(10 ** 9)|list }}",
    "depth": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    rendering.add_prefix("hostile", tmp_path, "netcl-plugin-hostile")
    yield tmp_path
    rendering.drop_prefix("hostile")


def refused(folder: Path, text: str) -> TemplateError:
    (folder / "odd.cl.j2").write_text("{# first #}\n" + text, encoding="utf-8")
    with pytest.raises(TemplateError) as raised:
        rendering.render("hostile/odd.cl.j2")
    assert str(raised.value).startswith("template 'hostile/odd.cl.j2' of netcl-plugin-hostile: ")
    return raised.value


@pytest.mark.parametrize("text", REACHING.values(), ids=REACHING)
def test_a_template_reaches_nothing_of_python(folder: Path, text: str) -> None:
    error = refused(folder, text)
    assert error.code == "NP316" and "line 2" in str(error)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS)
def test_a_template_ends(folder: Path, text: str) -> None:
    error = refused(folder, text)
    assert error.code == "NP317", error  # type: ignore[attr-defined]
    assert "line 2" in str(error) or "recursion" in str(error)


@pytest.mark.parametrize("text", ["{{ x|attr('y') }}", "{% for a in [1] recursive %}{% endfor %}"])
def test_what_cannot_be_counted_is_no_template(folder: Path, text: str) -> None:
    (folder / "odd.cl.j2").write_text(text, encoding="utf-8")
    with pytest.raises(TemplateError, match=r"line 1: .*; expected valid Jinja"):
        rendering.render("hostile/odd.cl.j2")


@pytest.mark.parametrize("text", ["{% macro f() %}{% endmacro %}", "{{ [" + "1," * 60000 + "] }}"])
def test_a_template_is_no_library(folder: Path, text: str) -> None:
    error = refused(folder, text if "1" in text else text * 60000)
    assert error.code == "NP317" and "50000" in str(error)  # type: ignore[attr-defined]


@pytest.mark.parametrize("text", ["{{ 1 // 0 }}", "{{ 'a' + 1 }}", "{{ [1][2:]|first + 1 }}"])
def test_every_error_names_the_plugin(folder: Path, text: str) -> None:
    assert "line 2: " in str(refused(folder, text))


def test_what_kernels_use_works(folder: Path) -> None:
    text = (
        "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{{ ', ' if not loop.last }}{% endfor %} "
        "{{ '%d %s' % (7, 'x') }} {{ {'a': 1}.items()|map('join', '=')|join }} {{ 'a\nb'|indent }}"
    )
    (folder / "fine.cl.j2").write_text(text, encoding="utf-8")
    assert rendering.render("hostile/fine.cl.j2") == "12, 34 7 x a=1 a\n    b"


def test_budgets_are_of_one_rendering_each(folder: Path) -> None:
    """Neither an earlier one nor that of another thread takes anything away."""
    rounds = STEPS // 8
    text = f"{{% for a in range({rounds // 2}) %}}{{% endfor %}}{{{{ k }}}}"
    (folder / "long.cl.j2").write_text(text, encoding="utf-8")
    made: list[str] = []
    threads = [
        threading.Thread(
            target=lambda k=k: made.append(rendering.render("hostile/long.cl.j2", k=k))
        )
        for k in range(20)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(made, key=int) == [str(k) for k in range(20)]
