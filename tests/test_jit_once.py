"""A compiled function runs exactly once per call: traced, broken off, or failing."""

from __future__ import annotations

import collections
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import FusionError, FusionSkipped, ShapeError

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """The NumPy path: none of this depends on the device."""
    with nc.use_device("numpy"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionSkipped)
        yield


def leaf(*values: float) -> nc.Tensor:
    return nc.Tensor.from_host(np.float32(values), requires_grad=True)


def first(result: Any) -> float:
    return float(result.to_host().reshape(-1)[0])


# -- arguments of all kinds --------------------------------------------------------------------


class Batch(dict):  # type: ignore[type-arg]
    """A dict with an attribute."""

    def __init__(self, scale: float, **items: Any) -> None:
        super().__init__(items)
        self.scale = scale


class Plain(dict):  # type: ignore[type-arg]
    """A dict and no more."""


class Pair(NamedTuple):
    a: Any
    b: Any


class Checked(Pair):
    """A named tuple whose constructor takes other arguments."""

    def __new__(cls, both: Any) -> Checked:
        return super().__new__(cls, both, both)


class Words(list):  # type: ignore[type-arg]
    """A list with an attribute."""

    def __init__(self, scale: float, *items: Any) -> None:
        super().__init__(items)
        self.scale = scale


@dataclasses.dataclass
class Record:
    a: Any
    k: float


ARGUMENTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "dict": (lambda x: {"a": x, "k": 3.0}, lambda d: d["a"] * d["k"], True),
    "ordered": (lambda x: collections.OrderedDict(a=x, k=3.0), lambda d: d["a"] * d["k"], True),
    "default": (
        lambda x: collections.defaultdict(lambda: 3.0, a=x), lambda d: d["a"] * d["k"], True,
    ),
    "counter": (lambda x: collections.Counter(a=x, k=3.0), lambda d: d["a"] * d["k"], True),
    "counter of numbers": (
        lambda x: (x, collections.Counter("aab")), lambda d: d[0] * (d[1]["a"] + 1), True,
    ),
    "missing in a counter": (
        lambda x: (x, collections.Counter("aab")), lambda d: d[0] * (3 + d[1]["z"]), True,
    ),
    "subclass": (lambda x: Plain(a=x, k=3.0), lambda d: d["a"] * d["k"], True),
    "subclass with more": (lambda x: Batch(3.0, a=x), lambda d: d["a"] * d.scale, False),
    "named tuple": (lambda x: Pair(x, 3.0), lambda d: d.a * d.b, True),
    "named tuple made otherwise": (lambda x: Checked(x), lambda d: d.a + d.b * 2, True),
    "list with more": (lambda x: Words(3.0, x), lambda d: d[0] * d.scale, False),
    "dataclass": (lambda x: Record(x, 3.0), lambda d: d.a * d.k, False),
    "chain": (
        lambda x: collections.ChainMap({"a": x}, {"k": 3.0}), lambda d: d["a"] * d["k"], False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_made_anew_or_left_alone(name: str) -> None:
    make, read, fused = ARGUMENTS[name]
    count = 0

    def function(given: Any) -> Any:
        nonlocal count
        count += 1
        assert type(given) is type(make(None))
        return ag.sum(read(given))

    compiled = ag.jit_compile(function)
    for turn in (1, 2):
        x = leaf(1.0, 1.0)
        result = compiled(make(x))
        assert result.item() == 6 and count == turn  # `count` itself is watched
        result.backward()
        assert x.grad.to_host().tolist() == [3, 3]
    assert ("not fused, it runs" not in ag.jit_compile(read).explain(make(leaf(1.0)))) is fused


def test_a_counter_keeps_its_counts() -> None:
    compiled = ag.jit_compile(lambda x, counts: x * (counts["a"] + 1), strict=True)
    for word in ("aab", "ab", "aaab", "aab"):
        counts = collections.Counter(word)
        assert first(compiled(nc.tensor([1.0]), counts)) == 1 + counts["a"]


# -- side effects ------------------------------------------------------------------------------


def _item(x: Any) -> float:
    return float(ag.sum(x).item())


def _backward(x: Any) -> float:
    ag.sum(x * 3).backward()
    return 3.0


BREAKS: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x * ag.sum(x).item(),
    "branch": lambda x: x * 3 if ag.sum(x) > 0 else x,
    "to_host": lambda x: x * float((x * 3).to_host()[0]),
    "array": lambda x: x * float(np.asarray(x * 3)[0]),
    "backward": lambda x: x * _backward(x),
    "grad": lambda x: x * 3 if x.grad is None else x,
    "a set": lambda x: {x * 3},
    "own op": lambda x: ag.apply_op(
        lambda value: (value * 3).value, lambda grad: [grad * 3], x, op_name="own"
    ),
    "inside no_grad": lambda x: x * _without_grad(x),
    "random": lambda x: ag.dropout(x, 0.0) * 3 * (ag.sum(x * 0).item() + 1),
    "detached": lambda x: x * 2 + (x * 1).detach() * (ag.sum(x * 0).item() + 1),
    "in a handler": lambda x: _handled(x),
}


