"""What is as in PyTorch, what differs and why, what is absent: the table that a test goes by.

The page docs/from-pytorch.md is made of it. A difference is a line of code which both libraries
run, with what each gives; the names are those of PyTorch 2.13, in `pytorch_names.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NAMES = Path(__file__).with_name("pytorch_names.json")


class Difference(NamedTuple):
    """A line of code, what PyTorch and netcl give for it, and why they differ."""

    code: str
    theirs: str
    ours: str
    why: str


DIFFERENCES = (
    Difference(
        "torch.float32",
        "torch.float32",
        "'float32'",
        "dtypes are texts, which need no import; `x.dtype == torch.float32` holds in both",
    ),
    Difference(
        "torch.ones(2, 3).shape",
        "torch.Size([2, 3])",
        "(2, 3)",
        "a tuple does what a Size does",
    ),
    Difference(
        "torch.ones(2, 3).size == 6",
        "False",
        "True",
        "`x.size` is NumPy's number of elements; called, `x.size()`, it is PyTorch's method",
    ),
    Difference(
        "type(torch.ones(2) + 1).__name__",
        "'Tensor'",
        "'Node'",
        "the result of an op is a Tensor that knows what it came from; `isinstance` says so",
    ),
    Difference(
        "(x := torch.zeros(2), x[0:1].add_(1), x.tolist())[-1]",
        "[1.0, 0.0]",
        "[0.0, 0.0]",
        "a slice is a copy: kernels read memory without gaps. `x[0:1] += 1` changes `x` in both",
    ),
    Difference(
        "(a := np.zeros(2, np.float32), x := torch.from_numpy(a), x.add_(1), a.tolist())[-1]",
        "[1.0, 1.0]",
        "[0.0, 0.0]",
        "the data is on a device, so it is a copy",
    ),
    Difference(
        "torch.ones(2, requires_grad=True).numpy().tolist()",
        "RuntimeError",
        "[1.0, 1.0]",
        "it is a copy, so nothing can be lost; `detach()` before it changes nothing",
    ),
    Difference(
        "torch.zeros(2, device='cpu').device",
        "device(type='cpu')",
        "<Device numpy: NumPy>",
        "`'cpu'`, `'cuda'` and `'mps'` all mean the default OpenCL device, whose type is `'cuda'` "
        "where it is a GPU; NumPy's path is `'numpy'`",
    ),
    Difference(
        "type(torch.autograd.grad((x := torch.ones(1, requires_grad=True)) * 2, x)).__name__",
        "'tuple'",
        "'list'",
        "it unpacks alike",
    ),
    Difference(
        "(y := torch.ones(2, requires_grad=True) * 2, y.sum().backward(), y.sum().backward())[-1]",
        "RuntimeError",
        "None",
        "a number is no tensor here, so `x * 2` saves nothing; an op that saves something raises",
    ),
    Difference(
        "(y := torch.ones(2, requires_grad=True).exp(), y.mul_(2), y.sum().backward())[-1]",
        "RuntimeError",
        "None",
        "`exp` computes its gradient from `x`, so nothing that it needs has changed; where "
        "something has, MutationError (a RuntimeError) names the line",
    ),
    Difference(
        "torch.nn.functional.hardshrink(torch.tensor([0, 2])).tolist()",
        "NotImplementedError",
        "[0.0, 2.0]",
        "an elementwise op of floats takes whole numbers too, and its result is floating",
    ),
    Difference(
        "torch.nn.functional.threshold(torch.tensor([1, 5]), 2, 0.5).tolist()",
        "[0, 5]",
        "[0.5, 5.0]",
        "a number with a fraction makes the result floating, as it does in `clamp`",
    ),
    Difference(
        "torch.fmod(torch.tensor([5]), torch.tensor([0])).tolist()",
        "RuntimeError",
        "[0]",
        "a tensor of divisors stays on its device and is not looked at; `%` and `//` alike",
    ),
    Difference(
        "torch.tensor([1 + 2j])",
        "tensor([1.+2.j])",
        "DtypeError",
        "complex numbers, quantized and sparse tensors are not there",
    ),
    Difference(
        "repr(torch.ones(2))",
        "'tensor([1., 1.])'",
        "'Tensor([1., 1.], shape=(2,), dtype=float32, device=numpy)'",
        "shape, dtype and device are what one looks for",
    ),
    Difference(
        "(torch.manual_seed(0), torch.randn(1).item())[-1]",
        "1.5409960746765137",
        "...",
        "another generator (Philox): the same numbers on every device, and not PyTorch's",
    ),
    Difference(
        "torch.manual_seed(0) is None",
        "False",
        "True",
        "a generator belongs to its device, and is no object",
    ),
)

#: Where a name is looked for, and what it is called on the page.
PLACES = {
    "nn": "layers of `torch.nn`",
    "nn.functional": "functions of `torch.nn.functional`",
    "nn.init": "of `torch.nn.init`",
    "optim": "optimizers",
    "optim.lr_scheduler": "schedules",
    "utils.data": "of `torch.utils.data`",
    "torch": "functions of `torch`",
    "Tensor": "methods of a tensor",
}


@cache
def names() -> dict[str, list[str]]:
    """PyTorch's public names by their place."""
    found: dict[str, list[str]] = json.loads(NAMES.read_text(encoding="utf-8"))
    return found


def place(library: Any, name: str) -> Any:
    """Where a library has the names of a place."""
    if name == "torch":
        return library
    if name == "Tensor":
        return library.ones(2)
    for each in name.split("."):
        library = getattr(library, each)
    return library


def given(library: Any, code: str) -> str:
    """What a line of code gives in a library, or the type of the error that it raises."""
    try:
        return repr(eval(code, {"torch": library, "np": np}))
    except Exception as error:  # whatever it is, it is what the table tells
        return type(error).__name__


def differences() -> Iterator[str]:
    """The rows of the page's table."""
    yield "| code | PyTorch | netcl | why |"
    yield "|---|---|---|---|"
    for each in DIFFERENCES:
        theirs, ours = (f"`{text}`" for text in (each.theirs, each.ours))
        ours = "another number" if each.ours == "..." else ours
        yield f"| `{each.code}` | {theirs} | {ours} | {each.why} |"


def here(library: Any) -> Iterator[str]:
    """How many of PyTorch's names there are, by place."""
    yield "| of PyTorch's | here | of |"
    yield "|---|---|---|"
    for name, title in PLACES.items():
        lacking = absent(library, name)
        yield f"| {title} | {len(names()[name]) - len(lacking)} | {len(names()[name])} |"


def absent(library: Any, name: str) -> list[str]:
    """The names of a place that a library does not have."""
    where = place(library, name)
    return [each for each in names()[name] if not hasattr(where, each)]


def absences(library: Any) -> Iterator[str]:
    """What is not there, by place."""
    for name, title in PLACES.items():
        lacking = absent(library, name)
        if lacking:
            yield f"- {title}: {' '.join(lacking)}"
