"""PyTorch's own samples of its operators, run by netcl's functions of the same names.

PyTorch tests its operators with a database of samples. A sample agrees in values, shapes, dtypes
and, in float32, gradients; is refused, by an error of netcl's for a reason in `DOCUMENTED`; or
differs.
Importing this module imports PyTorch and the database, which takes seconds.
"""

from __future__ import annotations

import inspect
import re
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device
from netcl_core.errors import NetclError
from netcl_plugin_kit.faults.mutants import rows_of
from netcl_plugin_kit.testing.collection import Table
from netcl_plugin_kit.testing.records import Outcome
from netcl_plugin_kit.testing.running import Progress

#: Whoever imports this module has PyTorch installed.
torch: Final[Any] = import_module("torch")
# The database's module imports it for PyTorch's own test classes, which are not used here.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))  # type: ignore[arg-type]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what PyTorch imports there warns of itself
    op_db: Final[Any] = import_module("torch.testing._internal.common_methods_invocations").op_db
_tree: Final[Any] = import_module("torch.utils._pytree")

#: What gives random or uninitialised numbers: shape and dtype are compared.
RANDOM = {
    "bernoulli", "cauchy", "empty", "empty_like", "empty_permuted", "empty_strided", "exponential",
    "geometric", "log_normal", "multinomial", "new_empty", "new_empty_strided", "normal",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "uniform", "resize_",
    "resize_as_", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d",
    "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout", "nn.functional.rrelu",
    "nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "pca_lowrank",
    "svd_lowrank", "nn.functional.multi_head_attention_forward",
}  # fmt: skip
#: Which results are unique: the others are so up to signs, or within a space.
UNIQUE = {"linalg.eigh": (0,), "linalg.svd": (1,), "svd": (1,)}
#: What reads a triangle, outside of which PyTorch's gradient has numbers, and ours has 0.
TRIANGLES = {"cholesky_inverse", "cholesky_solve"}
#: What counts in the memory that it is given, which a copy of a sample does not have.
STORAGE = {"as_strided", "as_strided_scatter", "as_strided_copy"}
#: Why an error is right where PyTorch computes: a pattern of the error, and the reason.
DOCUMENTED: Final = {
    r"(gather|index_select): x ": "a tensor without dimensions has no axis",
    r"arange: False": "bools are not taken as numbers",
    r"complex": "there are no complex numbers: pairs, as view_as_real gives them",
    r"p='nuc'": "a norm of vectors; nc.linalg.matrix_norm has it",
    r"full_matrices=True": "the vectors of a null space are not unique: PyTorch's gradient there "
    "is of those that LAPACK happened to find",
    r"expected a floating dtype": "floating dtypes alone, as on PyTorch's GPUs",
}
DTYPES = {getattr(torch, name): name for name in nc.DTYPES}
#: Operators whose samples stand in another order than their arguments, or are changed.
TURNED: Final[dict[str, Any]] = {
    "where": lambda x, condition, other, **rest: nc.where(condition, x, other, **rest),
    "einsum": lambda tensors, equation: nc.einsum(equation, tensors),
    "nn.functional.embedding": lambda w, i, **rest: nc.nn.functional.embedding(i, w, **rest),
    "svd_lowrank": lambda a, b, **rest: nc.svd_lowrank(a @ b.mT, **rest),
    "pca_lowrank": lambda a, b, **rest: nc.pca_lowrank(a @ b.mT, **rest),
    **{
        name: lambda x, *args, name=name, **rest: getattr(x.clone(), name + "_")(*args, **rest)
        for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform")
    },
    "polygamma": lambda x, n: nc.polygamma(n, x),
    "special.polygamma": lambda x, n: nc.special.polygamma(n, x),
    "nn.functional.triplet_margin_with_distance_loss": lambda *x, distance_function=None, **rest: (
        nc.nn.functional.triplet_margin_with_distance_loss(
            *x, distance_function=distance_function and nc.nn.PairwiseDistance(), **rest
        )
    ),
    "nn.functional.embedding_bag": lambda w, i, *more, **rest: nc.nn.functional.embedding_bag(
        i, w, *more, **rest
    ),
    "zero_": lambda x: x.clone().zero_(),
    "isin": lambda x, others, **rest: nc.isin(x, others, **rest),
    "arange": lambda *given, **rest: nc.arange(*given, **rest),
}
VARIANTS: Final[dict[Any, Any]] = {
    ("linalg.pinv", "singular"): lambda a, b, **rest: nc.linalg.pinv(a @ b.mT, **rest),
    ("linalg.lstsq", "grad_oriented"): lambda a, b, **rest: nc.linalg.lstsq(a, b, **rest)[0:2],
}
#: Operators compared in float64, since rounding in float32, PyTorch's too, is above the tolerance.
WIDE = {
    "nn.functional.ctc_loss", "nn.functional.grid_sample",
    "nn.functional.scaled_dot_product_attention", "linalg.pinv", "logcumsumexp", "matrix_exp",
}  # fmt: skip
#: Results of which places are given: where values tie, another place is as right.
TIES = {"sort", "topk", "kthvalue", "mode"}


