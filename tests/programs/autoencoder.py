"""A variational autoencoder, with its reparametrization, its two-part loss and samples at the end."""

from __future__ import print_function

import numpy as np
import torch
import torch.utils.data
from torch import Tensor, nn, optim
from torch.nn import functional as F

torch.manual_seed(42)
if torch.accelerator.is_available():
    device = torch.accelerator.current_accelerator()
else:
    device = torch.device("cpu")
kwargs = {"num_workers": 0, "pin_memory": True, "persistent_workers": False}


class VAE(nn.Module):
    def __init__(self, size: int = 36, hidden: int = 24, latent: int = 4) -> None:
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(in_features=size, out_features=hidden)
        self.fc21 = nn.Linear(hidden, latent)
        self.fc22 = nn.Linear(hidden, latent)
        self.fc3 = nn.Linear(latent, hidden)
        self.fc4 = nn.Linear(hidden, size)
        self.register_buffer("scale", torch.ones(1))

    def encode(self, x: Tensor):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu: Tensor, logvar: Tensor) -> Tensor:
        std = torch.exp(0.5 * logvar)
        eps = torch.empty_like(std).normal_() if self.training else torch.zeros_like(std)
        return mu + eps * std * self.scale

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 36))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 36), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def bars(count):
    draw = np.random.RandomState(0)
    images = torch.zeros((count, 6, 6))
    for image in images:
        image[draw.randint(6)] = 1.0
        image[:, draw.randint(6)] = 1
    return images


def train(epoch, model, loader, optimizer):
    model.train()
    train_loss = 0
    for batch_idx, (data,) in enumerate(loader):
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    return train_loss / len(loader.dataset)


def main():
    model = VAE().to(device)
    draw = np.random.RandomState(1)
    for m in model.modules():
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight, gain=nn.init.calculate_gain("relu"))
            with torch.no_grad():
                m.weight[:] = torch.from_numpy(draw.uniform(-0.3, 0.3, m.weight.shape))
            m.bias.data.fill_(0.01)
    images = bars(64)
    results = [images.sum().item(), images[0].argmax().item(), images[5, 1:, 2].numel()]
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images), batch_size=16, shuffle=True, **kwargs
    )
    optimizer = optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
    model.eval()
    recon, mu, logvar = model(images.to(device))
    loss = loss_function(recon, images.to(device), mu, logvar)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    results += [loss.item(), mu.mean().item(), torch.std(logvar).item()]
    results += [g.norm().item() for g in grads]
    history = [train(epoch, model, loader, optimizer) for epoch in range(1, 16)]
    results.append(history[-1] < 0.8 * history[0])
    with torch.no_grad():
        sample = torch.randn(8, 4).to(device)
        sample = model.decode(sample).cpu()
        grid = torch.cat([sample.view(8, 1, 6, 6), images[:8].view(8, 1, 6, 6)])
    results += list(grid.shape) + [grid.size(dim=0), grid.dim()]
    results.append(grid.clamp_(min=0, max=1).mul(255).add_(0.5).to(torch.uint8).max().item() > 200)
    return results


if __name__ == "__main__":
    print(main())
