"""A convolutional network that tells drawn shapes apart."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


def pictures(count):
    """Pictures of 16 x 16 pixels with a horizontal bar, a vertical bar, or a square."""
    draw = np.random.default_rng(0)
    images = draw.normal(0, 0.3, (count, 1, 16, 16)).astype(np.float32)
    kinds = np.arange(count) % 3
    for image, kind in zip(images, kinds, strict=True):
        top, left = draw.integers(0, 10, 2)
        height, width = [(2, 6), (6, 2), (5, 5)][kind]
        image[0, top : top + height, left : left + width] += 1
    return torch.from_numpy(images), torch.from_numpy(kinds)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 12, kernel_size=3)
        self.pool = nn.MaxPool2d(2)
        self.fc1 = nn.Linear(12 * 3 * 3, 32)
        self.fc2 = nn.Linear(32, 3)

    def forward(self, x):
        x = self.pool(F.relu(self.norm(self.conv1(x))))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        return self.fc2(F.relu(self.fc1(x)))


def fill(model):
    draw = np.random.default_rng(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if not name.startswith("norm"):
                p.copy_(torch.tensor(draw.normal(0, 0.15, tuple(p.shape)).astype(np.float32)))


def main():
    images, kinds = pictures(120)
    device = images.device
    model = Net().to(device)
    fill(model)
    optimizer = optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    losses = []
    for epoch in range(3):
        for x, y in DataLoader(TensorDataset(images, kinds), batch_size=30):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        output = model(images)
        losses.append(F.nll_loss(F.log_softmax(output, dim=1), kinds).item())
        losses.append(output.argmax(1, keepdim=True).eq(kinds.view(-1, 1)).float().mean().item())
    assert sorted(model.state_dict())[:2] == ["conv1.bias", "conv1.weight"]
    other = Net()
    other.load_state_dict(model.state_dict())
    other.eval()
    losses.append((other(images) - output).abs().max().item())
    losses.append(float(sum(p.numel() for p in model.parameters() if p.requires_grad)))
    return losses


if __name__ == "__main__":
    print(main())
