"""A compiled graph that has become a replay gives what the program gives without a compiler."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import netcl_torch  # noqa: E402, F401 - makes the device known, if there is PyTorch
from netcl_plugin_torch.replaying import _Replay  # noqa: E402
from torch import nn  # noqa: E402

import netcl_core as nc  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's Dynamo


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The replays that have run in a test."""
    found: list[Any] = []
    run = _Replay.run

    def noted(self: _Replay, *args: Any) -> Any:
        found.append(self)
        return run(self, *args)

    monkeypatch.setattr(_Replay, "run", noted)
    return found


class Mixed(nn.Module):
    """Norms with records, attention, a view that is saved, statistics that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm, self.mix = nn.Embedding(7, 8), nn.LayerNorm(8), nn.Linear(8, 24)
        self.narrow, self.bn, self.head = (
            nn.Conv1d(8, 4, 1, bias=False),
            nn.BatchNorm1d(4),
            nn.Linear(4, 7),
        )
        self.groups = nn.GroupNorm(2, 4)

    def forward(self, x: Any, y: Any) -> Any:
        x = self.words(x)
        q, k, v = self.mix(self.norm(x)).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(
            1, 2
        ).reshape(x.shape)
        x = self.groups(self.bn(self.narrow(x.transpose(1, 2)))).transpose(1, 2)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), y.flatten())


def test_steps_are_those_of_an_uncompiled_model(ran: list[Any]) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    plain = Mixed()
    model = copy.deepcopy(plain).to("netcl")
    run = torch.compile(model, backend="netcl", dynamic=False)
    pairs = [(plain, plain), (model, run)]
    steps = [torch.optim.SGD(x.parameters(), 0.1, 0.9, fused=True) for x, _ in pairs]
    for number in range(5):
        x, y = torch.randint(0, 7, (2, 2, 5))
        found = []
        for (_, call), optimizer in zip(pairs, steps, strict=True):
            device = "cpu" if call is plain else "netcl"
            optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
            optimizer.zero_grad()
            loss = call(x.to(device), y.to(device))
            again = call(y.to(device), x.to(device))  # two records live at a time
            (loss + again * 0.5).backward()
            optimizer.step()
            found.append((loss.item(), again.item()))
        assert found[1] == pytest.approx(found[0], rel=2e-4)
    assert len(set(ran)) >= 2  # the forward and the backward pass
    state = {name: x.cpu() for name, x in model.state_dict().items()}
    torch.testing.assert_close(state, plain.state_dict(), rtol=2e-3, atol=2e-4)


def views(x: Any, y: Any) -> Any:
    return x.t(), (x.t() @ y).relu(), x, x[1:].clone()


def shared(x: Any, y: Any) -> Any:
    return x + y, x.sum() * y


def in_place(x: Any, y: Any) -> Any:
    y.add_(x).mul_(2)
    return y.sum() + x


@pytest.mark.parametrize("function", [views, shared, in_place])
def test_arguments_may_be_views_share_memory_and_be_written(
    function: Callable[..., Any], ran: list[Any]
) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    run = torch.compile(function, backend="netcl", dynamic=False)
    kept = []
    for number in range(12):
        base = torch.randn(2, 4, 4)
        other = base.to("netcl")
        forms: list[Callable[..., Any]] = [
            lambda x: (x[0], x[1]), lambda x: (x[0].t(), x[1, :4]), lambda x: (x[0], x[0]),
        ]  # fmt: skip
        form = forms[number % (2 if function is in_place else 3)]  # as PyTorch's own backends
        expected = function(*form(base))
        made = run(*form(other))
        kept.append((made, copy.deepcopy(expected)))
        torch.testing.assert_close(other.cpu(), base, rtol=1e-5, atol=1e-5)
    assert len(set(ran)) >= 2
    for made, expected in kept:  # results of earlier calls are what they were
        for a, b in zip(made, expected, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(nc.default_device().kind != "cpu", reason="needs the host's memory")
def test_tensors_on_the_host_are_replayed_too(ran: list[Any]) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
    run = torch.compile(plain, backend="netcl", dynamic=False)
    kept = []
    for _ in range(5):
        x = torch.randn(4, 8)
        gradients = []
        for model in (run, plain):
            output = model(x)
            gradients.append(torch.autograd.grad(output.square().sum(), plain.parameters()))
        kept.append((run(x), output))
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert len(set(ran)) >= 2  # the forward and the backward pass
    for a, b in kept:  # results of earlier calls are what they were
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_dropout_draws_anew_and_the_seed_holds() -> None:
    torch._dynamo.reset()
    run = torch.compile(lambda x: nn.functional.dropout(x, 0.5), backend="netcl", dynamic=False)
    x = torch.ones(64, device="netcl")
    rows = [run(x).tolist() for _ in range(6)]
    assert len({tuple(row) for row in rows}) == 6
    torch.manual_seed(5)
    first = run(x).tolist()
    torch.manual_seed(5)
    assert run(x).tolist() == first


def test_a_graph_that_the_host_reads_goes_on_op_by_op() -> None:
    torch._dynamo.reset()
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    run = torch.compile(lambda x: torch.nonzero(x).sum() + torch.lgamma(x).sum(), backend="netcl")
    x = torch.tensor([1.0, 0.0, 3.0]) + 0.5
    with pytest.warns(UserWarning, match="the host computes"):
        found = [run((x + i).to("netcl")).item() for i in range(5)]
    assert found == pytest.approx([3 + torch.lgamma(x + i).sum().item() for i in range(5)])


def test_a_bad_index_is_refused_by_a_replay() -> None:
    torch._dynamo.reset()
    words = nn.Embedding(3, 2).to("netcl")
    run = torch.compile(words, backend="netcl", dynamic=False)
    with torch.no_grad():
        for _ in range(5):
            run(torch.tensor([0, 2]).to("netcl"))
        with pytest.raises(nc.errors.NetclError, match="3"):
            run(torch.tensor([0, 3]).to("netcl"))
        assert run(torch.tensor([0, 2]).to("netcl")).shape == (2, 2)
