"""The kernels that GPUs get, run by the CPU runtimes at hand; no other test has these shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from netcl_plugin_kit.testing import Case, check_values, normal, uniform, usable_devices

import netcl_core.autograd as ag

CLASSES = 23


def some_ignored(random: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Class indices, every third of them ignored."""
    found = np.asarray(random.integers(0, CLASSES, shape))
    found.reshape(-1)[::3] = -100
    return found


def weighted(t: Any, x: Any, target: Any, weight: Any) -> Any:
    """PyTorch's cross_entropy with weights and smoothing."""
    return t.nn.functional.cross_entropy(x, target, weight, label_smoothing=0.2)


CASES = [
    Case("cross_entropy", (normal(), some_ignored), "nn.functional.cross_entropy"),
    Case("cross_entropy", (normal(), some_ignored, uniform(0.5, 2)), weighted, note="weighted",
         call=lambda x, y, w: ag.cross_entropy(x, y, w, label_smoothing=0.2), gradients=(0,)),
    Case("nll_loss", (normal(), some_ignored, uniform(0.5, 2)), "nn.functional.nll_loss",
         gradients=(0,)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("shape", [(3, CLASSES), (3, CLASSES, 5)], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_form_for_gpus(
    case: Case, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = [shape, (shape[0], *shape[2:]), (CLASSES,)][: len(case.inputs)]
    for device in usable_devices():
        if device.backend == "opencl":
            monkeypatch.setattr(device, "kind", "gpu")
            check_values(case, shapes, device, dtype)
