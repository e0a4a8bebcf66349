"""The reference: what a case has to equal, in float64.

PyTorch where it is installed and the case names a counterpart, else a NumPy function of the
author's, else the op's own NumPy path. The gradients of that path are those wherever PyTorch
has none; they are held against finite differences.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES, Device, Tensor, get_device, use_device
from netcl_core.autograd import backward, grad
from netcl_core.errors import KernelFindingError
from netcl_core.inspect.data import Array, Shape
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.guards import writer_of
from netcl_plugin_kit.testing.inputs import covector
from netcl_plugin_kit.testing.samples import is_floating

#: Relative tolerance by dtype; whole numbers are exact.
TOLERANCE: Final = {"bfloat16": 4e-2, "float16": 1e-2, "float32": 1e-5, "float64": 1e-12}


@final
@dataclass(frozen=True)
class Values:
    """What a case gives.

    Attributes:
        outputs: The result, or each of several.
        dtypes: Theirs.
        gradients: One (or None) per input, of all results together.
        flowing: The numbers of the results that gradients flow through.
    """

    outputs: Sequence[Array]
    dtypes: Sequence[str]
    gradients: Sequence[Array | None]
    flowing: Sequence[int] = ()

    @property
    def size(self) -> int:
        """The number of elements of all outputs."""
        return sum(output.size for output in self.outputs)


def results_of(results: Any) -> list[Any]:
    """The results of a call, of which there may be several."""
    return list(results) if isinstance(results, tuple) else [results]


def has_torch() -> bool:
    """Whether PyTorch is installed; it is not imported."""
    return importlib.util.find_spec("torch") is not None


@lru_cache(maxsize=1)
def torch_module() -> Any:
    """PyTorch, or None where it is not installed."""
    return importlib.import_module("torch") if has_torch() else None


def evaluate(
    case: Case,
    arrays: Sequence[Array],
    device: Device,
    needs: Sequence[bool] | None = None,
    upstream: Callable[[Shape, str], Array] = covector,
    place: Callable[[Array, Device], Tensor] = Tensor.from_host,
) -> Values:
    """The op on a device, and its gradients from those that `upstream` gives for the outputs.

    `place` brings the operands there.
    """
    needs = case.needs(arrays) if needs is None else needs
    with use_device(device):
        tensors = [
            place(array, device).requires_grad_(need)
            for array, need in zip(arrays, needs, strict=True)
        ]
        results = results_of(case.run(*tensors))
        flowing = [i for i, result in enumerate(results) if result.requires_grad]
        through = [results[i] for i in flowing]
        given = [upstream(output.shape, output.dtype) for output in through]
        if len(through) == 1:
            backward(through[0], given[0])
        elif through:
            _backward_all(through, given, tensors, device)
        grads = [None if each.grad is None else each.grad.to_host() for each in tensors]
        outputs, dtypes = [x.to_host() for x in results], [x.dtype for x in results]
        for i, (tensor, array) in enumerate(zip(tensors, arrays, strict=True)):
            _insist_on_input(f"{case} on {device}: input {i}", tensor, array)
        return Values(outputs, dtypes, grads, flowing)


def _insist_on_input(who: str, tensor: Tensor, array: Array) -> None:
    """Raise KernelFindingError if an input has changed, and not by an op in place."""
    if not tensor.version and tensor.to_host().tobytes() != array.tobytes():
        writer = writer_of(tensor.memory)
        text = f"{who} of {array.dtype.name}{list(array.shape)} is not what it was"
        raise KernelFindingError("NC702", f"{text}{f': it is {writer}' if writer else ''}")


def _backward_all(
    results: Sequence[Any], upstream: Sequence[Array], tensors: Sequence[Tensor], device: Device
) -> None:
    """The gradients of several results at once, as `backward` leaves those of one."""
    leaves = [tensor for tensor in tensors if tensor.requires_grad]
    given = [Tensor.from_host(array, device) for array in upstream]
    for leaf, gradient in zip(leaves, grad(results, leaves, given, allow_unused=True), strict=True):
        leaf.grad = gradient


def lacking(case: Case) -> str:
    """Why no reference is independent of the op; empty if one is."""
    if case.pattern is not None:  # the function as it stands
        return ""
    if case.counterpart is not None or (case.torch is not None and has_torch()):
        return ""
    if case.torch is not None:
        return "PyTorch is not installed; the NumPy path in float64 is the reference"
    reason = case.excuse("PyTorch")
    return f"none given{f' ({reason})' if reason else ''}; the NumPy path in float64 is it"


def expected(case: Case, arrays: Sequence[Array], dtype: str, compute: str = "float64") -> Values:
    """What the op should give; floating dtypes are computed in float64, or as `compute` says."""
    if DTYPES[dtype].floating:
        exact = [x.astype(compute) if is_floating(x) else x for x in arrays]
        values = _values(case, exact)
        return replace(values, dtypes=[dtype if x == compute else x for x in values.dtypes])
    torch = _torch_for(case)
    if torch is not None and not case.excuse("PyTorch on whole numbers"):
        with contextlib.suppress(
            RuntimeError, TypeError
        ):  # PyTorch lacks many ops for whole dtypes
            return _of_torch(torch, case, arrays)
    return evaluate(case.plain, arrays, get_device("numpy"))


def _torch_for(case: Case) -> Any:
    """PyTorch, if it can say what the case has to equal."""
    return None if case.torch is None else torch_module()


def _values(case: Case, arrays: Sequence[Array]) -> Values:
    """The result for floating inputs, which are float64."""
    torch = _torch_for(case)
    if torch is not None:
        return _of_torch(torch, case, arrays)
    own = evaluate(case.plain, arrays, get_device("numpy"))
    if case.counterpart is None:
        return own
    with np.errstate(all="ignore"):
        outputs = [np.asarray(x) for x in results_of(case.counterpart(*arrays, **case.attrs))]
    return Values(outputs, [x.dtype.name for x in outputs], own.gradients, own.flowing)


def _of_torch(torch: Any, case: Case, arrays: Sequence[Array]) -> Values:
    needs = case.needs(arrays)
    tensors = [
        torch.tensor(array).requires_grad_(need) for array, need in zip(arrays, needs, strict=True)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch warns of is not the op's concern
        results = results_of(case.run_torch(torch, *tensors))
        dtypes = [str(result.dtype).removeprefix("torch.") for result in results]
        flowing = [i for i, result in enumerate(results) if result.requires_grad]
        upstream = [torch.tensor(covector(tuple(results[i].shape), dtypes[i])) for i in flowing]
        if flowing:
            torch.autograd.backward([results[i] for i in flowing], upstream)
    grads = [None if tensor.grad is None else tensor.grad.numpy() for tensor in tensors]
    return Values([result.detach().numpy() for result in results], dtypes, grads, flowing)


# -- comparison ------------------------------------------------------------------------


def assert_close(
    given: Array,
    wanted: Array,
    what: str,
    rtol: float = 0.0,
    atol: float = 0.0,
    inputs: Sequence[Array] = (),
) -> None:
    """Raise AssertionError that shows the worst element, unless all are equal or close.

    Of `inputs` it shows what stands at that element, of those that are broadcast to the result.
    """
    assert given.shape == wanted.shape, f"{what}: shape {given.shape}; expected {wanted.shape}"
    exact = not is_floating(given) or not (rtol or atol)
    with np.errstate(all="ignore"):
        same = (given == wanted) | ((given != given) & (wanted != wanted))
        same = same if exact else same | np.isclose(given, wanted, rtol, atol)
        if same.all():
            return
        distance = np.abs(given.astype(np.float64) - wanted.astype(np.float64))
    distance = np.where(same, -1.0, np.where(np.isnan(distance), np.inf, distance))
    worst = np.unravel_index(int(distance.argmax()), given.shape)
    where = f" at {tuple(map(int, worst))}" if given.ndim else ""
    within = "" if exact else f" within {rtol:.2g} of it + {atol:.2g}"
    raise AssertionError(
        f"{what}: {int((~same).sum())} of {same.size} elements differ; "
        f"given {given[worst]}{where}; expected {wanted[worst]}{within}{_at(worst, given, inputs)}"
    )


def _at(place: tuple[Any, ...], given: Array, inputs: Sequence[Array]) -> str:
    """What the inputs have at an element of a result, in words."""
    notes = []
    for i, array in enumerate(inputs):
        with contextlib.suppress(ValueError):  # another shape: a matrix, or what is reduced
            notes.append(f"input {i} is {np.broadcast_to(array, given.shape)[place]!s}")
    return f"; there {', '.join(notes)}" if notes else ""
