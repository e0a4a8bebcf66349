"""Work of NumPy's on tensors of the NumPy path, by the stream as all work is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from netcl_core.dtypes import DTYPES
from netcl_core.runtime.stream import stream_of
from netcl_core.tensors.storage import written_back
from netcl_core.tensors.tensor import Tensor


def on_host(run: Callable[..., None], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """`run(arrays, *targets)`: the inputs and outputs, at least one, as NumPy arrays.

    >>> x, y = nc.tensor([1.0, 2.0], "numpy"), nc.tensor([5.0, 5.0], "numpy")
    >>> def add_to(given, target):
    ...     target += given[0]
    >>> nc.on_host(add_to, [x], [y])
    >>> y.numpy()
    array([6., 7.], dtype=float32)

    The arrays are the tensors' own memory (of views copies, put back at the end), changed in
    place; a capture takes the work down. It is
    for the NumPy path: on an OpenCL device, whose kernels do this, outputs begin undefined.
    """
    forms = [(tensor.shape, DTYPES[tensor.dtype].numpy) for tensor in (*inputs, *outputs)]
    with written_back(outputs) as targets:
        given, filled = [tensor.buffer for tensor in inputs], [tensor.buffer for tensor in targets]
        stream_of(outputs[0].device).host_call(run, given, filled, forms)
