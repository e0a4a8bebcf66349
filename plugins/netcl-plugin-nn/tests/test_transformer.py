"""Transformer layers equal PyTorch's, with PyTorch's weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both import compare, drawn

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import AttributeValueError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor:UserWarning")
D, H, L, S, N = 8, 2, 5, 7, 3
CAUSAL = np.triu(np.full((L, L), -np.inf, np.float32), 1)
PADDED = np.arange(L) >= np.array([[L], [3], [2]])
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "norm first": {"norm_first": True, "activation": "gelu", "batch_first": True},
    "no bias": {"bias": False, "layer_norm_eps": 1e-3},
}


def both(name: str, *args: Any, **attrs: Any) -> tuple[Any, Any]:
    ours, theirs = (getattr(each, name)(*args, **attrs) for each in (nn, torch.nn))
    for value in theirs.parameters():
        value.data = torch.tensor(drawn(*value.shape, 1)[..., 0] * 0.3)
    return ours, theirs


def layout(attrs: dict[str, Any], *sizes: int) -> tuple[int, ...]:
    return sizes if attrs.get("batch_first") else (sizes[1], sizes[0], *sizes[2:])


@pytest.mark.parametrize(
    "masks",
    [{}, {"src_mask": CAUSAL, "is_causal": True}, {"src_key_padding_mask": PADDED}],
    ids=["free", "causal", "padded"],
)
@pytest.mark.parametrize("attrs", SETTINGS.values(), ids=SETTINGS)
def test_encoder_layer(attrs: dict[str, Any], masks: dict[str, Any]) -> None:
    made = both("TransformerEncoderLayer", D, H, 12, 0.0, **attrs)
    compare(*made, [drawn(*layout(attrs, N, L, D))], **masks)


@pytest.mark.parametrize("attrs", SETTINGS.values(), ids=SETTINGS)
def test_decoder_layer(attrs: dict[str, Any]) -> None:
    made = both("TransformerDecoderLayer", D, H, 12, 0.0, **attrs)
    inputs = [drawn(*layout(attrs, N, size, D)) for size in (L, S)]
    padding = np.arange(S) >= np.array([[S], [4], [2]])
    masks = {"tgt_mask": CAUSAL, "tgt_is_causal": True, "memory_key_padding_mask": padding}
    compare(*made, inputs, **masks)


@pytest.mark.parametrize("attrs", SETTINGS.values(), ids=SETTINGS)
def test_whole(attrs: dict[str, Any]) -> None:
    made = both("Transformer", D, H, 2, 1, 12, 0.0, **attrs)
    inputs = [drawn(*layout(attrs, N, size, D)) for size in (S, L)]
    compare(*made, inputs, tgt_mask=CAUSAL)


def test_one_sequence_and_an_activation_of_ones_own() -> None:
    ours = nn.TransformerEncoderLayer(D, H, 12, 0.0, activation=nn.Tanh())
    theirs = torch.nn.TransformerEncoderLayer(D, H, 12, 0.0, activation=torch.nn.Tanh())
    compare(ours, theirs, [drawn(L, D)])


def test_copies_start_alike_and_are_trained_apart() -> None:
    layer = nn.TransformerEncoderLayer(D, H, 12)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(D))
    first, second = (each.linear1.weight for each in stack.layers)
    np.testing.assert_array_equal(first.numpy(), layer.linear1.weight.numpy())
    nn.init.zeros_(first)
    assert second.numpy().any() and layer.linear1.weight.numpy().any()
    stack.train()
    x = nc.tensor(drawn(L, N, D))
    assert (stack(x).numpy() != stack(x).numpy()).any()  # dropout


def test_the_causal_mask_and_bad_input() -> None:
    mask = nn.Transformer.generate_square_subsequent_mask(L)
    np.testing.assert_array_equal(mask.numpy(), CAUSAL)
    with pytest.raises(AttributeValueError, match="'relu', 'gelu' or a function"):
        nn.TransformerEncoderLayer(D, H, activation="sine")
    model = nn.Transformer(D, H, 1, 1, 12)
    with pytest.raises(ShapeError, match="as many sequences in both"):
        model(nc.zeros(S, 2, D), nc.zeros(L, 3, D))
