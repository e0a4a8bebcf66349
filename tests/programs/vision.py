"""A vision transformer with mixup, stochastic depth, warm-up, layer decay and a mixture of experts."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchEmbed(nn.Module):
    def __init__(self, img_size=8, patch_size=4, in_chans=3, embed_dim=12):
        super().__init__()
        self.num_patches = (img_size // patch_size) ** 2
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x):
        return self.proj(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, dim, num_heads=2, qkv_bias=True, attn_drop=0.0):
        super().__init__()
        self.num_heads, self.scale = num_heads, (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.attn_drop, self.proj = nn.Dropout(attn_drop), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = (
            self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        )
        q, k, v = qkv.unbind(0)
        attn = (q @ k.transpose(-2, -1)) * self.scale
        attn = self.attn_drop(attn.softmax(dim=-1))
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Experts(nn.Module):
    def __init__(self, dim, hidden, count=3, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, count, bias=False)
        self.w1 = nn.Parameter(torch.empty(count, dim, hidden))
        self.w2 = nn.Parameter(torch.empty(count, hidden, dim))
        for w in (self.w1, self.w2):
            nn.init.kaiming_uniform_(w, a=math.sqrt(5))

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        weights, chosen = torch.topk(self.gate(x).softmax(-1), self.k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e in range(self.w1.shape[0]):
            rows, slot = torch.where(chosen == e)
            if rows.numel() == 0:
                continue
            hidden = F.silu(x[rows] @ self.w1[e]) @ self.w2[e]
            out.index_add_(0, rows, hidden * weights[rows, slot, None])
        return out.view(shape)


def drop_path(x, drop_prob=0.0, training=False):
    if drop_prob == 0.0 or not training:
        return x
    keep_prob = 1 - drop_prob
    shape = (x.shape[0],) + (1,) * (x.ndim - 1)
    random_tensor = x.new_empty(shape).bernoulli_(keep_prob)
    return x * random_tensor.div_(keep_prob)


class Block(nn.Module):
    def __init__(self, dim, drop):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim, eps=1e-6), Attention(dim)
        self.norm2, self.mlp = nn.LayerNorm(dim, eps=1e-6), Experts(dim, 2 * dim)
        self.drop = drop

    def forward(self, x):
        x = x + drop_path(self.attn(self.norm1(x)), self.drop, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.drop, self.training)


class VisionTransformer(nn.Module):
    def __init__(self, depth=2, dim=12, classes=4):
        super().__init__()
        self.patch_embed = PatchEmbed(embed_dim=dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, self.patch_embed.num_patches + 1, dim))
        dpr = [x.item() for x in torch.linspace(0, 0.0, depth)]
        self.blocks = nn.Sequential(*[Block(dim, dpr[i]) for i in range(depth)])
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        self.apply(self._init_weights)

    def _init_weights(self, m):
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.patch_embed(x)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


def main():
    rng = np.random.RandomState(0)
    model = VisionTransformer()
    for _, p in sorted(model.named_parameters()):
        if p.dim() > 1:
            p.data.copy_(torch.from_numpy(rng.normal(0, 0.3, tuple(p.shape))))
    model.patch_embed.proj.bias.data.zero_()
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and "pos" not in n]
    rest = [p for n, p in model.named_parameters() if not (p.ndim > 1 and "pos" not in n)]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=4e-3
    )
    lr_lambda = lambda step: min(1.0, (step + 1) / 2) * 0.5 * (1 + math.cos(math.pi * step / 6))
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda)
    numbers = []
    for _step in range(4):
        x = torch.from_numpy(rng.rand(4, 3, 8, 8).astype(np.float32))
        target = F.one_hot(torch.from_numpy(rng.randint(0, 4, 4)), num_classes=4).float()
        lam, index = 0.3, torch.tensor([2, 0, 3, 1])
        x = lam * x + (1 - lam) * x[index]
        x = torch.flip(x, dims=[3]) if _step % 2 else x.roll(1, dims=-1)
        target = lam * target + (1 - lam) * target[index, :]
        loss = torch.sum(-target * F.log_softmax(model(x), dim=-1), dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        numbers.append(loss.item())
    model.eval()
    with torch.no_grad():
        probs = model(x).softmax(-1)
        top = probs.topk(2).indices.eq(target.argmax(-1, keepdim=True)).any(-1).float().mean()
    count = sum(p.numel() for p in model.parameters())
    return [*numbers, top.item(), float(count), probs.max(-1).values.sum().item()]


if __name__ == "__main__":
    print(main())
