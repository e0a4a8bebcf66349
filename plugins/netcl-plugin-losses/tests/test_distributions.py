"""Distributions give PyTorch's numbers, and samples with the moments that they should have."""

from __future__ import annotations

import doctest
import sys
from typing import Any

import numpy as np
import pytest
from netcl_plugin_losses.distributions.gammas import slope

import netcl_core as nc
from netcl_core.errors import ArgumentError, AttributeValueError

torch = pytest.importorskip("torch")

P = [[0.2, 0.5, 0.3], [0.7, 0.1, 0.2]]
TRIL = [[1.5, 0.0], [0.5, 0.8]]
#: The parameters of two, and a value. `name: key` is of one that is made by this argument.
MADE: dict[str, tuple[list[Any], list[Any], Any]] = {
    "Normal": ([0.5, [1.0, 2.0]], [[0.0, -1.0], 1.5], [0.3, -2.0]),
    "HalfNormal": ([[0.5, 2.0]], [[1.5, 1.0]], [0.3, 2.0]),
    "LogNormal": ([[0.5, 0.0], 0.7], [0.0, [1.0, 2.0]], [0.3, 2.0]),
    "Laplace": ([[0.5, 0.0], 1.5], [0.0, [1.0, 2.0]], [0.3, -2.0]),
    "Cauchy": ([[0.5, 0.0], 1.5], [0.0, [1.0, 2.0]], [0.3, -2.0]),
    "Gumbel": ([[0.5, 0.0], 1.5], [0.0, [1.0, 2.0]], [0.3, -2.0]),
    "Uniform": ([[0.0, -1.0], 1.0], [-2.0, [3.0, 0.5]], [0.5, 2.0]),
    "Exponential": ([[0.5, 2.0]], [[1.5, 1.0]], [0.3, 2.0]),
    "Gamma": ([[0.5, 2.0], 3.0], [1.5, [2.0, 1.0]], [0.3, 2.0]),
    "Chi2": ([[3.0, 1.5]], [[1.0, 4.0]], [0.3, 2.0]),
    "Beta": ([[0.5, 2.0], 3.0], [1.5, [2.0, 1.0]], [0.3, 0.8]),
    "Dirichlet": ([[[0.5, 2.0, 1.0], [3.0, 0.7, 1.5]]], [[1.0, 1.0, 2.0]], P),
    "StudentT": ([[5.0, 9.0], 0.5, [1.0, 2.0]], [4.0, 0.0, 1.0], [0.3, -2.0]),
    "Poisson": ([[0.5, 20.0]], [[1.5, 1.0]], [0.0, 3.0]),
    "Bernoulli": ([[0.3, 0.9]], [[0.5, 0.2]], [1.0, 0.0]),
    "Geometric": ([[0.3, 0.9]], [[0.5, 0.2]], [3.0, 0.0]),
    "Binomial": ([6, [0.3, 0.9]], [6, [0.5, 0.2]], [4.0, 0.0]),
    "Categorical": ([P], [P[::-1]], [1, 2]),
    "OneHotCategorical": ([P], [P[::-1]], [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "Multinomial": ([5, P], [5, P], [[1.0, 4.0, 0.0], [0.0, 2.0, 3.0]]),
    "MultivariateNormal: scale_tril": (
        [[0.5, -1.0], TRIL], [[[0.0, 0.0], [1.0, 1.0]], [[1.0, 0.0], [0.3, 0.5]]], [0.3, -2.0]
    ),
    "MultivariateNormal: covariance_matrix": (
        [[0.5, -1.0], [[2.0, 0.5], [0.5, 1.0]]], [[1.0, 1.0], [[1.0, 0.2], [0.2, 1.5]]], [0.3, -2.0]
    ),
    "MultivariateNormal: precision_matrix": (
        [[0.5, -1.0], [[2.0, 0.5], [0.5, 1.0]]], [[1.0, 1.0], [[1.0, 0.2], [0.2, 1.5]]], [0.3, -2.0]
    ),
}  # fmt: skip


def leaf(t: Any, value: Any) -> Any:
    return value if isinstance(value, int) else t.tensor(value, requires_grad=True)


def of(t: Any, name: str, given: list[Any]) -> tuple[Any, list[Any]]:
    kind, _, key = name.partition(": ")
    leaves = [leaf(t, each) for each in given]
    named = {key: leaves[-1]} if key else {}
    made = getattr(t.distributions, kind)(*(leaves[:-1] if key else leaves), **named)
    return made, [each for each in leaves if not isinstance(each, int)]


def told(call: Any, *args: Any) -> Any:
    """The value, or None where there is none."""
    try:
        return call(*args)
    except NotImplementedError:
        return None


def same(name: str, theirs: list[Any], ours: list[Any]) -> None:
    for their, our in zip(theirs, ours, strict=True):
        assert (their is None) == (our is None), (name, their, our)
        if their is not None:
            a, b = (x.detach().numpy() for x in (their, our))
            np.testing.assert_allclose(b, a, rtol=4e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("name", MADE)
def test_formulas_and_their_gradients(name: str) -> None:
    first, second, value = MADE[name]
    found: list[list[Any]] = []
    for t in (torch, nc):
        (p, leaves), (q, _) = of(t, name, first), of(t, name, second)
        if t is torch:
            p._validate_args = False
        x, kl = t.tensor(value), t.distributions.kl_divergence
        results = [told(*call) for call in ((p.log_prob, x), (p.entropy,), (kl, p, q))]
        if name != "Categorical":
            results += [p.mean, p.variance, p.stddev]
        if name not in ("Beta", "Dirichlet", "Multinomial", "Bernoulli", "Binomial"):
            results.append(p.mode.float() if t is torch else p.mode)
        if name not in ("Gamma", "Chi2", "Beta", "StudentT"):  # there by igamma, without a gradient
            results.append(told(p.cdf, x))
        finite = [each for each in results
                  if each is not None and np.isfinite(each.detach().numpy()).all()]  # fmt: skip
        sum(each.sum() for each in finite).backward()  # type: ignore[union-attr]
        wide = p.expand((3, *p.batch_shape))
        assert tuple(wide.batch_shape) == (3, *p.batch_shape)
        found.append([*results, wide.log_prob(x), *(leaf.grad for leaf in leaves)])
    same(name, *found)


@pytest.mark.parametrize("name", MADE)
def test_samples_and_their_gradients_have_their_moments(name: str) -> None:
    """The gradient of the mean of (x - 1)^2 over samples is that of mean^2 + variance."""
    nc.manual_seed(3)
    p, leaves = of(nc, name, MADE[name][0])
    drawn = p.sample((4000,))
    assert drawn.shape == (4000, *p.batch_shape, *p.event_shape) and not drawn.requires_grad
    assert np.isfinite(p.log_prob(drawn).detach().numpy()).all()
    if name == "Categorical":
        counts = [(drawn.numpy() == kind).mean(0) for kind in range(3)]
        np.testing.assert_allclose(np.stack(counts, -1), P, atol=0.04)
        return
    data = drawn.numpy().astype(np.float64)
    if name == "Cauchy":
        quarters = np.quantile(data, [0.25, 0.5, 0.75], axis=0)
        np.testing.assert_allclose(quarters, [[-1, -1.5], [0.5, 0], [2, 1.5]], atol=0.15)
        return
    mean, variance = p.mean.detach().numpy(), p.variance.detach().numpy()
    np.testing.assert_allclose(data.mean(0), mean, atol=0.15)
    np.testing.assert_allclose(data.var(0), variance, rtol=0.15, atol=0.02)
    if not p.has_rsample:
        with pytest.raises(NotImplementedError, match="rsample"):
            p.rsample()
        return
    found = []
    for loss in (((p.rsample((20000,)) - 1) ** 2).mean(0), (p.mean - 1) ** 2 + p.variance):
        loss.sum().backward(retain_graph=True)
        found.append([each.grad.numpy().copy() for each in leaves])
        for each in leaves:
            each.grad = None
    for sampled, exact in zip(*found, strict=True):
        np.testing.assert_allclose(sampled, exact, rtol=0.15, atol=0.25, err_msg=name)


def test_gradients_of_gamma_samples() -> None:
    """By PyTorch's own expansions, whose error is up to 4e-4 of the gradient."""
    random = np.random.default_rng(0)
    a = np.repeat(10.0 ** np.linspace(-2, 5, 29), 100)
    z = random.gamma(a)
    a, z = a[z > 1e-37], z[z > 1e-37]
    expected = torch._standard_gamma_grad(torch.tensor(a), torch.tensor(z)).numpy() / z
    for dtype in ("float64", "float32"):
        found = slope(nc.tensor(a, "numpy", dtype), nc.tensor(np.log(z), "numpy", dtype)).numpy()
        np.testing.assert_allclose(found, expected, rtol=3e-3)
    small = nc.distributions.Dirichlet(nc.full((4, 3), 1e-3))  # no sum of 0
    np.testing.assert_allclose(small.sample().sum(-1).numpy(), 1, rtol=1e-5)


#: Numbers for families of one, and of two parameters.
OTHERS = {"Exponential": [1.3], "Bernoulli": [0.4], "Poisson": [1.7]}
PAIRS = [
    *((p, q) for q in ("Normal", "Exponential", "Gamma") for p in ("Beta", "Gamma", "Uniform")),
    *((p, "Normal") for p in ("Exponential", "Gumbel", "Laplace")),
    *((p, "Gumbel") for p in ("Exponential", "Gamma", "Normal", "Uniform")),
    ("Exponential", "Gamma"), ("Uniform", "Beta"), ("Normal", "Laplace"), ("Bernoulli", "Poisson"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_divergences_of_two_families(one: str, other: str) -> None:
    found = []
    for t in (torch, nc):
        p, leaves = of(t, one, OTHERS.get(one, [0.3, 0.8]))
        q, more = of(t, other, OTHERS.get(other, [0.6, 1.4]))
        result = t.distributions.kl_divergence(p, q)
        result.backward()
        found.append([result, *(each.grad for each in (*leaves, *more))])
    same(f"{one}, {other}", *found)
    low = nc.distributions.Uniform(-1.0, 2.0)
    if one == "Uniform" and other in ("Exponential", "Gamma", "Beta"):
        assert np.isinf(nc.distributions.kl_divergence(low, q).item())


def transformed(t: Any, base: Any, loc: Any) -> dict[str, Any]:
    d = t.distributions
    affine = d.AffineTransform(loc, -2.0)
    shift = d.AffineTransform(t.tensor([0.5, -1.0]), t.tensor([2.0, 0.5]), event_dim=1)
    chains = {
        "tanh": [d.TanhTransform(cache_size=1)],
        "affine": affine,
        "logistic": [affine, d.SigmoidTransform()],
        "inverse": [d.ExpTransform(), d.transforms.PowerTransform(2.0), d.ExpTransform().inv],
        "composed": [d.ComposeTransform([affine, d.TanhTransform()]), d.AffineTransform(0.1, 0.8)],
        "event": [shift, d.ExpTransform()],
    }
    return {name: d.TransformedDistribution(base, chain) for name, chain in chains.items()}


def test_transformed_distributions_and_mixtures() -> None:
    found = []
    for t in (torch, nc):
        loc, scale = (t.tensor(x, requires_grad=True) for x in ([0.2, -0.3], [0.5, 0.7]))
        base, row = t.distributions.Normal(loc, scale), []
        for name, p in transformed(t, base, loc).items():
            x = p.rsample((3,))
            assert np.isfinite(p.log_prob(x).detach().numpy()).all(), name
            row += [p.log_prob(t.tensor([0.31, 0.42]))]
            if name != "event":
                row += [p.cdf(t.tensor([0.31, 0.42])), p.icdf(t.tensor([0.3, 0.6]))]
        weights = t.distributions.Categorical(t.tensor([0.3, 0.7]))
        joint = t.distributions.Independent(
            t.distributions.Normal(t.stack([loc, scale]), t.stack([scale, scale])), 1
        )
        for component in (base, joint):
            mixture = t.distributions.MixtureSameFamily(weights, component)
            row += [mixture.log_prob(t.tensor([0.3, 0.4])), mixture.mean, mixture.variance]
            assert mixture.sample((5,)).shape == (5, *component.event_shape)
        wide = t.distributions.MixtureSameFamily(weights, base).expand((4,))
        row += [wide.cdf(t.tensor(0.1))]
        sum(each.sum() for each in row).backward()
        found.append([*row, loc.grad, scale.grad])
    same("", *found)
    data = nc.distributions.MixtureSameFamily(weights, base).sample((4000,)).numpy()
    np.testing.assert_allclose(data.mean(), 0.3 * 0.2 - 0.7 * 0.3, atol=0.05)
    kl, one, other = (
        nc.distributions.kl_divergence,
        *(nc.distributions.AffineTransform(each, 2.0) for each in (0.0, 1.0)),
    )
    p, q = (nc.distributions.TransformedDistribution(base, each) for each in (one, other))
    assert kl(p, nc.distributions.TransformedDistribution(base, one)).tolist() == [0, 0]
    with pytest.raises(NotImplementedError, match="other functions"):
        kl(p, q)


def test_numbers_as_parameters() -> None:
    """Whole numbers are floating ones, and numbers have the dtype of the tensors beside them."""
    d = nc.distributions
    for made in (d.Normal(0, 1), d.Gamma(2, 1), d.Uniform(0, 2), d.Poisson(4), d.LogNormal(0, 1),
                 d.Binomial(5, 0.5), d.StudentT(3), d.Beta(1, nc.tensor(1))):  # fmt: skip
        assert made.sample((2,)).dtype == made.log_prob(nc.ones(2)).dtype == "float32"
    for dtype in ("float16", "float64") if nc.default_device().supports_fp64 else ("float16",):
        made = d.Gamma(nc.full((2,), 2.0, dtype=dtype), 1)
        x = made.sample()
        assert {x.dtype, made.mean.dtype, made.log_prob(x).dtype} == {dtype}
    assert d.Gamma(nc.ones(0), 1.0).rsample((2,)).shape == (2, 0)


def test_events_and_what_is_refused() -> None:
    normal = nc.distributions.Normal(nc.zeros(2, 3), 1.0)
    joint = nc.distributions.Independent(normal, 1)
    assert joint.batch_shape == (2,) and joint.event_shape == (3,)
    assert joint.expand((5, 2)).sample().shape == (5, 2, 3)
    value = nc.ones(2, 3)
    np.testing.assert_allclose(joint.log_prob(value).numpy(), normal.log_prob(value).numpy().sum(1))
    assert nc.distributions.kl_divergence(joint, joint).tolist() == [0, 0]
    with pytest.raises(ArgumentError, match="both of probs and logits"):
        nc.distributions.Categorical(nc.ones(2), nc.ones(2))
    with pytest.raises(NotImplementedError, match="Normal and Bernoulli"):
        nc.distributions.kl_divergence(normal, nc.distributions.Bernoulli(0.5))
    with pytest.raises(ArgumentError, match="0 matrices"):
        nc.distributions.MultivariateNormal(nc.zeros(2))
    with pytest.raises(AttributeValueError, match="components of batch_shape"):
        nc.distributions.MixtureSameFamily(nc.distributions.Categorical(nc.ones(2)), normal)
    with pytest.raises(AttributeValueError, match="rates of at least 0"):
        nc.distributions.Poisson(nc.tensor(-1.0)).sample()
    gamma = nc.distributions.Gamma(x := nc.tensor(2.0, requires_grad=True), 1.0)
    few, many = nc.distributions.Binomial(2, 0.5), nc.distributions.Binomial(3, 0.5)
    assert np.isinf(nc.distributions.kl_divergence(many, few).item())
    with pytest.raises(NotImplementedError, match="fewer trials"):
        nc.distributions.kl_divergence(few, many)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        nc.autograd.grad(gamma.rsample(), x, create_graph=True)


def test_examples() -> None:
    modules = {nc.distributions.constraints} | {
        sys.modules[found.__module__]
        for found in (getattr(nc.distributions, name) for name in nc.distributions.__all__)
        if hasattr(found, "__module__")
    }
    assert len(modules) == 8
    for module in modules:
        assert not doctest.testmod(module, extraglobs={"nc": nc}).failed


#: Rows of three, of which each is one value of some constraint's and none of another's.
SEVERAL = [
    [-1.0, 0.0, 1.0],
    [0.5, 0.25, 0.25],
    [1.0, 1.0, 2.0],
    [0.0, 1.0, 0.0],
    [5.0, np.nan, 0.0],
]
MATRICES = [[[2.0, 0.5], [0.5, 1.0]], [[1.0, 0.0], [3.0, -1.0]], [[1.0, 0.0], [3.0, 1.0]]]


def supported(name: str, module: Any, tensor: Any) -> Any:
    """A distribution whose event, if it is a vector, has three elements."""
    whole = {"Dirichlet": [[1.0, 2.0, 3.0]], "Categorical": [P[0]], "OneHotCategorical": [P[0]],
             "Multinomial": [4, P[0]], "Binomial": [4, 0.3]}  # fmt: skip
    given = whole.get(name, [0.5] * (2 if name == "Beta" else len(MADE.get(name, ([], 0, 0))[0])))
    given = [0.0, 1.5] if name == "Uniform" else given
    return getattr(module, name)(*(x if isinstance(x, int) else tensor(x) for x in given))


@pytest.mark.parametrize("name", [name for name in MADE if ":" not in name])
def test_supports_are_pytorchs(name: str) -> None:
    theirs = supported(name, torch.distributions, torch.tensor)
    ours = supported(name, nc.distributions, nc.tensor)
    depends = torch.distributions.constraints.is_dependent(type(theirs).support)
    assert depends == nc.distributions.constraints.is_dependent(type(ours).support)
    assert theirs.support.event_dim == ours.support.event_dim
    found = ours.support.check(nc.tensor(SEVERAL)).tolist()
    assert found == theirs.support.check(torch.tensor(SEVERAL)).tolist()


@pytest.mark.parametrize(
    "name",
    ["lower_triangular", "lower_cholesky", "square", "symmetric", "positive_definite",
     "positive_semidefinite", "real_vector", "positive_integer", "simplex"],
)  # fmt: skip
def test_constraints_are_pytorchs(name: str) -> None:
    theirs = getattr(torch.distributions.constraints, name)
    ours = getattr(nc.distributions.constraints, name)
    found = ours.check(nc.tensor(MATRICES)).tolist()
    assert found == theirs.check(torch.tensor(MATRICES)).tolist()
    assert (ours.is_discrete, ours.event_dim) == (theirs.is_discrete, theirs.event_dim)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Normal", [0.0, -1.0]),
        ("Uniform", [2.0, 1.0]),
        ("Gamma", [-1.0, 1.0]),
        ("Chi2", [-1.0]),
        ("Dirichlet", [[-1.0, 1.0]]),
        ("LogNormal", [0.0, -1.0]),
        ("Poisson", [-1.0]),
        ("Bernoulli", [1.5]),
        ("Categorical", [[-0.1, 1.1]]),
    ],
)
def test_parameters_are_looked_at_where_one_asks(name: str, given: list[Any]) -> None:
    for module, tensor in ((torch.distributions, torch.tensor), (nc.distributions, nc.tensor)):
        getattr(module, name)(*map(tensor, given), validate_args=False)
        with pytest.raises(ValueError, match=r"satisfy|expected|defined"):
            getattr(module, name)(*map(tensor, given), validate_args=True)
