"""nn.MultiheadAttention beside PyTorch's, with its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError

torch = pytest.importorskip("torch")
L, S, N, E, H = 5, 7, 3, 12, 4
#: Settings of the module, with PyTorch's meaning.
MODULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
    "other sizes": {"kdim": 6, "vdim": 10},
    "more keys": {"add_bias_kv": True, "add_zero_attn": True},
}


@pytest.fixture(params=list(dict.fromkeys([nc.get_device("numpy"), nc.devices()[0]])), ids=str)
def either(request: pytest.FixtureRequest) -> Iterator[nc.Device]:
    with nc.use_device(request.param) as device:
        yield device


def drawn(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def both(**attrs: Any) -> tuple[Any, Any]:
    """Our module and PyTorch's, which has the same parameters by the same names."""
    ours, theirs = nn.MultiheadAttention(E, H, **attrs), torch.nn.MultiheadAttention(E, H, **attrs)
    for value in theirs.parameters():
        value.data = torch.tensor(drawn(*value.shape, 1)[..., 0] * 0.3)
    ours.load_state_dict({name: x.detach().numpy() for name, x in theirs.state_dict().items()})
    return ours, theirs


def compare(ours: Any, theirs: Any, inputs: list[Any], **attrs: Any) -> None:
    """Results, weights, and the gradients of inputs and parameters."""
    leaves = [nc.tensor(x, requires_grad=True) for x in inputs]
    tensors = [torch.tensor(x, requires_grad=True) for x in inputs]
    given = {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in attrs.items()}
    out, weights = ours(*leaves, **attrs)
    expected, wanted = theirs(*tensors, **given)
    np.testing.assert_allclose(out.numpy(), expected.detach().numpy(), atol=2e-5)
    if wanted is None:
        assert weights is None
    else:
        np.testing.assert_allclose(weights.numpy(), wanted.detach().numpy(), atol=2e-6)
    ag.sum(out * out).backward()
    (expected * expected).sum().backward()
    for one, other in zip(leaves, tensors, strict=True):
        np.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), atol=2e-4)
    for name, other in theirs.named_parameters():
        mine = dict(ours.named_parameters())[name].grad
        np.testing.assert_allclose(mine.numpy(), other.grad.numpy(), atol=5e-4, err_msg=name)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("attrs", MODULES.values(), ids=MODULES)
def test_settings(either: nc.Device, attrs: dict[str, Any], need_weights: bool) -> None:
    ours, theirs = both(**attrs)
    sizes = (L, E), (S, attrs.get("kdim", E)), (S, attrs.get("vdim", E))
    first = attrs.get("batch_first", False)
    inputs = [drawn(N, *size) if first else drawn(size[0], N, size[1]) for size in sizes]
    compare(ours, theirs, inputs, need_weights=need_weights)


MASKS: dict[str, dict[str, Any]] = {
    "padding": {"key_padding_mask": np.arange(S) >= np.array([[S], [4], [2]])},
    "bool": {"attn_mask": np.triu(np.ones((L, S), np.bool_), 2)},
    "added": {"attn_mask": drawn(L, S)},
    "by head": {"attn_mask": drawn(N * H, L, S)},
    "two": {
        "attn_mask": np.triu(np.ones((L, S), np.bool_), 2),
        "key_padding_mask": np.arange(S) >= np.array([[S], [4], [3]]),
    },
    "two added": {"attn_mask": drawn(L, S), "key_padding_mask": drawn(N, S)},
}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masks", MASKS.values(), ids=MASKS)
def test_masks(either: nc.Device, masks: dict[str, Any], need_weights: bool) -> None:
    ours, theirs = both()
    inputs = [drawn(L, N, E), drawn(S, N, E), drawn(S, N, E)]
    compare(ours, theirs, inputs, **masks, need_weights=need_weights, average_attn_weights=False)


def test_one_sequence_attends_to_itself(either: nc.Device) -> None:
    ours, theirs = both()
    x = drawn(L, E)
    tensor = nc.tensor(x)
    expected, weights = theirs(*[torch.tensor(x)] * 3)
    found = ours(tensor, tensor, tensor)
    np.testing.assert_allclose(found[0].numpy(), expected.detach().numpy(), atol=2e-5)
    np.testing.assert_allclose(found[1].numpy(), weights.detach().numpy(), atol=2e-6)


def test_causal(either: nc.Device) -> None:
    ours, theirs = both()
    mask = np.triu(np.ones((L, L), np.bool_), 1)
    inputs = [drawn(L, N, E)] * 3
    for need_weights in (True, False):
        compare(ours, theirs, inputs, attn_mask=mask, is_causal=True, need_weights=need_weights)
        theirs.zero_grad()
        ours.zero_grad()


def test_dropout_is_for_training(either: nc.Device) -> None:
    module = nn.MultiheadAttention(E, H, dropout=0.5)
    x = nc.tensor(drawn(L, N, E))
    for need_weights in (True, False):
        one, other = (module(x, x, x, need_weights=need_weights)[0].numpy() for _ in range(2))
        assert (one != other).any()
    module.eval()
    one, other = (module(x, x, x, need_weights=False)[0].numpy() for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_bad_input_is_named() -> None:
    with pytest.raises(AttributeValueError, match=r"embed_dim=10 in 4 heads"):
        nn.MultiheadAttention(10, 4)
    module, x = nn.MultiheadAttention(E, H), nc.Tensor.zeros((L, N, E))
    with pytest.raises(ShapeError, match="MultiheadAttention: 3, 2 and 3 dimensions"):
        module(x, nc.Tensor.zeros((L, E)), x)
    with pytest.raises(ArgumentError, match="is_causal without attn_mask"):
        module(x, x, x, is_causal=True)
