"""A lock file decides between candidates: after choices and ranks, before priorities."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from given import Given as Records
from locked import ASK, CODE, Site
from netcl_market import locking
from netcl_market.lock import ANY_DTYPE, EVERY_DTYPE, DevicePart, Lock, Pin
from netcl_plugin_tools.lock import devices
from netcl_plugin_tools.lock.text import text_of

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive, Implementation, Operator, Requirements
from netcl_core.errors import PluginError, PluginWarning
from netcl_core.ops.choosing import resolve
from netcl_core.ops.implementations import Request
from netcl_core.plugins.registry import registry
from netcl_core.plugins.resolution import Offer, decide
from netcl_core.runtime.kernels import Spec
from netcl_core.version import VERSION

#: They start processes.
pytestmark = pytest.mark.turns(2)

A, B, C = Offer("a", "f", "x", 1, 0), Offer("b-b", "f", "y", 3, 1), Offer("b-b", "f", "z", 2, 2)


# -- the rule --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("locked", "winner", "rule"),
    [
        ((), B, "the highest priority, 3"),
        (("a",), A, "the lock file"),
        (("a:x",), A, "the lock file"),
        (("B_B:z",), C, "the lock file"),
        (("b.b",), B, "the lock file"),  # of one provider's two the priority decides
        (("gone", "a"), A, "the lock file; the lock file's choice gone is not installed"),
        (("a:gone",), B, "the highest priority, 3; the lock file's choice a:gone is not installed"),
    ],
)
def test_the_lock_goes_before_the_priority(
    locked: tuple[str, ...], winner: Offer, rule: str
) -> None:
    for offers in ([A, B, C], [C, B, A]):
        decision = decide("f", offers, locked=locked)
        assert decision.winner is winner and decision.rule == rule


def test_choices_and_ranks_go_before_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = decide("f", [A, B], [("b-b", "f")], locked=["a"])
    assert chosen.winner is B and chosen.rule == "the explicit choice b-b:f"
    among = decide("f", [A, B, C], [("b-b", "f")], locked=["b-b:z"])
    assert among.winner is C and among.rule == "the explicit choice b-b:f"
    monkeypatch.setenv("NETCL_RANK", "b_b:f")
    ranked = decide("f", [A, B], locked=["a"])
    assert ranked.winner is B and ranked.rule.startswith("the setting resolve")
    assert decide("g", [A, B], locked=["a"]).winner is A


def test_a_locked_choice_that_cannot_run_falls_through() -> None:
    decision = decide("f", [A, B], (), lambda offer: "too small" if offer is A else None, ["a"])
    assert decision.winner is B
    assert decision.rule == "the only provider that fits; the lock file's choice a does not fit"
    assert decision.verdicts[0] == "dropped: too small"
    second = decide("f", [A, B, C], (), lambda o: "no" if o is A else None, ["a", "b-b:z"])
    assert second.winner is C


def test_the_lock_settles_a_tie() -> None:
    even = Offer("c", "f", "y", 3, 3)
    assert decide("f", [B, even]).winner is None
    assert decide("f", [B, even], locked=["c"]).winner is even
    assert decide("f", [B, even], locked=["gone"]).tied == (B, even)


# -- in force --------------------------------------------------------------------------


class FakeDevice:
    has_kernels, kind, extensions, platform, name = True, "cpu", (), "P", "D"

    def __str__(self) -> str:
        return "fake"


def primitive(name: str, factor: int) -> AutogradPrimitive:
    return AutogradPrimitive(name, lambda x, attrs: f"{x[0]} * {factor}", None, arity=1)


def implementation(op: str, label: str, priority: int, **needs: Any) -> Implementation:
    def plan(request: Any) -> nc.Kernels:
        raise AssertionError(label)

    return Implementation(op, label, plan, Requirements(**needs), priority)


def operator(name: str, *implementations: Implementation) -> Operator:
    return Operator(
        name, lambda x: ((x,), {}), lambda x: x, lambda x: x, implementations=implementations
    )


class Given:
    def __init__(self, record: Any, priority: int) -> None:
        self.record, self.priority = record, priority

    @nc.hookimpl
    def netcl_register_primitives(self, registry: Any) -> None:
        if isinstance(self.record, AutogradPrimitive):
            registry.add(self.record, self.priority)

    @nc.hookimpl
    def netcl_register_operators(self, registry: Any) -> None:
        if not isinstance(self.record, AutogradPrimitive):
            registry.add(self.record, self.priority)


@pytest.fixture
def give() -> Iterator[Callable[..., None]]:
    """Register a plugin by name; all are taken out again after the test, the lock as well."""
    names: list[str] = []

    def register(name: str, record: Any, priority: int = 0) -> None:
        nc.plugins.register(Given(record, priority), name)
        names.append(name)

    before = registry.choices
    yield register
    registry.hold_to(before)
    for name in names:
        nc.plugins.unregister(name)


def hold(device: str, op: str, dtype: str, *order: str) -> None:
    registry.hold_to(Lock(Pin(VERSION), {}, {device: DevicePart({op: {dtype: order}}, {})}))


def test_who_serves_an_op(give: Callable[..., None]) -> None:
    give("slow", primitive("locked_op", 3), priority=1)
    give("fast", primitive("locked_op", 2), priority=5)
    with nc.use_device("numpy"):
        assert ag.locked_op(1.0).item() == 2
        hold("NumPy", "locked_op", ANY_DTYPE, "slow")
        assert ag.locked_op(1.0).item() == 3
        said = nc.plugins.why("locked_op", device="numpy")
        assert said.rules == ("the lock file",)
        assert "-> primitive locked_op (slow, priority 1): used: the lock file" in str(said)
        found = registry.find_op("locked_op")
        assert found is not None and found.provider == "slow"
        with nc.prefer("fast:locked_op"):
            assert ag.locked_op(1.0).item() == 2
        with nc.plugins.unlocked():
            assert nc.plugins.why("locked_op", device="numpy").rules == ("the highest priority, 5",)
        assert ag.locked_op(1.0).item() == 3
        hold("P | D", "locked_op", ANY_DTYPE, "slow")  # of another device
        assert ag.locked_op(1.0).item() == 2


def test_who_brings_a_policy_and_a_pattern(on_numpy: None) -> None:
    group = ag.MatchedOp("tanh", (ag.MatchedOp("neg", ("x",)),))
    brought = {"slow": (1, "float16", 1.0), "fast": (5, "float32", 2.0)}
    before = registry.choices
    try:
        for name, (priority, storage, value) in brought.items():
            policy = ag.AmpPolicy("locked_policy", storage)
            pattern = ag.TrainingPattern(
                "locked_pattern", group, lambda x, value=value: ag.add(ag.mul(x, 0), value)
            )
            nc.plugins.register(Records(policy, pattern, priority=priority), name)
        compiled = ag.jit_compile(lambda x: ag.tanh(ag.neg(x)))
        x = nc.tensor([0.0])
        assert (ag.named_policy("locked_policy").storage, compiled(x).item()) == ("float32", 2)
        found = devices.part_of(nc.get_device("numpy"), lambda *_: None).choices
        names = ("amp_policy locked_policy", "pattern locked_pattern")
        for name in names:
            assert found[name] == {ANY_DTYPE: ("fast",)}
        slow = {ANY_DTYPE: ("slow",)}
        part = DevicePart(dict.fromkeys(names, slow), {})
        registry.hold_to(Lock(Pin(VERSION), {}, {"NumPy": part}))
        assert (ag.named_policy("locked_policy").storage, compiled(x).item()) == ("float16", 1)
        for name in ("locked_policy", "locked_pattern"):
            assert nc.plugins.why(name).rules == ("the lock file",)
    finally:
        registry.hold_to(before)
        for name in brought:
            nc.plugins.unregister(name)


def test_which_implementation_by_dtype_and_shape(give: Callable[..., None]) -> None:
    def small(request: Any) -> str | None:
        return "it is small" if request.output.size < 10 else None

    own = operator("held", implementation("held", "own", 0))
    give("owner", own)
    give("wide", implementation("held", "wide", 3, reject=small))
    give("new", implementation("held", "new", 9))
    device: Any = FakeDevice()

    def label(size: int, dtype: str = "float32") -> str:
        request = Request("held", device, (), (Spec((size,), dtype),), {})
        return own.select(request).label

    assert label(20) == "new"
    hold("P | D", "held", "float32", "wide:wide", "owner:own")
    assert label(20) == "wide"
    assert label(5) == "own"  # the next of the lock, although another has a higher priority
    assert label(20, "float64") == "new"


def test_a_lock_names_who_serves_next_and_nobody_that_cannot(
    give: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the texts of the verdicts are."""
    lacking = {"extensions": ("cl_no_such",)}
    ones = [("c", 1, {}), ("a", 3, {}), ("lacks", 9, lacking), ("b", 2, {})]
    give("owner", operator("next", *(implementation("next", *one, **n) for *one, n in ones)))
    device: Any = FakeDevice()
    monkeypatch.setattr("netcl_plugin_kit.why.decisions.get_device", lambda _: device)
    found = dict(devices._choices("next", device))
    assert found == {EVERY_DTYPE: ("owner:a", "owner:b", "owner:c"), ANY_DTYPE: ("owner",)}
    give("other", implementation("next", "d", 2))  # nobody says whether it goes before b
    found = dict(devices._choices("next", device))
    assert found == {EVERY_DTYPE: ("owner:a",), ANY_DTYPE: ("owner",)}


