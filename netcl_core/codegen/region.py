"""Regions: a DAG of primitives, its types, and its forward and backward SSA programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias, final

from netcl_core.codegen.layout import Shape, broadcast
from netcl_core.codegen.primitives import GRAD, OUT, AutogradPrimitive, Choices, Parsed
from netcl_core.codegen.ssa import Block
from netcl_core.dtypes import DEFAULT_OF_CATEGORY, DTYPES, promote

#: ("in", i), ("scalar", i) or ("step", i)
Ref: TypeAlias = tuple[str, int]


#: A sum of two gradients, and a value as it is: in another dtype where a step says so.
ADDED: Final = AutogradPrimitive(
    "accumulate",
    lambda args, _: f"{args[0]} + {args[1]}",
    lambda _, grad, *__: [grad, grad],
    2,
)
SAME: Final = AutogradPrimitive("astype", lambda args, _: args[0], lambda _, grad, *__: [grad], 1)


@final
@dataclass(frozen=True, slots=True)
class PrimitiveStep:
    """One primitive in a region.

    `choices` are the attributes that steer the expression (words, absent ones);
    `attrs` are the numeric attributes with the scalar slot that holds their value.
    With `cast` the step is a conversion of its one operand to that dtype; unless it `rounds`, the
    value has all its digits for as long as it stays in the kernel.
    """

    primitive: AutogradPrimitive
    operands: tuple[Ref, ...]
    choices: Choices = ()
    attrs: tuple[tuple[str, int], ...] = ()
    cast: str | None = None
    rounds: bool = True

    @property
    def parsed(self) -> Parsed:
        """The primitive's expressions for this use."""
        return self.primitive.parsed(len(self.operands), self.choices)


@final
@dataclass(frozen=True, slots=True)
class Region:
    """A DAG of primitives over tensor inputs and scalar arguments; steps in order."""

    inputs: int
    scalars: int
    steps: tuple[PrimitiveStep, ...]
    outputs: tuple[Ref, ...]

    @property
    def ops(self) -> list[str]:
        """The names of the steps' primitives."""
        return [step.primitive.name for step in self.steps]

    @property
    def name(self) -> str:
        """A readable name, an identifier: the ops in order."""
        return "_".join(self.ops)


def gradient_at_result(region: Region) -> Region | None:
    """The gradient of each input of an op from (its result, the result's gradient).

    None for several ops, for an input that is several operands, and where it reads more than that
    (`Parsed.at_result`).
    """
    step = region.steps[0]
    twice = len({*step.operands}) < len(step.operands)
    if len(region.steps) > 1 or twice or step.cast is not None or not step.parsed.at_result:
        return None
    primitive = _of_result(step.primitive, len(step.operands), step.choices)
    gradient = PrimitiveStep(primitive, (("in", 0), ("in", 1)), step.choices, step.attrs)
    return Region(2, region.scalars, (gradient,), region.outputs)


@lru_cache(maxsize=1024)
def _of_result(record: AutogradPrimitive, arity: int, choices: Choices) -> AutogradPrimitive:
    (tree,) = {*(record.parsed(arity, choices).backward or ())}
    assert tree is not None  # somebody has looked
    parsed = Parsed((OUT, GRAD), tree, None, "same", False)
    return AutogradPrimitive.of_trees(f"{record.name}_at_result", parsed, choices)


@final
@dataclass(frozen=True, slots=True)
class Types:
    """What follows from a region and its inputs' dtypes: all that its source depends on."""

    inputs: tuple[str, ...]
    scalars: tuple[str, ...]  # compute types
    dtypes: tuple[str, ...]  # of the steps
    computes: tuple[str, ...]  # of the steps
    outputs: tuple[str, ...]


@final
class Signature(NamedTuple):
    """The inputs of one use: shape and dtype of each tensor, category of each scalar.

    `shape` is that of the outputs where it does not follow from the inputs.
    """

    tensors: tuple[tuple[Shape, str], ...]
    scalars: tuple[int, ...]
    shape: Shape | None = None


