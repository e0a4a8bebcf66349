"""MAML on sines: an inner step whose gradients are differentiated, by functional_call and by hand."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, 10), nn.ReLU(), nn.Linear(10, 10), nn.Tanh(), nn.Linear(10, 1)
        )

    def forward(self, x):
        return self.net(x)


def task(rng):
    amplitude, phase = rng.uniform(0.5, 2.0), rng.uniform(0, np.pi)
    x = rng.uniform(-2, 2, (20, 1))
    y = amplitude * np.sin(x + phase)
    return [torch.from_numpy(a).float() for a in (x[:10], y[:10], x[10:], y[10:])]


def main():
    rng = np.random.RandomState(0)
    model = MLP()
    for p in model.parameters():
        p.data.copy_(torch.Tensor(rng.uniform(-0.7, 0.7, tuple(p.shape)).astype("float32")))
    meta = torch.optim.Adam(model.parameters(), 1e-2)
    numbers = []
    for _ in range(3):
        meta.zero_grad()
        losses = []
        for _task in range(2):
            xs, ys, xq, yq = task(rng)
            weights = dict(model.named_parameters())
            for _inner in range(2):
                loss = F.mse_loss(functional_call(model, weights, (xs,)), ys)
                grads = torch.autograd.grad(loss, weights.values(), create_graph=True)
                weights = {n: w - 0.1 * g for (n, w), g in zip(weights.items(), grads)}
            losses.append(F.mse_loss(functional_call(model, weights, (xq,)), yq))
        total = torch.stack(losses).mean()
        total.backward()
        meta.step()
        numbers.append(total.item())

    def energy(z):
        return (z.sin() * z).sum() + (z[0] * z[1]) ** 2

    z = torch.tensor([0.5, -0.3, 0.8], requires_grad=True)
    hessian = torch.autograd.functional.hessian(energy, z.detach())
    (gradient,) = torch.autograd.grad(energy(z), z, create_graph=True)
    vector = torch.tensor([1.0, 0.0, -1.0])
    product = torch.autograd.grad(gradient @ vector, z)[0]
    assert torch.allclose(hessian @ vector, product, atol=1e-5)
    value, tangent = torch.autograd.functional.jvp(lambda v: v**3, (z.detach(),), (vector,))
    return [*numbers, *hessian.flatten().tolist(), *tangent.tolist(), value.sum().item()]


if __name__ == "__main__":
    print(main())
