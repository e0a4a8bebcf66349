"""The scenario of the models: each gives on a device what it gives on NumPy."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from netcl_plugin_kit.testing import Scenario

from netcl_core import Device, manual_seed, tensor, use_device
from netcl_plugin_train import models

_IDS: Final = np.array([[1, 2, 3], [4, 0, 2]])
_PICTURES: Final = np.random.default_rng(0).random((2, 3, 32, 32), np.float32)
#: Small models, and what they are given.
SMALL: Final[dict[str, tuple[dict[str, Any], Any]]] = {
    "GPT2": ({"vocabulary": 7, "context": 5, "width": 8, "layers": 2, "heads": 2}, _IDS),
    "BERT": ({"vocabulary": 7, "context": 5, "width": 8, "layers": 2, "heads": 2}, _IDS),
    "ViT": (
        {"size": 32, "patch": 16, "width": 8, "layers": 2, "heads": 2, "classes": 3},
        _PICTURES,
    ),
    "ResNet": ({"blocks": (1, 1), "width": 4, "classes": 3}, _PICTURES),
}


def small(name: str) -> tuple[Any, Any]:
    """A model with drawn weights, in evaluation mode, and an input."""
    settings, given = SMALL[name]
    manual_seed(3)
    return getattr(models, name)(**settings).eval(), tensor(given)


def alike(device: Device) -> None:
    """The outputs of all models."""
    for name in SMALL:
        outputs = []
        for place in (device, "numpy"):
            with use_device(place):
                model, given = small(name)
                output = model(given)
                outputs.append((output[0] if name == "BERT" else output).numpy())
        np.testing.assert_allclose(outputs[0], outputs[1], rtol=0, atol=2e-5, err_msg=name)


SCENARIOS: Final = [Scenario("models", "alike", alike)]
