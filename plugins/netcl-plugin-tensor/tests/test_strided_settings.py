"""Strided copies by all settings of each form: any view of any shape, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from daily import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from netcl_plugin_kit.testing.forcing import forced
from netcl_plugin_tensor import strided_cpu, strided_gpu
from netcl_plugin_tensor.views import Geometry, whole

import netcl_core as nc
import netcl_core.autograd as ag

OPENCL = [each for each in nc.devices() if each.backend == "opencl" and not each.simulator]
NOTHING = (Geometry((1,), (1,), 0), whole((1,)))
FORMS: Any = {"cpu": (strided_cpu, ""), "gpu": (strided_gpu, " by neighbours")}

shapes = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)
steps = st.sampled_from([-3, -1, 1, 2])
MANY = settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("device", OPENCL, ids=str)
@given(shape=shapes, random=st.randoms(), data=st.data())
@MANY
def test_any_view(
    device: nc.Device,
    kind: str,
    shape: Any,
    random: Any,
    data: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form, where = FORMS[kind]
    choices = form.space(lambda request: NOTHING).choices
    chosen = {name: data.draw(st.sampled_from(values)) for name, values in choices.items()}
    dtype = data.draw(st.sampled_from(["bool", "float16", "float32", "int64"]))
    x = np.random.default_rng(5).integers(0, 9, shape).astype(dtype)
    dims = random.sample(range(x.ndim), x.ndim)

    def way(op: str, label: str) -> Any:
        return forced(f"netcl-plugin-tensor:{op}:strided {label}{where}", chosen)

    with monkeypatch.context() as patch, nc.use_device(device):
        patch.setattr(device, "kind", kind)
        np.testing.assert_array_equal(ag.permute(x, dims).numpy(), x.transpose(dims))
        with way("flip", "copy"):
            np.testing.assert_array_equal(ag.flip(x, dims[:2]).numpy(), np.flip(x, dims[:2]))


CPUS = [each for each in OPENCL if each.kind == "cpu"]


@pytest.mark.parametrize("device", CPUS[:1], ids=str)
def test_tiles_are_the_default_where_rows_lie_across(device: nc.Device) -> None:
    def tile(*shape: int, dims: tuple[int, ...]) -> int:
        view = nc.zeros(shape, device=device).permute(dims)
        places = view.geometry or whole(view.shape)
        return int(strided_cpu.settings(device, places, whole(view.shape))["tile"])

    assert tile(100, 50, dims=(1, 0)) == tile(2, 3, 40, 50, dims=(0, 1, 3, 2)) == 8
    assert tile(100, 50, dims=(0, 1)) == 1
    assert tile(3, 2, dims=(1, 0)) == 1  # too few rows
    assert tile(8, 16, 4, 32, dims=(0, 2, 1, 3)) == 1  # whole rows move


@pytest.mark.parametrize("form", [strided_cpu, strided_gpu], ids=FORMS)
def test_classes_tell_views_apart(form: Any) -> None:
    space = form.space(lambda request: (Geometry((5, 3), (-1, 20), 0), whole((5, 3))))
    spec = nc.Spec((3, 5), "int64")
    request = ag.Request("any", nc.get_device("numpy"), (spec,), (spec,), {})
    assert space.shape_class is not None
    assert space.shape_class(request) == "ulong[8x4] by -1,32"
