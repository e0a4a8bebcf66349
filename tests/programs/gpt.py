"""A small GPT: embeddings, causal attention, blocks, a warm-up, weight decay for matrices alone."""

import math

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width, bias=False)

    def forward(self, x):
        B, T, C = x.size()
        parts = self.qkv(x).split(C, dim=2)
        q, k, v = (p.view(B, T, self.heads, C // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).contiguous().view(B, T, C))


class WrittenOutAttention(CausalSelfAttention):
    """The same with a mask and a softmax."""

    def __init__(self, width, heads, length):
        super().__init__(width, heads)
        mask = torch.tril(torch.ones(length, length)).view(1, 1, length, length)
        self.register_buffer("mask", mask)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (p.view(B, T, self.heads, -1).transpose(1, 2) for p in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, width, attention):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = attention
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict(
            {
                "fc": nn.Linear(width, 4 * width),
                "act": nn.GELU(approximate="tanh"),
                "proj": nn.Linear(4 * width, width),
                "drop": nn.Dropout(0.0),
            }
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        h = self.ln_2(x)
        for layer in self.mlp.values():
            h = layer(h)
        return x + h


class GPT(nn.Module):
    def __init__(self, letters, length=16, width=32, heads=4):
        super().__init__()
        self.length = length
        self.wte = nn.Embedding(letters, width)
        self.wpe = nn.Embedding(length, width)
        kinds = CausalSelfAttention(width, heads), WrittenOutAttention(width, heads, length)
        self.blocks = nn.ModuleList([Block(width, kind) for kind in kinds])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        self.wte.weight = self.head.weight  # one table for both

    def forward(self, idx, targets=None):
        places = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(places)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln_f(x))
        if targets is None:
            return logits, None
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, count):
        for _ in range(count):
            logits, _ = self(idx[:, -self.length :])
            probs = F.softmax(logits[:, -1, :] / 0.8, dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, num_samples=1)), dim=1)
        return idx


def fill(model):
    draw = np.random.default_rng(0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() >= 2:
                p.copy_(torch.tensor(draw.normal(0, 0.08, tuple(p.shape)).astype(np.float32)))
            elif name.endswith("bias"):
                nn.init.zeros_(p)


def main():
    letters, length = 11, 16
    model = GPT(letters, length)
    fill(model)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": 0.1},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    # each row counts upwards from somewhere, by 1, 2 or 3
    draw = np.random.default_rng(1)
    losses = []
    model.train()
    for step in range(12):
        start, by = draw.integers(0, letters, (8, 1)), draw.integers(1, 4, (8, 1))
        rows = torch.from_numpy((start + by * np.arange(length + 1)) % letters)
        x, y = rows[:, :-1], rows[:, 1:].clone()
        y[:, 0] = -1  # the first step cannot be known
        logits, loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    torch.manual_seed(0)
    text = model.generate(torch.zeros((1, 1), dtype=torch.long), 4)
    assert text.shape == (1, 5) and 0 <= text.min().item() and text.max().item() < letters
    losses.append(optimizer.param_groups[1]["lr"])
    return losses


if __name__ == "__main__":
    print(main())
