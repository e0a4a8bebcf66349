"""Generators: one seed gives the same numbers everywhere, and nothing else changes them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import ArgumentError, AttributeValueError, FusionSkipped

#: What draws, by a device and a generator.
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "rand": lambda d, g: nc.rand(3, 5, device=d, generator=g),
    "randn": lambda d, g: nc.randn(7, device=d, generator=g),
    "randint": lambda d, g: nc.randint(9, (7,), device=d, generator=g),
    "randperm": lambda d, g: nc.randperm(9, device=d, generator=g),
    "normal": lambda d, g: nc.normal(nc.zeros(5, device=d), 2.0, generator=g),
    "bernoulli": lambda d, g: nc.bernoulli(nc.full((9,), 0.5, device=d), generator=g),
    "poisson": lambda d, g: nc.poisson(nc.full((9,), 4.0, device=d), generator=g),
    "binomial": lambda d, g: nc.binomial(
        nc.full((9,), 20.0, device=d), nc.tensor(0.3, d), generator=g),
    "random_log_gamma": lambda d, g: nc.random_log_gamma(
        nc.tensor([0.02, 0.5, 1.0, 30.0], d), generator=g),
    "multinomial": lambda d, g: nc.multinomial(nc.ones(9, device=d), 4, generator=g),
    "again": lambda d, g: nc.multinomial(nc.ones(9, device=d), 40, True, generator=g),
    **{
        name: lambda d, g, name=name, args=args: getattr(
            nc.zeros(9, device=d), name)(*args, generator=g)
        for name, args in {"uniform_": (), "normal_": (), "log_normal_": (), "exponential_": (),
                           "cauchy_": (), "geometric_": (0.3,), "bernoulli_": (),
                           "random_": (99,)}.items()
    },
    **{
        name: lambda d, g, name=name, args=args: getattr(nn.init, name)(
            nc.zeros(4, 6, device=d), *args, generator=g)
        for name, args in {"uniform_": (), "trunc_normal_": (), "kaiming_normal_": (),
                           "xavier_uniform_": (), "orthogonal_": (), "sparse_": (0.5,)}.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWS)
def test_a_generator_is_the_process_s_of_its_seed_on_every_device(name: str) -> None:
    draw, state = DRAWS[name], nc.get_rng_state()
    found = []
    for device in dict.fromkeys([nc.get_device("numpy"), *usable_devices()]):
        generator = nc.Generator(device).manual_seed(7)
        found += [draw(device, generator) for _ in range(2)]
        assert (nc.get_rng_state() == state).all()  # the process draws nothing
        with nc.random.fork_rng():
            assert nc.manual_seed(7) is nc.default_generator
            found += [draw(device, None) for _ in range(2)]
    first, second = (x.numpy() for x in found[:2])
    assert (first != second).any()
    for i, x in enumerate(found):
        np.testing.assert_allclose(x.numpy(), (first, second)[i % 2], rtol=2e-5, atol=1e-6)


def test_states_seeds_and_copies() -> None:
    generator = nc.Generator().manual_seed(5)
    nc.rand(3, generator=generator)
    state, draw = generator.get_state(), lambda g: [nc.rand(3, generator=g).tolist(), g.random()]
    copies = [copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))]
    expected = draw(generator)
    assert [draw(each) for each in copies] == [expected] * 2
    generator.set_state(state)
    assert draw(generator) == expected and generator.initial_seed() == 5
    assert generator.device is nc.get_device("cpu")
    nc.manual_seed(2)

    @nc.random.fork_rng()
    def inside() -> float:
        nc.manual_seed(1)
        return float(nc.rand(1).item())

    assert inside() == inside() and nc.initial_seed() == 2
    assert nc.seed() == nc.default_generator.initial_seed() != nc.seed()
    assert nc.cuda.initial_seed() == nc.initial_seed()
    with pytest.raises(AttributeValueError, match="manual_seed: -1"):
        generator.manual_seed(-1)
    with pytest.raises(AttributeValueError, match="set_rng_state"):
        generator.set_state(nc.zeros(3))


def test_compiled_and_captured_functions_draw_anew() -> None:
    generator, x = nc.Generator().manual_seed(3), nc.zeros(2)
    captured = ag.capture(lambda x: x + nc.rand(2, generator=generator), x)
    drawn = [captured(x).tolist() for _ in range(3)]
    assert len({str(each) for each in drawn}) == 3
    with pytest.raises(ArgumentError, match="generator= in a capture"):
        ag.capture(lambda x: x + nc.rand(2, generator=np.random.default_rng(0)), x)
    compiled = ag.jit_compile(lambda x, g: x + nc.rand(2, generator=g))
    with pytest.warns(FusionSkipped):
        drawn = [compiled(x, generator).tolist() for _ in range(3)]
    assert len({str(each) for each in drawn}) == 3


def test_counts_have_their_moments() -> None:
    nc.manual_seed(0)
    rates = nc.tensor([0.0, 0.3, 4.0, 500.0])
    found = nc.poisson(rates.expand(4000, 4)).numpy()
    np.testing.assert_allclose(found.mean(0), rates.numpy(), rtol=0.1, atol=0.05)
    np.testing.assert_allclose(found.var(0), rates.numpy(), rtol=0.15, atol=0.05)
    chances = np.array([0.1, 0.8, 0.5, 0.95])
    counts = np.array([12.0, 12.0, 60.0, 900.0])
    trials = nc.binomial(nc.tensor(counts).expand(4000, 4), nc.tensor(chances)).numpy()
    np.testing.assert_allclose(trials.mean(0), counts * chances, rtol=0.1)
    np.testing.assert_allclose(trials.var(0), counts * chances * (1 - chances), rtol=0.15)
    with pytest.raises(
        AttributeValueError, match="poisson: -1 to -1; expected rates of at least 0"
    ):
        nc.poisson(nc.tensor([-1.0]))
