"""einops knows netcl's tensors, whichever was imported first; its layers are netcl's modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

import netcl_core as nc

einops = pytest.importorskip("einops")
pytest.importorskip("netcl_plugin_tensor")


@pytest.mark.parametrize("first", ["import netcl_core", "import einops"])
def test_whichever_comes_first(first: str) -> None:
    code = f"{first}\nimport einops, netcl_core as nc\nx = nc.zeros(2, 3, 4)\n"
    code += "print(einops.rearrange(x, 'a b c -> c (a b)').shape)"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "(4, 6)"


def test_every_operation(either: nc.Device) -> None:
    x = nc.arange(24.0).reshape(2, 3, 4).requires_grad_()
    array = x.numpy()
    for pattern, sizes in (("a b c -> c (a b)", {}), ("a b (c d) -> (a d) b c", {"d": 2})):
        ours, theirs = (einops.rearrange(each, pattern, **sizes) for each in (x, array))
        assert ours.tolist() == theirs.tolist()
    for how in ("min", "max", "sum", "mean", "prod"):
        ours, theirs = (einops.reduce(each, "a b c -> b", how) for each in (x, array))
        assert ours.numpy() == pytest.approx(theirs, rel=1e-5)
    ours, theirs = (einops.repeat(each, "a b c -> a (r b) c", r=2) for each in (x, array))
    assert ours.tolist() == theirs.tolist()
    assert einops.einsum(x, x, "a b c, a d c -> b d").shape == (3, 3)
    packed, shapes = einops.pack([x, x[:, 0]], "a * c")
    assert packed.shape == (2, 4, 4) and einops.unpack(packed, shapes, "a * c")[1].shape == (2, 4)
    einops.reduce(x, "a b c -> a", "sum").sum().backward()
    assert x.grad.numpy().min() == 1


def test_layers_are_modules() -> None:
    from netcl_plugin_port.einops_layers import EinMix, Rearrange, Reduce

    model = nc.nn.Sequential(
        Rearrange("b c w -> b (c w)"),
        EinMix("b c -> b d", weight_shape="c d", bias_shape="d", c=12, d=5),
        Reduce("b d -> b", "mean"),
    )
    assert model(nc.ones(2, 3, 4)).shape == (2,)
    assert sum(each.numel() for each in model.parameters()) == 65
