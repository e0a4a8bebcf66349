"""Recurrent layers and cells equal PyTorch's, with PyTorch's weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both import DEVICES, compare, drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing import recorded

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import AttributeValueError, DtypeError, ShapeError
from netcl_core.plugins.registry import registry

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")

#: (layer, its settings, the input's shape, whether initial states are given)
LAYERS: list[tuple[str, dict[str, Any], tuple[int, ...], bool]] = [
    ("RNN", {"num_layers": 2, "bidirectional": True}, (5, 3, 4), True),
    ("RNN", {"nonlinearity": "relu", "bias": False, "batch_first": True}, (3, 5, 4), False),
    ("LSTM", {"num_layers": 2, "bidirectional": True}, (5, 3, 4), True),
    ("LSTM", {"bias": False, "batch_first": True}, (3, 1, 4), False),
    ("LSTM", {"proj_size": 2, "num_layers": 2}, (4, 2, 4), True),
    ("GRU", {"num_layers": 2, "bidirectional": True}, (5, 3, 4), True),
    ("GRU", {"bias": False}, (5, 4), True),
    ("LSTM", {}, (5, 4), True),
]


def states(name: str, attrs: dict[str, Any], shape: tuple[int, ...], size: int) -> Any:
    count = attrs.get("num_layers", 1) * (2 if attrs.get("bidirectional") else 1)
    batch = () if len(shape) == 2 else (shape[0 if attrs.get("batch_first") else 1],)
    sizes = (attrs.get("proj_size") or size, size)[: 2 if name == "LSTM" else 1]
    found = tuple(drawn(count, *batch, each, seed=i) for i, each in enumerate(sizes))
    return found if name == "LSTM" else found[0]


@pytest.mark.parametrize(("name", "attrs", "shape", "begun"), LAYERS, ids=str)
def test_layers(name: str, attrs: dict[str, Any], shape: tuple[int, ...], begun: bool) -> None:
    ours, theirs = (getattr(each, name)(4, 6, **attrs) for each in (nn, torch.nn))
    more = [states(name, attrs, shape, 6)] if begun else []
    compare(ours, theirs, [drawn(*shape), *more])


@settings(max_examples=6, deadline=None)
@given(
    st.sampled_from(["RNN", "LSTM", "GRU"]),
    *[st.integers(1, 5)] * 3,
    st.integers(1, 35),
    st.booleans(),
)
def test_sizes(name: str, steps: int, batch: int, size: int, hidden: int, both: bool) -> None:
    made = [getattr(each, name)(size, hidden, bidirectional=both) for each in (nn, torch.nn)]
    compare(*made, [drawn(steps, batch, size)])


@pytest.mark.parametrize("batch", [(3,), ()], ids=["batch", "one"])
@pytest.mark.parametrize("attrs", [{}, {"bias": False}], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(name: str, attrs: dict[str, Any], batch: tuple[int, ...]) -> None:
    ours, theirs = (getattr(each, name)(4, 6, **attrs) for each in (nn, torch.nn))
    state = drawn(*batch, 6)
    given = (state, drawn(*batch, 6, seed=1)) if name == "LSTMCell" else state
    compare(ours, theirs, [drawn(*batch, 4), given])
    if not attrs:
        theirs.zero_grad()
        compare(ours, theirs, [drawn(*batch, 4)])


def test_a_cell_with_relu() -> None:
    ours, theirs = (each.RNNCell(4, 6, nonlinearity="relu") for each in (nn, torch.nn))
    compare(ours, theirs, [drawn(3, 4)])


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_weights_start_as_in_pytorch(name: str) -> None:
    nc.manual_seed(0)
    for key, values in getattr(nn, name)(64, 100, device="numpy").named_parameters():
        host = values.to_host()
        assert 0.09 < np.abs(host).max() <= 0.1, key
        assert abs(host.std() - 0.1 / 3**0.5) < 0.01, key


def test_dropout_stands_between_layers() -> None:
    layer = nn.GRU(4, 6, num_layers=2, dropout=0.5)
    x = nc.tensor(drawn(5, 3, 4))
    assert (layer(x)[0].numpy() != layer(x)[0].numpy()).any()
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].numpy(), layer(x)[0].numpy())
    with pytest.warns(UserWarning, match="there is one layer"):
        nn.GRU(4, 6, dropout=0.5)


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_compiled_and_captured(name: str) -> None:
    layer = getattr(nn, name)(4, 6)
    x, y = (nc.tensor(drawn(3, 2, 4, seed=i)) for i in range(2))
    wanted = [layer(each)[0].numpy() for each in (x, y)]
    compiled = ag.jit_compile(lambda x: layer(x)[0])
    np.testing.assert_allclose(compiled(x).numpy(), wanted[0], atol=1e-6)
    assert compiled.cache_info().currsize == 1

    def step(x: Any) -> Any:
        layer.zero_grad()
        output, _ = layer(x)
        ag.sum(output).backward()
        return output

    graph = ag.capture(step, x)
    np.testing.assert_array_equal(graph(y).numpy(), wanted[1])
    captured = layer.weight_hh_l0.grad.numpy()
    step(y)
    np.testing.assert_array_equal(captured, layer.weight_hh_l0.grad.numpy())


def test_bad_input_is_named() -> None:
    with pytest.raises(AttributeValueError, match="LSTM: proj_size=6"):
        nn.LSTM(4, 6, proj_size=6)
    with pytest.raises(AttributeValueError, match="'tanh' or 'relu'"):
        nn.RNN(4, 6, nonlinearity="sine")
    layer = nn.LSTM(4, 6)
    with pytest.raises(ShapeError, match=r"input of shape \(2, 3, 5\); expected \(L, N, 4\)"):
        layer(nc.zeros(2, 3, 5))
    with pytest.raises(ShapeError, match=r"no steps"):
        layer(nc.zeros(0, 3, 4))
    with pytest.raises(ShapeError, match=r"hx of shape .*expected \(1, 3, 6\) and \(1, 3, 6\)"):
        layer(nc.zeros(2, 3, 4), (nc.zeros(1, 2, 6), nc.zeros(1, 3, 6)))
    with pytest.raises(ShapeError, match=r"GRUCell: hx of shape \(2, 5\)"):
        nn.GRUCell(4, 6)(nc.zeros(2, 4), nc.zeros(2, 5))


#: (layer, what is looked at of its results)
LOOKS = [
    ("LSTM", lambda output, state: state[1]),
    ("LSTM", lambda output, state: state[0]),
    ("GRU", lambda output, state: output[1]),
]


@pytest.mark.parametrize(("name", "look"), LOOKS)
def test_some_results_and_gradients_of_gradients(name: str, look: Any) -> None:
    """All steps as one op, beside the ops that it stands for in float64."""
    found = []
    for device, dtype in ((DEVICES[0], "float32"), (nc.get_device("numpy"), "float64")):
        layer = getattr(nn, name)(4, 5, bidirectional=True, device=device, dtype=dtype)
        for i, weight in enumerate(layer.parameters()):
            weight.overwrite(drawn(*weight.shape, seed=i) / 2)
        x = nc.tensor(drawn(3, 2, 4).astype(dtype), device, requires_grad=True)
        leaves = [x, layer.weight_hh_l0, layer.bias_hh_l0_reverse]
        slopes = ag.grad(ag.sum(look(*layer(x)) ** 3), leaves, create_graph=True)
        sum(ag.sum(slope * slope) for slope in slopes).backward()
        found.append([each.to_host() for each in (*slopes, *(leaf.grad for leaf in leaves))])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_launches_of_a_step(name: str) -> None:
    """One for the product and one for the gates; the weight's gradient is one for all steps."""
    device = DEVICES[0]
    if device.backend != "opencl" or device.kind != "cpu":
        pytest.skip("on GPUs a product may be two launches")
    layer, counts = getattr(nn, name)(4, 6, device=device), []
    for steps in (3, 7):
        layer.zero_grad()
        output, _ = layer(nc.tensor(drawn(steps, 2, 4), device))
        with recorded(device) as stream:
            ag.sum(output).backward()
            counts.append(len(stream.launched))
    assert counts[1] - counts[0] == 2 * 4


