"""PyTorch's own samples of its operators: of a part of them every day, of half of them nightly.

In processes of their own: the database imports setuptools, which others may have spoilt.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date

import pytest
from environments import ROOT

#: They start processes.
pytestmark = pytest.mark.turns(2)

pytest.importorskip("torch")
HELP = str(ROOT / "tests" / "support")
SURVEY = """
import warnings
import netcl_core as nc
from netcl_plugin_kit.check import torch_samples
from pytorch_database import survey
warnings.simplefilter("ignore")
with nc.use_device("numpy"):
    counts, faults, _ = survey(torch_samples.dense()[{first}::{parts}], 20)
differ = {{op: list(texts) for op, texts in faults.items() if "differs" in " ".join(texts)}}
assert counts["agrees"] > 100 and not differ, differ
"""
WRONG = """
import netcl_core as nc
from netcl_plugin_kit.check import torch_samples
from netcl_plugin_kit.testing import table_of
torch_samples.dense = lambda: [op for op in torch_samples.op_db if op.name == "lgamma"]
for function, state in ((nc.lgamma, "passed"), (nc.digamma, "failed")):
    torch_samples.TURNED["lgamma"] = function
    table, devices = table_of("netcl-plugin-elementwise"), [nc.get_device("numpy")]
    (found,) = torch_samples.compared(table, devices, lambda *_: None)
    assert found.state == state, found
assert "samples differ, the first: float32" in found.reason
"""


@pytest.mark.parametrize("parts", [20, pytest.param(2, marks=pytest.mark.nightly)])
def test_no_sample_differs(python: Callable[..., str], parts: int) -> None:
    first = date.today().toordinal() % parts
    python(SURVEY.format(first=first, parts=parts), PYTHONPATH=HELP)


def test_a_check_against_pytorch_names_what_differs(python: Callable[..., str]) -> None:
    python(WRONG)
