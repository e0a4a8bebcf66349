"""Case: one row of a conformance table, what an op is called with and what it has to equal."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, final

import numpy as np

from netcl_core import DTYPES, Device, manual_seed, prefer
from netcl_core.autograd import AutogradPrimitive
from netcl_core.errors import MissingOpError, RegistrationError, UnfitError, message
from netcl_core.inspect.choices import functions
from netcl_core.inspect.data import Array, Shape
from netcl_core.inspect.programs import Jitted
from netcl_core.inspect.recorded import thread
from netcl_core.plugins.protocol import Row, registry
from netcl_plugin_kit.testing.groups import compiled_with, written
from netcl_plugin_kit.testing.samples import FLOATS, SPECIAL, Sampler, in_dtype, is_floating
from netcl_plugin_kit.testing.vocabulary import EXCUSABLE, PARTS, applies, is_excuse

#: Shapes of an elementwise op's inputs: flat ones around the vector widths, then others.
SIZES: Final = (0, 1, 7, 16, 17, 1031, 4099)
_SEED: Final = 20
FIVE: Final = (2, 3, 1, 5, 7)


@final
@dataclass(frozen=True, eq=False)
class Case:
    """One use of an op, and all that the checks need to know about it.

    >>> print(Case("softmax", [normal()], "softmax", {"dim": 1}, shapes=[[(5, 7)]]))
    softmax-dim=1

    Args:
        op: The op's name in the registry.
        inputs: Per input a Sampler, or an array as it is.
        torch: The counterpart: `(torch, *tensors) -> tensor`, or a tuple where there are several
            results, or its dotted name in `torch`, which is then called with the inputs and
            `attrs`.
        reference: A NumPy counterpart, `(*arrays, **attrs) -> array` of float64 arrays; it is
            asked where PyTorch is not installed or has none. Neither of them: an elementwise
            op's own `reference`, else the NumPy path in float64.
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
        skip: Checks that are not made, with the reason; `vocabulary` has the names.
        xfail: Checks that fail through no fault of the op, with the reason; one that passes is
            a failure.
        provider: The distribution whose op is meant where several have one of this name.
        fused: Of a training pattern's case, whether the pattern applies.

    A case of a training pattern has the pattern's name as `op`. Its inputs are the captured tensors
    in the order of their names in the matcher, its `attrs` the captured numbers and attributes.
    `call` is the function that the pattern is for, where it does not follow from a MatchedOp; the
    case runs it compiled, and what it has to equal is the function as it stands.
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
    reference: Callable[..., Any] | None = None
    xfail: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    fused: bool = True

    def __post_init__(self) -> None:
        self._check_excuses("skip", self.skip)
        self._check_excuses("xfail", self.xfail)
        if self.tolerance != 1 and not self.because.strip():
            raise self._wrong(f"tolerance={self.tolerance} without a reason", "one in because=")
        for shapes in self.shapes:
            if len(shapes) != len(self.inputs):
                raise self._wrong(f"{len(shapes)} shapes", f"one per input, {len(self.inputs)}")

    def _check_excuses(self, which: str, excuses: Mapping[str, str]) -> None:
        for name, reason in excuses.items():
            parts = which == "skip"
            if not is_excuse(name, parts=parts):
                names = ", ".join([*EXCUSABLE, *PARTS] if parts else EXCUSABLE)
                where = "with a dtype and a platform that it is asked for in"
                expected = f"'<check> [in <dtype>] [on <part of a platform>]' of {names}, {where}"
                raise self._wrong(f"{which} has the check {name!r}", expected)
            if not reason.strip():
                raise self._wrong(f"{which} of {name!r} without a reason", "a reason")

    def _wrong(self, given: str, expected: str) -> RegistrationError:
        return RegistrationError(message(f"case {self}", given, expected))

    def __str__(self) -> str:
        words = [f"{name}={value}" for name, value in self.attrs.items() if np.ndim(value) == 0]
        return "-".join(filter(None, [self.op, self.note, *words]))

    @cached_property
    def pattern(self) -> Row | None:
        """The row of the training pattern that it is of; None: it is of an op."""
        registry.load()
        rows = () if registry.op_rows(self.op) else registry.rows("pattern", self.op)
        return next((row for row in rows if self.provider in {"", row.provider}), None)

    @cached_property
    def written(self) -> Callable[..., Any]:
        """Of a pattern's case the function of ops that it is for."""
        assert self.pattern is not None  # asked of nothing else
        return self.call or written(self.pattern.record, self.attrs)

    @cached_property
    def compiled(self) -> Jitted:
        """That function, compiled with the pattern."""
        assert self.pattern is not None  # asked of nothing else
        return compiled_with(self.pattern, self.written)

    @property
    def plain(self) -> Case:
        """Of a pattern's case the one that runs the function as it stands."""
        return self if self.pattern is None else replace(self, fused=False)

    @cached_property
    def primitive(self) -> AutogradPrimitive | None:
        """The record of an elementwise op; None for a structured one, and for a pattern."""
        if self.pattern is not None:
            return None
        with self.chosen():
            row = registry.find_op(self.op, thread.chosen)
        if row is None:
            raise MissingOpError(message(f"case {self}", "no plugin provides the op", "one"))
        return row.record if isinstance(row.record, AutogradPrimitive) else None

    @property
    def counterpart(self) -> Callable[..., Any] | None:
        """The NumPy function that says what is right where PyTorch does not."""
        if self.reference is None and self.primitive is not None:
            return self.primitive.reference
        return self.reference

    @property
    def takes(self) -> tuple[str, ...]:
        """The dtypes that floating inputs may be given in."""
        if self.dtypes is not None:
            return tuple(self.dtypes)
        if self.pattern is not None and self.pattern.record.dtypes:
            return tuple(self.pattern.record.dtypes)
        return FLOATS if self.primitive is None else tuple(DTYPES)

    def run(self, *tensors: Any) -> Any:
        """The op's result."""
        if self.pattern is not None:
            manual_seed(_SEED)  # a group may draw random numbers
            return (self.compiled if self.fused else self.written)(*tensors)
        with self.chosen():
            if self.call is not None:
                return self.call(*tensors)
            return functions[self.op](*tensors, **self.attrs)

    def chosen(self) -> AbstractContextManager[None]:
        """The provider's op or implementation, where another one has one of the same name."""
        registry.load()
        rows = (*registry.op_rows(self.op), *registry.rows("implementation", self.op))
        if self.provider and {row.provider for row in rows} != {self.provider}:
            return prefer(f"{self.provider}:{self.op}")
        return nullcontext()

    def refusal(self, error: UnfitError) -> str:
        """Why the implementation under test refuses a request; empty if that is no answer.

        An operator's own plugin has to compute all that its cases ask for.
        """
        if not self.provider or any(r.provider == self.provider for r in registry.op_rows(self.op)):
            return ""
        own = [refusal for refusal in error.refusals if refusal[0] == self.provider]
        return "; ".join(f"{label} refuses it: {reason}" for _, label, reason in own)

    def run_torch(self, torch: Any, *tensors: Any) -> Any:
        """The counterpart's result."""
        if callable(self.torch):
            return self.torch(torch, *tensors)
        assert self.torch is not None  # asked only where there is a counterpart
        function = attrgetter(self.torch)(torch)
        given = {k: torch.tensor(v) if np.ndim(v) else v for k, v in self.attrs.items()}
        return function(*tensors, **given)

    def excuse(self, check: str, device: Device | None = None, dtype: str = "") -> str | None:
        """Why a check is not made (on a device, in a dtype), or None."""
        return _first(self.skip, check, device, dtype)

    def expected_failure(self, check: str, device: Device | None, dtype: str) -> str | None:
        """Why a check fails there, or None."""
        return _first(self.xfail, check, device, dtype)

    @property
    def is_sampled(self) -> bool:
        """Whether inputs of any shape can be had."""
        return all(callable(maker) for maker in self.inputs)

    @property
    def variants(self) -> Sequence[Sequence[Shape]]:
        """The shapes with which the op runs everywhere."""
        if self.shapes:
            return self.shapes
        if all(isinstance(maker, np.ndarray) for maker in self.inputs):
            return [[array.shape for array in self.inputs if isinstance(array, np.ndarray)]]
        if self.primitive is None:
            raise self._wrong("no shapes", "shapes= with one per sampled input")
        return [[(size,)] * len(self.inputs) for size in SIZES] + [[FIVE] * len(self.inputs)]

    def sample(self, shapes: Sequence[Shape], dtype: str, salt: str = "") -> list[Array]:
        """An array per input; equal for equal requests, floating ones exact in the dtype."""
        random = np.random.default_rng(zlib.crc32(f"{self} {tuple(shapes)}{salt}".encode()))
        drawn = [
            maker if isinstance(maker, np.ndarray) else maker(random, tuple(shape))
            for maker, shape in zip(self.inputs, shapes, strict=True)
        ]
        return [in_dtype(array, dtype) for array in drawn]

    def needs(self, arrays: Sequence[Array]) -> tuple[bool, ...]:
        """Which inputs get a gradient."""
        wanted = range(len(arrays)) if self.gradients is None else self.gradients
        return tuple(
            self.differentiable and i in wanted and is_floating(array)
            for i, array in enumerate(arrays)
        )

    def main_sample(self, dtype: str, salt: str = "") -> list[Array]:
        """The inputs of the first variant that has elements."""
        samples = (self.sample(shapes, dtype, salt) for shapes in self.variants)
        sample = next((arrays for arrays in samples if all(x.size for x in arrays)), None)
        return self.sample(self.variants[0], dtype, salt) if sample is None else sample

    @property
    def main_dtype(self) -> str:
        """The dtype for what depends on the op and not on the dtype."""
        return "float32" if "float32" in self.takes else self.takes[-1]


def _first(excuses: Mapping[str, str], check: str, device: Device | None, dtype: str) -> str | None:
    return next((why for name, why in excuses.items() if applies(name, check, device, dtype)), None)
