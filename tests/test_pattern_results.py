"""Training patterns with several results: what matches, what takes their place, what fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from daily import examples
from grown import compiler_of, data
from hypothesis import given, settings
from hypothesis import strategies as st

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import Captured, MatchedOp, Operator, TrainingPattern
from netcl_core.errors import FusionError, FusionSkipped, RegistrationError

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")
pytestmark = pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")

OP = MatchedOp
#: A running mean, and a step by it: the second result is read by the first.
MEAN = OP("add", (OP("mul", ("m", Captured("keep"))), "g"))
STEP = OP("sub", ("p", OP("mul", (MEAN, Captured("lr")))))


def step(p: Any, g: Any, m: Any) -> Any:
    m = m * 0.5 + g
    return p - m * 0.25, m


def _plan_step(p: Any, g: Any, m: Any, keep: Any, lr: Any) -> Any:
    m = ag.add(g, ag.mul(m, keep))
    return ag.sub(p, ag.mul(lr, m)), m


def momentum(planner: Any = _plan_step, **fields: Any) -> TrainingPattern:
    return TrainingPattern("momentum", (STEP, MEAN), planner, **fields)


def _circle_backward(saved: Any, *grads: Any) -> list[Any]:
    sine, cosine = saved.outputs
    terms = [t * g for t, g in zip((cosine, ag.neg(sine)), grads, strict=True) if g is not None]
    return [terms[0] if len(terms) == 1 else terms[0] + terms[1]]


def _circle_plan(request: ag.Request) -> Any:
    def compute(inputs: Any, sine: Any, cosine: Any) -> None:
        np.sin(inputs[0], out=sine)
        np.cos(inputs[0], out=cosine)

    return nc.HostCall(compute)


CIRCLE = Operator(
    "circle",
    bind=lambda x: ((x,), {}),
    infer=lambda x: (x, x),
    reference=lambda x: (np.sin(x), np.cos(x)),
    backward=_circle_backward,
    implementations=(ag.Implementation("circle", "host", _circle_plan),),
)
#: Results of which neither is read by the other.
BOTH = (OP("sin", ("x",)), OP("cos", ("x",)))


def circle(planner: Any = CIRCLE, **fields: Any) -> TrainingPattern:
    return TrainingPattern("circle", BOTH, planner, parts=(CIRCLE,), **fields)


def on_circle(x: Any) -> Any:
    return ag.sin(x), ag.cos(x)


def outcome(function: Callable[..., Any], *tensors: nc.Tensor) -> list[Any]:
    """The results of a function and the gradients of their weighted sum."""
    for each in tensors:
        each.grad = None
    results = function(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    loss: Any = 0
    for i, each in enumerate(results):
        if each.requires_grad:
            loss = ag.sum(each * (i + 1.5)) + loss
    if results and not isinstance(loss, int):
        loss.backward()
    grads = [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in tensors]
    return [*(each.numpy() for each in results), *grads]


def agrees(compiler: Any, function: Callable[..., Any], *tensors: nc.Tensor) -> str:
    """What `explain` says of a function that gives what it gives as it stands."""
    compiled = ag.jit_compile(function, patterns=compiler)
    pairs = zip(outcome(compiled, *tensors), outcome(function, *tensors), strict=True)
    for found, right in pairs:
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)
    return compiled.explain(*tensors)


# -- what takes their place --------------------------------------------------------------


def test_one_result_is_read_by_another(either: nc.Device) -> None:
    p, g, m = (data(5, 3, seed=i) for i in range(3))
    compiler = compiler_of(momentum())
    said = agrees(compiler, step, p, g, m)
    assert "pattern momentum (user) in place of mul -> add -> mul -> sub" in said
    assert "in 1 forward launches" in said
    plan = compiler.plan(step, p, g, m)
    assert plan.values == (nc.Spec((5, 3), "float32"),) * 2
    assert "=> float32[5, 3], float32[5, 3], 1 launches" in str(plan)


def test_one_op_gives_both(either: nc.Device) -> None:
    said = agrees(compiler_of(circle()), on_circle, data(7))
    assert "pattern circle (user) in place of cos -> sin" in said
    assert "  1. op: circle" in said and "  2. " not in said


def test_second_derivatives(either: nc.Device) -> None:
    found = []
    for function in (ag.jit_compile(on_circle, patterns=compiler_of(circle())), on_circle):
        x = data(6)
        sine, cosine = function(x)
        (first,) = ag.grad([ag.sum(sine * cosine)], [x], create_graph=True)
        found.append(ag.grad(ag.sum(first * first), [x])[0].numpy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_capture(fast: nc.Device) -> None:
    """What stands in the place of a group with several results is captured as any op is."""
    compiled = ag.jit_compile(on_circle, patterns=compiler_of(circle()))
    x, other = data(9), data(9, seed=2)
    assert "pattern circle" in compiled.explain(x)

    def trained(x: Any) -> Any:
        sine, cosine = compiled(x)
        ag.sum(sine + cosine * 2).backward()
        return sine, cosine

    graph = ag.capture(trained, x)
    found = [each.numpy() for each in graph(other)]
    z = other.numpy()
    right = [np.sin(z), np.cos(z), np.cos(z) - 2 * np.sin(z)]
    for one, wanted in zip([*found, x.grad.numpy()], right, strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


def test_under_no_grad(on_numpy: None) -> None:
    def function(x: Any) -> Any:
        with ag.no_grad():
            sine, cosine = on_circle(x)
        return sine * x, cosine * x

    assert "pattern circle (user) in place of" in agrees(compiler_of(circle()), function, data(4))


def test_a_result_without_a_gradient_keeps_none(on_numpy: None) -> None:
    """The planner's op gives gradients to both of its results, the function had one of them."""
    names = (OP("sin", ("x",)), OP("cos", ("y",)))

    def plan(x: Any, y: Any) -> Any:
        both = ag.mul(ag.cos(y), ag.add(1.0, ag.mul(x, 0.0)))
        return ag.sin(x), both

    x, y = data(4), nc.tensor(np.ones(4, np.float32))
    compiler = compiler_of(TrainingPattern("apart", names, plan))
    compiled = ag.jit_compile(lambda x, y: (ag.sin(x), ag.cos(y)), patterns=compiler)
    assert "pattern apart (user) in place of" in compiled.explain(x, y)
    sine, cosine = compiled(x, y)
    assert sine.requires_grad and not cosine.requires_grad