def test_steps_that_do_not_fit_are_named() -> None:
    state, weight = nc.zeros(2, 3), nc.zeros(9, 3)
    for shape in ((5, 2, 8), (2, 9), (0, 2, 9)):
        with pytest.raises(ShapeError, match=r"gru_steps: .*expected \(T, N, 3 H\)"):
            ag.gru_steps(nc.zeros(*shape), state, weight)
    with pytest.raises(DtypeError, match="one floating dtype"):
        ag.gru_steps(nc.zeros(5, 2, 9, dtype="float16"), state, weight)


def test_under_autocast() -> None:
    """Products in 16 bits with weights in 32: the steps are ops of their own."""
    pytest.importorskip("netcl_plugin_amp")
    layer = nn.GRU(4, 6)
    x = nc.tensor(drawn(3, 2, 4))
    wanted = layer(x)[0].numpy()
    with nc.amp.autocast(dtype="bfloat16"):
        found = layer(x)[0]
    ag.sum(found.astype("float32")).backward()
    np.testing.assert_allclose(nc.widened(found.numpy()), wanted, atol=0.05)
    assert layer.weight_hh_l0.grad.dtype == "float32"


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_gates_have_the_dtype_of_the_state(name: str) -> None:
    """Under a policy too, which makes the products narrower: on every device."""
    pytest.importorskip("netcl_plugin_amp")
    x = drawn(3, 2, 4)
    for device in nc.devices():
        with nc.use_device(device), nc.amp.autocast(dtype="bfloat16"):
            layer, cell = getattr(nn, name)(4, 6), getattr(nn, f"{name}Cell")(4, 6)
            states = [layer(nc.tensor(x))[0]]
            step = cell(nc.tensor(x[0]))
            states += step if isinstance(step, (tuple, list)) else [step]
        assert {each.dtype for each in states} == {"float32"}


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_all_steps_by_the_products_of_a_gpu(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU plays the GPU; the steps read and write their places, so nothing is copied or added."""
    device = nc.default_device()
    if device.kind != "cpu":
        pytest.skip("no CPU to play a GPU")
    monkeypatch.setattr(device, "kind", "gpu")
    monkeypatch.setattr(device, "max_work_group_size", 64)
    registry.renew()
    try:
        ours, theirs = (getattr(each, name)(33, 40, num_layers=2) for each in (nn, torch.nn))
        compare(ours, theirs, [drawn(5, 20, 33)])
        ours.to(device)
        graph = ag.capture(lambda x: ag.sum(ours(x)[0]).backward(), nc.tensor(drawn(5, 20, 33)))
        assert graph.launches < 2 * 5 * 4 + 40
    finally:
        monkeypatch.undo()
        registry.renew()
