"""Plugins are imported when something may need them, and what they mean does not depend on when."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from broken import END, GOOD, HEAD
from distributions import TEMPLATE, install, install_plugin

from netcl_core.runtime import rendering

#: They start processes.
pytestmark = pytest.mark.turns(2)

BEGIN = """
import json, sys, warnings
import numpy as np
import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.plugins.registry import registry
nc.use_device("numpy")
three = np.float32(3)
def there():
    ours = ("one", "two", "silent", "short", "bad", "beside")
    return [name for name in ours if f"{name}_package" in sys.modules]
said = []
"""
#: Ops of the plugin's own template, by their names, and what stands before that in its module.
PRIMITIVES = HEAD + """\
{before}
class Plugin:
    @hookimpl
    def netcl_register_primitives(self, registry):
        for name in {names!r}:
            registry.add_template("plus.cl.j2", name=name)
""" + END  # fmt: skip


def manifest(name: str, *offers: str) -> str:
    """Of a plugin that brings ops; `<kind> <name>` of what is no primitive."""
    rows = [offer.rpartition(" ") for offer in offers]
    text = "".join(
        f'[[provides]]\nkind = "{kind or "primitive"}"\nname = "{op}"\n' for kind, _, op in rows
    )
    return f'schema = 1\n[plugin]\nname = "{name}"\napi = [1, 0]\n{text}'


def add(site: Path, name: str, *ops: str, brings: tuple[str, ...] = (), before: str = "") -> None:
    """A plugin that offers ops, and brings these or others."""
    code = PRIMITIVES.format(before=before, names=brings or ops)
    install_plugin(site, name, code, {"plus.cl.j2": TEMPLATE}, manifest(name, *ops))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two plugins with manifests and an op that both offer, one without, one by the short road."""
    add(tmp_path, "one", "one_op", "both_op")
    add(tmp_path, "two", "two_op", "both_op")
    install_plugin(tmp_path, "silent", GOOD.format(name="silent_op"), {"plus.cl.j2": TEMPLATE})
    short = "from netcl_core.autograd import AutogradPrimitive\n"
    short += "op = AutogradPrimitive.from_template('short_op/plus.cl.j2', name='short_op')\n"
    files = {"short_package/__init__.py": short, "short_package/templates/plus.cl.j2": TEMPLATE}
    points = {"netcl_core.primitives": {"short_op": "short_package:op"}}
    install(tmp_path, "netcl-plugin-short", files, points)
    return tmp_path


@pytest.fixture
def said(site: Path, python: Callable[..., str]) -> Callable[..., Any]:
    """What a program says, with these plugins installed."""

    def run(code: str, **variables: str) -> Any:
        text = python(f"{BEGIN}{code}\nprint(json.dumps(said))", PYTHONPATH=str(site), **variables)
        return json.loads(text)

    return run


def test_an_op_imports_those_that_offer_it(said: Callable[..., Any]) -> None:
    """And a plugin that says nothing; names are listed without importing any."""
    assert said("""
said += [there(), ag.one_op(three).item(), there()]
said += [{"two_op", "short_op", "matmul", "silent_op"} <= {*dir(ag)}, there()]
said += [[name for name in ("linalg", "nn", "optim", "kit", "tensorcore")
          if f"netcl_plugin_{name}" in sys.modules]]
said += [nc.two_op(three).item(), ag.short_op(three).item(), ag.silent_op(three).item(), there()]
""") == [
        [], 10.0, ["one", "silent"], True, ["one", "silent"], [], 10.0, 10.0, 10.0,
        ["one", "two", "silent", "short"],
    ]  # fmt: skip


def test_who_takes_part_in_an_op_is_imported_for_it(said: Callable[..., Any]) -> None:
    """Kernels with their operator, patterns with what is compiled, a policy by its name."""
    assert said("""
def ours(*names):
    return [f"netcl_plugin_{name}" in sys.modules for name in names]
ag.relu(three)
said += ours("tensorcore", "linalg", "optim", "train")
ag.matmul(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
said += ours("tensorcore", "linalg", "optim", "train")
ag.jit_compile(lambda x: ag.relu(x) + x)(nc.tensor([1.0]))
said += ours("optim", "train")
said += [nc.nn.Linear.__module__.partition(".")[0], ag.named_policy("fp16").storage]
said += ours("train")
""") == [
        False, False, False, False, True, True, False, False, True, False,
        "netcl_plugin_nn", "float16", False,
    ]  # fmt: skip


