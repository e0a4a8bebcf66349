"""Second and third derivatives of every op of the first-party plugins, beside PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from derivatives import arrays_of, assert_alike, derivatives, expected
from netcl_plugin_fusion.derivative import _RULES
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import table_of

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.codegen.expressions import FUNCTIONS
from netcl_core.plugins.registry import registry

elementwise = pytest.importorskip("netcl_plugin_elementwise.conformance")
linalg = pytest.importorskip("netcl_plugin_linalg.conformance")
losses = pytest.importorskip("netcl_plugin_losses.conformance")
tensors = pytest.importorskip("netcl_plugin_tensor.conformance")

MODULES = (elementwise, tensors, linalg, losses)
CASES: Sequence[Case] = [case for module in MODULES for case in module.CASES if case.differentiable]
#: PyTorch's second derivative is NaN where these have a kink, ours is 0.
KINKS = {"norm-2-zeros", "norm-3-zeros"}
#: Of which PyTorch has no second derivative.
UNANSWERED = {"cdist", "pdist"}
COMPARED = [
    case
    for case in CASES
    if case.torch is not None and str(case) not in KINKS and case.op not in UNANSWERED
]
CPU = nc.get_device("numpy")
DEVICES = [CPU, *[each for each in nc.devices() if not each.simulator][:1]]

#: Ops with a gradient that cannot be differentiated, each with the reason.
WITHOUT: dict[str, str] = {}


@pytest.mark.sample(30)
@pytest.mark.parametrize("device", list(dict.fromkeys(DEVICES)), ids=str)
@pytest.mark.parametrize("case", COMPARED, ids=str)
def test_second_derivatives_are_those_of_pytorch(case: Case, device: nc.Device) -> None:
    for dtype in {"float32", "float64"}.intersection(case.takes):
        if dtype != "float64" or device.supports_fp64:
            arrays = arrays_of(case, dtype)
            given = derivatives(case, arrays, 2, device)
            computed = "float32" if str(case).endswith("dtype=float32") else dtype
            assert_alike(given, expected(case, arrays, 2), computed, f"{case} in {dtype}")


def test_ops_without_a_second_derivative_are_known() -> None:
    lacking = set()
    for case in CASES:
        try:
            derivatives(case, arrays_of(case, case.main_dtype), 2, CPU)
        except nc.errors.GradientError:
            lacking.add(case.op)
    assert lacking == set(WITHOUT)


def test_every_op_of_these_plugins_has_been_asked() -> None:
    registry.load()
    ours = {f"netcl-plugin-{name}" for name in ("elementwise", "tensor", "linalg", "losses")}
    offered = {
        op for op in registry.op_names() if {row.provider for row in registry.op_rows(op)} & ours
    }
    asked = {case.op for module in MODULES for case in module.CASES}
    asked |= {op for table in map(table_of, ours) for op in table.internal}
    assert len(offered) > 100
    assert offered <= asked


def test_every_function_of_an_expression_has_a_derivative() -> None:
    predicates = {"isnan", "isinf", "isfinite"}
    assert set(FUNCTIONS) - predicates <= set(_RULES)


def standardized(over: Callable[[Any], Any]) -> Callable[..., Any]:
    """layer_norm or batch_norm by its formula: PyTorch's own third derivative of both is wrong."""

    def norm(torch: Any, x: Any, *rest: Any) -> Any:
        centered = x - x.mean(over(x), keepdim=True)
        return centered * torch.rsqrt((centered * centered).mean(over(x), keepdim=True) + 1e-5)

    return norm


