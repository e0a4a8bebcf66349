"""The programs and signatures that the first documents print, as they are printed there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff
from netcl_core.autograd import TrainingPattern, engine
from netcl_core.errors import AnomalyError, RegistrationError


@pytest.fixture
def registered() -> Any:
    """Registers patterns of the process, and forgets them."""
    compiler, names = ag.TrainingGraphCompiler(), []

    def register(pattern: TrainingPattern) -> None:
        compiler.register(pattern)
        names.append(pattern.name)

    yield register
    for name in names:
        compiler.unregister(name)


def test_a_pattern_of_values(registered: Any) -> None:
    """000 and 004: matcher -> bool, planner -> plan object."""
    compiler = ag.TrainingGraphCompiler()  # the global singleton
    assert compiler is ag.get_training_compiler()

    def matcher(pred: Any, target: Any, *weights: Any, beta: float = 0.05) -> bool:
        return pred.shape == target.shape and pred.dtype == "float32"

    def planner(pred: Any, target: Any, *weights: Any, beta: float = 0.05) -> Any:
        return "plan", pred.shape, beta

    registered(TrainingPattern(name="mine", matcher=matcher, planner=planner))
    registered(TrainingPattern("any", lambda *values: len(values) == 7, lambda *values: values))
    x = nc.ones(2, 3)
    found = compiler.match(x, x, x)
    assert found is not None and found.name == "mine"
    assert compiler.plan(x, x, x, beta=1.0) == ("plan", (2, 3), 1.0)
    assert compiler.match(x, nc.ones(3)) is None and compiler.plan(x, nc.ones(3)) is None
    assert compiler.match(x) is None
    assert ag.planned("mine", x, x) == ("plan", (2, 3), 0.05)
    assert ag.planned("mine", x, nc.ones(3)) is None
    with pytest.raises(RegistrationError, match="the pattern 'none'"):
        ag.planned("none", x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function = ag.jit_compile(lambda x: ag.exp(x) * 2)
        assert function(x).shape == (2, 3)
    assert compiler.match(function, x) is None


def test_a_node_is_made_of_its_fields() -> None:
    """000: the dataclass Node."""
    x = ag.tensor([2.0], requires_grad=True)
    made = ag.Node(
        value=x.value * 3, grad_fn=lambda grad: [grad * 3], parents=[x], op_name="thrice"
    )
    assert made.op_name == "thrice" and made.parents == [x] and made.requires_grad
    (made * made).backward()
    assert x.grad.item() == 36
    leaf = ag.Node(nc.tensor([1.0]), requires_grad=True, creation_trace=["here"])
    assert leaf.is_leaf and leaf.requires_grad and leaf.creation_trace == ["here"]
    other = ag.Node(nc.tensor([1.0]), lambda grad: [grad], [leaf])
    other.backward()
    assert leaf.grad.item() == 1 and other.grad_fn is not None
    assert leaf.name.startswith("leaf_") and made.name.startswith("thrice_")  # 003
    assert nc.tensor([1.0]).grad_fn is None


def test_the_engine_under_no_grad_and_in_anomaly_mode() -> None:
    assert engine.is_grad_enabled()
    with ag.Tape() as tape:
        assert tape.enabled
        with ag.no_grad():
            assert not tape.enabled and not engine.is_grad_enabled()
        tape.enabled = False
        ag.tensor([1.0], requires_grad=True) * 2
    assert not tape.enabled and tape.nodes == []
    x = ag.tensor([0.0], requires_grad=True)
    ag.detect_anomaly(True)  # 003: a plain call
    try:
        y = ag.sqrt(x)
        assert y.creation_trace is not None and "y = ag.sqrt(x)" in y.creation_trace[-1]
        with pytest.raises(AnomalyError):
            y.backward()
    finally:
        ag.detect_anomaly(False)
    ag.sqrt(x).backward()
    with ag.detect_anomaly():
        pass
    ag.sqrt(x).backward()


def test_a_primitive_is_found_by_its_op_name() -> None:
    """000: the compiler looks up a primitive by the op_name given to apply_op."""
    ag.register_primitive(
        "documents_mul",
        lambda args, attrs: f"{args[0]} * {args[1]}",
        lambda args, grad, attrs, out: [f"{grad} * {args[1]}", f"{grad} * {args[0]}"],
        arity=2,
        fusible=True,
    )

    def mul(x: Any, y: Any) -> Any:
        return ag.apply_op(
            lambda x, y: x * y, lambda grad: [grad * y, grad * x], x, y, op_name="documents_mul"
        )

    function = ag.jit_compile(lambda x, y: ag.exp(mul(x, y)) + 1, strict=True)
    x, y = (ag.tensor([float(k)], requires_grad=True) for k in (2, 1))
    function(x, y).backward()
    assert function.lower(x, y).launches == 1
    np.testing.assert_allclose(
        [x.grad.item(), y.grad.item()], [np.exp(2), 2 * np.exp(2)], rtol=1e-5
    )


def test_the_manager_of_gradients() -> None:
    """002: the module's path, AttachSpec(), callback=, backward(None, dy)."""
    from netcl_core.autodiff.grad_manager import (
        AttachSpec,
        GradManager,
        get_backwarding_grad_manager,
    )

    assert GradManager is autodiff.GradManager and get_backwarding_grad_manager() is None
    assert AttachSpec().tensor() is None and AttachSpec().callbacks == []
    x, seen = nc.tensor([3.0]), []
    gm = GradManager()
    gm.attach([x], callback=lambda tensor, grad: seen.append(tensor) or grad * 2)
    with gm:
        gm.backward(x * x, nc.ones(1))
    assert x.grad.item() == 12 and seen == [x]
    with gm:
        gm.backward(None, nc.ones(1))
    assert x.grad.item() == 12
