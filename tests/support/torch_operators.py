"""Runs PyTorch's database of operators on the device netcl, and prints a table.

    python tests/support/torch_operators.py [-k NAME] [--samples 10] [--dtypes float32,int64] [-v]

Each sample runs on PyTorch's CPU and on netcl: forward, with strided operands, backward, and in
place. A row of the table is a dtype and a way to run. `core` are samples that use nothing but core
ATen ops: of these one by the host counts as a fault. What needs a dtype that netcl does not have,
such as complex numbers, or a layout, is left out.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch  # isort: split

import netcl_torch  # noqa: F401 - makes the device known
from netcl_plugin_kit.check.torch_samples import RANDOM, op_db
from netcl_plugin_torch.device import FALLBACKS
from netcl_plugin_torch.tensor import NAMES, OPS  # noqa: F401
from torch.testing._internal.common_utils import noncontiguous_like
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

#: Unique up to signs or rotations alone, or made to be looked at by its own means.
AMBIGUOUS = {"linalg.eigh", "linalg.svd", "svd", "linalg.qr", "qr", "linalg.eig", "geqrf", "symeig"}
#: Results of which places are given: where values tie, another place is as right.
TIES = {"sort", "argsort", "topk"}


def strange(x: Any) -> bool:
    """Whether a tensor has a dtype or layout that netcl does not have."""
    known = isinstance(x, torch.Tensor) and x.layout == torch.strided and x.dtype in NAMES
    return isinstance(x, torch.Tensor) and not known


class Used(TorchDispatchMode):
    """Notes which ops run."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Any] = []
        self.made: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(func)
        results = func(*args, **kwargs or {})
        self.made += [x for x in tree_leaves(results) if strange(x)]
        return results


def is_core(ops: list[Any]) -> bool:
    """Whether all ops are core ATen, detaching aside."""
    others = {"aten::detach", "aten::alias", "aten::lift_fresh"}
    kept = [op for op in ops if op.name() not in others]
    return bool(kept) and all(torch.Tag.core in op.tags for op in kept)


