"""netcl-plugin-swiglu: one elementwise op by its entry point alone, without hooks or a manifest."""

from __future__ import annotations

from typing import Any

import numpy as np
from netcl_core.autograd import AutogradPrimitive


def _reference(x: Any, gate: Any) -> Any:
    """The op in NumPy: the conformance kit compares the template with it, in float64."""
    return x / (1 + np.exp(-x)) * gate


swiglu = AutogradPrimitive.from_template("swiglu/swiglu.cl.j2", reference=_reference)
