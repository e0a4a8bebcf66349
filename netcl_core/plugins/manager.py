"""Plugins, for their users: a list of them, what they add to the face, and what they report.

How they are found and judged is in `market`, how they are loaded in `loading`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from netcl_core.errors import (
    MissingNameError,
    MissingNamespaceError,
    message,
    missing_name,
    told_absent,
)
from netcl_core.plugins import loading
from netcl_core.plugins.catalogue import how_to_get
from netcl_core.plugins.finder import finder
from netcl_core.plugins.plugin import Plugin
from netcl_core.plugins.registry import registry
from netcl_core.runtime.rendering import add_prefix


def list() -> Sequence[Plugin]:
    """All plugins with their states, loading them if that has not happened.

    >>> {each.state for each in nc.plugins.list()}
    {'active'}
    """
    registry.load()
    return sorted(loading.known.values(), key=lambda plugin: (plugin.distribution, plugin.name))


def add_templates(prefix: str, folder: str | Path) -> None:
    """Make `<prefix>/<file>` mean a template in `folder`, for primitives outside plugins.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> text = "{%- macro forward(x) -%}{{ x }} + 1{%- endmacro -%}"
    >>> _ = (folder / "plus_one.cl.j2").write_text(text)
    >>> nc.plugins.add_templates("mine", folder)
    >>> ag.AutogradPrimitive.from_template("mine/plus_one.cl.j2")(nc.tensor([1.0])).tolist()
    [2.0]
    """
    add_prefix(prefix, folder)


def require_lock(path: str | Path, sha256: str | None = None) -> None:
    """Hold this process to a lock file, strictly, whatever settings and other files say.

    >>> nc.require_lock("netcl.lock")
    Traceback (most recent call last):
        ...
    netcl_core.errors.PluginError: ... plugins have been looked up already; expected the call ...

    Call it before the first op.

    Args:
        path: The lock file, as `netcl plugins lock` wrote it.
        sha256: The digest of the file in hexadecimal, as `sha256sum` prints it; None: any.

    Raises PluginError NP513 if the file is not there or has another digest, if `sha256` is none,
    and where another file is required or plugins have been looked up already.
    """
    finder().require_lock(Path(path).resolve(), sha256, registry.demand.begun)


def namespace(name: str, who: str = "") -> ModuleType:
    """The module of a namespace such as `nn`; `who` asks for it, for the text of the error.

    >>> nc.plugins.namespace("nn") is nc.nn
    True

    Raises MissingNamespaceError that names the package to install, AttributeError
    for a name that nobody knows.
    """
    row = registry.find("namespace", name)
    if row is not None:
        return _tidied(importlib.import_module(row.record.module))
    remedy = how_to_get(name, "namespace")
    if remedy is None:
        raise AttributeError(f"module 'netcl_core' has no attribute {name!r}")
    given = f"no installed plugin provides {f'the namespace {name}' if who else 'this namespace'}"
    raise MissingNamespaceError(message(who or f"netcl_core.{name}", given, "", remedy))


def namespace_attribute(name: str) -> ModuleType:
    """The module of a namespace for who has it as an attribute: `hasattr` is False without it.

    Raises MissingNameError that names the package to install, AttributeError for other names.
    """
    try:
        return namespace(name)
    except MissingNamespaceError as error:
        missing = MissingNameError(str(error))
        missing.told = True
        raise missing from None


def _tidied(module: ModuleType) -> ModuleType:
    """A namespace of which `dir` and the tab key show what it offers, and not what it imports.

    That is what `__all__` has, else what the module's own distribution makes.
    """
    own = vars(module)
    if "__dir__" in own:
        return module
    maker = _maker(module)
    offered = own.get("__all__") or [
        name for name, value in own.items() if name[0] != "_" and _maker(value) == maker
    ]
    shown = sorted({*offered, *(name for name in own if name.startswith("__"))})
    own["__dir__"] = lambda: shown
    for name in offered:
        if isinstance(own.get(name), ModuleType):
            _tidied(own[name])
    return module


def _maker(value: Any) -> str:
    """The package that a module, a class or a function is of."""
    where = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return str(where).partition(".")[0]


def ported(place: str, name: str) -> Any:
    """What a name of PyTorch's is, by the namespace `port` if that is installed; else None.

    `place` is `torch`, `Tensor`, or a module's path below torch.
    """
    ports = port()
    return None if ports is None else ports.find(place, name)


def not_ported(place: str, name: str) -> str:
    """What to write for a name of PyTorch's that is not there; empty where nobody knows."""
    ports = port()
    return "" if ports is None else str(ports.reason(place, name))


def port() -> Any:
    """The namespace `port`, or None where no plugin brings it."""
    return registry.space("port")


def absent(place: str, name: str, known: Iterable[str]) -> Any:
    """A name that a namespace does not have itself: its `__getattr__` returns this.

    >>> nc.plugins.absent("nn", "modules", ()) is nc.nn
    True

    Args:
        place: The namespace, as PyTorch calls it: `nn`, `nn.init`, `torch`.
        name: The name.
        known: The namespace's names; near ones are proposed.

    Raises MissingNameError, with what to write instead where that is known.
    """
    if name.startswith("__"):
        raise AttributeError(name)
    value = ported(place, name)
    if value is not None:
        return value
    who = "netcl_core" + f".{place.removeprefix('utils.')}" * (place != "torch")
    why = not_ported(place, name)
    raise told_absent(who, name, why) if why else missing_name(who, name, known)
