"""Uncertainty: a mixture density network, Bayes by backprop, dropout at test time, calibration, ensembles."""

import math

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical, Independent, Normal
from torch.nn import functional as F

device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")


class MDN(nn.Module):
    def __init__(self, n_hidden, n_gaussians):
        super().__init__()
        self.z_h = nn.Sequential(nn.Linear(1, n_hidden), nn.Tanh())
        self.z_pi = nn.Linear(n_hidden, n_gaussians)
        self.z_sigma = nn.Linear(n_hidden, n_gaussians)
        self.z_mu = nn.Linear(n_hidden, n_gaussians)

    def forward(self, x):
        z_h = self.z_h(x)
        return F.softmax(self.z_pi(z_h), -1), torch.exp(self.z_sigma(z_h)), self.z_mu(z_h)


def gaussian_distribution(y, mu, sigma):
    result = (y.expand_as(mu) - mu) * torch.reciprocal(sigma)
    result = -0.5 * (result * result)
    return (torch.exp(result) * torch.reciprocal(sigma)) / math.sqrt(2 * np.pi)


def mdn_loss_fn(pi, sigma, mu, y):
    result = gaussian_distribution(y, mu, sigma) * pi
    return torch.mean(-torch.log(torch.sum(result, dim=1)))


class BayesLinear(nn.Module):
    def __init__(self, n_in, n_out, rng):
        super().__init__()
        self.rng = rng
        self.weight_mu = nn.Parameter(torch.Tensor(n_out, n_in).uniform_(-0.2, 0.2))
        self.weight_rho = nn.Parameter(torch.Tensor(n_out, n_in).fill_(-3))
        self.bias_mu = nn.Parameter(torch.zeros(n_out))
        self.log_prior = self.log_q = 0

    def forward(self, x):
        sigma = torch.log1p(torch.exp(self.weight_rho))
        eps = torch.from_numpy(self.rng.standard_normal(tuple(sigma.shape)).astype("f4")).to(
            x.device
        )
        weight = self.weight_mu + sigma * eps
        prior = Normal(torch.tensor(0.0, device=x.device), torch.tensor(1.0, device=x.device))
        self.log_prior = prior.log_prob(weight).sum()
        self.log_q = Normal(self.weight_mu, sigma).log_prob(weight).sum()
        return F.linear(x, weight, self.bias_mu)


def ece(probs, labels, n_bins=4):
    boundaries = torch.linspace(0, 1, n_bins + 1)
    confidences, predictions = torch.max(probs, 1)
    accuracies = predictions.eq(labels)
    total = torch.zeros(1, device=probs.device)
    for low, high in zip(boundaries[:-1], boundaries[1:]):
        in_bin = confidences.gt(low.item()) * confidences.le(high.item())
        share = in_bin.float().mean()
        if share.item() > 0:
            gap = confidences[in_bin].mean() - accuracies[in_bin].float().mean()
            total += torch.abs(gap) * share
    return total.item()


def fill(module, rng, scale=0.5):
    for p in module.parameters():
        p.data[:] = torch.as_tensor(rng.randn(*p.shape).astype(np.float32) * scale)


def main():
    rng = np.random.RandomState(0)
    y = torch.from_numpy(rng.rand(24, 1)).float().to(device)
    x = y + 0.3 * torch.sin(2 * math.pi * y)
    net = MDN(n_hidden=6, n_gaussians=3).to(device)
    fill(net, rng)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-2, alpha=0.9, centered=True)
    numbers = []
    for _ in range(4):
        loss = mdn_loss_fn(*net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        numbers.append(loss.item())
    with torch.no_grad():
        pi, sigma, mu = net(x)
        log_pi = Categorical(probs=pi).logits.log_softmax(-1)
        log_prob = torch.logsumexp(log_pi + Normal(mu, sigma).log_prob(y), dim=-1)
        numbers += [log_prob.mean().item(), (pi * mu).sum(-1).sum().item()]
        box = Independent(Normal(mu, sigma), 1)
        numbers.append(box.entropy().mean().item())
    bayes = nn.Sequential(BayesLinear(1, 4, rng), nn.ReLU(), BayesLinear(4, 1, rng)).to(device)
    for layer in bayes:
        if hasattr(layer, "weight_mu"):
            layer.weight_mu.data = torch.as_tensor(
                rng.uniform(-1, 1, layer.weight_mu.shape)
            ).float()
    bayes.to(device)
    opt = torch.optim.Adam(bayes.parameters(), lr=0.05)
    for _ in range(3):
        opt.zero_grad()
        nll = F.gaussian_nll_loss(bayes(x), y, torch.full_like(y, 0.1), reduction="sum")
        kl = sum(m.log_q - m.log_prior for m in bayes if isinstance(m, BayesLinear))
        loss = nll + kl / 8
        loss.backward()
        opt.step()
        numbers.append(loss.item())
    models = [
        nn.Sequential(nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 3)).to(device) for _ in range(3)
    ]
    for each in models:
        fill(each, rng)
    points = torch.from_numpy(rng.randn(10, 2).astype(np.float32)).to(device)
    labels = torch.from_numpy(rng.randint(0, 3, size=10)).to(device)
    logits = torch.stack([each(points) for each in models])
    probs = logits.softmax(-1).mean(0)
    entropy = -(probs * probs.clamp_min(1e-12).log()).sum(-1)
    temperature = nn.Parameter(torch.ones(1, device=device) * 1.5)
    scaler = torch.optim.LBFGS([temperature], lr=0.1, max_iter=5)
    logits = logits.mean(0).detach()

    def closure():
        scaler.zero_grad()
        loss = F.cross_entropy(logits / temperature.unsqueeze(1).expand(-1, 3), labels)
        loss.backward()
        return loss

    scaler.step(closure)
    return [*numbers, entropy.sum().item(), ece(probs, labels), temperature.item()]


if __name__ == "__main__":
    print(main())
