"""`TestConformance = conformance("my-plugin")`: the checks of a plugin as a class of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netcl_core.testing import kit
from netcl_core.testing.cases import Case


def conformance(
    provider: str,
    cases: Sequence[Case] | None = None,
    internal: Mapping[str, str] | None = None,
) -> type:
    """A test class that checks a plugin on NumPy and one OpenCL device, one test per op.

    With `pytest --netcl-level run` it checks everything on every device.

    Args:
        provider: The plugin's distribution, such as `"my-plugin"`.
        cases: At least one per op of the plugin; default: those of its hook, and derived ones.
        internal: With `cases`: ops without one, with the reason.

    Raises MissingNamespaceError where no plugin has the kit.
    """
    made: type = kit().conformance(provider, cases, internal)
    return made
