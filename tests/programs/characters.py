"""An LSTM that learns the next character of a text."""

import numpy as np
import torch
from torch import nn

TEXT = (
    "a kernel is a small program that runs once for each element of an array. "
    "many of them run at a time, and none knows of the others. "
) * 3


class Characters(nn.Module):
    def __init__(self, letters, width=24):
        super().__init__()
        self.embedding = nn.Embedding(letters, 12)
        self.lstm = nn.LSTM(12, width, num_layers=2, batch_first=True)
        self.decoder = nn.Linear(width, letters)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embedding(x), state)
        return self.decoder(out), state


def fill(model):
    draw = np.random.default_rng(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.tensor(draw.uniform(-0.3, 0.3, tuple(p.shape)).astype(np.float32)))


def main():
    letters = sorted(set(TEXT))
    number = {letter: i for i, letter in enumerate(letters)}
    data = torch.tensor([number[letter] for letter in TEXT], dtype=torch.long)
    length, batch = 16, 4
    rows = (len(data) - 1) // batch
    source = data[: batch * rows].view(batch, rows)
    target = data[1 : batch * rows + 1].view(batch, rows)

    model = Characters(len(letters))
    fill(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for epoch in range(2):
        state = None
        for start in range(0, rows - length, length):
            x, y = source[:, start : start + length], target[:, start : start + length]
            if state is not None:  # the values go on, the gradients end here
                state = tuple(each.detach() for each in state)
            output, state = model(x, state)
            loss = criterion(output.reshape(-1, len(letters)), y.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())

    model.eval()
    text, state, letter = "", None, torch.tensor([[number["a"]]])
    with torch.no_grad():
        for _ in range(10):
            output, state = model(letter, state)
            letter = output[:, -1].argmax(dim=-1, keepdim=True)
            text += letters[letter.item()]
    assert len(text) == 10
    return losses


if __name__ == "__main__":
    print(main())
