"""Second names and small compositions: errors, arguments, and what is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
from netcl_core.errors import AttributeValueError, DtypeError, NetclError, ShapeError

pytest.importorskip("netcl_plugin_nn")
torch = pytest.importorskip("torch")
F = nc.nn.functional
ARRAY = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ALIKE = [
    "x.swapaxes(0, 2)", "x.swapdims(-1, 0)", "t.moveaxis(x, (0, 1), (-1, 0))", "x.movedim(2, 0)",
    "x.ravel()", "x.unflatten(2, (2, -1))", "x.unflatten(0, [1, 2])", "t.fliplr(x)", "x.flipud()",
    "t.flip(x, ())", "x.flip([])", "x.flip(dims=())",
    "x.select(1, -1)", "x.select(dim=0, index=1)", "x.narrow(2, 1, 2)", "x.narrow(2, -3, 2)",
    "x.narrow(1, 3, 0)", "t.stack(x.unbind(1))", "t.stack(t.unbind(x, dim=-1))",
    "t.concat([x, x], dim=1)", "t.concatenate((x, x), axis=-1)", "t.hstack([x[0, 0], x[1, 1]])",
    "t.hstack([x, x])", "t.hstack((x[0, 0, 0], x[0, 0, 1]))", "t.vstack([x[0, 0], x[1, 1]])",
    "t.vstack([x[0], x[1]])", "x.tile((2,))", "t.tile(x, (2, 1, 1, 2))", "x.tile((0, 1))",
    "x.repeat(2, 1, 3)", "x.repeat(2, 1, 1, 2)", "x.repeat((1, 2, 1))", "x.count_nonzero()",
    "t.count_nonzero(x, dim=(0, 1))", "x.nansum()", "x.nanmean(1, keepdim=True)",
    "t.nansum(t.where(x > 5, x, float('nan')), 0)", "t.nanmean(t.where(x > 9, x, float('nan')), 0)",
    "x.nansum(dim=1, dtype=t.float64)", "t.nanmean(x, -1, dtype=t.float64)",
    "t.stack(t.meshgrid(x[0, 0], x[0, 1], indexing='xy'))",
    "t.stack(t.meshgrid([x[0, 0], x[1, 1, :2], x[0, 0, 0]], indexing='ij'))",
    "x.repeat_interleave(2)", "t.repeat_interleave(x, 3, dim=-2)",
    "t.repeat_interleave(x, t.tensor([2, 0, 1]), 1)", "t.repeat_interleave(x, t.tensor([2]), 1)",
    "x[0, 0].diag()", "t.diag(x[0, 0], -2)", "x[0].diag(1)", "t.diag(x[0], diagonal=-3)",
    "x[0].trace()", "t.pixel_shuffle(t.cat([x, x]), 2)", "t.pixel_unshuffle(x[:, 1:], 2)",
    "t.t(x[0])", "t.t(x[0, 0])", "t.isclose(x, x + 1e-3, atol=1e-2)",
    "t.isclose(x, x * 1.001, 1e-2)", "t.isclose(x.int(), x.int() + 1)",
]  # fmt: skip


@pytest.mark.parametrize("text", ALIKE)
def test_values(text: str) -> None:
    theirs, ours = (eval(text, {"x": t.tensor(ARRAY), "t": t}).numpy() for t in (torch, nc))
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shapes", [((2, 3), (2, 1)), ((3,), (2, 3)), ((2, 0), (1, 1))])
def test_cosines_are_of_the_broadcast_vectors(shapes: Any, dtype: str) -> None:
    found = []
    for t in (torch, nc):
        draw = np.random.default_rng(0)
        pair = [t.tensor(draw.normal(size=each).astype(dtype)) for each in shapes]
        for each in pair:
            each.requires_grad_()
        cosines = t.nn.functional.cosine_similarity(*pair, dim=1)
        cosines.sum().backward()
        found.append([cosines.detach().numpy(), *(each.grad.numpy() for each in pair)])
    for theirs, ours in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6 if dtype == "float32" else 2e-3)


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("t.t(x)", ShapeError, r"t: shape \(2, 3, 4\); expected at most 2 dimensions"),
        ("t.movedim(x, (0, 1), (0,))", AttributeValueError, "2 dimensions to 1 places"),
        ("t.movedim(x, (0, 0), (1, 2))", AttributeValueError, "each axis once"),
        ("x.narrow(1, 2, 2)", ShapeError, "narrow: 2 to 4; expected at most 3"),
        ("x.narrow(1, 4, 0)", ShapeError, "narrow: start=4"),
        ("x.select(1, 3)", IndexError, "select: index=3; expected -3 to 2"),
        ("x.sum().select(0, 0)", IndexError, "select: "),
        ("x.sum().unbind()", ShapeError, "unbind: a tensor without dimensions"),
        ("x.sum().unflatten(0, (1, 1))", ShapeError, "unflatten: a tensor without dimensions"),
        ("x.sum().flipud()", ShapeError, "flipud: a tensor without dimensions"),
        ("x.unflatten(2, (3, -1))", ShapeError, "unflatten"),
        (
            "t.meshgrid(x, x, indexing='ij')",
            ShapeError,
            r"meshgrid: shape \(2, 3, 4\); expected ve",
        ),
        ("t.meshgrid(x[0, 0], x[0, 0].int(), indexing='ij')", DtypeError, "float32 and int32"),
        ("t.meshgrid(x[0, 0], indexing='yx')", NetclError, "indexing='yx'; expected 'ij' or 'xy'"),
        ("x.repeat_interleave(-1)", AttributeValueError, "repeat_interleave: repeats: -1"),
        ("x.repeat_interleave(t.tensor([1, 2]), 1)", AttributeValueError, r"of shape \(2,\)"),
        ("x.diag()", ShapeError, "diag: shape"),
        ("x.trace()", ShapeError, r"trace: shape \(2, 3, 4\); expected a matrix"),
        ("t.pixel_shuffle(x, 2)", ShapeError, "pixel_shuffle: x of shape"),
        ("t.pixel_unshuffle(x, 0)", AttributeValueError, "pixel_unshuffle: downscale_factor=0"),
        ("x.tile((-1,))", AttributeValueError, "tile: dims="),
        ("x.repeat(2)", AttributeValueError, r"1 numbers for shape \(2, 3, 4\)"),
        ("t.hstack([])", NetclError, "at least one"),
        ("t.nn.functional.rrelu(x, 0.5, 0.25)", AttributeValueError, "rrelu: lower=0.5"),
        ("t.isclose(x, x, rtol=-1.0)", AttributeValueError, "isclose: rtol=-1.0"),
        ("t.isclose(x, x.double())", DtypeError, "float32 and float64"),
    ],
)
def test_errors(text: str, error: type[Exception], match: str) -> None:
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        eval(text, {"x": torch.tensor(ARRAY), "t": torch})
    with pytest.raises(error, match=match):
        eval(text, {"x": nc.tensor(ARRAY), "t": nc})


def test_pixels_of_no_pictures() -> None:
    """PyTorch's own gradient of these fails."""
    x = nc.zeros((0, 4, 2, 4), requires_grad=True)
    for y, shape in (
        (nc.pixel_shuffle(x, 2), (0, 1, 4, 8)),
        (nc.pixel_unshuffle(x, 2), (0, 16, 1, 2)),
    ):
        assert y.shape == shape
        assert nc.autograd.grad(y.sum(), [x])[0].shape == x.shape


def test_answers_are_pythons() -> None:
    x = nc.tensor(ARRAY)
    assert nc.allclose(x, x * (1 + 1e-6)) is True and x.allclose(x + 1) is False
    assert nc.equal(x, x) is True and x.equal(x + 1) is False and nc.equal(x, x[0]) is False
    nan = nc.tensor([float("nan")])
    assert not nc.allclose(nan, nan) and nc.allclose(nan, nan, equal_nan=True)


def test_slopes_are_drawn_within_their_bounds() -> None:
    x = nc.full((4096,), -2.0, requires_grad=True)
    y: Any = F.rrelu(x, 0.25, 0.75, training=True)
    y.sum().backward()
    slopes = y.numpy() / -2
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), slopes, rtol=1e-6)
    assert 0.25 <= slopes.min() < 0.26 and 0.74 < slopes.max() <= 0.75
    assert abs(slopes.mean() - 0.5) < 0.02
    assert np.unique(F.rrelu(x, 0.25, 0.75).detach().numpy()).tolist() == [-1.0]
