"""Two plugins, one name: who serves it, by which rule, in every order of loading."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive, Implementation, Operator, Requirements
from netcl_core.errors import AmbiguousOpError, ConfigError, DeviceError, PluginError
from netcl_core.plugins.registry import registry
from netcl_core.plugins.resolution import Offer, decide

ONE = np.ones((3,), np.float32)


def primitive(name: str, factor: int) -> AutogradPrimitive:
    return AutogradPrimitive(
        name,
        lambda inputs, attrs: f"{inputs[0]} * {factor}",
        lambda inputs, grad, attrs, out: [f"{grad} * {factor}"],
        arity=1,
    )


def operator(name: str, factor: int, *implementations: Implementation) -> Operator:
    return Operator(
        name,
        lambda x: ((x,), {}),
        lambda x: x,
        lambda x: x * factor,
        implementations=implementations,
    )


def implementation(op: str, label: str, priority: int = 0, **requires: Any) -> Implementation:
    def plan(request: Any) -> nc.Kernels:
        raise AssertionError(label)

    return Implementation(op, label, plan, Requirements(**requires), priority)


@pytest.fixture
def two(give: Callable[..., None]) -> None:
    """`served` by `fast` (times 2, higher priority) and by `slow` (times 3)."""
    give("slow", primitive("served", 3), priority=1)
    give("fast", primitive("served", 2), priority=5)


def value(function: Callable[..., Any] | None = None) -> float:
    return float((function or ag.served)(np.float32(1)).item())


# -- the rules themselves ----------------------------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_no_order_of_offers_changes_the_winner(order: tuple[int, ...]) -> None:
    offers = [Offer("a", "f", "x", 1, 0), Offer("b", "f", "y", 3, 1), Offer("c", "f", "z", 2, 2)]
    shuffled = [offers[i] for i in order]
    decision = decide("f", shuffled)
    assert decision.winner is not None and decision.winner.provider == "b"
    dropped = decide("f", shuffled, (), lambda offer: "too old" if offer.provider == "b" else None)
    assert dropped.winner is not None and dropped.winner.provider == "c"
    assert "dropped: too old" in dropped.verdicts
    assert [each.provider for each in dropped.unused] == ["a"]
    tie = decide("f", [Offer("c", "f", "z", 3, 0), *shuffled])
    assert tie.winner is None and [each.provider for each in tie.tied] == ["b", "c"]
    assert {each.label for each in tie.unused} == {"x", "z"} and len(tie.unused) == 2


def test_a_rank_goes_before_the_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    offers = [Offer("a-b", "f", "x", 1, 0), Offer("c", "f", "y", 3, 1)]
    monkeypatch.setenv("NETCL_RANK", "A_B:f, other")
    decision = decide("f", offers)
    assert decision.winner is offers[0] and "NETCL_RANK" in decision.rule
    assert decide("g", offers).winner is offers[1]
    unfit = decide("f", offers, (), lambda offer: "no" if offer is offers[0] else None)
    assert unfit.winner is offers[1]  # a rank is a wish, so the next one that fits serves


def test_a_choice_that_cannot_run_is_an_error_and_no_change_of_mind() -> None:
    offers = [Offer("a", "f", "x", 1, 0), Offer("c", "f", "y", 3, 1)]
    decision = decide("f", offers, [("a", "f")], lambda o: "no" if o is offers[0] else None)
    assert decision.winner is None and decision.rule == "the explicit choice a:f"


def test_a_ranking_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netcl.toml").write_text("resolve = 3\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"\[tool.netcl\] resolve"):
        decide("f", [Offer("a", "f", "x", 1, 0), Offer("c", "f", "y", 3, 1)])


# -- prefer ------------------------------------------------------------------------------


@pytest.mark.usefixtures("two")
def test_prefer_nests_and_is_left() -> None:
    assert value() == 2
    with nc.prefer("slow:served"):
        assert value() == 3
        with nc.prefer("fast:served"):
            assert value() == 2
        assert value() == 3
        with pytest.raises(ZeroDivisionError), nc.prefer("fast:served"):
            raise ZeroDivisionError
        assert value() == 3
    assert value() == 2


@pytest.mark.usefixtures("two")
def test_prefer_changes_what_was_looked_up_before() -> None:
    held = ag.served
    assert value(held) == 2
    with nc.prefer("slow:served"):
        assert value(held) == 3
    assert value(held) == 2


@pytest.mark.usefixtures("two")
def test_prefer_is_a_decorator() -> None:
    decorated = nc.prefer("slow:served")(value)
    assert (decorated(), decorated(), value()) == (3, 3, 2)


@pytest.mark.usefixtures("two")
def test_prefer_is_of_one_thread() -> None:
    held, inside, seen = ag.served, threading.Barrier(2, timeout=30), []

    def other() -> None:
        inside.wait()
        seen.append(value(held))
        inside.wait()

    thread = threading.Thread(target=other)
    thread.start()
    with nc.prefer("slow:served"):
        inside.wait()
        inside.wait()
        assert value(held) == 3
    thread.join(30)
    assert seen == [2]


@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("choice", ["nobody:served", "slow", "slow:", "slow:other", ""])
def test_an_unknown_choice(choice: str) -> None:
    with pytest.raises(PluginError, match="offered by no active plugin") as caught:
        nc.prefer(choice).__enter__()
    assert caught.value.code == "NP402"
    assert value() == 2


@pytest.mark.usefixtures("two")
def test_a_choice_is_part_of_what_a_compiled_function_compares() -> None:
    compiled = ag.jit_compile(lambda x: ag.served(x) + 1)
    x = nc.tensor(ONE)
    assert compiled(x).numpy()[0] == 3
    with nc.prefer("slow:served"):
        assert compiled(x).numpy()[0] == 4
        assert compiled(x).numpy()[0] == 4
    assert compiled(x).numpy()[0] == 3
    assert compiled.cache_info()[:2] == (2, 2)  # each choice was traced once


def test_a_choice_breaks_a_tie(give: Callable[..., None]) -> None:
    give("left", primitive("tied_op", 2))
    give("right", primitive("tied_op", 3))
    with pytest.raises(AmbiguousOpError, match="left:tied_op and right:tied_op"):
        _ = ag.tied_op
    with nc.prefer("right:tied_op"):
        held = ag.tied_op
        assert value(held) == 3
    with pytest.raises(AmbiguousOpError):
        held(np.float32(1))
    text = str(nc.plugins.why("tied_op"))
    assert text.count("tied at priority 0") == 2 and "a tie at priority 0" in text


def test_a_rank_breaks_a_tie(give: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETCL_RANK", "right")
    give("left", primitive("tied_op", 2))
    give("right", primitive("tied_op", 3))
    assert value(ag.tied_op) == 3
    assert "NETCL_RANK" in nc.plugins.why("tied_op").rules[0]


def test_a_rank_from_the_file(
    give: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.netcl.resolve]\n"*" = ["no", "left"]\n')
    monkeypatch.chdir(tmp_path)
    give("right", primitive("tied_op", 3), priority=9)
    give("left", primitive("tied_op", 2))
    assert value(ag.tied_op) == 2


# -- devices ---------------------------------------------------------------------------


class FakeDevice:
    """What the rules look at."""

    has_kernels, kind, extensions = True, "cpu", ()

    def __str__(self) -> str:
        return "fake"


def test_a_plugin_that_the_device_cannot_run_is_dropped(give: Callable[..., None]) -> None:
    from netcl_core.ops.choosing import resolve

    needy = operator("wide", 2, implementation("wide", "warp", device_kinds=("gpu",)))
    plain = operator("wide", 3, implementation("wide", "plain"))
    give("needy", needy, priority=9)
    give("plain", plain)
    device: Any = FakeDevice()
    offers = [row.offer for row in registry.op_rows("wide")]
    decision = resolve("wide", offers, device, ())
    assert decision.winner is not None and decision.winner.provider == "plain"
    assert any("warp: it needs a gpu" in verdict for verdict in decision.verdicts)
    chosen = resolve("wide", offers, device, [("needy", "wide")])
    assert chosen.winner is None  # the choice stands, and fails with its reason
    with nc.use_device("numpy"):  # NumPy runs every reference
        assert ag.wide(ONE).numpy()[0] == 2


def test_implementations_by_the_same_rules(give: Callable[..., None]) -> None:
    own = operator("long", 2, implementation("long", "own"))
    give("owner", own)
    give("fast", implementation("long", "tiled", 5))
    give("picky", implementation("long", "picky", 9, dtypes=("float16",)))
    from netcl_core.ops.implementations import Request
    from netcl_core.runtime.kernels import Spec

    device: Any = FakeDevice()
    request = Request("long", device, (), (Spec((4,), "float32"),), {})
    assert own.select(request).label == "tiled"
    assert own.select(request, [("owner", "long")]).label == "own"
    with pytest.raises(DeviceError, match=r"explicit choice picky:long.*not float32"):
        own.select(request, [("picky", "long")])
    give("other", implementation("long", "also", 5))
    with pytest.raises(AmbiguousOpError, match="fast:long and other:long"):
        own.select(request)
    registry.limits["fast::fast"] = lambda device: "it is too small"
    assert own.select(request).label == "also"


def test_an_implementation_can_be_chosen(give: Callable[..., None]) -> None:
    """The plan of an operator is kept per choice, so that leaving a block changes it back."""
    if len(nc.devices()) == 1:
        pytest.skip("no OpenCL device")
    give("owner", operator("spoken", 2, implementation("spoken", "own", 5)))
    give("fast", implementation("spoken", "tiled"))
    x = nc.tensor(ONE, device=nc.devices()[0])
    for _ in range(2):
        with pytest.raises(AssertionError, match="own"):
            ag.spoken(x)
        with pytest.raises(AssertionError, match="tiled"), nc.prefer("fast:spoken"):
            ag.spoken(x)


def test_why_names_the_rule(give: Callable[..., None]) -> None:
    give("owner", operator("asked", 2, implementation("asked", "own", 5)))
    give("other", operator("asked", 3), priority=-1)
    with nc.use_device("numpy"):
        said = nc.plugins.why("asked", device="numpy")
    text = str(said)
    assert said.decided and said.rules[0] == "the highest priority, 0"
    assert [(each.provider, each.unused) for each in said.candidates if not each.chosen] == [
        ("other", True)
    ]
    assert "-> operator asked (owner, priority 0): used: the highest priority, 0" in text
    assert "   operator asked (other, priority -1): not used" in text
    assert "rule: the NumPy path" in text
    with nc.prefer("other:asked"):
        assert "the explicit choice other:asked" in str(nc.plugins.why("asked", device="numpy"))


# -- installed plugins -------------------------------------------------------------------

ORDER = """
import json, sys
import netcl_core as nc
import netcl_core.autograd as ag
with nc.use_device("numpy"):
    print(json.dumps([ag.shared_op(1.0).item(), nc.plugins.why("shared_op").rules]))
"""


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_the_order_of_installation_decides_nothing(
    tmp_path: Path, python: Callable[..., str], order: tuple[str, ...]
) -> None:
    from distributions import install_plugin

    code = (
        "from netcl_core import hookimpl\nfrom netcl_core.autograd import AutogradPrimitive\n"
        "class Plugin:\n    @hookimpl\n    def netcl_register_primitives(self, registry):\n"
        "        registry.add(AutogradPrimitive('shared_op', lambda x, a: f'{{x[0]}} * {0}',"
        " None, arity=1), priority={1})\nplugin = Plugin()\n"
    )
    numbers = {"first": (2, 1), "second": (3, 4)}
    sites = []
    for name in order:
        site = tmp_path / f"{len(sites)}"
        install_plugin(site, name, code.format(*numbers[name]))
        sites.append(str(site))
    value, rules = json.loads(python(ORDER, PYTHONPATH=os.pathsep.join(sites)))
    assert value == 3 and rules == ["the highest priority, 4"]
