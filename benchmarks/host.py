"""What the host does for a call and for a step: small sizes, beside PyTorch on one thread.

    python benchmarks/host.py [calls | PROGRAM ...]

Processor time of the calling thread, the best of several rounds, and how many commands a step
asks of the device. The programs are written as for PyTorch, and run by both libraries.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import netcl_core as nc
from netcl_core.inspect.streams import stream_of, use_stream
from netcl_core.runtime.stream import StreamWrapper

WARM, ROUNDS, CALLS = 80, 12, 200


def normal(*shape: int) -> Any:
    """The same numbers every time."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def integers(high: int, *shape: int) -> Any:
    """The same integers every time."""
    return np.random.default_rng(0).integers(0, high, shape)


def language_model(torch: Any) -> Callable[[], Any]:
    """A step of PyTorch's example of a language model: an LSTM of two layers, 35 steps."""
    nn, hidden, words, batch = torch.nn, 32, 64, 20

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.encoder = nn.Embedding(words, hidden)
            self.rnn = nn.LSTM(hidden, hidden, 2, dropout=0.5)
            self.decoder = nn.Linear(hidden, words)

        def forward(self, x: Any, state: Any) -> Any:
            output, state = self.rnn(self.drop(self.encoder(x)), state)
            decoded = self.decoder(self.drop(output)).view(-1, words)
            return nn.functional.log_softmax(decoded, dim=1), state

    model, criterion = Model(), nn.NLLLoss()
    x, y = torch.tensor(integers(words, 35, batch)), torch.tensor(integers(words, 35 * batch))
    states = [(torch.zeros(2, batch, hidden), torch.zeros(2, batch, hidden))]

    def step() -> Any:
        model.zero_grad()
        output, states[0] = model(x, tuple(state.detach() for state in states[0]))
        loss = criterion(output, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.1)
        return loss

    return step


