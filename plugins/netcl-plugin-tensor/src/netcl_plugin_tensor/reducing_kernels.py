"""Plans of reductions: any dimensions, in one pass or two, in the form of the device's kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from netcl_core import DTYPES, Device, Kernels, Spec
from netcl_core.autograd import NO_SLOTS, Geometry, Slots
from netcl_core.inspect.data import NUMPY_OF_COMPUTE, dense
from netcl_plugin_tensor import reducing_cpu, reducing_gpu
from netcl_plugin_tensor.reducing_job import Combine, Reduction, merge


def reduction_kernels(
    how: Combine,
    device: Device,
    source: Spec,
    axes: Sequence[int],
    out_dtype: str,
    scale: float = 1.0,
    slots: Slots = NO_SLOTS,
    layout: Geometry | None = None,
    pairs: int = 1,
) -> Kernels:
    """The launches that reduce input 0 over `axes` into output 0.

    >>> from netcl_core.autograd import SUM, reduction_kernels
    >>> device, matrix = nc.default_device(), nc.Spec((4, 3), "float32")
    >>> if device.has_kernels:  # not the NumPy path
    ...     assert reduction_kernels(SUM, device, matrix, (1,), "float32").launches

    Args:
        how: What combines two values.
        source: The input; it has at least one element.
        axes: Non-negative axes.
        out_dtype: The dtype of the results in memory.
        scale: A factor on the result (the mean is a scaled sum).
        slots: What computes the elements of input 0 and works on the elements of output 0.
        layout: Where the elements of input 0 lie, for which `reduction_reads`; None: in C order.
        pairs: How many inputs, each of the `source`, are reduced at once, each into the output of
            its number; several have no slots.
    """
    form: Any = reducing_gpu if device.kind == "gpu" else reducing_cpu
    acc = DTYPES[out_dtype].compute if how.widen else DTYPES[source.dtype].compute
    job = Reduction(how, source, tuple(axes), out_dtype, acc, scale, slots, layout, pairs)
    slices = form.slices(job, device)
    if slices == 1:
        return Kernels((form.kernel(job, device, 1),))
    partial = Spec((slices, job.space.outputs), NUMPY_OF_COMPUTE[acc].name)
    before, after = slots.split()
    opening = replace(job, out_dtype=partial.dtype, scale=1.0, slots=before)
    closing = replace(job, source=partial, axes=(0,), slots=after, layout=None)
    first, finish = form.kernel(opening, device, slices), form.kernel(closing, device, 1)
    nbytes = partial.size * NUMPY_OF_COMPUTE[acc].itemsize
    written = {("out", i): ("scratch", i) for i in range(pairs)}
    sliced = Kernels((), (nbytes,) * pairs).then(Kernels((first,)), written)
    return sliced.then(Kernels((finish,)), {("in", i): ("scratch", i) for i in range(pairs)})


def reduction_reads(layout: Geometry | None, axes: Sequence[int]) -> bool:
    """Whether the kernels read a view by its strides: its neighbours in memory are kept or lost.

    >>> rows, thirds = ag.Geometry((2, 3), (8, 1)), ag.Geometry((2, 3), (9, 3))
    >>> [ag.reduction_reads(view, (1,)) for view in (rows, thirds, None)]
    [True, False, False]

    Args:
        layout: Where the elements lie; None without gaps.
        axes: The axes that are reduced, not negative.
    """
    return layout is not None and merge(layout, tuple(axes)) is not None


def reduction_stretch(shape: Sequence[int], axes: Sequence[int]) -> int:
    """How many contiguous elements a vector of a reduction never leaves: the elements of one run.

    >>> ag.reduction_stretch((2, 3, 4), (1, 2)), ag.reduction_stretch((2, 3, 4), (1,))
    (12, 4)

    Args:
        shape: The sizes.
        axes: The axes that are reduced, not negative.
    """
    space = merge(dense(tuple(shape)), tuple(axes))
    assert space is not None  # C order can be read
    dims = space.lost if space.inner_lost else space.kept
    return dims[-1][0] if dims else 1
