"""Some of PyTorch's database of operators; all of it: `python tests/support/torch_operators.py`."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
operators = pytest.importorskip("torch_operators", reason="tests/support is not at hand")

NAMES = (
    "add", "index_put", "nn.functional.layer_norm", "sum", "where", "nn.functional.max_pool2d",
    "scatter_reduce", "as_strided", "sort", "nn.functional.conv2d",
)  # fmt: skip
DTYPES = (torch.float32, torch.float16, torch.int64, torch.bool)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_operators_give_what_pytorchs_cpu_gives(name: str) -> None:
    found = [op for op in operators.op_db if op.name == name]
    counts, faults = operators.survey(found, DTYPES, 1)
    assert counts["all", "float32", "forward"]["ok"]
    bad = [text for rows in faults.values() for text in rows if "wrong" in text or "raises" in text]
    assert bad == []


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The survey itself, by a table that gives the negative of what it should."""
    monkeypatch.setitem(operators.OPS, torch.ops.aten.exp.default, lambda x: -torch.sinh(x))
    found = [op for op in operators.op_db if op.name == "exp"]
    counts, _ = operators.survey(found, [torch.float32], 2)
    assert counts["all", "float32", "forward"]["wrong"]
