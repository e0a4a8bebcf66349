"""A small ResNet learns from a larger one: mixed precision, accumulation, weight averaging, checkpoints."""

import itertools
import os
import tempfile
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler, autocast
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = (
            nn.Sequential()
            if stride == 1 and inplanes == planes
            else nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )
        )

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += self.downsample(x)
        return F.relu(out, inplace=True)


class Teacher(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(inplace=True),
            BasicBlock(width, width),
            BasicBlock(width, 2 * width, 2),
        )
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Dropout(0.0, inplace=True),
            nn.Linear(2 * width, 16),
            nn.ReLU(inplace=True),
            nn.Linear(16, 4),
        )

    def forward(self, x, return_features=False):
        f = self.features(x)
        out = self.classifier(torch.flatten(self.pool(f), 1))
        return (out, f) if return_features else out


class DistillLoss(nn.Module):
    def __init__(self, T=4.0, alpha=0.7):
        super().__init__()
        self.T, self.alpha = T, alpha
        self.kl = nn.KLDivLoss(reduction="batchmean", log_target=False)

    def forward(self, s, t, y):
        soft = (
            self.kl(F.log_softmax(s / self.T, dim=1), F.softmax(t.detach() / self.T, dim=1))
            * self.T**2
        )
        return self.alpha * soft + (1 - self.alpha) * F.cross_entropy(s, y, label_smoothing=0.1)


def fill(model, seed):
    rng = np.random.default_rng(seed)
    sd = model.state_dict()
    for k, v in sd.items():
        if v.ndim > 1:
            sd[k] = torch.from_numpy(rng.standard_normal(tuple(v.shape)).astype("float32") * 0.2)
        elif k.endswith("bias"):
            sd[k] = torch.zeros_like(v)
    model.load_state_dict(sd)


class AverageMeter(object):
    def __init__(self):
        self.reset()

    def reset(self):
        self.sum = self.count = 0

    def update(self, val, n=1):
        self.sum += val * n
        self.count += n

    @property
    def avg(self):
        return self.sum / self.count


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        return [
            correct[:k].reshape(-1).float().sum(0, keepdim=True).mul_(100.0 / target.size(0))
            for k in topk
        ]


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    use_amp = False
    rng = np.random.default_rng(0)
    data = TensorDataset(
        torch.from_numpy(rng.standard_normal((24, 3, 8, 8)).astype(np.float32)),
        torch.from_numpy(rng.integers(0, 4, 24)),
    )
    loader = DataLoader(data, batch_size=8, shuffle=False, num_workers=0, pin_memory=True)
    teacher, student = Teacher(8).to(device), Teacher(4).to(device)
    fill(teacher, 1)
    fill(student, 2)
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad = False
    proj = nn.Conv2d(8, 16, 1).to(device)
    fill(proj, 3)
    nn.init.zeros_(proj.bias)
    feats = {}
    handle = teacher.features[-1].register_forward_hook(
        lambda m, i, o: feats.__setitem__("t", o.detach())
    )
    params = itertools.chain(student.parameters(), proj.parameters())
    opt = torch.optim.SGD(params, 0.05, momentum=0.9, weight_decay=1e-4)
    scaler = GradScaler(enabled=use_amp)
    crit, swa = DistillLoss(), AveragedModel(student)
    out, accum = [], 3
    for epoch in range(2):
        meter = AverageMeter()
        student.train()
        opt.zero_grad()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with autocast(enabled=use_amp):
                with torch.no_grad():
                    t = teacher(x)
                s, sf = student(x, return_features=True)
                loss = crit(s, t, y) + 0.1 * F.mse_loss(proj(sf), feats["t"])
                loss = loss / accum
            scaler.scale(loss).backward()
            if (i + 1) % accum == 0 or i + 1 == len(loader):
                scaler.unscale_(opt)
                gn = torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
                scaler.step(opt)
                scaler.update()
                opt.zero_grad(set_to_none=True)
            meter.update(loss.item() * accum, x.size(0))
        swa.update_parameters(student)
        acc1, acc2 = accuracy(s, y, topk=(1, 2))
        out += [meter.avg, gn.item(), acc1.item(), acc2.item()]
    handle.remove()
    torch.optim.swa_utils.update_bn(loader, swa)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "ckpt.pth.tar")
        torch.save(
            {
                "epoch": 2,
                "state_dict": student.state_dict(),
                "optimizer": opt.state_dict(),
                "scaler": scaler.state_dict(),
                "best": out[-1],
            },
            path,
        )
        ckpt = torch.load(path, map_location=device)
        fresh = Teacher(4).to(device)
        missing = fresh.load_state_dict(
            {k.replace("module.", ""): v for k, v in ckpt["state_dict"].items()}, strict=False
        )
        opt.load_state_dict(ckpt["optimizer"])
    fresh.eval()
    swa.eval()
    with torch.no_grad():
        out += [fresh(x).sum().item(), swa(x).sum().item(), float(len(missing.missing_keys))]
    return out
