"""What a new implementation has to know of its operator: from the operator's largest case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, final

from netcl_core import DTYPES, Spec, Tensor
from netcl_core.autograd import Operator
from netcl_core.plugins.protocol import registry
from netcl_plugin_kit.kernels.usual import usual_call
from netcl_plugin_kit.testing.collection import table_of

_DTYPE: Final = "float32"
_FLOATS: Final = ("bfloat16", "float16", "float32", "float64")


@final
@dataclass(frozen=True, slots=True)
class OperatorFacts:
    """An operator as its implementations meet it.

    Attributes:
        provider: The distribution that brings it.
        inputs: (name, dtype, shape) of the tensors in the case, a kernel's `("in", i)`.
        attrs: The metadata of the case, as `request.attrs` has it.
        dtypes: The floating dtypes that its cases take.
        case: The name of the case; empty without one.
    """

    provider: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    attrs: dict[str, Any]
    dtypes: tuple[str, ...]
    case: str

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """(C type or empty: the one to compute in, name) of the attributes that are numbers."""
        kinds = {int: "int", float: ""}
        return [
            (kinds[type(attr)], name) for name, attr in self.attrs.items() if type(attr) in kinds
        ]

    def storage(self, dtype: str) -> str:
        """What an input's elements are in a kernel; empty for those of the result's dtype."""
        return "" if DTYPES[dtype].floating else DTYPES[dtype].storage


def facts_of(op: str) -> OperatorFacts:
    """The facts of an installed operator; without a case that tells them, one input."""
    row = registry.find_op(op)
    assert row is not None  # `chosen` has looked
    assert isinstance(row.record, Operator)
    usual = usual_call(op, _DTYPE)
    taken = {take for case in table_of(row.provider).cases_of(op) for take in case.takes}
    dtypes = tuple(dtype for dtype in _FLOATS if dtype in taken) or _FLOATS
    if usual is None:
        return OperatorFacts(row.provider, (("x", _DTYPE, ()),), {}, dtypes, "")
    names = list(row.record.signature.parameters)
    tensors = {name: attr for name, attr in usual.attrs.items() if isinstance(attr, Tensor)}
    pairs: list[tuple[str, Any]] = [*zip(names, usual.inputs, strict=False), *tensors.items()]
    inputs = tuple((name, tensor.dtype, tuple(tensor.shape)) for name, tensor in pairs)
    attrs = _attributes(row.record, usual.inputs, usual.attrs)
    return OperatorFacts(row.provider, inputs, attrs, dtypes, usual.case)


def _attributes(operator: Operator, inputs: list[Spec], given: dict[str, Any]) -> dict[str, Any]:
    tensors = [Tensor.zeros(spec.shape, spec.dtype, "numpy") for spec in inputs]
    if operator.function is None:
        assert operator.bind is not None
        return dict(operator.bind(*tensors, **given)[1])
    bound = operator.signature.bind(*tensors, **given)
    bound.apply_defaults()
    operands = {*operator.operands, *list(bound.arguments)[: len(tensors)]}
    return {name: argument for name, argument in bound.arguments.items() if name not in operands}