# -- where they stand --------------------------------------------------------------------


def test_a_result_is_read_before_the_last_is_computed(on_numpy: None) -> None:
    def function(x: Any) -> Any:
        sine = ag.sin(x)
        doubled = ag.sum(sine) * 2
        return ag.cos(x) + doubled, doubled

    assert "pattern circle (user) in place of" in agrees(compiler_of(circle()), function, data(4))


def test_random_numbers_keep_their_order(on_numpy: None) -> None:
    def function(x: Any) -> Any:
        first = ag.dropout(x, 0.5)
        sine = ag.sin(first)
        second = ag.dropout(sine, 0.25)
        third = ag.dropout(x, 0.75)
        return ag.cos(first) * second, third

    x = data(64)
    compiled = ag.jit_compile(function, patterns=compiler_of(circle()))
    assert "pattern circle (user) in place of" in compiled.explain(x)
    found = []
    for each in (compiled, function):
        nc.manual_seed(3)
        found.append([y.numpy() for y in each(x)])
    for one, right in zip(*found, strict=True):
        np.testing.assert_allclose(one, right, rtol=1e-5, atol=1e-6)


def test_what_is_captured_may_not_come_from_a_result(on_numpy: None) -> None:
    names = (OP("sin", ("x",)), OP("cos", ("y",)))
    pattern = TrainingPattern("apart", names, lambda x, y: (ag.sin(x), ag.cos(y)))
    said = agrees(compiler_of(pattern), lambda x: ag.cos(ag.exp(ag.sin(x))), data(4))
    assert "in place of" not in said
    assert "did not apply: it captures a value that is computed from its results" in said


