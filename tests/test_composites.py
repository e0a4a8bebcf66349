"""Operators that are made of other ops: what they record, and whose errors they raise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import netcl_plugin_rowwise
import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Implementation, Operator
from netcl_core.errors import AnomalyError, ArgumentError, RegistrationError, ShapeError
from netcl_core.runtime.host_calls import HostCall

OPENCL = [device for device in nc.devices() if device.backend == "opencl" and not device.simulator]
TABLE = {"double": 2.0}


@pytest.fixture(params=[*nc.devices()[:1], nc.get_device("numpy")], ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


def scaled_by(x: Any, weight: Any = None, mode: str = "double") -> Any:
    """x times a number from a table, and a weight."""
    return ag.mul(x if weight is None else ag.mul(x, weight), TABLE[mode])


def halves(x: Any) -> Any:
    """Both halves of x, and an error of its own for what it does not know."""
    if x.ndim != 1:
        raise TypeError("halves knows vectors alone")
    return x[: x.shape[0] // 2], x[x.shape[0] // 2 :]


def on_host(factor: float, **fields: Any) -> Implementation:
    """An implementation of scaled_by that multiplies by another number, to tell it."""

    def run(inputs: Any, output: Any) -> None:
        output[...] = inputs[0] * (inputs[1] if len(inputs) > 1 else 1) * factor

    return Implementation("scaled_by", "host", lambda request: HostCall(run), **fields)


# -- what is recorded ------------------------------------------------------------------------


def test_it_is_recorded_as_what_it_is_made_of(device: nc.Device, give: Any) -> None:
    give("scaling", ag.composite(scaled_by, ("x", "weight")))
    x = nc.tensor([1.0, 2.0], requires_grad=True)
    w = nc.tensor([3.0, 4.0], requires_grad=True)
    with ag.Tape() as tape:
        y = ag.scaled_by(x, w)
    assert [node.op_name for node in tape.nodes] == ["mul", "mul_scalar_right"] or [
        node.op_name for node in tape.nodes
    ] == ["mul", "mul"]
    dx, dw = ag.grad(ag.sum(y), [x, w])
    assert (dx.to_host().tolist(), dw.to_host().tolist()) == ([6, 8], [2, 4])


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_an_implementation_is_recorded_as_one(give: Any, compiled: bool) -> None:
    """Its gradients are those of the function, unless it brings its own; also pruned and twice."""
    give("scaling", ag.composite(scaled_by, ("x", "weight")))
    give("hosting", on_host(2.0))

    def function(x: Any, w: Any) -> Any:
        return ag.scaled_by(ag.add(x, 1.0), w)

    with nc.use_device(OPENCL[0]):
        x = nc.tensor([1.0, 2.0], requires_grad=True)
        w = nc.tensor([3.0, 4.0], requires_grad=True)
        run = ag.jit_compile(function, strict=True) if compiled else function
        with ag.Tape() as tape:
            y = run(x, w)
        assert tape.nodes[-1].op_name == "scaled_by" and len(tape.nodes) == 2
        assert y.to_host().tolist() == [12, 24]
        for _ in range(2):
            (dw,) = ag.grad(ag.sum(y), w, retain_graph=True)
            assert dw.to_host().tolist() == [4, 6]
            (dx,) = ag.grad(ag.sum(y), x, retain_graph=True)
            assert dx.to_host().tolist() == [6, 8]
        ag.sum(y).backward(retain_graph=True)
        ag.sum(y).backward()
        assert x.grad.to_host().tolist() == [12, 16]
        nc.plugins.unregister("hosting")
        with ag.Tape() as tape:
            run(x, w)
        assert "scaled_by" not in {node.op_name for node in tape.nodes}
        give("hosting", on_host(2.0))


def test_several_results(device: nc.Device, give: Any) -> None:
    give("halving", ag.composite(halves, ("x",), results=("low", "high")))
    x = nc.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    low, high = found = ag.halves(x)
    assert found._fields == ("low", "high")
    (dx,) = ag.grad([ag.sum(low), ag.sum(ag.mul(high, 3.0))], x)
    assert dx.to_host().tolist() == [1, 1, 3, 3]


# -- errors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("served", [False, True], ids=["alone", "beside an implementation"])
def test_its_own_errors_pass_unchanged(device: nc.Device, give: Any, served: bool) -> None:
    give("scaling", ag.composite(scaled_by, ("x", "weight")))
    give("halving", ag.composite(halves, ("x",)))
    if served:
        give("hosting", on_host(2.0, priority=1))
        give("splitting", Implementation("halves", "no", lambda request: 1 / 0))  # type: ignore[arg-type]
    x = nc.Tensor.ones((2, 3))
    for _ in range(2):
        if not (served and device.backend == "opencl"):  # the function is not asked there
            with pytest.raises(KeyError) as caught:
                ag.scaled_by(x, mode="triple")
            assert caught.value.args == ("triple",)
            assert "scaled_by" in " ".join(caught.value.__notes__)
        with pytest.raises(TypeError) as wrong:
            ag.halves(x)
        assert type(wrong.value) is TypeError
        assert wrong.value.args == ("halves knows vectors alone",)
    with pytest.raises(ArgumentError, match="scaled_by: it was given"):
        ag.scaled_by(x, wait=3)
    with pytest.raises(ShapeError, match="mul: "):
        ag.scaled_by(x, nc.Tensor.ones((4,)))


@pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")
def test_its_own_errors_pass_through_a_trace(device: nc.Device, give: Any) -> None:
    give("scaling", ag.composite(scaled_by, ("x", "weight")))
    give("halving", ag.composite(halves, ("x",)))
    x = nc.Tensor.ones((2, 3))
    for _ in range(2):
        with pytest.raises(KeyError, match="triple"):
            ag.jit_compile(lambda x: ag.scaled_by(x, mode="triple"))(x)
        with pytest.raises(TypeError, match="halves knows vectors alone"):
            ag.jit_compile(lambda x: ag.halves(x))(x)


def test_what_a_record_has_to_say() -> None:
    with pytest.raises(RegistrationError, match="bare: no bind and no infer and no reference"):
        Operator("bare")
    with pytest.raises(
        RegistrationError, match="odd: no parameter 'wieght'; expected operands among x"
    ):
        ag.composite(scaled_by, ("x", "wieght"), name="odd")


# -- anomalies -------------------------------------------------------------------------------


def test_the_creation_trace_of_fused_ops() -> None:
    """Of a structured op with its neighbours, and of an implementation of a composite."""
    nc.plugins.register(netcl_plugin_rowwise.plugin, "rowwise")
    try:
        with nc.use_device(OPENCL[0]), ag.detect_anomaly():
            x = nc.tensor(np.ones((3, 5), "float32"), requires_grad=True)
            w = nc.Tensor.ones((5,))

            def fused(x: Any) -> Any:
                return ag.add(ag.softmax(ag.mul(x, 2.0)), 1.0)

            run = ag.jit_compile(fused, strict=True)
            for function in (run, run, lambda x: ag.layer_norm(x, 5, w, w)):
                node = function(x)
                trace = "".join(node.creation_trace)
                assert "test_the_creation_trace_of_fused_ops" in trace
                assert "test_composites.py" in node.made_at
            infinite = nc.tensor(np.full((3, 5), np.inf, "float32"), requires_grad=True)
            with pytest.raises(AnomalyError, match=r"fused.*test_composites|softmax.*test_comp"):
                run(infinite).backward(nc.Tensor.ones((3, 5)))
    finally:
        nc.plugins.unregister("rowwise")
