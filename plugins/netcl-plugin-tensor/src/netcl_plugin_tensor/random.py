"""Random tensors: uniform, normal and integer ones, and permutations.

All are functions of a random state and the element's place, so that every device draws the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Kernel, Kernels, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, composite
from netcl_core.errors import ArgumentError, AttributeValueError, DtypeError, message
from netcl_plugin_tensor import geometry, philox
from netcl_plugin_tensor.axes import plain_shape, whole

#: Elements per work-item of a CPU, a multiple of those of a block.
_CHUNK: Final = 1024
#: The bits of a uniform number: as many as the dtype holds for all of [0, 1).
_BITS: Final = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
_INTEGERS: Final = ("uint8", "int8", "int16", "int32", "int64")


def rand(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Any:
    """Uniform numbers of [0, 1).

    >>> x = ag.rand(2, 3)
    >>> x.shape, bool((x >= 0).all() & (x < 1).all())
    ((2, 3), True)

    Args:
        sizes: The shape, as one tuple or as several ints; `()` for a single number.
        size: Or the shape by its name.
        dtype: A floating dtype; float32 by default.
        device: Where they are made; the default device by default.
        requires_grad: Whether they are a leaf that wants a gradient.
        generator: An `nc.Generator`, or NumPy's; by default the process's, which draws on.

    `netcl_core.manual_seed` makes them repeatable, with the same numbers on every device. Raises
    ArgumentError without a size, and for a tuple followed by ints.
    """
    shape = _sizes("rand", sizes if size is None else (size,))
    return _drawn("uniform", "rand", shape, dtype, device, requires_grad, generator=generator)


def randn(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Any:
    """Normal numbers of mean 0 and variance 1; it has `rand`'s arguments.

    By Box and Muller's transform (1958, "A Note on the Generation of Random Normal Deviates").

    >>> ag.randn(2, 3).shape
    (2, 3)

    Args:
        sizes: The sizes, as a tuple or as several integers.
    """
    shape = _sizes("randn", sizes if size is None else (size,))
    return _drawn("normal", "randn", shape, dtype, device, requires_grad, generator=generator)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Any:
    """Whole numbers, all equally likely: `randint(high, size)` of 0 to before `high`.

    >>> x = ag.randint(0, 10, (100,))
    >>> x.min().item() >= 0, x.max().item() < 10
    (True, True)

    Args:
        low: The least number; left out, 0.
        high: One more than the largest.
        size: The shape.
        dtype: An integer or floating dtype; int64 by default.
        device: Where they are made; the default device by default.
        requires_grad: Whether they are a leaf, of a floating dtype.
        generator: As for `rand`.
    """
    if size is None:
        low, high, size = 0, low, high
    kept = "int64" if dtype is None else dtype
    return _drawn(
        "integers", "randint", size, kept, device, requires_grad, _bounds(low, high), generator
    )


def randperm(n: int, dtype: Any = None, device: Any = None, generator: Any = None) -> Any:
    """The numbers 0 to before n in random order, int64 by default.

    It is the order of as many random words of 64 bits.

    >>> sorted(ag.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    (count,) = plain_shape("randperm", n)
    words = -(2**63), 2**63 - 1
    drawn = _drawn("integers", "randperm", (count,), "int64", device, False, words, generator)
    order = ag.argsort(drawn)
    return order if dtype is None else order.astype(dtype)


def rand_like(
    input: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """`rand` of a tensor's shape, dtype and device.

    >>> ag.rand_like(nc.zeros(2, 3)).shape
    (2, 3)
    """
    input = ag.as_operand(input)
    return rand(input.shape, requires_grad=requires_grad, **_alike(input, dtype, device))


def randn_like(
    input: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Any:
    """`randn` of a tensor's shape, dtype and device.

    >>> ag.randn_like(nc.zeros(2, 3)).shape
    (2, 3)
    """
    input = ag.as_operand(input)
    return randn(input.shape, requires_grad=requires_grad, **_alike(input, dtype, device))


def randint_like(
    input: Any,
    low: int,
    high: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`randint` of a tensor's shape, dtype and device: `randint_like(x, high)` from 0 on.

    >>> ag.randint_like(nc.zeros(2, 3), 10).shape
    (2, 3)

    Args:
        low: The smallest number.
    """
    if high is None:
        low, high = 0, low
    input = ag.as_operand(input)
    return randint(
        low, high, input.shape, requires_grad=requires_grad, **_alike(input, dtype, device)
    )


def _alike(input: Any, dtype: Any, device: Any) -> dict[str, Any]:
    return {
        "dtype": input.dtype if dtype is None else dtype,
        "device": input.device if device is None else device,
    }


def _device(given: Any) -> Device:
    return nc.default_device() if given is None else nc.get_device(given)


def _bounds(low: Any, high: Any) -> tuple[int, int]:
    first, last = (None if isinstance(x, bool) else whole(x) for x in (low, high))
    if first is None or last is None or not -(2**63) <= first < last < 2**63:
        expected = "ints of 64 bits with low < high"
        raise AttributeValueError(message("randint", f"low={low!r}, high={high!r}", expected))
    return first, last


def _sizes(who: str, given: Sequence[Any]) -> Any:
    """The shape from one tuple or several ints by position."""
    if not given or (len(given) > 1 and None in map(whole, given)):
        text = f"{len(given)} sizes by position, not all of them ints" if given else "no size"
        remedy = "dtype and device are given by name"
        raise ArgumentError(message(who, text, f"{who}(3, 5) or {who}((3, 5))", remedy))
    return given[0] if len(given) == 1 else given


def _drawn(
    kind: str,
    who: str,
    size: Any,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    bounds: tuple[int, int] = (0, 1),
    generator: Any = None,
) -> Any:
    """Numbers of a kind on a device, from a fresh random state."""
    shape = plain_shape(who, size)
    name = nc.dtype_name("float32" if dtype is None else dtype, who)
    numbers = RANDOM_NUMBERS(
        fresh_state(who, _device(device), generator), kind, shape, name, *bounds
    )
    return numbers.requires_grad_() if requires_grad else numbers


def fresh_state(who: str, device: Device, generator: Any) -> Any:
    """A fresh random state of the process, of an nc.Generator, or one that NumPy's draws.

    Raises ArgumentError for NumPy's inside a capture, whose replays would draw the same.
    """
    if generator is None or isinstance(generator, nc.Generator):
        return nc.random_state(device, generator)
    if nc.capturing():
        remedy = "Use an nc.Generator, or leave it away: each replay then draws fresh numbers"
        raise ArgumentError(message(who, "generator= in a capture", "", remedy))
    if not hasattr(generator, "integers"):
        given = f"generator={generator!r}"
        raise ArgumentError(message(who, given, "nc.Generator(), or a generator of NumPy's"))
    drawn = np.array([generator.integers(2**63), 0], np.int64)
    return Tensor.from_host(drawn, device)


def _bind(state: Any, kind: str, shape: Any, dtype: str, low: int = 0, high: int = 1) -> Any:
    if kind not in ("uniform", "normal", "integers"):
        raise ArgumentError(message("random_numbers", f"kind={kind!r}", "a distribution"))
    sizes = plain_shape("random_numbers", shape)
    return (state,), {"kind": kind, "shape": sizes, "dtype": dtype, "low": low, "high": high}


def _infer(state: Spec, kind: str, shape: tuple[int, ...], dtype: str, low: int, high: int) -> Spec:
    if kind != "integers" and not DTYPES[dtype].floating:
        expected = "a floating dtype"
        raise DtypeError(message("random_numbers", f"{kind} numbers as {dtype}", expected))
    if dtype in _INTEGERS:
        limits = np.iinfo(DTYPES[dtype].numpy)
        if low < limits.min or high - 1 > limits.max:
            given = f"{low} to {high - 1} as {dtype}"
            raise DtypeError(message("randint", given, f"{limits.min} to {limits.max}"))
    if state != Spec((2,), "int64"):
        given, expected = f"a state like {state}", "two int64"
        raise ArgumentError(message("random_numbers", given, expected, "Use nc.random_state"))
    return Spec(shape, dtype)


def _per_block(kind: str, dtype: str) -> int:
    """How many elements a block of four words gives."""
    return 2 if kind == "integers" or dtype == "float64" else 4


def _plan(request: Request) -> Kernels:
    out, kind = request.output, request.attrs["kind"]
    dtype = DTYPES[out.dtype]
    chunk = geometry.chunk(request.device, _CHUNK, 4)
    args: tuple[tuple[str, Any], ...] = (
        ("in", 0),
        ("out", 0),
        ("ulong", out.size),
        ("ulong", chunk),
    )
    if kind == "integers":
        low, high = request.attrs["low"], request.attrs["high"]
        args += (("long", low), ("ulong", high - low))
    context = {
        "storage": dtype.storage,
        "compute": dtype.compute,
        "kind": kind,
        "per_block": _per_block(kind, out.dtype),
        "bits": _BITS.get(out.dtype, 0),
    }
    sizes = geometry.groups(request.device, -(-out.size // chunk))
    return Kernels((Kernel("tensor/random.cl.j2", "random_numbers", args, *sizes, context),))


def _long_words(state: Any, count: int) -> Any:
    """Words of 64 bits, two to a block."""
    pairs = philox.words(state, -(-count // 2)).reshape(-1, 2)
    return ((pairs[:, 0] << np.uint64(32)) | pairs[:, 1])[:count]


def _uniform(state: Any, count: int, dtype: str) -> Any:
    if dtype == "float64":
        return (_long_words(state, count) >> np.uint64(11)) * 2.0**-53
    words = philox.words(state, -(-count // 4)).reshape(-1)[:count]
    return (words >> np.uint64(32 - _BITS[dtype])) * 2.0 ** -_BITS[dtype]


def _normal(state: Any, count: int, dtype: str) -> Any:
    if dtype == "float64":
        words = (_long_words(state, count + count % 2) >> np.uint64(11)).reshape(-1, 2)
        radii, turns = (words[:, 0] + 0.5) * 2.0**-53, words[:, 1] * 2.0**-52
    else:
        words = philox.words(state, -(-count // 4)).reshape(-1, 2)
        radii = (words[:, 0].astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)
        turns = (words[:, 1] >> np.uint64(8)) * 2.0**-23
    radii = np.sqrt(-2 * np.log(radii.astype(np.float64)))
    pairs = [radii * np.cos(np.pi * turns), radii * np.sin(np.pi * turns)]
    return np.stack(pairs, axis=1).reshape(-1)[:count]


def _integers(state: Any, count: int, low: int, high: int) -> Any:
    """low + the upper half of a word's product with the range, which has 128 bits."""
    word, span = _long_words(state, count), high - low
    half = np.uint64(32)
    top, bottom = word >> half, word & np.uint64(0xFFFFFFFF)
    b1, b0 = np.uint64(span >> 32), np.uint64(span & 0xFFFFFFFF)
    middle = ((bottom * b0) >> half) + ((top * b0) & np.uint64(0xFFFFFFFF))
    middle += (bottom * b1) & np.uint64(0xFFFFFFFF)
    upper = top * b1 + ((top * b0) >> half) + ((bottom * b1) >> half) + (middle >> half)
    with np.errstate(over="ignore"):
        return upper.astype(np.int64) + np.int64(low)


def _reference(
    state: Any, kind: str, shape: tuple[int, ...], dtype: str, low: int, high: int
) -> Any:
    count = Spec(shape, dtype).size
    if kind == "integers":
        numbers = _integers(state, count, low, high)
    else:
        numbers = (_uniform if kind == "uniform" else _normal)(state, count, dtype)
    return numbers.astype(DTYPES[dtype].numpy).reshape(shape)


RANDOM_NUMBERS: Final = Operator(
    name="random_numbers",
    bind=_bind,
    infer=_infer,
    reference=_reference,
    implementations=(Implementation("random_numbers", "Philox4x32-10", _plan),),
    doc="random_numbers(state, kind, shape, dtype, low, high): a distribution from a random state.",
)

OPERATORS = tuple(
    composite(function, parts=(RANDOM_NUMBERS,), method=False)
    for function in (rand, randn, randint, randperm, rand_like, randn_like, randint_like)
)
