"""Denoising diffusion: a schedule, embedded time, an average of the weights, samples step by step."""

import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def extract(a, t, x_shape):
    batch_size = t.shape[0]
    out = a.gather(-1, t.cpu())
    return out.reshape(batch_size, *((1,) * (len(x_shape) - 1))).to(t.device)


class SinusoidalPositionEmbeddings(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, time):
        device = time.device
        half_dim = self.dim // 2
        embeddings = math.log(10000) / (half_dim - 1)
        embeddings = torch.exp(torch.arange(half_dim, device=device) * -embeddings)
        embeddings = time[:, None] * embeddings[None, :]
        return torch.cat((embeddings.sin(), embeddings.cos()), dim=-1)


class Denoiser(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.time_mlp = nn.Sequential(SinusoidalPositionEmbeddings(8), nn.Linear(8, 8), nn.SiLU())
        self.into = nn.Conv2d(1, channels, 3, padding=1)
        self.norm = nn.GroupNorm(2, channels)
        self.scale_shift = nn.Linear(8, channels * 2)
        self.qkv = nn.Conv2d(channels, channels * 3, 1, bias=False)
        self.out = nn.Conv2d(channels, 1, 3, padding=1)
        self.register_buffer("shift", torch.zeros(1), persistent=False)

    def forward(self, x, time):
        t = self.scale_shift(self.time_mlp(time))
        scale, shift = t[:, :, None, None].chunk(2, dim=1)
        h = F.silu(self.norm(self.into(x)) * (scale + 1) + shift)
        b, c, height, width = h.shape
        q, k, v = map(
            lambda part: part.reshape(b, 2, c // 2, height * width), self.qkv(h).chunk(3, dim=1)
        )
        sim = torch.einsum("b h d i, b h d j -> b h i j", q * (c // 2) ** -0.5, k)
        sim = sim - sim.amax(dim=-1, keepdim=True).detach()
        out = torch.einsum("b h i j, b h d j -> b h i d", sim.softmax(dim=-1), v)
        out = out.permute(0, 1, 3, 2).reshape(b, c, height, width)
        return self.out(h + out) + self.shift


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for shadow, param in zip(self.shadow.parameters(), model.parameters()):
            shadow.lerp_(param, 1 - self.decay)
        for key, buffer in model.named_buffers():
            dict(self.shadow.named_buffers())[key].copy_(buffer)


def main():
    timesteps = 20
    betas = torch.linspace(0.0001, 0.02, timesteps)
    alphas = 1.0 - betas
    alphas_cumprod = torch.cumprod(alphas, axis=0)
    alphas_cumprod_prev = F.pad(alphas_cumprod[:-1], (1, 0), value=1.0)
    posterior_variance = betas * (1.0 - alphas_cumprod_prev) / (1.0 - alphas_cumprod)
    rng = np.random.RandomState(0)
    model = Denoiser()
    with torch.no_grad():
        for p in model.parameters():
            p[...] = torch.as_tensor(rng.normal(0, 0.2, tuple(p.shape)), dtype=p.dtype)
    ema = EMA(model, 0.9)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.99))
    numbers = []
    for _step in range(5):
        x_start = torch.from_numpy(rng.rand(4, 1, 4, 4).astype(np.float32)) * 2 - 1
        noise = torch.from_numpy(rng.randn(4, 1, 4, 4).astype(np.float32))
        t = torch.from_numpy(rng.randint(0, timesteps, (4,))).long()
        x_noisy = (
            extract(alphas_cumprod.sqrt(), t, x_start.shape) * x_start
            + extract(torch.sqrt(1.0 - alphas_cumprod), t, x_start.shape) * noise
        )
        loss = F.smooth_l1_loss(noise, model(x_noisy, t))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        numbers.append(loss.item())
    with torch.no_grad():
        img = torch.from_numpy(rng.randn(2, 1, 4, 4).astype(np.float32))
        for i in reversed(range(0, timesteps, 5)):
            t = torch.full((2,), i, dtype=torch.long)
            mean = extract(1 / alphas.sqrt(), t, img.shape) * (
                img
                - extract(betas, t, img.shape)
                * ema.shadow(img, t)
                / extract((1 - alphas_cumprod).sqrt(), t, img.shape)
            )
            img = mean + torch.sqrt(extract(posterior_variance, t, img.shape)) * 0.1
            img.clamp_(-1.0, 1.0)
    return [*numbers, img.mean().item(), img.std(unbiased=False).item()]


if __name__ == "__main__":
    print(main())
