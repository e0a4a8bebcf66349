"""What a compiled function depends on: its arguments, and everything that it reads besides."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import math
import os
import re
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from one import first, one

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import FusionError, FusionSkipped, ShapeError
from netcl_core.jit.entries import MAX_PROGRAMS

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")


pytestmark = pytest.mark.usefixtures("on_numpy")


# -- arguments --------------------------------------------------------------------------------


def test_a_number_that_only_meets_tensors_is_no_part_of_the_key() -> None:
    def function(x: Any, k: Any, *, j: Any = 1) -> Any:
        y = ag.leaky_relu(-x, k) + k * x - x / k + k**x + ag.clamp(x, 0, k)
        return ag.where(x > k, y, k) + j

    compiled = ag.jit_compile(function)
    for k in (0.5, 2.5, -1.5, math.inf, np.float32(3), np.float64(0.125), np.array(7.0)):
        found, wanted = (f(one(), k, j=k).to_host() for f in (compiled, function))
        np.testing.assert_allclose(found, wanted, 1e-6)
    assert compiled.cache_info().misses == 1
    compiled(one(), 2, j=2)
    compiled(one(), 2.5)
    assert compiled.cache_info().misses == 3  # ints are not floats, and j has its default


READS: dict[str, tuple[Callable[[Any, Any], Any], tuple[Any, Any]]] = {
    "branch": (lambda x, k: x if k > 2 else -x, (1.0, 3.0)),
    "truth": (lambda x, k: x if k else -x, (0, 3)),
    "sqrt": (lambda x, k: x * math.sqrt(k), (4.0, 9.0)),
    "format": (lambda x, k: x * len(f"{k:.0f}"), (1.0, 1000.0)),
    "str": (lambda x, k: x * len(str(k)), (1, 1000)),
    "int": (lambda x, k: x * int(k), (1.5, 2.5)),
    "range": (lambda x, k: sum([x for _ in range(k)], x), (1, 3)),
    "index": (lambda x, k: x * [10, 20, 30][k], (0, 2)),
    "dict": (lambda x, k: x * {1: 5, 2: 6}[k], (1, 2)),
    "arithmetic": (lambda x, k: x * (k * 2 + 1), (1.0, 3.0)),
    "bits": (lambda x, k: x * ((k << 2) ^ (5 >> k) | ~k & 7), (1, 2)),
    "divmod": (lambda x, k: x * divmod(7, k)[1] + divmod(k, 2)[0], (2, 4)),
    "min": (lambda x, k: x * min(k, 10) + max(k, 2), (1, 20)),
    "method": (lambda x, k: x if k.is_integer() else -x, (1.0, 1.5)),
    "axis": (lambda x, k: ag.sum(ag.reshape(x, (1, 1)), k), (0, 1)),
    "shape": (lambda x, k: ag.expand(x, (k, 1)), (2, 3)),
    "numpy": (lambda x, k: x * np.full(1, k, "float32"), (2.0, 3.0)),
    "sign of zero": (lambda x, k: x * math.copysign(1, k), (0.0, -0.0)),
    "type": (lambda x, k: x * (2 if type(k) is float else 3), (1.0, 2.0)),
    "isinstance": (lambda x, k: x * (2 if isinstance(k, float) else 3) * k, (1.0, 2)),
    "match": (lambda x, k: x * {True: 2, False: 3}[k == 1], (1, 2)),
}


@pytest.mark.parametrize("name", READS)
def test_a_number_that_the_function_reads_is_part_of_the_key(name: str) -> None:
    function, values = READS[name]
    compiled = ag.jit_compile(function, strict=True)
    for value in (*values, *values):
        found, wanted = (f(one(), value).to_host() for f in (compiled, function))
        np.testing.assert_array_equal(found, wanted)
    assert compiled.cache_info()[:2] == (2, 2)


def test_numbers_read_on_one_path_only() -> None:
    def function(x: Any, a: Any, b: Any, c: Any) -> Any:
        if a > 0:
            return x * 2 if b > 0 else x * 3
        return x * 5 if c > 0 else x * 7

    compiled = ag.jit_compile(function)
    for _ in range(2):
        for a in (1.0, -1.0):
            for b in (1.0, -1.0):
                for c in (1.0, -1.0):
                    assert first(compiled(one(), a, b, c)) == first(function(one(), a, b, c))


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float


class ByName:
    """Compares by its name alone."""

    def __init__(self, name: str, k: float) -> None:
        self.name, self.k = name, k

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByName) and other.name == self.name


def test_static_arguments() -> None:
    compiled = ag.jit_compile(lambda x, how: x * (2 if how in ("tanh", True, None) else 3))
    for how, wanted in (("tanh", 2), ("none", 3), (True, 2), (False, 3), (None, 2), (b"", 3)):
        for _ in range(2):
            assert first(compiled(one(), how)) == wanted
    assert compiled.cache_info()[:2] == (6, 6)
    assert first(compiled(one(), np.True_)) == 2


def test_objects_as_arguments() -> None:
    compiled = ag.jit_compile(lambda x, thing: x * thing.k)
    assert [first(compiled(one(), Frozen(k))) for k in (2.0, 3.0, 2.0)] == [2, 3, 2]
    assert compiled.cache_info().misses == 2
    a, b = ByName("a", 2.0), ByName("a", 3.0)
    assert [first(compiled(one(), each)) for each in (a, b, a)] == [2, 3, 2]
    a.k = 5.0
    assert [first(compiled(one(), each)) for each in (a, b)] == [5, 3]


def test_keys_that_are_equal_but_not_alike() -> None:
    kind = ag.jit_compile(lambda x, s: x * (2 if type(next(iter(s))) is bool else 3))
    assert first(kind(one(), frozenset([1]))) == 3
    assert first(kind(one(), frozenset([True]))) == 2
    assert first(kind(one(), {1: 0})) == 3
    assert first(kind(one(), {True: 0})) == 2


def test_where_a_list_ends_is_part_of_the_key() -> None:
    compiled = ag.jit_compile(lambda rows: rows[0][0] * len(rows))
    assert first(compiled([[one(), one()]])) == 1
    assert first(compiled([[one()], one()])) == 2


def test_keyword_arguments() -> None:
    @ag.jit_compile
    def function(x: Any, k: float = 1.0, **rest: Any) -> Any:
        scale = [3.0 * i for i, _ in enumerate(rest, 1)]
        return x * k + sum(value * by for value, by in zip(rest.values(), scale, strict=True))

    assert first(function(one(), k=3.0)) == 3
    assert first(function(one())) == 1
    assert first(function(one(), a=1.0, b=10.0)) == first(
        function.__wrapped__(one(), a=1.0, b=10.0)
    )
    assert first(function(one(), b=10.0, a=1.0)) == first(
        function.__wrapped__(one(), b=10.0, a=1.0)
    )


def test_arrays_as_arguments() -> None:
    compiled = ag.jit_compile(lambda x, a: x * a)
    for array in (np.float32([3]), np.float64([4]), np.array([5]), np.array(6.0)):
        found, wanted = (f(one(), array) for f in (compiled, compiled.__wrapped__))
        assert (found.dtype, first(found)) == (wanted.dtype, first(wanted))


def test_an_argument_without_a_hash() -> None:
    compiled = ag.jit_compile(lambda x, s: x * len(s))
    with pytest.warns(FusionSkipped, match="set cannot be part of a key"):
        assert first(compiled(one(), {1, 2})) == 2
    assert first(compiled(one(), {1, 2, 3})) == 3


# -- everything else that a function reads -----------------------------------------------------

SCALE = 2.0


def helper(x: Any) -> Any:
    return x * SCALE


class Base:
    inherited = 2.0


class Thing(Base):
    own = 2.0
    hidden = 2.0

    def __init__(self) -> None:
        self.k = 2.0
        self.unread = 0

    @property
    def computed(self) -> float:
        return self.hidden

    def method(self, x: Any) -> Any:
        return x * SCALE

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.own

    @staticmethod
    def static(x: Any) -> Any:
        return x * Thing.own


class Slotted:
    __slots__ = ("k",)


def call_method(thing: Any, x: Any) -> Any:
    return thing.method(x)


def _slotted() -> Slotted:
    found = Slotted()
    found.k = 2.0
    return found


def _set(owner: Any, name: str) -> Callable[[Any, Any], None]:
    return lambda patch, held: patch.setattr(owner or held, name, 3.0)


def _put(key: Any) -> Callable[[Any, Any], None]:
    return lambda patch, held: held.__setitem__(key, 3.0)


def _global(patch: Any, held: Any) -> None:
    patch.setitem(globals(), "SCALE", 3.0)


#: How what is held changes, from 2 to 3; how it is read; what is held.
CHANGES: dict[str, tuple[Any, Any, Any]] = {
    "global": (_global, lambda x, held: x * SCALE, lambda: None),
    "global of a helper": (_global, lambda x, held: helper(x), lambda: None),
    "global of a method": (_global, lambda x, held: held.method(x), Thing),
    "global of a method of a helper": (_global, lambda x, held: call_method(held, x), Thing),
    "helper": (
        lambda patch, held: patch.setitem(globals(), "helper", lambda x: x * 3),
        lambda x, held: helper(x),
        lambda: None,
    ),
    "attribute": (_set(None, "k"), lambda x, held: x * held.k, Thing),
    "attribute by its name":
        (_set(None, "k"), lambda x, held: x * getattr(held, "".join("k")), Thing),
    "attribute of the class": (_set(Thing, "own"), lambda x, held: x * held.own, Thing),
    "attribute that hides the class's": (_set(None, "own"), lambda x, held: x * held.own, Thing),
    "attribute of a base": (_set(Base, "inherited"), lambda x, held: x * held.inherited, Thing),
    "attribute that hides that of a base":
        (_set(Thing, "inherited"), lambda x, held: x * held.inherited, Thing),
    "property": (_set(Thing, "hidden"), lambda x, held: x * held.computed, Thing),
    "class method": (_set(Thing, "own"), lambda x, held: held.of_class(x), Thing),
    "static method": (_set(Thing, "own"), lambda x, held: held.static(x), Thing),
    "method of the class": (
        lambda patch, held: patch.setattr(Thing, "method", lambda self, x: x * 3),
        lambda x, held: held.method(x),
        Thing,
    ),
    "slot": (_set(None, "k"), lambda x, held: x * held.k, _slotted),
    "list": (_put(1), lambda x, held: x * held[1], lambda: [1.0, 2.0]),
    "list inside a list": (
        lambda patch, held: held[0].__setitem__(0, 3.0),
        lambda x, held: x * held[0][0],
        lambda: [[2.0]],
    ),
    "longer list": (
        lambda patch, held: held.append(1.0), lambda x, held: x * sum(held), lambda: [2.0],
    ),
    "dict": (_put("k"), lambda x, held: x * held["k"], lambda: {"k": 2.0}),
    "order of a dict": (
        lambda patch, held: held.update(b=held.pop("b")),
        lambda x, held: x * next(iter(held.values())),
        lambda: {"b": 2.0, "a": 3.0},
    ),
    "set": (lambda patch, held: held.add(1), lambda x, held: x * (1 + len(held)), lambda: {2}),
    "deque": (_put(0), lambda x, held: x * held[0], lambda: collections.deque([2.0])),
    "array": (
        lambda patch, held: held.fill(3), lambda x, held: x * held, lambda: np.float32([2]),
    ),
    "replaced tensor": (
        _put(0), lambda x, held: x * held[0], lambda: [nc.tensor([2.0])],
    ),
    "tensor changed in place": (
        lambda patch, held: held.copy_(np.float32([3])), lambda x, held: x * held,
        lambda: nc.tensor([2.0]),
    ),
    "whether a tensor needs a gradient": (
        lambda patch, held: held.requires_grad_(True),
        lambda x, held: x * (3 if held.requires_grad else 2), lambda: nc.tensor([2.0]),
    ),
    "gradient of a tensor": (
        lambda patch, held: setattr(held, "grad", nc.tensor([3.0])),
        lambda x, held: x * (2 if held.grad is None else held.grad), lambda: nc.tensor([2.0]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, read, make = CHANGES[name]
    held = make()
    compiled = ag.jit_compile(lambda x: read(x, held), strict=True)
    assert [first(compiled(one())) for _ in range(2)] == [2, 2]
    assert compiled.cache_info().hits == 1
    change(monkeypatch, held)
    assert [first(compiled(one())) for _ in range(2)] == [3, 3]
    assert compiled.cache_info().hits >= 2


def test_a_change_of_what_is_not_read_costs_nothing() -> None:
    thing = Thing()
    compiled = ag.jit_compile(lambda x: x * thing.k)
    for step in range(3):
        thing.unread = step
        compiled(one())
    assert compiled.cache_info()[:2] == (2, 1)


def test_defaults_and_code_of_the_function_itself() -> None:
    def function(x: Any, k: float = 2.0, *, j: float = 1.0) -> Any:
        return x * k * j

    compiled = ag.jit_compile(function)
    assert first(compiled(one())) == 2
    function.__defaults__ = (3.0,)
    assert first(compiled(one())) == 3
    function.__kwdefaults__ = {"j": 2.0}
    assert first(compiled(one())) == 6
    function.__code__ = (lambda x, k=1.0, *, j=1.0: x * 100).__code__
    assert first(compiled(one())) == 100


def test_what_the_function_changes_itself() -> None:
    count = 0

    @ag.jit_compile
    def function(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    assert [first(function(one())) for _ in range(4)] == [1, 2, 3, 4]
    numbers = iter([1.0, 2.0, 3.0])
    drawing = ag.jit_compile(lambda x: x * next(numbers))
    with pytest.warns(FusionSkipped, match="iterator"):
        assert [first(drawing(one())) for _ in range(3)] == [1, 2, 3]


def test_another_device_is_another_program() -> None:
    compiled = ag.jit_compile(lambda: nc.Tensor.ones((2,)) * 2)
    for device in nc.devices():
        with nc.use_device(device):
            assert compiled().device is device


# -- what cannot be traced ---------------------------------------------------------------------


def _swallows(x: Any) -> Any:
    k = 0.0
    with contextlib.suppress(BaseException):
        k = ag.sum(x).item()
    return x * k


def _returns_in_finally(x: Any) -> Any:
    k = 0.0
    try:
        k = ag.sum(x).item()
    finally:
        return x * k  # noqa: B012


UNTRACEABLE: dict[str, tuple[Any, str]] = {
    "item": (lambda x: x * ag.sum(x).item(), "read of the data.*sum"),
    "branch": (lambda x: x * 2 if ag.sum(x) > 0 else x, "read of the data"),
    "to_host": (lambda x: x * float(x.to_host()[0]), "read of the data"),
    "array": (lambda x: x * float(np.asarray(x * 2)[0]), "read of the data"),
    "swallowed": (_swallows, "data.*while tracing"),
    "swallowed by finally": (_returns_in_finally, "data.*while tracing"),
    "gradient": (lambda x: x * 2 if x.grad is None else x * 3, "grad"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNTRACEABLE)
def test_what_reads_data_runs_as_it_is(name: str) -> None:
    function, reason = UNTRACEABLE[name]
    compiled = ag.jit_compile(function)
    with pytest.warns(FusionSkipped, match=reason) as caught:
        found = compiled(nc.tensor([3.0]))
    assert len(caught) == 1
    assert "test_jit_keys.py" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        assert first(compiled(nc.tensor([5.0, 1.0]))) == first(function(nc.tensor([5.0, 1.0])))
    assert first(found) == first(function(nc.tensor([3.0])))
    with pytest.raises(FusionError, match=reason):
        ag.jit_compile(function, strict=True)(nc.tensor([3.0]))
    assert re.search(reason, compiled.explain(nc.tensor([3.0])))


def test_exceptions_of_the_function_come_as_they_are() -> None:
    @ag.jit_compile
    def function(x: Any, how: str) -> Any:
        if how == "key":
            raise KeyError(how)
        return x + nc.Tensor.ones((3,))

    for _ in range(2):
        with pytest.raises(KeyError, match="key"):
            function(one(), "key")
        with pytest.raises(ShapeError, match="add"):
            function(nc.tensor([1.0, 2.0]), "shape")
    assert first(function(one(), "fine")) == 2
    assert ag.is_grad_enabled()


def test_an_exception_that_the_function_handles() -> None:
    @ag.jit_compile
    def function(x: Any) -> Any:
        try:
            return x + nc.Tensor.ones((3,))
        except ValueError:
            return x * 7

    assert first(function(nc.tensor([1.0, 2.0]))) == 7
    assert first(function(nc.tensor([1.0, 2.0, 3.0]))) == 2


# -- the cache -----------------------------------------------------------------------------------


def test_the_cache_is_bounded_and_can_be_cleared() -> None:
    compiled = ag.jit_compile(lambda x, word: x * len(word))
    for size in range(MAX_PROGRAMS + 20):
        compiled(one(), "a" * size)
    assert compiled.cache_info() == (0, MAX_PROGRAMS + 20, MAX_PROGRAMS, MAX_PROGRAMS)
    assert first(compiled(one(), "")) == 0  # the oldest was dropped
    compiled.clear_cache()
    assert compiled.cache_info() == (0, 0, MAX_PROGRAMS, 0)
    assert first(compiled(one(), "ab")) == 2


def test_functions_and_what_they_close_over_are_freed() -> None:
    gone = []
    for size in range(30):
        held = nc.Tensor.ones((100 + size,))
        function = ag.jit_compile(lambda x, held=held: (x * held + 1, x * 2))
        x = nc.tensor(np.ones(100 + size, np.float32)).requires_grad_()
        ag.sum(function(x)[0]).backward()
        gone += [weakref.ref(held), weakref.ref(function.__wrapped__)]
        del held, function, x
    gc.collect()
    assert [ref for ref in gone if ref() is not None] == []


def test_sources_do_not_depend_on_the_process(python: Callable[..., str]) -> None:
    """Else a cache on disk would never hit."""
    code = """
