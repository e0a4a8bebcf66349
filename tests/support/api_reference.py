"""The reference of the public names, made of their docstrings: signature and first sentence."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

from netcl_plugin_kit import testing

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, autodiff, capture, data, nn, optim, patterns, serialization
from netcl_core.autograd import AutogradPrimitive, ops
from netcl_core.codegen.primitives import REQUIRED
from netcl_core.plugins.registry import registry
from netcl_core.tensors.functions import functions
from netcl_core.tensors.methods import METHODS

#: Heading -> the module and what it is for.
PLACES = {
    "netcl_core": (nc, "`import netcl_core as nc`: tensors, devices, and what plugins use."),
    "netcl_core.autograd": (ag, "`import netcl_core.autograd as ag`: gradients, compiling, ops."),
    "netcl_core.nn": (nn, "Layers; `nn.functional` are the ops."),
    "netcl_core.nn.init": (nn.init, "First values of parameters."),
    "netcl_core.nn.utils.rnn": (nn.utils.rnn, "Sequences of several lengths."),
    "netcl_core.serialization": (serialization, "Files: `nc.save` and `nc.load`."),
    "netcl_core.optim": (optim, "Optimizers."),
    "netcl_core.optim.lr_scheduler": (optim.lr_scheduler, "Schedules of learning rates."),
    "netcl_core.data": (data, "Data sets and loaders, `netcl_core.utils.data` as well."),
    "netcl_core.amp": (amp, "Mixed precision."),
    "netcl_core.autodiff": (autodiff, "GradManager and checkpoints."),
    "netcl_core.capture": (capture, "Captured graphs; `ag` hands them out, too."),
    "netcl_core.patterns": (patterns, "Training patterns; `ag` hands them out, too."),
    "netcl_core.plugins": (nc.plugins, "What is installed, and who serves an op."),
    "netcl_plugin_kit.testing": (
        testing,
        "For authors of plugins: what cases are made of, and the kit.",
    ),
}
#: What the core writes where the author of an op wrote nothing.
_SAYS_NOTHING = re.compile(r"\w+\(.*\)$|The elementwise op \w+\.$")
_SENTENCE = re.compile(r"(.+?\.)(?:\s|$)", re.DOTALL)


def page() -> Iterator[str]:
    """The whole reference."""
    for name, (module, what) in PLACES.items():
        yield from _section(name, what, _names(module), module)
    own = [
        each for each in ("shape", "dtype", "device", *_FACE, *METHODS) if not each.startswith("_")
    ]
    yield from _section("Tensor", "What a tensor has beside the ops.", own, _Methods)
    yield from _section("Ops", "Functions of `ag`, of `nn.functional`, and methods.", dir(ops), ops)


#: What is written down for all tensors: methods of ops become attributes once they are used.
_FACE = [
    name
    for name, value in vars(nc.Tensor.__base__).items()
    if name.startswith("_") or value is not functions.method(name)
]


class _Methods(nc.Tensor):
    """Where PyTorch's further names of methods are looked up."""


for _name, _method in METHODS.items():
    setattr(_Methods, _name, _method)


def _names(module: Any) -> list[str]:
    named = getattr(module, "__all__", None) or dir(module)
    return [each for each in named if not each.startswith("_")]


def _section(title: str, what: str, names: list[str], owner: Any) -> Iterator[str]:
    rows = [row for name in sorted(set(names)) if (row := _row(name, owner))]
    yield from ["", f"## {title}", "", what, "", *rows]


def _row(name: str, owner: Any) -> str:
    """`- name(arguments): first sentence`; empty for a module, and for what says nothing."""
    attribute = inspect.getattr_static(owner, name, None) if inspect.isclass(owner) else None
    attribute = getattr(owner, name, None) if attribute is None else attribute
    if attribute is None or inspect.ismodule(attribute):
        return ""
    said = _sentence(attribute)
    arguments = signature(attribute)
    if owner is _Methods:  # functions whose first argument is the tensor
        arguments = re.sub(r"^\(x(, )?", "(", arguments)
    return f"- `{name}{arguments}`{': ' if said else ''}{said}"


def _sentence(thing: Any) -> str:
    if not (
        inspect.isclass(thing)
        or inspect.isroutine(thing)
        or isinstance(thing, property)
        or inspect.ismemberdescriptor(thing)
    ):
        return ""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    match = _SENTENCE.match(text)
    said = (match[1] if match else text).replace("|", "\\|")
    return "" if _SAYS_NOTHING.match(said) else said


def signature(thing: Any) -> str:
    """The arguments with their defaults, without types."""
    if not callable(thing):
        return ""
    primitive = _primitive(getattr(thing, "__name__", ""))
    if primitive is not None:
        given = primitive.inputs or [f"x{i}" for i in range(primitive.arity)]
        table = primitive.attrs.items()
        attrs = [name if value is REQUIRED else f"{name}={value!r}" for name, value in table]
        return f"({', '.join([*given, *attrs])})"
    try:
        found_signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(...)"
    parts, star = [], False
    for parameter in found_signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        parts.append(f"{mark}{parameter.name}{default}")
    return f"({', '.join(parts)})"


def _primitive(name: str) -> AutogradPrimitive | None:
    rows = registry.op_rows(name)
    record = rows[0].record if rows else None
    return record if isinstance(record, AutogradPrimitive) else None


def _default(value: Any) -> str:
    text = repr(value)
    return "..." if " at 0x" in text or text.startswith("<") else text
