"""A backbone from a checkpoint, frozen, with a new head: schedules, early stopping, best weights."""

import copy
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, Dataset, random_split


class Blobs(Dataset):
    def __init__(self, n, transform=None):
        rng = np.random.RandomState(0)
        self.labels = rng.randint(0, 3, n)
        images = rng.rand(n, 3, 8, 8) + self.labels[:, None, None, None] * 0.3
        self.images = images.astype(np.float32)
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        image = self.images[idx]
        if self.transform:
            image = self.transform(image)
        return image, int(self.labels[idx])


def normalize(image):
    mean, std = torch.tensor([0.7, 0.7, 0.7]), torch.tensor([0.4, 0.4, 0.4])
    return (torch.from_numpy(image) - mean[:, None, None]) / std[:, None, None]


class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding="same", bias=False)
        self.layer1 = nn.Sequential(BasicBlock(6, 6), BasicBlock(6, 8, 2))
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(8, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.layer1(self.conv1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def redraw(model, seed):
    rng = np.random.RandomState(seed)
    for p in model.parameters():
        if p.dim() > 1:
            p.data = torch.tensor(rng.normal(0, 0.2, tuple(p.shape)).astype(np.float32))


def train_model(model, dataloaders, sizes, criterion, optimizer, scheduler, num_epochs):
    numbers, best_acc = [], 0.0
    best_model_params_path = os.path.join(tempfile.mkdtemp(), "best_model_params.pt")
    torch.save(model.state_dict(), best_model_params_path)
    for _epoch in range(num_epochs):
        for phase in ["train", "val"]:
            model.train() if phase == "train" else model.eval()
            running_loss, running_corrects = 0.0, 0
            for inputs, labels in dataloaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data)
            if phase == "train":
                scheduler.step()
            epoch_acc = running_corrects.double() / sizes[phase]
            numbers += [running_loss / sizes[phase], epoch_acc.item()]
            if phase == "val" and epoch_acc > best_acc:
                best_acc = epoch_acc
                torch.save(model.state_dict(), best_model_params_path)
    model.load_state_dict(torch.load(best_model_params_path, weights_only=True))
    return model, numbers


def main():
    base = ResNet(5)
    redraw(base, 1)
    path = os.path.join(tempfile.mkdtemp(), "base.pth")
    torch.save({"epoch": 3, "state_dict": base.state_dict(), "arch": "resnet"}, path)
    checkpoint = torch.load(path, map_location="cpu")
    model_conv = ResNet(5)
    model_conv.load_state_dict(checkpoint["state_dict"], strict=True)
    for param in model_conv.parameters():
        param.requires_grad = False
    for param in model_conv.layer1[1].parameters():
        param.requires_grad = True
    num_ftrs = model_conv.fc.in_features
    model_conv.fc = nn.Linear(num_ftrs, 3)
    redraw(model_conv.fc, 2)
    nn.init.zeros_(model_conv.fc.bias)
    data = Blobs(30, transform=normalize)
    train, val = random_split(data, [20, 10], generator=torch.Generator().manual_seed(0))
    train.indices, val.indices = list(range(20)), list(range(20, 30))
    loaders = {"train": DataLoader(train, batch_size=8), "val": DataLoader(val, batch_size=8)}
    head = [p for n, p in model_conv.named_parameters() if p.requires_grad and n.startswith("fc")]
    rest = [
        p for n, p in model_conv.named_parameters() if p.requires_grad and not n.startswith("fc")
    ]
    optimizer = optim.SGD(
        [{"params": rest, "lr": 1e-3}, {"params": head}], lr=1e-2, momentum=0.9, nesterov=True
    )
    scheduler = lr_scheduler.MultiStepLR(optimizer, milestones=[1, 2], gamma=0.1)
    sizes = {"train": len(train), "val": len(val)}
    frozen = copy.deepcopy(model_conv.conv1.weight)
    model, numbers = train_model(
        model_conv,
        loaders,
        sizes,
        nn.CrossEntropyLoss(label_smoothing=0.1),
        optimizer,
        scheduler,
        2,
    )
    assert torch.equal(frozen, model.conv1.weight)
    lrs = [group["lr"] for group in optimizer.param_groups]
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return [*numbers, *lrs, float(trainable), checkpoint["epoch"]]


if __name__ == "__main__":
    print(main())
