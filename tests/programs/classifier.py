"""A classifier of pictures as scripts have it: a device line, a scheduler, a checkpoint, an accuracy."""

import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
import torch.utils.data
from torch.optim.lr_scheduler import StepLR

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Shapes(torch.utils.data.Dataset):
    def __init__(self, count, transform=None):
        draw = np.random.RandomState(0)
        self.data = torch.tensor(draw.rand(count, 1, 12, 12).astype(np.float32) * 0.2)
        self.targets = torch.LongTensor([i % 4 for i in range(count)])
        for i, target in enumerate(self.targets):
            row, column = divmod(int(target), 2)
            self.data[i, :, 6 * row : 6 * row + 6, 6 * column : 6 * column + 6] += 0.8
        self.transform = transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        image, target = self.data[index], self.targets[index]
        return (self.transform(image) if self.transform else image), target


class BasicBlock(nn.Module):
    expansion: int = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1):
        super(BasicBlock, self).__init__()
        self.conv1 = nn.Conv2d(
            inplanes, planes, kernel_size=3, stride=stride, padding=1, bias=False
        )
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, kernel_size=3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.stem = nn.Conv2d(1, 8, kernel_size=3, padding=1, bias=False)
        self.layer1 = self._make_layer(8, 8)
        self.layer2 = self._make_layer(8, 16, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=0.0)
        self.fc = nn.Linear(16, num_classes)
        draw = np.random.RandomState(1)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                m.weight.data.copy_(torch.from_numpy(draw.randn(*m.weight.shape) * 0.15))
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, val=1)
                nn.init.constant_(m.bias, val=0)
            elif isinstance(m, nn.Linear):
                m.weight.data = torch.from_numpy(draw.randn(*m.weight.shape)).float() * 0.2
                m.bias.data.zero_()

    def _make_layer(self, inplanes, planes, stride=1):
        return nn.Sequential(BasicBlock(inplanes, planes, stride), BasicBlock(planes, planes))

    def forward(self, x):
        x = self.layer2(self.layer1(F.relu(self.stem(x))))
        x = torch.flatten(self.avgpool(x), 1)
        return self.fc(self.dropout(x))


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    history = []
    for batch_idx, (data, target) in enumerate(train_loader):
        data = data.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        output = F.log_softmax(model(data), dim=1)
        loss = F.nll_loss(output, target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            history.append(loss.item())
            print(
                "Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                    epoch,
                    batch_idx * len(data),
                    len(train_loader.dataset),
                    100.0 * batch_idx / len(train_loader),
                    loss.item(),
                )
            )
    return history


@torch.inference_mode()
def test(model, device, test_loader):
    model.eval()
    test_loss = 0
    correct = 0
    for data, target in test_loader:
        data, target = data.to(device), target.to(device)
        output = F.log_softmax(model(data), dim=1)
        test_loss += F.nll_loss(output, target, reduction="sum").item()
        pred = output.argmax(dim=1, keepdim=True)
        correct += pred.eq(target.view_as(pred)).sum().item()
    return test_loss / len(test_loader.dataset), correct / len(test_loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--log-interval", type=int, default=1)
    args = parser.parse_args([])
    use_cuda = torch.cuda.is_available()
    torch.manual_seed(1)
    if use_cuda:
        torch.cuda.manual_seed_all(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.deterministic = True

    kwargs = {"num_workers": 0, "pin_memory": True}
    normalize = lambda x: (x - 0.5) / 0.25
    train_loader = torch.utils.data.DataLoader(
        Shapes(64, transform=normalize), batch_size=args.batch_size, shuffle=False, **kwargs
    )
    test_loader = torch.utils.data.DataLoader(
        dataset=Shapes(16, normalize), batch_size=8, shuffle=True, drop_last=False, **kwargs
    )
    model = ResNet().to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    optimizer = optim.SGD(
        model.parameters(), args.lr, momentum=0.9, weight_decay=5e-4, foreach=False
    )
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    losses, best_acc1 = [], 0.0
    start = time.time()
    path = os.path.join(tempfile.mkdtemp(), "checkpoint.pth.tar")
    for epoch in range(args.epochs):
        losses += train(args, model, device, train_loader, optimizer, epoch)
        loss, acc1 = test(model, device, test_loader)
        scheduler.step()
        losses += [loss, acc1, scheduler.get_last_lr()[0]]
        best_acc1 = max(acc1, best_acc1)
        torch.save(
            {
                "epoch": epoch + 1,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
            },
            path,
        )
    print(f"done in {time.time() - start:.1f} s on {device.type}")
    checkpoint = torch.load(path, map_location=device)
    again = ResNet().to(device)
    again.load_state_dict(checkpoint["state_dict"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    again_loss, again_acc1 = test(again, device, test_loader)
    losses += [again_loss, again_acc1, checkpoint["epoch"], checkpoint["best_acc1"]]
    return losses


if __name__ == "__main__":
    print(main())