def infer(region: Region, signature: Signature) -> tuple[Types, Shape]:
    """The types of all steps and the shape of the outputs.

    Raises ShapeError or DtypeError that names the op.
    """
    shapes = {("in", i): shape for i, (shape, _) in enumerate(signature.tensors)}
    names = {("in", i): dtype for i, (_, dtype) in enumerate(signature.tensors)}
    scalar_types = ["float"] * region.scalars
    dtypes: list[str] = []
    computes: list[str] = []
    for k, step in enumerate(region.steps):
        arrays = [ref for ref in step.operands if ref[0] != "scalar"]
        slots = [i for kind, i in step.operands if kind == "scalar"]
        slots += [slot for _, slot in step.attrs]
        if len(arrays) == 1 and not slots:
            common = names[arrays[0]]
        else:
            common = promote(
                [(names[ref], len(shapes[ref])) for ref in arrays],
                [signature.scalars[slot] for slot in slots],
            )
        result = step.parsed.result
        if step.cast is not None:
            common = step.cast
        elif step.parsed.floating and not DTYPES[common].floating:
            common = DEFAULT_OF_CATEGORY[2]
        compute = DTYPES[common].compute
        for slot in slots:
            scalar_types[slot] = compute
        ref = ("step", k)
        shapes[ref] = broadcast([shapes[array] for array in arrays], step.primitive.name)
        names[ref] = "bool" if result == "bool" else common
        dtypes.append(names[ref])
        computes.append(compute)
    outputs = tuple(names[ref] for ref in region.outputs)
    given = signature.shape
    shape = (
        broadcast([shapes[ref] for ref in region.outputs], region.name) if given is None else given
    )
    types = Types(
        tuple(dtype for _, dtype in signature.tensors),
        tuple(scalar_types),
        tuple(dtypes),
        tuple(computes),
        outputs,
    )
    return types, shape


@final
@dataclass(frozen=True, slots=True)
class KernelProgram:
    """An SSA program: loads, then values, then what is stored.

    `stores` are `(slot, dtype, value)`; `loads` the tensor slots that are read.
    `passes` are the inputs whose gradient is an output's gradient as it stands:
    `(input, output)`; nothing is computed for them.
    """

    block: Block
    stores: tuple[tuple[str, str, int], ...]
    loads: tuple[str, ...]
    scalars: tuple[str, ...]
    passes: tuple[tuple[int, int], ...] = ()


def _load(block: Block, slot: str, dtype: str) -> int:
    return block.load(slot, DTYPES[dtype].compute)


