"""PyTorch's own samples of operators and layers: of a part every day, of half of them nightly.

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
LAYERS = """
import re, warnings
import netcl_core as nc
from pytorch_layers import DOCUMENTED, PAGE, layers, module_db, optim_db, optimizers, survey
warnings.simplefilter("ignore")
listed = set(re.findall("^. `(.+?)` ", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
names = {{each.module_cls.__name__ for each in module_db}}
names |= {{each.optim_cls.__name__ for each in optim_db}}
assert names <= listed, names - listed
with nc.use_device("numpy"):
    found = survey(layers(module_db[{first}::{parts}]))
    found |= survey(optimizers(optim_db[{first} % 4 :: 4]))
right = {{"", *DOCUMENTED.values()}}
wrong = {{name: list(each) for name, each in found.items() if not right >= {{*each}}}}
assert found and not wrong, wrong
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
@pytest.mark.parametrize("survey", [SURVEY, LAYERS], ids=["operators", "layers"])
def test_no_sample_differs(python: Callable[..., str], survey: str, parts: int) -> None:
    first = date.today().toordinal() % parts
    python(survey.format(first=first, parts=parts), PYTHONPATH=HELP)


def test_a_check_against_pytorch_names_what_differs(python: Callable[..., str]) -> None:
    python(WRONG)