def function(name: str) -> Any:
    """netcl's function of PyTorch's name, or None."""
    if name in TURNED:
        return TURNED[name]
    *rooms, last = name.split(".")
    place: Any = nc
    try:
        for room in rooms:
            place = getattr(place, room)
        member = getattr(place, last)
    except (AttributeError, NetclError):  # a namespace that no installed plugin has
        member = None
    if rooms or inspect.isroutine(member):
        return member
    return _method(last) if hasattr(nc.ones(1, 1, device="numpy"), last) else None


def _method(name: str) -> Any:
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        attribute = getattr(x, name)
        return attribute(*args, **kwargs) if inspect.isroutine(attribute) else attribute

    return call


def _fft(name: str) -> Any:
    """A transform by netcl, which takes the samples as the real numbers that they are."""
    transform = function(name)
    named = {"pairs": False} if "pairs" in inspect.signature(transform).parameters else {}
    return lambda *args, **kwargs: transform(*args, **kwargs, **named)


def dense() -> list[Any]:
    """The operators that computing on dense tensors of real numbers is about."""
    # What is left out is another layout, PyTorch's own test of itself, or a copy of a view.
    left_out = re.compile(
        r"^(ops\.|_refs|sparse|masked\.|torch\.ops|jiterator|_|__)|\.sparse|_copy$"
    )
    return [op for op in op_db if not left_out.search(op.name) and op.name not in STORAGE]


def translated(value: Any, grad: bool, device: str = "numpy") -> Any:
    """A sample's argument as netcl takes it."""
    if isinstance(value, torch.Tensor):
        if value.dtype not in DTYPES or value.layout != torch.strided:
            raise LookupError(f"{value.dtype} {value.layout}")
        host = value.detach().contiguous()
        array = host.float().numpy() if value.dtype == torch.bfloat16 else host.numpy()
        tensor = nc.tensor(array.copy(), dtype=DTYPES[value.dtype], device=device)
        return tensor.requires_grad_(True) if grad and value.requires_grad else tensor
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise LookupError(str(value))
        return DTYPES[value]
    if isinstance(value, torch.device):
        return device
    if isinstance(value, complex):
        raise LookupError("complex")
    if isinstance(value, (torch.layout, torch.Generator)):
        raise LookupError(str(value))
    return value


def arguments(sample: Any, grad: bool, device: str) -> tuple[list[Any], dict[str, Any]]:
    """All arguments of a sample, translated."""
    kwargs = {k: v for k, v in sample.kwargs.items()
              if k not in ("layout", "pin_memory", "memory_format")}  # fmt: skip
    if "device" in kwargs:
        kwargs["device"] = device
    converted: Any = _tree.tree_map(
        lambda x: translated(x, grad, device),
        ([sample.input, *sample.args], kwargs),
        is_leaf=lambda x: isinstance(x, (torch.dtype, torch.device)),
    )
    return converted[0], converted[1]


