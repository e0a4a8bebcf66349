"""Programs as PyTorch's users write them: on netcl they give PyTorch's losses and gradients."""

from __future__ import annotations

import copy
import math
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import netcl_torch  # noqa: E402, F401 - makes the device known, if there is PyTorch
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812 - as PyTorch's users write


class Block(nn.Module):
    """A residual block, with a bottleneck or without."""

    def __init__(self, inner: int, outer: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            convs = [(inner, outer // 4, 1, 1), (outer // 4, outer // 4, 3, stride),
                     (outer // 4, outer, 1, 1)]  # fmt: skip
        else:
            convs = [(inner, outer, 3, stride), (outer, outer, 3, 1)]
        layers: list[nn.Module] = []
        for a, b, k, s in convs:
            layers += [
                nn.Conv2d(a, b, k, s, k // 2, bias=False),
                nn.BatchNorm2d(b),
                nn.ReLU(inplace=True),
            ]
        self.body = nn.Sequential(*layers[:-1])
        self.skip: nn.Module = nn.Identity()
        if stride > 1 or inner != outer:
            conv = nn.Conv2d(inner, outer, 1, stride, bias=False)
            self.skip = nn.Sequential(conv, nn.BatchNorm2d(outer))

    def forward(self, x: Any) -> Any:
        out = self.body(x)
        out += self.skip(x)
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, bottleneck: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16),
                                  nn.ReLU(inplace=True),
                                  nn.MaxPool2d(3, 2, 1))  # fmt: skip
        self.blocks = nn.Sequential(Block(16, 16, 1, bottleneck), Block(16, 32, 2, bottleneck))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(32, 5)

    def forward(self, x: Any, y: Any) -> Any:
        return F.cross_entropy(self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1)), y)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, flash: bool) -> None:
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.flash = heads, flash
        self.register_buffer("bias", torch.tril(torch.ones(16, 16)).view(1, 1, 16, 16))

    def forward(self, x: Any) -> Any:
        B, T, C = x.size()  # noqa: N806
        q, k, v = (each.view(B, T, self.heads, C // self.heads).transpose(1, 2)
                   for each in self.c_attn(x).split(C, dim=2))  # fmt: skip
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class GPT(nn.Module):
    """nanoGPT's model: tied weights, causal attention."""

    def __init__(self, flash: bool) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(31, 16), nn.Embedding(16, 16)
        self.attn = nn.ModuleList([Attention(16, 2, flash) for _ in range(2)])
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(2)]
        )
        self.ln = nn.ModuleList([nn.LayerNorm(16) for _ in range(5)])
        self.head = nn.Linear(16, 31, bias=False)
        self.wte.weight = self.head.weight

    def forward(self, idx: Any, targets: Any) -> Any:
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for i, (attn, mlp) in enumerate(zip(self.attn, self.mlp, strict=True)):
            x = x + attn(self.ln[2 * i](x))
            x = x + mlp(self.ln[2 * i + 1](x))
        logits = self.head(self.ln[4](x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.cls, self.pos = (
            nn.Parameter(torch.zeros(1, 1, 16)),
            nn.Parameter(torch.randn(1, 17, 16) * 0.02),
        )
        layer = nn.TransformerEncoderLayer(
            16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any, y: Any) -> Any:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], dim=1) + self.pos
        return F.cross_entropy(self.head(self.encoder(x)[:, 0]), y, label_smoothing=0.1)


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm, self.head = (
            nn.Embedding(31, 16),
            nn.LSTM(16, 24, 2),
            nn.Linear(24, 31),
        )

    def forward(self, x: Any, y: Any) -> Any:
        out, _ = self.lstm(self.embed(x))
        return F.nll_loss(F.log_softmax(self.head(out), dim=2).view(-1, 31), y.reshape(-1))


