"""`nn.utils.parametrizations`: weights with a length apart, of largest singular value 1, or
orthogonal; and `nn.utils.spectral_norm`, the older form of the second one."""

from __future__ import annotations

from typing import Any, Final, final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError, message
from netcl_plugin_nn.module import Module
from netcl_plugin_nn.parameters import Parameter
from netcl_plugin_nn.parametrize import register_parametrization
from netcl_plugin_nn.weight_norm import WeightNorm

_MAPS: Final = ("matrix_exp", "cayley", "householder")


def _parameter(who: str, module: Any, name: str) -> Any:
    value = getattr(module, name, None)
    if not isinstance(value, nc.Tensor):
        given = f"{type(module).__name__} without a parameter {name!r}"
        raise ArgumentError(message(who, given, "one of its own"))
    return value


@final
class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        self._norm = WeightNorm("weight", None if dim == -1 else dim)

    def forward(self, length: Any, direction: Any) -> Any:
        return direction * (length / self._norm.length(direction))

    def right_inverse(self, weight: Any) -> Any:
        return self._norm.length(weight), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """`nn.utils.weight_norm` as a parametrization: the lengths are `original0`."""
    _parameter("weight_norm", module, name)
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


# -- spectral norm -----------------------------------------------------------------------


def _matrix(weight: Any, dim: int) -> Any:
    """The weight as a matrix, the rows along a dimension."""
    return ag.flatten(ag.movedim(weight, dim, 0), 1)


def _iterate(weight: Any, u: Any, v: Any, times: int, eps: float) -> None:
    """Power iterations of singular vectors, in place."""
    with ag.no_grad():
        for _ in range(times):
            u.copy_(ag.normalize(ag.mv(weight, v), 2, 0, eps))
            v.copy_(ag.normalize(ag.mv(ag.t(weight), u), 2, 0, eps))


def _divided(weight: Any, matrix: Any, u: Any, v: Any) -> Any:
    """The weight by its largest singular value; the vectors are copied, since they change."""
    return weight / ag.dot(u.clone(), ag.mv(matrix, v.clone()))


def _vectors(weight: Any, eps: float) -> list[Any]:
    return [
        ag.normalize(nc.randn(size, dtype=weight.dtype, device=weight.device), 2, 0, eps).detach()
        for size in weight.shape
    ]


