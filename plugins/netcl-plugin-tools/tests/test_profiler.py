"""`nc.profile`: what it counts, what it times, and the trace that it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError

everywhere = pytest.mark.parametrize(
    "device", [each for each in nc.devices() if not each.simulator], ids=str
)


@everywhere
def test_a_block_is_the_same_and_seen(device: Any, tmp_path: Path) -> None:
    """Eager calls, gradients and replays; twice; and what runs after the block is not seen."""
    with nc.use_device(device):
        x = nc.rand(64, 64, requires_grad=True)
        graph = ag.capture(lambda x: ag.gelu(x) * 2.0, x.detach())
        ag.sum(ag.gelu(x)).backward()
        expected, x.grad = x.grad.numpy(), None
        seen = nc.profile()
        for _ in range(2):
            with seen:
                ag.sum(ag.gelu(x)).backward()
                y = graph(x.detach()).numpy()
            again, x.grad = x.grad.numpy(), None
            np.testing.assert_array_equal(again, expected)
            np.testing.assert_array_equal(y, graph(x.detach()).numpy())
            counts = {each.name: each.count for each in seen.kernels}
            if not device.has_kernels:
                assert counts["host: sum"] == 1 and counts["host: gelu"] == 3, (
                    counts
                )  # one backward
            else:
                assert counts["gelu_forward"] + counts.get("gelu_mul_forward", 0) == 2, counts
                assert counts["gelu_backward"] == counts["download"] == 1
                assert max(used for _, used in seen.memory) >= 4 * 64 * 64 * 4
            assert sum(each.share for each in seen.kernels) == pytest.approx(1)
            times = [each.seconds for each in seen.kernels]
            assert times == sorted(times, reverse=True) and 0 < sum(times) <= seen.seconds
    seen.save_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ran = [each for each in events if each["ph"] == "X"]
    assert len(ran) == sum(counts.values())
    ends = [each["ts"] + each["dur"] for each in ran]
    assert all(each["ts"] >= 0 and each["dur"] >= 0 for each in ran)
    assert max(ends) <= seen.seconds * 1e6 * 1.05 and ran == sorted(ran, key=lambda x: x["ts"])
    assert f"{max(times) * 1e3:.3f} ms" in str(seen) and str(device) in str(seen)


def test_inside_a_capture_it_is_refused() -> None:
    def step(x: Any) -> Any:
        with nc.profile():
            return x * 2.0

    with pytest.raises(ArgumentError, match="Profile the replays"):
        ag.capture(step, [1.0])


def test_a_block_that_raises_leaves_the_device_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), nc.profile() as seen:
        x = nc.ones(4) + 1.0
        1 / 0  # noqa: B018 - raises
    assert seen.kernels and (x + 1.0).tolist() == [3.0] * 4
