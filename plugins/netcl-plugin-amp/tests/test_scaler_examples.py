"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, optim


@pytest.mark.parametrize("documented", [amp.GradScaler, amp.master_param], ids=lambda x: x.__name__)
def test_examples(documented: Any) -> None:
    names = {"np": np, "nc": nc, "ag": ag, "amp": amp, "optim": optim}
    for found in doctest.DocTestFinder(recurse=False).find(documented, globs=names):
        assert found.examples
        assert doctest.DocTestRunner().run(found).failed == 0
