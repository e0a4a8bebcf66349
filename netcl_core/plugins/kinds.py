"""The kinds of things that plugins bring: one row for each.

Whatever enumerates kinds reads this table. A row names what lies in rooms above by its import
path, so that reading the table imports nothing.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import Any, Final, final

_OP_FACE: Final = "netcl_core.autograd"
_OP_KEYS: Final = (
    "dtypes", "differentiable", "elementwise", "priority", "templates", "tolerance", "definition",
)  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class RecordKind:
    """One kind of what a plugin brings.

    Attributes:
        name: As it stands in manifests and registry rows.
        brings: What a plugin of this kind brings, in one line.
        hook: The hook in which a plugin adds it.
        records: `module:class` of each type of its records; none: the registry keeps none of it.
        registrar: `module:class` of what that hook is given; "": no registrar.
        face: The module that has its names as attributes, so that none may be one of that
            module's own; "": they are no attributes.
        keys: What a row of a manifest may say of it beside name and kind.
        serves: The kind whose records of the same name its records work for.
        repeats: Whether one provider may bring several of one name.
        shows: The property of its records that `netcl plugins why` shows beside the verdict.
        checks: Those checks of the static level that look at its records.
        paged: Whether each of its names has a page in a catalogue; those of ops have in any case.
    """

    name: str
    brings: str
    hook: str
    records: tuple[str, ...] = ()
    registrar: str = ""
    face: str = ""
    keys: tuple[str, ...] = ()
    serves: str = ""
    repeats: bool = False
    shows: str = ""
    checks: tuple[str, ...] = ("registration",)
    paged: bool = False

    @property
    def is_op(self) -> bool:
        """Whether its records are ops, called as `ag.<name>`."""
        return self.face == _OP_FACE

    @property
    def defined(self) -> bool:
        """Whether a manifest may define one, without any code."""
        return "definition" in self.keys

    def lock_key(self, name: str) -> str:
        """What a lock calls one of this kind: an op by its name, all else by its kind, too."""
        return name if self.is_op or self.serves else f"{self.name} {name}"

    @property
    def has_page(self) -> bool:
        """Whether each of its names has a page in a catalogue."""
        return self.is_op or self.paged

    @property
    def rivals(self) -> tuple[str, ...]:
        """The kinds of which a provider may have only one of a name, this one among them."""
        if not self.face:
            return (self.name,)
        return tuple(kind.name for kind in KINDS.values() if kind.face == self.face)


KINDS: Final = {
    kind.name: kind
    for kind in (
        RecordKind(
            "primitive",
            "an elementwise op: one C expression for the value, one per input for the gradient",
            "netcl_register_primitives",
            ("netcl_core.codegen.primitives:AutogradPrimitive",),
            "netcl_core.ops.registrars:PrimitiveRegistrar",
            _OP_FACE,
            _OP_KEYS,
            checks=("registration", "templates", "derivative"),
        ),
        RecordKind(
            "operator",
            "an op with kernels of its own: shape rule, NumPy function, forward and backward "
            "kernels",
            "netcl_register_operators",
            ("netcl_core.ops.operators:Operator",),
            "netcl_core.ops.registrars:OperatorRegistrar",
            _OP_FACE,
            _OP_KEYS,
            checks=("registration", "templates"),
        ),
        RecordKind(
            "implementation",
            "other kernels for an operator that somebody else has brought",
            "netcl_register_operators",
            ("netcl_core.ops.operators:Implementation",),
            "netcl_core.ops.registrars:OperatorRegistrar",
            keys=("dtypes", "priority", "templates", "tolerance"),
            serves="operator",
            repeats=True,
            shows="label",
            paged=True,
        ),
        RecordKind(
            "pattern",
            "a group of ops that one kernel may compute together, for training",
            "netcl_register_patterns",
            ("netcl_core.ops.registrars:PatternRecord",),
            "netcl_core.ops.registrars:PatternRegistrar",
            keys=("dtypes", "priority", "templates", "tolerance"),
            shows="summary",
            paged=True,
        ),
        RecordKind(
            "amp_policy",
            "which ops mixed precision computes in half precision, and which it does not",
            "netcl_register_amp_policies",
            ("netcl_core.ops.casting:PolicyRecord",),
            "netcl_core.ops.registrars:AmpPolicyRegistrar",
            keys=("priority", "storage"),
            shows="summary",
            paged=True,
        ),
        RecordKind(
            "namespace",
            "a module of the face, such as `netcl_core.nn`",
            "netcl_register_namespaces",
            ("netcl_core.plugins.registry:Namespace",),
            "netcl_core.ops.registrars:NamespaceRegistrar",
            "netcl_core",
            shows="module",
        ),
        RecordKind("command", "a command of `netcl`", "netcl_cli_commands"),
    )
}
#: The kinds whose records the registry keeps.
REGISTERED: Final = tuple(kind.name for kind in KINDS.values() if kind.records)
OP_KINDS: Final = tuple(kind.name for kind in KINDS.values() if kind.is_op)
#: The kinds that take part in what an op does.
SERVING_OPS: Final = tuple(kind.name for kind in KINDS.values() if kind.is_op or kind.serves)
#: The kind of what an entry point brings alone, without a hook and a manifest.
SHORT_ROAD: Final = "primitive"
#: The namespace whose `DeclaredPlugin(rows, templates, prefix)` has the hooks of a plugin that is
#: data: those of the rows of its manifest and its folder of templates.
DECLARED: Final = "data_kernels"


def registrar(hook: str, transaction: Any, prefix: str) -> Any:
    """What a registration hook is given, for one plugin's transaction and template prefix."""
    path = next(kind.registrar for kind in KINDS.values() if kind.hook == hook)
    return fetch(path)(hook, transaction, prefix)


@functools.cache
def record_types(kind: str) -> tuple[type, ...]:
    """The types of a kind's records."""
    return tuple(fetch(path) for path in KINDS[kind].records)


def fetch(path: str) -> Any:
    """What lies in a room above, by its import path `module` or `module:name`."""
    path, _, name = path.partition(":")
    module = importlib.import_module(path)
    return getattr(module, name) if name else module
