"""What an autograd package on OpenCL got wrong before, one regression test per trap.

ELSEWHERE names the traps whose test stands with its subject; the others follow.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import DtypeError, ShapeError

ROOT: Final = Path(__file__).resolve().parent.parent
ENGINE: Final = "tests/test_engine.py"
ANOMALY: Final = "tests/test_anomaly.py"
NUMERICS: Final = "plugins/netcl-plugin-kit/tests/numerics/test_checking.py"
STRESS: Final = "tests/test_stress.py"
JIT: Final = "tests/test_jit.py"
KEYS: Final = "tests/test_jit_keys.py"
FACE: Final = "tests/test_face.py"
EXPRESSIONS: Final = "tests/test_expressions.py"
ELEMENTWISE: Final = "plugins/netcl-plugin-elementwise/tests/test_traps.py"
LOSSES: Final = "plugins/netcl-plugin-losses/tests/test_traps.py"
DETECTION: Final = "plugins/netcl-plugin-detection/tests/test_traps.py"

ELSEWHERE: Final[dict[str, tuple[str, str]]] = {
    # autograd
    "leaving an inner tape forgets the outer one":
        (ENGINE, "test_leaving_an_inner_tape_restores_the_outer_one"),
    "there is no implicit tape":
        (ENGINE, "test_backward_after_the_block_and_without_the_tape"),
    "a forgotten reset() keeps every graph":
        (STRESS, "test_a_thousand_steps_leave_memory_flat"),
    "Tensor * Tensor records nothing":
        (ENGINE, "test_tensor_times_tensor_is_recorded"),
    "a second backward gives 36 instead of 24":
        (ENGINE, "test_a_second_backward_adds_the_same_gradient_again"),
    "two losses on one graph give 42 instead of 30":
        (ENGINE, "test_two_losses_on_one_graph"),
    "a leaf that needs no gradient gets one, constant branches run backward":
        (ENGINE, "test_constants_get_no_gradient_and_record_nothing"),
    "a tape that goes out of scope drops all gradients":
        (ENGINE, "test_backward_after_the_block_and_without_the_tape"),
    "nodes and tensors are unhashable, == compares fields, repr prints the graph":
        (ENGINE, "test_tensor_and_node_are_hashable_by_identity_with_short_reprs"),
    "op_name is always 'unknown'":
        (ENGINE, "test_a_node_knows_its_op_parents_and_place"),
    "a bare @no_grad is a TypeError":
        (ENGINE, "test_no_grad_in_its_three_forms"),
    "anomaly mode around backward alone has an empty trace":
        (ANOMALY, "test_a_nan_gradient_is_found_with_the_mode_around_backward_alone"),
    "a gradient off by 777x passes the anomaly check":
        (NUMERICS, "test_check_numerics_finds_a_gradient_that_is_off"),
    "a mutated input silently gives a wrong gradient":
        (ENGINE, "test_a_mutated_input_is_noticed"),
    "a non-scalar loss is silently seeded with ones":
        (ENGINE, "test_a_non_scalar_loss_needs_a_seed"),
    # gradients and numerics
    "swish lacks the factor sigma":
        (ELEMENTWISE, "test_swish_gradient_has_its_sigma_factor"),
    "mse_loss is a sum and ignores the upstream gradient":
        (LOSSES, "test_mse_loss_is_a_mean_and_uses_the_upstream_gradient"),
    "l1_loss raises in backward":
        (LOSSES, "test_regression_losses_have_gradients_of_both_inputs"),
    "ties in maximum and minimum go to one side":
        (ELEMENTWISE, "test_ties_share_the_gradient"),
    "relu(NaN) and maximum(NaN, 0) give 0":
        (ELEMENTWISE, "test_nan_propagates"),
    "pow(0, 0) has a NaN gradient":
        (ELEMENTWISE, "test_pow_of_zero"),
    "softplus(100), log1p(1e-8), elu(100) and gelu(30)":
        (ELEMENTWISE, "test_large_and_small_arguments"),
    "where(c, x, 0) with NaN or inf in x":
        (ELEMENTWISE, "test_where_does_not_touch_what_it_does_not_select"),
    "cross_entropy builds two programs at every step":
        (LOSSES, "test_new_numbers_build_nothing"),
    "a class index out of range is read":
        (LOSSES, "test_a_class_index_out_of_range_raises"),
    "the clamp of a probability has gradient 0 inside and 1e7 outside":
        (DETECTION, "test_the_gradient_beyond_the_clamp_is_not_1e7"),
    "a loss waits for the device twice":
        (DETECTION, "test_the_fused_loss_does_not_wait_for_the_device"),
    "gelu(approximate=...) is ignored":
        (ELEMENTWISE, "test_gelu_approximate_is_not_ignored"),
    "a barrier that not all items of a group reach hangs for ever":
        ("tests/test_sanitizer.py", "test_nothing_is_found"),
    # the JIT
    "kwargs are ignored in the trace":
        (KEYS, "test_keyword_arguments"),
    "arguments that are no scalars are keyed by id()":
        (KEYS, "test_objects_as_arguments"),
    "closures are frozen":
        (KEYS, "test_a_change_is_noticed"),
    "no device in the key":
        (KEYS, "test_another_device_is_another_program"),
    "every batch size recompiles":
        (JIT, "test_a_new_batch_size_builds_nothing"),
    "an unused argument gets an uninitialised gradient":
        (JIT, "test_an_unused_input_has_no_gradient"),
    "fp16, fp64 and int inputs give garbage":
        (JIT, "test_mixed_dtypes_on_devices"),
    "expressions are joined without parentheses, 1 instead of 3 with a second consumer":
        (JIT, "test_a_comparison_with_two_consumers"),
    "fallback examples of the documents raise":
        (JIT, "test_the_mlp_block_of_the_documents"),
    "1,500 ops: RecursionError":
        (JIT, "test_two_thousand_ops_on_a_device"),
    "more than four dimensions: error":
        (JIT, "test_shapes"),
    "node names from id() make the disk cache miss for ever":
        (KEYS, "test_sources_do_not_depend_on_the_process"),
    "functions and their closures are never freed":
        (KEYS, "test_functions_and_what_they_close_over_are_freed"),
    "no functools.wraps":
        (JIT, "test_bare_and_with_options_and_wraps"),
    "gelu(approximate=...) is ignored in a chain":
        (JIT, "test_words_as_attributes"),
    # scalars
    "every new Python scalar compiles a kernel":
        (STRESS, "test_new_scalars_build_no_program"),
    "inf, nan, ints, NumPy scalars and 0-d arrays fail as scalars":
        (ELEMENTWISE, "test_scalars_of_every_kind"),
    "-3 / x, x**y, 2**x, clamp(x, 0, 1) and elu(alpha=2) fail":
        (ELEMENTWISE, "test_operators_with_scalars_on_either_side"),
    "smooth_l1(beta=1) fails":
        (LOSSES, "test_smooth_l1_takes_beta_of_any_number_type"),
    # shapes and dtypes
    "complex silently loses its imaginary part":
        ("tests/test_bad_input.py", "test_no_op_takes_what_is_no_tensor"),
    "1,500 ops in a row are too deep":
        (ENGINE, "test_ten_thousand_ops_deep"),
    "kernels are hard-coded to float":
        ("plugins/netcl-plugin-elementwise/tests/test_dtypes_of_ops.py",
         "test_mixed_float_gradients_have_their_inputs_dtypes"),
    # primitives
    "a primitive with the wrong number of gradients gives uninitialised memory":
        (EXPRESSIONS, "test_a_wrong_backward_is_refused"),
    "a duplicate name silently replaces a built-in":
        (EXPRESSIONS, "test_a_duplicate_name_is_refused"),
    "expressions are joined without parentheses":
        (EXPRESSIONS, "test_precedence_and_associativity"),
    # threads and process
    "one kernel object for all threads: 55 of 1,600 results wrong":
        (STRESS, "test_twenty_thousand_ops_in_threads"),
    "no_grad of one thread stops another's training":
        (ENGINE, "test_no_grad_stops_only_its_own_thread"),
    "importing loads the world":
        (FACE, "test_importing_is_light"),
}  # fmt: skip


@pytest.mark.parametrize("trap", ELSEWHERE)
def test_a_trap_that_is_tested_elsewhere(trap: str) -> None:
    file, name = ELSEWHERE[trap]
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert name in functions, f"the test of {trap!r} is gone from {file}"


@pytest.fixture(params=usable_devices(), ids=lambda device: device.platform.split()[0])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Every usable device in turn."""
    with nc.use_device(request.param):
        yield request.param


