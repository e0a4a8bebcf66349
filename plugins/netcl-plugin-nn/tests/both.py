"""A layer of netcl's beside PyTorch's, with PyTorch's weights: states, values, gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag

#: NumPy's path and one that builds kernels.
DEVICES = list(dict.fromkeys([nc.devices()[0], nc.get_device("numpy")]))


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


def flat(results: Any) -> list[Any]:
    """The tensors of results, which may be tuples within tuples."""
    return [x for each in results for x in flat(each)] if isinstance(results, tuple) else [results]


def compare(ours: Any, theirs: Any, inputs: Sequence[Any], **attrs: Any) -> None:
    """Names and shapes of the state, values, gradients of inputs and parameters, everywhere.

    `inputs` are arrays or nested tuples of them; floating ones get gradients. `attrs` go to both.
    """
    torch = pytest.importorskip("torch")
    assert repr(ours) == repr(theirs).replace("NonDynamicallyQuantizable", "")
    state = theirs.state_dict()
    assert [(name, tuple(x.shape)) for name, x in state.items()] == [
        (name, x.shape) for name, x in ours.state_dict().items()
    ]
    assert ours.load_state_dict(state) == ([], [])

    def tensor(x: Any) -> Any:
        return torch.tensor(x, requires_grad=x.dtype == np.float32)

    tensors = made(tuple(inputs), tensor)
    wanted = flat(theirs(*tensors, **{name: made(x, torch.tensor) for name, x in attrs.items()}))
    covectors = [drawn(*x.shape, seed=7) for x in wanted]
    sum((x * torch.tensor(y)).sum() for x, y in zip(wanted, covectors, strict=True)).backward()
    for device in DEVICES:
        ours.to(device).zero_grad()
        leaves = made(tuple(inputs), partial(leaf, device))
        more = {name: made(x, partial(nc.tensor, device=device)) for name, x in attrs.items()}
        found = flat(ours(*leaves, **more))
        assert [x.shape for x in found] == [tuple(x.shape) for x in wanted]
        for x, y in zip(found, wanted, strict=True):
            close(x, y, f"value on {device}")
        pairs = zip(found, covectors, strict=True)
        ag.backward(sum(ag.sum(x * nc.tensor(y, device)) for x, y in pairs))
        for x, y in zip(flat(leaves), flat(tensors), strict=True):
            if isinstance(x, nc.Tensor) and x.requires_grad:
                close(x.grad, y.grad, f"gradient of an input on {device}")
        for name, y in theirs.named_parameters():
            if y.grad is not None:
                close(ours.get_parameter(name).grad, y.grad, f"gradient of {name} on {device}")


def made(x: Any, make: Callable[[Any], Any]) -> Any:
    """Arrays, which may stand in tuples, as tensors; all else as it is."""
    if isinstance(x, tuple):
        return tuple(made(each, make) for each in x)
    return make(x) if isinstance(x, np.ndarray) else x


def leaf(device: nc.Device, x: Any) -> nc.Tensor:
    return nc.Tensor.from_host(x, device, requires_grad=x.dtype == np.float32)


def close(found: Any, wanted: Any, what: str) -> None:
    if wanted is None:
        assert found is None or not found.to_host().any(), what
        return
    expected = wanted.detach().numpy()
    scale = max(1.0, float(np.abs(expected).max(initial=0.0)))
    np.testing.assert_allclose(found.to_host(), expected, rtol=0, atol=2e-5 * scale, err_msg=what)
