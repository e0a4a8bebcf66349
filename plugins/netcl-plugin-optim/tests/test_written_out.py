"""AdamW written out as ops: one kernel by the optimizer's own rule, with PyTorch's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_optim.conformance import means, plain, sums

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import optim

pytest.importorskip("netcl_plugin_elementwise")

LR, DECAY, BETA1, BETA2, EPS = 0.01, 0.2, 0.9, 0.99, 1e-8
APPLIED = "pattern adamw (netcl-plugin-optim) in place of"


def step(p: Any, g: Any, m: Any, v: Any, size: float, root: float) -> Any:
    m = m + (g - m) * (1 - BETA1)
    v = v * BETA2 + (1 - BETA2) * g * g
    return p * (1 - LR * DECAY) - size * m / (ag.sqrt(v) / root + EPS), m, v


def corrections(number: int) -> tuple[float, float]:
    return LR / (1 - BETA1**number), (1 - BETA2**number) ** 0.5


def drawn(dtype: str = "float32", shape: tuple[int, ...] = (33, 17), seed: int = 0) -> nc.Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return nc.tensor(np.abs(values) if seed == 3 else values, dtype=dtype)


def said(function: Callable[..., Any], *args: Any) -> str:
    return ag.jit_compile(function).explain(*args)


@pytest.mark.parametrize("written", [means, sums, plain], ids=lambda each: each.__name__)
@pytest.mark.parametrize("device", nc.devices(), ids=str)
def test_it_is_one_kernel_of_the_rule(written: Callable[..., Any], device: nc.Device) -> None:
    with nc.use_device(device):
        given = [drawn(seed=i) for i in range(4)]
        text = said(written, *given)
        assert APPLIED in text and "in 1 forward launches" in text
        assert "one kernel: adam_mean -> adam_square -> adamw_parameter" in text


@pytest.mark.parametrize("device", nc.devices(), ids=str)
def test_steps_are_those_of_pytorch(device: nc.Device) -> None:
    torch = pytest.importorskip("torch")
    start = drawn(seed=5).numpy()
    other = torch.nn.Parameter(torch.tensor(start))
    theirs = torch.optim.AdamW([other], LR, (BETA1, BETA2), EPS, DECAY)
    compiled = ag.jit_compile(step)
    with nc.use_device(device):
        p, m, v = nc.tensor(start), *(nc.Tensor.zeros(start.shape) for _ in range(2))
        for number in range(1, 9):
            gradient = drawn(seed=10 + number).numpy()
            p, m, v = compiled(p, nc.tensor(gradient), m, v, *corrections(number))
            other.grad = torch.tensor(gradient)
            theirs.step()
        assert APPLIED in compiled.explain(p, p, m, v, *corrections(3))
        np.testing.assert_allclose(p.numpy(), other.detach().numpy(), rtol=2e-6, atol=2e-7)
    assert compiled.cache_info().misses == 1  # the numbers of a step are none of the program's


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parameters_of_16_bits_with_states_of_32(dtype: str) -> None:
    """The master is a state; the parameter is its rounding, as the optimizer has it."""

    def rounded(master: Any, g: Any, *states: Any) -> Any:
        master, m, v = step(master, g, *states)
        return ag.astype(master, dtype), master, m, v

    compiled = ag.jit_compile(rounded)
    start = drawn(dtype, seed=5)
    parameter = nc.tensor(start, requires_grad=True)
    theirs = optim.AdamW([parameter], LR, (BETA1, BETA2), EPS, DECAY)
    master = nc.tensor(start.numpy().astype("float32"))
    m, v = (nc.Tensor.zeros(start.shape) for _ in range(2))
    for number in range(1, 6):
        gradient = drawn(dtype, seed=10 + number)
        p, master, m, v = compiled(master, gradient, m, v, *corrections(number))
        parameter.grad = gradient
        theirs.step()
    assert APPLIED in compiled.explain(master, gradient, m, v, *corrections(2))
    assert p.dtype == dtype
    state = theirs.state_dict()["state"][0]
    for found, right in ((master, "master"), (m, "exp_avg"), (v, "exp_avg_sq")):
        np.testing.assert_allclose(found.numpy(), state[right], rtol=3e-6, atol=3e-7)
    wide = [x.numpy().astype("float32") for x in (p, parameter)]
    np.testing.assert_allclose(*wide, rtol=1e-2)  # a rounding apart at most
    assert (wide[0] != wide[1]).mean() < 0.01


def test_a_parameter_of_16_bits_is_promoted_as_by_its_ops() -> None:
    given = [drawn("float16"), drawn("float16", seed=1), drawn(seed=2), drawn(seed=3)]
    found, right = ag.jit_compile(means)(*given), means(*given)
    assert APPLIED in said(means, *given)
    for one, other in zip(found, right, strict=True):
        assert one.dtype == other.dtype == "float32"
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-3, atol=1e-4)


def test_the_optimizer_is_made_of_the_same_expressions() -> None:
    """A rule that is changed in one place is changed in both."""
    rules = [
        ("adam_mean", ("exp_avg", "g", "one_minus_beta1")),
        ("adam_square", ("exp_avg_sq", "g", "beta2", "one_minus_beta2")),
        (
            "adamw_parameter",
            ("p", "exp_avg", "exp_avg_sq", "kept", "step_size", "root_correction", "eps"),
        ),
    ]
    device = next(iter(nc.devices()))
    if device.backend == "numpy":
        pytest.skip("no kernels")
    parameter = nc.Tensor.zeros((4,), device=device, requires_grad=True)
    parameter.grad = nc.Tensor.ones((4,), device=device)
    optimizer = optim.AdamW([parameter], LR)
    optimizer.step()
    (slab,) = {id(slot.slab): slot.slab for slot in optimizer._placement._slots.values()}.values()
    (bound,) = slab._bound.values()
    (kernel,) = bound.launches
    for name, operands in rules:
        record = ag.AutogradPrimitive.from_template(f"optim/{name}.cl.j2")
        assert f"= {record.forward([*operands], {})};" in kernel.source


# -- what is no step of AdamW ------------------------------------------------------------

C1, C2, ROOT = 1 - BETA1, 1 - BETA2, 0.5


def variant(**changed: Callable[..., Any]) -> Callable[..., Any]:
    """A step with a part of it computed otherwise."""
    parts: dict[str, Callable[..., Any]] = {
        "mean": lambda m, g: m + (g - m) * C1,
        "square": lambda v, g: v * BETA2 + C2 * g * g,
        "below": lambda v: ag.sqrt(v) / ROOT + EPS,
        "change": lambda m, below, p: LR * m / below,
        "moved": lambda p, change: p * 0.998 - change,
        **changed,
    }

    def function(p: Any, g: Any, m: Any, v: Any) -> Any:
        m, v = parts["mean"](m, g), parts["square"](v, g)
        return parts["moved"](p, parts["change"](m, parts["below"](v), p)), m, v

    return function


def test_the_step_that_others_are_variants_of() -> None:
    assert APPLIED in said(variant(), *(drawn(seed=i) for i in range(4)))
    assert APPLIED in said(variant(moved=lambda p, c: p - c), *(drawn(seed=i) for i in range(4)))


@pytest.mark.parametrize(
    "changed",
    [
        {"mean": lambda m, g: m + (m - g) * C1},
        {"mean": lambda m, g: m * BETA1 + g * 0.2},
        {"mean": lambda m, g: m * BETA1 + ag.abs(g) * C1},
        {"mean": lambda m, g: g},
        {"square": lambda v, g: v * BETA2 + C2 * g},
        {"square": lambda v, g: v * BETA2 + C2 * g * v},
        {"square": lambda v, g: v * BETA2 + g * g},
        {"square": lambda v, g: v * BETA2 - C2 * g * g},
        {"square": lambda v, g: ag.maximum(v * BETA2, C2 * g * g)},
        {"below": lambda v: v / ROOT + EPS},
        {"below": lambda v: ag.sqrt(v) * ROOT + EPS},
        {"below": lambda v: ag.sqrt(v) / ROOT - EPS},
        {"below": lambda v: ag.sqrt(v)},
        {"change": lambda m, below, p: m / below},
        {"change": lambda m, below, p: below / (LR * m)},
        {"change": lambda m, below, p: LR * p / below},
        {"moved": lambda p, c: p + c},
        {"moved": lambda p, c: c - p},
        {"moved": lambda p, c: 2.0 - c},
    ],
)
def test_what_is_no_step_stays_what_it_is(changed: dict[str, Callable[..., Any]]) -> None:
    function = variant(**changed)
    given = [drawn(seed=i) for i in range(4)]
    assert APPLIED not in said(function, *given)
    for one, other in zip(ag.jit_compile(function)(*given), function(*given), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_whole_numbers_are_left_to_their_ops() -> None:
    given = [drawn(seed=i) for i in range(4)]
    given[1] = nc.tensor(np.arange(33 * 17).reshape(33, 17) % 5)
    assert "pattern adamw (netcl-plugin-optim) did not apply: its planner declined" in said(
        means, *given
    )


def test_a_value_in_between_that_is_needed_elsewhere() -> None:
    def function(p: Any, g: Any, m: Any, v: Any) -> Any:
        m = m + (g - m) * C1
        v = v * BETA2 + C2 * g * g
        below = ag.sqrt(v) / ROOT + EPS
        return p - LR * m / below, m, v, below

    text = said(function, *(drawn(seed=i) for i in range(4)))
    assert "did not apply: the function returns its add too" in text


def test_gradients_pass_through_a_step() -> None:
    """As a learned optimizer needs them, to the second order."""
    found = []
    for function in (ag.jit_compile(means), means):
        given = [nc.tensor(drawn(seed=i), requires_grad=True) for i in range(3)]
        given.append(nc.tensor(drawn(seed=3) + 0.1, requires_grad=True))
        p, m, v = function(*given)
        first = ag.grad([ag.sum(p * p + m * v)], given, create_graph=True)
        loss = ag.sum(first[1] * first[1])
        found.append([*first, *ag.grad([loss], [given[1], given[3]])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-4, atol=1e-5)


def test_several_parameters_have_a_kernel_each() -> None:
    def both(first: Any, second: Any) -> Any:
        return *means(*first), *means(*second)

    groups = [[drawn(shape=(4, 5), seed=i) for i in range(4)], [drawn(seed=i) for i in range(4)]]
    assert said(both, *groups).count(APPLIED) == 2
    for one, other in zip(ag.jit_compile(both)(*groups), both(*groups), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
