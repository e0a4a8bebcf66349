"""A temporal convolutional network with weight norm, a custom function, hooks and a schedule of one cycle."""

import numpy as np
import torch
import torch.nn as nn
from torch.nn.utils import weight_norm


class Chomp1d(nn.Module):
    def __init__(self, chomp_size):
        super(Chomp1d, self).__init__()
        self.chomp_size = chomp_size

    def forward(self, x):
        return x[:, :, : -self.chomp_size].contiguous()


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, levels):
        ctx.save_for_backward(input)
        ctx.levels = levels
        return torch.round(input * levels) / levels

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.abs() > 2] = 0
        return grad_input, None


class TemporalBlock(nn.Module):
    def __init__(self, n_inputs, n_outputs, kernel_size, stride, dilation, padding, dropout=0.0):
        super(TemporalBlock, self).__init__()
        self.conv1 = weight_norm(
            nn.Conv1d(
                n_inputs, n_outputs, kernel_size, stride=stride, padding=padding, dilation=dilation
            )
        )
        self.net = nn.Sequential(self.conv1, Chomp1d(padding), nn.ReLU(), nn.Dropout(dropout))
        self.downsample = nn.Conv1d(n_inputs, n_outputs, 1) if n_inputs != n_outputs else None
        self.relu = nn.ReLU()

    def forward(self, x):
        out = self.net(x)
        res = x if self.downsample is None else self.downsample(x)
        return self.relu(out + res)


class TCN(nn.Module):
    def __init__(self, num_inputs, num_channels, kernel_size=2):
        super().__init__()
        layers = []
        for i in range(len(num_channels)):
            size = 2**i
            ins = num_inputs if i == 0 else num_channels[i - 1]
            layers += [
                TemporalBlock(ins, num_channels[i], kernel_size, 1, size, (kernel_size - 1) * size)
            ]
        self.network = nn.Sequential(*layers)
        self.head = nn.Linear(num_channels[-1], 1)

    def forward(self, x):
        y = self.network(x)[:, :, -1]
        return self.head(RoundSTE.apply(y, 64))


def main():
    rng = np.random.RandomState(0)
    t = np.arange(60, dtype=np.float32)
    series = torch.from_numpy(np.sin(t / 3) + 0.05 * rng.randn(60).astype(np.float32))
    windows = series.unfold(0, 13, 4)
    x, y = windows[:, :12].unsqueeze(1), windows[:, 12:]
    model = TCN(1, [4, 4, 6])
    state = {
        k: torch.from_numpy(rng.normal(0, 0.4, tuple(v.shape))).to(v)
        for k, v in model.state_dict().items()
    }
    state = {
        k: v.abs() + 0.5 if k.endswith("_g") or "original0" in k else v for k, v in state.items()
    }
    model.load_state_dict(state)
    seen, gradients = {}, []
    handle = model.network[1].register_forward_hook(
        lambda m, i, o: seen.update(mean=o.detach().mean())
    )
    model.head.weight.register_hook(lambda g: gradients.append(g.norm().item()))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=6)
    loss_fn = nn.HuberLoss(delta=0.5)
    numbers = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        numbers += [loss.item(), scheduler.get_last_lr()[0]]
    handle.remove()
    mean = seen.pop("mean")
    model(x[:1])
    assert not seen
    mae = (model(x) - y).abs().mean()
    return [*numbers, *gradients, mean.item(), mae.item()]


if __name__ == "__main__":
    print(main())
