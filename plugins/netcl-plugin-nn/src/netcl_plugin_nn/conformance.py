"""The scenarios of modules: what they compute beside formulas in NumPy's float64.

The ops below them have cases of their own; here it is the modules' wiring that is tried:
parameters, settings, training and evaluation, state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np
from netcl_plugin_kit.testing import Case, Scenario, normal, uniform

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device, Tensor
from netcl_plugin_nn import api, saving

Array: TypeAlias = np.ndarray[Any, Any]
Reference: TypeAlias = Callable[[Array], Any]

#: Of a result and of a derivative along a direction, relative to the largest magnitude.
TOLERANCE: Final = 2e-5
_STEP: Final = 1e-5


def compare(module: Callable[[Any], Any], reference: Reference, x: Array, device: Device) -> None:
    """A module's result and gradient for float32 `x`, the latter by central differences."""
    random = np.random.default_rng(0)
    direction = random.standard_normal(x.shape)
    tensor = Tensor.from_host(x.astype("float32"), device, requires_grad=True)
    exact = tensor.to_host().astype("float64")
    wanted = np.asarray(reference(exact))
    covector = np.asarray(random.standard_normal(wanted.shape))
    result = module(tensor)
    ag.backward(result, Tensor.from_host(covector.astype("float32"), device))
    _close(result.to_host(), wanted, f"{module}")
    ahead, behind = (reference(exact + sign * _STEP * direction) for sign in (1, -1))
    slope = (covector * (ahead - behind)).sum() / (2 * _STEP)
    assert tensor.grad is not None
    slope_along = (tensor.grad.to_host() * direction).sum()
    assert abs(slope_along - slope) <= 1e-3 * (1 + abs(slope)), (
        f"{module}: slope {slope_along} of {slope}"
    )


def _close(actual: Array, wanted: Array, what: str) -> None:
    largest = float(np.max(np.abs(wanted), initial=1.0))
    np.testing.assert_allclose(actual, wanted, rtol=0, atol=TOLERANCE * largest, err_msg=what)


def _drawn(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


# -- layers ----------------------------------------------------------------------------


def perceptron(device: Device) -> None:
    """Two linear layers with tanh and a mean squared error: the loss and all gradients."""
    model = api.Sequential(api.Linear(7, 5), api.Tanh(), api.Linear(5, 3))
    w1, b1, w2, b2 = (each.to_host().astype("float64") for each in model.parameters())
    x, y = _drawn(11, 7), _drawn(11, 3)
    inputs, targets = (Tensor.from_host(array.astype("float32"), device) for array in (x, y))
    loss = api.MSELoss()(model(inputs), targets)
    loss.backward()
    hidden = np.tanh(x @ w1.T + b1)
    error = hidden @ w2.T + b2 - y
    _close(loss.to_host(), (error**2).mean(), "the loss")
    above = 2 * error / error.size
    below = (above @ w2) * (1 - hidden**2)
    wanted = (below.T @ x, below.sum(0), above.T @ hidden, above.sum(0))
    for (name, parameter), right in zip(model.named_parameters(), wanted, strict=True):
        assert parameter.grad is not None
        _close(parameter.grad.to_host(), right, f"the gradient of {name}")


def norms(device: Device) -> None:
    """LayerNorm, RMSNorm and GroupNorm of odd sizes."""

    def standard(x: Array, axes: tuple[int, ...]) -> Array:
        mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
        return np.asarray((x - mean) / np.sqrt(var + 1e-5))

    def grouped(x: Array) -> Array:
        return standard(x.reshape(3, 2, 3, 5), (2, 3)).reshape(x.shape)

    def scaled(x: Array) -> Array:
        return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5))

    compare(api.LayerNorm((6, 5)), lambda x: standard(x, (1, 2)), _drawn(3, 6, 5), device)
    compare(api.RMSNorm(5, eps=1e-5), scaled, _drawn(3, 6, 5), device)
    compare(api.GroupNorm(2, 6), grouped, _drawn(3, 6, 5), device)


def batch_norm(device: Device) -> None:
    """Training moves the running statistics, evaluation uses them."""
    layer, x = api.BatchNorm1d(5), _drawn(9, 5)
    compare(layer, lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), x, device)
    mean, var = 0.1 * x.mean(0), 0.9 + 0.1 * x.var(0, ddof=1)
    buffers = {name: tensor.to_host() for name, tensor in layer.named_buffers()}
    _close(buffers["running_mean"], mean, "running_mean")
    _close(buffers["running_var"], var, "running_var")
    assert int(buffers["num_batches_tracked"]) == 1
    layer.eval()
    compare(layer, lambda x: (x - mean) / np.sqrt(var + 1e-5), x, device)


