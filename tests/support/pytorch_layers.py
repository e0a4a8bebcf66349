"""Runs PyTorch's databases of layers and optimizers beside netcl's, and prints two tables.

    python tests/support/pytorch_layers.py [-k NAME] [--write]

`--write` renews the tables in docs/pytorch-operators.md.

Of each layer's samples: names and shapes of the state, which is then loaded, results, gradients of
inputs and parameters. Of each optimizer's samples: some steps of a matrix, a vector and a number,
whose places are compared, and whether the state has PyTorch's names. Both on the NumPy path in
float32. A sample that PyTorch itself refuses is left out.
"""

from __future__ import annotations

import argparse
import collections
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import torch  # isort: split

import numpy as np
from netcl_plugin_kit.check.torch_samples import differs, leaves, translated
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_leaves, tree_map

import netcl_core as nc

#: What netcl does not have, and why.
DOCUMENTED: Final = {
    "SparseAdam": "gradients are dense",
}
#: What PyTorch keeps in a state for the next call alone.
SCRATCH: Final = {"al"}
#: What draws numbers: shapes and dtypes are compared, in training.
RANDOM: Final = re.compile("Dropout|RReLU|Transformer")
#: What is compared in float64: rounding in float32, PyTorch's too, is above the tolerance, or the
#: samples hold float64 arguments.
WIDE: Final = re.compile("Fractional.*|CTCLoss|Transformer..coderLayer")
#: The page, and where its part begins.
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "pytorch-operators.md"
HEAD: Final = "## Layers and optimizers"
#: Steps of an optimizer.
STEPS: Final = 5


def _ours(value: Any, grad: bool) -> Any:
    def one(x: Any) -> Any:
        if isinstance(x, torch.nn.TransformerEncoderLayer):
            sizes = (x.self_attn.embed_dim, x.self_attn.num_heads, x.linear1.out_features)
            return nc.nn.TransformerEncoderLayer(
                *sizes, x.dropout.p, x.activation.__name__, x.norm1.eps, x.self_attn.batch_first,
                x.norm_first, x.linear1.bias is not None,
            )  # fmt: skip
        if isinstance(x, torch.nn.Module):
            return getattr(nc.nn, type(x).__name__)()
        name = getattr(x, "__name__", "")
        if callable(x) and getattr(torch.nn.functional, name, None) is x:
            return getattr(nc.nn.functional, name)
        return translated(x, grad)

    return tree_map(one, value, is_leaf=lambda x: isinstance(x, (torch.dtype, torch.device)))


def layers(chosen: Any = module_db) -> Iterator[tuple[str, str]]:
    """Each layer's name with what came of a sample: '' where it agrees."""
    for info in chosen:
        name = info.module_cls.__name__
        modes = (True, False) if info.train_and_eval_differ else (False,)
        for training in modes:
            torch.manual_seed(0)
            dtype = torch.float64 if WIDE.fullmatch(name) else torch.float32
            given = info.module_inputs_func(info, "cpu", dtype, True, training)
            for sample in given:
                text = _layer(info.module_cls, sample, training)
                if text is not None:
                    yield name, text


def _leaf(x: Any) -> Any:
    return x.detach().requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x


def _layer(cls: Any, sample: Any, training: bool) -> str | None:
    specification, call = sample.constructor_input, sample.forward_input
    layer = getattr(nc.nn, cls.__name__, None)
    if layer is None:
        return "absent"
    call.args, call.kwargs = tree_map(_leaf, (call.args, call.kwargs))
    wide = bool(WIDE.fullmatch(cls.__name__))
    theirs = cls(*specification.args, **specification.kwargs).train(training)
    theirs = theirs.double() if wide else theirs
    inputs = [x for x in tree_leaves((call.args, call.kwargs)) if isinstance(x, torch.Tensor)]
    lazy = "Lazy" in cls.__name__
    before = {} if lazy else {name: x.clone() for name, x in theirs.named_buffers()}
    try:
        wanted = theirs(*call.args, **call.kwargs)
    except Exception:
        return None
    try:
        args, kwargs = _ours((specification.args, specification.kwargs), False)
        kwargs.pop("device", None)
        ours = layer(*args, **kwargs).to("numpy").train(training)
        ours = ours.double() if wide else ours
        args, kwargs = _ours((call.args, call.kwargs), True)
        if lazy:
            ours(*args, **kwargs)
        names = {name: tuple(x.shape) for name, x in theirs.state_dict().items()}
        if names != {name: tuple(x.shape) for name, x in ours.state_dict().items()}:
            return f"state {list(ours.state_dict())} for {list(names)}"
        ours.load_state_dict({**theirs.state_dict(), **before})
        expected = leaves(wanted, torch.Tensor)
        results = leaves(ours(*args, **kwargs), nc.Tensor)
        drawn = bool(RANDOM.search(cls.__name__)) and training
        for a, b in zip(results, expected, strict=True):
            if text := differs(a, b, not drawn):
                return text
        for name, x in () if lazy else theirs.named_buffers():
            if text := differs(dict(ours.named_buffers())[name], x):
                return f"buffer {name}: {text}"
        moving = [(a, b) for a, b in zip(results, expected, strict=True)
                  if isinstance(b, torch.Tensor) and b.requires_grad]  # fmt: skip
        if drawn or not moving:
            return ""
        return _gradients(theirs, ours, inputs, (args, kwargs), moving)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _gradients(theirs: Any, ours: Any, inputs: Any, given: Any, moving: Any) -> str:
    torch.manual_seed(1)
    seeds = [torch.randn(b.shape, dtype=b.dtype) for _, b in moving]
    sum((b * s).sum() for (_, b), s in zip(moving, seeds, strict=True)).backward()
    sum((a * nc.tensor(s.numpy(), device="numpy")).sum()
        for (a, _), s in zip(moving, seeds, strict=True)).backward()  # fmt: skip
    own = [x for x in tree_leaves(given) if isinstance(x, nc.Tensor)]
    pairs = [(f"input {i}", a, b) for i, (a, b) in enumerate(zip(own, inputs, strict=True))
             if b.requires_grad]  # fmt: skip
    mine = dict(ours.named_parameters())
    pairs += [(name, mine[name], b) for name, b in theirs.named_parameters()]
    for name, a, b in pairs:
        gradient = nc.zeros_like(a) if a.grad is None else a.grad
        if text := differs(gradient, torch.zeros_like(b) if b.grad is None else b.grad):
            return f"gradient of {name}: {text}"
    return ""


