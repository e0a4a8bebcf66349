"""A network that solves a damped oscillator by its equation, and heat by finite differences."""

import numpy as np
import torch
import torch.nn as nn


class FCN(nn.Module):
    def __init__(self, N_INPUT, N_OUTPUT, N_HIDDEN, N_LAYERS):
        super().__init__()
        activation = nn.Tanh
        self.fcs = nn.Sequential(*[nn.Linear(N_INPUT, N_HIDDEN), activation()])
        self.fch = nn.Sequential(
            *[
                nn.Sequential(*[nn.Linear(N_HIDDEN, N_HIDDEN), activation()])
                for _ in range(N_LAYERS - 1)
            ]
        )
        self.fce = nn.Linear(N_HIDDEN, N_OUTPUT)

    def forward(self, x):
        return self.fce(self.fch(self.fcs(x)))


def heat(steps):
    u = torch.zeros(10, 10, dtype=torch.float64)
    u[0, :], u[:, 0] = 1.0, 0.5
    source = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    for _ in range(steps):
        new = u.clone()
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        new[4:6, 4:6] += source
        u = new
    u.sum().backward()
    return [u.mean().item(), u[5, 5].item(), source.grad.item()]


def main():
    rng = np.random.RandomState(123)
    torch.manual_seed(123)
    pinn = FCN(1, 1, 12, 2)
    for layer in pinn.modules():
        if isinstance(layer, nn.Linear):
            layer.weight.data = torch.tensor(rng.normal(0, 0.5, layer.weight.shape)).float()
            nn.init.zeros_(layer.bias)
    t_boundary = torch.tensor(0.0).view(-1, 1).requires_grad_(True)
    t_physics = torch.linspace(0, 1, 20).view(-1, 1).requires_grad_(True)
    d, w0 = 2, 5
    mu, k = 2 * d, w0**2
    c = nn.Parameter(torch.zeros(1, requires_grad=True))
    optimiser = torch.optim.Adam(list(pinn.parameters()) + [c], lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimiser, step_size=3, gamma=0.5)
    numbers = []
    for _i in range(6):
        optimiser.zero_grad()
        u = pinn(t_boundary)
        loss1 = (torch.squeeze(u) - 1) ** 2
        dudt = torch.autograd.grad(u, t_boundary, torch.ones_like(u), create_graph=True)[0]
        loss2 = (torch.squeeze(dudt) - 0) ** 2
        u = pinn(t_physics)
        dudt = torch.autograd.grad(u, t_physics, torch.ones_like(u), create_graph=True)[0]
        d2udt2 = torch.autograd.grad(dudt, t_physics, torch.ones_like(dudt), create_graph=True)[0]
        loss3 = torch.mean((d2udt2 + (mu + c) * dudt + k * u) ** 2)
        loss = loss1 + 1e-1 * loss2 + 1e-4 * loss3
        loss.backward()
        optimiser.step()
        scheduler.step()
        numbers.append(loss.item())
    jacobian = torch.autograd.functional.jacobian(lambda x: (x**3).sum(0), torch.ones(2, 2))
    return [*numbers, c.item(), scheduler.get_last_lr()[0], *jacobian.flatten().tolist(), *heat(4)]


if __name__ == "__main__":
    print(main())
