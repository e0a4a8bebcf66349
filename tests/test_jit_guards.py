"""Whatever a compiled function reads is followed, or the function is not compiled."""

from __future__ import annotations

import array
import collections
import contextvars
import copy
import datetime
import enum
import functools
import importlib
import operator
import os
import pickle
import random
import sys
import time
import tracemalloc
import types
import uuid
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from one import first, one

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import FusionSkipped
from netcl_core.jit.guards import Guards

pytest.importorskip("netcl_plugin_elementwise")
pytest.importorskip("netcl_plugin_tensor")


pytestmark = pytest.mark.usefixtures("on_numpy")


# -- what changes ------------------------------------------------------------------------------

SCALE = 2.0
ARRAY = np.float32([2])
VARIABLE: contextvars.ContextVar[float] = contextvars.ContextVar("VARIABLE")


class Held:
    """An object with one attribute and ways to read it."""

    constant = 2.0

    def __init__(self, k: float = 2.0) -> None:
        self.k = k

    def method(self) -> float:
        return self.k

    def __float__(self) -> float:
        return self.k * SCALE / 2


class Other(Held):
    def method(self) -> float:
        return 3.0


class Meta(type):
    own = 2.0

    @property
    def computed(cls) -> float:
        return cls.own

    def __getitem__(cls, key: Any) -> float:
        return cls.own

    def __len__(cls) -> int:
        return int(cls.own)


class Made(metaclass=Meta):
    pass


class Colour(enum.Enum):
    RED = 1


class Descriptor:
    def __init__(self) -> None:
        self.hidden = 2.0

    def __get__(self, instance: Any, owner: Any) -> float:
        return self.hidden


class Described:
    found = Descriptor()


class Table(dict):  # type: ignore[type-arg]
    """A dict with attributes."""


@functools.singledispatch
def dispatched(value: Any) -> float:
    return 2.0


@functools.lru_cache
def cached() -> float:
    return SCALE


def scale() -> float:
    return SCALE


def _global(patch: Any, held: Any) -> None:
    patch.setitem(globals(), "SCALE", 3.0)


def _attribute(patch: Any, held: Any) -> None:
    found = held[-1] if isinstance(held, tuple) else held
    found.k = 3.0


def _with_k(held: Any) -> Any:
    held.k = 2.0
    return held


def _imports(x: Any, held: Any) -> Any:
    import test_jit_guards_module as module

    return x * module.SCALE


def _variable() -> Any:
    VARIABLE.set(2.0)
    return VARIABLE


def _variable_of(value: Any) -> contextvars.ContextVar[Any]:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")
    variable.set(value)
    return variable


def _table() -> Table:
    found = Table(a=1)
    found.k = 2.0
    return found


class Apart(NamedTuple):
    """What a function holds, and what changes behind it, which the function does not hold."""

    held: Any
    changes: Any


def _apart(made: Any) -> Apart:
    return made if isinstance(made, Apart) else Apart(made, made)


def _around(make: Callable[[Any], Any], inner: Any) -> Callable[[], Apart]:
    def made() -> Apart:
        found = copy.copy(inner)
        return Apart(make(found), found)

    return made


def _view(base: np.ndarray) -> np.ndarray:
    view = base[:]
    view.setflags(write=False)
    return view


def _only(held: Any) -> Any:
    (found,) = held
    return found


def _put(key: Any) -> Callable[[Any, Any], None]:
    return lambda patch, held: held.__setitem__(key, 3.0)


