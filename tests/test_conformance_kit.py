"""The conformance kit notices what it is there to notice: ops that are wrong in one way each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import AutogradPrimitive, Composite
from netcl_core.errors import RegistrationError
from netcl_core.registry import registry
from netcl_core.testing import Case, Table, check_case, check_gradient, normal, run, uniform
from netcl_core.testing.checks import check_derivative, check_refusal
from netcl_core.testing.fused import check_group

pytest.importorskip("torch")


@pytest.fixture
def register() -> Iterator[Callable[..., None]]:
    """Enter ops of a provider of the test's own."""

    def enter(record: Any) -> None:
        kind = "primitive" if isinstance(record, AutogradPrimitive) else "operator"
        with_it = registry.transaction("kit")
        with_it.add(kind, record)
        with_it.commit()

    registry.load()
    yield enter
    registry.remove_provider("kit")


def cube(forward: str = "{0} * {0} * {0}", backward: str = "3 * {0} * {0} * {1}") -> Any:
    """x * x * x by its expressions, right or wrong."""
    return AutogradPrimitive(
        "kit_cube",
        lambda args, _: forward.format(args[0]),
        lambda args, grad, *_: [backward.format(args[0], grad)],
        1,
    )


def case(**options: Any) -> Case:
    options.setdefault("inputs", (uniform(-2, 2),))
    return Case("kit_cube", torch=lambda t, x: x * x * x, **options)


def verdict(checked: Case, check: Callable[..., None] = check_case, *more: Any) -> str:
    """What a check complains of on the NumPy path; empty if nothing."""
    try:
        check(checked, *(more or ((nc.get_device("cpu"), "float32"))))
    except AssertionError as error:
        return str(error)
    return ""


def test_a_right_op_passes(register: Callable[..., None]) -> None:
    register(cube())
    assert verdict(case()) == ""
    check_gradient(case())
    table = Table("kit", [case()])
    assert table.missing() == []
    results = list(run(table, [nc.get_device("cpu")]))
    assert {(result.dtype, result.status) for result in results} == {
        (name, "pass") for name in case().takes
    }


WRONG: Sequence[tuple[Any, str]] = [
    (cube(forward="{0} * {0} * {0} + 1e-4f"), "output"),
    (cube(forward="{0} * {0} * ({0} < -1.99f ? 0 : {0})"), "output"),
    (cube(forward="{0} != {0} ? 0 : {0} * {0} * {0}"), "non-finite"),
    (cube(backward="2.9997f * {0} * {0} * {1}"), "gradient 0"),
    (cube(backward="3 * {0} * {0}"), "gradient 0"),
    (cube(backward="{0} == 0 ? 1 : 3 * {0} * {0} * {1}"), "gradient 0"),
]


@pytest.mark.parametrize(("record", "complaint"), WRONG)
def test_a_wrong_op_is_noticed(register: Callable[..., None], record: Any, complaint: str) -> None:
    register(record)
    assert complaint in verdict(case())
    with pytest.raises(AssertionError):
        check_group([case()], nc.default_device(), "float32")
    results = run(Table("kit", [case()]), [nc.default_device()], ["float32"])
    assert [result.status for result in results] == ["fail"]


def test_finite_differences_need_no_counterpart(register: Callable[..., None]) -> None:
    register(cube(backward="2.999 * {0} * {0} * {1}"))
    alone = Case("kit_cube", (uniform(-2, 2),), skip={"PyTorch": "to see what is left"})
    with pytest.raises(AssertionError, match="finite differences give"):
        check_gradient(alone)


def test_a_wrong_expression_of_a_backward_is_noticed(register: Callable[..., None]) -> None:
    """Statically, whether the op has a case or not; a gradient meant to differ has to say so."""
    register(cube())
    assert Table("kit", [], {"kit_cube": "internal"}).wrong_gradients() == []
    registry.remove_provider("kit")
    register(cube("rint({0})", "{1}"))
    (text,) = Table("kit", [], {"kit_cube": "internal"}).wrong_gradients()
    assert "kit_cube: the gradient of input 0 (x0) differs from the derivative" in text
    with pytest.raises(AssertionError, match="the derivative 0"):
        check_derivative(case())
    excused = case(skip={"derivative": "rounding passes the gradient straight through"})
    assert Table("kit", [excused]).wrong_gradients() == []
    check_derivative(excused)


def test_a_structured_op(register: Callable[..., None]) -> None:
    """Composites that forget a dtype, a gradient, or to give the same result twice."""
    random = np.random.default_rng(0)

    def check(function: Callable[..., Any]) -> str:
        registry.remove_provider("kit")
        register(Composite("kit_cube", function))
        return verdict(case(shapes=[[(3, 5)], [(0,)]]))

    assert check(lambda x: ag.mul(ag.mul(x, x), x)) == ""
    assert "dtype float64" in check(lambda x: ag.mul(ag.mul(x, x), x).astype("float64"))
    assert "gradient 0: None" in check(lambda x: ag.mul(ag.mul(x, x), x).detach())
    assert "gradient 0" in check(lambda x: ag.mul(ag.mul(x, x), x.detach()))
    noise = check(lambda x: ag.add(ag.mul(ag.mul(x, x), x), float(random.uniform(0, 1e-6))))
    assert "twice" in noise


def test_an_unlisted_dtype_is_noticed(register: Callable[..., None]) -> None:
    register(cube())
    floating = case(dtypes=("float16", "float32", "float64"))
    assert "accepts bool" in verdict(floating, lambda checked, *_: check_refusal(checked))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"skip": {"fused": " "}}, "without a reason"),
        ({"skip": {"everything": "why not"}}, "the check 'everything'"),
        ({"tolerance": 5}, r"tolerance=5 without a reason"),
        ({"shapes": [[(1,), (2,)]]}, "2 shapes; expected one per input, 1"),
    ],
)
def test_an_excuse_needs_a_reason(options: dict[str, Any], text: str) -> None:
    with pytest.raises(RegistrationError, match=text):
        case(**options)
    with pytest.raises(RegistrationError, match="no counterpart"):
        Case("kit_cube", (normal(),))
