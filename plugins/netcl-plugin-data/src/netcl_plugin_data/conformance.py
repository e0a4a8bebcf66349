"""The scenarios of data sets: what a loader brings to the device is what the host has."""

from __future__ import annotations

from typing import Final

import numpy as np
from netcl_plugin_kit.testing import Scenario

from netcl_core import Device
from netcl_plugin_data import api

COUNT: Final = 103


def _dataset() -> api.TensorDataset:
    """Samples whose values name them: features of three dtypes, and a label."""
    rows = np.arange(COUNT)
    features = (rows[:, None] * 10 + np.arange(7)).astype("float32")
    return api.TensorDataset(features, features[:, 0].astype("float16"), rows.astype("int32"))


def in_order(device: Device) -> None:
    """Batches in the order of the data set, the last one smaller."""
    data = _dataset()
    batches = list(api.DataLoader(data, 20))
    assert [batch[0].shape[0] for batch in batches] == [20, 20, 20, 20, 20, 3]
    for column, array in enumerate(data.arrays):
        assert all(batch[column].device is device for batch in batches)
        column_values = np.concatenate([batch[column].to_host() for batch in batches])
        assert column_values.dtype == array.dtype
        np.testing.assert_array_equal(column_values, array)


def shuffled(device: Device) -> None:
    """Each sample once per pass, whole, in an order that a seed repeats, by workers as without."""
    first, second = (
        [
            [tensor.to_host() for tensor in batch]
            for batch in api.DataLoader(_dataset(), 16, shuffle=True, seed=3, num_workers=count)
        ]
        for count in (0, 2)
    )
    labels = np.concatenate([batch[2] for batch in first])
    assert sorted(labels) == list(range(COUNT))
    assert not np.array_equal(labels, np.arange(COUNT))
    for features, _, own in first:
        np.testing.assert_array_equal(features[:, 0], own * 10.0)
    for one, other in zip(first, second, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)


SCENARIOS: Final = [
    Scenario("data", "in-order", in_order),
    Scenario("data", "shuffled", shuffled),
]