def _without_grad(x: Any) -> float:
    with ag.no_grad():
        y = x * 3
        return float(ag.sum(y).item())


def _handled(x: Any) -> Any:
    try:
        k = ag.sum(x).item()
    except BaseException:
        k = 100.0
    return x * (k + 2)


def _sum(found: Any) -> Any:
    return ag.sum(found.pop() if isinstance(found, set) else found)


@pytest.mark.parametrize("name", BREAKS)
def test_a_function_that_cannot_be_traced_runs_once(name: str) -> None:
    """What it has done before it asks for data is not done again, and counts."""
    seen: list[str] = []

    def function(x: Any, k: float) -> Any:
        seen.append("began")
        y = x * k
        found = BREAKS[name](y)
        seen.append("ended")
        return found

    compiled = ag.jit_compile(function)
    for turn in (1, 2, 3):
        x, z = leaf(0.5), leaf(0.5)
        _sum(compiled(x, 2.0)).backward()
        assert seen == ["began", "ended"] * turn
        _sum(BREAKS[name](z * 2.0)).backward()
        assert x.grad.to_host().tolist() == z.grad.to_host().tolist()
    with ag.no_grad():
        x = leaf(0.5)
        if name != "backward":
            found = compiled(x, 2.0)
            found = found.pop() if isinstance(found, set) else found
            assert first(found) == first(_plain(BREAKS[name](x * 2.0)))
            assert isinstance(found, nc.Tensor) or name == "a set"


def _plain(found: Any) -> Any:
    return found.pop() if isinstance(found, set) else found


def test_gradients_go_on_through_what_was_traced() -> None:
    """Both halves of the function are part of one graph; the argument may be a result itself."""

    def function(x: Any, w: Any) -> Any:
        hidden = ag.tanh(x * w) + x
        if ag.sum(hidden).item() > -1e9:
            hidden = hidden * w
        return [hidden, x], {"w": w, "hidden": hidden}

    x, w, u, v = leaf(0.3, 0.4), leaf(2.0, 3.0), leaf(0.3, 0.4), leaf(2.0, 3.0)
    given = x * 1
    found = ag.jit_compile(function)(given, w)
    assert found[0][1] is given and found[1]["w"] is w
    assert found[0][0] is found[1]["hidden"]
    wanted = function(u * 1, v)
    for result, a, b in ((found, x, w), (wanted, u, v)):
        ag.sum(result[0][0] + result[1]["hidden"] * result[0][1]).backward()
        assert a.grad is not None and b.grad is not None
    np.testing.assert_allclose(x.grad.to_host(), u.grad.to_host(), 1e-6)
    np.testing.assert_allclose(w.grad.to_host(), v.grad.to_host(), 1e-6)


def test_a_change_in_place_inside() -> None:
    total = nc.tensor([0.0])

    def function(x: Any) -> Any:
        y = x * 2
        total.copy_(total.to_host() + 1)
        return y + total

    compiled = ag.jit_compile(function)
    assert [first(compiled(nc.tensor([1.0]))) for _ in range(3)] == [3, 4, 5]


#: What a Tensor answers and an operand of a trace has to, before and after the trace has ended.
OF_TENSORS: dict[str, Callable[[Any], Any]] = {
    "copy_": lambda x: (x.copy_([5.0]), x * 2)[1],
    "copy_ of a part": lambda x: x[:1].copy_([5.0]) * x,
    "requires_grad_": lambda x: x.requires_grad_(False) * 2,
    "version": lambda x: (x.copy_([5.0]), x * x.version)[1],
    "isinstance": lambda x: x * 2 if isinstance(x, nc.Tensor) else x * 3,
    "type": lambda x: x * 2 if type(x) is nc.Tensor else x * 3,
}


