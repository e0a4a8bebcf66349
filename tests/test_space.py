"""Spaces of settings: what is refused, what a plan finds, and that nothing stale serves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import netcl_plugin_tunable
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from netcl_plugin_tunable import CHOICES, DEFAULT, LABEL, operator, space

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import MissingOpError, PluginError, RegistrationError
from netcl_core.ops.tuning import shape_class
from netcl_core.plugins.registry import registry

X = np.arange(100, dtype="float32")
Offer = Callable[..., Any]


@pytest.fixture
def offer(fast: nc.Device) -> Iterator[Offer]:
    """Register the plugin with an operator of this space; gives the op's function."""

    def register(given: ag.Space | None = None, **fields: Any) -> Any:
        plugin = netcl_plugin_tunable.Plugin(operator(given, **fields))
        nc.plugins.register(plugin, "tunable")
        return ag.scaled

    yield register
    if any(each.name == "tunable" for each in nc.plugins.list()):
        nc.plugins.unregister("tunable")


def test_a_plan_finds_all_names(offer: Offer) -> None:
    seen: list[Any] = []

    def plan(request: ag.Request) -> nc.Kernels:
        seen.append(request.settings)
        return netcl_plugin_tunable.plan(request)

    scaled = offer(plan=plan)
    np.testing.assert_array_equal(scaled(X, 3.0).numpy(), X * 3)
    assert seen == [DEFAULT]
    with pytest.raises(TypeError):
        seen[0]["span"] = 3


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_with_a_neighbour_and_a_gradient(offer: Offer, compiled: bool) -> None:
    scaled = offer()

    def loss(x: Any) -> Any:
        return ag.sum(ag.exp(ag.mul(scaled(x), 0.01)))

    function = ag.jit_compile(loss, strict=True) if compiled else loss
    for _ in range(2):
        x = nc.tensor(X, requires_grad=True)
        function(x).backward()
        np.testing.assert_allclose(x.grad.numpy(), 0.02 * np.exp(0.02 * X), rtol=1e-5)


def test_every_part_but_the_choice_is_told(offer: Offer) -> None:
    seen: dict[str, Any] = {}

    def noted(name: str, result: Any) -> Any:
        def note(request: ag.Request, *rest: Any) -> Any:
            seen[name] = dict(request.settings)
            return result

        return note

    scaled = offer(
        stretch=noted("stretch", 1),
        requires=ag.Requirements(reject=noted("reject", None)),
        backward=lambda saved, grad: [ag.mul(grad, saved.attrs["factor"])],
        residuals=noted("residuals", ()),
        saves=noted("saves", ()),
    )
    weight = nc.tensor(np.ones(100, "float32"))
    function = ag.jit_compile(lambda x: ag.mul(scaled(x), weight))
    ag.sum(function(nc.tensor(X, requires_grad=True))).backward()
    assert seen.pop("reject") == {}
    assert seen == dict.fromkeys(("stretch", "residuals", "saves"), DEFAULT)


def test_of_no_space_there_are_no_settings(fast: nc.Device) -> None:
    x = nc.Spec((2,), "float32")
    assert ag.Request("total", fast, (x,), (x,), {}).settings == {}


# -- what cannot be registered -----------------------------------------------------------------


