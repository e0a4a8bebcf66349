"""Typed SSA: expression trees become numbered values, equal ones are computed once.

A `Block` holds the values of one kernel body in the order of their definition.
Types are the OpenCL C scalar types of arithmetic (`float`, `double`, `int`,
`long`) and `mask4`/`mask8`, the truth value of a comparison of 4- or 8-byte
operands (in vector form a comparison yields lanes of that size).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from netcl_core.codegen.expressions import (
    BITWISE,
    COMPARISONS,
    LOGICAL,
    PREDICATES,
    Expr,
    Name,
    Number,
)
from netcl_core.dtypes import NUMPY_OF_COMPUTE
from netcl_core.errors import DtypeError, message

INTEGERS: Final = frozenset({"int", "long"})
#: What functions and operators are called on integers, where they have helpers of their own: modulo
#: the type's range, towards zero; by zero 0.
_EXACT: Final = {"pow": "ipow", "/": "idiv", "fmod": "imod"}


@final
@dataclass(frozen=True, slots=True)
class Value:
    """One value: an operation on earlier values, or a `load`, `scalar` or `const`."""

    op: str
    args: tuple[int, ...]
    ctype: str
    payload: Any
    origin: int

    @property
    def is_mask(self) -> bool:
        """Whether this is a truth value."""
        return self.ctype.startswith("mask")


def mask_of(ctype: str) -> str:
    """The type of a comparison between operands of a type."""
    return f"mask{NUMPY_OF_COMPUTE[ctype].itemsize}"


@final
class Block:
    """Values in order of definition, numbered by what they compute.

    `origin` marks which step of the region the next values belong to (an index of
    `steps`, their names; -1: none); printers inline a value that is used once if it
    shares the origin of its user.
    """

    def __init__(self, steps: Sequence[str]) -> None:
        self.steps = steps
        self.values: list[Value] = []
        self.origin = -1
        self._numbers: dict[tuple[Any, ...], int] = {}

    def _add(self, op: str, args: tuple[int, ...], ctype: str, payload: Any = None) -> int:
        key = (op, args, ctype, repr(payload))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(Value(op, args, ctype, payload, self.origin))
        return number

    def load(self, slot: str, ctype: str) -> int:
        """The element of an input."""
        return self._add("load", (), ctype, slot)

    def scalar(self, slot: str, ctype: str) -> int:
        """A scalar kernel argument."""
        return self._add("scalar", (), ctype, slot)

    def const(self, value: float, ctype: str) -> int:
        """A literal; raises DtypeError, which names the step, if it does not fit the type."""
        if ctype in INTEGERS and not _fits(value, ctype):
            who = self.steps[self.origin] if self.origin >= 0 else "kernel"
            raise DtypeError(
                message(who, f"the constant {value!r} in {ctype} arithmetic", f"a fitting {ctype}")
            )
        return self._add("const", (), ctype, value)

    def convert(self, number: int, ctype: str) -> int:
        """A value in another type; a mask becomes 1 or 0."""
        value = self.values[number]
        if value.ctype == ctype:
            return number
        if value.is_mask:
            own = "int" if value.ctype == "mask4" else "long"
            picked = self._add("?:", (number, self.const(1, own), self.const(0, own)), own)
            return self.convert(picked, ctype)
        if value.op == "const":
            return self.const(value.payload, ctype)
        return self._add("convert", (number,), ctype)

    def add(self, numbers: Iterable[int], ctype: str) -> int:
        """The sum of some values of one type (the gradients of a value with several users)."""
        first, *rest = numbers
        for number in rest:
            first = self._add("+", (first, number), ctype)
        return first

    def truth(self, number: int, ctype: str) -> int:
        """A value as a mask whose lanes fit `ctype`."""
        value = self.values[number]
        if not value.is_mask:
            zero = self.const(0, value.ctype)
            number = self._add("!=", (number, zero), mask_of(value.ctype))
        wanted = mask_of(ctype)
        if self.values[number].ctype == wanted:
            return number
        return self._add("remask", (number,), wanted)

    def build(self, tree: Expr, names: Mapping[str, int], ctype: str) -> int:
        """Enter an expression whose arithmetic is done in `ctype`; names stand for values."""
        return self._build(tree, names, ctype, {})

    def _build(self, tree: Expr, names: Mapping[str, int], ctype: str, done: dict[int, int]) -> int:
        """`done` numbers the subtrees by identity: macros share theirs, many times over."""
        if isinstance(tree, Number):
            return self.const(tree.value, ctype)
        if isinstance(tree, Name):
            return names[tree.id]
        number = done.get(id(tree))
        if number is None:
            args = [self._build(arg, names, ctype, done) for arg in tree.args]
            number = done[id(tree)] = self._apply(tree.op, args, ctype)
        return number

    def _apply(self, op: str, operands: Sequence[int], ctype: str) -> int:
        if op in LOGICAL:
            masks = tuple(self.truth(number, ctype) for number in operands)
            return self._add(op, masks, mask_of(ctype))
        if op == "?:":
            branches = (self.convert(number, ctype) for number in operands[1:])
            return self._add(op, (self.truth(operands[0], ctype), *branches), ctype)
        args = tuple(self.convert(number, ctype) for number in operands)
        if ctype in INTEGERS and op not in {"+", "-", "*", "neg", *BITWISE, *COMPARISONS}:
            return self._integer(op, args, ctype)
        if op in BITWISE and ctype not in INTEGERS:
            who = self.steps[self.origin] if self.origin >= 0 else "kernel"
            raise DtypeError(message(who, f"{op!r} of floats", "bools or integers"))
        if op in COMPARISONS or op in PREDICATES:
            return self._add(op, args, mask_of(ctype))
        return self._add(op, args, ctype)

    def _integer(self, op: str, args: tuple[int, ...], ctype: str) -> int:
        """A function on integers: exact where it has an integer meaning, else through double."""
        mask, first, zero = mask_of(ctype), args[0], self.const(0, ctype)
        if op in {"floor", "ceil", "rint", "round", "trunc"}:
            return first
        if op in PREDICATES:
            return self._add("==" if op == "isfinite" else "!=", (zero, zero), mask)
        if op == "fabs":
            negative = self._add("<", (first, zero), mask)
            return self._add("?:", (negative, self._add("neg", args, ctype), first), ctype)
        if op in {"fmax", "fmin"}:
            wins = self._add(">" if op == "fmax" else "<", args, mask)
            return self._add("?:", (wins, *args), ctype)
        if op == "sign":
            above = self.convert(self._add(">", (first, zero), mask), ctype)
            below = self.convert(self._add("<", (first, zero), mask), ctype)
            return self._add("-", (above, below), ctype)
        if op in _EXACT:
            return self._add(_EXACT[op], args, ctype)
        wide = tuple(self.convert(arg, "double") for arg in args)
        return self.convert(self._add(op, wide, "double"), ctype)

    def wrap(self, number: int, bits: int, signed: bool) -> int:
        """An integer reduced to its lowest bits, as storing it in a narrow dtype does."""
        ctype = self.values[number].ctype
        low = self._add("&", (number, self.const((1 << bits) - 1, ctype)), ctype)
        if not signed:
            return low
        top = self.const(1 << (bits - 1), ctype)
        return self._add("-", (self._add("^", (low, top), ctype), top), ctype)

    def live(self, roots: Iterable[int]) -> list[int]:
        """The numbers of the values that the roots need, in order of definition."""
        needed: set[int] = set()
        stack = list(roots)
        while stack:
            number = stack.pop()
            if number not in needed:
                needed.add(number)
                stack.extend(self.values[number].args)
        return sorted(needed)


def _fits(value: float, ctype: str) -> bool:
    bounds = np.iinfo(NUMPY_OF_COMPUTE[ctype])
    return math.isfinite(value) and value == int(value) and bounds.min <= value <= bounds.max
