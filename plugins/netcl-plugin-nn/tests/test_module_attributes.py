"""Attributes of a Module: what takes a registered name, and what a missing one says."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from netcl_core import nn


class Block(nn.Module):
    def __init__(self) -> None:
        self.scale = nn.Parameter(np.full(3, 2, np.float32))
        self.note = "plain"

    def forward(self, x: Any) -> Any:
        return self.scale * x


class Wrapper(nn.Module):
    """Asks the module that it wraps for the names it lacks, as programs for PyTorch do."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)


def test_a_missing_name_may_be_answered_by_a_subclass() -> None:
    for wrapper in (Wrapper(Block()), copy.deepcopy(Wrapper(Block()))):
        assert wrapper.note == "plain" and wrapper.scale is wrapper.module.scale
        assert wrapper.forward is not wrapper.module.forward
        with pytest.raises(AttributeError, match="'Block' object has no attribute 'wieght'"):
            _ = wrapper.wieght
    assert pickle.loads(pickle.dumps(Wrapper(nn.Linear(1, 1)))).in_features == 1
    assert nn.Linear(2, 2).__getattr__("weight").shape == (2, 2)
    assert getattr(Block(), "nothing", 3) == 3


def test_a_property_that_fails_tells_its_own_reason() -> None:
    class Model(nn.Module):
        @property
        def size(self) -> int:
            return int(self.absent)

    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = Model().size


def test_attributes_before_the_constructor_of_the_base() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(np.ones(2, np.float32))
            self.inner = nn.Linear(2, 2)
            super().__init__()

    assert len(Early().state_dict()) == 3
