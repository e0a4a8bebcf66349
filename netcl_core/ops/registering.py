"""register_primitive: an elementwise op of the user's own, without a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netcl_core import plugins
from netcl_core.codegen.primitives import AutogradPrimitive, Backward, Forward
from netcl_core.errors import RegistrationError, message
from netcl_core.plugins.registry import USER, USER_PRIORITY, registry


def register_primitive(
    name: str,
    forward: Forward,
    backward: Backward | None,
    arity: int | None = None,
    fusible: bool = True,
    *,
    override: bool = False,
    reference: Callable[..., Any] | None = None,
    verify: bool = False,
) -> AutogradPrimitive:
    """Register an elementwise op of your own: afterwards `ag.<name>(...)` works everywhere.

    >>> record = ag.register_primitive(
    ...     "cube", lambda x, attrs: f"{x[0]} * {x[0]} * {x[0]}",
    ...     lambda x, grad, attrs, out: [f"3 * {x[0]} * {x[0]} * {grad}"], arity=1, verify=True)
    >>> ag.cube(nc.tensor([2.0])).item()
    8.0

    Args:
        name: The op's name, an identifier.
        forward: `(inputs, attrs) -> str`, a C expression of the names in `inputs`.
        backward: `(inputs, grad, attrs, out) -> [str per input]`, or None.
        arity: The number of inputs; None: any.
        fusible: Whether the JIT may fuse it.
        override: Replace an op of this name.
        reference: A NumPy function for checks in float64.
        verify: Compare `backward` with the derivative of `forward` first, by the plugin that has
            the conformance kit.

    Raises:
        PrimitiveError: an expression is wrong (checked at once if `arity` is given), or, with
            `verify`, a gradient; its text shows at which point.
        RegistrationError: the name is taken and `override` is not set.
        MissingNamespaceError: `verify` without such a plugin.
    """
    record = AutogradPrimitive(name, forward, backward, arity, fusible, reference=reference)
    row = registry.find_op(name)
    if row is not None and not override:
        raise RegistrationError(
            message(
                "register_primitive",
                f"the op {name!r} is provided by {row.provider} already",
                "a new name",
                "Pass override=True to replace it",
            )
        )
    if arity is not None:
        record.parsed(arity, ())
    if verify:
        kit = plugins.namespace("conformance", "register_primitive(verify=True)")
        kit.refuse_wrong_gradient(record)
    transaction = registry.transaction(USER, override=override)
    transaction.add("primitive", record, USER_PRIORITY)
    transaction.commit()
    return record
