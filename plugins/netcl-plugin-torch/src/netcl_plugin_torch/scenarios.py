"""What PyTorch's programs do on the device, beside the same on PyTorch's CPU.

python -m netcl_plugin_torch.scenarios NAME
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Any, Final

import netcl_torch  # noqa: F401 - makes the device known
import torch
from torch import nn

_STEPS: Final = 5
_WORDS: Final = 11


class Model(nn.Module):
    """A block of a transformer with an embedding before it and a head behind."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(_WORDS, 8), nn.LayerNorm(8)
        self.mix, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.head = nn.Linear(8, _WORDS)

    def forward(self, tokens: Any, wanted: Any) -> Any:
        """The loss."""
        x = self.words(tokens)
        parts = self.mix(self.norm(x)).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        return nn.functional.cross_entropy(self.head(nn.functional.gelu(x)).flatten(0, 1), wanted)


def _losses(place: str, change: Callable[[Any], Any] = lambda model: model) -> list[float]:
    """Of some steps of training."""
    torch.manual_seed(0)
    model = Model()
    tokens = torch.randint(_WORDS, (2, 6))
    wanted = tokens.roll(-1, 1).flatten().to(place)
    model.to(place)
    run = change(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(_STEPS):
        optimizer.zero_grad()
        loss = run(tokens.to(place), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def trained() -> None:
    """Steps of training, all of them on the device."""
    torch.netcl.reset_fallbacks()
    torch.testing.assert_close(_losses("netcl"), _losses("cpu"), rtol=1e-4, atol=1e-4)
    assert not torch.netcl.fallbacks(), torch.netcl.fallbacks()


def compiled() -> None:
    """The same with the model compiled."""
    torch._dynamo.reset()
    losses = _losses("netcl", lambda model: torch.compile(model, backend="netcl"))
    torch.testing.assert_close(losses, _losses("cpu"), rtol=1e-4, atol=1e-4)


def in_halves() -> None:
    """The same in bfloat16 where autocast says so."""

    def cast(model: Any) -> Any:
        def run(*given: Any) -> Any:
            with torch.autocast("netcl", torch.bfloat16):
                return model(*given)

        return run

    torch.testing.assert_close(_losses("netcl", cast), _losses("cpu"), rtol=5e-2, atol=5e-2)


def viewed() -> None:
    """Changes of views, and gradients through them."""

    def change(place: str) -> list[Any]:
        x = torch.arange(12.0, device=place).reshape(3, 4).requires_grad_()
        y = x * 2
        y[1:, ::2].mul_(3)
        y.t()[0] = 7
        for _ in range(4):  # each time the same, however the ops are done
            y = y + y.select(1, 2).unsqueeze(1).expand(3, 4) * 0.5
        (y * y).sum().backward()
        assert x.grad is not None
        return [y.detach().cpu(), x.grad.cpu()]

    torch.testing.assert_close(change("netcl"), change("cpu"))


def saved() -> None:
    """Files of a model, written and read on either device."""
    model = nn.Linear(3, 2)
    for written in ("cpu", "netcl"):
        file = io.BytesIO()
        torch.save(model.to(written).state_dict(), file)
        for place in ("cpu", "netcl"):
            file.seek(0)
            weight = torch.load(file, map_location=place)["weight"]
            assert weight.device.type == place
            torch.testing.assert_close(weight.cpu(), model.weight.detach().cpu())


SCENARIOS: Final = {play.__name__: play for play in (trained, compiled, in_halves, viewed, saved)}

if __name__ == "__main__":
    SCENARIOS[sys.argv[1]]()
