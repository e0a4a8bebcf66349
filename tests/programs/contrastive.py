"""Siamese networks: triplets, NT-Xent, and a student that learns from a teacher."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class Pairs(Dataset):
    def __init__(self):
        rng = np.random.RandomState(0)
        self.data = [(rng.rand(6), i % 3) for i in range(18)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        x, label = self.data[i]
        return {"x": torch.tensor(x, dtype=torch.float32), "label": label, "name": f"item{i}"}


def collate(batch):
    return {
        "x": torch.stack([b["x"] for b in batch]),
        "label": torch.tensor([b["label"] for b in batch]),
        "name": [b["name"] for b in batch],
    }


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, width), nn.Linear(width, 4)])
        self.heads = nn.ModuleDict(
            {"logits": nn.Linear(4, 3), "projection": nn.Linear(4, 4, bias=False)}
        )

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i < len(self.layers) - 1:
                x = F.gelu(x, approximate="tanh")
        return {name: head(x) for name, head in self.heads.items()}


def nt_xent(z_i, z_j, temperature=0.5):
    batch_size = z_i.shape[0]
    z = F.normalize(torch.cat((z_i, z_j), dim=0), dim=1)
    sim = F.cosine_similarity(z.unsqueeze(1), z.unsqueeze(0), dim=2) / temperature
    sim_ij, sim_ji = torch.diag(sim, batch_size), torch.diag(sim, -batch_size)
    positives = torch.cat([sim_ij, sim_ji], dim=0)
    mask = (~torch.eye(batch_size * 2, batch_size * 2, dtype=torch.bool)).float()
    denominator = mask * torch.exp(sim)
    return torch.sum(-torch.log(torch.exp(positives) / denominator.sum(dim=1))) / (2 * batch_size)


def fill(model, seed):
    rng = np.random.RandomState(seed)
    for _name, p in model.named_parameters():
        nn.init.trunc_normal_(p, std=0.02)
        p.data = torch.from_numpy(rng.uniform(-0.5, 0.5, p.size()).astype(np.float32))


def main():
    dataset = Pairs()
    sampler = WeightedRandomSampler([1.0] * len(dataset), len(dataset))
    assert len(list(sampler)) == 18
    loader = DataLoader(dataset, batch_size=6, collate_fn=collate, shuffle=False)
    teacher, student = Encoder(10), Encoder(5)
    fill(teacher, 1)
    fill(student, 2)
    teacher.eval()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9)
    triplet = nn.TripletMarginLoss(margin=1.0, p=2)
    kd = nn.KLDivLoss(reduction="batchmean")
    numbers = []
    T, alpha = 2.0, 0.7
    for batch in loader:
        x, labels = batch["x"], batch["label"]
        assert batch["name"][0].startswith("item")
        with torch.no_grad():
            teacher_logits = teacher(x)["logits"]
        out = student(x)
        soft = (
            kd(F.log_softmax(out["logits"] / T, dim=1), F.softmax(teacher_logits / T, dim=1))
            * T
            * T
        )
        hard = F.cross_entropy(out["logits"], labels)
        z = out["projection"]
        metric = triplet(z[:2], z[2:4], z[4:]) + nt_xent(z[:3], z[3:])
        center = F.pairwise_distance(z[:3], z[3:]).mean() + torch.cdist(z, z).mean()
        loss = alpha * soft + (1 - alpha) * hard + 0.1 * metric + 0.01 * center
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(student.parameters(), max_norm=2.0, norm_type=2)
        optimizer.step()
        numbers += [soft.item(), hard.item(), metric.item()]
    confusion = torch.zeros(3, 3, dtype=torch.int64)
    with torch.no_grad():
        for batch in loader:
            predictions = student(batch["x"])["logits"].argmax(dim=-1)
            for t, p in zip(batch["label"].view(-1), predictions.view(-1)):
                confusion[t.long(), p.long()] += 1
    return [
        *numbers,
        *confusion.flatten().tolist(),
        confusion.diag().sum().item() / confusion.sum().item(),
    ]


if __name__ == "__main__":
    print(main())
