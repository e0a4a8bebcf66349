"""Derivatives of any order of the conformance cases, beside those of PyTorch in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.inputs import for_inputs
from netcl_plugin_kit.testing.samples import is_floating

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.tensors.host_data import Array, Shape

torch = pytest.importorskip("torch")

#: Shapes of an elementwise op's inputs: broadcast, with one element and with several rows.
BROADCAST: tuple[Shape, ...] = ((3, 4), (4,), (3, 1))
#: Differences beyond this, relative to the largest element, are mistakes.
CLOSE = {"bfloat16": 1e-1, "float16": 2e-2, "float32": 2e-3, "float64": 1e-9}


def arrays_of(case: Case, dtype: str) -> list[Array]:
    """Inputs of a moderate size."""
    if case.shapes or not case.is_sampled:
        several = [
            shapes
            for shapes in case.variants
            if min(np.prod(shape) for shape in shapes) > 0
            and 1 < max(np.prod(shape) for shape in shapes) < 5000
        ]
        return case.sample(several[0], dtype) if several else case.main_sample(dtype)
    return case.sample(for_inputs(BROADCAST, len(case.inputs)), dtype)


def weights(shape: Sequence[int], number: int) -> Array:
    """Coefficients of a sum, other ones for every number."""
    count = int(np.prod(shape))
    return np.cos(1.7 * np.arange(count) + number).reshape(tuple(shape)) + 0.3


def derivatives(
    case: Case,
    arrays: Sequence[Array],
    order: int,
    device: nc.Device,
    function: Callable[..., Any] | None = None,
) -> list[Array]:
    """The gradients of the given order, of all floating inputs and of the first upstream gradient.

    Of several results the first is differentiated.
    Each order is the gradient of a weighted sum of the gradients of the order before.
    """
    with nc.use_device(device):
        needs = case.needs(arrays)
        tensors = [
            nc.Tensor.from_host(x, device, requires_grad=need)
            for x, need in zip(arrays, needs, strict=True)
        ]
        result = (function or case.run)(*tensors)
        result = result[0] if isinstance(result, tuple) else result
        upstream = _tensor(weights(result.shape, 0), result)
        targets = [x for x, need in zip(tensors, needs, strict=True) if need]
        used: Any = {"allow_unused": True}
        gradients = ag.grad(result, targets, upstream.requires_grad_(), create_graph=True, **used)
        targets.append(upstream)
        for number in range(1, order):
            pairs = [(x, _tensor(weights(x.shape, number), x)) for x in gradients if _flows(x)]
            if not pairs:
                return [np.zeros(x.shape) for x in targets]
            outputs, seeds = [x for x, _ in pairs], [seed for _, seed in pairs]
            gradients = ag.grad(outputs, targets, seeds, create_graph=number < order - 1, **used)
        return [_host(x, like) for x, like in zip(gradients, targets, strict=False)]


def _tensor(array: Array, like: Any) -> nc.Tensor:
    return nc.Tensor.from_host(array.astype(like.dtype), like.device)


def _flows(x: Any) -> bool:
    return x is not None and x.requires_grad


def _host(x: Any, like: Any) -> Array:
    return np.zeros(like.shape) if x is None else x.to_host().astype(np.float64)


def expected(case: Case, arrays: Sequence[Array], order: int) -> list[Array]:
    """The same by PyTorch in float64."""
    needs = case.needs(arrays)
    tensors = [
        torch.tensor(x.astype(np.float64) if is_floating(x) else x).requires_grad_(need)
        for x, need in zip(arrays, needs, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = case.run_torch(torch, *tensors)
    upstream = torch.tensor(weights(result.shape, 0), requires_grad=True)
    targets = [x for x, need in zip(tensors, needs, strict=True) if need]
    gradients = _torch_grad([result], targets, [upstream])
    targets.append(upstream)
    for number in range(1, order):
        pairs = [
            (x, torch.tensor(weights(x.shape, number)))
            for x in gradients
            if x is not None and x.requires_grad
        ]
        if not pairs:
            return [np.zeros(tuple(x.shape)) for x in targets]
        gradients = _torch_grad([x for x, _ in pairs], targets, [seed for _, seed in pairs])
    return [
        np.zeros(tuple(like.shape)) if x is None else x.detach().numpy(force=True)
        for x, like in zip(gradients, targets, strict=False)
    ]


def _torch_grad(outputs: list[Any], targets: list[Any], seeds: list[Any]) -> Any:
    return torch.autograd.grad(outputs, targets, seeds, create_graph=True, allow_unused=True)


def assert_alike(given: Sequence[Array], wanted: Sequence[Array], dtype: str, what: str) -> None:
    """Raise AssertionError where two lists of derivatives differ."""
    for i, (actual, right) in enumerate(zip(given, wanted, strict=True)):
        scale = max(1.0, float(np.abs(right[np.isfinite(right)]).max(initial=0.0)))
        close = np.isclose(actual, right, rtol=CLOSE[dtype], atol=CLOSE[dtype] * scale)
        close |= np.isnan(actual) & np.isnan(right)
        assert close.all(), f"{what}: derivative {i}: given {actual[~close][:3]}; " + (
            f"expected {right[~close][:3]} at {np.argwhere(~close)[0].tolist()}"
        )
