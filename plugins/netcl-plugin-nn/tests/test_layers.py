"""Layers, activations and losses equal PyTorch's; containers; initialisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError

RANDOM = np.random.default_rng(2)
X = RANDOM.standard_normal((5, 6)).astype(np.float32)
ACTIVATIONS: list[tuple[str, dict[str, Any]]] = [
    ("ReLU", {}),
    ("LeakyReLU", {"negative_slope": 0.2}),
    ("PReLU", {}),
    ("PReLU", {"num_parameters": 6}),
    ("ELU", {"alpha": 1.5}),
    ("GELU", {}),
    ("GELU", {"approximate": "tanh"}),
    ("SiLU", {}),
    ("Mish", {}),
    ("Sigmoid", {}),
    ("Tanh", {}),
    ("Softplus", {"beta": 2.0}),
    ("Hardsigmoid", {}),
    ("Hardswish", {}),
    ("Hardtanh", {"max_val": 0.5}),
    ("Softmax", {"dim": 0}),
    ("LogSoftmax", {"dim": -1}),
    ("Identity", {}),
    ("Flatten", {"start_dim": 0}),
]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("name", "settings"), ACTIVATIONS, ids=str)
def test_activations_equal_pytorch(name: str, settings: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor(X, requires_grad=True)
    expected = getattr(torch.nn, name)(**settings)(x)
    expected.square().sum().backward()
    for device in usable_devices():
        module = getattr(nn, name)(**settings).to(device)
        given = nc.Tensor.from_host(X, device, requires_grad=True)
        result = module(given)
        np.testing.assert_allclose(result.to_host(), expected.detach(), rtol=2e-5, atol=2e-6)
        ag.sum(ag.square(result)).backward()
        np.testing.assert_allclose(given.grad.to_host(), x.grad, rtol=5e-5, atol=2e-5)


def test_prelu_slopes_belong_to_the_channels() -> None:
    torch = pytest.importorskip("torch")
    x = RANDOM.standard_normal((2, 3, 4)).astype(np.float32)
    ours, theirs = nn.PReLU(3), torch.nn.PReLU(3)
    slopes = np.array([0.1, 0.2, 0.3], np.float32)
    ours.load_state_dict({"weight": slopes})
    theirs.load_state_dict({"weight": torch.tensor(slopes)})
    np.testing.assert_allclose(ours(nc.tensor(x)).to_host(), theirs(torch.tensor(x)).detach())


@pytest.mark.parametrize("bias", [True, False])
def test_linear_equals_pytorch(bias: bool) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(6, 4, bias=bias)
    state = {name: value.detach().numpy() for name, value in theirs.state_dict().items()}
    x = RANDOM.standard_normal((2, 5, 6)).astype(np.float32)
    theirs(torch.tensor(x)).square().sum().backward()
    for device in usable_devices():
        ours = nn.Linear(6, 4, bias=bias, device=device)
        ours.load_state_dict(state)
        result = ours(nc.tensor(x, device))
        np.testing.assert_allclose(result.to_host(), theirs(torch.tensor(x)).detach(), atol=1e-5)
        ag.sum(ag.square(result)).backward()
        for name, parameter in ours.named_parameters():
            expected = theirs.get_parameter(name).grad
            np.testing.assert_allclose(parameter.grad.to_host(), expected, rtol=1e-4, atol=1e-4)


def test_linear_starts_as_in_pytorch_and_checks_its_sizes() -> None:
    nc.manual_seed(0)
    layer = nn.Linear(100, 400, dtype="float64", device="numpy")
    for parameter in layer.parameters():
        values = parameter.to_host()
        assert 0.095 < np.abs(values).max() <= 0.1
        assert abs(values.std() - 0.1 / 3**0.5) < 0.004
    with pytest.raises(AttributeValueError, match="positive"):
        nn.Linear(0, 3)


Y = RANDOM.standard_normal((5, 6)).astype(np.float32)
P = RANDOM.uniform(0.1, 0.9, (5, 6)).astype(np.float32)
INDICES = np.array([0, 5, -100, 2, 3])
WEIGHTS = RANDOM.uniform(0.5, 2, 6).astype(np.float32)
LOSSES: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("MSELoss", {}, X, Y),
    ("L1Loss", {}, X, Y),
    ("SmoothL1Loss", {"beta": 0.5}, X, Y),
    ("HuberLoss", {"delta": 0.5}, X, Y),
    ("BCELoss", {"weight": WEIGHTS}, P, 1 - P),
    ("BCEWithLogitsLoss", {"weight": P, "pos_weight": WEIGHTS}, X, P),
    ("CrossEntropyLoss", {}, X, INDICES),
    ("CrossEntropyLoss", {"weight": WEIGHTS, "label_smoothing": 0.1}, X, INDICES),
    ("CrossEntropyLoss", {}, X, P),
    ("NLLLoss", {"weight": WEIGHTS, "ignore_index": 2}, X, np.array([0, 5, 2, 2, 3])),
    ("KLDivLoss", {"log_target": True}, X, Y),
]


@pytest.mark.filterwarnings("ignore:reduction. 'mean':UserWarning")
@pytest.mark.parametrize(("name", "settings", "x", "y"), LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_equal_pytorch(
    name: str, settings: dict[str, Any], x: Any, y: Any, reduction: str
) -> None:
    torch = pytest.importorskip("torch")
    ours = getattr(nn, name)(**settings, reduction=reduction)
    tensors = {k: torch.tensor(v) if k in ours.weights else v for k, v in settings.items()}
    theirs = getattr(torch.nn, name)(**tensors, reduction=reduction)
    expected = theirs(torch.tensor(x), torch.tensor(y))
    for device in usable_devices():
        result = ours.to(device)(nc.tensor(x, device), nc.tensor(y, device))
        np.testing.assert_allclose(result.to_host(), expected, rtol=2e-5, atol=1e-6)
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_sequential_is_a_list_that_runs() -> None:
    net = nn.Sequential(nn.Linear(6, 3), nn.ReLU())
    net.append(nn.Linear(3, 1))
    assert len(net) == 3 and isinstance(net[1], nn.ReLU) and net[-1] is net[2]
    assert [type(layer).__name__ for layer in net] == ["Linear", "ReLU", "Linear"]
    part = net[:2]
    assert isinstance(part, nn.Sequential) and part[0] is net[0]
    assert net(X).shape == (5, 1)
    net[1] = nn.Tanh()
    assert "(1): Tanh()" in repr(net)
    with pytest.raises(IndexError):
        net[3]
    with pytest.raises(ArgumentError, match=r"nn\.Module"):
        net[0] = 3
    with pytest.raises(ArgumentError, match=r"nn\.Module"):
        nn.Sequential(np.tanh)


def test_a_module_list_holds_modules() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2)]).extend([nn.Linear(2, 1), nn.ReLU()])
    assert len(list(layers.parameters())) == 4 and isinstance(layers[1:], nn.ModuleList)


def test_a_seed_gives_the_same_model_on_every_device() -> None:
    models = []
    for device in usable_devices():
        nc.manual_seed(3)
        models.append(nn.Linear(5, 4, device=device).weight.to_host())
    for values in models:
        np.testing.assert_array_equal(values, models[0])


@pytest.mark.parametrize(
    ("name", "settings", "variance"),
    [
        ("uniform_", {"a": -3, "b": 3}, 3.0),
        ("normal_", {"mean": 0, "std": 2}, 4.0),
        ("kaiming_uniform_", {"nonlinearity": "relu"}, 2 / 120),
        ("kaiming_uniform_", {"a": 1.0, "mode": "fan_out"}, 1 / 160),
        ("kaiming_normal_", {"nonlinearity": "relu"}, 2 / 120),
        ("xavier_uniform_", {"gain": 2.0}, 8 / 280),
        ("xavier_normal_", {}, 2 / 280),
    ],
)
def test_initial_values_have_the_variance(
    name: str, settings: dict[str, Any], variance: float
) -> None:
    check_variance(name, settings, variance)


@pytest.mark.parametrize("name", ["uniform_", "normal_"])
def test_large_initial_values_are_drawn_by_the_device(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.init, "_LARGE", 1)
    settings = {"a": -2.0, "b": 2.0} if name == "uniform_" else {"std": 3.0}
    check_variance(name, settings, 4 / 3 if name == "uniform_" else 9.0)


def check_variance(name: str, settings: dict[str, Any], variance: float) -> None:
    nc.manual_seed(1)
    tensor = nc.Tensor.empty((40, 30, 4), device="numpy")
    assert getattr(nn.init, name)(tensor, **settings) is tensor
    assert abs(tensor.to_host().var() / variance - 1) < 0.05
    assert abs(tensor.to_host().mean()) < 0.05 * variance**0.5


@pytest.mark.parametrize("large", [1 << 20, 1])
def test_truncated_normal_numbers(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.init, "_LARGE", large)
    nc.manual_seed(1)
    tensor = nc.Tensor.empty((200, 200), device="numpy")
    values = nn.init.trunc_normal_(tensor, 1.0, 2.0, -1.0, 3.0).to_host()
    assert values.min() >= -1 and values.max() <= 3
    assert abs(values.std() / 2 - 0.5396) < 0.01  # a standard normal cut at one deviation
    with pytest.raises(AttributeValueError, match="five standard deviations"):
        nn.init.trunc_normal_(tensor, a=50.0, b=60.0)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (4, 3, 2)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]) -> None:
    tensor = nc.Tensor.empty(shape, "float64", "numpy")
    matrix = nn.init.orthogonal_(tensor, 3.0).to_host().reshape(shape[0], -1)
    smaller = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    np.testing.assert_allclose(smaller @ smaller.T, 9 * np.eye(len(smaller)), atol=1e-12)


def test_identities_and_sparse_matrices() -> None:
    torch = pytest.importorskip("torch")
    matrix = nc.Tensor.empty((3, 5), device="numpy")
    np.testing.assert_array_equal(nn.init.eye_(matrix).to_host(), np.eye(3, 5))
    weight = nc.Tensor.empty((6, 2, 3, 3), device="numpy")
    for groups in (1, 2, 3):
        expected = torch.nn.init.dirac_(torch.empty(6, 2, 3, 3), groups)
        np.testing.assert_array_equal(nn.init.dirac_(weight, groups).to_host(), expected)
    values = nn.init.sparse_(nc.Tensor.empty((10, 4), device="numpy"), 0.25).to_host()
    assert ((values == 0).sum(0) == 3).all()
    for call in (nn.init.eye_, nn.init.dirac_, lambda t: nn.init.sparse_(t, 0.5)):
        with pytest.raises(ShapeError, match=r"two dimensions|three to five"):
            call(nc.Tensor.empty((3,), device="numpy"))


def test_gains_equal_pytorch_and_mistakes_are_named() -> None:
    torch = pytest.importorskip("torch")
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert nn.init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    weight = nc.Tensor.empty((2, 2), device="numpy")
    with pytest.raises(AttributeValueError, match="one of linear"):
        nn.init.calculate_gain("cube")
    with pytest.raises(AttributeValueError, match="fan_in"):
        nn.init.kaiming_uniform_(weight, mode="fan")
    with pytest.raises(ShapeError, match="two dimensions"):
        nn.init.xavier_uniform_(nc.Tensor.empty((2,), device="numpy"))
    assert nn.init.ones_(weight).to_host().sum() == 4
    assert nn.init.zeros_(weight).to_host().sum() == 0
