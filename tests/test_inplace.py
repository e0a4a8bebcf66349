"""`inplace=True` as PyTorch has it, in whatever way a function runs: the input is another value."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing.streams import recorded

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import FusionSkipped
from netcl_core.tensors.arguments import INPLACE_LAST

torch = pytest.importorskip("torch")
SETTINGS = {"threshold": (0.5, 9.0), "rrelu": (0.2, 0.2), "leaky_relu": (0.3,), "hardtanh": (-1, 1)}
RANDOM = [name for name in INPLACE_LAST if "dropout" in name]
VALUES = np.linspace(-4, 7, 24, dtype=np.float32).reshape(2, 3, 4)


def residual(t: Any, x: Any) -> Any:
    """A block whose first layer changes what goes around it."""
    block = t.nn.Sequential(t.nn.ReLU(inplace=True), t.nn.Hardtanh(-0.5, 2.0))
    x = x * 1.5
    return x + block(x)


def accumulated(t: Any, x: Any) -> Any:
    out = x * 0.5 - 1
    around = x * 2
    out += around
    out.mul_(3)
    t.nn.functional.relu(out, True)
    return out - around


def viewed(t: Any, x: Any) -> Any:
    y = x * 2
    rows = y.view(-1)
    t.nn.functional.leaky_relu(rows, 0.1, inplace=True)
    y[:, 1].sigmoid_()
    return y * rows.reshape(x.shape)


def given(t: Any, x: Any) -> Any:
    """The caller's tensor is changed."""
    return t.nn.functional.silu(x, inplace=True) * 2


def dropped(t: Any, x: Any) -> Any:
    y = x * 1
    t.nn.Dropout(1.0, inplace=True)(y)
    t.nn.Dropout(0.5, inplace=True).eval()(x)
    return y + x


def decided(t: Any, x: Any) -> Any:
    """It runs in parts, and changes values in each."""
    y = x * 2
    scale = float(t.nn.functional.relu(y, inplace=True).sum().item())
    z = y * (1 / scale)
    z += x
    return t.nn.functional.elu(z, inplace=True) + y


