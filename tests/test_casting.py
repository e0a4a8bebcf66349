"""Amp policies: in which dtypes ops compute, eagerly, compiled, captured and computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threads import in_threads

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import autodiff, nn
from netcl_core.errors import PluginError, RegistrationError
from netcl_core.runtime.stream import StreamWrapper, stream_of, use_stream

pytestmark = pytest.mark.usefixtures("either")

HALF = ag.AmpPolicy(
    "half",
    "float16",
    {
        "matmul": "allow", "linear": "allow", "tanh": "allow", "exp": "keep", "softmax": "keep",
        "layer_norm": "keep", "cross_entropy": "keep",
    },
    default="promote",
)  # fmt: skip


def values(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return nc.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def leaf(*shape: int, seed: int = 1) -> Any:
    return values(*shape, seed=seed).requires_grad_()


class Counting(StreamWrapper):
    """Counts the launches and host calls that do the work of a device."""

    count = 0

    def launch(self, *args: Any, **kwargs: Any) -> None:
        self.count += 1
        super().launch(*args, **kwargs)

    def host_call(self, *args: Any, **kwargs: Any) -> None:
        self.count += 1
        super().host_call(*args, **kwargs)


def launches(run: Callable[[], Any]) -> int:
    run()
    with use_stream(Counting(stream_of(nc.default_device()))) as stream:
        run()
    return stream.count


# -- the rules -------------------------------------------------------------------------


def test_an_allowed_op_computes_in_the_storage_dtype() -> None:
    x, w = values(3, 4), leaf(5, 4)
    with ag.casting(HALF):
        y = ag.linear(x, w)
    assert y.dtype == "float16"
    ag.sum(y).backward()
    assert w.grad.dtype == "float32"
    wanted = np.ones((3, 5)).T @ x.numpy()
    np.testing.assert_allclose(w.grad.numpy(), wanted, rtol=2e-3, atol=2e-3)


def test_a_kept_op_computes_in_float32() -> None:
    x = values(7, dtype="float16")
    with ag.casting(HALF):
        assert ag.exp(x).dtype == "float32"
        assert ag.softmax(x, 0).dtype == "float32"
    np.testing.assert_allclose(
        ag.exp(x).numpy(), np.exp(x.numpy().astype(np.float32)), rtol=2e-3, atol=1e-3
    )


def test_promotion_is_to_the_widest_dtype() -> None:
    half, single = values(2, 3, dtype="float16"), values(2, 3)
    with ag.casting(HALF):
        assert (half + half).dtype == "float16"
        assert (half + single).dtype == "float32"
        assert ag.cat([half, single]).dtype == "float32"
        assert ag.cat([half, half]).dtype == "float16"


@pytest.mark.parametrize("dtype", ["int32", "bool", "float64"])
def test_what_is_no_single_or_half_stays(dtype: str) -> None:
    if dtype == "float64" and not nc.default_device().supports_fp64:
        pytest.skip("no float64")
    x = nc.tensor(np.ones((2, 2), dtype))
    with ag.casting(ag.AmpPolicy("all", "float16", default="allow")):
        y = ag.cat([x, x])
        assert y.dtype == dtype
        assert ag.maximum(x, x).dtype == dtype


def test_views_are_let_through() -> None:
    x = values(2, 3, dtype="float16")
    with ag.casting(ag.AmpPolicy("single", "float16", default="keep")):
        assert ag.reshape(x, (3, 2)).dtype == "float16"
        assert (x * 1).dtype == "float32"


def test_mixed_operands_that_an_op_refuses_are_cast_before_it_sees_them() -> None:
    a, b = values(2, 3, dtype="float16"), values(3, 2)
    with pytest.raises(nc.errors.DtypeError):
        ag.matmul(a, b)
    with ag.casting(HALF):
        assert ag.matmul(a, b).dtype == "float16"
        assert ag.matmul(np.ones((2, 2), np.float32), a).dtype == "float16"


def test_a_composite_that_is_named_is_decided_as_a_whole() -> None:
    x, weight = values(2, 4, dtype="float16"), leaf(4)
    with ag.casting(HALF), ag.Tape() as tape:
        y = ag.layer_norm(x, (4,), weight)
    assert y.dtype == "float32"
    assert {node.dtype for node in tape.nodes} == {"float32"}
    ag.sum(y * y).backward()
    assert weight.grad.dtype == "float32"


def test_of_another_composite_the_parts_are_decided(give: Callable[..., None]) -> None:
    def squared_product(a: Any, b: Any) -> Any:
        return ag.square(ag.matmul(a, b))

    give("products", ag.composite(squared_product, ("a", "b")))
    a, b = values(2, 3), values(3, 2)
    with ag.casting(HALF):
        assert ag.squared_product(a, b).dtype == "float16"
    named = ag.AmpPolicy("named", "float16", {"squared_product": "keep", "matmul": "allow"})
    with ag.casting(named):
        assert ag.squared_product(a, b).dtype == "float32"


def test_an_elementwise_op_casts_in_its_kernel() -> None:
    x = values(1000).requires_grad_()
    with ag.casting(HALF):
        assert launches(lambda: ag.tanh(x)) == 1
        assert ag.tanh(x).dtype == "float16"
        y = ag.tanh(x)
    (ag.sum(y)).backward()
    assert x.grad.dtype == "float32"
    np.testing.assert_allclose(x.grad.numpy(), 1 - np.tanh(x.numpy()) ** 2, atol=2e-3)


# -- scopes ----------------------------------------------------------------------------


def test_blocks_nest_and_are_left_after_an_error() -> None:
    assert ag.amp_policy() is None
    with ag.casting(HALF):
        with pytest.raises(ZeroDivisionError), ag.casting(None):
            assert ag.amp_policy() is None
            raise ZeroDivisionError
        assert ag.amp_policy() is HALF
    assert ag.amp_policy() is None


def test_a_decorated_generator_computes_so_while_its_own_code_runs() -> None:
    x = values(2, 2)

    @ag.casting(HALF)
    def pairs() -> Any:
        yield ag.matmul(x, x)
        yield ag.matmul(x, x)

    for y in pairs():
        assert y.dtype == "float16"
        assert ag.matmul(x, x).dtype == "float32"


def test_another_thread_is_not_concerned() -> None:
    x = values(2, 2)

    def work(number: int) -> None:
        assert ag.matmul(x, x).dtype == "float32"
        with ag.casting(HALF):
            assert ag.matmul(x, x).dtype == "float16"

    with ag.casting(HALF):
        in_threads(work, 4)


def test_a_function_of_apply_op_computes_in_what_it_is_given() -> None:
    x = leaf(3)
    with ag.casting(ag.AmpPolicy("all", "float16", default="allow")):
        y = ag.apply_op(lambda v: ag.tanh(v), lambda grad: [grad * 1], x, op_name="own")
        assert y.dtype == "float32"
        ag.sum(y).backward()
    assert x.grad.numpy().tolist() == [1, 1, 1]


def test_a_backward_computes_in_what_it_is_given() -> None:
    x, w, dtypes = leaf(3, 3), values(3, 3), []

    def backward(grad: Any) -> list[Any]:
        found = ag.matmul(grad, w)
        dtypes.append(found.dtype)
        return [found]

    with ag.casting(HALF):
        ag.sum(ag.apply_op(lambda v: v * 1, backward, x, op_name="own")).backward()
    assert dtypes == ["float32"]


def test_gradients_do_not_depend_on_where_backward_is_called() -> None:
    found = []
    for inside in (True, False):
        w = leaf(4, 4)
        with ag.casting(HALF):
            loss = ag.sum(ag.softmax(ag.matmul(w, w), 1) * values(4, 4, seed=3))
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        found.append(w.grad.numpy())
    np.testing.assert_array_equal(*found)


# -- casts of leaves -------------------------------------------------------------------


def casts_of(y: Any, w: Any) -> Any:
    """The cast of w that went into a product."""
    return next(x for x in y.parents if x.op_name == "autocast" and x.parents[0].value is w)


def test_a_leaf_is_cast_once_per_block_until_it_changes() -> None:
    x, w = values(3, 3, dtype="float16"), leaf(3, 3)
    with ag.casting(HALF):
        first, second = ag.matmul(x, w), ag.matmul(x, w)
        assert casts_of(first, w) is casts_of(second, w)
        with ag.casting(HALF):
            assert casts_of(ag.matmul(x, w), w) is casts_of(first, w)
        w.overwrite(np.zeros((3, 3), np.float32))
        third = ag.matmul(x, w)
        assert not third.numpy().any()
    with ag.casting(HALF):
        assert casts_of(ag.matmul(x, w), w) is not casts_of(third, w)


def test_a_cast_without_a_gradient_is_not_taken_where_one_is_wanted() -> None:
    x, w = values(3, 3, dtype="float16"), leaf(3, 3)
    with ag.casting(HALF):
        with ag.no_grad():
            ag.matmul(x, w)
        ag.sum(ag.matmul(x, w)).backward()
    assert w.grad is not None


def test_gradients_of_several_uses_meet_in_the_one_cast() -> None:
    x, w = values(3, 3), leaf(3, 3)
    with ag.casting(HALF):
        loss = ag.sum(ag.matmul(ag.matmul(x, w), w))
    loss.backward()
    a = x.numpy().astype(np.float64)
    b = w.numpy().astype(np.float64)
    ones = np.ones((3, 3))
    np.testing.assert_allclose(
        w.grad.numpy(), (a @ b).T @ ones + a.T @ (ones @ b.T), rtol=1e-2, atol=2e-2
    )


def test_a_checkpoint_computes_again_in_the_same_dtypes() -> None:
    w, x = leaf(4, 4), values(2, 4)

    def block(x: Any) -> Any:
        return ag.softmax(ag.matmul(ag.matmul(x, w), w), 1) * values(2, 4, seed=5)

    found = []
    for call in (block, lambda x: autodiff.checkpoint(block, x)):
        w.grad = None
        with ag.casting(HALF):
            ag.matmul(x, w)  # so that a cast is there already
            loss = ag.sum(call(x))
        loss.backward()
        found.append(w.grad.numpy())
    np.testing.assert_array_equal(*found)


def test_a_replay_casts_what_the_parameters_are_by_then() -> None:
    w, x = leaf(3, 3), values(3, 3)
    with ag.casting(HALF):
        ag.matmul(x, w)  # a cast of before, which the capture must not use
        graph = ag.capture(lambda x: ag.matmul(x, w), x)
    w.overwrite(np.zeros((3, 3), np.float32))
    assert not graph(x).numpy().any()


def test_second_derivatives() -> None:
    x = leaf(3, 3)
    with ag.casting(HALF):
        y = ag.sum(ag.exp(ag.matmul(x, x) * 0.1))
        [first] = ag.grad(y, [x], create_graph=True)
        [second] = ag.grad(ag.sum(first * first), [x])
    assert first.dtype == second.dtype == "float32"
    plain = ag.sum(ag.exp(ag.matmul(x, x) * 0.1))
    [first] = ag.grad(plain, [x], create_graph=True)
    [wanted] = ag.grad(ag.sum(first * first), [x])
    np.testing.assert_allclose(second.numpy(), wanted.numpy(), rtol=2e-2, atol=2e-2)


# -- compiled functions ----------------------------------------------------------------


def test_the_policy_is_part_of_the_key() -> None:
    x = values(2, 2)
    product = ag.jit_compile(lambda x: ag.matmul(x, x))
    for _ in range(2):
        assert product(x).dtype == "float32"
        with ag.casting(HALF):
            assert product(x).dtype == "float16"
    assert product.cache_info().misses == 2


def test_a_chain_of_mixed_dtypes_is_one_kernel_without_rounding_in_between() -> None:
    x = values(4099, dtype="float16")

    def chain(x: Any) -> Any:
        return ag.exp(ag.tanh(ag.exp(ag.relu(x)) * 0.5) * 2)

    compiled = ag.jit_compile(chain)
    with ag.casting(HALF):
        assert compiled.lower(x).launches == 1
        y = compiled(x)
    assert y.dtype == "float32"
    wide = np.maximum(x.numpy().astype(np.float64), 0)
    np.testing.assert_allclose(y.numpy(), np.exp(2 * np.tanh(np.exp(wide) * 0.5)), rtol=1e-5)


def test_a_chain_stores_half_and_has_the_gradients_of_float32() -> None:
    x = values(1000).requires_grad_()
    compiled = ag.jit_compile(lambda x: ag.tanh(ag.relu(x) * 2))
    with ag.casting(HALF):
        assert compiled.lower(x).launches == 1
        y = compiled(x)
        assert y.dtype == "float16"
    ag.sum(y).backward()
    found, x.grad = x.grad.numpy(), None
    ag.sum(ag.tanh(ag.relu(x) * 2)).backward()
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=2e-3, atol=1e-6)


def test_a_weight_is_cast_once_per_compiled_call() -> None:
    w, x = leaf(4, 4), values(2, 4)

    def twice(x: Any) -> Any:
        return ag.matmul(ag.matmul(x, w), w)

    with ag.casting(HALF):
        text = ag.jit_compile(twice).explain(x)
    assert text.count("kernel: autocast") == 2  # of x, and of w
    assert "under the amp policy half" in text


def test_casts_of_many_weights_are_one_launch_each_way() -> None:
    """Sixteen at most, of any sizes; one that is a view is cast where it lies."""
    weights = [leaf(3, size, seed=size) for size in range(1, 19)]
    view = values(2, 3, 5)[1]

    def loss(x: Any) -> Any:
        with ag.casting(HALF):
            return sum(ag.sum(ag.matmul(x, w).astype("float32")) for w in (*weights, view))

    x = values(4, 3)
    compiled = ag.jit_compile(loss)
    results = []
    for function in (loss, compiled, compiled):
        for weight in weights:
            weight.grad = None
        total = function(x)
        total.backward()
        results.append([total.numpy(), *(weight.grad.numpy() for weight in weights)])
    for found in results[1:]:
        for mine, right in zip(found, results[0], strict=True):
            np.testing.assert_allclose(mine, right, 2e-3, 2e-3)
    if nc.default_device().has_kernels:
        text = str(compiled.explain(x))
        counts = [line.count("autocast") for line in text.splitlines() if "autocast" in line]
        assert sorted(counts) == [2, 2, 16]


def test_an_astype_of_the_user_rounds_as_before() -> None:
    x = values(100)
    compiled = ag.jit_compile(lambda x: (x * 1.001).astype("float16").astype("float32") - x)
    with ag.casting(HALF):
        wanted = (x.numpy() * np.float32(1.001)).astype(np.float16).astype(np.float32) - x.numpy()
        np.testing.assert_allclose(compiled(x).numpy(), wanted, atol=1e-7)


def test_a_model_of_layers_trains() -> None:
    nc.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 3))
    x, y = values(32, 8), nc.tensor(np.arange(32) % 3)
    found = []
    for policy in (None, HALF):
        model.zero_grad()
        with ag.casting(policy):
            loss = ag.cross_entropy(model(x), y)
        loss.backward()
        found.append([loss.item(), *(p.grad.numpy() for p in model.parameters())])
    for half, single in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(half, single, rtol=2e-2, atol=3e-3)


# -- records ---------------------------------------------------------------------------


def test_a_policy_is_found_by_its_name(give: Callable[..., None]) -> None:
    give("policies", HALF)
    with ag.casting("half"):
        assert ag.amp_policy() is HALF
    with pytest.raises(PluginError, match=r"'hlaf' is brought by no active plugin; .*half"):
        ag.casting("hlaf").__enter__()
    assert ag.amp_policy() is None


def test_two_providers_of_one_name_are_an_error(give: Callable[..., None]) -> None:
    give("one", HALF)
    give("two", ag.AmpPolicy("half", "float32"))
    with pytest.raises(nc.errors.AmbiguousOpError, match="NETCL_RANK"):
        ag.casting("half").__enter__()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"storage": "int32"}, "storage 'int32'"),
        ({"ops": {"exp": "half"}}, "the rule 'half' for exp"),
        ({"kinds": {"loss": "keep"}}, "a rule for 'loss'"),
        ({"default": ""}, "the default ''"),
        ({"forbids": "exp"}, "forbids = 'exp'"),
        ({"tolerance": 0}, "the tolerance 0"),
        ({"tolerance": float("nan")}, "the tolerance nan"),
    ],
)
def test_a_wrong_record_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(RegistrationError, match="amp policy 'mine'") as raised:
        ag.AmpPolicy("mine", **{"storage": "float16", **fields})
    assert told in str(raised.value)


def test_a_policy_that_needs_half_arithmetic_leaves_other_devices_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strict = ag.AmpPolicy("strict", "float16", default="allow", needs_fp16=True)
    x = values(2, 2)
    with ag.casting(strict):
        assert ag.matmul(x, x).dtype == "float16"
    monkeypatch.setattr(nc.Device, "supports_fp16", property(lambda self: False))
    with ag.casting(strict):
        assert ag.matmul(x, x).dtype == "float32"
        assert ag.exp(x).dtype == "float32"


# -- beside what others bring -----------------------------------------------------------


def test_a_pattern_plans_with_what_the_policy_has_decided(give: Callable[..., None]) -> None:
    group = ag.MatchedOp("tanh", (ag.MatchedOp("matmul", ("a", "b")),))
    planned = []

    def plan(a: Any, b: Any) -> Any:
        planned.append((a.dtype, b.dtype))
        return ag.relu(ag.matmul(a, b))

    give("pattern", ag.TrainingPattern("product_tanh", group, plan))
    x = values(3, 3)
    every = ag.AmpPolicy("every", "float16", {"matmul": "allow"}, default="promote")
    with ag.casting(every):
        y = ag.jit_compile(lambda x: ag.tanh(ag.matmul(x, x)))(x)
    assert y.dtype == "float16"
    assert planned == [("float16", "float16")]
    assert (y.numpy() >= 0).all()


def test_an_implementation_of_a_composite_is_given_what_its_rule_says(
    give: Callable[..., None],
) -> None:
    if nc.default_device().backend == "numpy":
        pytest.skip("the function serves there")
    seen = []

    def twice(x: Any) -> Any:
        return ag.exp(x) * 2

    def refuse(request: Any) -> str:
        seen.append(request.inputs[0].dtype)
        return "never"

    needs = ag.Requirements(reject=refuse)
    give("twice", ag.composite(twice, ("x",)))
    give("own", ag.Implementation("twice", "own", lambda request: None, needs))
    policy = ag.AmpPolicy("named", "float16", {"twice": "allow", "exp": "keep"})
    with ag.casting(policy):
        assert ag.twice(values(3)).dtype == "float16"
    assert set(seen) == {"float16"}
