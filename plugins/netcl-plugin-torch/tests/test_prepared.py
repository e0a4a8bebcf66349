"""An op that is done again as commands gives what its code gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import netcl_torch  # noqa: E402, F401 - makes the device known, if there is PyTorch
from netcl_plugin_torch.line import Line  # noqa: E402

from netcl_core.plugins.protocol import registry  # noqa: E402

_TIMES = 5


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The lines that have run in a test."""
    found: list[Any] = []
    run = Line.run

    def noted(self: Line, *args: Any) -> Any:
        found.append(self)
        return run(self, *args)

    monkeypatch.setattr(Line, "run", noted)
    return found


def test_operands_that_shared_memory_need_not_share_it_later(ran: list[Any]) -> None:
    x, y = (torch.tensor([1.0, n], device="netcl") for n in (2.0, 3.0))
    for _ in range(_TIMES):
        assert (x * x).tolist() == [1, 4]
    assert ran
    for _ in range(_TIMES):
        assert (x * y).tolist() == [1, 6]
    registry.renew()  # as when another plugin serves from now on
    count = len(ran)
    assert (x * y).tolist() == [1, 6] and len(ran) == count


def test_a_quotient_has_the_default_dtype_of_now(ran: list[Any]) -> None:
    x = torch.tensor([1, 2], device="netcl")
    for _ in range(_TIMES):
        assert (x / 2).dtype is torch.float32
    assert ran
    torch.set_default_dtype(torch.float16)
    try:
        assert (x / 2).dtype is torch.float16
    finally:
        torch.set_default_dtype(torch.float32)


def test_data_are_checked_each_time(ran: list[Any]) -> None:
    table, place = torch.eye(3, device="netcl"), torch.tensor([2], device="netcl")
    for _ in range(_TIMES):
        assert torch.nn.functional.embedding(place, table).tolist() == [[0, 0, 1]]
    count = len(ran)
    assert count
    with pytest.raises(IndexError, match="out of range"):
        torch.nn.functional.embedding(place + 1, table).cpu()


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm", "attention"])
def test_records_of_norms_and_attention(name: str, ran: list[Any]) -> None:
    def layer_norm(x: Any) -> Any:
        return torch.nn.functional.layer_norm(x, x.shape[-1:])

    def attention(x: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])

    norm = torch.nn.BatchNorm2d(2)
    function: Callable[..., Any] = {"layer_norm": layer_norm, "attention": attention}.get(
        name, norm
    )

    def step(place: str) -> list[Any]:
        torch.manual_seed(0)
        norm.to(place)
        x = torch.rand(3, 2, 4, 4).to(place).requires_grad_()
        y = function(x)
        (y * y * y).sum().backward(retain_graph=True)
        first = x.grad
        x.grad = None
        (gradient,) = torch.autograd.grad((y * y).sum() + y.sum(), x, retain_graph=True)
        (y * y * y).sum().backward()  # a second pass over what is kept
        return [each.detach().cpu() for each in (y, first, gradient, x.grad)]

    expected = step("cpu")
    for _ in range(_TIMES):
        torch.testing.assert_close(step("netcl"), expected, rtol=1e-4, atol=1e-4)
    assert ran
