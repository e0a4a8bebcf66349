"""What is timed of a compiled function is what training by it launches."""

from __future__ import annotations

import pytest
from netcl_plugin_kit.testing import recorded, usable_devices
from netcl_plugin_tools.graph.times import step_times

import netcl_core as nc
import netcl_core.autograd as ag

DEVICE = next((each for each in usable_devices() if each.backend == "opencl"), None)


@pytest.mark.skipif(DEVICE is None, reason="no OpenCL device")
def test_gradients_are_timed_of_the_results_that_are_read() -> None:
    """Batch norm gives its statistics, too, of which training asks no gradient."""
    assert DEVICE is not None
    with nc.use_device(DEVICE):
        norm = nc.nn.BatchNorm2d(3)
        x = nc.Tensor.ones((2, 3, 4, 4), requires_grad=True)
        compiled = ag.jit_compile(lambda x: norm(x))
        with recorded(DEVICE) as trained:
            ag.grad([compiled(x)], [x], [ag.ones_like(x)])
        with recorded(DEVICE) as timed:
            (found,) = [each for each in step_times(compiled, x) if each.ops == "norm_runs"]
    assert "norm_runs_backward" in timed.launched
    assert set(timed.launched) <= set(trained.launched)
    assert found.gradients > 0
