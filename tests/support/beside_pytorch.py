"""What is as in PyTorch, what differs and why, what is absent: the table that a test goes by.

The page docs/from-pytorch.md is made of it. A difference is a line of code which both libraries
run, with what each gives; the names are those of netcl-plugin-port's `pytorch.txt`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from netcl_plugin_port.absent import ANY, OTHERS, pytorchs, reason


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
        "a tuple does what a Size does, but for `.numel()`: write `x.numel()` or "
        "`math.prod(x.shape)`",
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
        "(a := np.zeros(2, np.float32), x := torch.from_numpy(a), x.add_(1), a.tolist())[-1]",
        "[1.0, 1.0]",
        "[0.0, 0.0]",
        "the data is on a device, so it is a copy",
    ),
    Difference(
        "torch.nn.functional.binary_cross_entropy(torch.tensor([2.0]), torch.tensor([1.0])).item()",
        "RuntimeError",
        "nan",
        "to look whether each value lies in 0 to 1 would wait for the device at each step",
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
        "(torch.set_default_dtype(torch.float64), torch.set_default_dtype(torch.float32))[-1]",
        "None",
        "ArgumentError",
        "the default is float32 everywhere: give `dtype=`, or write `model.to(torch.float64)`",
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
)

#: What each place of `pytorch.txt` is called on the page.
PLACES = {
    "torch": "`torch`",
    "Tensor": "a tensor's methods and properties",
    "nn": "`torch.nn`",
    "nn.functional": "`torch.nn.functional`",
    "nn.init": "`torch.nn.init`",
    "nn.utils": "`torch.nn.utils`",
    "nn.utils.rnn": "`torch.nn.utils.rnn`",
    "optim": "`torch.optim`",
    "optim.lr_scheduler": "`torch.optim.lr_scheduler`",
    "utils.data": "`torch.utils.data`",
    "amp": "`torch.amp`",
    "autograd": "`torch.autograd`",
    "cuda": "`torch.cuda`",
}
#: Names that are taken and change nothing: what they ask for is so anyway.
IGNORED = frozenset(
    {
        "contiguous",
        "pin_memory",
        "record_stream",
        "share_memory_",
        "is_contiguous",
        "empty_cache",
        "init",
        "ipc_collect",
        "set_num_interop_threads",
        "set_num_threads",
        "set_printoptions",
        "set_warn_always",
        "use_deterministic_algorithms",
    }
)


def place(library: Any, name: str) -> Any:
    """Where a library has the names of a place."""
    if name == "torch":
        return library
    if name == "Tensor":
        return library.ones(2, 2)
    for part in name.split("."):
        library = getattr(library, part)
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
    for difference in DIFFERENCES:
        theirs, ours = (f"`{text}`" for text in (difference.theirs, difference.ours))
        ours = "another number" if difference.ours == "..." else ours
        yield f"| `{difference.code}` | {theirs} | {ours} | {difference.why} |"


@cache
def table(library: Any) -> dict[str, dict[str, list[str]]]:
    """PyTorch's names by their place: `offered`, `ignored`, and those that a sentence is for."""
    rows_of: dict[str, dict[str, list[str]]] = {}
    for name in PLACES:
        where, rows = place(library, name), rows_of.setdefault(name, {})
        for each in pytorchs()[name]:
            said = "ignored" if each in IGNORED else "offered"
            state = said if hasattr(where, each) else reason(name, each)
            rows.setdefault(state, []).append(each)
    return rows_of


def listed(library: Any) -> dict[str, dict[str, str]]:
    """The table with the names of each state as one text."""
    return {
        PLACES[name].strip("`"): {state: " ".join(names) for state, names in rows.items()}
        for name, rows in table(library).items()
    }


def here(library: Any) -> Iterator[str]:
    """How many of PyTorch's names there are, by place."""
    general = {ANY, *OTHERS.values()}
    yield "| names of | offered | ignored | refused: another way is told | absent so far |"
    yield "|---|---|---|---|---|"
    for name, title in PLACES.items():
        counts = dict.fromkeys(("offered", "ignored", "refused", "absent"), 0)
        for state, names in table(library)[name].items():
            kind = "absent" if state in general else state if state in counts else "refused"
            counts[kind] += len(names)
        yield f"| {title} | {' | '.join(str(count) for count in counts.values())} |"


def absences(library: Any) -> Iterator[str]:
    """What is not there so far, and has no other way: layers, functions, optimizers."""
    for name in ("nn", "nn.functional", "optim", "torch", "Tensor"):
        general = table(library)[name].get(OTHERS.get(name, ANY), [])
        others = set(table(library)["torch"].get(ANY, ())) if name == "Tensor" else set()
        names = [each for each in general if each.rstrip("_") not in others]
        if names:
            yield f"- {PLACES[name]}: {' '.join(names)}"