def test_two_groups_that_would_wait_for_each_other(on_numpy: None) -> None:
    """Each may be taken, both may not."""
    one = TrainingPattern(
        "one", (OP("sin", ("a",)), OP("cos", ("b",))), lambda a, b: (ag.sin(a), ag.cos(b))
    )
    two = TrainingPattern(
        "two", (OP("tanh", ("a",)), OP("sigmoid", ("b",))), lambda a, b: (ag.tanh(a), ag.sigmoid(b))
    )

    def function(x: Any, y: Any) -> Any:
        sine, bent = ag.sin(x), ag.tanh(y)
        return ag.cos(bent * 2), ag.sigmoid(sine * 2)

    said = agrees(compiler_of(one, two), function, data(4), data(4, seed=1))
    assert "pattern one (user) in place of" in said
    assert (
        "pattern two (user) did not apply: it captures a value that is computed from its " in said
    )
    assert "results by another pattern" in said
    assert "pattern two (user) in place of" in agrees(
        compiler_of(two), function, data(4), data(4, seed=1)
    )


def test_several_groups(either: nc.Device) -> None:
    """One after the other, and the pattern of one value beside that of two."""

    def function(p: Any, g: Any, m: Any) -> Any:
        p, m = step(p, g, m)
        p, m = step(p, g * 2, m)
        sine, cosine = on_circle(p)
        return ag.exp(sine) * (sine + cosine), m, p

    tensors = [data(6, seed=i) for i in range(3)]
    said = agrees(compiler_of(momentum(), circle()), function, *tensors)
    assert said.count("pattern momentum (user) in place of") == 2
    assert "pattern circle (user) in place of" in said


def test_two_names_of_equal_ops_are_two_values(on_numpy: None) -> None:
    pair = TrainingPattern(
        "pair", (OP("exp", ("x",)), OP("exp", ("y",))), lambda x, y: (ag.exp(x), ag.exp(y))
    )
    compiler = compiler_of(pair)
    x, y = data(3), data(3, seed=1)
    assert compiler.match(lambda x, y: ag.exp(x) * ag.exp(y), x, y) is pair
    assert compiler.match(lambda x, y: ag.exp(x) * y, x, y) is None


# -- what does not match -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: (ag.sin(x), ag.cos(x * 2)), "the function does not compute its "),
        (
            lambda x: (ag.sin(x), _cut(x)),
            "gradients pass through a part of its ops only",
        ),
    ],
)
def test_near_misses(on_numpy: None, function: Callable[..., Any], text: str) -> None:
    said = agrees(compiler_of(circle()), function, data(4))
    assert f"pattern circle (user) did not apply: {text}" in said


def _cut(x: Any) -> Any:
    with ag.no_grad():
        return ag.cos(x)


def test_values_in_between_are_the_groups_own(on_numpy: None) -> None:
    def function(p: Any, g: Any, m: Any) -> Any:
        kept = m * 0.5
        m = kept + g
        return p - m * 0.25, m, kept

    said = agrees(compiler_of(momentum()), function, *(data(4, seed=i) for i in range(3)))
    assert "pattern momentum (user) did not apply: the function returns its mul too" in said


def test_one_dtype(on_numpy: None) -> None:
    """That of all values and floating tensors, where the pattern names dtypes."""
    compiler = compiler_of(momentum(dtypes=("float32",)))
    p, g, m = data(4), data(4, seed=1), data(4, seed=2, dtype="float64")
    assert compiler.match(step, p, g, data(4)) is not None
    assert "it takes one dtype, not float32 and float64" in ag.jit_compile(
        step, patterns=compiler
    ).explain(p, g, m)


# -- functions as matchers ---------------------------------------------------------------


def _pair(value: Any) -> Any:
    """sin(x) * y beside sin(x)."""
    if value.op != "mul" or getattr(value.inputs[0], "op", "") != "sin":
        return None
    sine, y = value.inputs
    return {"x": sine.inputs[0], "y": y}, (value, sine)


def test_a_matching_function_names_its_results(on_numpy: None) -> None:
    def plan(x: Any, y: Any) -> Any:
        sine = ag.sin(x)
        return ag.mul(y, sine), sine

    compiler = compiler_of(TrainingPattern("pair", _pair, plan))

    def function(x: Any, y: Any) -> Any:
        sine = ag.sin(x)
        return sine * y, sine

    said = agrees(compiler, function, data(4), data(4, seed=1))
    assert "pattern pair (user) in place of sin -> mul" in said


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda value: ({"x": value.inputs[0]}, ()), "in place of a tuple of results"),
        (lambda value: ({"x": value.inputs[0]}, (3,)), "in place of a tuple of results"),
        (lambda value: ({"x": value.inputs[0]}, (value, value)), "expected different ones"),
        (lambda value: ({}, (value.inputs[0],)), "expected different ones"),
    ],
)
def test_a_matching_function_that_is_wrong(
    on_numpy: None, given: Callable[..., Any], text: str
) -> None:
    matcher = lambda value: given(value) if value.op == "sin" else None  # noqa: E731
    pattern = TrainingPattern("wrong", matcher, lambda x: (ag.sin(x),))
    said = ag.jit_compile(ag.sin, patterns=compiler_of(pattern)).explain(data(3))
    assert "its matcher raised TypeError" in said and text in said