def small_lstm(torch: Any) -> Callable[[], Any]:
    """A step of an LSTM of two layers of 16, with Adam."""
    nn = torch.nn
    rnn, head = nn.LSTM(8, 16, num_layers=2, batch_first=True), nn.Linear(16, 1)
    optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()])
    x, y = torch.tensor(normal(2, 16, 8)), torch.tensor(normal(2, 1))

    def step() -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(head(rnn(x)[0][:, -1]), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def recommender(torch: Any) -> Callable[[], Any]:
    """A step of a DLRM: eight tables, dense features, and the products of all pairs."""
    nn, size, tables, batch = torch.nn, 16, 8, 32

    def layers(*sizes: int) -> list[Any]:
        pairs = itertools.pairwise(sizes)
        return [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]

    below, pairs = nn.Sequential(*layers(13, 32, 32, size)), (tables + 1) * tables // 2
    above = nn.Sequential(*layers(size + pairs, 64, 32, 1)[:-1], nn.Sigmoid())
    bags = nn.ModuleList([nn.EmbeddingBag(100, size, mode="sum") for _ in range(tables)])
    parameters = [p for part in (below, above, bags) for p in part.parameters()]
    optimizer, criterion = torch.optim.SGD(parameters, lr=0.1), nn.BCELoss()
    dense, y = torch.tensor(normal(batch, 13)), torch.tensor(normal(batch, 1) > 0).float()
    offsets = torch.arange(0, 2 * batch, 2)
    indices = [torch.tensor(integers(100, 2 * batch)) for _ in range(tables)]

    def step() -> Any:
        optimizer.zero_grad()
        x = below(dense)
        rows = [bag(index, offsets) for bag, index in zip(bags, indices, strict=True)]
        all_rows = torch.cat([x, *rows], dim=1).view((batch, -1, size))
        products = torch.bmm(all_rows, torch.transpose(all_rows, 1, 2))
        first = torch.tensor([i for i in range(tables + 1) for _ in range(i)])
        second = torch.tensor([j for i in range(tables + 1) for j in range(i)])
        loss = criterion(above(torch.cat([x, products[:, first, second]], dim=1)), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def transformer(torch: Any, layers: int) -> Any:
    """A GPT-2 of 32 features, whose attention takes a cache of keys and values."""
    nn, size, heads, words = torch.nn, 32, 2, 64

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(size), nn.LayerNorm(size)
            self.c_attn, self.c_proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
            self.fc, self.proj = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

        def forward(self, x: Any, past: Any) -> Any:
            b, t, c = x.size()
            parts = self.c_attn(self.ln_1(x)).split(size, dim=2)
            q, k, v = (part.view(b, t, heads, c // heads).transpose(1, 2) for part in parts)
            if past is not None:
                k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
            x = x + self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))
            gelu = nn.functional.gelu(self.fc(self.ln_2(x)), approximate="tanh")
            return x + self.proj(gelu), (k, v)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe = nn.Embedding(words, size), nn.Embedding(4096, size)
            self.h = nn.ModuleList([Block() for _ in range(layers)])
            self.ln_f, self.head = nn.LayerNorm(size), nn.Linear(size, words, bias=False)
            self.head.weight = self.wte.weight

        def forward(self, index: Any, pasts: Any = None) -> Any:
            start = 0 if pasts is None else pasts[0][0].shape[2]
            x = self.wte(index) + self.wpe(torch.arange(start, start + index.shape[1]))
            caches = []
            for i, block in enumerate(self.h):
                x, cache = block(x, None if pasts is None else pasts[i])
                caches.append(cache)
            return self.head(self.ln_f(x)), caches

    return Model()


def training(layers: int, batch: int, steps: int) -> Callable[[Any], Callable[[], Any]]:
    """A step of a GPT-2 of so many layers, with AdamW."""

    def build(torch: Any) -> Callable[[], Any]:
        model = transformer(torch, layers)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        x = torch.tensor(integers(64, batch, steps))

        def step() -> Any:
            logits = model(x)[0].view(-1, 64)
            loss = torch.nn.functional.cross_entropy(logits, x.view(-1))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss

        return step

    return build


def decoding(torch: Any) -> Callable[[], Any]:
    """The next token of a GPT-2 of 12 layers; each has a longer cache than the last."""
    model, last = transformer(torch, 12), []

    def step() -> Any:
        with torch.no_grad():
            index, pasts = last or (torch.tensor(integers(64, 1, 4)), None)
            logits, pasts = model(index, pasts)
            last[:] = logits[:, -1].argmax(-1, keepdim=True), pasts
        return last[0]

    return step


PROGRAMS = {
    "LSTM language model": language_model,
    "DLRM": recommender,
    "GPT-2, a token": decoding,
    "GPT-2, 12 layers": training(12, 2, 16),
    "GPT, 2 layers of 32": training(2, 2, 32),
    "LSTM 2 x 16": small_lstm,
}


def calls(torch: Any) -> dict[str, Callable[[], Any]]:
    """Calls on few elements, recorded."""
    functional = torch.nn.functional

    def leaf(*shape: int) -> Any:
        return torch.tensor(normal(*shape), requires_grad=True)

    x, y, z, weight, bias = leaf(8, 16), leaf(8, 16), leaf(4, 8, 16), leaf(32, 16), leaf(32)
    scale, shift, q, k, v = leaf(16), leaf(16), *(leaf(1, 2, 4, 8) for _ in range(3))
    table, index = leaf(10, 16), torch.tensor([[1, 2, 3], [4, 5, 6]])
    return {
        "x + y": lambda: x + y,
        "x.permute": lambda: z.permute(2, 0, 1),
        "x[:2]": lambda: z[:2],
        "x.split": lambda: z.split(8, dim=2),
        "x.contiguous": lambda: z.transpose(1, 2).contiguous(),
        "x.sum": lambda: z.sum(),
        "softmax": lambda: functional.softmax(x, dim=-1),
        "layer_norm": lambda: functional.layer_norm(z, (16,), scale, shift),
        "linear": lambda: functional.linear(x, weight, bias),
        "x @ y.t()": lambda: x @ y.t(),
        "cat": lambda: torch.cat((x, y), dim=0),
        "stack": lambda: torch.stack([x, y]),
        "embedding": lambda: functional.embedding(index, table),
        "attention": lambda: functional.scaled_dot_product_attention(q, k, v),
    }


class Counting(StreamWrapper):
    """Counts what a step asks of the device."""

    commands = 0

    def launch(self, *args: Any, **kwargs: Any) -> None:
        self.commands += 1
        self.inner.launch(*args, **kwargs)

    def copy(self, *args: Any) -> None:
        self.commands += 1
        self.inner.copy(*args)

    def fill(self, *args: Any) -> None:
        self.commands += 1
        self.inner.fill(*args)

    def write(self, *args: Any) -> None:
        self.commands += 1
        self.inner.write(*args)

    def upload(self, *args: Any) -> Any:
        self.commands += 1
        return self.inner.upload(*args)

    def download(self, *args: Any) -> Any:
        self.commands += 1
        return self.inner.download(*args)


def microseconds(run: Callable[[], object], count: int, finish: Callable[[], object]) -> float:
    """Processor time of this thread for a run, the best of several rounds."""
    best = float("inf")
    for _ in range(WARM):
        run()
    for _ in range(ROUNDS):
        finish()
        start = time.thread_time()
        for _ in range(count):
            run()
        best = min(best, (time.thread_time() - start) / count * 1e6)
    return best


def main() -> None:
    """Measure and print."""
    import torch

    torch.set_num_threads(1)
    chosen = sys.argv[1:] or ["calls", *PROGRAMS]
    finish = nc.default_device().queue.finish
    if "calls" in chosen:
        theirs = calls(torch)
        for name, run in calls(nc).items():
            ours, other = (
                microseconds(run, CALLS, finish),
                microseconds(theirs[name], CALLS, finish),
            )
            print(f"{name:14} {ours:7.1f} us   PyTorch {other:6.1f}   {ours / other:5.2f}x")
    for name, build in PROGRAMS.items():
        if name not in chosen:
            continue
        step, other_step = build(nc), build(torch)
        ours = microseconds(step, 8, finish)
        with use_stream(Counting(stream_of(nc.default_device()))) as counted:
            step()
        other = microseconds(other_step, 8, finish)
        print(f"{name:20} {ours / 1e3:7.2f} ms   {counted.commands:4} commands   "
              f"PyTorch {other / 1e3:6.2f}   {ours / other:5.2f}x")  # fmt: skip


if __name__ == "__main__":
    main()