@pytest.mark.sample(2)
@pytest.mark.skipif(len(DEVICES) < 2, reason="there is no OpenCL device")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("op", ["layer_norm", "rms_norm", "softmax", "cross_entropy"])
def test_the_kernels_of_gpus_have_second_derivatives(
    op: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device that is taken for a GPU; compiled, the op has neighbours in its kernel."""
    device = DEVICES[-1]
    case = next(each for each in COMPARED if each.op == op)
    arrays = arrays_of(case, "float32")

    def between(*tensors: Any) -> Any:
        return ag.exp(case.run(ag.tanh(tensors[0]), *tensors[1:])) * 0.5

    def counterpart(torch: Any, *inputs: Any) -> Any:
        return torch.exp(case.run_torch(torch, torch.tanh(inputs[0]), *inputs[1:])) * 0.5

    wanted = expected(with_torch(case, counterpart), arrays, 2)
    monkeypatch.setattr(device, "kind", "gpu")
    function = ag.jit_compile(between) if compiled else between
    given = derivatives(case, arrays, 2, device, function)
    assert_alike(given, wanted, "float32", op)


def named(name: str) -> Case:
    """The case of this name."""
    return next(case for case in CASES if str(case) == name)


THIRD = (
    "mul", "div", "pow", "tanh", "sigmoid", "gelu", "gelu-approximate=none", "mish", "softplus",
    "swish", "softmax-dim=-1", "log_softmax-dim=0", "prod", "logsumexp", "matmul", "linear-bias",
    "cross_entropy-mean", "binary_cross_entropy_with_logits-mean",
)  # fmt: skip


@pytest.mark.parametrize("case", [case for case in COMPARED if str(case) in THIRD], ids=str)
def test_third_derivatives_are_those_of_pytorch(case: Case) -> None:
    arrays = arrays_of(case, "float64")
    given = derivatives(case, arrays, 3, CPU)
    assert_alike(given, expected(case, arrays, 3), "float64", str(case))


def test_third_derivatives_are_of_ten_ops_or_more() -> None:
    assert len([case for case in COMPARED if str(case) in THIRD]) >= 10


@pytest.mark.parametrize(
    ("name", "over"),
    [("layer_norm-plain", lambda x: (-1,)), ("batch_norm-plain", lambda x: (0, 2))],
)
def test_third_derivatives_of_norms_are_those_of_their_formula(
    name: str, over: Callable[[Any], Any]
) -> None:
    case = named(name)
    arrays = arrays_of(case, "float64")
    wanted = expected(with_torch(case, standardized(over)), arrays, 3)
    assert_alike(derivatives(case, arrays, 3, CPU), wanted, "float64", name)


def with_torch(case: Case, torch: Callable[..., Any]) -> Case:
    """A case with another counterpart."""
    return Case(case.op, case.inputs, torch, case.attrs, case.call, case.shapes)


# -- points where something happens ----------------------------------------------------------

POINTS = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 3.0, -3.0, 6.0, -6.0, 20.0, -20.0, 25.0, -25.0,
          90.0, -90.0, 110.0, -110.0, 700.0, -700.0)  # fmt: skip
FEW = (0.0, 1.0, -1.0, 2.0, -2.0, 3.0)
#: Where both are right, each for one side: what PyTorch's own takes to be the side.
SIDES = {
    "float_power": "of 0 PyTorch gives NaN, 0 times infinity",
    **dict.fromkeys(
        (
            "lgamma",
            "lgamma-below",
            "lgamma-near 0",
            "digamma",
            "polygamma-1",
            "polygamma-3",
            "mvlgamma-p=3",
        ),
        "at a pole the first derivative is infinite; the next one is 0, and PyTorch's infinite",
    ),
    **dict.fromkeys(
        [f"{scaled}modified_bessel_k{order}" for scaled in ("", "scaled_") for order in (0, 1)],
        "PyTorch has no gradient of it",
    ),
    "sinc": "at 0 PyTorch gives NaN, 0 divided by 0",
    **dict.fromkeys(("log_ndtr", "log_ndtr-far"), "far below 0 PyTorch subtracts near numbers"),
    "elu": "0 belongs to the exponential, as in the first derivative; to PyTorch's second it does "
    "not",
    "elu-alpha=2": "the same",
    "selu": "the same",
    "celu": "the same",
    "celu-alpha=0.5": "the same",
    **dict.fromkeys(("atan2", "arctan2"), "at the origin PyTorch gives NaN, here it is 0"),
    "logit": "infinite at the ends of [0, 1], where PyTorch gives NaN",
    "logit-eps=0.1": "0 there, which is beyond the limits; PyTorch gives NaN, 0 times infinity",
    "copysign": "at 0 PyTorch gives NaN, here it is 0, as the first derivative is in both",
    "softsign": "0 belongs to the right side, PyTorch takes the mean of both",
    "clamp-bounds": "of equal bounds PyTorch gives neither the gradient",
    "addcdiv-value=0.5": "PyTorch squares a divisor of 0 and gives NaN for infinity",
    "softplus": "the threshold itself, likewise",
    "softplus-beta=2.0-threshold=4.0": "the same",
    "pow": "PyTorch gives NaN at a base of 0, here it is what the branches give",
    "prelu": "the slopes belong to the channels",
}


@pytest.mark.parametrize(
    "case",
    [case for case in elementwise.CASES if case.differentiable and str(case) not in SIDES],
    ids=str,
)
def test_kinks_ends_and_overflows_are_those_of_pytorch(case: Case) -> None:
    count = len(case.inputs)
    points = itertools.product(POINTS if count == 1 else FEW, repeat=count)
    arrays = list(np.array(list(points)).T)
    arrays = [x > 0 if case.op == "where" and i == 0 else x for i, x in enumerate(arrays)]
    with np.errstate(all="ignore"):
        given = derivatives(case, arrays, 2, CPU)
    assert_alike(given, expected(case, arrays, 2), "float64", str(case))


@pytest.mark.parametrize("name", ["gelu", "swish", "sigmoid", "mish", "softplus"])
@pytest.mark.parametrize("order", [2, 3])
def test_derivatives_are_finite_where_exp_overflows(name: str, order: int) -> None:
    points = np.array([-700.0, -110.0, -90.0, 90.0, 110.0, 700.0], "float32")
    with np.errstate(all="ignore"):
        found = derivatives(named(name), [points], order, CPU)
    assert np.isfinite(found).all()
    assert np.abs(found[0]).max() < 1e-30


def test_a_loss_that_is_written_by_cases_is_smooth_between_them() -> None:
    name = "binary_cross_entropy_with_logits"
    arrays = [np.array([0.0, 0.0, 0.0, 1e-9]), np.array([0.0, 1.0, 0.3, 0.3])]
    case = Case(name, arrays, f"nn.functional.{name}", {"reduction": "none"})
    for order in (2, 3):
        given = derivatives(case, arrays, order, CPU)
        wanted = expected(case, arrays, order)
        assert_alike(given, wanted, "float64", name)


@pytest.mark.parametrize("zeros", [[], [1], [1, 3], [0, 1, 2, 3]])
def test_prod_with_zeros(zeros: list[int]) -> None:
    array = np.array([2.0, -3.0, 0.5, 4.0, 1.5])
    array[zeros] = 0
    case = Case("prod", [array], lambda torch, x: torch.prod(x))
    for order in (2, 3):
        given = derivatives(case, [array], order, CPU)
        assert_alike(given, expected(case, [array], order), "float64", "prod")


def test_dropout_has_the_mask_of_its_forward() -> None:
    case = named("dropout")
    array = np.ones((4, 5))
    with nc.use_device("numpy"):
        kept = case.run(nc.Tensor.from_host(array, CPU)).to_host()
    given = derivatives(case, [array], 2, CPU)
    np.testing.assert_array_equal(given[0], 0)
    assert {0.0, 1 / 0.7} == {*kept.flat}
    assert ((given[1] == 0) == (kept == 0)).all()


def test_float16() -> None:
    for name in ("mul", "gelu", "softmax-dim=-1", "linear-bias", "sum--1"):
        case = named(name)
        arrays = arrays_of(case, "float16")
        given = derivatives(case, arrays, 2, DEVICES[-1])
        assert_alike(given, expected(case, arrays, 2), "float16", name)
