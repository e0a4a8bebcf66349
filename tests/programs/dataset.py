"""A data set of one's own, split, shuffled and loaded in batches, for a classifier of points."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Spirals(Dataset):
    """Points on three arms of a spiral, and the number of the arm."""

    def __init__(self, per_arm, transform=None):
        draw = np.random.default_rng(0)
        radius = np.linspace(0.1, 1, per_arm)
        self.points, self.arms = [], []
        for arm in range(3):
            angle = 4 * radius + 2.1 * arm + draw.normal(0, 0.1, per_arm)
            points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
            self.points.append(points.astype(np.float32))
            self.arms += [arm] * per_arm
        self.points = np.concatenate(self.points)
        self.transform = transform

    def __len__(self):
        return len(self.arms)

    def __getitem__(self, index):
        point = torch.tensor(self.points[index])
        if self.transform:
            point = self.transform(point)
        return point, self.arms[index]


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 32)
        self.middle = nn.Sequential(nn.ReLU(), nn.Linear(32, 32), nn.Tanh())
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        return self.out(self.middle(self.hidden(x)))


def with_squares(point):
    return torch.cat([point, point * point])


def fill(model):
    draw = np.random.default_rng(1)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.tensor(draw.normal(0, 0.3, tuple(p.shape)).astype(np.float32)))


def main():
    data = Spirals(80, transform=with_squares)
    order = np.random.default_rng(2).permutation(len(data)).tolist()
    train, test = Subset(data, order[:200]), Subset(data, order[200:])
    model = Classifier()
    fill(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    losses = []
    for epoch in range(8):
        model.train()
        for points, arms in DataLoader(train, batch_size=50, shuffle=False):
            optimizer.zero_grad()
            loss = criterion(model(points), arms)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        schedule.step()
    model.eval()
    right, seen = 0, 0
    with torch.no_grad():
        for points, arms in DataLoader(test, batch_size=16, shuffle=True):
            right += (model(points).argmax(dim=1) == arms).sum().item()
            seen += len(arms)
    assert seen == 40
    losses.append(float(right / seen > 0.5))
    losses.append(schedule.get_last_lr()[0])
    return losses


if __name__ == "__main__":
    print(main())
