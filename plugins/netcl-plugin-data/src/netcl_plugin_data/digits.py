"""scikit-learn's digits: 1,797 grey images of 8 x 8 pixels, which need no download."""

from __future__ import annotations

import numpy as np

from netcl_core.errors import AttributeValueError, message
from netcl_plugin_data.datasets import TensorDataset


def digits(test_fraction: float = 0.2, seed: int = 0) -> tuple[TensorDataset, TensorDataset]:
    """The digits as (train, test), split so that both have the classes in equal shares.

    Each sample is an image, float32 (64,) in [0, 1], and its class, int64. (Source: the
    test set of Alpaydin, Kaynak 1998, UCI repository.)

    >>> train, test = data.digits()
    >>> train
    TensorDataset(1437 samples of float32(64,), int64())

    Raises AttributeValueError unless 0 < test_fraction < 1.

    Args:
        seed: The seed of the pictures.
    """
    if not 0 < test_fraction < 1:
        given = f"test_fraction={test_fraction!r}"
        raise AttributeValueError(message("digits", given, "a number between 0 and 1"))
    from sklearn.datasets import load_digits  # takes a second, and only this data set needs it
    from sklearn.model_selection import train_test_split

    pixels, classes = load_digits(return_X_y=True)
    images = (pixels / 16).astype(np.float32)
    labels = classes.astype(np.int64)
    parts = train_test_split(
        images, labels, test_size=test_fraction, random_state=seed, stratify=labels
    )
    return TensorDataset(parts[0], parts[2]), TensorDataset(parts[1], parts[3])
