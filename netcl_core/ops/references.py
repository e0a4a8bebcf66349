"""How a call of a structured op runs on NumPy: by the operator's reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from netcl_core.dtypes import DTYPES
from netcl_core.errors import RegistrationError, message
from netcl_core.runtime.kernels import Spec
from netcl_core.runtime.stream import replaced, stream_of
from netcl_core.tensors.tensor import Tensor


def by_reference(call: Any, inputs: Sequence[Tensor], specs: Sequence[Spec]) -> list[Tensor]:
    """The results and residuals, which have these shapes and dtypes."""
    if replaced:
        stream = stream_of(call.device)
        buffers = [stream.allocate(spec.size, DTYPES[spec.dtype]) for spec in specs]
        forms = [(x.shape, DTYPES[x.dtype].numpy) for x in inputs]
        forms += [(spec.shape, DTYPES[spec.dtype].numpy) for spec in specs]
        run = partial(_filled, call, specs)
        stream.host_call(run, [x.buffer for x in inputs], buffers, forms)
    else:  # the same without a copy of what the reference gives
        with np.errstate(all="ignore"):
            parts = _parts(call, specs, [x.buffer.reshape(x.shape) for x in inputs])
        pairs = zip(parts, specs, strict=True)
        buffers = [_fresh(np.asarray(part), DTYPES[spec.dtype].numpy) for part, spec in pairs]
    return [
        Tensor(buffer, spec.shape, spec.dtype, call.device)
        for buffer, spec in zip(buffers, specs, strict=True)
    ]


def _filled(call: Any, specs: Sequence[Spec], arrays: Sequence[Any], *targets: Any) -> None:
    for target, part in zip(targets, _parts(call, specs, arrays), strict=True):
        target[...] = part


def _parts(call: Any, specs: Sequence[Spec], arrays: Sequence[Any]) -> Sequence[Any]:
    reference = call.operator.reference
    assert reference is not None  # NumPy computes functions of ops by these
    given = reference(*call.operands(arrays), **call.attrs)
    parts = given if isinstance(given, tuple) else (given,)
    shapes = [np.shape(part) for part in parts]
    if shapes != [spec.shape for spec in specs]:
        returned = " and ".join(f"shape {shape}" for shape in shapes)
        expected = " and ".join(str(spec.shape) for spec in specs)
        what = f"its reference returned {returned}"
        raise RegistrationError(message(call.name, what, f"{expected}, as its shape rule says"))
    return parts


def _fresh(array: Any, dtype: Any) -> Any:
    """A flat array of a reference's result, whose memory is no input's."""
    copy = None if array.flags.owndata else True  # the inputs are views there
    return np.array(array, dtype, order="C", copy=copy).reshape(-1)
