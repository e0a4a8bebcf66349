"""Element losses: the value of a loss for one element, which the public losses reduce."""

from __future__ import annotations

from functools import cache

from netcl_core.autograd import AutogradPrimitive


@cache
def element(name: str) -> AutogradPrimitive:
    """The primitive of `templates/<name>_elements.cl.j2`."""
    return AutogradPrimitive.from_template(f"losses/{name}_elements.cl.j2")
