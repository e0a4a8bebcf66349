"""Operators with several results, of which some are integers, residuals, and parts of their own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from given import Given
from netcl_plugin_kit.testing import recorded
from row_facts import GIVEN, KEPT, NAME, PART, PREFIX, ROW_FACTS, RowFacts

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import HostCall
from netcl_core.autograd import Implementation
from netcl_core.errors import (
    GradientError,
    MissingOpError,
    MutationError,
    RegistrationError,
    ShapeError,
)
from netcl_core.plugins.registry import registry

FOLDER = Path(__file__).resolve().parent / "support" / "operators"
RNG = np.random.default_rng(7)
X, W = RNG.standard_normal((5, 7)), RNG.random(7)


@pytest.fixture(params=nc.devices(), ids=str)
def device(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as chosen:
        yield chosen


@pytest.fixture(autouse=True)
def plugin() -> Iterator[None]:
    """The op is there, as of a plugin of this process."""
    nc.plugins.add_templates(PREFIX, FOLDER)
    nc.plugins.register(RowFacts(), PREFIX)
    KEPT.clear()
    GIVEN.clear()
    yield
    nc.plugins.unregister(PREFIX)


def leaves(dtype: str = "float64") -> tuple[nc.Tensor, nc.Tensor]:
    return (
        nc.tensor(X.astype(dtype), requires_grad=True),
        nc.tensor(W.astype(dtype), requires_grad=True),
    )


def expected(of_length: float, of_peak: float) -> tuple[Any, Any]:
    """The gradients of `of_length * sum(length) + of_peak * sum(peak)`."""
    inverse = 1 / np.sqrt(1 + (W * X * X).sum(1))
    dx = of_length * inverse[:, None] * W * X
    dx[np.arange(len(X)), X.argmax(1)] += of_peak
    return dx, of_length * (X * X * inverse[:, None] / 2).sum(0)


def close(found: Any, wanted: Any, dtype: str) -> None:
    tolerance = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(found.to_host(), wanted, rtol=tolerance, atol=tolerance)


def dtypes_of(device: nc.Device) -> list[str]:
    return ["float16", "float32", *(["float64"] if device.supports_fp64 else [])]


# -- results -----------------------------------------------------------------------------


def test_the_results_are_a_named_tuple(device: nc.Device) -> None:
    for dtype in dtypes_of(device):
        x, w = leaves(dtype)
        found = ag.row_facts(x, w)
        assert found._fields == ("length", "place", "peak")
        assert [each.dtype for each in found] == [dtype, "int32", dtype]
        assert [each.requires_grad for each in found] == [True, False, True]
        close(found.length, np.sqrt(1 + (W * X * X).sum(1)), dtype)
        close(found.peak, X.max(1), dtype)
        assert found.place.to_host().tolist() == X.argmax(1).tolist()


def test_residuals_are_written_only_where_somebody_will_read_them(device: nc.Device) -> None:
    if device.backend == "numpy":
        pytest.skip("the reference computes them in any case")
    x, w = leaves("float32")
    with ag.no_grad():
        assert type(ag.row_facts(x, w).length) is nc.Tensor
    ag.row_facts(x.detach(), w.detach())
    with ag.Tape() as tape:
        tape.enabled = False
        assert not ag.row_facts(x, w).length.requires_grad
    assert KEPT == [False]
    ag.row_facts(x, w)
    ag.row_facts(x, w)
    assert KEPT == [False, True]


@pytest.mark.parametrize(
    ("read", "given", "of"),
    [
        (lambda found: ag.sum(found.length), (True, False, False), (1, 0)),
        (lambda found: ag.sum(found.peak), (False, False, True), (0, 1)),
        (
            lambda found: ag.add(ag.sum(found.peak), ag.sum(ag.mul(found.length, 2.0))),
            (True, False, True),
            (2, 1),
        ),
    ],
    ids=["length", "peak", "both"],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_gradients(
    device: nc.Device, read: Any, given: tuple[bool, ...], of: tuple[int, int], compiled: bool
) -> None:
    """Through one result, through the other, and through both; a second time just the same."""

    def total(x: Any, w: Any) -> Any:
        return read(ag.row_facts(x, w))

    function = ag.jit_compile(total, strict=True) if compiled else total
    for dtype in dtypes_of(device):
        x, w = leaves(dtype)
        dx, dw = expected(*of)
        for times in (1, 2):
            GIVEN.clear()
            loss = function(x, w)
            loss.backward(retain_graph=True)
            assert GIVEN.pop() == given and not GIVEN
            close(x.grad, times * dx, dtype)
            if of[0]:
                close(w.grad, times * dw, dtype)
            else:
                assert w.grad is None
        loss.backward()  # the graph is still there
        close(x.grad, 3 * dx, dtype)


def test_neighbours_before_and_behind_are_fused_with_each_other(device: nc.Device) -> None:
    """Elementwise neighbours share kernels; the op with several results has its own."""

    def around(x: Any, w: Any) -> Any:
        found = ag.row_facts(ag.mul(ag.tanh(x), 2.0), w)
        return ag.exp(ag.neg(found.length)), found.place, ag.add(ag.mul(found.peak, 3.0), 1.0)

    x, w = leaves("float32")
    plain = around(x, w)
    ag.add(ag.sum(plain[0]), ag.sum(plain[2])).backward()
    wanted = [each.to_host() for each in (*plain, x.grad, w.grad)]
    compiled = ag.jit_compile(around, strict=True)
    for _ in range(3):
        x.grad = w.grad = None
        results = compiled(x, w)
        assert [each.requires_grad for each in results] == [True, False, True]
        ag.add(ag.sum(results[0]), ag.sum(results[2])).backward()
        for found, one in zip((*results, x.grad, w.grad), wanted, strict=True):
            np.testing.assert_allclose(found.to_host(), one, rtol=2e-6, atol=2e-6)
    if device.backend == "opencl":
        with recorded(device) as stream:
            compiled(x, w)
        assert len(stream.launched) == 4
        assert stream.launched.count(NAME) == 1


def test_a_compiled_function_may_hand_out_one_result_alone(device: nc.Device) -> None:
    x, w = leaves("float32")
    places = ag.jit_compile(lambda x, w: ag.row_facts(x, w).place, strict=True)
    for _ in range(2):
        assert places(x, w).to_host().tolist() == X.argmax(1).tolist()
    assert not places(x, w).requires_grad
    again = ag.jit_compile(lambda x, w: ag.row_facts(x, w), strict=True)
    assert again(x, w)._fields == ("length", "place", "peak")


def test_no_results_without_rows(device: nc.Device) -> None:
    x = nc.Tensor.zeros((0, 7)).requires_grad_()
    w = nc.Tensor.ones((7,)).requires_grad_()
    for function in (ag.row_facts, ag.jit_compile(lambda x, w: ag.row_facts(x, w))):
        found = function(x, w)
        assert [each.shape for each in found] == [(0,)] * 3
        x.grad = w.grad = None
        ag.add(ag.sum(found.length), ag.sum(found.peak)).backward()
        assert x.grad.shape == (0, 7)
        assert w.grad.to_host().tolist() == [0] * 7
    with pytest.raises(ShapeError, match="row_facts: "):
        ag.row_facts(nc.Tensor.zeros((2, 0)), nc.Tensor.zeros((0,)))


def half_square() -> ag.Operator:
    """x * x / 2 in a kernel that keeps 3 x and takes an epilogue."""

    def plan(request: ag.Request) -> nc.Kernels:
        kept = [("out", 1)] if request.keep else []
        args = request.slots.args([("in", 0), ("out", 0), *kept], [("ulong", request.output.size)])
        context = {"keep": request.keep, **request.slots.context(1)}
        file = f"{PREFIX}/slope.cl.j2"
        kernel = nc.Kernel(file, "square", args, (request.output.size,), None, context)
        return nc.Kernels((kernel,))

    return ag.Operator(
        "half_square",
        bind=lambda x: ((x,), {}),
        infer=lambda x: x,
        reference=lambda x: (x * x / 2, 3 * x),
        residuals=lambda x: (x,),
        saves=(),
        backward=lambda saved, grad: [ag.mul(grad, ag.div(saved.residuals[0], 3.0))],
        implementations=(
            Implementation("half_square", "kept", plan, epilogue=True, stretch=lambda _: 1),
        ),
    )


@pytest.mark.parametrize("results", [1, 2])
def test_a_kernel_with_residuals_takes_an_epilogue(device: nc.Device, results: int) -> None:
    nc.plugins.register(Given(half_square()), "half-square")
    try:

        def function(x: Any) -> Any:
            y = ag.add(ag.mul(ag.half_square(x), 5.0), x)
            return (y, ag.exp(ag.neg(y))) if results == 2 else (y,)

        x = nc.tensor(X.astype("float32"), requires_grad=True)
        compiled = ag.jit_compile(function, strict=True)
        for _ in range(2):
            x.grad = None
            found = compiled(x)
            y = 2.5 * X * X + X
            close(found[0], y, "float32")
            total = ag.sum(found[0])
            slope = 5 * X + 1
            if results == 2:
                close(found[1], np.exp(-y), "float32")
                total = ag.add(total, ag.sum(found[1]))
                slope = slope * (1 - np.exp(-y))
            total.backward()
            close(x.grad, slope, "float32")
        with ag.no_grad():
            close(compiled(x)[0], 2.5 * X * X + X, "float32")
        if device.backend == "opencl":
            with recorded(device) as stream:
                compiled(x)
            assert stream.launched == ["square"]
    finally:
        nc.plugins.unregister("half-square")


# -- what a backward is asked for ----------------------------------------------------------


def test_only_what_is_wanted_is_computed(device: nc.Device) -> None:
    x, w = leaves("float32")
    found = ag.row_facts(x, w)
    (dw,) = ag.grad(ag.sum(found.length), w, retain_graph=True)
    close(dw, expected(1, 0)[1], "float32")
    if device.backend == "opencl":
        with recorded(device) as stream:
            ag.grad(ag.sum(found.length), w, retain_graph=True)
        assert PART not in stream.launched
        with recorded(device) as stream:
            seeds = [nc.Tensor.ones((5,))] * 2
            ag.grad([found.length, found.peak], x, seeds, retain_graph=True)
        assert stream.launched.count(PART) == 1
    (none,) = ag.grad(ag.sum(found.peak), w, allow_unused=True)
    assert none is None
    assert x.grad is None and w.grad is None


def test_gradients_of_results_themselves(device: nc.Device) -> None:
    """Each result can be a target, and a root with a gradient of its own."""
    x, w = leaves("float32")
    found = ag.row_facts(x, w)
    loss = ag.sum(ag.add(ag.mul(found.length, 2.0), ag.mul(found.peak, 3.0)))
    of_length, of_peak, dx = ag.grad(loss, [found.length, found.peak, x])
    assert of_length.to_host().tolist() == [2] * 5
    assert of_peak.to_host().tolist() == [3] * 5
    close(dx, expected(2, 3)[0], "float32")
    with ag.Tape(retain_grads=True) as tape:
        kept = ag.row_facts(x, w)
        tape.backward(ag.sum(ag.mul(kept.peak, 4.0)))
    assert kept.peak.grad.to_host().tolist() == [4] * 5
    assert kept.length.grad is None


def test_a_result_that_a_gradient_needs_may_not_change(device: nc.Device) -> None:
    """Also of an op with one result: softmax gave a wrong gradient, and said nothing."""
    x = nc.tensor(X.astype(np.float32), requires_grad=True)
    for function in (ag.softmax, ag.jit_compile(lambda x: ag.softmax(ag.mul(x, 2.0)))):
        y = function(x)
        y.value.overwrite(nc.Tensor.zeros(X.shape))
        with pytest.raises(MutationError, match="backward of softmax: a result of shape"):
            y.backward(nc.Tensor.ones(X.shape))
    y = ag.mean(x, 1)  # its gradient needs no result
    y.value.overwrite(nc.Tensor.zeros((5,)))
    y.backward(nc.Tensor.ones((5,)))


def test_an_unused_result_may_go_first(device: nc.Device) -> None:
    """Also that which holds the record of the call."""
    x, w = leaves("float32")
    peak = ag.row_facts(x, w).peak
    gc.collect()
    ag.sum(peak).backward()
    close(x.grad, expected(0, 1)[0], "float32")


def test_a_gradient_need_not_reach_the_first_result(on_numpy: None) -> None:
    record = ag.Operator(
        "sign_and_double",
        bind=lambda x: ((x,), {}),
        infer=lambda x: (nc.Spec(x.shape, "int32"), x),
        reference=lambda x: (np.sign(x).astype("int32"), x * 2),
        backward=lambda saved, _, grad: [grad * 2],
    )
    x = nc.tensor([3.0], requires_grad=True)
    sign, double = record(x)
    assert [each.requires_grad for each in (sign, double)] == [False, True]
    with pytest.raises(GradientError, match="int32 result of sign_and_double"):
        sign.backward()
    double.backward()
    assert x.grad.item() == 2


def test_the_tape_has_a_node_for_each_result_that_a_gradient_reaches(device: nc.Device) -> None:
    x, w = leaves("float32")
    with ag.Tape() as tape:
        found = ag.row_facts(x, w)
    assert tape.nodes == [found.length, found.peak]
    assert {node.op_name for node in tape.nodes} == {NAME}
    assert [node.index for node in tape.nodes] == [0, 2]
    assert found.peak.source is found.length
    assert [each.value for each in found.peak.parents] == [x, w]
    dx, dw = found.peak.grad_fn(nc.Tensor.ones((5,)))
    close(dx, expected(0, 1)[0], "float32")
    assert dw is None


def test_an_integer_result_has_no_gradient(device: nc.Device) -> None:
    x, w = leaves("float32")
    place = ag.row_facts(x, w).place
    with pytest.raises(GradientError, match=r"backward.*int32 result of row_facts"):
        place.backward(nc.Tensor.ones((5,), "int32"))
    with pytest.raises(GradientError, match=r"backward.*int32 result of row_facts"):
        ag.grad(place, x, nc.Tensor.ones((5,), "int32"))


def test_what_changed_in_place_is_noticed(device: nc.Device) -> None:
    """The inputs that the gradient reads, and the results and residuals that it keeps."""
    x, w = leaves("float32")
    found = ag.row_facts(x, w)
    with ag.no_grad():
        w.overwrite(nc.Tensor.ones((7,)))
    with pytest.raises(MutationError, match="backward of row_facts"):
        ag.sum(found.length).backward()
    found = ag.row_facts(x, w)
    found.place.value.overwrite(nc.Tensor.zeros((5,), "int32"))
    with pytest.raises(MutationError, match="backward of row_facts: a result of shape"):
        ag.sum(found.peak).backward()


# -- its part ------------------------------------------------------------------------------


def test_a_part_is_no_op(device: nc.Device) -> None:
    assert NAME in dir(ag) and PART not in dir(ag)
    assert not hasattr(ag, PART)
    with pytest.raises(MissingOpError, match="exists for row_facts alone"):
        getattr(ag, PART)
    (row,) = registry.op_rows(PART, parts=True)
    assert row.part_of == NAME
    assert not registry.op_rows(PART) and PART not in registry.op_names()


# -- rules that contradict each other --------------------------------------------------------


def test_a_reference_that_forgets_a_result(device: nc.Device) -> None:
    if device.backend != "numpy":
        pytest.skip("only the NumPy path asks the reference")
    record = ag.Operator(
        "forgetful",
        bind=lambda x: ((x,), {}),
        infer=lambda x: (x, x),
        reference=lambda x: x,
    )
    with pytest.raises(RegistrationError, match="forgetful: its reference returned"):
        record(nc.Tensor.ones((3,)))


def test_a_backward_of_the_wrong_length(device: nc.Device) -> None:
    record = replace(ROW_FACTS, name="short", backward=lambda saved, *grads: [None])
    x, w = leaves("float32")
    with pytest.raises(
        GradientError, match="backward of short: it returned 1; expected 2 gradients"
    ):
        ag.sum(record(x, w).length).backward()


def test_a_host_call_fills_all_results_and_residuals(device: nc.Device) -> None:
    """Only the last buffer was handed to it, and the others kept what was in memory."""
    if device.kind != "cpu" or device.backend != "opencl":
        pytest.skip("host calls are for OpenCL on CPUs")

    def run(inputs: Any, total: Any, place: Any, peak: Any, *inverse: Any) -> None:
        results = ROW_FACTS.reference(*inputs)
        for target, value in zip((total, place, peak, *inverse), results, strict=False):
            target[...] = value

    on_host = Implementation(NAME, "on the host", lambda request: HostCall(run))
    record = replace(ROW_FACTS, implementations=(on_host,))
    x, w = leaves("float32")
    found = record(x, w)
    close(found.length, np.sqrt(1 + (W * X * X).sum(1)), "float32")
    assert found.place.to_host().tolist() == X.argmax(1).tolist()
    ag.sum(found.length).backward()
    close(x.grad, expected(1, 0)[0], "float32")
