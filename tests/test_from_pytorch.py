"""The table of docs/from-pytorch.md is true of PyTorch and of netcl."""

from __future__ import annotations

import pytest
import pytorch_signatures
from beside_pytorch import DIFFERENCES, PLACES, Difference, given, table

import netcl_core as nc

torch = pytest.importorskip("torch")


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.code)
def test_what_differs_differs_so(row: Difference) -> None:
    theirs, ours = given(torch, row.code), given(nc, row.code)
    assert theirs == row.theirs and theirs != ours
    assert row.ours in (ours, "...") and row.why


def test_the_names_and_arguments_are_pytorchs() -> None:
    assert pytorch_signatures.main(check=True) == 0, "python tests/support/pytorch_signatures.py"


@pytest.mark.parametrize("name", PLACES)
def test_no_name_is_absent_without_a_sentence(name: str) -> None:
    assert "" not in table(nc)[name]


def test_a_name_that_is_not_there_says_what_to_write() -> None:
    for code, said in (
        ("nc.hub.load('x')", "from_torch_state_dict"),
        ("nc.nn.Container()", "A module is nn.Module"),
        ("nc.cuda.Stream()", "one queue"),
        ("nc.geqrf", "nc.linalg has"),
        ("nc.ones(2).igamma", "scipy.special"),
        ("nc.nn.functional.grouped_mm", "first-plugin.md"),
        ("nc.utils.tensorboard", "loss.item\\(\\)"),
        ("nc.ones(2).names", "numbers and no names"),
        ("nc.autograd.graph.save_on_cpu", "nc.autodiff.checkpoint"),
    ):
        with pytest.raises(AttributeError, match=said):
            eval(code, {"nc": nc})
    for statement, said in (
        ("import netcl_core.hub", "from_torch_state_dict"),
        ("from netcl_core.cuda import Stream", "one queue"),
        ("from netcl_core.nn import Container", "A module is nn.Module"),
        ("from netcl_core.nn.functional import grouped_mm", "first-plugin.md"),
        ("from netcl_core.nn import MultiheadAttentionn", "Did you mean MultiheadAttention"),
        ("from netcl_core.nn.attention import flex_attention", "takes a mask"),
        ("from netcl_core.distributions import VonMises", "log_prob and sample"),
        ("from netcl_core.distributed import init_process_group", "mpirun"),
    ):
        with pytest.raises(ImportError, match=said):
            exec(statement)
    with pytest.raises(AttributeError, match="Did you mean relu"):
        _ = nc.relux