def leaf(*values: float) -> Any:
    return ag.tensor(nc.tensor(np.float32(values)), requires_grad=True)


def host(value: Any) -> list[float]:
    found: list[float] = value.to_host().tolist()
    return found


def close(found: Any, wanted: Any, rtol: float = 1e-6) -> None:
    np.testing.assert_allclose(found.to_host(), wanted, rtol, 1e-7)


# -- autograd -------------------------------------------------------------------------------------


def test_mul_of_two_tensors_has_parents_and_gradients(device: Any) -> None:
    x, w = (nc.Tensor.full((2,), value).requires_grad_() for value in (3.0, 4.0))
    product = ag.mul(x, w)
    assert [parent.value for parent in product.parents] == [x, w]
    product.backward(np.ones(2, np.float32))
    assert host(x.grad) == [4, 4]
    assert host(w.grad) == [3, 3]


def test_reset_forgets_the_nodes_and_keeps_the_gradients() -> None:
    x = leaf(2)
    tape = ag.Tape()
    with tape:
        loss = ag.sum(x * x)
    ag.backward(loss)
    assert len(tape.nodes) == 2
    tape.reset()
    assert tape.nodes == []
    assert host(x.grad) == [4]
    current = ag.get_current_tape()
    current.reset()
    assert current.nodes == []


