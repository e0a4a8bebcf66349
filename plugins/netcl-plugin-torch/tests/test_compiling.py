"""`torch.compile(backend="netcl")` gives what the same program gives without it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import netcl_torch  # noqa: E402, F401 - makes the device known, if there is PyTorch
from torch import nn  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402


class Small(nn.Module):
    """Convolution, batch norm, layer norm, products, and a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.line, self.layer, self.head = nn.Linear(16, 8), nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x: Any, y: Any) -> Any:
        x = torch.relu(self.norm(self.conv(x))).mean(1).flatten(1)
        x = self.head(self.layer(nn.functional.gelu(self.line(x)).clone()))
        return nn.functional.cross_entropy(x, y)


def trained(device: str, compiled: bool) -> tuple[list[float], dict[str, Any]]:
    """The losses of steps with two sizes of batches, and the state after them."""
    torch.manual_seed(3)
    model = Small()
    batches = [(torch.randn(n, 2, 4, 4), torch.randint(0, 3, (n,))) for n in (4, 4, 6, 5)]
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    run, step = model, optimizer.step
    if compiled:
        run = torch.compile(model, backend="netcl")
        step = torch.compile(optimizer.step, backend="netcl")
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = run(*[x.to(device) for x in batch])
        loss.backward()
        step()
        losses.append(loss.item())
    return losses, {name: x.cpu() for name, x in model.state_dict().items()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own, in Dynamo
@pytest.mark.parametrize("device", ["netcl", "cpu"])
def test_training_compiled_is_training(device: str) -> None:
    torch._dynamo.reset()
    counters.clear()
    torch.netcl.reset_fallbacks()
    losses, state = trained(device, compiled=True)
    assert torch.netcl.fallbacks() == {}
    assert counters["stats"]["unique_graphs"] == 3  # of one size, of any, and of the step
    expected, reference = trained("cpu", compiled=False)
    assert losses == pytest.approx(expected, rel=2e-4)
    torch.testing.assert_close(state, reference, rtol=2e-3, atol=2e-5)


def test_a_result_does_not_share_memory_that_the_program_copied() -> None:
    torch._dynamo.reset()
    for device in ("netcl", "cpu"):
        x = torch.arange(4.0, device=device)
        both = torch.compile(lambda x: (x.clone(), (x + 1).clone().view(2, 2)), backend="netcl")
        first, second = both(x)
        x.zero_()
        first += 1
        second.zero_()
        assert first.tolist() == [1, 2, 3, 4] and both(x)[1].tolist() == [[1, 1], [1, 1]]


def test_forward_twice_before_backward_keeps_both_records() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Tanh()).to("netcl")
    other = copy.deepcopy(model)
    run = torch.compile(model, backend="netcl")
    x, y = torch.randn(2, 3, 4).to("netcl")
    (run(x).sum() + (run(y) * y).sum()).backward()
    (other(x).sum() + (other(y) * y).sum()).backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad.cpu(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_one_op_of_each_pass(causal: bool) -> None:
    torch._dynamo.reset()
    ops: list[str] = []

    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            ops.append(func.name())
            return func(*args, **kwargs or {})

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        mask = None if causal else mask
        return nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k, v, mask, is_causal=causal, enable_gqa=True
        )

    torch.manual_seed(0)
    given = [torch.randn(2, 5, 4, 8), torch.randn(2, 2, 5, 8), torch.randn(2, 2, 5, 6),
             torch.randn(5, 5)]  # fmt: skip
    found = []
    for device, run in (("cpu", attend), ("netcl", torch.compile(attend, backend="netcl"))):
        leaves = [x.to(device).detach().requires_grad_() for x in given]
        with Names() if device == "netcl" else torch.enable_grad():
            made = run(*leaves)
            made.square().sum().backward()
        found.append([made, *[x.grad for x in leaves[: 3 if causal else 4]]])
    assert {"netcl::_attention", "netcl::_attention_backward"} <= set(ops)
    assert not {"aten::bmm", "aten::_softmax"} & set(ops)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(b.detach().cpu(), a.detach(), rtol=1e-4, atol=1e-5)
