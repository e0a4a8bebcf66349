"""`netcl_torch.op(name)`: an op that netcl has as an op of PyTorch's."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_torch.tensor import NetclTensor, host_of, to_device, wrap

#: The types of a schema by the annotation of a parameter, or by the type of its default.
_TYPES: Final = {"float": "float", "int": "int", "bool": "bool", "str": "str"}
_LISTS: Final = ("Sequence[int]", "tuple[int, ...]", "int | Sequence[int]")
#: The names of operands that may be left away.
_OPTIONAL: Final = ("weight", "bias", "mask")
_ops: Final[dict[str, Any]] = {}
_library: Final = torch.library.Library("netcl", "DEF")


def op(name: str, schema: str | None = None) -> Any:
    """The op `torch.ops.netcl.<name>`: autograd, opcheck and torch.compile take it as their own.

    It takes tensors on `netcl`, and on the CPU, whose memory is used where the OpenCL device is
    the CPU.

    Args:
        name: An op of netcl's, such as one that an installed plugin brings.
        schema: Its arguments in PyTorch's language, `"Tensor x, float eps=1e-05"`, for several
            results with `" -> (Tensor, Tensor)"` behind; found from the op's signature where that
            says enough.

    Raises:
        MissingOpError: no installed plugin has the op.
        ValueError: the signature does not say what the arguments are.
    """
    if name not in _ops:
        _ops[name] = _defined(name, getattr(ag, name), schema)
    return _ops[name]


def ops(plugin: str) -> dict[str, Any]:
    """All ops of a plugin as ops of PyTorch's, by name; those without a plain signature aside."""
    by_name = {}
    (row,) = [each for each in nc.plugins.list() if plugin in (each.name, each.distribution)]
    for name in row.provides:
        try:
            by_name[name] = op(name)
        except (ValueError, AttributeError):
            continue
    return by_name


def _schema(name: str, function: Callable[..., Any]) -> str:
    """The arguments of an op, from its signature."""
    parts = []
    for parameter in inspect.signature(function).parameters.values():
        kind = _kind_of(parameter)
        if kind is None:
            given = f"its argument {parameter.name!r} has no type of a schema's"
            raise ValueError(f"netcl_torch.op({name!r}): {given}. Give schema='Tensor x, ...'")
        default = "" if parameter.default is parameter.empty else f"={_literal(parameter.default)}"
        parts.append(f"{kind} {parameter.name}{default}")
    return ", ".join(parts)


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _kind_of(parameter: inspect.Parameter) -> str | None:
    annotation = str(parameter.annotation)
    bare = annotation.replace(" | None", "")
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        return None
    if bare in _TYPES:
        return _TYPES[bare] + ("?" if parameter.default is None else "")
    if bare in _LISTS:
        return "int[]"
    if annotation == "Any" and parameter.default is parameter.empty:
        return "Tensor"
    if annotation == "Any" and parameter.default is None:
        return "Tensor?" if parameter.name.endswith(_OPTIONAL) else None
    return _TYPES.get(type(parameter.default).__name__)


def _defined(name: str, function: Callable[..., Any], schema: str | None) -> Any:
    arguments, _, returns = (schema or _schema(name, function)).partition("->")
    results = returns.count("Tensor") if returns else _results(function)
    returns = "Tensor" if results == 1 else f"({', '.join(['Tensor'] * results)})"
    seeds = ", ".join(f"Tensor? grad{i}" for i in range(results))
    _library.define(f"{name}({arguments}) -> {returns}")
    _library.define(f"{name}_backward({seeds}, {arguments}) -> Tensor[]")
    backward = getattr(torch.ops.netcl, f"{name}_backward").default
    _Calls(name, function, results, backward).register()
    return getattr(torch.ops.netcl, name)


def _results(function: Callable[..., Any]) -> int:
    """How many tensors an op gives, as its annotation says."""
    text = str(inspect.signature(function).return_annotation)
    return text.count("Any") if re.fullmatch(r"tuple\[(Any(, )?)+\]", text) else 1