def test_evaluation_code_works_as_training_code_does(device: Any) -> None:
    """All operators on what ops return under no_grad."""
    x = leaf(1, 2)

    def code(y: Any) -> list[list[float]]:
        results = (y**2, 2**y, y > 1.5, y <= 1, -y, abs(y), 3 / y, 1 - y, y @ y, y.T, y[0], y + y)
        return [host(result * 1) for result in results]

    trained = code(x * 1.0)
    with ag.no_grad():
        y = x * 1.0
        assert isinstance(y, nc.Tensor) and not y.requires_grad
        assert code(y) == trained


# -- gradients and numerics ------------------------------------------------------------------------


def test_ties_in_max_and_min_share_the_gradient(device: Any) -> None:
    for op in (ag.max, ag.min):
        x = leaf(5, 5, 5, 5)
        op(x).backward()
        assert host(x.grad) == [0.25] * 4


def test_l2_loss_has_a_gradient(device: Any) -> None:
    """`mse_loss(reduction='sum') / 2`, which has no name of its own."""
    x, y = leaf(1, 2), leaf(4, 6)
    (ag.mse_loss(x, y, reduction="sum") * 0.5 * 2.0).backward()
    assert host(x.grad) == [-6, -8]
    assert host(y.grad) == [6, 8]


@pytest.mark.parametrize("shape", [(), (3,), (2, 1), (2, 3)], ids=str)
def test_class_indices_of_the_wrong_shape_are_refused(device: Any, shape: Any) -> None:
    """They would be read out of bounds."""
    with pytest.raises(ShapeError, match=r"cross_entropy: .*expected target of shape \(2,\)"):
        ag.cross_entropy(nc.Tensor.zeros((2, 3)), nc.Tensor.zeros(shape, "int64"))


def test_no_kernel_returns_before_a_barrier() -> None:
    """Such a kernel hangs some drivers for ever; the simulator finds it only for some sizes."""
    folders = [ROOT / "templates", *(ROOT / "plugins").glob("*/src/*/templates")]
    files = [path for folder in folders for path in folder.rglob("*.j2")]
    assert files
    for path in files:
        before, barrier, _ = path.read_text(encoding="utf-8").rpartition("barrier(")
        body = before.rpartition("kernel void")[2]
        assert not barrier or not re.search(r"\breturn\s*;", body), path.name


def test_a_sum_of_many_equal_floats_does_not_drift(device: Any) -> None:
    """One running total in float32 would be off by 3e-3 at 2^21 elements, and worse beyond."""
    found = ag.sum(nc.Tensor.full((2**21,), 0.1)).item()
    assert found == pytest.approx(2**21 * float(np.float32(0.1)), rel=2e-6)