#: How what is held changes, from 2 to 3; how it is read; what is held.
FOLLOWED: dict[str, tuple[Any, Any, Any]] = {
    "ChainMap": (_put("k"), lambda x, h: x * h["k"], _around(collections.ChainMap, {"k": 2.0})),
    "child of a ChainMap": (
        _put("k"), lambda x, h: x * h.new_child()["k"], _around(collections.ChainMap, {"k": 2.0}),
    ),
    "attrgetter": (
        _attribute, lambda x, h: x * h[0](h[1]), lambda: (operator.attrgetter("k"), Held()),
    ),
    "methodcaller": (
        _attribute, lambda x, h: x * h[0](h[1]), lambda: (operator.methodcaller("method"), Held()),
    ),
    "ContextVar": (lambda patch, h: h.set(3.0), lambda x, h: x * h.get(), _variable),
    "default of a ContextVar": (
        lambda patch, h: h.set(3.0), lambda x, h: x * h.get(),
        lambda: contextvars.ContextVar("DEFAULT", default=2.0),
    ),
    "list in a ContextVar":
        (_put(0), lambda x, h: x * h.get()[0], _around(_variable_of, [2.0])),
    "attribute of a function": (_attribute, lambda x, h: x * h.k, lambda: _with_k(lambda: None)),
    "attribute of a partial":
        (_attribute, lambda x, h: x * h.k, lambda: _with_k(functools.partial(len))),
    "attribute of a function by a name put together":
        (_attribute, lambda x, h: x * getattr(h, "k"[:1]), lambda: _with_k(lambda: None)),
    "attribute of the metaclass":
        (lambda patch, h: patch.setattr(Meta, "own", 3.0), lambda x, h: x * h.own, lambda: Made),
    "property of the metaclass": (
        lambda patch, h: patch.setattr(Meta, "own", 3.0), lambda x, h: x * h.computed, lambda: Made,
    ),
    "item of a class": (
        lambda patch, h: patch.setattr(Meta, "own", 3.0), lambda x, h: x * h["k"], lambda: Made,
    ),
    "length of a class": (
        lambda patch, h: patch.setattr(Meta, "own", 3.0), lambda x, h: x * len(h), lambda: Made,
    ),
    "class by a name put together": (
        lambda patch, h: patch.setattr(Held, "constant", 3.0),
        lambda x, h: x * getattr(h, "".join(["const", "ant"])),
        lambda: Held,
    ),
    "class of an object": (
        lambda patch, h: setattr(h, "__class__", Other), lambda x, h: x * h.method(), Held,
    ),
    "method that Python calls": (_global, lambda x, h: x * float(h), Held),
    "vars": (_attribute, lambda x, h: x * vars(h)["k"], Held),
    "weakref": (_attribute, lambda x, h: x * h().k, _around(weakref.ref, Held())),
    "member of an enum": (
        lambda patch, h: patch.setattr(Colour.RED, "k", 3.0, raising=False),
        lambda x, h: x * getattr(h["RED"], "k", 2.0), lambda: Colour,
    ),
    "descriptor": (
        lambda patch, h: patch.setattr(vars(Described)["found"], "hidden", 3.0),
        lambda x, h: x * h.found, Described,
    ),
    "singledispatch": (
        lambda patch, h: dispatched.register(int, lambda value: 3.0),
        lambda x, h: x * dispatched(1), lambda: None,
    ),
    "lru_cache": (
        lambda patch, h: (_global(patch, h), cached.cache_clear()),
        lambda x, h: x * cached(), lambda: cached.cache_clear(),
    ),
    "array of Python": (
        lambda patch, h: h.__setitem__(0, 3.0), lambda x, h: x * h[0],
        lambda: array.array("d", [2.0]),
    ),
    "memoryview": (
        lambda patch, h: h.__setitem__(0, 3), lambda x, h: x * h[0],
        lambda: memoryview(bytearray([2])),
    ),
    "mapping proxy":
        (_put("k"), lambda x, h: x * h["k"], _around(types.MappingProxyType, {"k": 2.0})),
    "values of a dict":
        (_put("k"), lambda x, h: x * next(iter([*h])), _around(dict.values, {"k": 2.0})),
    "bound method of a dict":
        (_put("k"), lambda x, h: x * h("k"), _around(lambda d: d.get, {"k": 2.0})),
    "UserDict": (_put("k"), lambda x, h: x * h["k"], lambda: collections.UserDict(k=2.0)),
    "attribute of a dict": (_attribute, lambda x, h: x * h.k, _table),
    "object as a key": (
        lambda patch, h: setattr(_only(h), "k", 3.0), lambda x, h: x * _only(h).k,
        lambda: {Held(): 1},
    ),
    "object in a set": (
        lambda patch, h: setattr(_only(h), "k", 3.0), lambda x, h: x * _only(h).k,
        lambda: {Held()},
    ),
    "factory of a defaultdict": (
        lambda patch, h: (_global(patch, h), h.clear()),
        lambda x, h: x * h["missing"], lambda: collections.defaultdict(scale),
    ),
    "global that hides a builtin": (
        lambda patch, h: patch.setitem(globals(), "len", lambda value: 3.0),
        lambda x, h: x * len([1, 2]), lambda: None,
    ),
    "environment": (
        lambda patch, h: patch.setenv("NETCL_TEST_K", "3"),
        lambda x, h: x * float(os.environ.get("NETCL_TEST_K", "2")), lambda: None,
    ),
    "getenv": (
        lambda patch, h: patch.setenv("NETCL_TEST_K", "3"),
        lambda x, h: x * float(os.getenv("NETCL_TEST_K", "2")), lambda: None,
    ),
    "module imported inside": (
        lambda patch, h: patch.setattr(sys.modules["test_jit_guards_module"], "SCALE", 3.0),
        _imports, lambda: None,
    ),
    "large array": (
        lambda patch, h: h.__setitem__(-1, 3.0), lambda x, h: x * h[-1].item(),
        lambda: np.full(1 << 20, 2, np.float32),
    ),
    "array that is not contiguous": (
        lambda patch, h: h.__setitem__((0, 0), 3.0), lambda x, h: x * h[0, 0].item(),
        lambda: np.full((8, 8), 2, np.float32).T[::2],
    ),
    "shape of an array": (
        lambda patch, h: h.resize((2, 2), refcheck=False),
        lambda x, h: x * (1 + h.ndim if h.ndim == 1 else 3), lambda: np.zeros(4, np.float32),
    ),
    "view of an array that is read only": (
        lambda patch, h: h.fill(3.0), lambda x, h: x * h, _around(_view, np.float32([2])),
    ),
}  # fmt: skip


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is only imported inside a function."""
    made = types.ModuleType("test_jit_guards_module")
    made.SCALE = 2.0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_change_is_followed(name: str, monkeypatch: pytest.MonkeyPatch, module: None) -> None:
    change, read, make = FOLLOWED[name]
    held, changes = _apart(make())
    compiled = ag.jit_compile(lambda x: read(x, held), strict=True)
    assert [first(compiled(one())) for _ in range(3)] == [2, 2, 2]
    assert compiled.cache_info().hits >= 1
    change(monkeypatch, changes)
    assert [first(compiled(one())) for _ in range(3)] == [3, 3, 3]
    assert compiled.cache_info().hits >= 2


def _held_array() -> Any:
    ARRAY.fill(2)


#: The same for what is not compiled.
LEFT_ALONE: dict[str, tuple[Any, Any, Any]] = {
    "globals()": (
        lambda patch, h: ARRAY.fill(3), lambda x, h: x * globals()["ARRAY"], _held_array,
    ),
    "globals() by another name": (
        lambda patch, h: ARRAY.fill(3), lambda x, h: x * h()["ARRAY"],
        lambda: _held_array() or globals,
    ),
    "globals of a function": (
        lambda patch, h: ARRAY.fill(3), lambda x, h: x * _attribute.__globals__["ARRAY"],
        _held_array,
    ),
    "globals of a frame": (
        lambda patch, h: ARRAY.fill(3), lambda x, h: x * sys._getframe().f_globals["ARRAY"],
        _held_array,
    ),
    "copied context": (
        lambda patch, h: h[1].run(h[0].set, 3.0), lambda x, h: x * h[1].run(h[0].get),
        lambda: (contextvars.ContextVar("COPIED", default=2.0), contextvars.copy_context()),
    ),
    "eval": (_global, lambda x, h: x * eval("SCALE"), lambda: None),
    "sys.modules":
        (_global, lambda x, h: x * sys.modules[__name__].SCALE, lambda: None),
    "import_module":
        (_global, lambda x, h: x * importlib.import_module(__name__).SCALE, lambda: None),
    "weak proxy":
        (_attribute, lambda x, h: x * h.k, _around(weakref.proxy, Held())),
    "array of objects": (
        lambda patch, h: setattr(h[0], "k", 3.0), lambda x, h: x * h[0].k,
        lambda: np.array([Held(), None], object),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_cannot_be_followed_is_not_compiled(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, read, make = LEFT_ALONE[name]
    monkeypatch.setitem(sys.modules, __name__, types.SimpleNamespace(SCALE=2.0))
    held, changes = _apart(make())
    compiled = ag.jit_compile(lambda x: read(x, held))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionSkipped)
        assert [first(compiled(one())) for _ in range(2)] == [2, 2]
        change(monkeypatch, changes)
        if name in ("sys.modules", "import_module"):
            sys.modules[__name__].SCALE = 3.0  # type: ignore[attr-defined]
        assert [first(compiled(one())) for _ in range(2)] == [3, 3]
    assert "not fused" in compiled.explain(one())


FRESH: dict[str, Callable[[], Callable[[], float]]] = {
    "generator of NumPy": lambda: np.random.default_rng(0).random,
    "generator in an object": lambda: _drawn(types.SimpleNamespace(r=np.random.default_rng(0))),
    "old generator of NumPy": lambda: np.random.RandomState(0).rand,
    "generator of Python": lambda: random.Random(0).random,
    "random": lambda: lambda: random.random(),
    "randint": lambda: lambda: random.randint(0, 10**6),
    "numpy.random": lambda: lambda: np.random.normal(),
    "time": lambda: lambda: time.perf_counter_ns() % 10**6,
    "now": lambda: lambda: _later(datetime.datetime.now).microsecond,
    "uuid": lambda: lambda: uuid.uuid4().int % 10**6,
    "urandom": lambda: lambda: int.from_bytes(os.urandom(2), "big"),
}


def _drawn(held: Any) -> Callable[[], float]:
    return lambda: held.r.random()


def _later(now: Callable[[], Any]) -> Any:
    time.sleep(0.002)
    return now()


@pytest.mark.parametrize("given", [False, True], ids=["held", "given"])
@pytest.mark.parametrize("name", FRESH)
def test_what_is_drawn_anew_is_not_frozen(name: str, given: bool) -> None:
    draw = FRESH[name]()
    held = ag.jit_compile(lambda x: x * draw())
    compiled = ag.jit_compile(lambda x, draw: x * draw()) if given else lambda x, draw: held(x)
    with pytest.warns(FusionSkipped, match="draws random numbers|asks for the time"):
        found = {first(compiled(one(), draw)) for _ in range(4)}
    assert len(found) > 1


# -- what it costs -----------------------------------------------------------------------------


def _best(function: Callable[[], Any], turns: int = 15) -> float:
    def once() -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return min(once() for _ in range(turns))


def test_a_large_captured_array_is_compared_and_not_copied() -> None:
    held = np.ones(1 << 23, np.float32)
    guards = Guards([lambda: held])
    assert guards.hold()
    tracemalloc.start()
    try:
        assert guards.hold()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < held.nbytes / 100
    held.setflags(write=False)
    frozen = Guards([lambda: held])
    assert _best(frozen.hold) < 0.05 * _best(guards.hold)  # it only looks whether it is writeable
    held.setflags(write=True)
    assert not frozen.hold()


def test_many_layers_are_compared_in_little_time() -> None:
    """Less than what a call of C for each of them, in a loop of Python, would take."""
    nn = pytest.importorskip("netcl_core.nn")
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(200)])
    guards = Guards([lambda x: model(x)])
    reads = [functools.partial(getattr, model, "training")] * len(guards)
    assert guards.hold() and len(guards) > 2000
    assert _best(guards.hold, 50) < _best(lambda: [read() is True for read in reads], 50)
    model[150].weight = nn.Parameter(np.ones((2, 2), np.float32))
    assert not guards.hold()


def test_equal_numbers_that_are_other_objects_cost_one_comparison() -> None:
    held = {"k": 1000.5, "n": 10**9}
    guards = Guards([lambda: held])
    for _ in range(2):
        held["k"], held["n"] = float("1000.5"), int("1000000000")
        assert guards.hold()
    for value in (1000, True, -0.0, float("nan")):
        held["k"] = value
        guards = Guards([lambda: held])
        held["k"] = type(value)(str(value)) if type(value) is float else value
        assert guards.hold()
    held["k"] = 0.0
    guards = Guards([lambda: held])
    for other in (-0.0, 0, False):
        held["k"] = other
        assert not guards.hold()


def test_containers_that_grow_and_shrink_together() -> None:
    a, b = [1, 2], [2]
    guards = Guards([lambda: (a, b)])
    assert guards.hold()
    b.insert(0, a.pop())
    assert not guards.hold()
    b.pop(0)
    a.append(2)
    assert guards.hold()
    b.append(3)
    assert not guards.hold()


# -- copies ------------------------------------------------------------------------------------


@ag.jit_compile
def doubled(x: Any) -> Any:
    return x * 2


def tripled(x: Any) -> Any:
    return x * 3


class Model:
    """A module of a user: a compiled method, and a compiled bound method as an attribute."""

    def __init__(self, k: float) -> None:
        importlib.import_module("math")  # what makes a model is not what its calls compute
        self.k = k
        self.fast = ag.jit_compile(self.slow)
        self.other = ag.jit_compile(tripled, strict=True)

    def slow(self, x: Any) -> Any:
        return x * self.k

    @ag.jit_compile
    def method(self, x: Any) -> Any:
        return x * self.k


def _checked(model: Model, copied: Model) -> None:
    copied.k = 5.0
    assert [first(each.fast(one())) for each in (model, copied)] == [2, 5]
    assert [first(each.method(one())) for each in (model, copied)] == [2, 5]
    assert copied.other is not model.other and copied.other.strict
    assert first(copied.other(one())) == 3
    assert copied.fast.__wrapped__.__self__ is copied


def test_a_deep_copy_shares_the_function_and_no_programs() -> None:
    doubled(one())
    assert ag.jit_compile(Model(2.0).slow, strict=True)(one()).shape == one().shape
    for made in (copy.deepcopy(doubled), copy.copy(doubled)):
        assert made is not doubled and made.__wrapped__ is doubled.__wrapped__
        assert made.cache_info().currsize == 0 and first(made(one())) == 2
    model = Model(2.0)
    _checked(model, copy.deepcopy(model))
    alone = copy.deepcopy(model.fast)
    assert alone.__wrapped__.__self__ is not model and first(alone(one())) == 2


def test_pickle_goes_by_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert pickle.loads(pickle.dumps(Model.method)) is Model.method
    made = pickle.loads(pickle.dumps(ag.jit_compile(tripled, strict=True)))
    assert made.__wrapped__ is tripled and made.strict
    model = Model(2.0)
    _checked(model, pickle.loads(pickle.dumps(model)))
    with pytest.raises(pickle.PicklingError, match=r"<lambda> is not this function.*at the top"):
        pickle.dumps(ag.jit_compile(lambda x: x))


def test_a_module_with_a_compiled_function_is_copied() -> None:
    nn = pytest.importorskip("netcl_core.nn")
    layer = nn.Linear(2, 2)
    layer.activation = ag.jit_compile(tripled)
    x = nc.Tensor.ones((1, 2))
    for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert first(copied.activation(copied(x))) == first(layer.activation(layer(x)))