def leaves(value: Any, kind: type) -> list[Any]:
    """The tensors, and what else results are made of."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item, kind)]
    return [] if value is None else [value]


def _to_torch(x: Any) -> Any:
    wide = x.detach().astype("float32") if x.dtype == "bfloat16" else x.detach()
    copy = torch.from_numpy(np.array(wide.numpy()))
    return copy.to(getattr(torch, x.dtype))


def differs(ours: Any, theirs: Any, compare: bool = True) -> str:
    """What differs between a result and PyTorch's; empty: nothing."""
    if not isinstance(theirs, torch.Tensor):
        if isinstance(theirs, torch.dtype):
            theirs = DTYPES.get(theirs)
        same = ours == theirs or (isinstance(theirs, float) and np.isclose(ours, theirs, 1e-4))
        return "" if same or not compare else f"{ours!r} for {theirs!r}"[:160]
    if not isinstance(ours, nc.Tensor):
        return f"{type(ours).__name__} for a tensor"
    form = f"{DTYPES.get(theirs.dtype)} {tuple(theirs.shape)}"
    if f"{ours.dtype} {tuple(ours.shape)}" != form:
        return f"{ours.dtype} {tuple(ours.shape)} for {form}"
    if not compare:
        return ""
    tolerance = {torch.float32: (2e-4, 2e-5), torch.float16: (8e-3, 4e-3)}
    rtol, atol = tolerance.get(theirs.dtype, (1e-5, 1e-6))
    try:
        torch.testing.assert_close(_to_torch(ours),
            theirs.detach().resolve_conj().resolve_neg(), rtol=rtol, atol=atol, equal_nan=True,
            check_stride=False)  # fmt: skip
    except AssertionError as error:
        return " ".join(str(error).split())[:160]
    return ""


def _gradients(op: Any, sample: Any, output: Any, given: Any, expected: Any) -> str:
    """What differs between the gradients."""
    operands = [x for x in _tree.tree_leaves(([sample.input, *sample.args], sample.kwargs))
                if isinstance(x, torch.Tensor)]  # fmt: skip
    if sample.output_process_fn_grad is not None:
        try:
            output, expected = (
                sample.output_process_fn_grad(output),
                sample.output_process_fn_grad(expected),
            )
        except Exception:
            return ""
    theirs = leaves(expected, torch.Tensor)
    outs = [(a, b) for a, b in zip(leaves(output, nc.Tensor), theirs, strict=True)
            if isinstance(b, torch.Tensor) and b.requires_grad]  # fmt: skip
    wanted = [x for x in operands if x.requires_grad]
    if not outs or not wanted:
        return ""
    if any(not a.requires_grad for a, _ in outs):
        return "no gradient"
    ours = [x for x in leaves(list(given[0]) + list(given[1].values()), nc.Tensor)
            if isinstance(x, nc.Tensor) and x.requires_grad]  # fmt: skip
    seeds = [torch.linspace(0.5, 1.5, max(b.numel(), 1))[: b.numel()].reshape(b.shape).to(b.dtype)
             for _, b in outs]  # fmt: skip
    right = torch.autograd.grad([b for _, b in outs], wanted, seeds, allow_unused=True)
    weights = [nc.tensor(s.float().numpy(), dtype=a.dtype, device=a.device)
               for (a, _), s in zip(outs, seeds, strict=True)]  # fmt: skip
    left = ag.grad([a for a, _ in outs], ours, weights, allow_unused=True)
    for x, got, grad in zip(ours, left, right, strict=True):
        gradient = nc.zeros_like(x) if got is None else got
        grad = torch.zeros(x.shape, dtype=getattr(torch, x.dtype)) if grad is None else grad
        if op.variant_test_name == "hermitian":  # of symmetric matrices the symmetric part counts
            grad = (grad + grad.mT) / 2
        if op.name in TRIANGLES:
            grad = torch.where(_to_torch(gradient) == 0, 0, grad)
        text = differs(gradient, grad)
        if text:
            return f"gradient: {text}"
    return ""