@final
class _SpectralNorm(Module):
    def __init__(self, weight: Any, times: int, dim: int, eps: float) -> None:
        self.dim, self.eps, self.n_power_iterations = dim % max(weight.ndim, 1), eps, times
        if weight.ndim > 1:
            matrix = _matrix(weight.detach(), self.dim)
            for name, vector in zip(("_u", "_v"), _vectors(matrix, eps), strict=True):
                self.register_buffer(name, vector)
            _iterate(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return ag.normalize(weight, 2, 0, self.eps)
        matrix = _matrix(weight, self.dim)
        if self.training:
            _iterate(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        return _divided(weight, matrix, self._u, self._v)

    def right_inverse(self, value: Any) -> Any:
        return value


def _dim_of(module: Any, dim: int | None) -> int:
    """Outputs stand first, but in transposed convolutions."""
    return int(type(module).__name__.startswith("ConvTranspose")) if dim is None else dim


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Divide a layer's weight by its largest singular value.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(20, 40))
    >>> round(nc.linalg.matrix_norm(layer.weight, 2).item(), 1)
    1.0

    Args:
        module: The layer, which is changed and returned.
        name: The parameter.
        n_power_iterations: How often the singular vectors are improved at each call in training.
        eps: The least length of a vector.
        dim: The dimension of the outputs; by default 0, and 1 of transposed convolutions.

    (Miyato et al. 2018, arXiv:1802.05957)
    """
    weight = _parameter("spectral_norm", module, name)
    _check_times(n_power_iterations)
    normalization = _SpectralNorm(weight, n_power_iterations, _dim_of(module, dim), eps)
    return register_parametrization(module, name, normalization)


def _check_times(times: int) -> None:
    if times < 1:
        given = f"n_power_iterations={times}"
        raise AttributeValueError(message("spectral_norm", given, "1 or more"))


@final
class _SpectralHook:
    """Computes the weight before each call of its layer."""

    def __init__(self, name: str, times: int, dim: int, eps: float) -> None:
        self.name, self.times, self.dim, self.eps = name, times, dim, eps

    def compute_weight(self, module: Any, iterate: bool) -> Any:
        weight, u, v = (getattr(module, self.name + end) for end in ("_orig", "_u", "_v"))
        matrix = _matrix(weight, self.dim)
        if iterate:
            _iterate(ag.t(matrix.detach()), v, u, self.times, self.eps)  # v first
        return _divided(weight, matrix, u, v)

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def old_spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """`parametrizations.spectral_norm` in its older form, whose state has `weight_orig`,
    `weight_u` and `weight_v`; `remove_spectral_norm` ends it.

    >>> layer = nn.utils.spectral_norm(nn.Linear(3, 2))
    >>> sorted(name for name, _ in layer.named_buffers())
    ['weight_u', 'weight_v']

    Args:
        module: The module.
        n_power_iterations: How often the vectors are improved at each call.
    """
    weight = _parameter("spectral_norm", module, name)
    _check_times(n_power_iterations)
    hook = _SpectralHook(name, n_power_iterations, _dim_of(module, dim), eps)
    vectors = _vectors(_matrix(weight.detach(), hook.dim), eps)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    for end, vector in zip(("_u", "_v"), vectors, strict=True):
        module.register_buffer(name + end, vector)
    held = module.__dict__.setdefault("_spectral_norms", {})
    held[name] = hook, module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight one parameter again, with the value that it has.

    >>> layer = nn.utils.remove_spectral_norm(nn.utils.spectral_norm(nn.Linear(3, 2)))
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']

    Args:
        module: The module.

    Raises:
        ArgumentError: Unless given a layer that has it.
    """
    hook, handle = module.__dict__.get("_spectral_norms", {}).pop(name, (None, None))
    if hook is None:
        given = f"{type(module).__name__} without spectral norm of {name!r}"
        raise ArgumentError(message("remove_spectral_norm", given, "a layer that has it"))
    weight = hook.compute_weight(module, False).detach()
    handle.remove()
    for attribute in (name, *(name + end for end in ("_orig", "_u", "_v"))):
        delattr(module, attribute)
    module.register_parameter(name, Parameter(weight))
    return module


# -- orthogonal --------------------------------------------------------------------------


@final
class _Orthogonal(Module):
    def __init__(self, weight: Any, how: str, trivialization: bool) -> None:
        self.how = how
        if trivialization:
            self.register_buffer("base", None)
        self._moves = trivialization

    def forward(self, x: Any) -> Any:
        wide = x.shape[-2] < x.shape[-1]
        x = ag.transpose(x, -2, -1) if wide else x
        n, k = x.shape[-2:]
        if self.how == "householder":
            below = ag.tril(x, -1)
            tau = 2 / (1 + ag.sum(below * below, -2))
            signs = ag.diagonal(x, 0, -2, -1).detach().trunc()  # 1 and -1, kept by right_inverse
            orthogonal = nc.linalg.householder_product(below, tau) * ag.unsqueeze(signs, -2)
        else:
            skew = ag.tril(x)
            if n != k:
                rest = ag.zeros((*x.shape[:-1], n - k), dtype=x.dtype, device=x.device)
                skew = ag.cat([skew, rest], -1)
            skew = skew - ag.transpose(skew, -2, -1)
            if self.how == "matrix_exp":
                orthogonal = nc.linalg.matrix_exp(skew)
            else:
                one = ag.eye(n, dtype=x.dtype, device=x.device)
                orthogonal = nc.linalg.solve(one - skew / 2, one + skew / 2)
            orthogonal = orthogonal[..., :k]
        if self._moves:
            orthogonal = ag.matmul(self.base, orthogonal)
        return ag.transpose(orthogonal, -2, -1) if wide else orthogonal

    def right_inverse(self, value: Any) -> Any:
        """With a base that is the value, made orthogonal, and -1 on the diagonal; without a base
        the reflections that make the value."""
        wide = value.shape[-2] < value.shape[-1]
        q = ag.transpose(value, -2, -1) if wide else value
        if not self._moves:
            if self.how != "householder":
                given = f"a value for {self.how} without use_trivialization"
                raise NotImplementedError(message("orthogonal", given, "use_trivialization=True"))
            raw, tau = np.linalg.qr(q.to_host(), mode="raw")
            places = np.arange(raw.shape[-2])
            signs = np.sign(raw[..., places, places])
            raw[..., places, places] = np.where(tau == 0, -signs, signs)
            weight = nc.tensor(raw, value.device, value.dtype)
            return weight if wide else ag.transpose(weight, -2, -1)
        n, k = q.shape[-2:]
        if n != k:
            noise = nc.randn((*q.shape[:-1], n - k), dtype=q.dtype, device=q.device)
            q = ag.cat([q, noise], -1)
        q, r = nc.linalg.qr(q)
        signs = ag.where(ag.lt(ag.diagonal(r, 0, -2, -1), 0), -1.0, 1.0).astype(q.dtype)
        self.base = (q * ag.unsqueeze(signs, -2)).detach()
        one = ag.eye(value.shape[-2], value.shape[-1], dtype=q.dtype, device=q.device)
        return -ag.expand(one, value.shape)


def orthogonal(
    module: Any, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Any:  # fmt: skip
    """Keep a layer's weight orthogonal: its rows, or columns if these are fewer, orthonormal.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(20, 40))
    >>> q = layer.weight
    >>> bool(((q.mT @ q) - nc.eye(20)).abs().max() < 1e-4)
    True

    Args:
        module: The layer, which is changed and returned.
        name: The parameter, a matrix or several.
        orthogonal_map: "matrix_exp", "cayley" (both of a skew matrix) or "householder"; by default
            the first for square ones, else the last.
        use_trivialization: Whether it is relative to the weight of now (Lezcano-Casado 2019,
            arXiv:1909.09501), which can be assigned to. Without, it starts from what the map gives.

    The map is `nc.linalg`'s. Raises ShapeError below two dimensions.
    """
    weight = _parameter("orthogonal", module, name)
    if weight.ndim < 2:
        raise ShapeError(message("orthogonal", f"shape {weight.shape}", "a matrix"))
    square = weight.shape[-1] == weight.shape[-2]
    how = orthogonal_map or ("matrix_exp" if square else "householder")
    if how not in _MAPS:
        known = "one of " + ", ".join(_MAPS)
        raise AttributeValueError(message("orthogonal", f"orthogonal_map={how!r}", known))
    parametrization = _Orthogonal(weight, how, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
