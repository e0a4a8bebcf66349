"""PyTorch's own samples of its operators: of a part of them every day, of all nightly."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

import netcl_core as nc

pytest.importorskip("torch")
from netcl_plugin_kit.check import torch_samples
from netcl_plugin_kit.testing import table_of
from pytorch_database import survey


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("parts", [20, pytest.param(1, marks=pytest.mark.nightly)])
def test_no_sample_differs(parts: int) -> None:
    day = date.today().toordinal()
    with nc.use_device("numpy"):
        counts, faults, _ = survey(torch_samples.dense()[day % parts :: parts], 20)
    differ = {op: list(texts) for op, texts in faults.items() if "differs" in " ".join(texts)}
    assert counts["agrees"] > 100
    assert differ == {}


def test_a_check_against_pytorch_names_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    lgamma = [op for op in torch_samples.op_db if op.name == "lgamma"]
    monkeypatch.setattr(torch_samples, "dense", lambda: lgamma)

    def found() -> Any:
        devices = [nc.get_device("numpy")]
        table = table_of("netcl-plugin-elementwise")
        (outcome,) = torch_samples.compared(table, devices, lambda *_: None)
        return outcome

    assert found().state == "passed"
    monkeypatch.setitem(torch_samples.TURNED, "lgamma", nc.digamma)
    assert found().state == "failed"
    assert "samples differ, the first: float32" in found().reason
