"""Every public name has an example in its docstring, and it is true."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn, optim

#: What needs none: errors, and what another name's example shows.
WITHOUT = {
    "OptimizerStateError", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "unscale_grads_", "update_bn",
}  # fmt: skip
PUBLIC = {
    name: getattr(face, name)
    for face in (
        optim,
        optim.lr_scheduler,
        optim.swa_utils,
    )
    for name in face.__all__
    if not inspect.ismodule(getattr(face, name)) and name not in WITHOUT
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_of(name: str) -> None:
    names: dict[str, Any] = {"nc": nc, "ag": ag, "nn": nn, "optim": optim}
    found = doctest.DocTestFinder().find(PUBLIC[name], name, module=False, extraglobs=names)
    runner = doctest.DocTestRunner()
    for each in found:
        runner.run(each)
    assert runner.tries and not runner.failures