def good(request: ag.Request) -> Any:
    return {"n": 1}


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no choices": ({}, {}, "it has no choices"),
    "a list": ([1, 2], {}, "it has no choices"),
    "a name": ({"two words": (1,)}, {}, "the name 'two words' among its choices is no identifier"),
    "a number as name": ({3: (1,)}, {}, "the name 3 among its choices is no identifier"),
    "no values": ({"n": ()}, {}, "n has no values"),
    "one value alone": ({"n": 4}, {}, "n has no values"),
    "a text for values": ({"n": "abc"}, {}, "n has no values"),
    "an object": ({"n": (1, object)}, {}, "n has the value <class 'object'>, which a record"),
    "a NumPy number": ({"n": (np.int64(1),)}, {}, "which a record cannot hold"),
    "infinity": ({"n": (1.0, float("inf"))}, {}, "n has the value inf, which a record cannot"),
    "twice": ({"n": (1, 2, 1)}, {}, "n has the value 1 twice"),
    "twice, nearly": ({"n": (1, True)}, {}, "n has the value True twice"),
    "no default": ({"n": (1,)}, {"default": None}, "default=None is no function of a request"),
    "a mapping": ({"n": (1,)}, {"default": {"n": 1}}, "default={'n': 1} is no function"),
    "fits": ({"n": (1,)}, {"fits": "yes"}, "fits='yes' is no function of a request"),
    "classes": ({"n": (1,)}, {"shape_class": "all"}, "shape_class='all' is no function"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_space_is_refused(name: str, offer: Offer) -> None:
    choices, fields, text = WRONG[name]
    with pytest.raises(RegistrationError) as caught:
        offer(ag.Space(choices, **{"default": good, **fields}))
    assert caught.value.code == "NP308"
    assert str(caught.value).startswith(f"the space of scaled: {LABEL}: ")
    assert text in str(caught.value)
    with pytest.raises(MissingOpError):
        ag.scaled  # noqa: B018  # the look-up is what fails


# -- defaults that cannot be used ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("default", "text"),
    [
        ({"span": 17, "waste": 0}, "span=17 is not among 16, 64"),
        ({"span": 16.0, "waste": 0}, r"span=16.0 is not among 16, 64"),
        ({"span": 16, "waste": False}, "waste=False is not among 400, 0"),
        ({"span": 16}, "span instead of span, waste"),
        ({"span": 16, "waste": 0, "more": 1}, "span, waste, more instead of span, waste"),
        ({}, "no name instead of span, waste"),
        (None, "None is no mapping of names to values"),
    ],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.filterwarnings("ignore::netcl_core.errors.FusionSkipped")
def test_a_default_that_is_no_choice(offer: Offer, default: Any, text: str, compiled: bool) -> None:
    scaled = offer(space(default=lambda request: default))
    function = ag.jit_compile(lambda x: scaled(x)) if compiled else scaled
    for _ in range(2):
        with pytest.raises(PluginError, match=f"its default: {text}") as caught:
            function(nc.tensor(X))
        notes = " ".join(caught.value.__notes__)
        assert f"the implementation {LABEL!r} (tunable) was asked for its settings" in notes


def test_a_default_that_does_not_fit(offer: Offer) -> None:
    def fits(request: ag.Request, settings: Any) -> str | None:
        wide = settings["span"] > 16 or request.output.size > 100
        return "the device has too little memory" if wide else None

    scaled = offer(space(fits=fits))
    assert scaled(X).shape == (100,)
    with pytest.raises(PluginError, match="its default: the device has too little memory"):
        scaled(np.ones(101, "float32"))


def test_an_error_of_the_space_tells_whose_it_is(offer: Offer) -> None:
    scaled = offer(space(default=lambda request: {"span": 1 / 0}))
    with pytest.raises(ZeroDivisionError) as caught:
        scaled(nc.tensor(X))
    assert f"{LABEL!r} (tunable) was asked for its settings" in " ".join(caught.value.__notes__)


# -- combinations, classes, keys -----------------------------------------------------------------


def test_all_combinations() -> None:
    found = [dict(each) for each in space().combinations]
    wanted = [{"span": a, "waste": b} for a in CHOICES["span"] for b in CHOICES["waste"]]
    assert found == wanted


def request_of(shape: tuple[int, ...], dtype: str = "float32") -> ag.Request:
    spec = nc.Spec(shape, dtype)
    return ag.Request("scaled", nc.get_device("numpy"), (spec,), (spec,), {})


@pytest.mark.parametrize(
    ("shape", "text"),
    [((), "float32[]"), ((0, 1, 2), "float32[0x1x2]"), ((3, 4, 5, 1000), "float32[4x4x8x1024]")],
)
def test_the_class_of_shapes(shape: tuple[int, ...], text: str) -> None:
    assert shape_class(space(), request_of(shape)) == text


@given(st.lists(st.integers(0, 1 << 40), max_size=4))
def test_sizes_round_up_to_the_next_power(shape: list[int]) -> None:
    found = shape_class(space(), request_of(tuple(shape)))
    sizes = [int(each) for each in found[len("float32[") : -1].split("x") if each]
    for size, power in zip(shape, sizes, strict=True):
        assert power == 0 == size or (size <= power < 2 * size and power.bit_count() == 1)


def test_dtypes_are_apart_and_an_own_class_counts() -> None:
    assert shape_class(space(), request_of((4,), "float16")) == "float16[4]"
    own = space(shape_class=lambda request: f"all {request.operator}")
    assert shape_class(own, request_of((4,))) == "all scaled"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_new_settings_take_effect_wherever_the_function_is_kept(
    offer: Offer, compiled: bool
) -> None:
    now, planned = dict(DEFAULT), []

    def plan(request: ag.Request) -> nc.Kernels:
        planned.append(request.settings["span"])
        return netcl_plugin_tunable.plan(request)

    kept = offer(space(default=lambda request: now), plan=plan)
    function = ag.jit_compile(lambda x: ag.mul(kept(x), 2.0)) if compiled else kept
    x = nc.tensor(X)
    for span in (16, 64, 16):
        now["span"] = span
        registry.renew()
        for _ in range(2):
            np.testing.assert_array_equal(function(x).numpy(), X * (4 if compiled else 2))
    assert planned == [16, 64, 16]