# -- scalars --------------------------------------------------------------------------------------


def test_numpy_integers_as_attributes_and_scalars(device: Any) -> None:
    x = leaf(-1, 2)
    close(ag.leaky_relu(x, np.int32(2)), [-2, 2])
    close(ag.elu(x, alpha=np.array(2)), [2 * math.expm1(-1), 2], 1e-5)
    close(x + np.uint8(3), [2, 5])
    close(np.int64(3) - x, [4, 1])
    close(ag.sum(x, np.int64(0)), 1)
    close(x[np.int8(1)], 2)
    close(ag.reshape(x, (np.int32(2), np.int64(1))), [[-1], [2]])


# -- shapes and dtypes ----------------------------------------------------------------------------


EMPTY: Final[dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]]] = {
    "add": (lambda x: x + x, (0, 3)),
    "a row broadcast": (lambda x: x * nc.Tensor.ones((3,)), (0, 3)),
    "sum": (lambda x: ag.sum(x, 0), (3,)),
    "mean": (lambda x: ag.mean(x, 1), (0,)),
    "softmax": (lambda x: ag.softmax(x, 1), (0, 3)),
    "cumsum": (lambda x: ag.cumsum(x, 0), (0, 3)),
    "matmul": (lambda x: x @ nc.Tensor.ones((3, 2)), (0, 2)),
    "matmul without inner": (lambda x: ag.transpose(x, 0, 1) @ x, (3, 3)),
    "linear": (lambda x: ag.linear(x, nc.Tensor.ones((4, 3)), nc.Tensor.ones((4,))), (0, 4)),
    "permute": (lambda x: ag.permute(x, (1, 0)), (3, 0)),
    "expand": (lambda x: ag.expand(x, (2, 0, 3)), (2, 0, 3)),
    "getitem": (lambda x: x[:, 1:], (0, 2)),
    "cat": (lambda x: ag.cat((x, nc.Tensor.ones((2, 3)), x)), (2, 3)),
    "pad": (lambda x: ag.pad(x, (0, 0, 1, 1)), (2, 3)),
    "flip": (lambda x: ag.flip(x, 0), (0, 3)),
    "index_select": (lambda x: ag.index_select(x, 1, nc.tensor([0, 0])), (0, 2)),
    "layer_norm": (lambda x: ag.layer_norm(x, 3), (0, 3)),
    "dropout": (lambda x: ag.dropout(x), (0, 3)),
    "astype": (lambda x: x.astype("float16"), (0, 3)),
}


@pytest.mark.parametrize("op", EMPTY)
def test_empty_arrays(device: Any, op: str) -> None:
    function, shape = EMPTY[op]
    x = nc.Tensor.zeros((0, 3)).requires_grad_()
    result = function(x)
    assert result.shape == result.to_host().shape == shape
    result.backward(np.ones(shape, result.dtype))
    assert x.grad.to_host().shape == (0, 3)


def test_float64_stays_float64(device: Any) -> None:
    if not device.supports_fp64:
        pytest.skip("this device has no float64")
    third = np.full((2, 2), 1 / 3)
    x = ag.tensor(nc.tensor(third), requires_grad=True)
    loss = ag.sum(ag.softmax(x @ x, 1) * x)
    loss.backward()
    assert {x.dtype, loss.dtype, x.grad.dtype} == {"float64"}
    assert loss.item() == pytest.approx(2 / 3, rel=1e-15)


def test_complex_is_refused_by_name(device: Any) -> None:
    for given in (1j, [1 + 0j], np.ones(2, np.complex64)):
        with pytest.raises(DtypeError, match="complex"):
            nc.tensor(given)
        with pytest.raises(DtypeError, match=r"add: .*complex"):
            nc.Tensor.ones((2,)) + given


def test_reshape_keeps_the_number_of_elements(device: Any) -> None:
    x = nc.Tensor.ones((3,))
    for shape in ((2, 2), (2, -1), (0,), (3, 0)):
        with pytest.raises(ShapeError, match=r"reshape: .*a shape of 3 elements"):
            x.reshape(shape)


