"""Views share memory: what PyTorch shows after any program of views and changes in place."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, GradientError, MutationError, ShapeError
from netcl_core.inspect.streams import StreamWrapper, stream_of, use_stream

Shape = tuple[int, ...]
#: What PyTorch refuses, or leaves to chance, and netcl computes: programs part there.
PARTED = ("multiple views", "single memory location", "no_grad mode", "Variable that requires")


def places(draw: random.Random, shape: Shape) -> tuple[Any, ...]:
    """An index of ints, slices, None and Ellipsis."""
    items: list[Any] = []
    for size in shape[: draw.randint(1, len(shape))]:
        start = draw.randrange(size + 1)
        cut = slice(start, draw.randrange(start, size + 1), draw.choice((1, 1, 2)))
        items.append(draw.randrange(-size, size) if size and draw.random() < 0.3 else cut)
    for extra in (None, ...):
        if draw.random() < 0.15:
            items.insert(draw.randrange(len(items) + 1), extra)
    return tuple(items)


def view_of(draw: random.Random, shape: Shape) -> Callable[[Any], Any]:
    """A view of a tensor of a shape."""
    found: list[Callable[[Any], Any]] = [
        lambda x: x.unsqueeze(draw_place),
        lambda x: x.squeeze(),
        lambda x: x.flatten(),
        lambda x: x.reshape(-1, 1),
        lambda x: x.view(2, -1),
        lambda x: x.expand(2, *x.shape),
    ]
    draw_place = draw.randrange(len(shape) + 1)
    if shape and min(shape):
        dim, index, order = draw.randrange(len(shape)), places(draw, shape), list(range(len(shape)))
        draw.shuffle(order)
        at = draw.randrange(shape[dim])
        found += [lambda x: x[index]] * 4
        found += [
            lambda x: x.select(dim, at),
            lambda x: x.narrow(dim, at, shape[dim] - at),
            lambda x: x.unbind(dim)[at],
            lambda x: x.chunk(2, dim)[-1],
            lambda x: x.permute(*order),
            lambda x: x.transpose(0, dim),
        ]
        if len(shape) > 1:
            found += [lambda x: x.diagonal(), lambda x: x.mT]
        if shape[dim] > 1:
            found.append(lambda x: x.unfold(dim, 2, 1))
    return draw.choice(found)


def change_of(draw: random.Random, shape: Shape) -> Callable[[Any, Any, Any], Any]:
    """A change in place: `(x, leaf, library)`."""
    number, array = draw.randint(-2, 2) * 0.5, np.float32(draw.randint(-3, 3))
    index = places(draw, shape) if shape else (...,)
    return draw.choice(
        [
            lambda x, w, t: x.add_(number),
            lambda x, w, t: x.mul_(w.reshape(-1)[:1] * 1),
            lambda x, w, t: x.copy_(t.tensor(array)),
            lambda x, w, t: x.copy_((w.sum() * 2).reshape(())),
            lambda x, w, t: x.zero_(),
            lambda x, w, t: x.relu_(),
            lambda x, w, t: x.__setitem__(index, number),
            lambda x, w, t: x.__setitem__(index, (w * 1).sum()),
        ]
    )


def facts(x: Any) -> Any:
    return tuple(x.shape), tuple(x.stride()), x.storage_offset(), x.is_contiguous()


def attempt(function: Callable[..., Any], *args: Any) -> tuple[Any, Exception | None]:
    try:
        return function(*args), None
    except (RuntimeError, IndexError, ValueError, nc.errors.NetclError) as error:
        return None, error


def parted(recorded: bool, seed: int) -> bool:
    """Run a program in both libraries; True: PyTorch stopped where netcl goes on."""
    draw = random.Random(seed)
    shape = tuple(draw.choice((1, 2, 3, 4)) for _ in range(draw.randint(1, 3)))
    data = np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)
    leaves = [t.tensor(data, requires_grad=recorded) for t in (torch, nc)]
    values: list[tuple[Any, Any]] = [tuple(x * 1 for x in leaves)]  # type: ignore[list-item]
    values.append((torch.zeros(3, 2), nc.zeros(3, 2)))
    for _ in range(8):
        pair = draw.choice(values)
        if draw.random() < 0.5:
            change = view_of(draw, tuple(pair[0].shape))
            (theirs, why), (ours, error) = (attempt(change, x) for x in pair)
            if why is not None and any(text in str(why) for text in PARTED):
                return True
            assert (why is None) == (error is None), (why, error)
            if why is None:
                values.append((theirs, ours))
                assert facts(ours) == facts(theirs)
        else:
            write, silent = change_of(draw, tuple(pair[0].shape)), draw.random() < 0.25
            with torch.set_grad_enabled(not silent), nc.set_grad_enabled(not silent):
                trials = zip(pair, leaves, (torch, nc), strict=True)
                (_, why), (_, error) = (attempt(write, *trial) for trial in trials)
            if isinstance(error, ArgumentError) or any(text in str(why) for text in PARTED):
                return True
            assert (why is None) == (error is None), (why, error)
        for theirs, ours in values:
            if attempt(lambda x=theirs: x * 1)[1] is not None:
                return True
            np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-5)
    if recorded:
        sums = [
            sum((x * (i + 1)).sum() for i, x in enumerate(xs)) for xs in zip(*values, strict=True)
        ]
        (_, why), (_, error) = (attempt(lambda x=x: x.backward()) for x in sums)
        if why is None:
            assert error is None, error
            grads = [0 * data if x.grad is None else np.asarray(x.grad.numpy()) for x in leaves]
            np.testing.assert_allclose(grads[1], grads[0], rtol=1e-4, atol=1e-5)
    return False


@pytest.mark.parametrize("recorded", [False, True])
def test_programs_of_views_and_changes(device: nc.Device, recorded: bool) -> None:
    with nc.use_device(device):
        stopped = [parted(recorded, seed) for seed in range(40)]
    assert stopped.count(True) < 20  # else little was compared


@pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")
def test_a_compiled_and_a_captured_function_change_views(device: nc.Device) -> None:
    def step(x: Any) -> Any:
        y = x * 2
        y[0].add_(1)
        y.t()[1].mul_(3)
        return y, y[:, 1], y.sum()

    with nc.use_device(device):
        first, second = nc.ones(2, 2), nc.tensor([[1.0, 2.0], [3.0, 4.0]])
        for run in (step, ag.jit_compile(step), ag.capture(step, first)):
            for x in (first, second, first):
                y, column, total = run(x)
                wanted = 2 * x.numpy()
                wanted[0] += 1
                wanted[:, 1] *= 3
                np.testing.assert_array_equal(y.numpy(), wanted)
                np.testing.assert_array_equal(column.numpy(), wanted[:, 1])
                assert total.item() == wanted.sum()


def test_a_captured_step_writes_into_a_cache(device: nc.Device) -> None:
    with nc.use_device(device):
        cache = nc.zeros(2, 3)
        graph = ag.capture(lambda k: cache[:, 1].copy_(k).sum(), nc.ones(2))
        assert graph([5.0, 7.0]).item() == 12
        assert cache.tolist() == [[0, 5, 0], [0, 7, 0]]


def test_what_was_saved_is_missed_when_a_view_of_it_changes() -> None:
    w, x = nc.tensor([1.0, 2.0], requires_grad=True), nc.ones(2)
    y = (w * x).sum()
    x[:1].zero_()
    with pytest.raises(MutationError):
        y.backward()
    with pytest.raises(GradientError, match=r"a view of a leaf.*no_grad"):
        w[0] = 1
    with nc.no_grad():
        w[0] = 5
    assert w.tolist() == [5, 2]


def test_second_derivatives_of_changed_views() -> None:
    def value(t: Any, x: Any) -> Any:
        y = x * x
        y[1:].mul_(x[:2])
        y.unfold(0, 2, 1)[0].add_(x[0])
        return (y.unfold(0, 2, 1) ** 2).sum()

    found = []
    for t, grad in ((torch, torch.autograd.grad), (nc, ag.grad)):
        x = t.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (first,) = grad(value(t, x), [x], create_graph=True)
        (second,) = grad((first * first).sum(), [x])
        found.append((first.detach().numpy(), second.detach().numpy()))
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_view_refuses_to_copy() -> None:
    x = nc.zeros(2, 3).t()
    with pytest.raises(
        ShapeError, match=r"view: \(6,\) for shape \(3, 2\) and strides \(1, 3\).*reshape"
    ):
        x.view(6)
    assert x.reshape(6).is_contiguous() and x.contiguous().view(6).shape == (6,)
    assert nc.zeros(4)[1:].untyped_storage().nbytes() == 16
    assert nc.zeros(2, 2)[1]._base is not None and nc.zeros(2)._base is None


class _Launches(StreamWrapper):
    """Notes the entry points that a stream is asked to run."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.entries: list[str] = []

    def launch(self, launch: Any, buffers: Any, scalars: Any = ()) -> None:
        self.entries.append(launch.kernel.entry)
        self.inner.launch(launch, buffers, scalars)


