"""Models that many people train, as their PyTorch authors write them; `nn` is either library's.

Each function takes the module of layers, `netcl_core.nn` or `torch.nn`, and gives a model.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import netcl_core as nc
from harness.peers import library


def gpt2(
    nn: Any, layers: int = 12, width: int = 768, words: int = 50257, length: int = 1024
) -> Any:
    """GPT-2 (Radford et al., 2019): tokens (batch, length) -> logits (batch, length, words)."""
    functional = nn.functional

    class GPT2(nn.Module):  # type: ignore[misc]  # of either library
        """Blocks between an embedding and a head with the embedding's weights."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList(
                [block(nn, width, width // 64, causal=True) for _ in range(layers)]
            )
            self.norm = nn.LayerNorm(width)

        def forward(self, tokens: Any, caches: Any = None) -> Any:
            start = 0 if caches is None or caches[0] is None else caches[0][0].shape[2]
            x = self.words(tokens) + self.places.weight[start : start + tokens.shape[1]]
            for i, one in enumerate(self.blocks):
                if caches is None:
                    x = one(x)
                else:
                    x, caches[i] = one(x, (caches[i],))
            return functional.linear(self.norm(x), self.words.weight)

    return GPT2()


def block(nn: Any, width: int, heads: int, causal: bool = False, first: bool = True) -> Any:
    """A transformer's block; norms come `first`, or behind the sums as in BERT."""
    functional, whole = nn.functional, library_of(nn)

    class Block(nn.Module):  # type: ignore[misc]  # of either library
        """Attention and two linear layers, each with a way around it."""

        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
            self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def attend(self, x: Any, cache: Any) -> Any:
            """The attention, and keys and values with those of the cache before them."""
            batch, length, _ = x.shape
            parts = self.mix(x).split(width, dim=2)
            q, k, v = (
                part.view(batch, length, heads, width // heads).transpose(1, 2) for part in parts
            )
            if cache and cache[0] is not None:
                k, v = (
                    whole.cat([old, new], dim=2) for old, new in zip(cache[0], (k, v), strict=True)
                )
            y = functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal and k.shape[2] == length
            )
            y = y.transpose(1, 2).contiguous().view(batch, length, width)
            return self.out(y), (k, v)

        def forward(self, x: Any, cache: Any = ()) -> Any:
            before, between = self.norms
            y, kept = self.attend(before(x) if first else x, cache)
            x = x + y if first else before(x + y)
            y = self.narrow(functional.gelu(self.widen(between(x) if first else x)))
            x = x + y if first else between(x + y)
            return (x, kept) if cache else x

    return Block()


def library_of(nn: Any) -> Any:
    """The package of a module of layers: `torch` of `torch.nn`."""
    return nc if nn is nc.nn else library("torch")


def vit(nn: Any, layers: int = 12, width: int = 768, side: int = 224, classes: int = 1000) -> Any:
    """ViT-B/16 (Dosovitskiy et al., 2020): pictures (batch, 3, side, side) -> logits."""
    whole = library_of(nn)
    count = (side // 16) ** 2 + 1

    class ViT(nn.Module):  # type: ignore[misc]  # of either library
        """Patches, a token for the class, blocks and a head."""

        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, stride=16)
            self.token = nn.Parameter(whole.zeros(1, 1, width))
            self.places = nn.Parameter(whole.zeros(1, count, width))
            self.blocks = nn.Sequential(*[block(nn, width, width // 64) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            token = self.token.expand(x.shape[0], -1, -1)
            x = whole.cat((token, x), dim=1) + self.places
            return self.head(self.norm(self.blocks(x))[:, 0])

    return ViT()


def bert(nn: Any, layers: int = 12, width: int = 768, words: int = 30522, length: int = 512) -> Any:
    """BERT-base (Devlin et al., 2018): tokens (batch, length) -> logits of words."""

    class Bert(nn.Module):  # type: ignore[misc]  # of either library
        """Embeddings with a norm, blocks with norms behind them, a head."""

        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.norm = nn.LayerNorm(width)
            self.blocks = nn.Sequential(
                *[block(nn, width, width // 64, first=False) for _ in range(layers)]
            )
            self.head = nn.Linear(width, words)

        def forward(self, tokens: Any) -> Any:
            x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
            return self.head(self.blocks(self.norm(x)))

    return Bert()


def resnet50(nn: Any, classes: int = 1000) -> Any:
    """ResNet-50 (He et al., 2015): pictures (batch, 3, side, side) -> logits."""

    class Bottleneck(nn.Module):  # type: ignore[misc]  # of either library
        """1 x 1, 3 x 3 and 1 x 1, around which the input goes."""

        def __init__(self, before: int, inner: int, stride: int) -> None:
            super().__init__()
            after = 4 * inner
            sizes = [(before, inner, 1, 1), (inner, inner, 3, stride), (inner, after, 1, 1)]
            self.parts = nn.Sequential(*_normed(nn, sizes)[:-1])
            self.around = nn.Identity()
            if stride > 1 or before != after:
                self.around = nn.Sequential(*_normed(nn, [(before, after, 1, stride)])[:-1])
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            return self.relu(self.parts(x) + self.around(x))

    layers = [*_normed(nn, [(3, 64, 7, 2)]), nn.MaxPool2d(3, stride=2, padding=1)]
    before = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        for i in range(depth):
            layers.append(Bottleneck(before, 64 << stage, 2 if stage and not i else 1))
            before = 256 << stage
    ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)]
    return nn.Sequential(*layers, *ends)


def _normed(nn: Any, sizes: Any) -> list[Any]:
    """Convolutions (before, after, kernel, stride), each with a batch norm and a relu."""
    layers: list[Any] = []
    for before, after, kernel, stride in sizes:
        padding = kernel // 2
        conv = nn.Conv2d(before, after, kernel, stride=stride, padding=padding, bias=False)
        layers += [conv, nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
    return layers


def mobilenet_v2(nn: Any, classes: int = 1000) -> Any:
    """MobileNetV2 (Sandler et al., 2018): pictures (batch, 3, side, side) -> logits."""

    def part(before: int, after: int, kernel: int, stride: int, groups: int) -> list[Any]:
        conv = nn.Conv2d(
            before, after, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False
        )
        return [conv, nn.BatchNorm2d(after)]

    class Inverted(nn.Module):  # type: ignore[misc]  # of either library
        """Wide inside: 1 x 1, depthwise 3 x 3, 1 x 1."""

        def __init__(self, before: int, after: int, stride: int, times: int) -> None:
            super().__init__()
            wide = before * times
            layers = [*part(before, wide, 1, 1, 1), nn.ReLU6(inplace=True)] if times > 1 else []
            layers += [*part(wide, wide, 3, stride, wide), nn.ReLU6(inplace=True)]
            self.parts = nn.Sequential(*layers, *part(wide, after, 1, 1, 1))
            self.adds = stride == 1 and before == after

        def forward(self, x: Any) -> Any:
            return x + self.parts(x) if self.adds else self.parts(x)

    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    stages += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    layers, before = [*part(3, 32, 3, 2, 1), nn.ReLU6(inplace=True)], 32
    for times, after, depth, stride in stages:
        for i in range(depth):
            layers.append(Inverted(before, after, stride if i == 0 else 1, times))
            before = after
    layers += [*part(before, 1280, 1, 1, 1), nn.ReLU6(inplace=True)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes))


def unet(nn: Any, width: int = 64, depth: int = 4, classes: int = 2) -> Any:
    """U-Net (Ronneberger et al., 2015), padded: (batch, 3, h, w) -> (batch, classes, h, w)."""
    whole = library_of(nn)

    def double(before: int, after: int) -> Any:
        return nn.Sequential(*_normed(nn, [(before, after, 3, 1), (after, after, 3, 1)]))

    class UNet(nn.Module):  # type: ignore[misc]  # of either library
        """Down by pooling, up by transposed convolutions, with ways across."""

        def __init__(self) -> None:
            super().__init__()
            widths = [width << i for i in range(depth + 1)]
            self.down = nn.ModuleList([double(a, b) for a, b in pairwise([3, *widths])])
            pairs = list(pairwise(reversed(widths)))
            self.up = nn.ModuleList([nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in pairs])
            self.join = nn.ModuleList([double(2 * b, b) for _, b in pairs])
            self.pool, self.head = nn.MaxPool2d(2), nn.Conv2d(width, classes, 1)

        def forward(self, x: Any) -> Any:
            across = []
            for i, part in enumerate(self.down):
                x = part(x if i == 0 else self.pool(x))
                across.append(x)
            across.pop()
            for up, join in zip(self.up, self.join, strict=True):
                x = join(whole.cat([across.pop(), up(x)], dim=1))
            return self.head(x)

    return UNet()


def dcgan(nn: Any, latent: int = 100, width: int = 64) -> Any:
    """DCGAN (Radford et al., 2015): noise (batch, latent, 1, 1), pictures -> logits of both."""
    whole = library_of(nn)

    class DCGAN(nn.Module):  # type: ignore[misc]  # of either library
        """What makes pictures of 64 x 64, and what judges them and real ones."""

        def __init__(self) -> None:
            super().__init__()
            layers: list[Any] = []
            before = latent
            for i, times in enumerate((8, 4, 2, 1)):
                layers.append(
                    nn.ConvTranspose2d(
                        before, times * width, 4, stride=1 + (i > 0), padding=int(i > 0), bias=False
                    )
                )
                layers += [nn.BatchNorm2d(times * width), nn.ReLU(True)]
                before = times * width
            layers += [nn.ConvTranspose2d(before, 3, 4, stride=2, padding=1, bias=False), nn.Tanh()]
            self.maker = nn.Sequential(*layers)
            layers, before = [], 3
            for times in (1, 2, 4, 8):
                layers.append(nn.Conv2d(before, times * width, 4, stride=2, padding=1, bias=False))
                layers += [nn.BatchNorm2d(times * width)] if times > 1 else []
                layers.append(nn.LeakyReLU(0.2, inplace=True))
                before = times * width
            self.judge = nn.Sequential(*layers, nn.Conv2d(before, 1, 4, bias=False))

        def forward(self, noise: Any, pictures: Any) -> Any:
            both = whole.cat([pictures, self.maker(noise)])
            return self.judge(both).view(-1)

    return DCGAN()


def lstm_lm(nn: Any, width: int = 650, words: int = 10000, layers: int = 2) -> Any:
    """A language model (Zaremba et al., 2014): tokens (length, batch) -> logits."""

    class LanguageModel(nn.Module):  # type: ignore[misc]  # of either library
        """An embedding, LSTMs and a head."""

        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.lstm, self.head = nn.LSTM(width, width, layers), nn.Linear(width, words)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.lstm(self.words(tokens))[0])

    return LanguageModel()


def dlrm(nn: Any, tables: int = 26, rows: int = 100_000, width: int = 64) -> Any:
    """DLRM (Naumov et al., 2019): numbers (batch, 13), places (batch, tables) -> logits."""
    whole = library_of(nn)

    def layers_of(*sizes: int) -> Any:
        layers: list[Any] = []
        for before, after in pairwise(sizes):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return layers

    class DLRM(nn.Module):  # type: ignore[misc]  # of either library
        """Embeddings and a transformed input, all inner products of which go to the top."""

        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
            self.bottom = nn.Sequential(*layers_of(13, 512, 256, width))
            pairs = (tables + 1) * tables // 2
            self.top = nn.Sequential(*layers_of(width + pairs, 512, 256, 1)[:-1])
            self.register_buffer("below", whole.tril_indices(tables + 1, tables + 1, -1))

        def forward(self, numbers: Any, places: Any) -> Any:
            x = self.bottom(numbers)
            rows_of = [table(places[:, i]) for i, table in enumerate(self.tables)]
            parts = whole.stack([x, *rows_of], dim=1)
            products = whole.bmm(parts, parts.transpose(1, 2))
            chosen = products[:, self.below[0], self.below[1]]
            return self.top(whole.cat([x, chosen], dim=1))[:, 0]

    return DLRM()


def policy_net(nn: Any, inputs: int = 17, actions: int = 6) -> Any:
    """Two small layers, as agents have them: states (batch, inputs) -> (batch, actions)."""
    sizes = [nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()]
    return nn.Sequential(*sizes, nn.Linear(64, actions))


def lenet(nn: Any) -> Any:
    """LeNet (LeCun et al., 1998): pictures (batch, 1, 28, 28) -> logits of ten digits."""
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(84, 10))
