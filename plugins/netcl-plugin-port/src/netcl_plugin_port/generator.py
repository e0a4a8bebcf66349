"""`torch.Generator`: random numbers of one's own, which data sets, loaders and samplers take."""

from __future__ import annotations

from typing import Any

import numpy as np

import netcl_core as nc


class Generator(np.random.Generator):
    """NumPy's generator under PyTorch's name.

    >>> generator = nc.Generator().manual_seed(3)
    >>> parts = nc.utils.data.random_split(range(4), [2, 2], generator=generator)
    >>> generator.initial_seed()
    3
    """

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__(np.random.PCG64())
        self.device = nc.get_device(device)
        self._seed = 0
        self.seed()

    def manual_seed(self, seed: int) -> Generator:
        """Begin anew from a seed."""
        self._seed = int(seed)
        self.bit_generator.state = np.random.PCG64(self._seed % 2**64).state
        return self

    def seed(self) -> int:
        """Begin anew from a seed that nobody knows, and return it."""
        self.manual_seed(int(np.random.SeedSequence().generate_state(1)[0]))
        return self._seed

    def initial_seed(self) -> int:
        """The seed that it began from."""
        return self._seed

    def get_state(self) -> Any:
        """What `set_state` takes."""
        return self.bit_generator.state

    def set_state(self, new_state: Any) -> None:
        """Go on from a state."""
        self.bit_generator.state = new_state
