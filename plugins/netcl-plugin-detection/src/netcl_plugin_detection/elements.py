"""Element losses: the value of a loss for one element, and its gradient."""

from __future__ import annotations

from functools import cache

from netcl_core.autograd import AutogradPrimitive


@cache
def element(name: str) -> AutogradPrimitive:
    """The primitive of `templates/<name>_elements.cl.j2`."""
    return AutogradPrimitive.from_template(f"detection/{name}_elements.cl.j2")