class GAN(nn.Module):
    """DCGAN's generator and discriminator, by the generator's loss."""

    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Sequential(
            nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
            nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh(),
        )  # fmt: skip
        self.d = nn.Sequential(
            nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(8, 1, 4, 1, 0, bias=False), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, x: Any, y: Any) -> Any:
        return nn.BCELoss()(self.d(self.g(x)).view(-1), y)


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.mu, self.logvar = nn.Linear(20, 16), nn.Linear(16, 4), nn.Linear(16, 4)
        self.b, self.c = nn.Linear(4, 16), nn.Linear(16, 20)

    def forward(self, x: Any, eps: Any) -> Any:
        h = F.relu(self.a(x))
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + eps * torch.exp(0.5 * logvar)
        recon = torch.sigmoid(self.c(F.relu(self.b(z))))
        bce = F.binary_cross_entropy(recon, x, reduction="sum")
        return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


class Bert(nn.Module):
    """A block of BERT's, with a padding mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(31, 16, padding_idx=0)
        self.q, self.k, self.v, self.o = (nn.Linear(16, 16) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(16, eps=1e-12), nn.LayerNorm(16, eps=1e-12)
        self.up, self.down, self.head = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 2)

    def forward(self, ids: Any, y: Any) -> Any:
        x = self.embed(ids)
        mask = (1.0 - (ids != 0).to(x.dtype))[:, None, None, :] * torch.finfo(x.dtype).min

        def heads(t: Any) -> Any:
            return t.view(*t.shape[:2], 2, 8).permute(0, 2, 1, 3)

        scores = torch.matmul(heads(self.q(x)), heads(self.k(x)).transpose(-1, -2)) / math.sqrt(8)
        context = torch.matmul(nn.functional.softmax(scores + mask, dim=-1), heads(self.v(x)))
        x = self.n1(x + self.o(context.permute(0, 2, 1, 3).contiguous().view(x.shape)))
        x = self.n2(x + self.down(F.gelu(self.up(x))))
        return F.cross_entropy(torch.tanh(self.head(x[:, 0])), y)


def images() -> tuple[Any, Any]:
    return torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4,))


def tokens() -> tuple[Any, Any]:
    return torch.randint(1, 31, (4, 12)), torch.randint(0, 31, (4, 12))


def padded() -> tuple[Any, Any]:
    ids = torch.randint(1, 31, (4, 12))
    ids[1, 8:] = 0
    return ids, torch.randint(0, 2, (4,))


SGD = lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4)  # noqa: E731
ADAM = lambda p: torch.optim.Adam(p, lr=1e-3, betas=(0.5, 0.999))  # noqa: E731
ADAMW = lambda p: torch.optim.AdamW(p, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1)  # noqa: E731
PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[], Any], Callable[[Any], Any]]] = {
    "resnet18": (lambda: ResNet(False), images, SGD),
    "resnet50": (lambda: ResNet(True), images, SGD),
    "nanogpt": (lambda: GPT(False), tokens, ADAMW),
    "nanogpt-flash": (lambda: GPT(True), tokens, ADAMW),
    "vit": (ViT, images, ADAMW),
    "lstm": (LanguageModel, tokens, ADAM),
    "dcgan": (GAN, lambda: (torch.randn(4, 8, 1, 1), torch.ones(4)), ADAM),
    "vae": (VAE, lambda: (torch.rand(8, 20), torch.randn(8, 4)), ADAM),
    "bert": (Bert, padded, ADAMW),
}


def trained(
    model: Any, batches: Any, optimizer_of: Any, device: str
) -> tuple[list[float], list[Any]]:
    """The loss of each step, and the gradients of the first."""
    model = copy.deepcopy(model).to(device)
    optimizer = optimizer_of(model.parameters())
    losses, grads = [], []
    for batch in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = model(*[x.to(device) for x in batch])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        grads = grads or [p.grad.detach().cpu().clone() for p in model.parameters()]
        optimizer.step()
        losses.append(loss.item())
    return losses, grads


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_trains_as_on_pytorchs_cpu(name: str) -> None:
    make, batch, optimizer_of = PROGRAMS[name]
    torch.manual_seed(7)
    model, batches = make(), [batch() for _ in range(3)]
    expected, grads = trained(model, batches, optimizer_of, "cpu")
    torch.netcl.reset_fallbacks()
    losses, found = trained(model, batches, optimizer_of, "netcl")
    print(name, [round(x, 5) for x in losses], [round(x, 5) for x in expected])
    assert torch.netcl.fallbacks() == {}
    assert losses == pytest.approx(expected, rel=2e-4)
    for a, b in zip(found, grads, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-5)


def test_lists_of_tensors_are_stepped_in_few_launches() -> None:
    torch.manual_seed(0)
    host = [torch.rand(3, 4) + 1, torch.rand(5) + 1, torch.rand(0), torch.rand(())]
    device = [x.to("netcl") for x in host]
    for number in range(5):
        for xs in (host, device):
            torch._foreach_lerp_(xs, torch._foreach_sqrt(xs), 0.25)
            torch._foreach_addcdiv_(xs, xs, torch._foreach_add(xs, 1), [0.1 * number, 1, 2, 3])
            torch._foreach_add_(xs[:2], torch._foreach_mul(xs, 2)[:2], alpha=0.5)
        for a, b in zip(device, host, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-6)
    with pytest.raises(RuntimeError, match="size"):
        torch._foreach_add_(device[:1], device[1:2])
    for xs in (
        host,
        device,
    ):  # the same tensor twice, views, one of another dtype, a tensor as number
        torch._foreach_mul_([xs[0], xs[0], xs[1]], 3.0)
        torch._foreach_add_(
            [xs[0].t()[1:], xs[1][::2]], [xs[0].t()[1:] + 1, xs[1][:3] + 1], alpha=2
        )
        torch._foreach_div_([xs[0], xs[1]], torch.full((), 7.0).to(xs[0].device))
        torch._foreach_sub_([xs[0], xs[1].double().float()], [xs[0] * 0.5, xs[1].half()])
    for a, b in zip(device, host, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-6)


def test_a_fused_step_takes_another_learning_rate() -> None:
    torch.manual_seed(0)
    host = [torch.randn(3, 4), torch.randn(5), torch.randn(11)]
    device = [x.to("netcl") for x in host]
    steps = [torch.optim.AdamW(xs, 0.1, fused=True) for xs in (host, device)]
    for number in range(5):
        grads = [torch.randn(x.shape) for x in host]
        for optimizer, xs in zip(steps, (host, device), strict=True):
            optimizer.param_groups[0]["lr"] = 0.1 / (number + 1)
            for x, grad in zip(xs, grads, strict=True):
                x.grad = grad.to(x.device)
            optimizer.step()
    for a, b in zip(device, host, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-6)


def test_fused_optimizers_compute_what_the_others_do() -> None:
    kinds: list[tuple[Any, dict[str, Any]]] = [
        (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
        (torch.optim.SGD, {}),
        (torch.optim.Adam, {"weight_decay": 0.1}),
        (torch.optim.AdamW, {"maximize": True, "amsgrad": True}),
    ]
    for kind, options in kinds:
        torch.manual_seed(1)
        here = nn.Linear(4, 4)
        there = copy.deepcopy(here).to("netcl")
        pairs = [
            (here, kind(here.parameters(), lr=0.1, **options), "cpu"),
            (there, kind(there.parameters(), lr=0.1, fused=True, **options), "netcl"),
        ]
        torch.netcl.reset_fallbacks()
        for _ in range(3):
            x = torch.randn(3, 4)
            for model, optimizer, device in pairs:
                optimizer.zero_grad()
                model(x.to(device)).square().mean().backward()
                optimizer.step()
        torch.testing.assert_close(there.weight.cpu(), here.weight, rtol=1e-5, atol=1e-6)
        assert torch.netcl.fallbacks() == {}


def test_two_processes_train_by_gloo(tmp_path: Path) -> None:
    program = Path(__file__).with_name("two_ranks.py")
    other = [sys.executable, str(program), "1", str(tmp_path)]
    with subprocess.Popen(other, stderr=subprocess.PIPE, text=True) as process:
        runpy.run_path(str(program))["main"](0, tmp_path)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
