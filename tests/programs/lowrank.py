"""LoRA: a frozen transformer with low-rank updates, merged in the end; prefixes, and pruned weights."""

import math
from collections import OrderedDict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

device = "cuda" if torch.cuda.is_available() else "cpu"


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r: int = 2, lora_alpha: int = 4, dropout: float = 0.0):
        super().__init__()
        self.base = base
        self.r, self.scaling, self.merged = r, lora_alpha / r, False
        self.lora_A = nn.Parameter(base.weight.new_zeros((r, base.in_features)))
        self.lora_B = nn.Parameter(base.weight.new_zeros((base.out_features, r)))
        self.dropout = nn.Dropout(p=dropout) if dropout > 0.0 else nn.Identity()
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        nn.init.zeros_(self.lora_B)

    def train(self, mode: bool = True):
        super().train(mode)
        if mode == self.merged:
            delta = (self.lora_B @ self.lora_A) * self.scaling
            self.base.weight.data += -delta if self.merged else delta
            self.merged = not mode
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.base(x)
        if not self.merged:
            y = y + self.dropout(x) @ self.lora_A.T @ self.lora_B.T * self.scaling
        return y

    def extra_repr(self) -> str:
        return f"r={self.r}, scaling={self.scaling}"


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim)
        self.kv_proj = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, prefix):
        B, T, C = x.shape
        q = self.q_proj(x).view(B, T, self.heads, C // self.heads).transpose(1, 2)
        k, v = self.kv_proj(torch.cat([prefix.expand(B, -1, -1), x], dim=1)).chunk(2, dim=-1)
        k = k.view(B, -1, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, -1, self.heads, C // self.heads).transpose(1, 2)
        bias = torch.zeros(T, k.size(-2), device=x.device)
        bias.masked_fill_(torch.ones_like(bias).tril(k.size(-2) - T).logical_not(), float("-inf"))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(dim), Attention(dim, 2), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            OrderedDict(
                [("fc", nn.Linear(dim, 16)), ("act", nn.GELU("tanh")), ("proj", nn.Linear(16, dim))]
            )
        )

    def forward(self, x, prefix):
        x = x + self.attn(self.ln_1(x), prefix)
        return x + self.mlp(self.ln_2(x))


class Model(nn.Module):
    def __init__(self, vocab=11, dim=8, layers=2):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.prefix = nn.ParameterList([torch.zeros(1, 2, dim) for _ in range(layers)])
        self.h = nn.ModuleList([Block(dim) for _ in range(layers)])
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        self.lm_head.weight = self.wte.weight
        self.gradient_checkpointing = False

    def forward(self, ids):
        x = self.wte(ids)
        for block, prefix in zip(self.h, self.prefix):
            if self.gradient_checkpointing and self.training:
                x = checkpoint(block, x, prefix, use_reentrant=False)
            else:
                x = block(x, prefix)
        return self.lm_head(x)


def inject(model, targets=("q_proj", "kv_proj")):
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and name.split(".")[-1] in targets:
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.split(".")[-1], LoRALinear(module))


def main():
    rng = np.random.RandomState(0)
    model = Model()
    for p in model.parameters():
        p.data = torch.tensor(rng.randn(*p.shape) * 0.4, dtype=p.dtype)
    inject(model)
    for n, p in model.named_parameters():
        p.requires_grad = "lora_" in n or n.startswith("prefix")
        if n.endswith("lora_A"):
            p.data.copy_(torch.from_numpy(rng.uniform(-0.3, 0.3, p.shape)))
    model.to(device)
    model.gradient_checkpointing = True
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    total = sum(p.numel() for p in model.parameters())
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=2e-2, weight_decay=0.01
    )
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4),
        ],
        milestones=[2],
    )
    ids = torch.from_numpy(rng.randint(0, 11, (3, 7))).to(device)
    numbers = [trainable / total]
    model.train()
    for _ in range(4):
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(
            logits.reshape(-1, logits.size(-1)), ids[:, 1:].reshape(-1), ignore_index=0
        )
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        numbers.append(loss.item())
    with torch.no_grad():
        before = model(ids)
        model.eval()
        assert all(m.merged for m in model.modules() if isinstance(m, LoRALinear))
        after = model(ids)
    assert torch.allclose(before, after, atol=1e-5), (before - after).abs().max()
    lora = {k: v.cpu() for k, v in model.state_dict().items() if "lora_" in k}
    missing, unexpected = model.load_state_dict(lora, strict=False)
    assert len(unexpected) == 0 and len(missing) > len(lora)
    weight = model.h[0].mlp.fc.weight
    threshold = weight.abs().flatten().kthvalue(weight.numel() // 2).values
    mask = (weight.abs() > threshold).float()

    def prune(module, inputs):
        module.weight.data.mul_(mask)

    handle = model.h[0].mlp.fc.register_forward_pre_hook(prune)
    with torch.no_grad():
        pruned = model(ids).log_softmax(-1).max(-1)[0].mean()
    handle.remove()
    return [*numbers, pruned.item(), (weight == 0).float().mean().item()]


if __name__ == "__main__":
    print(main())
