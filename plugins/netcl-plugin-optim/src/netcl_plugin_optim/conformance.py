"""The scenarios of the optimizers: their steps beside the papers' formulas in NumPy's float64.

And the cases of the pattern `adamw`: steps that are written out as ops, in several ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from netcl_plugin_kit.testing import Case, Scenario, normal, uniform

import netcl_core.autograd as ag
from netcl_core import Device, Tensor
from netcl_plugin_optim import api, written_out

Array: TypeAlias = np.ndarray[Any, Any]
#: `(parameter, gradient, step from 1, state) -> parameter`.
Formula: TypeAlias = Callable[[Array, Array, int, dict[str, Any]], Array]

STEPS: Final = 5
#: One element, none, an odd size, several blocks with a tail.
SHAPES: Final[Sequence[tuple[int, ...]]] = ((), (0, 3), (7, 5), (3, 1031))
#: 16-bit parameters are roundings of their masters.
TOLERANCE: Final = {"bfloat16": 5e-3, "float16": 6e-4, "float32": 3e-6, "float64": 1e-13}


def sgd(p: Array, g: Array, step: int, state: dict[str, Any]) -> Array:
    """Nesterov's momentum of 0.9, an L2 penalty of 0.1, lr 0.01 (Sutskever et al. 2013)."""
    g = g + 0.1 * p
    state["v"] = g if step == 1 else 0.9 * state["v"] + g
    return np.asarray(p - 0.01 * (g + 0.9 * state["v"]))


def adam(p: Array, g: Array, step: int, state: dict[str, Any]) -> Array:
    """Kingma, Ba 2015, algorithm 1: lr 0.01, betas 0.9 and 0.99, eps 1e-8."""
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.99 * state.get("v", 0) + 0.01 * g * g
    mean, square = state["m"] / (1 - 0.9**step), state["v"] / (1 - 0.99**step)
    return np.asarray(p - 0.01 * mean / (np.sqrt(square) + 1e-8))


def adamw(p: Array, g: Array, step: int, state: dict[str, Any]) -> Array:
    """Loshchilov, Hutter 2019, algorithm 2, with a decay of 0.2."""
    return adam(p * (1 - 0.01 * 0.2), g, step, state)


def rmsprop(p: Array, g: Array, step: int, state: dict[str, Any]) -> Array:
    """Graves 2013, equations 38 to 41: lr 0.01, alpha 0.9, momentum 0.5, eps 1e-3, centered."""
    state["n"] = 0.9 * state.get("n", 0) + 0.1 * g * g
    state["g"] = 0.9 * state.get("g", 0) + 0.1 * g
    spread = np.sqrt(state["n"] - state["g"] ** 2) + 1e-3
    state["d"] = 0.5 * state.get("d", 0) + g / spread
    return np.asarray(p - 0.01 * state["d"])