# -- planners that fail ------------------------------------------------------------------


def _swapped_shape(x: Any) -> Any:
    return ag.sin(x), ag.sum(ag.cos(x))


def _detached(x: Any) -> Any:
    return ag.sin(x), ag.cos(x).detach()


_HOSTILE: dict[str, tuple[Any, str]] = {
    "one": (ag.sin, "its planner gave a Node"),
    "few": (lambda x: (ag.sin(x),), "its planner gave a tuple of 1; expected a tuple of 2"),
    "many": (lambda x: [x, x, x], "its planner gave a list of 3; expected a tuple of 2 operands"),
    "junk": (lambda x: (ag.sin(x), 3), "its planner gave as result 1 a int"),
    "shape": (_swapped_shape, "its planner gave as result 1 float32 of shape ()"),
    "gradient": (_detached, "its planner gave as result 1 a value without a gradient"),
}


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_planner_that_fails(name: str, on_numpy: None) -> None:
    planner, text = _HOSTILE[name]
    function = ag.jit_compile(on_circle, patterns=compiler_of(circle(planner)))
    x = data(4)
    with pytest.warns(FusionSkipped, match="NP406"):
        found = function(x)
    np.testing.assert_allclose(found[1].numpy(), np.cos(x.numpy()), rtol=1e-6)
    assert f"NP406: pattern 'circle' of user: {text}" in function.explain(x)
    with pytest.raises(FusionError, match="NP406"):
        ag.jit_compile(on_circle, strict=True, patterns=compiler_of(circle(planner)))(x)


@pytest.mark.parametrize(
    ("matcher", "text"),
    [
        ((), "a tuple of several"),
        ((STEP,), "a tuple of several"),
        ((STEP, "add"), "a tuple of several"),
        ((STEP, STEP), "each result once"),
    ],
)
def test_a_matcher_that_is_none(matcher: Any, text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        TrainingPattern("wrong", matcher, _plan_step)


def test_its_summary_names_all_results() -> None:
    text = "(sub(p, mul(add(mul(m, keep), g), lr)), add(mul(m, keep), g)) in any dtype"
    assert momentum().summary == text


# -- random programs ---------------------------------------------------------------------

_STEPS: dict[str, Callable[..., Any]] = {
    "circle": lambda x, y: on_circle(x),
    "step": lambda x, y: step(x, y, y),
    "sine": lambda x, y: (ag.sin(x), y),
    "cosine": lambda x, y: (x, ag.cos(y)),
    "mixed": lambda x, y: (ag.sin(y) * x, ag.cos(y)),
    "late": lambda x, y: (lambda s: (ag.tanh(s), ag.cos(x) + s))(ag.sin(x)),
    "cut": lambda x, y: (ag.sin(x).detach(), ag.cos(x)),
}


@given(
    steps=st.lists(st.tuples(st.sampled_from([*_STEPS]), st.booleans()), min_size=1, max_size=6),
    shape=st.sampled_from([(1,), (3,), (2, 5), (0, 2)]),
)
@settings(max_examples=examples(60), deadline=None)
def test_random_programs(steps: list[tuple[str, bool]], shape: tuple[int, ...]) -> None:
    """With the patterns somewhere in it a program gives what it gives as it stands."""

    def program(x: Any, y: Any) -> Any:
        early = x
        for name, swap in steps:
            x, y = _STEPS[name](*((y, x) if swap else (x, y)))
        return x, y, early * x

    with nc.use_device("numpy"):
        x, y = (data(*shape, seed=i, dtype="float64") for i in range(2))
        agrees(compiler_of(momentum(), circle()), program, x, y)
