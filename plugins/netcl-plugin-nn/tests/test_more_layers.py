"""Layers equal PyTorch's: padding, bags of embeddings, shapes, activations, distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both import compare, drawn

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.errors import ArgumentError, AttributeValueError, ShapeError

torch = pytest.importorskip("torch")
INDICES = np.array([1, 0, 4, 4, 2, 3, 0])
OFFSETS = np.array([0, 2, 2, 5])

#: (layer, its arguments, the inputs' shapes)
LAYERS: list[tuple[str, tuple[Any, ...], tuple[tuple[int, ...], ...]]] = [
    ("ConstantPad1d", ((1, 2), 3.0), ((2, 3, 4),)),
    ("ConstantPad2d", ((1, -1, 2, 0), 0.5), ((2, 3, 4, 5),)),
    ("ConstantPad3d", (1, -1.0), ((2, 3, 4, 5),)),
    ("ZeroPad1d", (2,), ((3, 4),)),
    ("ZeroPad2d", ((1, 2, 3, 4),), ((2, 3, 4, 5),)),
    ("ZeroPad3d", (1,), ((1, 2, 2, 3, 2),)),
    ("ReflectionPad1d", ((3, 1),), ((2, 3, 4),)),
    ("ReflectionPad2d", (2,), ((2, 3, 4, 5),)),
    ("ReflectionPad3d", (1,), ((1, 2, 2, 3, 2),)),
    ("ReplicationPad1d", ((5, 1),), ((3, 4),)),
    ("ReplicationPad2d", ((1, 0, 2, 3),), ((2, 3, 4, 5),)),
    ("ReplicationPad3d", (2,), ((1, 2, 2, 3, 2),)),
    ("CircularPad1d", ((4, 1),), ((2, 3, 4),)),
    ("CircularPad2d", (2,), ((2, 3, 4, 5),)),
    ("CircularPad3d", (1,), ((1, 2, 2, 3, 2),)),
    ("Unflatten", (1, (2, -1)), ((3, 8, 2),)),
    ("Flatten", (0, 1), ((3, 8, 2),)),
    ("Bilinear", (4, 5, 3), ((2, 7, 4), (2, 7, 5))),
    ("Bilinear", (4, 5, 3, False), ((7, 4), (7, 5))),
    ("PReLU", (), ((5, 6),)),
    ("CELU", (1.5,), ((5, 6),)),
    ("Threshold", (0.1, 20.0), ((5, 6),)),
    ("Hardshrink", (), ((5, 6),)),
    ("Softshrink", (0.25,), ((5, 6),)),
    ("Tanhshrink", (), ((5, 6),)),
    ("RReLU", (0.25, 0.25), ((5, 6),)),
    ("BatchNorm1d", (6,), ((5, 6),)),
    ("Softmin", (0,), ((5, 6),)),
    ("Softmax2d", (), ((2, 3, 4, 5),)),
    ("ReLU6", (), ((5, 6),)),
    ("SELU", (), ((5, 6),)),
    ("LogSigmoid", (), ((5, 6),)),
    ("Softsign", (), ((5, 6),)),
    ("GLU", (1,), ((5, 6),)),
    ("CosineSimilarity", (), ((5, 6), (5, 6))),
    ("TripletMarginLoss", (0.5, 1.0), ((5, 6), (5, 6), (5, 6))),
    ("HingeEmbeddingLoss", (0.5,), ((5, 6), (5, 6))),
    ("CosineEmbeddingLoss", (0.2,), ((5, 6), (5, 6), (5,))),
    ("PoissonNLLLoss", (True, False), ((5, 6), (5, 6))),
    ("PairwiseDistance", (1.0, 1e-6, True), ((5, 6), (5, 6))),
    ("LPPool3d", (2, 2, 1), ((2, 3, 4, 3, 2),)),
    ("LocalResponseNorm", (2, 0.5), ((2, 5, 3, 2),)),
    ("ChannelShuffle", (3,), ((2, 6, 3, 2),)),
    ("Unfold", ((2, 3), 1, 1, 2), ((2, 3, 4, 5),)),
    ("Fold", ((4, 5), (2, 3), 1, 1, 2), ((2, 18, 9),)),
    ("MultiLabelSoftMarginLoss", (), ((5, 6), (5, 6))),
    ("InstanceNorm1d", (6, 1e-5, 0.1, True), ((6, 5),)),
    ("InstanceNorm3d", (3, 1e-5, 0.1, True), ((3, 2, 2, 3),)),
    ("BatchNorm2d", (3,), ((0, 3, 2, 2),)),
]


@pytest.mark.parametrize(("name", "args", "shapes"), LAYERS, ids=lambda x: str(x).replace(" ", ""))
def test_layers(name: str, args: tuple[Any, ...], shapes: tuple[tuple[int, ...], ...]) -> None:
    ours, theirs = (getattr(each, name)(*args) for each in (nn, torch.nn))
    compare(ours, theirs, [drawn(*shape, seed=i) for i, shape in enumerate(shapes)])


def test_losses_of_signs() -> None:
    signs = np.where(drawn(7) > 0, 1, -1)
    compare(nn.SoftMarginLoss(), torch.nn.SoftMarginLoss(), [drawn(7), signs])
    ours, theirs = (each.MarginRankingLoss(0.3, reduction="sum") for each in (nn, torch.nn))
    compare(ours, theirs, [drawn(7), drawn(7, seed=1), signs])


@pytest.mark.filterwarnings("ignore:Implicit dimension choice:UserWarning")
@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax", "Softmin"])
def test_the_implicit_axis_of_a_softmax(name: str) -> None:
    for shape in ((4,), (3, 4), (2, 3, 4), (2, 3, 2, 2)):
        compare(getattr(nn, name)(), getattr(torch.nn, name)(), [drawn(*shape)])
        op = {"LogSoftmax": "log_softmax"}.get(name, name.lower())
        x = drawn(*shape)
        found, right = (getattr(each.nn.functional, op)(each.tensor(x)) for each in (nc, torch))
        np.testing.assert_allclose(found.numpy(), right.numpy(), 1e-5)


@pytest.mark.parametrize("padding", [None, 4])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode: str, padding: int | None) -> None:
    made = [each.EmbeddingBag(5, 3, mode=mode, padding_idx=padding) for each in (nn, torch.nn)]
    compare(*made, [INDICES, OFFSETS])
    made[1].zero_grad()
    compare(*made, [INDICES[:6].reshape(3, 2)])
    made[1].zero_grad()
    if mode == "sum":
        compare(*made, [INDICES, OFFSETS, drawn(7)])
        made[1].zero_grad()
    last = [each.EmbeddingBag(5, 3, mode=mode, include_last_offset=True) for each in (nn, torch.nn)]
    compare(*last, [INDICES, np.append(OFFSETS, 7)])


def test_bags_of_nothing_and_bad_ones() -> None:
    bag = nn.EmbeddingBag(5, 3)
    none, begins = nc.tensor(np.zeros(0, np.int64)), nc.tensor(np.zeros(2, np.int64))
    assert bag(none, begins).tolist() == [[0.0] * 3] * 2
    with pytest.raises(AttributeValueError, match=r"offsets \[1\] for 7 indices; expected 0 first"):
        bag(INDICES, np.array([1]))
    with pytest.raises(ShapeError, match="without offsets"):
        bag(INDICES)
    with pytest.raises(ArgumentError, match="mode='sum', and the shape"):
        bag(INDICES, OFFSETS, drawn(7))
    with pytest.raises(AttributeValueError, match="'sum', 'mean' or 'max'"):
        nn.EmbeddingBag(5, 3, mode="median")


def test_rows_that_are_shortened() -> None:
    for settings in ({"max_norm": 1.0}, {"max_norm": 0.5, "norm_type": 1.0}):
        bags = [each.EmbeddingBag(5, 3, **settings) for each in (nn, torch.nn)]
        compare(*bags, [INDICES, OFFSETS])
        rows = [
            each.Embedding(5, 3, scale_grad_by_freq=True, **settings) for each in (nn, torch.nn)
        ]
        compare(*rows, [INDICES])


def test_very_many_classes() -> None:
    made = [each.AdaptiveLogSoftmaxWithLoss(6, 20, [4, 10], 2.0) for each in (nn, torch.nn)]
    compare(*made, [drawn(5, 6), np.array([0, 19, 4, 9, 10])])
    ours, theirs = made
    x = drawn(4, 6)
    assert ours.to("numpy").predict(x).tolist() == theirs.predict(torch.tensor(x)).tolist()


def test_embeddings_from_a_table() -> None:
    table = nc.tensor(drawn(5, 3))
    frozen = nn.Embedding.from_pretrained(table)
    assert frozen.weight.buffer is table.buffer and not frozen.weight.requires_grad
    assert list(frozen.state_dict()) == ["weight"]
    trained = nn.Embedding.from_pretrained(drawn(5, 3), freeze=False, padding_idx=-1)
    theirs = torch.nn.Embedding.from_pretrained(
        torch.tensor(drawn(5, 3)), freeze=False, padding_idx=-1
    )
    assert not table.requires_grad
    compare(trained, theirs, [INDICES.reshape(7, 1)])
    with pytest.raises(ShapeError, match="two dimensions"):
        nn.Embedding.from_pretrained(drawn(5))


@pytest.mark.parametrize(
    ("name", "shape", "lead"),
    [("Dropout1d", (40, 6), 1), ("Dropout1d", (20, 6, 3), 2), ("Dropout2d", (20, 6, 3), 2),
     ("Dropout2d", (20, 6, 2, 3), 2), ("Dropout3d", (40, 2, 2, 3), 1),
     ("Dropout3d", (20, 6, 2, 2, 2), 2)],
)  # fmt: skip
def test_whole_channels_are_dropped(name: str, shape: tuple[int, ...], lead: int) -> None:
    layer, x = getattr(nn, name)(0.25), nc.tensor(np.ones(shape, np.float32), requires_grad=True)
    nc.manual_seed(1)
    found = layer(x)
    ag.sum(found).backward()
    channels = found.numpy().reshape(*shape[:lead], -1)
    assert set(np.unique(channels).round(4)) == {0.0, np.float32(1.3333)}
    assert (channels == channels[..., :1]).all()
    np.testing.assert_array_equal(x.grad.numpy(), found.numpy())
    assert layer.eval()(x) is x
    with pytest.raises(ShapeError, match=f"{name.lower()}: x of shape"):
        layer(nc.zeros(2))


def test_padding_that_does_not_fit_is_named() -> None:
    with pytest.raises(AttributeValueError, match="one number, or 4"):
        nn.ZeroPad2d((1, 2))
    with pytest.raises(ShapeError, match="an axis of 3; expected an axis that is longer"):
        nn.ReflectionPad1d(3)(nc.zeros(1, 1, 3))
    with pytest.raises(ShapeError, match="3 or 4 dimensions"):
        nn.ReplicationPad2d(1)(nc.zeros(2, 3))
    with pytest.raises(AttributeValueError, match="one of its dimensions"):
        nn.Unflatten(3, (1, 2))(nc.zeros(2, 2))
