"""The examples of docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import netcl_plugin_nn
import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn

#: They start processes.
pytestmark = pytest.mark.turns(2)

MODULES = [each.name for each in pkgutil.iter_modules(netcl_plugin_nn.__path__)]
NAMES = {"nn": nn, "nc": nc, "ag": ag, "np": np}


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = import_module(f"netcl_plugin_nn.{name}")
    assert doctest.testmod(module, extraglobs=NAMES, optionflags=doctest.ELLIPSIS).failed == 0
