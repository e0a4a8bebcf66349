"""Dtypes: names, refusals, and promotion by PyTorch's rule."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from netcl_plugin_kit.testing import usable_devices

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device
from netcl_core.dtypes import DTYPES, category_of_scalar, dtype_name, promote
from netcl_core.errors import DtypeError


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("float32", "float32"),
        (np.float16, "float16"),
        ("bfloat16", "bfloat16"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype("int64"), "int64"),
        (float, "float32"),
        (int, "int64"),
        (bool, "bool"),
        ("f8", "float64"),
    ],
)
def test_names(given: Any, name: str) -> None:
    assert dtype_name(given) == name


@pytest.mark.parametrize("given", [complex, "complex64", object, "uint16", "uint32", "text"])
def test_other_dtypes_are_refused(given: Any) -> None:
    with pytest.raises(DtypeError, match=r"make: the dtype .* is not supported; expected one of"):
        dtype_name(given, "make")


def test_sizes_and_categories() -> None:
    assert [
        DTYPES[name].itemsize for name in ("bool", "uint8", "bfloat16", "float16", "int64")
    ] == [1, 1, 2, 2, 8]
    assert [name for name, dtype in DTYPES.items() if dtype.floating] == [
        "bfloat16",
        "float16",
        "float32",
        "float64",
    ]
    assert [category_of_scalar(x) for x in (True, 3, 2.5)] == [0, 1, 2]


def test_promotion_of_nothing() -> None:
    with pytest.raises(DtypeError, match="no operand"):
        promote([])


def test_promotion_is_pytorchs() -> None:
    """All triples of dtypes with dimensions, 0-d, and Python scalars."""
    torch = pytest.importorskip("torch")
    default = torch.get_default_dtype()
    assert default == torch.float32
    arrays = [(name, ndim) for name in DTYPES for ndim in (0, 1)]
    scalars: list[Any] = [None, True, 2, 2.5]
    for first, second, scalar in itertools.product(arrays, arrays, scalars):
        tensors = [torch.ones((2,) * ndim, dtype=getattr(torch, n)) for n, ndim in (first, second)]
        wanted = torch.result_type(*tensors)
        if scalar is not None:
            wanted = _with_scalar(torch, tensors, scalar)
        categories = [] if scalar is None else [category_of_scalar(scalar)]
        name = str(wanted).removeprefix("torch.")
        assert promote([first, second], categories) == name, (first, second, scalar)


def _with_scalar(torch: Any, tensors: list[Any], scalar: Any) -> Any:
    """PyTorch's rule for three operands: one of them a Python scalar."""
    dims = [t.dtype for t in tensors if t.ndim]
    zero = [t.dtype for t in tensors if not t.ndim]
    full = _join(torch, dims)
    rest = _join(torch, zero)
    if rest is None:
        return torch.result_type(torch.ones(2, dtype=full), scalar)
    lower = torch.result_type(torch.ones((), dtype=rest), scalar)
    if full is None:
        return lower
    return torch.result_type(torch.ones(2, dtype=full), torch.ones((), dtype=lower))


def _join(torch: Any, dtypes: list[Any]) -> Any:
    if not dtypes:
        return None
    return dtypes[0] if len(dtypes) == 1 else torch.promote_types(*dtypes)


@pytest.mark.parametrize("device", usable_devices(), ids=str)
def test_python_integers_are_int64(device: Device) -> None:
    big = nc.tensor([100_000], device) * 100_000
    assert (big.dtype, big.tolist()) == ("int64", [10_000_000_000])
    assert nc.tensor(3, device).dtype == nc.tensor([], device, int).dtype == "int64"
    assert (nc.tensor([True], device) + 1).dtype == "int64"
    assert (nc.tensor([1], device, "int32") * 2).dtype == "int32"


#: Functions of two tensors, by PyTorch and by netcl; those that wrap, and those that index.
NARROW: dict[str, Callable[[Any, Any, Any], Any]] = {
    "wrap": lambda library, x, y: (x * y + x) * x - 200,
    "divide": lambda library, x, y: x // (y + (y == 0)) + x % 7,
    "bits": lambda library, x, y: (~x & y) ^ (x | y),
    "rows": lambda library, x, y: library.cumsum(library.sort(x, 1)[0], 1) + library.max(y),
    "product": lambda library, x, y: library.matmul(x, y.t()),
    "mixed": lambda library, x, y: x + library.ones(3, 37, dtype=library.uint8),
    "floats": lambda library, x, y: (x.float() / 3).to(y.dtype) + y[:, :1],
}


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_narrow_signed_integers_are_those_of_pytorch(name: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    arrays = np.random.default_rng(0).integers(-100, 100, (2, 3, 37)).astype(dtype)
    wanted = NARROW[name](torch, *map(torch.tensor, arrays))
    for device in dict.fromkeys([nc.default_device(), nc.get_device("numpy")]):
        with nc.use_device(device):
            given = [nc.tensor(array) for array in arrays]
            compiled = ag.jit_compile(lambda x, y: NARROW[name](nc, x, y))
            for found in (NARROW[name](nc, *given), compiled(*given)):
                assert found.dtype == str(wanted.dtype).removeprefix("torch.")
                np.testing.assert_array_equal(found.numpy(), wanted.numpy())
