"""The names that a record may have, those that the core does not have itself; its priority."""

from __future__ import annotations

import functools
import importlib
import keyword
import pkgutil
from typing import Any

from netcl_core.errors import RegistrationError, coded, message
from netcl_core.plugins.kinds import KINDS


@functools.cache
def reserved(face: str) -> frozenset[str]:
    """The names that a face has itself: nothing that a plugin brings can be called so."""
    module = importlib.import_module(face)
    submodules = (each.name for each in pkgutil.iter_modules(module.__path__))
    return frozenset({"OWN_NAMES", *module.OWN_NAMES, *module.__all__, *submodules})


def check_name(provider: str, kind: str, name: Any, *, public: bool) -> None:
    """Raise RegistrationError for a name that a record of a kind cannot have."""
    row = KINDS[kind]
    joined = not row.face and not row.serves  # it is looked up by text alone: `fp16-storage`
    plain = name.replace("-", "_") if joined and isinstance(name, str) else name
    if not isinstance(plain, str) or not plain.isidentifier() or keyword.iskeyword(plain):
        text = message(provider, f"the {kind} name {name!r} is no identifier", "a name")
        raise coded("NP306", RegistrationError(text))
    face = row.face if public else ""
    if face and (name.startswith("_") or name in reserved(face)):
        own = "begins with an underscore" if name.startswith("_") else "is the core's own"
        given = f"the {kind} name {name!r}: {face}.{name} {own}"
        text = message(provider, given, "a name that is free", "Choose another name")
        raise coded("NP312", RegistrationError(text))


def check_priority(provider: str, name: str, *given: Any) -> None:
    """Raise RegistrationError for a priority that cannot be compared with all others."""
    for priority in given:
        if type(priority) is not int:
            text = message(provider, f"{name!r} with the priority {priority!r:.60}", "an integer")
            raise coded("NP315", RegistrationError(text))
