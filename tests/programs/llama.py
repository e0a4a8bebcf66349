"""A small LLaMA: rotary positions, RMS norms, SwiGLU, grouped heads, cached keys, nucleus sampling."""

import math
from dataclasses import dataclass
from typing import Optional, Tuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class ModelArgs:
    dim: int = 32
    n_layers: int = 2
    n_heads: int = 4
    n_kv_heads: Optional[int] = 2
    vocab_size: int = 29
    multiple_of: int = 8
    norm_eps: float = 1e-5
    max_seq_len: int = 32


class RMSNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


def precompute_freqs(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    t = torch.arange(end, device=freqs.device)
    freqs = torch.outer(t, freqs).float()
    return torch.cos(freqs), torch.sin(freqs)


def apply_rotary_emb(x, cos, sin):
    xr, xi = x.float().reshape(x.shape[:-1] + (-1, 2)).unbind(-1)
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    return torch.stack([xr * cos - xi * sin, xr * sin + xi * cos], dim=-1).flatten(3).type_as(x)


def repeat_kv(x: torch.Tensor, n_rep: int) -> torch.Tensor:
    bs, slen, n_kv_heads, head_dim = x.shape
    if n_rep == 1:
        return x
    return (
        x[:, :, :, None, :]
        .expand(bs, slen, n_kv_heads, n_rep, head_dim)
        .reshape(bs, slen, n_kv_heads * n_rep, head_dim)
    )


class Attention(nn.Module):
    def __init__(self, args: ModelArgs):
        super().__init__()
        self.n_kv_heads = args.n_heads if args.n_kv_heads is None else args.n_kv_heads
        self.n_heads, self.head_dim = args.n_heads, args.dim // args.n_heads
        self.n_rep = self.n_heads // self.n_kv_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)
        self.cache: Optional[Tuple[torch.Tensor, torch.Tensor]] = None

    def forward(self, x, start_pos, cos, sin, mask, use_cache):
        bsz, seqlen, _ = x.shape
        xq = self.wq(x).view(bsz, seqlen, self.n_heads, self.head_dim)
        xk = self.wk(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xv = self.wv(x).view(bsz, seqlen, self.n_kv_heads, self.head_dim)
        xq, xk = apply_rotary_emb(xq, cos, sin), apply_rotary_emb(xk, cos, sin)
        if use_cache:
            if start_pos == 0 or self.cache is None:
                shape = (bsz, 32, self.n_kv_heads, self.head_dim)
                self.cache = (torch.zeros(shape).to(x), torch.zeros(shape).to(x))
            self.cache[0][:bsz, start_pos : start_pos + seqlen] = xk
            self.cache[1][:bsz, start_pos : start_pos + seqlen] = xv
            xk = self.cache[0][:bsz, : start_pos + seqlen]
            xv = self.cache[1][:bsz, : start_pos + seqlen]
        keys, values = (
            repeat_kv(xk, self.n_rep).transpose(1, 2),
            repeat_kv(xv, self.n_rep).transpose(1, 2),
        )
        scores = torch.matmul(xq.transpose(1, 2), keys.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores + mask
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, values).transpose(1, 2).contiguous().view(bsz, seqlen, -1)
        return self.wo(output)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, multiple_of):
        super().__init__()
        hidden_dim = multiple_of * ((int(2 * hidden_dim / 3) + multiple_of - 1) // multiple_of)
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, layer_id: int, args: ModelArgs):
        super().__init__()
        self.attention = Attention(args)
        self.feed_forward = FeedForward(args.dim, 4 * args.dim, args.multiple_of)
        self.layer_id = layer_id
        self.attention_norm = RMSNorm(args.dim, eps=args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, eps=args.norm_eps)

    def forward(self, x, *rest):
        h = x + self.attention.forward(self.attention_norm(x), *rest)
        return h + self.feed_forward.forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, params: ModelArgs):
        super().__init__()
        self.params = params
        self.tok_embeddings = nn.Embedding(params.vocab_size, params.dim)
        self.layers = torch.nn.ModuleList()
        for layer_id in range(params.n_layers):
            self.layers.append(Block(layer_id, params))
        self.norm = RMSNorm(params.dim, eps=params.norm_eps)
        self.output = nn.Linear(params.dim, params.vocab_size, bias=False)
        self.tok_embeddings.weight = self.output.weight
        cos, sin = precompute_freqs(params.dim // params.n_heads, params.max_seq_len * 2)
        self.register_buffer("freqs_cos", cos, persistent=False)
        self.register_buffer("freqs_sin", sin, persistent=False)
        self.last_loss = None

    def forward(self, tokens, start_pos=0, targets=None):
        _bsz, seqlen = tokens.shape
        h = self.tok_embeddings(tokens)
        cos = self.freqs_cos[start_pos : start_pos + seqlen]
        sin = self.freqs_sin[start_pos : start_pos + seqlen]
        mask = None
        if seqlen > 1:
            mask = torch.full((seqlen, seqlen), float("-inf"), device=tokens.device)
            mask = torch.triu(mask, diagonal=1)
            mask = torch.hstack(
                [torch.zeros((seqlen, start_pos), device=tokens.device), mask]
            ).type_as(h)
        for layer in self.layers:
            h = layer(h, start_pos, cos, sin, mask, targets is None)
        h = self.norm(h)
        if targets is not None:
            logits = self.output(h)
            self.last_loss = F.cross_entropy(
                logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
            )
            return logits
        return self.output(h[:, [-1], :]).float()


def sample_top_p(probs, p):
    probs_sort, probs_idx = torch.sort(probs, dim=-1, descending=True)
    probs_sum = torch.cumsum(probs_sort, dim=-1)
    mask = probs_sum - probs_sort > p
    probs_sort[mask] = 0.0
    probs_sort.div_(probs_sort.sum(dim=-1, keepdim=True))
    return torch.gather(probs_idx, -1, torch.argmax(probs_sort, dim=-1, keepdim=True)), probs_sort


@torch.inference_mode()
def generate(model, prompt, n):
    tokens = torch.full(
        (1, len(prompt) + n), -1, dtype=torch.long, device=next(model.parameters()).device
    )
    tokens[0, : len(prompt)] = torch.tensor(prompt, dtype=torch.long)
    prev, kept = 0, 0.0
    for cur in range(len(prompt), len(prompt) + n):
        logits = model(tokens[:, prev:cur], prev)
        probs = torch.softmax(logits[:, -1] / 0.8, dim=-1)
        nxt, probs = sample_top_p(probs, 0.9)
        tokens[:, cur] = nxt.reshape(-1)
        kept += probs.max().item()
        prev = cur
    return tokens[0].tolist(), kept


def configure(model, weight_decay, lr):
    params = {pn: p for pn, p in model.named_parameters() if p.requires_grad}
    decay = [p for n, p in params.items() if p.dim() >= 2]
    nodecay = [p for n, p in params.items() if p.dim() < 2]
    groups = [
        {"params": decay, "weight_decay": weight_decay},
        {"params": nodecay, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95), fused=False)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = Transformer(ModelArgs())
    rng = np.random.RandomState(0)
    for pn, p in model.named_parameters():
        if p.dim() > 1:
            scale = 0.1 / math.sqrt(2) if pn.endswith(("w3.weight", "wo.weight")) else 0.1
            p.data = torch.tensor(rng.normal(0.0, scale, tuple(p.shape)), dtype=torch.float32)
    model.to(device)
    optimizer = configure(model, 0.1, 3e-3)
    text = [(7 * i * i + 3 * i) % 29 for i in range(400)]
    data = torch.tensor(text, dtype=torch.long)
    history = []
    for it in range(10):
        ix = rng.randint(0, len(data) - 17, (4,))
        x = torch.stack([data[i : i + 16] for i in ix]).to(device, non_blocking=True)
        y = torch.stack([data[i + 1 : i + 17] for i in ix]).to(device, non_blocking=True)
        model(x, targets=y)
        loss = model.last_loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        history += [loss.item(), float(norm)]
    model.eval()
    tokens, kept = generate(model, text[:5], 8)
    n = sum(p.numel() for p in model.parameters())
    return [*history, *map(float, tokens), kept, float(n)]