def test_devices_may_differ(give: Callable[..., None]) -> None:
    give("slow", primitive("local_op", 3), priority=1)
    give("fast", primitive("local_op", 2), priority=5)
    offers = [row.offer for row in registry.op_rows("local_op")]
    parts = {
        "NumPy": DevicePart({"local_op": {ANY_DTYPE: ("slow",)}}, {}),
        "P | D": DevicePart({"local_op": {ANY_DTYPE: ("fast",)}}, {}),
    }
    registry.hold_to(Lock(Pin(VERSION), {}, parts))
    device: Any = FakeDevice()
    assert resolve("local_op", offers, device, ()).rule == "the lock file"
    with nc.use_device("numpy"):
        assert ag.local_op(1.0).item() == 3


# -- of installed plugins --------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site(tmp_path)
    made.install("c_first", 2, 1)
    made.install("c_second", 3, 4)
    return made


def test_a_lock_is_held_to_by_installed_plugins(site: Site) -> None:
    """Written, in force against a newcomer with a higher priority, checked, switched off."""
    written = site.command()
    assert written.returncode == 0, written.stderr
    assert site.ask() == (3, ["the lock file"], [])
    again = site.command("--check")
    assert again.returncode == 0 and again.stdout.splitlines()[-1] == f"{site.lock} fits"

    site.install("c_third", 5, 9)
    value, rules, (warned,) = site.ask(NETCL_LOCK_STRICT="1")  # a newcomer is only a note
    assert (value, rules) == (3, ["the lock file"])
    assert "NP506: netcl-plugin-c-third: 1.0 is installed" in warned and "Uninstall it" in warned
    assert site.ask(NETCL_LOCK="0") == (5, ["the highest priority, 9"], [])
    found = site.command("--check", "--json")
    rows = json.loads(found.stdout)["differences"]
    assert found.returncode == 1 and [row["code"] for row in rows] == ["NP506"]  # and it is not run
    assert all(row["remedy"] for row in rows)