def test_a_choice_is_known_whatever_was_used_before(said: Callable[..., Any]) -> None:
    """Of an op by who offers it; of a part of one, which no manifest lists, by loading all."""
    assert said("""
with nc.prefer("netcl-plugin-two:both_op"):
    said += [ag.both_op(three).item(), there()]
with nc.prefer("netcl-plugin-tensorcore:attention_gradients"):
    said += [there()]
""") == [10.0, ["one", "two", "silent"], ["one", "two", "silent", "short"]]


@pytest.mark.parametrize("first", ["", "ag.one_op(three)", "ag.two_op(three); nc.nn"])
def test_equal_claims_are_an_error_whatever_was_used_before(
    said: Callable[..., Any], first: str
) -> None:
    (text, why) = said(f"""
{first}
try:
    ag.both_op(three)
except nc.errors.AmbiguousOpError as error:
    said += [str(error), str(nc.plugins.why("both_op"))]
""")
    for name in ("netcl-plugin-one", "netcl-plugin-two"):
        assert f"{name}:both_op" in text and name in why


def test_a_plugin_that_looks_up_while_it_is_loaded_hides_no_claim(
    site: Path, said: Callable[..., Any]
) -> None:
    """Of what is just coming it sees what is there; the next one sees all of it."""
    before = "import netcl_core.autograd as ag\nkept = ag.one_op(3.0).item(), ag.early_op(3.0)"
    add(site, "early", "early_op")
    add(site, "zzz", "early_op", "zzz_op", before=before)
    (text,) = said("""
try:
    ag.early_op(three)
except nc.errors.AmbiguousOpError as error:
    said += [str(error)]
""")
    assert "netcl-plugin-early:early_op and netcl-plugin-zzz:early_op" in text


def test_what_a_plugin_looks_up_while_it_is_loaded_is_decided_anew(
    site: Path, said: Callable[..., Any]
) -> None:
    """It uses an op of the only one so far that offers it, and offers it itself a moment later."""
    before = "import netcl_core.autograd as ag\nkept = ag.early_op(3.0), ag.early_op(3.0)"
    add(site, "early", "early_op")
    add(site, "zzz", "early_op", "zzz_op", before=before)
    (text,) = said("""
ag.zzz_op(three)
try:
    ag.early_op(three)
except nc.errors.AmbiguousOpError as error:
    said += [str(error)]
""")
    assert "netcl-plugin-early:early_op and netcl-plugin-zzz:early_op" in text


def test_what_was_made_before_stays(said: Callable[..., Any]) -> None:
    """A plugin that is loaded later outdates no function and no compiled program."""
    assert said("""
relu, f = ag.relu, ag.jit_compile(lambda x: ag.relu(x) + x)
x = nc.tensor([1.0])
f(x)
version = registry.version
ag.one_op(three), nc.nn, ag.matmul(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32))
f(x)
said += [ag.relu is relu, registry.version == version, *f.cache_info()[:2]]
""") == [True, True, 1, 1]


def test_an_import_is_no_part_of_what_asked_for_it(site: Path, said: Callable[..., Any]) -> None:
    """Neither of a trace nor of a capture, nor is it without gradients or in half precision."""
    before = (
        "import netcl_core as nc\nimport netcl_core.autograd as ag\n"
        "x = nc.tensor([2.0], requires_grad=True)\ny = ag.sum(ag.matmul(ag.relu(x), ag.relu(x)))\n"
        "y.backward()\nkept = [float(y.item()), str(y.dtype), x.grad.numpy().tolist()]"
    )
    for name in ("one", "two"):
        add(site, f"busy_{name}", f"busy_{name}", before=before)
    assert said("""
f = ag.jit_compile(lambda x: ag.busy_one(x) + x)
with ag.no_grad():
    said += [f(nc.tensor([3.0])).item(), f(nc.tensor([4.0])).item()]
graph = ag.capture(lambda x: ag.busy_two(x) * 2.0, nc.tensor([3.0]))
said += [graph(nc.tensor([2.0])).item()]
said += [sys.modules[f"busy_{name}_package"].kept for name in ("one", "two")]
""") == [13.0, 21.0, 10.0, *[[4.0, "float32", [4.0]]] * 2]