def outcome(op: Any, call: Any, sample: Any, grad: bool, device: str = "numpy") -> tuple[str, str]:
    """`agrees`, `refused`, `differs` or `left out`, and what happened."""
    try:
        given = arguments(sample, grad, device)
        expected = op(sample.input, *sample.args, **sample.kwargs)
        if op.name.startswith(("fft.", "stft")) and torch.is_complex(expected):
            expected = torch.view_as_real(expected.resolve_conj())
    except Exception:
        return "left out", ""
    theirs = leaves(expected, torch.Tensor)
    if any(isinstance(x, torch.Tensor) and (x.dtype not in DTYPES or x.layout != torch.strided)
           for x in theirs):  # fmt: skip
        return "left out", ""
    try:
        output = call(*given[0], **given[1])
        ours = leaves(output, nc.Tensor)
        if len(ours) != len(theirs):
            return "differs", f"{len(ours)} results for {len(theirs)}"
        pairs = list(zip(ours, theirs, strict=True))
        drawn = op.name in RANDOM or sample.kwargs.get("dropout_p")
        drawn = drawn or (op.name == "argsort" and sample.input.dtype == torch.bool)  # ties
        if op.name in UNIQUE:
            pairs = [pairs[i] for i in UNIQUE[op.name] if i < len(pairs)]
        for a, b in pairs[: 1 if op.name in TIES else None]:
            text = differs(a, b, not drawn)
            if text:
                return "differs", text
        text = _gradients(op, sample, output, given, expected) if grad and not drawn else ""
        return ("differs", text) if text else ("agrees", "")
    except NetclError as error:
        text = " ".join(str(error).split())
        known = any(re.search(pattern, text) for pattern in DOCUMENTED)
        return "refused" if known else "differs", f"{type(error).__name__}: {text[:200]}"
    except Exception as error:  # whatever it is, it is what the table is for
        return "differs", f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def samples_of(op: Any, count: int) -> Iterator[tuple[Any, bool, str]]:
    """Some samples of an operator in each dtype, and whether they have gradients."""
    wide = torch.float64 if op.name in WIDE else torch.float32
    for dtype in (wide, torch.int64, torch.bool):
        if dtype not in op.supported_dtypes("cpu"):
            continue
        grad = dtype == wide and op.supports_autograd and op.name not in RANDOM
        try:
            torch.manual_seed(0)
            every = list(op.sample_inputs("cpu", dtype, requires_grad=grad))
        except Exception:  # PyTorch's own samples ask for what this build lacks
            continue
        step = max(1, len(every) // count)
        for sample in every[::step][:count]:
            if op.variant_test_name == "hermitian":
                same = (sample.input + sample.input.mT) / 2
                sample.input = same.detach().requires_grad_(grad)
            yield sample, grad, DTYPES[dtype]


def call_of(op: Any) -> Any:
    """What computes an operator's samples: a function of netcl's, or None if it has none."""
    if op.name.startswith("fft.") and function(op.name) is not None:
        return _fft(op.name)
    return VARIANTS.get((op.name, op.variant_test_name)) or function(op.name)


#: How many samples of a dtype run; a device with kernels builds one for almost each.
_SAMPLES: Final = {True: 4, False: 20}


def compared(table: Table, devices: Sequence[Device], progress: Progress) -> Iterator[Outcome]:
    """An outcome for each operator of PyTorch's that has the name of an op of the plugin's."""
    names = {row.record.name for row in rows_of(table)}
    chosen = [op for op in dense() if _is_named(op.name, names)]
    for done, op in enumerate(chosen):
        for device in devices:
            progress(f"PyTorch's samples: {op.name}", done, len(chosen))
            yield _compared(op, device)


def _is_named(name: str, names: set[str]) -> bool:
    """Whether one of the ops is what PyTorch calls so; rooms but these have ops of their own."""
    room, _, last = name.rpartition(".")
    return last in names and room in {"", "nn.functional", "special"}


def _compared(op: Any, device: Device) -> Outcome:
    own = call_of(op)
    call = own or getattr(ag, op.name.rpartition(".")[2])
    counts: Counter[str] = Counter()
    faults = []
    with nc.use_device(device):
        for sample, grad, dtype in samples_of(op, _SAMPLES[device.has_kernels]):
            if own is None and op.name.startswith("nn.") and not nc.DTYPES[dtype].floating:
                continue  # what nn.functional does with integers
            kind, text = outcome(op, call, sample, grad, device.id)
            counts[kind] += 1
            if kind == "differs":
                given = str(sample.input.shape if hasattr(sample.input, "shape") else sample.input)
                faults.append(f"{dtype} {given[:60]}: {text}")
    tried = counts["agrees"] + counts["differs"]
    if faults:
        reason = f"{len(faults)} of {tried} samples differ, the first: {faults[0]}"
        remedy = "Compare with PyTorch's documentation of the operator, or name the op otherwise"
        return Outcome("torch", "failed", op.name, device.id, "", reason, remedy)
    return Outcome("torch", "passed" if tried else "skipped", op.name, device.id,
                   reason="" if tried else "no sample of the dtypes that it takes")  # fmt: skip
