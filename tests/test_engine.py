"""The engine: gradients, tapes, modes, seeds, mutation, depth, threads."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    GradientError,
    MutationError,
    ShapeError,
)

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")


def leaf(*values: float) -> nc.Tensor:
    return nc.Tensor.from_host(np.array(values, "float32"), requires_grad=True)


def host(tensor: Any) -> list[float]:
    return tensor.to_host().tolist()


# -- graphs ---------------------------------------------------------------------------


def test_tensor_times_tensor_is_recorded() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    loss = ag.sum(x * w)
    loss.backward()
    assert host(x.grad) == [3, 4]
    assert host(w.grad) == [1, 2]


def test_a_second_backward_adds_the_same_gradient_again() -> None:
    x = leaf(2)
    loss = ag.sum(x * x * x)
    loss.backward(retain_graph=True)
    assert host(x.grad) == [12]
    loss.backward()
    assert host(x.grad) == [24]


def test_two_losses_on_one_graph() -> None:
    x = leaf(3)
    h = x * x
    ag.backward(ag.sum(h * 2), retain_graph=True)
    ag.backward(ag.sum(h * 3))
    assert host(x.grad) == [30]


def test_a_value_with_many_users_gets_the_sum() -> None:
    x = leaf(1, 2)
    y = x * 2
    loss = ag.sum(y + y * y + y)
    loss.backward()
    assert host(x.grad) == [4 + 8, 4 + 16]


def test_gradients_of_two_leaves_never_share_a_buffer() -> None:
    x, y = leaf(1, 2), leaf(3, 4)
    ag.sum(x + y).backward()
    assert x.grad.buffer is not y.grad.buffer
    x.grad.overwrite(np.zeros(2, "float32"))
    assert host(y.grad) == [1, 1]


def test_a_gradient_that_several_get_is_not_added_to(on_numpy: None) -> None:
    """Not even to those of sums, which are kept small until another one meets them."""
    x, w = leaf(1, 2), leaf(3, 4)
    y = x + w
    (ag.sum(y * 3) + ag.sum(x) + ag.sum(x)).backward()
    assert host(x.grad) == [5, 5]
    assert host(w.grad) == [3, 3]


def test_a_seed_of_the_user_is_not_kept_as_gradient() -> None:
    x = leaf(1, 2)
    seed = nc.tensor(np.array([5, 6], "float32"))
    (x + 1).backward(seed)
    assert x.grad.buffer is not seed.buffer
    assert host(x.grad) == [5, 6]


def test_constants_get_no_gradient_and_record_nothing() -> None:
    x, c = leaf(1), nc.tensor(np.array([2], "float32"))
    with ag.Tape() as tape:
        constant = c * c + 1
        loss = ag.sum(x * constant)
    assert [node.op_name for node in tape.nodes] == ["mul", "sum"]
    assert not constant.requires_grad
    assert constant.parents == []
    tape.backward(loss)
    assert c.grad is None
    assert host(x.grad) == [5]


def test_ten_thousand_ops_deep() -> None:
    x = leaf(1)
    y = x
    for _ in range(10_000):
        y = y + 1
    y.backward()
    assert host(x.grad) == [1]
    del y
    gc.collect()


def test_a_node_knows_its_op_parents_and_place() -> None:
    x = leaf(1)
    y = x * 2
    assert y.op_name == "mul"
    assert y.parents[0].value is x
    assert y.parents[0] is (x * 3).parents[0]
    assert "test_engine.py" in y.made_at
    assert "y = x * 2" in y.made_at


# -- seeds ----------------------------------------------------------------------------


def test_a_non_scalar_loss_needs_a_seed() -> None:
    y = leaf(1, 2) * 2
    with pytest.raises(ValueError, match=r"shape \(2,\) and no gradient for it.*sum\(\) or mean"):
        ag.backward(y)
    with pytest.raises(ShapeError, match=r"grad of shape \(3,\)"):
        ag.backward(y, np.ones(3, "float32"))


def test_backward_of_a_constant_says_why() -> None:
    with pytest.raises(GradientError, match="requires_grad=True"):
        ag.backward(nc.tensor(1.0) * 2)
    with pytest.raises(ArgumentError, match="float"):
        ag.backward(1.0)


def test_grad_touches_no_leaf_and_gives_none_for_strangers() -> None:
    x, y = leaf(2), leaf(5)
    h = x * x
    found = ag.grad(ag.sum(h * 3), [x, h, y], allow_unused=True)
    assert host(found[0]) == [12]
    assert host(found[1]) == [3]
    assert found[2] is None
    assert x.grad is None


def test_grad_of_several_outputs() -> None:
    x = leaf(1, 2)
    found = ag.grad([x * 2, x * x], x, [np.ones(2, "float32"), np.ones(2, "float32")])
    assert host(found[0]) == [4, 6]


def test_grad_asks_nothing_behind_or_beside_its_targets() -> None:
    asked: list[str] = []

    def noting(name: str, x: Any) -> Any:
        def backward(grad: Any) -> list[Any]:
            asked.append(name)
            return [grad]

        return ag.apply_op(lambda value: value, backward, x, op_name=name)

    x, w = leaf(2), leaf(5)
    target = noting("behind", x)
    result = ag.sum(noting("between", target) * noting("beside", w))
    for _ in range(2):
        (found,) = ag.grad(result, target, retain_graph=True)
        assert (host(found), asked) == ([5], ["between"])
        asked.clear()
    ag.grad(result, [target, x])
    assert asked == ["between", "behind"]


# -- tapes ----------------------------------------------------------------------------


def test_leaving_an_inner_tape_restores_the_outer_one() -> None:
    with ag.Tape() as outer:
        with pytest.raises(RuntimeError), ag.Tape() as inner:
            assert ag.get_current_tape() is inner
            raise RuntimeError
        assert ag.get_current_tape() is outer
        leaf(1) * 2
    assert len(outer.nodes) == 1
    assert ag.get_current_tape() is not outer


def test_backward_after_the_block_and_without_the_tape() -> None:
    x = leaf(1, 2)
    with ag.Tape() as tape:
        loss = ag.sum(x * x)
    del tape
    gc.collect()
    ag.backward(loss)
    assert host(x.grad) == [2, 4]


def test_backward_of_the_raw_tensor_that_a_tape_knows() -> None:
    x = leaf(3)
    with ag.Tape() as tape:
        loss = x * x
    tape.backward(loss.value)
    assert host(x.grad) == [6]


def test_the_implicit_tape_holds_nothing_alive() -> None:
    x = leaf(1)
    y = x * 2
    assert ag.get_current_tape().nodes[-1] is y
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None
    ag.get_current_tape().reset()
    assert ag.get_current_tape().nodes == []


def test_a_disabled_tape_records_nothing() -> None:
    with ag.Tape() as tape:
        tape.enabled = False
        y = leaf(1) * 2
    assert tape.nodes == []
    assert not y.requires_grad


def test_retain_grads_keeps_those_of_results() -> None:
    x = leaf(2)
    with ag.Tape(retain_grads=True) as tape:
        h = x * x
        loss = ag.sum(h * 3)
    tape.backward(loss)
    assert host(h.grad) == [3]
    h2 = x * x
    ag.sum(h2).backward()
    assert h2.grad is None


def test_debug_tape_shows_the_nodes() -> None:
    with ag.Tape() as tape, ag.debug_tape(tape) as seen:
        before = len(seen.nodes)
        leaf(1) * 2
        assert len(seen.nodes) == before + 1
    with ag.debug_tape() as seen:
        assert seen is ag.get_current_tape()


def test_set_current_tape_and_tape_none() -> None:
    tape = ag.Tape()
    ag.set_current_tape(tape)
    try:
        leaf(1) * 2
    finally:
        ag.set_current_tape(None)
    assert len(tape.nodes) == 1
    x = leaf(1)
    unrecorded = ag.apply_op(lambda v: v, lambda g: [g], x, tape=None)
    assert not unrecorded.requires_grad


@pytest.mark.parametrize(
    "through",
    [
        lambda x: x.to("numpy"),
        lambda x: ag.apply_op(lambda v: v * 1.0, lambda g: [g * 1.0], x, op_name="own"),
    ],
    ids=["to", "apply_op"],
)
def test_a_function_of_ones_own_gets_a_whole_gradient(through: Any) -> None:
    """That of a sum is a Spread, which only the engine knows how to use."""
    x = leaf(1, 2, 3)
    for times in (1, 2):
        ag.sum(through(x)).backward()
        assert host(x.grad) == [times] * 3


# -- modes ----------------------------------------------------------------------------


def test_no_grad_in_its_three_forms() -> None:
    x = leaf(1)

    @ag.no_grad
    def bare() -> Any:
        return x * 2

    @ag.no_grad()
    def called() -> Any:
        return x * 2

    with ag.no_grad():
        results = [x * 2, x**2, x > 0, -x, 1 / x]
    for result in [bare(), called(), *results]:
        assert isinstance(result, nc.Tensor)
    assert bare.__name__ == "bare"
    assert ag.is_grad_enabled()


def test_modes_nest_and_are_restored_after_an_exception() -> None:
    with pytest.raises(RuntimeError), ag.no_grad():
        with ag.enable_grad():
            assert ag.is_grad_enabled()
            assert (leaf(1) * 2).requires_grad
        assert not ag.is_grad_enabled()
        raise RuntimeError
    assert ag.is_grad_enabled()


def test_no_grad_stops_only_its_own_thread() -> None:
    seen: list[bool] = []
    with ag.no_grad():
        worker = threading.Thread(target=lambda: seen.append(ag.is_grad_enabled()))
        worker.start()
        worker.join()
    assert seen == [True]


def test_set_grad_enabled_is_the_process_default() -> None:
    seen: list[bool] = []
    ag.set_grad_enabled(False)
    try:
        worker = threading.Thread(target=lambda: seen.append(ag.is_grad_enabled()))
        worker.start()
        worker.join()
        assert not ag.is_grad_enabled()
    finally:
        ag.set_grad_enabled(True)
    assert seen == [False]
    with ag.set_grad_enabled(False):
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()


def test_enable_grad_records_where_the_process_does_not() -> None:
    x = leaf(3)
    with ag.set_grad_enabled(False):
        assert not (x * 2).requires_grad
        with ag.enable_grad():
            y = x * 2
    y.backward()
    assert host(x.grad) == [2]


# -- mistakes that must not pass in silence -----------------------------------------------


def test_a_mutated_input_is_noticed() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    loss = ag.sum(x * w)
    w.overwrite(np.zeros(2, "float32"))
    with pytest.raises(MutationError, match=r"backward of mul.*changed in place.*test_engine"):
        loss.backward()


def test_a_mutated_view_is_noticed() -> None:
    w = leaf(3, 4)
    loss = ag.sum(ag.reshape(w, (2, 1)) * 2 * ag.reshape(w, (2, 1)))
    w.overwrite(np.zeros(2, "float32"))
    with pytest.raises(MutationError):
        loss.backward()


def test_a_mutation_that_no_gradient_reads_is_fine() -> None:
    x, w = leaf(1, 2), leaf(3, 4)
    loss = ag.sum(x + w)
    w.overwrite(np.zeros(2, "float32"))
    loss.backward()
    assert host(x.grad) == [1, 1]


def test_saves_counts_arguments_that_are_no_tensors(on_numpy: None) -> None:
    for number, noticed in ((1, False), (2, True)):
        args = [3.0, leaf(1), leaf(2)]
        y = ag.apply_op(lambda k, x, w: w * k, lambda g: [None, None, g], *args, saves=(2,))
        args[number].overwrite([5])
        if noticed:
            with pytest.raises(MutationError, match="changed in place"):
                y.backward()
        else:
            y.backward()


def test_wrong_gradients_of_a_grad_fn_are_named() -> None:
    x = leaf(1, 2)
    count = ag.apply_op(lambda v: v, lambda g: [g, g], x, op_name="twice")
    with pytest.raises(GradientError, match=r"backward of twice: grad_fn returned 2; expected 1"):
        count.backward(np.ones(2, "float32"))
    shape = ag.apply_op(lambda v: v, lambda g: [nc.Tensor.zeros(3)], x, op_name="bent")
    with pytest.raises(GradientError, match=r"backward of bent: a gradient of shape \(3,\)"):
        shape.backward(np.ones(2, "float32"))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32"])
def test_a_gradient_arrives_in_the_dtype_of_its_value(dtype: str) -> None:
    """Of float64 the kernel of the op before read every other half, of float16 beyond the end."""
    for device in nc.devices():
        if dtype == "float64" and not device.supports_fp64:
            continue
        with nc.use_device(device):
            x = nc.tensor([1.0, 2.0, 3.0], requires_grad=True)
            doubled = ag.apply_op(
                lambda y: y.detach(),
                lambda grad: [nc.Tensor.full((3,), 2, dtype)],
                ag.mul(x, x),
                op_name="doubled",
            )
            ag.sum(doubled).backward()
            assert x.grad.to_host().tolist() == [4, 8, 12]


def test_what_is_no_gradient() -> None:
    x = nc.tensor([1.0, 2.0], requires_grad=True)
    for given, text in ((np.ones(2), "a ndarray for a gradient"), (2.0, "a float for a gradient")):
        y = ag.apply_op(lambda y: y.detach(), lambda grad, g=given: [g], x, op_name="odd")
        with pytest.raises(GradientError, match=f"backward of odd: {text}"):
            ag.sum(y).backward()
    if nc.default_device().backend == "opencl":
        there = nc.tensor([1.0, 2.0], "numpy")
        y = ag.apply_op(lambda y: y.detach(), lambda grad: [there], x, op_name="moved")
        with pytest.raises(GradientError, match="backward of moved: a gradient on <Device numpy"):
            ag.sum(y).backward()


def test_only_floating_tensors_can_require_gradients() -> None:
    with pytest.raises(DtypeError, match="a int64 tensor"):
        nc.Tensor.from_host([1, 2], requires_grad=True)


def test_operands_on_two_devices() -> None:
    if len(nc.devices()) < 2:
        pytest.skip("only the NumPy path here")
    first, second = nc.devices()[0], nc.devices()[-1]
    x = nc.Tensor.ones(2, device=first)
    y = nc.Tensor.ones(2, device=second)
    with pytest.raises(DeviceError, match=rf"add: operands on .*\.to\('{first}'\)"):
        ag.add(x, y)


# -- values -----------------------------------------------------------------------------


def test_tensor_and_node_are_hashable_by_identity_with_short_reprs() -> None:
    x = leaf(1, 2)
    y = x * 2
    assert len({x, y, x, leaf(1, 2)}) == 3
    assert (x != leaf(1, 3)).numpy().tolist() == [False, True]  # element by element
    assert (
        repr(y) == f"Tensor([2., 4.], shape=(2,), dtype=float32, device={x.device}, grad_fn=<mul>)"
    )


def test_dtypes_from_host() -> None:
    assert nc.tensor([1.5]).dtype == "float32"
    assert nc.tensor([1, 2]).dtype == "int64"
    assert nc.tensor([2**40]).dtype == "int64"
    assert nc.tensor(True).dtype == "bool"
    assert nc.tensor(np.zeros(2, "uint8")).dtype == "uint8"
    assert nc.tensor(np.zeros(2)).dtype == "float64"
    for bad, name in ((1j, "complex128"), (np.array([None]), "object"), (["a"], "<U1")):
        with pytest.raises(DtypeError, match=name):
            nc.tensor(bad)
    with pytest.raises(DtypeError, match="uint16 is not supported"):
        nc.tensor(np.zeros(2, "uint16"))


def test_read_outs_on_tensor_and_node_alike() -> None:
    x = leaf(1, 2)
    for value in (x, x * 1):
        assert value.shape == (2,)
        assert (value.ndim, value.size, value.dtype, len(value)) == (1, 2, "float32", 2)
        np.testing.assert_array_equal(np.asarray(value), [1, 2])
        assert value[1].item() == 2
        assert not value.detach().requires_grad
    with pytest.raises(ShapeError, match="one element"):
        x.item()
    assert float(nc.tensor(2.5)) == 2.5
    assert [10, 20, 30][nc.tensor(1)] == 20


def test_from_host_copies() -> None:
    data = np.ones(3, "float32")
    x = nc.Tensor.from_host(data)
    data[:] = 5
    assert host(x) == [1, 1, 1]
    out = x.to_host()
    out[:] = 7
    assert host(x) == [1, 1, 1]


def test_copies_and_pickles() -> None:
    x = leaf(1, 2)
    deep = copy.deepcopy(x)
    assert deep.requires_grad
    assert deep.buffer is not x.buffer
    again = pickle.loads(pickle.dumps(x))
    assert host(again) == [1, 2]


def test_astype_and_to_are_differentiable() -> None:
    for device in nc.devices():
        x = leaf(1.5, -2.5)
        y = x.astype("float16").to(device).astype("float32") * 3
        y.to(x.device).backward(np.ones(2, "float32"))
        assert host(x.grad) == [3, 3]
        assert x.grad.dtype == "float32"
    assert host(leaf(1.7, -1.7).astype("int32")) == [1, -1]
    assert host(leaf(0.0, -1.7).astype("bool")) == [False, True]


def test_empty_tensors_everywhere() -> None:
    for device in nc.devices():
        x = nc.Tensor.from_host(np.zeros((0, 3), "float32"), device, requires_grad=True)
        y = ag.relu(x) * 2 + nc.Tensor.ones(3, device=device)
        assert y.to_host().shape == (0, 3)
        ag.sum(y).backward()
        assert x.grad.shape == (0, 3)


def test_numpy_on_the_left() -> None:
    x = leaf(1, 2)
    assert isinstance(np.ones(2, "float32") + x, ag.Node)
    assert host(np.float32(3) * x) == [3, 6]
    assert host(2**x) == [2, 4]


def test_threads_have_their_own_tapes_and_gradients() -> None:
    failures: list[str] = []

    def work(seed: int) -> None:
        x = leaf(*range(seed, seed + 5))
        for _ in range(30):
            x.grad = None
            with ag.Tape() as tape:
                loss = ag.sum(x * x * float(seed))
            tape.backward(loss)
            wanted = [2.0 * seed * v for v in range(seed, seed + 5)]
            if host(x.grad) != wanted or len(tape.nodes) != 3:
                failures.append(f"{seed}: {host(x.grad)}")

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 9)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


def test_arrivals_count_gradients_and_no_assignments() -> None:
    x = leaf(1, 2)
    ag.sum(x * x).backward()
    x.grad = None
    x.grad = nc.tensor([1.0, 1.0])
    assert x.arrivals == 1
    [gradient] = ag.grad(ag.sum(x * x), [x])
    assert x.arrivals == 1
    ag.accumulate_grad(x, gradient)
    assert x.arrivals == 2
    ag.backward(ag.sum(x * x) + ag.sum(x))  # a leaf used twice gets one gradient
    assert x.arrivals == 3
    graph = ag.capture(lambda y: ag.sum(x * y).backward() or y * 2, [1.0, 1.0])
    assert x.arrivals == 4
    for count in (5, 6):
        graph([3.0, 4.0])
        assert x.arrivals == count and host(x.grad) == [3, 4]
