"""Two networks against each other: one draws small pictures, one tells drawn from given."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Generator(nn.Module):
    def __init__(self, noise=8):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(noise, 16, 4, 1, 0, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(True),
            nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(16, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.main(x).view(-1)


def weights(module):
    """The first values of a layer: convolutions narrow, norms about 1."""
    name = module.__class__.__name__
    if name.find("Conv") != -1:
        draw = np.random.default_rng(module.weight.numel())
        values = draw.normal(0.0, 0.1, tuple(module.weight.shape)).astype(np.float32)
        with torch.no_grad():
            module.weight.copy_(torch.from_numpy(values))
    elif name.find("BatchNorm") != -1:
        nn.init.constant_(module.weight, 1.0)
        nn.init.constant_(module.bias, 0)


def main():
    draw = np.random.default_rng(0)
    rows, columns = np.mgrid[0:8, 0:8]
    real = np.sin(rows * draw.uniform(0.5, 1, (64, 1, 1)) + columns)[:, None].astype(np.float32)
    loader = DataLoader(TensorDataset(torch.from_numpy(real)), batch_size=16, drop_last=True)
    net_g, net_d = Generator(), Discriminator()
    net_g.apply(weights)
    net_d.apply(weights)
    criterion = nn.BCELoss()
    optimizer_d = torch.optim.Adam(net_d.parameters(), lr=1e-2, betas=(0.5, 0.999))
    optimizer_g = torch.optim.Adam(net_g.parameters(), lr=1e-2, betas=(0.5, 0.999))
    losses = []
    for epoch in range(2):
        for (images,) in loader:
            count = images.size(0)
            # the discriminator: given pictures are 1, drawn ones 0
            net_d.zero_grad()
            label = torch.full((count,), 1.0, dtype=torch.float32)
            error_real = criterion(net_d(images), label)
            error_real.backward()
            noise = torch.from_numpy(draw.normal(size=(count, 8, 1, 1)).astype(np.float32))
            fake = net_g(noise)
            label.fill_(0.0)
            error_fake = criterion(net_d(fake.detach()), label)
            error_fake.backward()
            optimizer_d.step()
            # the generator: what it draws should count as given
            net_g.zero_grad()
            label.fill_(1.0)
            error_g = criterion(net_d(fake), label)
            error_g.backward()
            optimizer_g.step()
            losses += [(error_real + error_fake).item(), error_g.item()]
    return losses


if __name__ == "__main__":
    print(main())
