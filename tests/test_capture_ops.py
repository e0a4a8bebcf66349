"""Every op of the first-party plugins, captured with its gradients, gives what it gives eagerly."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from netcl_plugin_kit.testing import Case, table_of, usable_devices
from netcl_plugin_kit.testing.checks import compare
from netcl_plugin_kit.testing.inputs import covector
from netcl_plugin_kit.testing.reference import Values, evaluate, results_of

import netcl_core as nc
import netcl_core.autograd as ag

PLUGINS = ("elementwise", "tensor", "linalg", "losses")
CASES = [case for plugin in PLUGINS for case in table_of(f"netcl-plugin-{plugin}").cases]
#: What is refused, and why.
LEFT_OUT = dict.fromkeys(
    (
        "getitem-empty",
        "bias_dropout_residual_layer_norm-empty-p=0.25-over=3-eps=1e-05",
        *(f"meshgrid-{i}-{how}" for i in (0, 1) for how in ("ij", "xy")),
    ),
    "an input of which no element is read",
) | {
    "getitem-mask": "the host reads the mask",
    **dict.fromkeys(
        ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like"),
        "its numbers are fresh ones, of no input",
    ),
    "masked_select": "the shape of its result depends on values, which the host reads",
    **dict.fromkeys(
        ("unique-return_inverse=True-return_counts=True", "bincount"),
        "the shape of its result depends on values, which the host reads",
    ),
    **dict.fromkeys(("allclose", "equal"), "its result is Python's, which the host reads"),
}


#: Ops that are refused whatever their arguments are: the host reads data, as their docstrings say.
READING = {
    "argwhere", "as_strided_scatter", "gcd", "istft", "lcm", "linalg_lu", "lu", "lu_solve",
    "lu_unpack", "masked_scatter", "matrix_exp", "nonzero", "nonzero_static", "polygamma", "put",
    "take", "take_along_dim", "unique_consecutive",
}  # fmt: skip
#: Ops of which no element is read.
UNREAD = {"broadcast_tensors", "isreal", "logspace", "tril_indices", "triu_indices"}


@pytest.fixture(autouse=True)
def no_warnings_of_data() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Step:
    """A case with its backward pass."""

    def __init__(self, case: Case, needs: Sequence[bool]) -> None:
        self.case, self.needs = case, needs

    def __call__(self, *tensors: Any) -> Any:
        results = self.case.run(*tensors)
        for result in results_of(results):
            if result.requires_grad:
                seed = covector(result.shape, result.dtype)
                ag.backward(result, seed, retain_graph=True)
        return results


def replayed(case: Case, first: Sequence[Any], second: Sequence[Any], device: Any) -> Values:
    """What a case gives for the second inputs, captured with the first."""
    needs = case.needs(first)
    with nc.use_device(device):
        pairs = zip(first, needs, strict=True)
        leaves = [nc.Tensor.from_host(x, device, requires_grad=need) for x, need in pairs]
        graph = ag.capture(Step(case, needs), *leaves, device=device)
        graph(*second)
        results = results_of(graph(*[nc.Tensor.from_host(x, device) for x in second]))
        grads = [None if leaf.grad is None else leaf.grad.to_host() for leaf in leaves]
        return Values([x.to_host() for x in results], [x.dtype for x in results], grads)


@pytest.mark.sample(40)
@pytest.mark.parametrize("device", usable_devices(), ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case(case: Case, device: nc.Device) -> None:
    dtype = case.main_dtype
    reason = LEFT_OUT.get(str(case)) or case.excuse("values", device, dtype)
    if reason or case.op in READING | UNREAD:
        pytest.skip(reason or "the host reads data, or nothing is read")
    first, second = case.main_sample(dtype), case.main_sample(dtype, "other")
    if [x.shape for x in first] != [x.shape for x in second]:
        pytest.skip("its samples have several shapes")
    nc.manual_seed(1)
    found = replayed(case, first, second, device)
    nc.manual_seed(1)
    for arrays in (first, second):  # which draws as many random numbers
        evaluate(case, arrays, device)
    wanted = evaluate(case, second, device)
    compare(None, found, wanted, f"{case} on {device}")
