"""Speech: tones to letters by a spectrogram, convolutions, a GRU and CTC; decoding, error rate."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

ALPHABET = "-abcd"
RATE, FRAME, HOP = 800, 64, 32


class Tones(Dataset):
    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        self.items = []
        for _ in range(n):
            text = [int(c) for c in rng.randint(1, len(ALPHABET), rng.randint(2, 5))]
            t = np.arange(4 * FRAME) / RATE
            wave = np.concatenate([np.sin(2 * math.pi * 60 * c * t) for c in text])
            wave = wave + 0.05 * rng.randn(len(wave))
            self.items.append((torch.tensor(wave, dtype=torch.float), torch.tensor(text)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, idx):
        return self.items[idx]


def spectrogram(wave):
    frames = wave.unfold(0, FRAME, HOP) * torch.hann_window(FRAME)
    k = torch.arange(FRAME // 2)[:, None] * torch.arange(FRAME)[None, :] * (2 * math.pi / FRAME)
    re, im = frames @ torch.cos(k).T, frames @ torch.sin(k).T
    return torch.log1p(re.pow(2) + im.pow(2))


def collate(batch):
    specs = [spectrogram(w) for w, _ in batch]
    targets = torch.cat([t for _, t in batch])
    lengths = torch.LongTensor([len(t) for _, t in batch])
    return (
        pad_sequence(specs, batch_first=True),
        torch.LongTensor([s.size(0) for s in specs]),
        targets,
        lengths,
    )


class Net(nn.Module):
    def __init__(self, n_class, hidden=24):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(FRAME // 2, hidden, 3, padding="same"),
            nn.GroupNorm(4, hidden),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv1d(hidden, hidden, 3, stride=2, padding=1),
            nn.BatchNorm1d(hidden),
            nn.GELU(),
        )
        self.rnn = nn.GRU(hidden, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(2 * hidden, n_class)

    def forward(self, x):
        x = self.conv(x.transpose(1, 2)).permute(0, 2, 1).contiguous()
        x, _ = self.rnn(x)
        return self.fc(x).log_softmax(dim=-1)


def decode(logp, lengths):
    out = []
    for path, n in zip(logp.argmax(-1), lengths):
        path = torch.unique_consecutive(path[: int(n)])
        out.append("".join(ALPHABET[i] for i in path[path != 0].tolist()))
    return out


def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def init_weights(model):
    rng = np.random.RandomState(3)
    state = model.state_dict()
    for k, v in state.items():
        if v.is_floating_point() and "running" not in k:
            state[k] = torch.from_numpy(rng.uniform(-0.2, 0.2, v.shape).astype("float32"))
            if k.endswith(("conv.4.weight", "conv.1.weight")):
                state[k] = torch.ones_like(v)
    model.load_state_dict(state)


def main():
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        Tones(24, 0), batch_size=8, shuffle=False, collate_fn=collate, drop_last=True
    )
    model = Net(len(ALPHABET))
    init_weights(model)
    model = model.to(dev)
    criterion = nn.CTCLoss(blank=0, zero_infinity=True).to(dev)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-2)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=5e-3, steps_per_epoch=len(loader), epochs=4
    )
    history = []
    for epoch in range(4):
        model.train()
        total = 0.0
        for specs, sizes, targets, lengths in loader:
            optimizer.zero_grad()
            logp = model(specs.to(dev))
            out = torch.div(sizes + 1, 2, rounding_mode="floor")
            loss = criterion(logp.transpose(0, 1), targets.to(dev), out, lengths)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
            optimizer.step()
            scheduler.step()
            total += loss.item() * specs.size(0)
        history += [total / len(loader.dataset), norm.item(), scheduler.get_last_lr()[0]]
    model.eval()
    errors = words = 0
    with torch.inference_mode():
        for specs, sizes, targets, lengths in loader:
            texts = decode(model(specs.to(dev)).cpu(), (sizes + 1) // 2)
            for guess, want in zip(texts, torch.split(targets, lengths.tolist())):
                want = "".join(ALPHABET[i] for i in want)
                errors += distance(guess, want)
                words += len(want)
    assert words > 0
    return history
