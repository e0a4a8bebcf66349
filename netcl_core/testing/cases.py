"""Case: one row of a conformance table, what an op is called with and what it has to equal."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, final

import numpy as np

from netcl_core.autograd.primitives import AutogradPrimitive
from netcl_core.device import Device
from netcl_core.dtypes import DTYPES
from netcl_core.errors import MissingOpError, RegistrationError, message
from netcl_core.hostdata import Array, Shape
from netcl_core.registry import functions, registry
from netcl_core.testing.samples import FLOATS, SPECIAL, Sampler, in_dtype, is_floating

#: What a case may be excused from, by name. `<check> on <part of a platform>`: there only.
CHECKS: Final = (
    "PyTorch",
    "PyTorch on whole numbers",
    "finite differences",
    "derivative",
    "fused",
    "non-finite",
    "gradient at NaN",
    "non-finite gradient",
    "strided",
    "deterministic",
    "pruning",
    "refusal",
)
#: Shapes of an elementwise op's inputs: flat ones around the vector widths, then others.
SIZES: Final = (0, 1, 7, 16, 17, 1031, 4099)
FIVE: Final = (2, 3, 1, 5, 7)


@final
@dataclass(frozen=True, eq=False)
class Case:
    """One use of an op, and all that the checks need to know about it.

    Args:
        op: The op's name in the registry.
        inputs: Per input a Sampler, or an array as it is.
        torch: The counterpart: `(torch, *tensors) -> tensor`, or its dotted name in
            `torch`, which is then called with the inputs and `attrs`. None: there is none,
            and the reference is the NumPy path in float64.
        attrs: Keyword arguments of the op.
        call: A function of the tensors in place of the op with its `attrs`.
        shapes: Per variant, a shape for each input. An elementwise op needs none.
        note: Tells cases of one op apart.
        dtypes: The dtypes that floating inputs may be given in; default: an elementwise op
            takes all, any other op the floating ones. The others must be refused.
        differentiable: False for an op without gradient.
        gradients: The inputs that get a gradient; default: the floating ones.
        tolerance: A factor on TOLERANCE; any but 1 needs a reason in `because`.
        kinks: Values of the inputs at which finite differences say nothing.
        specials: The values of the non-finite check, for elementwise ops.
        skip: Names from CHECKS with the reason why this case is excused.
    """

    op: str
    inputs: Sequence[Sampler | Array]
    torch: Callable[..., Any] | str | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)
    call: Callable[..., Any] | None = None
    shapes: Sequence[Sequence[Shape]] = ()
    note: str = ""
    dtypes: Sequence[str] | None = None
    differentiable: bool = True
    gradients: Sequence[int] | None = None
    tolerance: float = 1.0
    because: str = ""
    kinks: Sequence[float] = ()
    specials: Sequence[float] = SPECIAL
    skip: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, reason in self.skip.items():
            if name.split(" on ")[0] not in CHECKS:
                raise self._wrong(f"skip has the check {name!r}", f"one of {', '.join(CHECKS)}")
            if not reason.strip():
                raise self._wrong(f"skip of {name!r} without a reason", "a reason")
        if self.tolerance != 1 and not self.because.strip():
            raise self._wrong(f"tolerance={self.tolerance} without a reason", "one in because=")
        if self.torch is None and not self.skip.get("PyTorch"):
            raise self._wrong("no counterpart in torch=", "one, or a reason in skip={'PyTorch': }")
        for shapes in self.shapes:
            if len(shapes) != len(self.inputs):
                raise self._wrong(f"{len(shapes)} shapes", f"one per input, {len(self.inputs)}")

    def _wrong(self, given: str, expected: str) -> RegistrationError:
        return RegistrationError(message(f"case {self}", given, expected))

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.attrs.items() if np.ndim(value) == 0]
        return "-".join(filter(None, [self.op, self.note, *words]))

    @cached_property
    def primitive(self) -> AutogradPrimitive | None:
        """The record of an elementwise op; None for a structured one."""
        row = registry.find_op(self.op)
        if row is None:
            raise MissingOpError(message(f"case {self}", "no plugin provides the op", "one"))
        return row.record if isinstance(row.record, AutogradPrimitive) else None

    @property
    def takes(self) -> tuple[str, ...]:
        """The dtypes that floating inputs may be given in."""
        if self.dtypes is not None:
            return tuple(self.dtypes)
        return FLOATS if self.primitive is None else tuple(DTYPES)

    def run(self, *tensors: Any) -> Any:
        """The op's result."""
        if self.call is not None:
            return self.call(*tensors)
        return functions[self.op](*tensors, **self.attrs)

    def run_torch(self, torch: Any, *tensors: Any) -> Any:
        """The counterpart's result."""
        if callable(self.torch):
            return self.torch(torch, *tensors)
        assert self.torch is not None  # asked only where there is a counterpart
        function = attrgetter(self.torch)(torch)
        given = {k: torch.tensor(v) if np.ndim(v) else v for k, v in self.attrs.items()}
        return function(*tensors, **given)

    def excuse(self, check: str, device: Device | None = None) -> str | None:
        """Why a check does not apply (on a device), or None."""
        if device is not None:
            for name, reason in self.skip.items():
                what, _, where = name.partition(" on ")
                if what == check and where and where.lower() in device.platform.lower():
                    return reason
        return self.skip.get(check)

    @property
    def variants(self) -> Sequence[Sequence[Shape]]:
        """The shapes with which the op runs everywhere."""
        if self.shapes:
            return self.shapes
        if all(isinstance(each, np.ndarray) for each in self.inputs):
            return [[each.shape for each in self.inputs if isinstance(each, np.ndarray)]]
        if self.primitive is None:
            raise self._wrong("no shapes", "shapes= with one per sampled input")
        return [[(size,)] * len(self.inputs) for size in SIZES] + [[FIVE] * len(self.inputs)]

    def sample(self, shapes: Sequence[Shape], dtype: str) -> list[Array]:
        """An array per input; equal for equal requests, floating ones exact in the dtype."""
        random = np.random.default_rng(zlib.crc32(f"{self} {tuple(shapes)}".encode()))
        drawn = [
            each if isinstance(each, np.ndarray) else each(random, tuple(shape))
            for each, shape in zip(self.inputs, shapes, strict=True)
        ]
        return [in_dtype(array, dtype) for array in drawn]

    def needs(self, arrays: Sequence[Array]) -> tuple[bool, ...]:
        """Which inputs get a gradient."""
        wanted = range(len(arrays)) if self.gradients is None else self.gradients
        return tuple(
            self.differentiable and i in wanted and is_floating(array)
            for i, array in enumerate(arrays)
        )