@pytest.mark.parametrize("leaves", [False, True], ids=["at once", "after the trace has ended"])
@pytest.mark.parametrize("name", OF_TENSORS)
def test_an_argument_is_what_was_given(name: str, leaves: bool) -> None:
    seen: list[int] = []

    def function(x: Any) -> Any:
        seen.append(1)
        if leaves:
            ag.sum(x).item()
        return OF_TENSORS[name](x)

    wanted = first(function(nc.tensor([4.0])))
    compiled = ag.jit_compile(function)
    seen.clear()
    for turn in (1, 2):
        assert first(compiled(nc.tensor([4.0]))) == wanted
        assert len(seen) == turn


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mistake",
    [lambda x: len(3), lambda x: x.no_such_name, lambda x: {}[x.shape], lambda x: int("x")],
)
def test_a_mistake_of_the_function_comes_once(mistake: Callable[[Any], Any]) -> None:
    seen: list[int] = []

    @ag.jit_compile
    def function(x: Any) -> Any:
        seen.append(1)
        return mistake(x * 2)

    for turn in (1, 2):
        with pytest.raises((TypeError, AttributeError, KeyError, ValueError)):
            function(nc.tensor([1.0]))
        assert len(seen) == turn


def test_an_error_of_the_function_comes_once() -> None:
    seen: list[int] = []

    @ag.jit_compile
    def function(x: Any) -> Any:
        seen.append(1)
        y = x * 2
        raise KeyError("mine")
        return y

    for turn in (1, 2):
        with pytest.raises(KeyError, match="mine"):
            function(nc.tensor([1.0]))
        assert len(seen) == turn


def test_an_error_after_the_trace_was_left() -> None:
    seen: list[int] = []

    @ag.jit_compile
    def function(x: Any) -> Any:
        seen.append(1)
        ag.sum(x * 2).backward()
        return x.no_such_name

    for turn in (1, 2):
        x = leaf(1.0)
        with pytest.raises(AttributeError, match="no_such_name"):
            function(x)
        assert len(seen) == turn and first(x.grad) == 2


def test_what_only_a_tensor_has() -> None:
    """Symbols are no Tensors: a function that notices is asked again, and its result is right."""
    compiled = ag.jit_compile(lambda x: x * (x.version + 2))
    assert first(compiled(nc.tensor([3.0]))) == 6

    def asks(x: Any) -> Any:
        if not isinstance(x, nc.Tensor):
            raise ValueError("a Tensor is wanted")
        return x * 2

    assert first(ag.jit_compile(asks)(nc.tensor([3.0]))) == 6


def test_strict_stops_at_the_break() -> None:
    seen: list[int] = []

    @ag.jit_compile(strict=True)
    def function(x: Any) -> Any:
        k = ag.sum(x).item()
        seen.append(1)
        return x * k

    with pytest.raises(FusionError, match="sum"):
        function(nc.tensor([1.0]))
    assert seen == []


def test_a_value_of_an_earlier_trace_in_a_later_one() -> None:
    kept: list[Any] = []

    def keeps(x: Any) -> Any:
        kept.append(x * 2)
        return x * 3

    ag.jit_compile(keeps)(nc.tensor([1.0]))
    with pytest.raises(FusionError, match="kept from a trace"):
        ag.jit_compile(lambda x: x * kept[0])(nc.tensor([1.0]))


def test_wrong_shapes_are_told_in_every_call() -> None:
    compiled = ag.jit_compile(lambda x, y: x + y)
    for _ in range(2):
        with pytest.raises(ShapeError, match="add"):
            compiled(nc.Tensor.ones((2,)), nc.Tensor.ones((3,)))


# -- hostile things ----------------------------------------------------------------------------


class Angry:
    """An object whose code raises whatever it is asked for."""

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)


def _deep(depth: int) -> Any:
    found: Any = [2.0]
    for _ in range(depth):
        found = [found]
    return found


def _ring() -> Any:
    found: list[Any] = [2.0]
    found.append(found)
    return found


@pytest.mark.parametrize(
    "make", [Angry, lambda: _deep(20000), _ring], ids=["angry", "deep", "ring"]
)
def test_what_is_held_cannot_break_a_call(make: Any) -> None:
    held = make()
    compiled = ag.jit_compile(lambda x: x * (2 if held is not None else 3))
    assert [first(compiled(nc.tensor([1.0]))) for _ in range(2)] == [2, 2]


@pytest.mark.parametrize("make", [lambda: _deep(20000), _ring], ids=["deep", "ring"])
def test_what_is_given_cannot_break_a_call(make: Any) -> None:
    compiled = ag.jit_compile(lambda x, held: x * (2 if held is not None else 3))
    assert [first(compiled(nc.tensor([1.0]), make())) for _ in range(2)] == [2, 2]


def test_a_result_that_contains_itself() -> None:
    def function(x: Any) -> Any:
        found: list[Any] = [x * 2]
        found.append(found)
        return found

    compiled = ag.jit_compile(function)
    for _ in range(2):
        found = compiled(nc.tensor([1.0]))
        assert first(found[0]) == 2 and found[1] is found