def test_a_locked_choice_that_is_gone(site: Site) -> None:
    site.command()
    info = site.install("c_third", 5, 9)
    assert site.command().returncode == 0  # the newcomer is locked
    assert site.ask() == (5, ["the lock file"], [])
    info.rename(info.with_name("away"))
    site.names.remove("c_third")
    value, (rule,), (warned,) = site.ask()
    assert value == 3
    assert rule == (
        "the highest priority, 4; the lock file's choice netcl-plugin-c_third is not installed"
    )
    assert "NP503: netcl-plugin-c-third: locked is 1.0, and it is not installed. Inst" in warned


@pytest.mark.parametrize("variable", ["NETCL_LOCK_STRICT", "NETCL_PLUGINS_STRICT"])
def test_a_misfit_is_an_error_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "netcl.lock").write_text(text_of(Lock(Pin("0.0.1"), {}, {})))
    monkeypatch.chdir(tmp_path)
    with pytest.warns(PluginWarning, match=r"NP504: netcl-core: .* locked is 0.0.1. Install the"):
        locking.hold([])
    monkeypatch.setenv(variable, "1")
    with pytest.raises(PluginError, match=r"NP509: .*does not fit") as caught:
        locking.hold([])
    assert caught.value.code == "NP509"
    monkeypatch.setenv("NETCL_LOCK", "0")
    locking.hold([])


