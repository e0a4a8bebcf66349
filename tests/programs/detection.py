"""A detector of one stage: anchors, boxes matched by overlap, focal loss, suppression, average precision."""

import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def box_iou(a, b):
    area = lambda box: (box[:, 2] - box[:, 0]) * (box[:, 3] - box[:, 1])
    lt = torch.max(a[:, None, :2], b[:, :2])
    rb = torch.min(a[:, None, 2:], b[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    return inter / (area(a)[:, None] + area(b) - inter)


def nms(boxes, scores, threshold):
    keep = []
    order = scores.argsort(descending=True)
    while order.numel() > 0:
        i = order[0].item()
        keep.append(i)
        if order.numel() == 1:
            break
        ious = box_iou(boxes[i].unsqueeze(0), boxes[order[1:]])[0]
        order = order[1:][ious <= threshold]
    return torch.tensor(keep, dtype=torch.long, device=boxes.device)


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, inputs, targets):
        p = torch.sigmoid(inputs)
        ce = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
        p_t = p * targets + (1 - p) * (1 - targets)
        loss = ce * ((1 - p_t) ** self.gamma)
        return (loss * (self.alpha * targets + (1 - self.alpha) * (1 - targets))).sum()


class Detector(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.classes = classes
        self.c1 = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.GroupNorm(2, 4), nn.SiLU(inplace=True))
        self.c2 = nn.Sequential(nn.Conv2d(4, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.SiLU(inplace=True))
        self.lateral = nn.ModuleDict({"c1": nn.Conv2d(4, 4, 1), "c2": nn.Conv2d(8, 4, 1)})
        self.cls_head = nn.Conv2d(4, classes, 3, padding=1)
        self.box_head = nn.Conv2d(4, 4, 3, padding=1)
        nn.init.constant_(self.cls_head.bias, -math.log((1 - 0.01) / 0.01))

    def forward(self, x):
        c1 = self.c1(x)
        c2 = self.c2(c1)
        p2 = self.lateral["c2"](c2)
        up = F.interpolate(p2, size=c1.shape[-2:], mode="nearest")
        p1 = self.lateral["c1"](c1) + up
        scores, boxes = [], []
        for level in (p1, p2):
            n = level.shape[0]
            scores.append(self.cls_head(level).permute(0, 2, 3, 1).reshape(n, -1, self.classes))
            boxes.append(self.box_head(level).permute(0, 2, 3, 1).reshape(n, -1, 4))
        return torch.cat(scores, 1), torch.cat(boxes, 1)


def anchors(size):
    found = []
    for stride in (2, 4):
        shift = (torch.arange(0, size, stride, dtype=torch.float32) + stride / 2).to(device)
        y, x = torch.meshgrid(shift, shift, indexing="ij")
        center = torch.stack((x.flatten(), y.flatten()), dim=1)
        found.append(torch.cat([center - stride, center + stride], 1))
    return torch.vstack(found)


def encode(boxes, priors):
    wh = priors[:, 2:] - priors[:, :2]
    offset = ((boxes[:, :2] + boxes[:, 2:]) - (priors[:, :2] + priors[:, 2:])) / 2 / wh
    return torch.cat([offset, torch.log((boxes[:, 2:] - boxes[:, :2]) / wh)], dim=1)


def decode(deltas, priors):
    wh = priors[:, 2:] - priors[:, :2]
    center = (priors[:, :2] + priors[:, 2:]) / 2 + deltas[..., :2] * wh
    half = torch.exp(deltas[..., 2:].clamp(max=math.log(4))) * wh / 2
    return torch.cat((center - half, center + half), -1)


def giou_loss(pred, target):
    lt, rb = torch.max(pred[:, :2], target[:, :2]), torch.min(pred[:, 2:], target[:, 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=1)
    union = (pred[:, 2:] - pred[:, :2]).prod(1) + (target[:, 2:] - target[:, :2]).prod(1) - inter
    hull = torch.max(pred[:, 2:], target[:, 2:]) - torch.min(pred[:, :2], target[:, :2])
    area = hull.clamp(min=0).prod(dim=1)
    return (1 - inter / union + (area - union) / area).sum()


def average_precision(scores, matched, positives):
    order = np.argsort(-scores)
    tp = np.cumsum(matched[order])
    recall, precision = tp / positives, tp / np.arange(1, len(tp) + 1)
    return float(np.trapezoid(precision, recall)) if len(tp) > 1 else 0.0


def main():
    rng = np.random.RandomState(0)
    model = Detector().to(device)
    for name, p in model.named_parameters():
        if p.dim() > 1:
            p.data = torch.from_numpy(rng.randn(*p.shape)).to(p) * 0.2
        elif "cls_head" not in name:
            nn.init.constant_(p, 0.1)
    images = torch.from_numpy(rng.rand(2, 1, 16, 16)).float().to(device)
    targets = [
        {"boxes": torch.tensor([[1.0, 1, 6, 7], [8, 8, 15, 14]]), "labels": torch.tensor([0, 1])},
        {"boxes": torch.tensor([[4.0, 2, 9, 8]]), "labels": torch.tensor([1])},
    ]
    targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
    priors, focal = anchors(16), FocalLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.02, 0.9, weight_decay=1e-4)
    numbers = []
    for _ in range(4):
        cls_logits, box_deltas = model(images)
        losses = {"cls": cls_logits.sum() * 0, "box": 0.0, "giou": 0.0}
        total = 0
        for logits, deltas, t in zip(cls_logits, box_deltas, targets):
            iou = box_iou(priors, t["boxes"])
            best, index = iou.max(dim=1)
            positive = best >= 0.3
            positive[iou.argmax(dim=0)] = True
            ignored = (best > 0.2) & ~positive
            gt = torch.zeros_like(logits)
            gt[positive, t["labels"][index[positive]]] = 1.0
            losses["cls"] = losses["cls"] + focal(logits[~ignored], gt[~ignored])
            wanted = encode(t["boxes"][index[positive]], priors[positive])
            losses["box"] += F.smooth_l1_loss(deltas[positive], wanted, reduction="sum", beta=0.5)
            shown = decode(deltas[positive], priors[positive])
            losses["giou"] += giou_loss(shown, t["boxes"][index[positive]])
            total += int(positive.sum())
        loss = sum(losses.values()) / max(1, total)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        numbers.append(loss.item())
    model.eval()
    with torch.inference_mode():
        scores, deltas = model(images)
        prob, label = scores.sigmoid().max(-1)
        boxes = decode(deltas, priors).clamp_(0, 16)
        found, hits = [], []
        for i in range(len(images)):
            top = prob[i].topk(12)[1]
            keep = top[nms(boxes[i][top] + label[i][top, None] * 20.0, prob[i][top], 0.4)]
            iou = box_iou(boxes[i][keep], targets[i]["boxes"]).max(1).values
            found.append(prob[i][keep].cpu().numpy())
            hits.append((iou > 0.3).cpu().numpy())
    kept = np.concatenate(found)
    return [*numbers, float(kept.sum()), average_precision(kept, np.concatenate(hits), 3)]


if __name__ == "__main__":
    print(main())
