"""A variational autoencoder: reparameterised, with beta, and samples drawn from the prior."""

import numpy as np
import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
kwargs = {"num_workers": 0, "pin_memory": True} if torch.cuda.is_available() else {}


class VAE(nn.Module):
    def __init__(self, noise):
        super(VAE, self).__init__()
        self.fc1 = nn.Linear(16, 12)
        self.fc21 = nn.Linear(12, 3)
        self.fc22 = nn.Linear(12, 3)
        self.fc3 = nn.Linear(3, 12)
        self.fc4 = nn.Linear(12, 16)
        self.register_buffer("noise", noise)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = self.noise[: std.size(0)].type_as(std)
        assert eps.shape == torch.randn_like(std).shape
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 16))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 16), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def main():
    rng = np.random.RandomState(2)
    images = torch.from_numpy(rng.rand(40, 1, 4, 4)).float()
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(images, torch.zeros(40)),
        batch_size=16,
        shuffle=False,
        **kwargs,
    )
    model = VAE(torch.tensor(rng.randn(16, 3).astype(np.float32))).to(device)
    with torch.no_grad():
        for name, param in model.named_parameters():
            if name.endswith("bias"):
                param.zero_()
            else:
                param.copy_(torch.as_tensor(rng.normal(0, 0.3, tuple(param.size()))))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    numbers = []
    for epoch in range(1, 3):
        model.train()
        train_loss = 0
        for _batch_idx, (data, _) in enumerate(loader):
            data = data.to(device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            recon_batch, mu, logvar = model(data)
            loss = loss_function(recon_batch, data, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        numbers.append(train_loss / len(loader.dataset))
        assert f"====> Epoch: {epoch} Average loss: {numbers[-1]:.4f}"
    model.eval()
    test_loss = 0.0
    with torch.no_grad():
        for data, _ in loader:
            recon_batch, mu, logvar = model(data.to(device))
            test_loss += loss_function(recon_batch, data.to(device), mu, logvar).item()
            comparison = torch.cat([data[:8], recon_batch.view(-1, 1, 4, 4)[:8].cpu()])
        numbers.append(comparison.mean().item())
        sample = model.decode(torch.ones(2, 3).to(device)).cpu()
        numbers.append(sample.view(2, 1, 4, 4).std().item())
    return [*numbers, test_loss / len(loader.dataset)]


if __name__ == "__main__":
    print(main())
