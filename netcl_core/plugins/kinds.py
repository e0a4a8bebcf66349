"""The kinds of things that plugins bring: one row for each.

Whatever enumerates kinds reads this table. A row names what lies in rooms above by its import
path, so that reading the table imports nothing.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Final, final


@final
@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record.

    Attributes:
        name: As it stands in manifests and registry rows.
        hook: The hook in which a plugin registers records of this kind; "": in another kind's.
        registrar: `module:class` of what that hook is given.
        is_op: Whether its records are ops, called as `ag.<name>`.
    """

    name: str
    hook: str = ""
    registrar: str = ""
    is_op: bool = False


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind(
            "primitive",
            "netcl_register_primitives",
            "netcl_core.ops.registrars:PrimitiveRegistrar",
            is_op=True,
        ),
        Kind(
            "operator",
            "netcl_register_operators",
            "netcl_core.ops.registrars:OperatorRegistrar",
            is_op=True,
        ),
        Kind("implementation"),
        Kind("pattern"),
        Kind("amp_policy"),
        Kind(
            "namespace",
            "netcl_register_namespaces",
            "netcl_core.ops.registrars:NamespaceRegistrar",
        ),
    )
}
OP_KINDS: Final = tuple(kind.name for kind in KINDS.values() if kind.is_op)


def registrar(kind: str, transaction: Any, prefix: str) -> Any:
    """A registrar of a kind for one plugin's transaction and template prefix."""
    module, _, name = KINDS[kind].registrar.partition(":")
    return getattr(importlib.import_module(module), name)(transaction, prefix)