import hashlib
import numpy as np
import netcl_core as nc
import netcl_core.autograd as ag

@ag.jit_compile
def f(x, *, b, a):
    y = ag.tanh(x["u"] * a) + x["v"] * b
    return {name: y * k for name, k in zip(("p", "q", "r"), (1.0, 2.0, 3.0))}, ag.exp(y) + a

for device in nc.devices()[:1]:
    with nc.use_device(device):
        x = {"u": nc.Tensor.ones((4, 3)), "v": nc.Tensor.ones((3,))}
        found = f.lower(x, b=2.0, a=nc.Tensor.ones((4, 1)))
        print(hashlib.sha256((found.forward_source + found.backward_source).encode()).hexdigest())
"""
    path = os.environ.get("PYTHONPATH", "")
    sources = {python(code, PYTHONHASHSEED=seed, PYTHONPATH=path) for seed in ("0", "1", "77")}
    assert len(sources) == 1 and len(sources.pop()) == 64


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x.contiguous(),
    "contiguous view": lambda x: x.t().contiguous(),
    "stride": lambda x: x * x.stride(0) + x.t().stride(0),
    "is_contiguous": lambda x: x * 2 if x.is_contiguous() else x * 3,
    "storage_offset": lambda x: x * x.storage_offset(),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_how_elements_lie_is_asked_as_in_an_eager_call(name: str) -> None:
    """Of arguments of one shape that lie otherwise, and of views; a copy shares no memory."""
    function = QUESTIONS[name]
    compiled = ag.jit_compile(function)
    compiled.quiet = True
    whole = np.arange(32, dtype=np.float32).reshape(8, 4)
    for part in (lambda x: x[:4], lambda x: x[4:], lambda x: x[:4].t(), lambda x: x[::2]):
        results = []
        for each in (function, compiled):
            x = part(nc.tensor(whole))
            y = each(x)
            x += 100
            results.append((y.numpy(), y.is_contiguous()))
        np.testing.assert_array_equal(results[0][0], results[1][0])
        assert results[0][1] == results[1][1]