class _Builder:
    """Builds the forward values of a region, and the gradients on top of them."""

    def __init__(self, region: Region, types: Types) -> None:
        self.region = region
        self.types = types
        self.block = Block([step.primitive.name for step in region.steps])
        self.values: dict[Ref, int] = {}
        self.scopes: list[dict[str, int]] = []
        for i, dtype in enumerate(types.inputs):
            self.values["in", i] = _load(self.block, f"in{i}", dtype)
        for i, ctype in enumerate(types.scalars):
            self.values["scalar", i] = self.block.scalar(f"s{i}", ctype)
        for k, step in enumerate(region.steps):
            self._forward(k, step)
        self.block.origin = -1

    def _forward(self, k: int, step: PrimitiveStep) -> None:
        block, compute = self.block, self.types.computes[k]
        block.origin = k
        scope = {
            name: block.convert(self.values[ref], compute)
            for name, ref in zip(step.parsed.inputs, step.operands, strict=True)
        }
        scope |= {name: block.convert(self.values["scalar", s], compute) for name, s in step.attrs}
        value = self.values[step.operands[0]]  # of a cast: truth is that of the value as it was
        if step.cast is None:
            value = block.build(step.parsed.forward, scope, compute)
            ctype = compute
        else:
            ctype = block.values[value].ctype
        if self.types.dtypes[k] == "bool":
            value = block.convert(block.truth(value, ctype), "int")
        else:
            value = block.convert(value, compute)
        dtype = DTYPES[self.types.dtypes[k]]
        if dtype.category == 1 and dtype.itemsize < 4:
            value = block.wrap(value, 8 * dtype.itemsize, dtype.numpy.kind == "i")
        self.values["step", k] = value
        self.scopes.append(scope)

    def output(self, i: int) -> tuple[str, str, int]:
        """The store of an output."""
        dtype = self.types.outputs[i]
        value = self.values[self.region.outputs[i]]
        return f"out{i}", dtype, self.block.convert(value, DTYPES[dtype].compute)

    def gradients(self, needs: Sequence[bool], given: Sequence[bool]) -> dict[int, int]:
        """The gradient value of each needed input that has one, from loads of `gout<i>`."""
        wanted = differentiable(self.region, self.types, needs)
        sums: dict[Ref, list[int]] = {ref: [] for ref in wanted}
        for i, (ref, dtype) in enumerate(zip(self.region.outputs, self.types.outputs, strict=True)):
            if ref in wanted and given[i]:
                grad = _load(self.block, f"gout{i}", dtype)
                sums[ref].append(self.block.convert(grad, self._compute(ref)))
        for k in range(len(self.region.steps) - 1, -1, -1):
            if sums.get(("step", k)):
                self._backward(k, sums)
        self.block.origin = -1
        return {
            i: self._total(("in", i), sums)
            for i in range(self.region.inputs)
            if needs[i] and sums["in", i]
        }

    def _compute(self, ref: Ref) -> str:
        kind, i = ref
        return self.types.computes[i] if kind == "step" else DTYPES[self.types.inputs[i]].compute

    def _total(self, ref: Ref, sums: dict[Ref, list[int]]) -> int:
        return self.block.add(sums[ref], self._compute(ref))

    def _backward(self, k: int, sums: dict[Ref, list[int]]) -> None:
        block, step, compute = self.block, self.region.steps[k], self.types.computes[k]
        block.origin = k
        trees = step.parsed.backward
        if trees is None:
            return
        scope = {
            **self.scopes[k],
            OUT: self.values["step", k],
            GRAD: self._total(("step", k), sums),
        }
        for ref, tree in zip(step.operands, trees, strict=True):
            if ref in sums and tree is not None:
                grad = block.convert(block.build(tree, scope, compute), compute)
                sums[ref].append(block.convert(grad, self._compute(ref)))


def differentiable(region: Region, types: Types, needs: Sequence[bool]) -> set[Ref]:
    """The values through which a gradient flows to an input that needs one."""
    refs: set[Ref] = {("in", i) for i, need in enumerate(needs) if need}
    for k, step in enumerate(region.steps):
        trees = step.parsed.backward
        if trees is not None and DTYPES[types.dtypes[k]].floating:
            pairs = zip(step.operands, trees, strict=True)
            if any(ref in refs and tree is not None for ref, tree in pairs):
                refs.add(("step", k))
    return refs


def forward_program(region: Region, types: Types) -> KernelProgram:
    """The program that computes the outputs `out<i>`."""
    builder = _Builder(region, types)
    return _finish(builder.block, tuple(builder.output(i) for i in range(len(region.outputs))))


def backward_program(
    region: Region, types: Types, needs: Sequence[bool], given: Sequence[bool]
) -> KernelProgram:
    """The program that computes `grad<i>` of the needed inputs; the forward is recomputed.

    `given` says which outputs have a gradient.
    """
    builder = _Builder(region, types)
    grads = builder.gradients(needs, given)
    same = {
        builder.block.load(f"gout{i}", DTYPES[dtype].compute): (i, dtype)
        for i, dtype in enumerate(types.outputs)
    }
    passes = {
        i: same[value][0]
        for i, value in grads.items()
        if value in same and same[value][1] == types.inputs[i]
    }
    stores = tuple(
        (f"grad{i}", types.inputs[i], value) for i, value in grads.items() if i not in passes
    )
    return _finish(builder.block, stores, tuple(passes.items()))


def _finish(
    block: Block,
    stores: tuple[tuple[str, str, int], ...],
    passes: tuple[tuple[int, int], ...] = (),
) -> KernelProgram:
    live = [block.values[n] for n in block.live(value for _, _, value in stores)]
    loads = tuple(str(value.payload) for value in live if value.op == "load")
    scalars = tuple(str(value.payload) for value in live if value.op == "scalar")
    return KernelProgram(block, stores, loads, scalars, passes)
