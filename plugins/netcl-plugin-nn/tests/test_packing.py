"""nn.utils.rnn, and recurrent layers over packed sequences, equal PyTorch's in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both import DEVICES, drawn, flat
from hypothesis import given, settings
from hypothesis import strategies as st

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import AttributeValueError, ShapeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections:UserWarning")
rnn, theirs_rnn = nn.utils.rnn, torch.nn.utils.rnn


def both(*shape: int, seed: int = 0) -> tuple[Any, Any]:
    """The same leaf for PyTorch and for netcl."""
    data = drawn(*shape, seed=seed).astype(np.float64)
    return torch.tensor(data, requires_grad=True), nc.tensor(data, requires_grad=True)


def same(found: Any, wanted: Any) -> None:
    assert found.shape == tuple(wanted.shape)
    np.testing.assert_allclose(found.to_host(), wanted.detach().numpy(), rtol=1e-9, atol=1e-9)


@settings(max_examples=8, deadline=None)
@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from(["left", "right"]),
    st.sampled_from(DEVICES),
)
def test_ways_there_and_back(lengths: list[int], first: bool, side: str, device: Any) -> None:
    with nc.use_device(device):
        pairs = [both(length, 2, seed=i) for i, length in enumerate(lengths)]
        theirs, ours = zip(*pairs, strict=True)
        wanted = theirs_rnn.pad_sequence(list(theirs), first, -1.5, side)
        same(rnn.pad_sequence(list(ours), first, -1.5, side), wanted)
        wanted = theirs_rnn.pack_sequence(list(theirs), enforce_sorted=False)
        found = rnn.pack_sequence(list(ours), enforce_sorted=False)
        for each, one in zip(found, wanted, strict=True):
            if len(set(lengths)) == len(lengths):  # PyTorch's sort is not stable
                same(each, one)
        longest = max(lengths) + 1
        again, sizes = rnn.pad_packed_sequence(found, first, 2.5, longest)
        expected, counts = theirs_rnn.pad_packed_sequence(wanted, first, 2.5, longest)
        same(again, expected)
        assert sizes.tolist() == counts.tolist() == lengths
        (again * again).sum().backward()
        (expected * expected).sum().backward()
        for x, y in pairs:
            same(y.grad, x.grad)
        for x, y in zip(rnn.unpack_sequence(found), theirs, strict=True):
            same(x, y)


LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {"bidirectional": True}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("LSTM", {"proj_size": 2}),
    ("GRU", {"batch_first": True}),
]


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize(("name", "attrs"), LAYERS, ids=str)
@pytest.mark.parametrize("begun", [False, True], ids=["zeros", "states"])
def test_layers(name: str, attrs: dict[str, Any], begun: bool, device: Any) -> None:
    lengths, first = [2, 5, 1, 3], attrs.get("batch_first", False)
    with nc.use_device(device):
        theirs = getattr(torch.nn, name)(3, 4, **attrs).double()
        ours = getattr(nn, name)(3, 4, **attrs).double()
        ours.load_state_dict(theirs.state_dict())
        x, y = both(*((4, 5, 3) if first else (5, 4, 3)))
        count = attrs.get("num_layers", 1) * (1 + attrs.get("bidirectional", False))
        sizes = [attrs.get("proj_size", 4), 4][: 1 + (name == "LSTM")]
        states = [both(count, 4, size, seed=i) for i, size in enumerate(sizes)]
        more: list[Any] = [None, None]
        if begun:
            more = [each if name == "LSTM" else each[0] for each in zip(*states, strict=True)]
        wanted = theirs(theirs_rnn.pack_padded_sequence(x, lengths, first, False), more[0])
        found = ours(rnn.pack_padded_sequence(y, nc.tensor(lengths), first, False), more[1])
        padded, other = (
            each.pad_packed_sequence(one[0], first)[0]
            for each, one in ((rnn, found), (theirs_rnn, wanted))
        )
        pairs = [(padded, other), *zip(flat(found[1]), flat(wanted[1]), strict=True)]
        for one, two in pairs:
            same(one, two)
        sum((one * one).sum() for one, _ in pairs).backward()
        sum((two * two).sum() for _, two in pairs).backward()
        same(y.grad, x.grad)
        for parameter, weight in zip(ours.parameters(), theirs.parameters(), strict=True):
            same(parameter.grad, weight.grad)
        for state, own in states if begun else []:
            same(own.grad, state.grad)


def test_errors() -> None:
    x = nc.zeros(3, 2, 1)
    with pytest.raises(AttributeValueError, match=r"rise: .1, 3..*enforce_sorted=False"):
        rnn.pack_padded_sequence(x, [1, 3])
    with pytest.raises(AttributeValueError, match="lengths of 1 to 3"):
        rnn.pack_padded_sequence(x, [4, 0])
    with pytest.raises(ShapeError, match="3 lengths for 2 sequences"):
        rnn.pack_padded_sequence(x, [3, 2, 1])
    with pytest.raises(AttributeValueError, match="no sequences"):
        rnn.pad_sequence([])
    with pytest.raises(AttributeValueError, match="total_length=2; expected 3 or more"):
        rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [3, 1]), total_length=2)