def transformed(sample: Any, change: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """A sample with its tensors changed."""

    def one(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return change(x)
        return x

    return tree_map(one, (sample.input, sample.args, sample.kwargs))  # type: ignore[no-any-return]


def leaf(x: torch.Tensor, device: str, strided: bool, grad: bool) -> torch.Tensor:
    """A copy of an operand."""
    tensor = x.detach().clone()
    if strided and tensor.numel():
        tensor = noncontiguous_like(tensor)
    if device == "netcl":
        wide = tensor
        tensor = tensor.to(device)
        if strided and wide.numel() and wide.stride() != tensor.stride():
            tensor = strided_on_device(wide)
    return tensor.requires_grad_(grad and x.is_floating_point() and x.requires_grad)


def strided_on_device(x: torch.Tensor) -> torch.Tensor:
    """The same elements at every second place of a memory on the device."""
    memory = torch.zeros(*x.shape, 2, dtype=x.dtype, device="netcl")
    memory[..., 1] = x.to("netcl")
    return memory[..., 1]


def run(op: Any, sample: Any, way: str, device: str) -> Any:
    """The result of a sample, or its gradients."""

    def change(x: torch.Tensor) -> torch.Tensor:
        return leaf(x, device, way == "strided", way == "backward")

    value, args, kwargs = transformed(sample, change)
    if "device" in kwargs:
        kwargs["device"] = device
    if way == "in place":
        result = op.inplace_variant(value, *args, **kwargs)
        return result, value
    result = op(value, *args, **kwargs)
    if sample.output_process_fn_grad is not None and way == "backward":
        result = sample.output_process_fn_grad(result)
    if way != "backward":
        return result
    leaves = [x for x in tree_leaves((value, args, kwargs))
              if isinstance(x, torch.Tensor) and x.requires_grad]  # fmt: skip
    outs = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    seeds = [torch.linspace(0.5, 1.5, max(x.numel(), 1))[: x.numel()].reshape(x.shape)
             .to(x.dtype).to(x.device) for x in outs]  # fmt: skip
    return torch.autograd.grad(outs, leaves, seeds, allow_unused=True)


def _wide(x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) and x.dtype == torch.float16 else x


def _in_float32(op: Any, sample: Any) -> Any:
    """What float16 ought to be: PyTorch's CPU rounds within sums."""
    value, args, kwargs = transformed(sample, _wide)
    return op(value, *args, **kwargs)


def _comparable(op: Any, sample: Any, actual: Any, expected: Any) -> tuple[Any, Any]:
    """Results with places replaced by what lies there."""
    if op.name not in TIES or not sample.input.dim():
        return actual, expected
    numbers = [x for x in sample.args if type(x) is int][op.name == "topk" :]
    dim = sample.kwargs.get("dim", numbers[0] if numbers else -1)

    def there(x: Any) -> Any:
        return torch.take_along_dim(sample.input, x.cpu(), dim)

    if op.name == "argsort":
        return there(actual), there(expected)
    return (actual[0], there(actual[1])), (expected[0], there(expected[1]))


def differs(actual: Any, expected: Any, half: bool = False) -> str:
    """What differs between two results; empty: nothing."""
    ours, theirs = tree_leaves(actual), tree_leaves(expected)
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            if a != b and not (isinstance(b, float) and b != b):
                return f"{a} for {b}"
            continue
        if a.dtype == torch.float32 and b.dtype == torch.float16:
            b = b.float()  # statistics, which are float32 on PyTorch's GPUs, too
            half = True
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"{a.dtype} {tuple(a.shape)} for {b.dtype} {tuple(b.shape)}"
        if b.is_sparse or b.layout != torch.strided:
            continue
        rtol, atol = {torch.float32: (2e-4, 2e-5), torch.float16: (8e-3, 4e-3),
                      torch.bfloat16: (3e-2, 2e-2)}.get(
                          torch.float16 if half else b.dtype, (1e-5, 1e-6))  # fmt: skip
        try:
            torch.testing.assert_close(a.detach().cpu(), b.detach(), rtol=rtol, atol=atol,
                                       equal_nan=True, check_stride=False)  # fmt: skip
        except AssertionError as error:
            return " ".join(str(error).split())[:160]
    return ""


def ways_of(op: Any, dtype: torch.dtype) -> Iterator[str]:
    """How samples of a dtype are run."""
    yield "forward"
    if not op.name.startswith("as_strided"):  # which counts in the memory that it is given
        yield "strided"
    if dtype == torch.float32 and op.supports_autograd:
        yield "backward"
    if op.inplace_variant is not None:
        yield "in place"


def outcome(op: Any, sample: Any, way: str, dtype: torch.dtype) -> tuple[str, bool, str]:
    """`ok`, `host`, `wrong`, `raises` or `skip`; whether it is core; what happened."""
    used = Used()
    try:
        with used:
            expected = run(op, sample, way, "cpu")
    except Exception:
        return "skip", False, ""
    core = is_core(used.ops)
    if any(strange(x) for x in tree_leaves((expected, used.made))):
        return "skip", False, ""
    FALLBACKS.clear()
    try:
        actual = run(op, sample, way, "netcl")
    except Exception as error:  # whatever it is, it is what the table is for
        return "raises", core, f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    by_host = dict(FALLBACKS)
    if way != "backward":
        actual, expected = _comparable(op, sample, actual, expected)
    text = differs(actual, expected)
    if text and dtype == torch.float16 and way in ("forward", "strided"):
        text = differs(tree_map(_wide, actual), _in_float32(op, sample), half=True)
    if text:
        return "wrong", core, text
    return ("host", core, ", ".join(by_host)) if by_host else ("ok", core, "")


def survey(operators: Any, dtypes: Any, samples: int, verbose: bool = False) -> Any:
    """Counts by (dtype, way), and what was not right by operator."""
    counts: dict[Any, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    faults: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for op in operators:
        start = time.perf_counter()
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu"):
                continue
            grad = dtype == torch.float32 and op.supports_autograd
            try:
                torch.manual_seed(0)
                every = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
            except Exception as error:  # PyTorch's own samples ask for what this build lacks
                faults[op.name][f"no samples: {error}"[:200]] += 1
                continue
            step = max(1, len(every) // samples)
            for way in ways_of(op, dtype):
                for sample in every[::step][:samples]:
                    kind, core, text = outcome(op, sample, way, dtype)
                    if kind == "skip":
                        continue
                    for group in ("all", "core") if core else ("all",):
                        counts[group, str(dtype)[6:], way][kind] += 1
                    if kind != "ok":
                        full = (
                            f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}"
                        )
                        faults[full][
                            f"{'CORE ' if core else ''}{kind} {str(dtype)[6:]} {way}: {text}"
                        ] += 1
        if verbose:
            print(f"{op.name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return counts, faults


def table(counts: Any) -> str:
    """The table as Markdown."""
    lines = ["| samples | dtype | way | ok | host | wrong | raises | on the device |",
             "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    totals: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for group, dtype, way in sorted(counts):
        row = counts[group, dtype, way]
        totals[group].update(row)
        lines.append(_line(group, dtype, way, row))
    lines += [_line(group, "all", "all", row) for group, row in sorted(totals.items())]
    return "\n".join(lines)


def _line(group: str, dtype: str, way: str, row: collections.Counter[str]) -> str:
    cells = " | ".join(str(row[kind]) for kind in ("ok", "host", "wrong", "raises"))
    return f"| {group} | {dtype} | {way} | {cells} | {100 * row['ok'] / row.total():.1f} % |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-k", dest="name", default="")
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--dtypes", default="float32,float16,int64,bool")
    parser.add_argument("-v", dest="verbose", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    dtypes = [getattr(torch, each) for each in given.dtypes.split(",")]
    left_out = RANDOM | AMBIGUOUS
    chosen = [op for op in op_db if given.name in op.name and op.name not in left_out]
    counts, faults = survey(chosen, dtypes, given.samples, given.verbose)
    for name, texts in sorted(faults.items()):
        for text, count in texts.most_common():
            print(f"{name}: {count} x {text}")
    print(table(counts))


if __name__ == "__main__":
    main()