def optimizers(chosen: Any = optim_db) -> Iterator[tuple[str, str]]:
    """Each optimizer's name with what came of a sample."""
    for info in chosen:
        for sample in info.optim_inputs_func("cpu"):
            yield info.optim_cls.__name__, _optimizer(info.optim_cls, sample)


def _optimizer(cls: Any, sample: Any) -> str:
    optimizer = getattr(nc.optim, cls.__name__, None)
    if optimizer is None:
        return "absent"
    random = np.random.default_rng(0)
    shapes = [(4, 3), (2, 5)] if cls.__name__ == "Muon" else [(4, 3), (5,), ()]
    begins = [np.asarray(random.standard_normal(shape), np.float32) for shape in shapes]
    kwargs = {name: x.item() if isinstance(x, torch.Tensor) else x
              for name, x in sample.kwargs.items()}  # fmt: skip
    right = [torch.tensor(x, requires_grad=True) for x in begins]
    mine = [nc.tensor(x, device="numpy", requires_grad=True) for x in begins]
    try:
        one = cls(right, **sample.kwargs)
        other = optimizer(mine, **kwargs)
        for _ in range(STEPS):

            def theirs() -> Any:
                one.zero_grad()
                loss = sum((x * x + x.abs()).sum() for x in right)
                loss.backward()
                return loss

            def ours() -> Any:
                other.zero_grad()
                loss = sum(((x * x + x.abs()).sum() for x in mine), start=nc.tensor(0.0, "numpy"))
                loss.backward()
                return loss

            one.step(theirs)
            other.step(ours)
        for a, b in zip(mine, right, strict=True):
            if text := differs(a.detach(), b.detach()):
                return text
        saved = other.state_dict()["state"]
        missing = [f"{number}: {name}" for number, state in one.state_dict()["state"].items()
                   for name in state if name not in {*saved[number], *SCRATCH}]  # fmt: skip
        return f"states {missing}" if missing else ""
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def survey(rows: Iterator[tuple[str, str]]) -> dict[str, collections.Counter[str]]:
    """By name what came of samples: '' for each that agrees, else what differs or why."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for name, text in rows:
        counts[name][DOCUMENTED.get(name, text)] += 1
    return counts


def table(title: str, counts: dict[str, collections.Counter[str]]) -> str:
    """A part of the page: the counts, and a row for each name."""
    samples = sum(count.total() for count in counts.values())
    agree = sum(count[""] for count in counts.values())
    lines = [
        f"{len(counts)} {title}, {samples} samples: {agree} agree.\n",
        f"| {title} | samples | agree | else |", "|---|---|---|---|",
        *(f"| `{name}` | {kinds.total()} | {kinds['']} | {'; '.join(filter(None, kinds))[:90]} |"
          for name, kinds in sorted(counts.items())),
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    """Run the samples, print the tables, and renew the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-k", dest="name", default="")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with nc.use_device("numpy"):
        parts = {
            "layers": layers(
                [i for i in module_db if re.search(given.name, i.module_cls.__name__)]
            ),
            "optimizers": optimizers(
                [i for i in optim_db if re.search(given.name, i.optim_cls.__name__)]
            ),
        }
        tables = [table(title, survey(rows)) for title, rows in parts.items()]
    print(*tables, sep="\n\n")
    if given.write and not given.name:
        kept = PAGE.read_text(encoding="utf-8").partition(HEAD)[0].rstrip()
        PAGE.write_text("\n\n".join([kept, HEAD.strip(), *tables, ""]).rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    main()
