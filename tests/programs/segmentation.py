"""A U-Net with skips, its dice loss and IoU, trained in mixed precision with accumulated gradients."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.cuda.amp import GradScaler
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"


class DoubleConv(nn.Module):
    """(convolution => [BN] => ReLU) * 2"""

    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        mid_channels = mid_channels or out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY = x2.size()[2] - x1.size()[2]
        diffX = x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels, n_classes):
        super(UNet, self).__init__()
        self.n_channels, self.n_classes = n_channels, n_classes
        self.inc = DoubleConv(n_channels, 4)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 8))
        self.up1 = Up(16, 4)
        self.up2 = Up(8, 4, bilinear=True)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        return self.outc(self.up2(x, x1))


def dice_loss(inputs, targets, smooth=1):
    inputs = torch.sigmoid(inputs).view(-1)
    targets = targets.view(-1)
    intersection = (inputs * targets).sum()
    return 1 - (2.0 * intersection + smooth) / (inputs.sum() + targets.sum() + smooth)


def iou(outputs, labels):
    outputs = (torch.sigmoid(outputs) > 0.5).squeeze(1).int()
    labels = labels.squeeze(1).int()
    intersection = (outputs & labels).float().sum((1, 2))
    union = (outputs | labels).float().sum((1, 2))
    return ((intersection + 1e-6) / (union + 1e-6)).mean()


def main():
    rng = np.random.RandomState(0)
    images = rng.rand(8, 1, 10, 10).astype("float32")
    masks = (images > 0.5).astype("float32")
    loader = DataLoader(
        TensorDataset(torch.tensor(images), torch.tensor(masks)), batch_size=4, drop_last=True
    )
    net = UNet(1, 1).to(device=device, memory_format=torch.channels_last)
    for p in net.parameters():
        if p.ndim == 4:
            p.data = torch.from_numpy(rng.normal(0, 0.3, tuple(p.shape)).astype(np.float32)).to(
                device
            )
    nn.init.zeros_(net.outc.bias)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=0)
    grad_scaler = GradScaler(enabled=False)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.5]).to(device))
    numbers, accumulate = [], 2
    for _epoch in range(2):
        net.train()
        optimizer.zero_grad(set_to_none=True)
        for step, (batch, true_masks) in enumerate(loader):
            batch = batch.to(device=device, dtype=torch.float32, memory_format=torch.channels_last)
            true_masks = true_masks.to(device=device, dtype=torch.float32)
            with torch.autocast(device if device != "mps" else "cpu", enabled=False):
                masks_pred = net(batch)
                loss = criterion(masks_pred, true_masks) + dice_loss(masks_pred, true_masks)
            grad_scaler.scale(loss / accumulate).backward()
            if (step + 1) % accumulate == 0:
                grad_scaler.unscale_(optimizer)
                norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                grad_scaler.step(optimizer)
                grad_scaler.update()
                optimizer.zero_grad(set_to_none=True)
                numbers.append(norm.item())
            numbers.append(loss.item())
        net.eval()
        with torch.inference_mode():
            score = iou(net(batch), true_masks)
        scheduler.step(score)
        numbers.append(score.item())
    return [*numbers, optimizer.param_groups[0]["lr"]]


if __name__ == "__main__":
    print(main())