#: What copies, by the entry points of kernels.
COPIES = {"astype_forward", "copy_elements", "copy_views", "gather", "joined", "scatter", "move"}


def test_layers_copy_few_tensors() -> None:
    """A transformer's layer joins the gradients of q, k and v; an LSTM's step copies nothing."""
    device = next(each for each in nc.devices() if each.has_kernels and each.kind == "cpu")
    with nc.use_device(device):
        cut, lstm = nc.nn.Linear(8, 24), nc.nn.LSTM(8, 8, batch_first=True)
        x = nc.ones(2, 12, 8, requires_grad=True)

        def layer(x: Any) -> Any:
            heads = [each.view(2, 12, 2, 4).transpose(1, 2) for each in cut(x).chunk(3, -1)]
            y = ag.scaled_dot_product_attention(*heads, is_causal=True)
            return y.transpose(1, 2).contiguous().view(2, 12, 8)

        for step, most in ((layer, 1), (lambda x: lstm(x)[0], 6)):
            (step(x) ** 2).sum().backward()
            with use_stream(_Launches(stream_of(device))) as seen:
                (step(x) ** 2).sum().backward()
            assert sum(entry in COPIES for entry in seen.entries) <= most, seen.entries
        with nc.no_grad(), use_stream(_Launches(stream_of(device))) as seen:
            ag.sum(ag.matmul(x[:, 1:5], x.transpose(-2, -1)).transpose(-2, -1), -1)
        assert len(seen.entries) == 2, seen.entries


