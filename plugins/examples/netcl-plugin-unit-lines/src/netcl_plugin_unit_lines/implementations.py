"""One kernel for l2_normalize(x, dim, eps) along short lines: what it needs, how it is launched.

What the op means, its gradient and its NumPy function come with the operator, which is made of
other ops: a sum of squares per line, a root, a quotient. In a line that fits into one work-item
all of it is one pass over memory instead of three.
"""

from __future__ import annotations

from netcl_core import DTYPES, Kernel, Kernels
from netcl_core.autograd import Implementation, Request, Requirements

#: Whose implementation this is; the operator may come from any plugin.
OPERATOR = "l2_normalize"
#: What it is called in `netcl plugins why`, and its kernel.
NAME = "unit_lines"
#: The name of the plugin's entry point stands for its folder `templates`.
TEMPLATE = "unit-lines/unit_lines.cl.j2"
FLOATS = ("bfloat16", "float16", "float32", "float64")
#: A longer line is more than one work-item should do, a lower number of them too few for a device.
LONGEST, FEWEST = 256, 64
#: A CPU's work-item costs as much as some hundred elements, a GPU wants many of them.
LINES_PER_ITEM = {"cpu": 16, "gpu": 1, "accelerator": 16}


def reject(request: Request) -> str | None:
    """Why the other implementation is left to compute a request; None: this one does."""
    x, dim = request.inputs[0], request.attrs["dim"]
    if not x.shape or dim not in {-1, x.ndim - 1}:
        return "it normalizes along the last axis alone"
    if x.dtype != request.output.dtype:
        return f"it computes floats, not {x.dtype}"
    lines = x.size // max(1, x.shape[-1])
    if x.shape[-1] > LONGEST or lines < FEWEST:
        return f"it is for {FEWEST} lines or more of at most {LONGEST} elements"
    return None


def plan(request: Request) -> Kernels:
    """One launch, an item of work for several lines; called once per device, shape and dtype.

    The arguments are the kernel's, in its order: buffers first, then numbers with their C types.
    """
    x = request.inputs[0]
    size, dtype = x.shape[-1], DTYPES[x.dtype]
    lines = x.size // size
    each = LINES_PER_ITEM[request.device.kind]
    variables = {"storage": dtype.storage, "acc": dtype.compute, "width": 16 if size >= 16 else 1}
    eps = (dtype.compute, request.attrs["eps"])
    args = (("in", 0), ("out", 0), eps, ("ulong", lines), ("ulong", size), ("ulong", each))
    return Kernels((Kernel(TEMPLATE, NAME, args, (-(-lines // each),), context=variables),))


#: It goes before the decomposition, since it is faster where it does not refuse: the check
#: `speed` of the level full measures that.
IMPLEMENTATION = Implementation(
    OPERATOR, NAME, plan, Requirements(dtypes=FLOATS, reject=reject), priority=1
)