def outcome(library: Any, function: Callable[..., Any], gradient: bool) -> list[Any]:
    """The result, the input afterwards, and its gradient."""
    leaf = library.tensor(VALUES, requires_grad=gradient)
    x = leaf * 1.0
    found = function(x)
    if gradient:
        found.sum().backward()
    parts = [found, x, *([leaf.grad] if gradient else [])]
    return [each.detach().numpy() for each in parts]


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("program", [residual, accumulated, viewed, given, dropped, decided])
def test_programs(program: Callable[..., Any], gradient: bool, device: nc.Device) -> None:
    expected = outcome(torch, lambda x: program(torch, x), gradient)
    with nc.use_device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionSkipped)
        compiled = ag.jit_compile(lambda x: program(nc, x))
        ways = [lambda x: program(nc, x), compiled, compiled, compiled]
        if not gradient and program not in (given, decided):
            ways.append(ag.capture(lambda x: program(nc, x), nc.tensor(VALUES)))
        for way in ways:
            for found, right in zip(outcome(nc, way, gradient), expected, strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


def test_fusion_is_that_of_the_other_form(fast: nc.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel where ops alone have one; without a gradient no copy in eager mode either."""

    def chain(x: Any, inplace: bool) -> Any:
        y = ag.exp(x)
        z = ag.relu(y, inplace=inplace)
        z = z.add_(x) if inplace else z + x
        return ag.relu(z * 2, inplace=inplace)

    monkeypatch.delattr(nc.Tensor, "copy_into")
    with nc.use_device(fast):
        for gradient in (True, False):
            counts = []
            for inplace in (True, False):
                x = nc.tensor(VALUES, requires_grad=gradient)
                compiled = ag.jit_compile(lambda x, i=inplace: chain(x, i), strict=True)
                assert compiled.lower(x).launches == 1
                with recorded(fast) as stream:
                    chain(x, inplace)
                counts.append(len(stream.launched))
            assert counts[0] == counts[1]


@pytest.mark.parametrize("name", sorted(INPLACE_LAST))
def test_every_function_that_takes_it(name: str, device: nc.Device) -> None:
    """With a gradient and without; a leaf that needs one is refused in PyTorch's words."""
    settings = (1.0, True) if name in RANDOM else SETTINGS.get(name, ())
    values = VALUES if name == "dropout1d" else VALUES.reshape(2, 3, 2, 2)
    results = []
    for library in (torch, nc):
        function = getattr(library.nn.functional, name)
        with nc.use_device(device):
            x = library.tensor(values)
            assert function(x, *settings, inplace=True) is x
            leaf = library.tensor(values, requires_grad=True)
            function(leaf * 1.0, *settings, inplace=True).sum().backward()
            with pytest.raises(RuntimeError, match=r"a leaf|leaf Variable"):
                function(leaf, *settings, inplace=True)
            assert function(x, *settings, inplace=False) is not x
            results.append((x.numpy(), leaf.grad.numpy()))
    for found, right in zip(results[1], results[0], strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "gelu", "softmax", "conv2d"])
def test_what_has_none_in_pytorch_refuses_it(name: str) -> None:
    for library in (torch, nc):
        with pytest.raises(TypeError, match="inplace"):
            getattr(library.nn.functional, name)(library.ones(2, 3), inplace=False)


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_an_alias_takes_it_by_position(name: str) -> None:
    x = nc.tensor(VALUES)
    assert getattr(nc.nn.functional, name)(x, True) is x


def test_who_holds_the_memory_sees_the_change() -> None:
    """Without a gradient a result takes another buffer, but not where someone could tell."""
    for hold in (
        lambda y: y.detach(),
        lambda y: y[1:],
        lambda y: np.asarray(memoryview(y.buffer)) if y.device.backend == "numpy" else y.view(2),
        lambda y: (y.data_ptr(), y)[1],
    ):
        y = nc.ones(2) * 2
        held, place = hold(y), y.data_ptr()
        y.add_(1)
        assert np.all(np.asarray(held) == 3) and y.data_ptr() == place
    other, y = nc.ones(2) * 5, nc.ones(2) * 2
    y.copy_(other)
    other.add_(1)
    assert y.tolist() == [5, 5]
    scale = nc.ones(2) * 2
    graph = ag.capture(lambda x: x * scale, nc.ones(2))
    scale.add_(1)
    assert graph(nc.ones(2)).tolist() == [3, 3]


def test_a_buffer_is_handed_over_where_nobody_could_tell() -> None:
    x, source = nc.zeros(2), nc.ones(2) * 3
    x.detach()  # nobody has it any more
    version = x.version
    with nc.no_grad():
        ag.hand_over(x, source)
    assert x.tolist() == [3, 3] and x.buffer is source.buffer and x.version == version + 1
    for hold in (lambda y: y.detach(), lambda y: y[1:], lambda y: (y.data_ptr(), y)[1]):
        x = nc.zeros(2)
        held, place = hold(x), x.data_ptr()
        with nc.no_grad():
            ag.hand_over(x, nc.ones(2) * 3)
        assert np.all(np.asarray(held) == 3) and x.data_ptr() == place
    with nc.no_grad():
        ag.hand_over(x, x)
        ag.hand_over(x, nc.ones(1) * 4)  # broadcast, as copy_ does
    assert x.tolist() == [4, 4]


def reshaped(t: Any, x: Any) -> Any:
    """Changes of shape in place: of values of the graph, views, and plain tensors."""
    y = x * 2
    y.unsqueeze_(0).transpose_(1, 2)
    y.mul_(3)
    z = y[0].detach()
    z.t_() if z.ndim == 2 else z.transpose_(0, 2)
    plain = t.ones(1, 3, 1).squeeze_()
    plain.unsqueeze_(1).unsqueeze_(2).add_(1)
    matrix = t.arange(6).reshape(2, 3).clone()
    matrix.t_()
    assert (tuple(matrix.shape), matrix.tolist()) == ((3, 2), [[0, 3], [1, 4], [2, 5]])
    row = t.zeros(2, 3)[1]
    row.unsqueeze_(0).fill_(4)
    return (y.squeeze_(0) * plain).sum(0) + z.sum() + row.sum() + matrix[2, 1]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("gradient", [True, False])
def test_shapes_change_in_place(gradient: bool, compiled: bool, device: nc.Device) -> None:
    expected = outcome(torch, lambda x: reshaped(torch, x), gradient)
    with nc.use_device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionSkipped)
        function: Any = lambda x: reshaped(nc, x)  # noqa: E731
        function = ag.jit_compile(function) if compiled else function
        for _ in range(2):
            found = outcome(nc, function, gradient)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_what_has_views_is_not_transposed_in_place() -> None:
    x = nc.ones(2, 3)
    view = x[0]
    with pytest.raises(nc.errors.ArgumentError, match=r"t_: a tensor with views.*x = x\.t"):
        x.t_()
    with pytest.raises(nc.errors.GradientError, match="unsqueeze_: a leaf"):
        nc.ones(2, requires_grad=True).unsqueeze_(0)
    assert view.shape == (3,) and x.unsqueeze_(0).shape == (1, 2, 3)


@pytest.mark.parametrize("value", [True, False])
def test_others_refuse_it(value: bool) -> None:
    """PyTorch's `F.tanh` has no such argument."""
    for library in (torch, nc):
        with pytest.raises(TypeError, match="inplace"):
            library.nn.functional.tanh(library.ones(2), inplace=value)
    with pytest.raises(TypeError, match=r"x\.copy_\(tanh\(x\)\)"):
        ag.tanh(nc.ones(2), inplace=value)
