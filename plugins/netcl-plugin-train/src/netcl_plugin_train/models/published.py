"""Weights of others: what the files that they published call the parameters of our models."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from netcl_core import nn, tensor
from netcl_core.errors import message


@final
@dataclass(frozen=True, slots=True)
class WeightNames:
    """What a kind of file calls a model's parameters.

    Attributes:
        origin: Who publishes such files.
        rows: For each of our names, with `#` for its numbers, the file's: `{a}`, `{b}` and `{c}`
            are the numbers, `{A}`, `{B}` and `{C}` one less; several names are joined along the
            first dimension; `.T` at the end: transposed. A name without a row is the file's.
        prefixes: What may stand before all of the file's names.
        heads: Names, as a pattern, of what the model has not: other heads, buffers.
    """

    origin: str
    rows: Mapping[str, str | Sequence[str]]
    prefixes: Sequence[str] = ("",)
    heads: str = r"(?!)"


def _pairs(
    rows: Mapping[str, str | Sequence[str]], parts: Sequence[str] = ("weight", "bias")
) -> dict[str, str | Sequence[str]]:
    """Rows of modules as those of their weight and bias."""
    return {
        f"{ours}.{part}": f"{theirs}.{part}"
        if isinstance(theirs, str)
        else [f"{name}.{part}" for name in theirs]
        for ours, theirs in rows.items()
        for part in parts
    }


def _attention(place: str) -> list[str]:
    return [f"{place}.{part}" for part in ("query", "key", "value")]


_GPT2 = {"qkv": "attn.c_attn", "out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"}
_BERT = "encoder.layer.{a}"
_VIT = "vit.encoder.layer.{a}"
_HF = "resnet.encoder.stages.{A}.layers.{b}"
_BATCH_NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
_TV = "encoder.layers.encoder_layer_{a}"

TABLES: Final[dict[str, Sequence[WeightNames]]] = {
    "GPT2": [
        WeightNames(
            "Hugging Face",
            {
                "tokens.weight": "wte.weight",
                "positions.weight": "wpe.weight",
                **_pairs({"norm": "ln_f", "blocks.#.norm1": "h.{a}.ln_1"}),
                **_pairs({"blocks.#.norm2": "h.{a}.ln_2"}),
                **{f"blocks.#.{k}.weight": f"h.{{a}}.{v}.weight.T" for k, v in _GPT2.items()},
                **{f"blocks.#.{k}.bias": f"h.{{a}}.{v}.bias" for k, v in _GPT2.items()},
            },
            ("", "transformer."),
            r"h\.\d+\.attn\.(masked_)?bias|lm_head\.weight",
        )
    ],
    "BERT": [
        WeightNames(
            "Hugging Face",
            {
                "tokens.weight": "embeddings.word_embeddings.weight",
                "positions.weight": "embeddings.position_embeddings.weight",
                "segments.weight": "embeddings.token_type_embeddings.weight",
                **_pairs(
                    {
                        "norm": "embeddings.LayerNorm",
                        "pool": "pooler.dense",
                        "blocks.#.qkv": _attention(f"{_BERT}.attention.self"),
                        "blocks.#.out": f"{_BERT}.attention.output.dense",
                        "blocks.#.norm1": f"{_BERT}.attention.output.LayerNorm",
                        "blocks.#.up": f"{_BERT}.intermediate.dense",
                        "blocks.#.down": f"{_BERT}.output.dense",
                        "blocks.#.norm2": f"{_BERT}.output.LayerNorm",
                    }
                ),
            },
            ("", "bert."),
            r"cls\..*|classifier\..*|qa_outputs\..*|.*position_ids",
        )
    ],
    "ViT": [
        WeightNames(
            "torchvision",
            {
                "token": "class_token",
                "positions": "encoder.pos_embedding",
                "blocks.#.qkv.weight": f"{_TV}.self_attention.in_proj_weight",
                "blocks.#.qkv.bias": f"{_TV}.self_attention.in_proj_bias",
                **_pairs(
                    {
                        "patches": "conv_proj",
                        "norm": "encoder.ln",
                        "head": "heads.head",
                        "blocks.#.out": f"{_TV}.self_attention.out_proj",
                        "blocks.#.norm1": f"{_TV}.ln_1",
                        "blocks.#.norm2": f"{_TV}.ln_2",
                        "blocks.#.up": f"{_TV}.mlp.0",
                        "blocks.#.down": f"{_TV}.mlp.3",
                    }
                ),
            },
        ),
        WeightNames(
            "Hugging Face",
            {
                "token": "vit.embeddings.cls_token",
                "positions": "vit.embeddings.position_embeddings",
                **_pairs(
                    {
                        "patches": "vit.embeddings.patch_embeddings.projection",
                        "norm": "vit.layernorm",
                        "head": "classifier",
                        "blocks.#.qkv": _attention(f"{_VIT}.attention.attention"),
                        "blocks.#.out": f"{_VIT}.attention.output.dense",
                        "blocks.#.norm1": f"{_VIT}.layernorm_before",
                        "blocks.#.norm2": f"{_VIT}.layernorm_after",
                        "blocks.#.up": f"{_VIT}.intermediate.dense",
                        "blocks.#.down": f"{_VIT}.output.dense",
                    }
                ),
            },
            heads=r"vit\.pooler\..*",
        ),
    ],
    "ResNet": [
        WeightNames("torchvision", {}),  # whose names the model has
        WeightNames(
            "Hugging Face",
            {
                "conv#.weight": "resnet.embedder.embedder.convolution.weight",
                "layer#.#.conv#.weight": f"{_HF}.layer.{{C}}.convolution.weight",
                "layer#.#.downsample.0.weight": f"{_HF}.shortcut.convolution.weight",
                **_pairs({"fc": "classifier.1"}),
                **_pairs(
                    {
                        "bn#": "resnet.embedder.embedder.normalization",
                        "layer#.#.bn#": f"{_HF}.layer.{{C}}.normalization",
                        "layer#.#.downsample.1": f"{_HF}.shortcut.normalization",
                    },
                    _BATCH_NORM,
                ),
            },
        ),
    ],
}


def load(model: Any, path: str | os.PathLike[str]) -> Any:
    """Give a model the weights of a published file.

        model = models.GPT2()
        models.load(model, "gpt2/model.safetensors")

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nn.save(models.ResNet((1,), width=4), f"{folder}/resnet.safetensors")
    ...     models.load(models.ResNet((1,), width=4), f"{folder}/resnet.safetensors")
    LoadReport(missing_keys=[], unexpected_keys=[])

    Args:
        model: A GPT2, BERT, ViT or ResNet with the sizes of the published one.
        path: A file of safetensors or of `torch.save`, with Hugging Face's names (all but ResNet)
            or torchvision's (ResNet and ViT).

    Returns what `load_state_dict` does; what the model has not, such as another task's head, is in
    `unexpected_keys`. Raises StateError, which names what does not fit, and then changes nothing.
    """
    kind = type(model).__name__
    tables = TABLES.get(kind)
    if tables is None:
        given, expected = f"a {kind}", f"a model of models.{', models.'.join(TABLES)}"
        raise TypeError(message("models.load", given, expected, "nn.load takes any model"))
    stored = nn.load(path)
    ours = [*model.state_dict()]
    choices = [(names, prefix) for names in tables for prefix in names.prefixes]
    names, prefix = max(
        choices,
        key=lambda choice: sum(
            choice[1] + _theirs(name, choice[0])[0][0] in stored for name in ours
        ),
    )
    wanted = {name: _theirs(name, names) for name in ours}
    state: dict[str, Any] = {}
    used: set[str] = set()
    for ours, (theirs, turned) in wanted.items():
        full = [prefix + name for name in theirs]
        if all(name in stored for name in full):
            used.update(full)
            arrays = [stored[name].numpy() for name in full]
            array = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
            state[ours] = tensor(array.T if turned else array, device="numpy")
    others = [name for name in stored if name not in used]
    heads = re.compile(f"({'|'.join(map(re.escape, names.prefixes))})({names.heads})")
    strange = {other: stored[other] for other in others if not heads.fullmatch(other)}
    try:
        report = model.load_state_dict({**state, **strange})
    except nn.StateError as error:
        error.add_note(f"The weights are those of {path}, read with the names of {names.origin}")
        raise
    report.unexpected_keys.extend(other for other in others if other not in strange)
    return report


def _theirs(ours: str, names: WeightNames) -> tuple[list[str], bool]:
    """The file's names of a parameter, and whether it is transposed there."""
    for pattern, given in names.rows.items():
        match = re.fullmatch(re.escape(pattern).replace(r"\#", r"(\d+)"), ours)
        if match is not None:
            return _filled([given] if isinstance(given, str) else given, match.groups())
    return [ours], False


def _filled(rows: Sequence[str], numbers: Sequence[str]) -> tuple[list[str], bool]:
    places = dict(zip("abc", map(int, numbers), strict=False))
    places |= {key.upper(): number - 1 for key, number in places.items()}
    names = [row.format(**places) for row in rows]
    return [name.removesuffix(".T") for name in names], names[0].endswith(".T")
