"""RealNVP: coupling layers with masks, log determinants, and an inverse that gives the data back."""

import math

import numpy as np
import torch
from torch import nn, optim


class CouplingLayer(nn.Module):
    def __init__(self, dim, hidden, mask):
        super().__init__()
        self.register_buffer("mask", mask)
        self.s = nn.Sequential(
            nn.Linear(dim, hidden), nn.LeakyReLU(), nn.Linear(hidden, dim), nn.Tanh()
        )
        self.t = nn.Sequential(nn.Linear(dim, hidden), nn.LeakyReLU(), nn.Linear(hidden, dim))

    def forward(self, x):
        masked = x * self.mask
        s, t = self.s(masked) * (1 - self.mask), self.t(masked) * (1 - self.mask)
        return masked + (1 - self.mask) * (x * s.exp() + t), s.sum(dim=1)

    def inverse(self, y):
        masked = y * self.mask
        s, t = self.s(masked) * (1 - self.mask), self.t(masked) * (1 - self.mask)
        return masked + (1 - self.mask) * ((y - t) * torch.exp(-s))


class RealNVP(nn.Module):
    def __init__(self, masks):
        super().__init__()
        self.layers = nn.ModuleList(CouplingLayer(2, 8, m) for m in masks)

    def log_prob(self, x):
        log_det = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, ld = layer(x)
            log_det += ld
        prior = -0.5 * (x**2 + math.log(2 * math.pi)).sum(-1)
        return prior + log_det, x

    def inverse(self, z):
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def moons(rng, n):
    angle = rng.uniform(0, math.pi, n)
    x = np.stack([np.cos(angle), np.sin(angle)], 1)
    x[n // 2 :] = [1.0, 0.5] - x[n // 2 :]
    return torch.tensor(x + 0.05 * rng.randn(n, 2), dtype=torch.get_default_dtype())


def main():
    rng = np.random.RandomState(0)
    masks = torch.tensor([[0.0, 1.0], [1.0, 0.0]] * 2)
    flow = RealNVP(masks)
    torch.nn.utils.vector_to_parameters(
        torch.tensor(
            rng.uniform(-0.4, 0.4, sum(p.numel() for p in flow.parameters())).astype("f4")
        ),
        flow.parameters(),
    )
    optimizer = optim.Adamax(flow.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
    numbers = []
    for _ in range(5):
        loss = -flow.log_prob(moons(rng, 32))[0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        numbers.append(loss.item())
    x = moons(rng, 8)
    with torch.no_grad():
        _, z = flow.log_prob(x)
        error = (flow.inverse(z) - x).abs().max()
        assert error < 1e-4, error
        torch.manual_seed(0)
        samples = flow.inverse(torch.randn(50, 2))
        assert samples.isfinite().all() and samples.shape == (50, 2)
        density = torch.logsumexp(flow.log_prob(x)[0], 0)
    flat = torch.nn.utils.parameters_to_vector(flow.parameters())
    return [*numbers, density.item(), flat.norm().item(), z.median(0).values.sum().item()]


if __name__ == "__main__":
    print(main())