class _Calls:
    """What PyTorch calls for an op: kernels, shapes, and gradients."""

    def __init__(self, name: str, function: Any, results: int, backward: Any) -> None:
        self.name, self.function, self.results, self.backward = name, function, results, backward

    def register(self) -> None:
        """Enter them."""
        for key in ("CPU", "PrivateUse1"):
            _library.impl(self.name, self.compute, key)
            _library.impl(f"{self.name}_backward", self.gradients, key)
        torch.library.register_fake(f"netcl::{self.name}", self.shapes, lib=_library)
        torch.library.register_fake(f"netcl::{self.name}_backward", self.like, lib=_library)
        torch.library.register_autograd(
            f"netcl::{self.name}", self.differentiate, setup_context=self.save, lib=_library
        )

    def compute(self, *args: Any) -> Any:
        """The results, where the operands are."""
        host = _on_host(args)
        with ag.no_grad():
            result = self.function(*[_raw(x) for x in args])
        return _given(result, host)

    def gradients(self, *given: Any) -> list[torch.Tensor]:
        """The gradients of all operands that are floating tensors."""
        grads, args = given[: self.results], given[self.results :]
        host = _on_host(given)
        with ag.enable_grad():
            raws = [_raw(x) for x in args]
            leaves = [x.detach().requires_grad_() if _floating(x) else x for x in raws]
            output = self.function(*leaves)
            outs = list(output) if isinstance(output, tuple) else [output]
            pairs = [(o, _raw(g)) for o, g in zip(outs, grads, strict=True) if g is not None]
            wanted = [x for x in leaves if _floating(x)]
            gradients = ag.grad([o for o, _ in pairs], wanted, [g for _, g in pairs],
                            allow_unused=True)  # fmt: skip
        filled = [
            nc.zeros_like(x) if g is None else g for x, g in zip(wanted, gradients, strict=True)
        ]
        return [_given(gradient, host) for gradient in filled]

    def shapes(self, *args: Any) -> Any:
        """Results without values: netcl is asked on its NumPy path, with zeros."""
        like = next(x for x in args if isinstance(x, torch.Tensor))
        with nc.use_device("numpy"), ag.no_grad():
            output = self.function(*[_zeros(x) for x in args])
        several = output if isinstance(output, tuple) else (output,)
        outputs = [like.new_empty(x.shape, dtype=getattr(torch, x.dtype)) for x in several]
        return outputs[0] if self.results == 1 else tuple(outputs)

    def like(self, *given: Any) -> list[torch.Tensor]:
        """Gradients without values."""
        args = given[self.results :]
        return [torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in args
                if isinstance(x, torch.Tensor) and x.is_floating_point()]  # fmt: skip

    def save(self, ctx: Any, inputs: Any, output: Any) -> None:
        """Keep the operands."""
        ctx.save_for_backward(*[x if isinstance(x, torch.Tensor) else None for x in inputs])
        ctx.plain = [None if isinstance(x, torch.Tensor) else x for x in inputs]

    def differentiate(self, ctx: Any, *grads: Any) -> Any:
        """The gradients, by the op that computes them."""
        pairs = zip(ctx.saved_tensors, ctx.plain, strict=True)
        args = [plain if tensor is None else tensor for tensor, plain in pairs]
        gradients = iter(self.backward(*grads, *args))
        return tuple(
            [next(gradients) if isinstance(x, torch.Tensor) and x.is_floating_point() else None
             for x in args]
        )  # fmt: skip


def _floating(x: Any) -> bool:
    return isinstance(x, nc.Tensor) and nc.DTYPES[x.dtype].floating


def _on_host(args: Sequence[Any]) -> bool:
    return not any(type(x) is NetclTensor for x in args)


def _raw(x: Any) -> Any:
    """A netcl tensor on the memory of PyTorch's, where netcl can be."""
    if type(x) is NetclTensor:
        return x.raw
    if not isinstance(x, torch.Tensor):
        return tuple(x) if isinstance(x, list) else x
    if x.dtype == torch.bfloat16 or not x.is_contiguous() or not x.numel():
        return to_device(x).raw
    return nc.from_buffer(x.detach().numpy())


def _given(results: Any, host: bool) -> Any:
    """Results as PyTorch's tensors."""
    if isinstance(results, (tuple, list)):
        return tuple([_given(result, host) for result in results])
    raw = results.value
    if raw.is_alias or raw.geometry is not None:
        raw = raw.duplicate()
    return host_of(raw) if host else wrap(raw)


def _zeros(x: Any) -> Any:
    """A netcl tensor of zeros for a tensor of which only the shape is known."""
    if isinstance(x, torch.Tensor):
        return nc.zeros(tuple(int(n) for n in x.shape), dtype=str(x.dtype).removeprefix("torch."))
    return tuple(x) if isinstance(x, list) else x