MATMUL: Final = (
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((4, 2, 3), (3,)),
    ((3,), (4, 3, 2)),
    ((4, 2, 3), (3, 2)),
    ((2, 3), (4, 3, 2)),
    ((5, 1, 2, 3), (4, 3, 2)),
)


@pytest.mark.parametrize(("a", "b"), MATMUL, ids=str)
def test_matmul_of_vectors_and_broadcast_batches(device: Any, a: Any, b: Any) -> None:
    random = np.random.default_rng(0)
    x, y = random.standard_normal(a).astype("float32"), random.standard_normal(b).astype("float32")
    s, t = (ag.tensor(nc.tensor(array), requires_grad=True) for array in (x, y))
    result = s @ t
    close(result, x @ y, 1e-4)
    upstream = np.ones(result.shape, np.float32)
    result.backward(upstream)
    for node, array, other in ((s, x, (lambda v: v @ y)), (t, y, (lambda v: x @ v))):
        slopes = np.zeros(array.size)
        for place in range(array.size):  # the product is linear in each operand
            unit = np.zeros(array.size)
            unit[place] = 1
            slopes[place] = other(unit.reshape(array.shape)).sum()
        np.testing.assert_allclose(node.grad.to_host(), slopes.reshape(array.shape), 1e-4, 1e-5)


@pytest.mark.parametrize("axes", [{"axis": (0, 1)}, {"dim": [0, -1]}, {"axis": (-1,)}, {}], ids=str)
def test_sum_over_several_axes(device: Any, axes: dict[str, Any]) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    over = next((tuple(value) for value in axes.values()), None)
    t = ag.tensor(nc.tensor(x), requires_grad=True)
    for keepdims in (False, True):
        close(ag.sum(t, **axes, keepdims=keepdims), x.sum(axis=over, keepdims=keepdims))
    result = ag.sum(t, **axes)
    result.backward(np.full(result.shape, 2, np.float32))
    assert (t.grad.to_host() == 2).all()


def test_more_than_four_dimensions(device: Any) -> None:
    x = np.arange(64, dtype=np.float32).reshape((2,) * 6)
    y = x[:, :1, :, :1, :, :1]
    a, b = (ag.tensor(nc.tensor(array), requires_grad=True) for array in (x, y))
    ag.sum(a * b).backward()
    close(a.grad, np.broadcast_to(y, x.shape))
    close(b.grad, x.sum(axis=(1, 3, 5), keepdims=True))


def test_element_counts_are_64_bit() -> None:
    """No kernel takes a size, a stride or an offset as int: it would wrap beyond 2^31.

    The places of an item within its work-group are small.
    """
    folders = [ROOT / "templates", *(ROOT / "plugins").glob("*/src/*/templates")]
    narrow = [
        f"{path.name}: {match}"
        for folder in folders
        for path in folder.rglob("*.j2")
        for match in re.findall(
            r"const u?int (?!lane\b|member\b)\w+[,)]", path.read_text(encoding="utf-8")
        )
    ]
    assert narrow == []


# -- process --------------------------------------------------------------------------------------


def test_no_signal_handlers_are_installed(python: Callable[..., str]) -> None:
    """Neither by the import, nor by a device and an op on it."""
    code = """
import signal

def handlers():
    return {number: signal.getsignal(number) for number in signal.valid_signals()}

before = handlers()
import netcl_core as nc
import netcl_core.autograd as ag
ag.sum(ag.relu(nc.Tensor.ones((3,)).requires_grad_())).backward()
nc.optim, nc.nn, nc.data
after = handlers()
print([number for number in before if before[number] is not after[number]])
"""
    assert python(code) == "[]"


def test_importing_loads_few_modules(python: Callable[..., str]) -> None:
    """The face, the errors, the registry with its rules and settings, the finder of namespaces."""
    code = """
import sys
before = set(sys.modules)
import netcl_core
new = set(sys.modules) - before
ours = {name for name in new if name.startswith('netcl')}
foreign = {name.partition('.')[0] for name in new - ours} - set(sys.stdlib_module_names)
print(len(ours), *sorted(foreign))
"""
    count, *foreign = python(code).split()
    assert int(count) <= 6
    assert foreign == []