OPTIMIZERS: Final[Sequence[tuple[str, Formula, dict[str, Any]]]] = (
    ("SGD", sgd, {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("Adam", adam, {"lr": 0.01, "betas": (0.9, 0.99)}),
    ("AdamW", adamw, {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.2}),
    (
        "RMSprop",
        rmsprop,
        {"lr": 0.01, "alpha": 0.9, "momentum": 0.5, "eps": 1e-3, "centered": True},
    ),
)


def adafactor(p: Array, g: Array, step: int, state: dict[str, Any]) -> Array:
    """Shazeer, Stern 2018, algorithms 4 and 5 in PyTorch's form, with a decay of 0.1."""
    share, size = step**-0.8, np.sqrt(np.mean(p * p))
    length = max(1e-3, size) * min(0.01, step**-0.5)
    if p.ndim < 2:
        square = state["v"] = state.get("v", 0) * (1 - share) + share * g * g
    else:
        for name, axis in (("r", -1), ("c", -2)):
            mean = (g * g).mean(axis, keepdims=True)
            state[name] = state.get(name, 0) * (1 - share) + share * mean
        square = state["r"] * state["c"] / state["r"].mean(-2, keepdims=True)
    update = g / np.sqrt(square)
    limit = max(1, np.sqrt(np.mean(update * update)))
    return np.asarray(p * (1 - 0.01 * 0.1) - length * update / limit)


def muon(p: Array, g: Array, step: int, state: dict[str, Any]) -> Array:
    """Jordan 2024, with Nesterov's momentum, lr 0.02 and a decay of 0.1."""
    state["m"] = 0.95 * state.get("m", 0) + 0.05 * g
    x = 0.05 * g + 0.95 * state["m"]
    x = x / np.linalg.norm(x)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
    return np.asarray(p * (1 - 0.02 * 0.1) - 0.02 * np.sqrt(max(1, p.shape[0] / p.shape[1])) * x)


def matrices(
    name: str, formula: Formula, settings: dict[str, Any], tolerance: float, device: Device
) -> None:
    """Some steps of a matrix and, of Adafactor, a vector in float32."""
    random = np.random.default_rng(3)
    shapes = ((7, 5), (3, 31)) if name == "Muon" else ((7, 5), (31,), (2, 3, 4))
    wanted = [random.standard_normal(shape) for shape in shapes]
    parameters = [Tensor.from_host(p.astype("float32"), device) for p in wanted]
    optimizer = getattr(api, name)(parameters, **settings)
    states: list[dict[str, Any]] = [{} for _ in shapes]
    for step in range(1, STEPS + 1):
        for i, parameter in enumerate(parameters):
            gradient = random.standard_normal(parameter.shape)
            parameter.grad = Tensor.from_host(gradient.astype("float32"), device)
            wanted[i] = formula(wanted[i], gradient, step, states[i])
        optimizer.step()
    again = getattr(api, name)(parameters, **settings)
    again.load_state_dict(optimizer.state_dict())
    saved = again.state_dict()["state"]
    assert [sorted(state) for state in saved.values()] == [
        sorted(state) for state in optimizer.state_dict()["state"].values()
    ]
    for parameter, right in zip(parameters, wanted, strict=True):
        np.testing.assert_allclose(parameter.to_host(), right, rtol=0, atol=tolerance)


def compare(name: str, formula: Formula, settings: dict[str, Any], device: Device) -> None:
    """Some steps in each floating dtype of the device; parameters share kernels."""
    for dtype in _dtypes(device):
        random = np.random.default_rng(1)
        wanted = _drawn(random, dtype)
        states: list[dict[str, Any]] = [{} for _ in wanted]
        parameters = [Tensor.from_host(p.astype(dtype), device) for p in wanted]
        optimizer = getattr(api, name)(parameters, **settings)
        for step in range(1, STEPS + 1):
            drawn = _drawn(random, dtype)
            for parameter, gradient in zip(parameters, drawn, strict=True):
                parameter.grad = Tensor.from_host(gradient.astype(dtype), device)
            optimizer.step()
            for i, gradient in enumerate(drawn):
                wanted[i] = formula(wanted[i], gradient, step, states[i])
        for parameter, right in zip(parameters, wanted, strict=True):
            np.testing.assert_allclose(
                parameter.to_host().astype("float64"),
                right,
                rtol=TOLERANCE[dtype],
                atol=TOLERANCE[dtype],
                err_msg=f"{name} in {dtype} after {STEPS} steps, parameter of {parameter.shape}",
            )


def clip_norm(device: Device) -> None:
    """Gradients scaled to a joint norm of 1, and the norm that they had."""
    random = np.random.default_rng(2)
    gradients = [random.standard_normal(shape).astype("float32") for shape in SHAPES]
    parameters = [Tensor.zeros(array.shape, device=device) for array in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = Tensor.from_host(np.asarray(gradient), device)
    norm = np.sqrt(sum((array.astype("float64") ** 2).sum() for array in gradients))
    total = api.clip_grad_norm_(parameters, 1.0)
    np.testing.assert_allclose(total.item(), norm, rtol=1e-5)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(parameter.grad.to_host(), gradient / norm, rtol=1e-5, atol=1e-7)


def schedule(device: Device) -> None:
    """A learning rate that is halved after two steps moves a parameter by half as much."""
    parameter = Tensor.zeros((3,), device=device)
    optimizer = api.SGD([parameter], lr=1.0)
    scheduler = api.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for _ in range(4):
        parameter.grad = Tensor.ones((3,), device=device)
        optimizer.step()
        scheduler.step()
    np.testing.assert_array_equal(parameter.to_host(), np.full(3, -(1 + 1 + 0.5 + 0.5)))


def _dtypes(device: Device) -> list[str]:
    return [name for name in TOLERANCE if name != "float64" or device.supports_fp64]


def _drawn(random: np.random.Generator, dtype: str) -> list[Array]:
    """An array of each shape in float64, of values that the dtype has."""
    drawn = [random.standard_normal(shape) for shape in SHAPES]
    return [np.asarray(array).astype(dtype).astype("float64") for array in drawn]


SCENARIOS: Final = [
    *(Scenario("optim", row[0], partial(compare, *row)) for row in OPTIMIZERS),
    Scenario(
        "optim", "Adafactor", partial(matrices, "Adafactor", adafactor, {"weight_decay": 0.1}, 3e-6)
    ),
    # bfloat16 has 8 bits: a rounding of each of 15 products, of steps of 0.02
    Scenario("optim", "Muon", partial(matrices, "Muon", muon, {"lr": 0.02}, 2e-3)),
    Scenario("optim", "clip_grad_norm_", clip_norm),
    Scenario("optim", "StepLR", schedule),
]

# -- the pattern -------------------------------------------------------------------------

#: Of one step: with betas of 0.9 and 0.99, the fifth.
_KEPT: Final = 1 - 0.01 * 0.2
_STEP: Final = 0.01 / (1 - 0.9**5)
_ROOT: Final = (1 - 0.99**5) ** 0.5


def means(p: Any, g: Any, m: Any, v: Any) -> Any:
    """The means as PyTorch's loop writes them."""
    m = m + (g - m) * (1 - 0.9)
    v = v * 0.99 + (1 - 0.99) * g * g
    return p * _KEPT - _STEP * m / (ag.sqrt(v) / _ROOT + 1e-8), m, v


def sums(p: Any, g: Any, m: Any, v: Any) -> Any:
    """The means as the paper writes them."""
    m = 0.9 * m + (1 - 0.9) * g
    v = 0.99 * v + (1 - 0.99) * ag.square(g)
    return _KEPT * p - _STEP * (m / (ag.sqrt(v) / _ROOT + 1e-8)), m, v


def plain(p: Any, g: Any, m: Any, v: Any) -> Any:
    """Neither a decay nor corrections."""
    v = (g * g) * (1 - 0.99) + v * 0.99
    m = (1 - 0.9) * g + m * 0.9
    return p - m * 0.01 / (1e-8 + ag.sqrt(v)), m, v


#: The rule moves a mean towards the gradient.
_INFINITE: Final = {"non-finite": "a mean that is infinite already becomes NaN, as PyTorch's does"}


def given_for(op: str) -> Sequence[Any]:
    """What tries a name of the plugin's."""
    return PATTERN_CASES if op == written_out.NAME else SCENARIOS


PATTERN_CASES: Final = [
    Case(
        written_out.NAME,
        [normal(), normal(), normal(), uniform(0.05, 2)],
        call=call,
        shapes=[[shape] * 4 for shape in ((), (7,), (0, 3), (3, 1031))],
        note=call.__name__,
        skip=skip,
    )
    for call, skip in ((means, {}), (sums, _INFINITE), (plain, _INFINITE))
]
