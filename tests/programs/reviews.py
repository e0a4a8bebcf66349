"""An LSTM that reads short texts: a vocabulary, padding, packing by hand, a bidirectional net."""

import math
from collections import Counter

import numpy as np
import torch
import torch.nn as nn
from torch.autograd import Variable
from torch.nn import Parameter
from torch.nn.modules import Module
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data.dataloader import DataLoader
from torch.utils.data.dataset import Dataset

torch.manual_seed(1234)
device = "cuda" if torch.cuda.is_available() else "cpu"
use_cuda = torch.cuda.is_available()
FloatTensor = torch.cuda.FloatTensor if use_cuda else torch.FloatTensor

REVIEWS = [
    ("a good film with a good story", 1),
    ("bad acting and a bad story", 0),
    ("i like this film", 1),
    ("i hate this story", 0),
    ("good good acting", 1),
    ("this film is bad", 0),
    ("a story to like with good acting", 1),
    ("i hate bad acting in a film", 0),
]
PAD, UNK = "<pad>", "<unk>"


class Reviews(Dataset):
    def __init__(self, reviews):
        counts = Counter(word for text, _ in reviews for word in text.split())
        self.itos = [PAD, UNK] + sorted(counts, key=lambda word: (-counts[word], word))
        self.stoi = {word: i for i, word in enumerate(self.itos)}
        self.reviews = reviews

    def __len__(self):
        return len(self.reviews)

    def __getitem__(self, index):
        text, label = self.reviews[index]
        ids = [self.stoi.get(word, self.stoi[UNK]) for word in text.split()]
        return torch.LongTensor(ids), torch.tensor(label, dtype=torch.float)


def collate_fn(batch):
    texts, labels = zip(*batch)
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.int64, device="cpu")
    padded = pad_sequence(sequences=texts, batch_first=True, padding_value=0)
    return padded, lengths, torch.stack(labels)


class SelfAttention(Module):
    def __init__(self, size):
        super().__init__()
        self.query = Parameter(torch.Tensor(size))
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.query.size(0))
        self.query.data.uniform_(-stdv, stdv)

    def forward(self, outputs, mask):
        scores = outputs.matmul(self.query) / np.sqrt(outputs.size(-1))
        scores = scores.masked_fill(mask == 0, -1e9)
        return torch.bmm(scores.softmax(dim=-1).unsqueeze(1), outputs).squeeze(1)


class Classifier(nn.Module):
    def __init__(self, vocab_size, embedding_dim=12, hidden_dim=8, pad_idx=0):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=pad_idx)
        self.embedding.weight.data[pad_idx].zero_()
        self.lstm = nn.LSTM(embedding_dim, hidden_dim, batch_first=True, bidirectional=True)
        self.attention = SelfAttention(2 * hidden_dim)
        self.fc = nn.Linear(2 * hidden_dim, 1)

    def init_hidden(self, batch_size):
        weight = next(self.parameters()).data
        return (
            Variable(weight.new(2, batch_size, self.hidden_dim).zero_()),
            Variable(weight.new_zeros(2, batch_size, self.hidden_dim)),
        )

    def forward(self, text, lengths):
        hidden = self.init_hidden(text.size(0))
        embedded = self.embedding(text)
        outputs, (hn, cn) = self.lstm(embedded, hidden)
        mask = torch.arange(text.size(1), device=text.device)[None, :] < lengths[:, None].to(
            text.device
        )
        return self.fc(self.attention(outputs, mask)).squeeze(-1)


def binary_accuracy(preds, y):
    rounded = torch.round(torch.sigmoid(preds))
    return (rounded == y).type(torch.float).mean()


def initialize(model):
    draw = np.random.RandomState(3)
    for name, param in sorted(model.named_parameters()):
        if param.requires_grad and torch.is_tensor(param):
            values = draw.uniform(-0.3, 0.3, tuple(param.size()))
            values[0] = 0 if name.startswith("embedding") else values[0]
            param.data.copy_(torch.from_numpy(values).type(FloatTensor))


def main():
    dataset = Reviews(REVIEWS)
    loader = DataLoader(dataset, batch_size=4, collate_fn=collate_fn, pin_memory=use_cuda)
    model = Classifier(len(dataset.itos)).to(device)
    initialize(model)
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, amsgrad=True)
    criterion = nn.BCEWithLogitsLoss().to(device)
    results = [count, len(dataset.itos)]
    best_valid_loss = float("inf")
    lowest = torch.inf
    for epoch in range(8):
        epoch_loss, epoch_acc = 0.0, 0.0
        model.train()
        for text, lengths, labels in loader:
            text, labels = Variable(text.to(device)), Variable(labels.to(device))
            optimizer.zero_grad()
            predictions = model(text, lengths)
            loss = criterion(predictions, labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            epoch_loss += loss.item()
            epoch_acc += binary_accuracy(predictions.detach(), labels).item()
        if epoch_loss < best_valid_loss:
            best_valid_loss, lowest = epoch_loss, min(lowest, epoch_loss)
        results += [epoch_loss / len(loader), epoch_acc / len(loader)]
        print(f"Epoch: {epoch + 1:02} | Loss: {epoch_loss:.3f} | Acc: {epoch_acc * 100:.2f}%")
    model.eval()
    with torch.no_grad():
        ids = [dataset.stoi.get(word, 1) for word in "a good surprise".split()]
        tensor = torch.LongTensor(ids).unsqueeze(0).to(device)
        length = torch.LongTensor([len(ids)])
        results.append(torch.sigmoid(model(tensor, length)).cpu().item())
        results.append(float(model.embedding.weight.data[0].abs().sum()))
        results.append(bool(torch.isfinite(tensor.float()).all()))
    return results + [lowest]


if __name__ == "__main__":
    print(main())
