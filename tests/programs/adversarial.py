"""Adversarial examples: FGSM, projected gradient descent, TRADES, and a network hardened by them."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 2 * 2, 3)

    def forward(self, x):
        x = F.relu(self.conv1(x), True)
        x = F.relu(self.bn(self.conv2(x)), inplace=True)
        x = F.max_pool2d(x, 2)
        return self.fc(torch.flatten(x, 1))


def fgsm_attack(image, epsilon, data_grad):
    perturbed_image = image + epsilon * data_grad.sign()
    return torch.clamp(perturbed_image, 0, 1)


def pgd(model, images, labels, eps=0.1, alpha=0.03, steps=3):
    adv = images.clone().detach()
    for _ in range(steps):
        adv.requires_grad = True
        cost = nn.CrossEntropyLoss()(model(adv), labels)
        grad = torch.autograd.grad(cost, adv, retain_graph=False, create_graph=False)[0]
        adv = adv.detach() + alpha * grad.sign()
        delta = torch.clamp(adv - images, min=-eps, max=eps)
        adv = torch.clamp(images + delta, min=0, max=1).detach()
    return adv


def trades(model, x, y, beta=2.0):
    criterion_kl = nn.KLDivLoss(reduction="sum")
    model.eval()
    x_adv = x.detach() + 0.001
    for _ in range(2):
        x_adv.requires_grad_()
        with torch.enable_grad():
            loss_kl = criterion_kl(F.log_softmax(model(x_adv), dim=1), F.softmax(model(x), dim=1))
        grad = torch.autograd.grad(loss_kl, [x_adv])[0]
        x_adv = x_adv.detach() + 0.02 * torch.sign(grad.detach())
        x_adv = torch.min(torch.max(x_adv, x - 0.1), x + 0.1)
    model.train()
    logits = model(x)
    loss_natural = F.cross_entropy(logits, y, label_smoothing=0.1)
    loss_robust = (1.0 / len(x)) * criterion_kl(
        F.log_softmax(model(x_adv), dim=1), F.softmax(logits, dim=1)
    )
    return loss_natural + beta * loss_robust


def main():
    rng = np.random.RandomState(0)
    images = torch.from_numpy(rng.rand(12, 1, 8, 8)).float()
    labels = torch.from_numpy(rng.randint(0, 3, 12)).long()
    loader = DataLoader(TensorDataset(images, labels), batch_size=6, shuffle=False)
    model = LeNet().to(device)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.from_numpy(rng.randn(*p.shape) * 0.3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    numbers = []
    for epoch in range(2):
        running = 0.0
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad(set_to_none=True)
            loss = trades(model, data, target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            running += loss.item() * data.size(0)
        numbers.append(running / len(loader.dataset))
    model.eval()
    correct, norms = 0, []
    for data, target in DataLoader(TensorDataset(images, labels), batch_size=1):
        data, target = data.to(device), target.to(device)
        data.requires_grad = True
        output = model(data)
        loss = F.nll_loss(F.log_softmax(output, 1), target)
        model.zero_grad()
        loss.backward()
        perturbed = fgsm_attack(data, 0.05, data.grad.data)
        final_pred = model(perturbed).max(1, keepdim=True)[1]
        if final_pred.item() == target.item():
            correct += 1
        norms.append((perturbed - data).detach().squeeze().cpu().numpy().ravel())
    adv = pgd(model, images.to(device), labels.to(device))
    linf = (adv - images.to(device)).flatten(1).abs().amax(dim=1)
    robust = model(adv).argmax(1).eq(labels.to(device)).sum().item()
    return [*numbers, float(correct), float(np.abs(norms).max()), linf.mean().item(), float(robust)]


if __name__ == "__main__":
    print(main())