def pooling(device: Device) -> None:
    """The largest and the mean of pairs, of all, and each element twice."""

    def pairs(x: Array) -> Array:
        return x.reshape(2, 3, 3, 2, 4, 2).swapaxes(3, 4).reshape(2, 3, 3, 4, 4)

    x = _drawn(2, 3, 6, 8)
    compare(api.MaxPool2d(2), lambda x: pairs(x).max(-1), x, device)
    compare(api.AvgPool2d(2), lambda x: pairs(x).mean(-1), x, device)
    compare(api.AdaptiveAvgPool2d(1), lambda x: x.mean((2, 3), keepdims=True), x, device)
    compare(api.Upsample(scale_factor=2), lambda x: x.repeat(2, 2).repeat(2, 3), x, device)


def embedding(device: Device) -> None:
    """Rows by index; a row that is taken twice gets both gradients."""
    layer = api.Embedding(6, 4)
    rows = layer.weight.to_host()
    result = layer(Tensor.from_host(np.array([[5, 0], [2, 5]], "int32"), device))
    np.testing.assert_array_equal(result.to_host(), rows[[[5, 0], [2, 5]]])
    ag.sum(result).backward()
    assert layer.weight.grad is not None
    wanted = np.array([1, 0, 1, 0, 0, 2])[:, None] * np.ones(4)
    np.testing.assert_array_equal(layer.weight.grad.to_host(), wanted)


def dropout(device: Device) -> None:
    """Zeros and scaled ones, the same for a seed; the identity in evaluation."""
    layer, x = api.Dropout(0.25), Tensor.ones((4000,), device=device)
    outputs = []
    for _ in range(2):
        nc.manual_seed(5)
        outputs.append(layer(x).to_host())
    np.testing.assert_array_equal(*outputs)
    kept = outputs[0] != 0
    _close(outputs[0][kept], np.full(kept.sum(), 1 / 0.75), "what is kept")
    assert 0.7 < kept.mean() < 0.8, f"{kept.mean()} of the elements are kept, not 0.75"
    np.testing.assert_array_equal(layer.eval()(x).to_host(), x.to_host())


def state(device: Device) -> None:
    """What `state_dict` gives makes another model the same."""
    first, second = (
        api.Sequential(api.Linear(4, 3), api.BatchNorm1d(3), api.ReLU()) for _ in range(2)
    )
    x = Tensor.from_host(_drawn(8, 4).astype("float32"), device)
    first(x)  # moves the running statistics
    held: Mapping[str, Any] = {key: tensor.to_host() for key, tensor in first.state_dict().items()}
    second.load_state_dict(held)
    results = [model.eval()(x).to_host() for model in (first, second)]
    np.testing.assert_array_equal(*results)


def saved(device: Device) -> None:
    """What `save` wrote, `load` reads on the device, with tensors that stood twice as one."""
    file, x = io.BytesIO(), Tensor.from_host(_drawn(3, 2).astype("float32"), device)
    saving.save({"state": [x, x], "epoch": 3}, file)
    file.seek(0)
    content = saving.load(file, device)
    first, second = content["state"]
    assert first is second, "a tensor that stood twice"
    assert (first.device, content["epoch"]) == (device, 3)
    np.testing.assert_array_equal(first.to_host(), x.to_host())


# -- without parameters ----------------------------------------------------------------


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _log_softmax(x: Array) -> Array:
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


