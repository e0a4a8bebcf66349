"""Patterns that come and go: the compiler of the process, compilers by hand, several providers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from grown import compiler_of, data, pattern, written
from threads import in_threads

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import MatchedOp, TrainingGraphCompiler, TrainingPattern
from netcl_core.autograd import training_compiler as face
from netcl_core.errors import AmbiguousOpError, FusionError, RegistrationError
from netcl_core.plugins.registry import USER, registry

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")
pytestmark = pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")


@pytest.fixture
def ours() -> Iterator[Callable[..., None]]:
    """Register with the compiler of the process; all is taken out again after the test."""
    names: list[str] = []

    def register(record: TrainingPattern, **options: Any) -> None:
        ag.get_training_compiler().register(record, **options)
        names.append(record.name)

    yield register
    for name in dict.fromkeys(names):
        ag.get_training_compiler().unregister(name)


# -- registering -------------------------------------------------------------------------


def test_what_comes_and_goes_counts_at_once(
    ours: Callable[..., None], give: Callable[..., None], on_numpy: None
) -> None:
    function = ag.jit_compile(written)
    x, y = data(4), data(4, seed=1)
    right = written(x, y).numpy()
    provider = []
    for act in (
        lambda: None,
        lambda: ours(pattern()),
        lambda: ag.get_training_compiler().unregister("grown_pattern"),
        lambda: give("mine", pattern()),
        lambda: ours(pattern(), override=True),
    ):
        act()
        np.testing.assert_allclose(function(x, y).numpy(), right, rtol=1e-6)
        plan = ag.get_training_compiler().plan(written, x, y)
        provider.append(None if plan is None else plan.provider)
    assert provider == [None, USER, None, "mine", USER]
    assert {row.provider for row in registry.op_rows("grown", parts=True)} == {"mine", USER}


def test_parts_go_with_their_pattern(ours: Callable[..., None]) -> None:
    ours(pattern())
    (row,) = registry.op_rows("grown", parts=True)
    assert row.part_of == "grown_pattern" and row.provider == USER
    ours(pattern("second"))  # which shares the part
    with pytest.raises(RegistrationError, match="'second' is provided by user already") as caught:
        ag.get_training_compiler().register(pattern("second"))
    assert caught.value.code == "NP307"
    with pytest.raises(RegistrationError, match="'nobody' was not registered by hand"):
        ag.get_training_compiler().unregister("nobody")
    assert {each.name for each in ag.get_training_compiler().patterns} >= {
        "grown_pattern", "second",
    }  # fmt: skip


def test_a_compiler_of_its_own(on_numpy: None) -> None:
    compiler = compiler_of(pattern())
    x, y = data(4), data(4, seed=1)
    function = ag.jit_compile(patterns=compiler)(written)
    assert compiler.match(written, x, y).name == compiler.match(function, x, y).name
    assert ag.get_training_compiler().match(function, x, y) is None
    assert "(user) in place of" in function.explain(x, y)
    compiler.unregister("grown_pattern")
    assert compiler.patterns == () and "in place of" not in function.explain(x, y)
    with pytest.raises(RegistrationError, match="was not registered by hand"):
        compiler.unregister("grown_pattern")
    compiler.register(pattern())
    with pytest.raises(RegistrationError, match="already; expected a new name"):
        compiler.register(pattern())
    compiler.register(pattern(planner=lambda x, y: None), override=True)
    assert "its planner declined" in function.explain(x, y)


def test_its_kernels_are_shown(fast: nc.Device) -> None:
    """`lower` has what is launched, of ours the pattern that comes with netcl-plugin-tensor."""

    def block_end(x: Any, b: Any, r: Any, w: Any, s: Any) -> Any:
        return ag.layer_norm(ag.dropout(x + b, 0.1) + r, (8,), w, s)

    given = [data(3, 8), data(8), data(3, 8), data(8), data(8)]
    lowered = ag.jit_compile(block_end).lower(*given)
    assert lowered.launches == 1 and "residual_norm_rows(" in lowered.forward_source
    assert (
        ag.jit_compile(block_end, patterns=TrainingGraphCompiler.private()).lower(*given).launches
        > 1
    )
    found = ag.get_training_compiler().plan(block_end, *given)
    assert found.captured["p"] == 0.1 and len(found.sources) == found.launches == 1


def test_a_plan(either: nc.Device) -> None:
    compiler = compiler_of(pattern())
    x, y = data(4), data(4, seed=1)
    plan = compiler.plan(lambda x, y: ag.tanh(written(x, y)), x, y)
    assert str(plan) == (
        "grown_pattern (user) in place of add -> exp -> mul: x=float32[4], y=float32[4] => "
        f"float32[4], {plan.launches} launches"
    )
    assert plan.device is either and plan.values == (nc.Spec((4,), "float32"),)
    assert compiler.plan(lambda x, y: x, x, y) is None
    with pytest.raises(FusionError):
        compiler.plan(lambda x, y: x.numpy(), x, y)


def test_the_face() -> None:
    assert face.TrainingGraphCompiler is ag.TrainingGraphCompiler
    assert face.get_training_compiler is ag.get_training_compiler
    pytest.importorskip("netcl_plugin_losses")
    assert face.fused_weighted_bce_smooth_l1_loss is ag.fused_weighted_bce_smooth_l1_loss
    with pytest.raises(AttributeError, match="no attribute 'fused_nothing'"):
        _ = face.fused_nothing


def test_copies_and_pickles() -> None:
    made = pickle.loads(pickle.dumps(ag.jit_compile(written)))
    x, y = data(4), data(4, seed=1)
    np.testing.assert_allclose(made(x, y).numpy(), written(x, y).numpy(), rtol=1e-6)


# -- several providers -------------------------------------------------------------------


def test_two_of_one_name(
    give: Callable[..., None], monkeypatch: pytest.MonkeyPatch, on_numpy: None
) -> None:
    """A tie is an error that names both, once it matters; a setting or a priority decides."""
    x, y = data(4), data(4, seed=1)
    for name in ("right", "left"):
        give(name, pattern())
    other = ag.jit_compile(lambda x, y: x - y)
    assert other(x, y).shape == (4,)  # nobody's group is here
    function = ag.jit_compile(written)
    for _ in range(2):
        with pytest.raises(AmbiguousOpError, match="left:grown_pattern and right:grown_pattern"):
            function(x, y)
    monkeypatch.setenv("NETCL_RANK", "right:grown_pattern")
    assert ag.get_training_compiler().plan(written, x, y).provider == "right"
    monkeypatch.delenv("NETCL_RANK")
    give("third", pattern(), priority=3)
    assert ag.get_training_compiler().plan(written, x, y).provider == "third"


def test_two_that_claim_the_same_ops(
    give: Callable[..., None], monkeypatch: pytest.MonkeyPatch, on_numpy: None
) -> None:
    x, y = data(4), data(4, seed=1)
    give("one", pattern("first"))
    give("two", pattern("second"))
    with pytest.raises(AmbiguousOpError, match="one:first and two:second") as caught:
        ag.jit_compile(written)(x, y)
    assert "NETCL_RANK" in str(caught.value)
    monkeypatch.setenv("NETCL_RANK", "two:*")
    assert ag.get_training_compiler().match(written, x, y).name == "second"
    monkeypatch.delenv("NETCL_RANK")
    give("four", pattern("fourth"), priority=1)
    assert ag.get_training_compiler().match(written, x, y).name == "fourth"


def test_one_provider_goes_by_its_own_order(give: Callable[..., None], on_numpy: None) -> None:
    x, y = data(4), data(4, seed=1)
    give("one", pattern("zulu"), pattern("alpha"))
    assert ag.get_training_compiler().match(written, x, y).name == "zulu"


# -- threads -----------------------------------------------------------------------------


def test_threads(ours: Callable[..., None], on_numpy: None) -> None:
    """Patterns that come and go while others compile cost nobody a result."""
    x, y = data(4), data(4, seed=1)
    right = written(x, y).numpy()

    def work(number: int) -> None:
        for turn in range(10):
            name = f"p{number}_{turn}"
            ag.get_training_compiler().register(pattern(name, parts_of(number)))
            np.testing.assert_allclose(ag.jit_compile(written)(x, y).numpy(), right, rtol=1e-6)
            ag.get_training_compiler().unregister(name)

    in_threads(work, 4)


def parts_of(number: int) -> Any:
    return lambda x, y: ag.mul(ag.add(y, x), ag.exp(x))


def test_a_pattern_is_for_the_kinds_of_devices_that_it_names(give: Callable[..., None]) -> None:
    group = MatchedOp("tanh", (MatchedOp("exp", ("x",)),))
    give("elsewhere", TrainingPattern("far", group, lambda x: ag.relu(x), device_kinds=["gpu"]))
    here = nc.default_device()
    if here.kind == "gpu":
        pytest.skip("it is one")
    x = nc.tensor([0.5])
    text = ag.jit_compile(lambda x: ag.tanh(ag.exp(x))).explain(x)
    assert f"it is for a gpu, {here} is a cpu" in text
    with pytest.raises(nc.errors.RegistrationError, match="the device kind 'tpu'"):
        TrainingPattern("far", group, lambda x: x, device_kinds=["tpu"])