def test_a_misfit_is_found_before_anything_is_imported(site: Site) -> None:
    site.install("c_third", 5, 9)
    site.command()
    (site.folder / "c_third_package" / "__init__.py").write_text("print('imported')")
    strict = {"NETCL_LOCK_STRICT": "1"}
    done = site.run("-c", ASK, **strict)
    assert done.returncode == 1 and "imported" not in done.stdout
    assert "NP509" in done.stderr and "NP505: netcl-plugin-c-third: the files of 1.0" in done.stderr
    assert "netcl plugins lock" in done.stderr
    said = site.run("-m", "netcl_core.cli.start", "plugins", "why", "shared_op", **strict)
    assert said.returncode == 3 and "NP509" in said.stderr
    assert "- NP505: netcl-plugin-c-third: the files of 1.0" in said.stderr
    # what repairs it runs all the same
    (site.folder / "c_third_package" / "__init__.py").write_text(CODE.format(5, 9) + "#")
    check = site.command("--check", **strict)
    assert check.returncode == 1 and check.stdout.startswith("NP505: ")
    assert site.command(**strict).returncode == 0
    assert site.ask(**strict) == (5, ["the lock file"], [])


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<<<<<<< ours\n", "NP501: netcl.lock: it is no JSON"),
        (text_of(Lock(Pin("1"))).replace('"schema": 3', '"schema": 7'), "NP502: netcl.lock: schem"),
    ],
)
def test_a_broken_lock_is_named_and_breaks_nothing(site: Site, content: str, said: str) -> None:
    site.lock.write_text(content)
    value, rules, (warned,) = site.ask()
    assert (value, rules) == (3, ["the highest priority, 4"]) and said in warned
    check = site.command("--check")
    assert check.returncode == 3 and said in check.stderr
    assert site.command().returncode == 3 and site.lock.read_text() == content
    site.lock.unlink()
    assert site.command().returncode == 0 and site.ask()[2] == []


def test_a_lock_that_is_named_but_not_there(site: Site) -> None:
    value, _, (warned,) = site.ask(NETCL_LOCK="other.lock")
    assert value == 3 and "NP501" in warned and "other.lock" in warned


def test_without_autoload_nothing_is_held_to(site: Site) -> None:
    site.lock.write_text("junk")
    code = "import netcl_core as nc; assert not [p for p in nc.plugins.list() if p.provides]"
    done = site.run("-W", "error", "-c", code, NETCL_PLUGINS_AUTOLOAD="0")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("variables", [{}, {"NETCL_LOCK_STRICT": "1"}])
def test_the_doctor_says_what_does_not_fit(site: Site, variables: dict[str, str]) -> None:
    """However strict the lock is."""
    site.lock.write_text(text_of(Lock(Pin("0.0.1"), {}, {})))
    done = site.run("-W", "error", "-m", "netcl_core.cli.start", "doctor", "--json", **variables)
    report = json.loads(done.stdout)
    (check,) = [each for each in report["checks"] if each["name"] == "lock file"]
    assert not check["ok"] and "NP504: netcl-core: " in check["detail"]
    assert done.returncode == (1 if any(each["backend"] == "opencl" for each in report["devices"])
                               else 3)  # fmt: skip


def test_what_the_lock_does_not_know_is_no_finding_of_the_doctor(site: Site) -> None:
    site.command()
    site.install("c_third", 5, 9)
    code = "import netcl_core as nc\n"
    code += "from netcl_market.doctor_checks import doctor_checks\n"
    code += "print(*[each for each in doctor_checks() if each[0] == 'lock file'])"
    said = site.run("-W", "error", "-c", code).stdout
    assert said.startswith("('lock file', True, 'NP506: netcl-plugin-c-third: ")
