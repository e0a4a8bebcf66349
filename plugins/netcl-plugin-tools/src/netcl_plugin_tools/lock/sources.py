"""The digests of what is rendered for an op on a device, in float32.

An elementwise op is rendered as `netcl kernels show` does it. So is a structured one for the
shapes and attributes of its first conformance case. Of a case that calls it in a function, and of
ops that are made of others, all kernels that the compiled function launches count together.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from netcl_plugin_kit.kernels.sources import sources_of
from netcl_plugin_kit.testing import Case
from netcl_plugin_kit.testing.collection import table_of

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import (
    AmbiguousOpError,
    ArgumentError,
    AttributeValueError,
    DeviceError,
    DtypeError,
    FusionSkipped,
    NetclError,
    ShapeError,
)

#: What an op raises where there is nothing to render: no gradient, not this dtype, not this device.
_NOTHING = (
    AmbiguousOpError,
    ArgumentError,
    AttributeValueError,
    DeviceError,
    DtypeError,
    ShapeError,
)
_Inputs: TypeAlias = tuple[Sequence[nc.Spec] | None, Mapping[str, Any]]
_DIRECTIONS = ("forward", "backward")
DTYPE: Final = "float32"


def cases() -> dict[str, list[Case]]:
    """The conformance cases of all ops that are not elementwise."""
    cases: dict[str, list[Case]] = {}
    active = {plugin.distribution for plugin in nc.plugins.list() if plugin.state == "active"}
    for distribution in sorted(active):
        for case in table_of(distribution).cases:
            if case.primitive is None:
                cases.setdefault(case.op, []).append(case)
    return cases


def sources(op: str, device: nc.Device, given: Sequence[Case] | None) -> Iterator[tuple[str, str]]:
    """What is rendered, in words, with its sha256; `given`: the op's cases, unless elementwise."""
    taken = [case for case in given or () if DTYPE in case.takes][:1]
    plain = [case for case in taken if case.call is None]
    shown = list(_shown(op, device, plain if given else None))
    yield from shown
    yield from _launched(device, [one for one in taken if one.call or not shown])


# -- as `netcl kernels show` -----------------------------------------------------------


def _shown(op: str, device: nc.Device, given: Sequence[Case] | None) -> Iterator[tuple[str, str]]:
    inputs: list[_Inputs] = [(None, {})]
    if given is not None:
        inputs = [_inputs(case) for case in given]
    for direction in _DIRECTIONS:
        for specs, attrs in inputs:
            try:
                sources = sources_of(
                    op, device, DTYPE, specs, attrs, backward=direction == "backward"
                )
            except _NOTHING:
                continue
            text = "\n\n".join(source.text for source in sources.sources)
            if text:
                yield " ".join([DTYPE, direction, *_words(specs, attrs)]), digest(text)


def _inputs(case: Case) -> _Inputs:
    arrays = case.main_sample(DTYPE)
    return [nc.Spec(array.shape, nc.dtype_name(array.dtype)) for array in arrays], case.attrs


def _words(specs: Sequence[nc.Spec] | None, attrs: Mapping[str, Any]) -> Iterator[str]:
    """Shapes and attributes as `netcl kernels show` takes them."""
    if specs is not None:
        shapes = ("x".join(map(str, spec.shape)) or "()" for spec in specs)
        yield ",".join(f"{shape}:{spec.dtype}" for shape, spec in zip(shapes, specs, strict=True))
    yield from (f"{name}={value!r}" for name, value in attrs.items())


# -- as compiled -----------------------------------------------------------------------


def _launched(device: nc.Device, given: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Nothing on the NumPy path, where no source is made of a compiled function."""
    if not device.has_kernels:
        return
    numbers = [_lowered(case, device) for case in given]
    for number, direction in enumerate(_DIRECTIONS):
        texts = [texts[number] for texts in numbers if texts[number]]
        if texts:
            yield f"{DTYPE} {direction} in {len(texts)} cases", digest("\n\n".join(texts))


def _lowered(case: Case, device: nc.Device) -> tuple[str, str]:
    """The forward and the backward source of a case's call; empty where there is none."""
    arrays = case.main_sample(DTYPE)

    def call(*tensors: nc.Tensor) -> Any:
        return case.run(*tensors)

    with nc.use_device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionSkipped)
        try:
            tensors = [nc.tensor(array, device=device) for array in arrays]
            lowered = ag.jit_compile(call).lower(*tensors)
        except NetclError:  # it cannot be compiled as a whole, or not for this device
            return "", ""
    return lowered.forward_source, lowered.backward_source if any(case.needs(arrays)) else ""


def digest(text: str) -> str:
    """The sha256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
