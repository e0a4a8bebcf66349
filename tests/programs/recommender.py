"""A recommender of films: embeddings of users and items, biases, negatives, top-k, early stopping."""

import copy
import random
from typing import Dict, List, Optional, Tuple

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, Dataset, random_split


def set_seed(seed: int = 0) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


def get_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


class Ratings(Dataset):
    def __init__(self, users, items, ratings):
        self.users = torch.tensor(users, dtype=torch.long)
        self.items = torch.tensor(items, dtype=torch.long)
        self.ratings = torch.tensor(ratings, dtype=torch.float32)

    def __len__(self) -> int:
        return self.ratings.shape[0]

    def __getitem__(self, idx) -> Dict[str, torch.Tensor]:
        return {"user": self.users[idx], "item": self.items[idx], "rating": self.ratings[idx]}


class NeuMF(nn.Module):
    def __init__(self, n_users: int, n_items: int, dim: int = 8, layers: Optional[List] = None):
        super().__init__()
        self.user_factors = nn.Embedding(num_embeddings=n_users, embedding_dim=dim)
        self.item_factors = nn.Embedding(num_embeddings=n_items, embedding_dim=dim)
        self.user_bias = nn.Embedding(n_users, 1)
        self.item_bias = nn.Embedding(n_items, 1)
        self.global_bias = nn.Parameter(torch.zeros(1))
        layers = layers or [2 * dim, 16, 8]
        mlp: List[nn.Module] = []
        for n_in, n_out in zip(layers[:-1], layers[1:]):
            mlp.extend([nn.Linear(n_in, n_out), nn.ReLU(), nn.Dropout(0.0)])
        self.mlp = nn.Sequential(*mlp)
        self.out = nn.Linear(layers[-1] + 1, 1)
        self._init_weights()

    def _init_weights(self):
        rng = np.random.RandomState(2)
        for p in self.parameters():
            nn.init.trunc_normal_(p, std=0.1) if p.dim() > 1 else nn.init.zeros_(p)
            with torch.no_grad():
                p.copy_(torch.as_tensor(rng.normal(scale=0.2, size=p.shape), dtype=p.dtype))

    def forward(self, user: torch.Tensor, item: torch.Tensor) -> torch.Tensor:
        p, q = self.user_factors(user), self.item_factors(item)
        dot = (p * q).sum(-1, keepdim=True)
        deep = self.mlp(torch.cat((p, q), dim=-1))
        score = self.out(torch.cat([dot, deep], -1))
        bias = self.user_bias(user) + self.item_bias(item) + self.global_bias
        return torch.squeeze(score + bias, dim=-1)


class EarlyStopping:
    def __init__(self, patience: int = 3):
        self.patience, self.counter, self.best = patience, 0, np.inf
        self.state = None

    def __call__(self, loss: float, model: nn.Module) -> bool:
        if loss < self.best:
            self.best, self.counter = loss, 0
            self.state = copy.deepcopy(model.state_dict())
        else:
            self.counter += 1
        return self.counter >= self.patience


def run_epoch(model, loader, criterion, device, optimizer=None) -> Tuple[float, float]:
    model.train(optimizer is not None)
    total, absolute = 0.0, torch.tensor(0.0, device=device)
    with torch.set_grad_enabled(optimizer is not None):
        for batch in loader:
            batch = {k: v.to(device, non_blocking=True) for k, v in batch.items()}
            pred = model(batch["user"], batch["item"])
            loss = criterion(pred, batch["rating"])
            if optimizer is not None:
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_value_(model.parameters(), clip_value=1.0)
                optimizer.step()
            total += loss.item() * batch["user"].size(0)
            absolute += (pred.detach() - batch["rating"]).abs().sum()
    n = len(loader.dataset)
    return total / n, (absolute / n).item()


def ndcg_at_k(scores, relevant, k=5):
    _, top = torch.topk(scores, k=k)
    hits = torch.zeros(len(scores)).to(scores.device)
    hits[relevant] = 1
    gains = hits[top] / torch.log2(torch.arange(2, k + 2, dtype=torch.float, device=scores.device))
    ideal = (1 / torch.log2(torch.arange(2.0, min(k, len(relevant)) + 2))).sum().item()
    return gains.sum().item() / ideal


def main():
    set_seed(0)
    device = get_device()
    n_users, n_items = 20, 30
    rng = np.random.default_rng(0)
    users = rng.integers(0, n_users, 400).tolist()
    items = rng.integers(0, n_items, 400).tolist()
    taste = rng.normal(size=(n_users, 3)) @ rng.normal(size=(3, n_items))
    ratings = [float(np.clip(3 + taste[u, i], 1, 5)) for u, i in zip(users, items)]
    full = Ratings(users, items, ratings)
    generator = torch.Generator().manual_seed(0)
    drawn, _ = random_split(full, [320, 80], generator=generator)
    train_set = torch.utils.data.Subset(full, range(320))
    valid_set = torch.utils.data.Subset(full, list(range(320, 400)))
    train_loader = DataLoader(train_set, batch_size=64, shuffle=False, pin_memory=True)
    valid_loader = DataLoader(valid_set, batch_size=80, num_workers=0)
    model = NeuMF(n_users, n_items).to(device)
    optimizer = optim.Adam(
        [
            {"params": model.user_factors.parameters(), "weight_decay": 1e-5},
            {"params": [p for n, p in model.named_parameters() if "user_factors" not in n]},
        ],
        lr=1e-2,
        fused=None,
    )
    scheduler = ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1)
    stopper = EarlyStopping()
    numbers = [len(drawn), sum(p.nelement() for p in model.parameters())]
    for epoch in range(6):
        train_loss, train_mae = run_epoch(model, train_loader, nn.MSELoss(), device, optimizer)
        valid_loss, valid_mae = run_epoch(model, valid_loader, nn.MSELoss(), device)
        scheduler.step(valid_loss)
        numbers += [train_loss, train_mae, valid_loss, valid_mae]
        if stopper(valid_loss, model):
            break
    model.load_state_dict(stopper.state)
    model.eval()
    with torch.inference_mode():
        user = torch.full(size=(n_items,), fill_value=3, dtype=torch.long, device=device)
        scores = model(user, torch.arange(n_items, device=device))
        seen = torch.zeros(n_items, dtype=torch.bool)
        seen[[i for u, i in zip(users, items) if u == 3]] = True
        masked = scores.masked_fill(seen.to(device), -float("inf"))
        best = torch.argsort(masked, descending=True)[:3]
        relevant = torch.nonzero(torch.tensor(taste[3]) > 0.5).flatten()
        numbers += [float(v) for v in scores.cpu().numpy()[:4]] + best.tolist()
        numbers += [
            ndcg_at_k(scores.cpu(), relevant),
            scores.masked_select(~seen.to(device)).numel(),
        ]
        numbers.append(torch.where(seen)[0].numel())
    return numbers


if __name__ == "__main__":
    print(main())
