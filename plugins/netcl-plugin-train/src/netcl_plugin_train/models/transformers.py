"""GPT-2, BERT and the Vision Transformer, which are stacks of one kind of block."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from netcl_plugin_nn.module import Module

from netcl_core import autograd as ag
from netcl_core import nn
from netcl_core.errors import ShapeError, message

_GELU: Final = partial(ag.gelu, approximate="none")


@final
class TransformerBlock(Module):
    """Attention of several heads and two linear layers, each with a norm and a residual.

    Args:
        width: The size of a position's vector.
        heads: A divisor of `width`.
        eps: Of the norms.
        dropout: A probability; used in training.
        norm_first: Whether the norms stand before the two parts, or behind the residuals.
        causal: Whether a position attends to itself and to those before it only.
        activation: Between the linear layers, of which the first gives `4 * width` features.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        eps: float,
        dropout: float = 0.0,
        norm_first: bool = True,
        causal: bool = False,
        activation: Callable[[Any], Any] = _GELU,
    ) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_first, self.causal, self.activation = norm_first, causal, activation
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm1 = nn.LayerNorm(width, eps)
        self.norm2 = nn.LayerNorm(width, eps)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Any, mask: Any = None) -> Any:
        """`x` of shape (N, T, width); `mask` is added to the scores, (N, 1, 1, T) or None."""
        if self.norm_first:
            x = x + self.attend(self.norm1(x), mask)
            return x + self.feed_forward(self.norm2(x))
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.feed_forward(x))

    def attend(self, x: Any, mask: Any) -> Any:
        """What the positions take from each other."""
        n, length, width = x.shape
        packed = self.qkv(x).reshape(n, length, 3, self.heads, width // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        p = self.dropout if self.training else 0.0
        attended = ag.scaled_dot_product_attention(query, key, value, mask, p, self.causal)
        return self.drop(self.out(attended.transpose(1, 2).reshape(n, length, width)))

    def feed_forward(self, x: Any) -> Any:
        """The two linear layers."""
        return self.drop(self.down(self.activation(self.up(x))))


def _positions(who: str, table: Any, length: int) -> Any:
    if length > table.shape[0]:
        given = f"{length} positions"
        raise ShapeError(message(who, given, f"at most {table.shape[0]}, as the model has"))
    return table[:length]


@final
class GPT2(Module):
    """The language model GPT-2 (Radford et al. 2019): scores of the next token at each position.

    >>> model = models.GPT2(vocabulary=50, context=16, width=32, layers=2, heads=4)
    >>> model(nc.tensor([[1, 2, 3]])).shape
    (1, 3, 50)

    Args:
        vocabulary: How many tokens there are.
        context: The most positions of a text.
        width: The size of a position's vector.
        layers: How many blocks.
        heads: Of each block; a divisor of `width`.
        dropout: A probability; used in training.

    The defaults make the published `gpt2`. Raises ShapeError for longer texts.
    """

    def __init__(
        self,
        vocabulary: int = 50257,
        context: int = 1024,
        width: int = 768,
        layers: int = 12,
        heads: int = 12,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        gelu = partial(ag.gelu, approximate="tanh")
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, 1e-5, dropout, causal=True, activation=gelu)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Any) -> Any:
        """Scores (N, T, vocabulary) of tokens (N, T), integers."""
        x = self.drop(self.tokens(ids) + _positions("GPT2", self.positions.weight, ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return ag.linear(self.norm(x), self.tokens.weight)


@final
class BERT(Module):
    """The encoder BERT (Devlin et al. 2018, arXiv:1810.04805): a vector for each token.

    >>> model = models.BERT(vocabulary=50, context=16, width=32, layers=2, heads=4)
    >>> hidden, pooled = model(nc.tensor([[1, 2, 3]]))
    >>> hidden.shape, pooled.shape
    ((1, 3, 32), (1, 32))

    Args:
        vocabulary, context, width, layers, heads, dropout: As of GPT2.
        segments: How many kinds of segments there are.

    The defaults make `bert-base-uncased`. Raises ShapeError for longer texts.
    """

    def __init__(
        self,
        vocabulary: int = 30522,
        context: int = 512,
        width: int = 768,
        layers: int = 12,
        heads: int = 12,
        dropout: float = 0.1,
        segments: int = 2,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.segments = nn.Embedding(segments, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, 1e-12, dropout, norm_first=False) for _ in range(layers)
        )
        self.pool = nn.Linear(width, width)

    def forward(self, ids: Any, mask: Any = None, segments: Any = None) -> tuple[Any, Any]:
        """The tokens' vectors (N, T, width), and one of each text, (N, width).

        Args:
            ids: Tokens, integers (N, T).
            mask: (N, T), 1 for a token and 0 for padding; None: there is no padding.
            segments: (N, T), the segment of each token; None: the first.
        """
        kinds = self.segments.weight[0] if segments is None else self.segments(segments)
        places = _positions("BERT", self.positions.weight, ids.shape[1])
        x = self.drop(self.norm(self.tokens(ids) + places + kinds))
        if mask is not None:
            mask = ((1.0 - mask.float()) * -1e9)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return x, ag.tanh(self.pool(x[:, 0]))


@final
class ViT(Module):
    """The Vision Transformer (Dosovitskiy et al. 2020, arXiv:2010.11929): scores of classes.

    >>> model = models.ViT(size=32, patch=8, width=32, layers=2, heads=4, classes=10)
    >>> model(nc.rand(1, 3, 32, 32)).shape
    (1, 10)

    Args:
        size: The height and width of a picture, in pixels.
        patch: The side of a patch, a divisor of `size`.
        width, layers, heads, dropout: As of GPT2.
        classes: How many there are.
        eps: Of the norms: 1e-6 in torchvision's files, 1e-12 in Hugging Face's.

    The defaults make `vit_b_16`.
    """

    def __init__(
        self,
        size: int = 224,
        patch: int = 16,
        width: int = 768,
        layers: int = 12,
        heads: int = 12,
        classes: int = 1000,
        dropout: float = 0.0,
        eps: float = 1e-6,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(ag.zeros((1, 1, width)))
        self.positions = nn.Parameter(ag.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, eps, dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width, eps)
        self.head = nn.Linear(width, classes)

    def forward(self, pictures: Any) -> Any:
        """Scores (N, classes) of pictures (N, 3, size, size)."""
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1)
        x = ag.cat([token, x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))