def test_the_gradients_of_slices_are_added_in_place() -> None:
    """One tensor of zeros for a loop over slices, and one launch for each further slice."""
    device = next(each for each in nc.devices() if each.has_kernels and each.kind == "cpu")
    with nc.use_device(device):
        x = nc.ones(3, 5, 4, requires_grad=True)
        losses = [nc.stack([x[:, t] for t in range(count)]).sum() for count in (2, 5)]
        launched = []
        for loss in losses:
            with use_stream(_Launches(stream_of(device))) as seen:
                [gradient] = ag.grad(loss, [x])
            launched.append(len(seen.entries))
        assert launched[1] - launched[0] == 3, launched
        assert gradient.tolist() == nc.ones(3, 5, 4).tolist()


def test_optimizers_and_clipping_write_through_views(device: nc.Device) -> None:
    with nc.use_device(device):
        base, gradients = nc.ones(3, 2), nc.full((2, 3), 6.0)
        column = base.t()[1].requires_grad_()
        column.grad = gradients[1]
        nc.nn.utils.clip_grad_value_([column], 2.0)
        assert gradients.tolist() == [[6, 6, 6], [2, 2, 2]]
        nc.optim.SGD([column], lr=0.5).step()
        assert base.tolist() == [[1, 0], [1, 0], [1, 0]]