_erf: Final = np.vectorize(math.erf, otypes=[float])
ACTIVATIONS: Final[tuple[tuple[api.Module, Reference], ...]] = (
    (api.ReLU(), lambda x: np.maximum(x, 0)),
    (api.LeakyReLU(0.1), lambda x: np.where(x > 0, x, 0.1 * x)),
    (api.ELU(0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    (api.GELU(), lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2),
    (api.SiLU(), lambda x: x * _sigmoid(x)),
    (api.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (api.Sigmoid(), _sigmoid),
    (api.Tanh(), np.tanh),
    (api.Softplus(), lambda x: np.log1p(np.exp(x))),
    (api.Hardtanh(-0.5, 0.75), lambda x: np.clip(x, -0.5, 0.75)),
    (api.Hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (api.Hardswish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (api.Softmax(-1), lambda x: np.exp(_log_softmax(x))),
    (api.LogSoftmax(-1), _log_softmax),
)


def activations(device: Device) -> None:
    """Each with its settings."""
    for module, reference in ACTIVATIONS:
        compare(module, reference, _drawn(5, 7), device)


def losses(device: Device) -> None:
    """Each with its default reduction, the mean."""
    y, labels = _sigmoid(_drawn(7, 5)), np.array([0, 4, 2, 1, 3], "int64")
    targets = Tensor.from_host(y.astype("float32"), device)
    classes = Tensor.from_host(labels, device)

    def nll(x: Array) -> Any:
        return -x[np.arange(5), labels].mean()

    def bce(x: Array) -> Any:
        return -(y * np.log(x) + (1 - y) * np.log(1 - x)).mean()

    rows: list[tuple[api.Module, Tensor, Array, Reference]] = [
        (api.MSELoss(), targets, _drawn(7, 5), lambda x: ((x - y) ** 2).mean()),
        (api.L1Loss(), targets, _drawn(7, 5), lambda x: np.abs(x - y).mean()),
        (api.BCELoss(), targets, _sigmoid(_drawn(5, 7).T), bce),
        (api.BCEWithLogitsLoss(), targets, _drawn(7, 5), lambda x: bce(_sigmoid(x))),
        (api.CrossEntropyLoss(), classes, _drawn(5, 7), lambda x: nll(_log_softmax(x))),
        (api.NLLLoss(), classes, _drawn(5, 7), nll),
    ]
    for module, target, x, reference in rows:
        compare(partial(_with, module, target), reference, x, device)


def _with(loss: api.Module, target: Tensor, x: Any) -> Any:
    return loss(x, target)


# -- ops -------------------------------------------------------------------------------


def lstm(t: Any, given: Any, product: Any, cell: Any) -> Any:
    """`lstm_gates` in PyTorch."""
    i, f, g, o = (given + product).chunk(4, -1)
    after = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * after.tanh(), after


def gru(t: Any, given: Any, product: Any, hidden: Any) -> Any:
    """`gru_gates` in PyTorch."""
    (r, z, n), (hr, hz, hn) = given.chunk(3, -1), product.chunk(3, -1)
    new = (n + (r + hr).sigmoid() * hn).tanh()
    return new + (z + hz).sigmoid() * (hidden - new)


def _gates(op: str, reference: Callable[..., Any], gates: int) -> Case:
    sizes = ((0, 4), (1, 1), (7, 5), (3, 16), (33, 48), (2, 3, 1, 5, 7))
    shapes = [[(*lead, gates * size)] * 2 + [(*lead, size)] for *lead, size in sizes]
    return Case(op, [normal()] * 3, reference, shapes=shapes)


def lstm_steps(
    t: Any, given: Any, hidden: Any, cell: Any, weight: Any, bias: Any, reverse: bool
) -> Any:
    """`lstm_steps` in PyTorch."""

    def step(product: Any, state: Any) -> Any:
        return lstm(t, product, state[0] @ weight.T + bias, state[1])

    return _through(t, step, given, (hidden, cell), reverse)


def gru_steps(t: Any, given: Any, hidden: Any, weight: Any, bias: Any, reverse: bool) -> Any:
    """`gru_steps` in PyTorch."""

    def step(product: Any, state: Any) -> Any:
        return (gru(t, product, state[0] @ weight.T + bias, state[0]),)

    return _through(t, step, given, (hidden,), reverse)


def _through(t: Any, step: Any, given: Any, state: Any, reverse: bool) -> Any:
    outputs = []
    for product in given.flip(0) if reverse else given:
        state = step(product, state)
        outputs.append(state[0])
    return (t.stack(outputs[::-1] if reverse else outputs), *state)


def _steps(op: str, reference: Callable[..., Any], gates: int, reverse: bool) -> Case:
    states = 2 if gates == 4 else 1
    sizes = ((1, 1, 1), (2, 0, 3), (3, 2, 5), (2, 33, 16))
    shapes = [
        [(steps, batch, gates * size), *[(batch, size)] * states, (gates * size, size),
         (gates * size,)]
        for steps, batch, size in sizes
    ]  # fmt: skip
    inputs = [normal()] * (1 + states) + [uniform(-0.5, 0.5)] * 2
    called = partial(reference, reverse=reverse)
    return Case(op, inputs, called, {"reverse": reverse}, shapes=shapes)


CASES: Final = [
    _gates("lstm_gates", lstm, 4),
    _gates("gru_gates", gru, 3),
    *[_steps("lstm_steps", lstm_steps, 4, reverse) for reverse in (False, True)],
    *[_steps("gru_steps", gru_steps, 3, reverse) for reverse in (False, True)],
]


def given_for(op: str) -> Sequence[Any]:
    """What tries a name of the plugin's."""
    scenarios = [scenario for scenario in SCENARIOS if scenario.namespace == op]
    return scenarios or [case for case in CASES if case.op == op]


SCENARIOS: Final = [
    Scenario("nn", "perceptron", perceptron),
    Scenario("nn", "norms", norms),
    Scenario("nn", "BatchNorm1d", batch_norm),
    Scenario("nn", "pooling", pooling),
    Scenario("nn", "Embedding", embedding),
    Scenario("nn", "Dropout", dropout),
    Scenario("nn", "state_dict", state),
    Scenario("nn", "activations", activations),
    Scenario("nn", "losses", losses),
    Scenario("serialization", "nest", saved),
]
