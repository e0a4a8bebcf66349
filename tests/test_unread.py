"""What a graph keeps of values that no gradient reads: the way through them, and no elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import GradientError, MutationError
from netcl_core.inspect.recorded import process


@pytest.fixture(autouse=True)
def least() -> Iterator[None]:
    before, process.least = process.least, 0
    yield
    process.least = before


def leaf(*shape: int) -> Any:
    values = np.random.default_rng(0).standard_normal(shape or (22, 26))
    return nc.tensor(values, dtype="float32", requires_grad=True)


def elements_of(x: Any) -> int:
    """How many elements a graph holds, apart from its leaves and its result."""
    seen: dict[int, Any] = {}
    front = [x]
    while front:
        node = front.pop()
        if not isinstance(node, ag.Node) or node.call is None:
            continue
        node = node if node.source is None else node.source
        front += node.inputs
        values = [*node.inputs, *(node.kept or ())]
        seen |= {id(v.value.memory): v for v in values if type(v.value).__name__ != "MetaTensor"}
    own = {id(x.value.memory), *(id(v.value.memory) for v in seen.values() if is_parameter(v))}
    return sum(v.size for number, v in seen.items() if number not in own)


def test_a_chain_keeps_what_its_gradients_read() -> None:
    x = leaf()
    assert elements_of(ag.relu((x + 1) * 2 + x)) == 0
    assert elements_of(ag.relu(ag.relu(x)) + 1) == 2 * x.size  # their results
    assert elements_of(ag.sin(x + 1) * 3) == x.size  # its operand


def test_a_residual_block_keeps_what_pytorch_keeps() -> None:
    conv, norm = nc.nn.Conv2d(2, 2, 3, padding=1), nc.nn.BatchNorm2d(2)
    x = leaf(1, 2, 11, 13)
    channels = elements_of(ag.relu(norm(conv(x)) + x) * 1) - 2 * x.size
    assert 0 < channels < 16  # besides the norm's operand and the result of relu


def is_parameter(x: Any) -> bool:
    return bool(x.is_leaf and x.requires_grad)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "results of one call": lambda x: (x * 1).chunk(2, 1)[1] + 1,
    "a view": lambda x: (x + 1).transpose(0, 1).reshape(-1)[2:] * 2,
    "a change in place of an operand": lambda x: changed(x + 1, lambda h: h * 2),
    "a change in place of its view": lambda x: changed(x + 1, lambda h: h * 2, lambda h: h[1:]),
    "one that is read twice": lambda x: (lambda h: (h + 1) * ag.exp(h + 2))(x * 2),
    "an op whose gradient reads its result": lambda x: ag.relu(ag.relu(x) - 0.1) * x,
    "a result of relu that is changed": lambda x: changed(ag.relu(x), sum_of, lambda h: h[1:]),
}


def sum_of(h: Any) -> Any:
    return ag.sum(h)


def changed(h: Any, use: Callable[[Any], Any], part: Callable[[Any], Any] = lambda h: h) -> Any:
    used = use(h)
    part(h).add_(1.0)
    return used + ag.exp(h)


@pytest.mark.parametrize("name", CHANGES)
def test_gradients_are_those_of_a_graph_that_keeps_all(name: str) -> None:
    x = leaf()
    gradients = []
    for keeps_all in (nullcontext(), ag.Tape()):
        with keeps_all:
            y = CHANGES[name](x)
        [first] = ag.grad(ag.sum(y * y), [x], create_graph=True)
        [second] = ag.grad(ag.sum(first * first), [x])
        gradients.append((first.numpy(), second.numpy()))
    for mine, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize("target", [0, 1, 2])
def test_what_follows_from_a_result_of_its_kernel_leads_to_it(target: int) -> None:
    @ag.jit_compile
    def function(x: Any) -> Any:
        y = ag.relu(x * 2)
        return y * y, y, ag.tanh(y) * x

    gradients = []
    for keeps_all in (nullcontext(), ag.Tape()):
        with keeps_all:
            results = function(leaf())
            after = sum((x + 1 for x in results), 0.0)
            wanted = results[target]
            del results
        [gradient] = ag.grad(ag.sum(after), [wanted])
        gradients.append(gradient.numpy())
    np.testing.assert_array_equal(*gradients)


def test_a_node_that_lives_stays_the_parent_and_keeps_its_hooks() -> None:
    x = leaf()
    h = x + 1
    h.register_hook(lambda grad: grad * 2)
    k = h + 2
    grad_fn = k.grad_fn
    y = k + 3
    assert y.parents[0] is k and k.parents[0] is h and k.grad_fn is grad_fn
    late = k * 1
    k.register_hook(lambda grad: grad * 5)
    k.retain_grad()
    ag.sum(y + late).backward()
    assert k.grad.numpy().max() == 10 and x.grad.numpy().max() == 20


def test_a_graph_is_walked_twice_only_if_it_is_retained() -> None:
    y = ag.sum(ag.relu(leaf() + 1))
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(GradientError, match="walked before"):
        y.backward()


def test_a_result_that_its_gradient_reads_must_not_change() -> None:
    y = ag.relu(leaf() * 1)[1:]  # of which nobody has all
    y.mul_(2.0)
    with pytest.raises(MutationError, match="backward of relu: a result of shape"):
        ag.sum(y).backward()


def test_a_backward_that_reads_more_than_it_names_is_told() -> None:
    double = ag.Operator(
        "double_of", lambda x: ((x,), {}), lambda x: x, lambda x: 2 * x,
        lambda saved, grad: [grad * saved.output / saved.inputs[0]], saves_results=(),
    )  # fmt: skip
    with nc.use_device("numpy"):
        y = ag.sum(double(leaf() + 1))
        with pytest.raises(GradientError, match=r"result 0 of double_of.*saves_results"):
            y.backward()


def test_what_is_gone_is_told_to_whoever_looks() -> None:
    y = (leaf() + 1) + 2
    assert repr(y.parents[0]).startswith("Tensor(..., shape=(22, 26)")
    with pytest.raises(GradientError, match="result 0 of add, which no gradient"):
        y.parents[0].numpy()
    with ag.Tape():
        y = (leaf() + 1) + 2
    assert y.parents[0].numpy().shape == (22, 26)


def test_what_is_gone_stays_on_the_tape_and_may_keep_its_gradient() -> None:
    tape = ag.get_current_tape()
    tape.reset()
    y = (leaf() + 1) * 2 + 3
    assert [node.op_name for node in tape.nodes] == ["add", "mul", "add"] and tape.nodes[2] is y
    h = y.parents[0]
    h.retain_grad()
    ag.sum(y).backward()
    assert h.grad.shape == h.shape