def test_an_import_that_the_user_interrupts_is_begun_again(
    site: Path, said: Callable[..., Any]
) -> None:
    before = (
        "import os, signal\n"
        "if not os.environ.get('INTERRUPTED'):\n"
        "    os.environ['INTERRUPTED'] = '1'\n"
        "    os.kill(os.getpid(), signal.SIGINT)"
    )
    add(site, "late", "late_op", before=before)
    assert said("""
try:
    ag.late_op
except KeyboardInterrupt:
    said += [ag.late_op(three).item()]
""") == [10.0]


def test_a_broken_plugin_is_told_when_something_needs_it(
    site: Path, said: Callable[..., Any]
) -> None:
    add(site, "bad", "bad_op", "relu", before="raise ValueError('not today')")
    code = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    ag.one_op(three)
    said += [len(caught), there()]
    try:
        ag.bad_op(three)
    except nc.errors.MissingOpError as error:
        said += ["quarantined (ValueError: not today" in str(error)]
    said += [ag.relu(three).item(), len(caught), "NP207" in str(caught[0].message)]
said += [[p.state for p in nc.plugins.list() if p.name == "bad"]]
"""
    assert said(code) == [0, ["one", "silent"], True, 3.0, 1, True, ["quarantined"]]
    strict = """
warnings.simplefilter("ignore")
try:
    ag.one_op(three)
except nc.errors.PluginError as error:
    said += [error.code, "not today" in str(error)]
"""
    assert said(strict, NETCL_PLUGINS_STRICT="1") == ["NP404", True]


@pytest.mark.parametrize(
    ("offers", "brings"), [(("beside_op",), ("beside_op", "relu")), (("operator relu",), ("relu",))]
)
def test_what_a_manifest_does_not_say_is_refused(
    site: Path, said: Callable[..., Any], offers: tuple[str, ...], brings: tuple[str, ...]
) -> None:
    """Else it would serve or not by what was used before."""
    add(site, "beside", *offers, brings=brings)
    state, code, reason, *values = said("""
warnings.simplefilter("ignore")
(found,) = [p for p in nc.plugins.list() if p.name == "beside"]
said += [found.state, found.code, found.reason, ag.relu(three).item()]
""")
    assert (state, code, values) == ("quarantined", "NP319", [3.0])
    assert "the primitive 'relu'" in reason and "its manifest says nothing" in reason


def test_templates_of_a_plugin_that_is_not_imported(site: Path, said: Callable[..., Any]) -> None:
    (site / "one_package" / "templates" / "plus.cl.j2").write_text(
        '{% import "two/shared.cl.j2" as shared %}\n'
        "{% macro forward(x) %}{{ shared.doubled(x) }}{% endmacro %}\n"
    )
    (site / "two_package" / "templates" / "shared.cl.j2").write_text(
        "{% macro doubled(x) %}2 * {{ x }}{% endmacro %}\n"
    )
    assert said("said += [ag.one_op(three).item(), there()]") == [6.0, ["one", "silent"]]


def test_threads_wait_for_templates_that_are_being_found(tmp_path: Path) -> None:
    """Another thread's look-up is no reason to find nothing."""
    lock, began = threading.Lock(), threading.Event()

    def find() -> None:
        began.set()
        with lock:
            rendering.add_prefix("promised_prefix", tmp_path)

    rendering.promise_prefixes({"promised_prefix": find})
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(rendering.has_prefix("promised_prefix")))
        for _ in range(3)
    ]
    try:
        with lock:
            for thread in threads:
                thread.start()
            assert began.wait(30)
        for thread in threads:
            thread.join(30)
        assert found == [True] * 3
    finally:
        rendering.drop_prefix("promised_prefix")
    assert not rendering.has_prefix("promised_prefix")
