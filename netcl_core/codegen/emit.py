"""Printers of SSA blocks: OpenCL C in scalar and vector form, and NumPy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from netcl_core.codegen.expressions import BITWISE, COMPARISONS
from netcl_core.codegen.ssa import INTEGERS, Block, Value
from netcl_core.dtypes import NUMPY_OF_COMPUTE
from netcl_core.hardware.device import Device


@final
@dataclass(frozen=True, eq=False, slots=True)
class Dialect:
    """The helpers of `functions.cl.j2` that stand for functions of float, by function.

    `recip` is 1 / x.
    """

    name: str
    helpers: Mapping[str, str]


PLAIN: Final = Dialect("plain", {})
#: None of a runtime's native functions: how exact they are depends on the processor (Intel's
#: native_exp2 is 1e-6 off with AVX-512, and 7.5e-5 with AVX2).
_VECTORIZED: Final = Dialect("cpu", {"exp": "exp_polynomial", "tanh": "tanh_rational"})
#: PoCL's sin, cos and tan of a vector are those of its largest lane.
_LANES_APART: Final = {name: f"{name}_apart" for name in ("sin", "cos", "tan")}
#: What CPU platforms speak, by the beginning of their name.
ON_CPUS: Final[Mapping[str, Dialect]] = {
    "Intel": _VECTORIZED,
    "Portable Computing Language": Dialect("pocl", {**_VECTORIZED.helpers, **_LANES_APART}),
}
#: The same on GPUs.
ON_GPUS: Final[Mapping[str, Dialect]] = {
    "NVIDIA": Dialect(
        "nvidia", {"exp": "exp_native", "erfc": "erfc_native", "recip": "recip_native"}
    ),
}


def dialect_of(device: Device) -> Dialect:
    """The dialect of a device's runtime."""
    if not device.simulator:
        for start, dialect in (ON_GPUS if device.kind == "gpu" else ON_CPUS).items():
            if device.platform.startswith(start):
                return dialect
    return PLAIN


_LANE: Final = {"mask4": "int", "mask8": "long"}
_INFIX: Final = COMPARISONS | BITWISE | {"+", "-", "*", "/", "&&", "||"}
#: The helpers of `functions.cl.j2` for integers.
_OF_INTEGERS: Final = {"ipow": "power", "idiv": "quotient", "imod": "rest"}
#: Parentheses within parentheses; clang stops at 256.
_NESTED: Final = 32
_LOWEST: Final = {"int": ("INT_MIN", -(1 << 31)), "long": ("LONG_MIN", -(1 << 63))}
_FLOAT_MAX: Final = float(np.finfo(np.float32).max)


def literal(value: float, ctype: str) -> str:
    """A number as an OpenCL C literal of a type; infinite and NaN included."""
    if ctype in INTEGERS:
        name, lowest = _LOWEST[ctype]
        if value == lowest:  # its digits without the sign would not fit
            return name
        text = f"{int(value)}{'L' if ctype == 'long' else ''}"
    elif ctype == "float" and abs(value) > _FLOAT_MAX:
        text = "-INFINITY" if value < 0 else "INFINITY"
    elif math.isnan(value):
        text = "NAN" if ctype == "float" else "(double)NAN"
    elif math.isinf(value):
        text = ("-" if value < 0 else "") + ("INFINITY" if ctype == "float" else "(double)INFINITY")
    else:
        text = f"{float(value)!r}{'f' if ctype == 'float' else ''}"
    return f"({text})" if text.startswith("-") else text


@final
@dataclass(frozen=True, slots=True)
class SlotAccess:
    """How a slot is read: the expression for one element, that for a vector, or a uniform."""

    scalar: str
    vector: str | None


@final
class OpenCLPrinter:
    """Prints the live values of a block as OpenCL C statements.

    With `width` 1 everything is scalar. Otherwise values that depend on a vector
    load are vectors of that width and all others stay scalars, widened where the
    language asks for it (arguments of functions, branches of a selection). `scalars`
    gives scalar arguments other names than their slots'.
    """

    def __init__(
        self,
        block: Block,
        roots: Sequence[int],
        width: int,
        sources: Mapping[str, SlotAccess],
        dialect: Dialect,
        scalars: Mapping[str, str] | None = None,
    ) -> None:
        self.block = block
        self.width = width
        self.sources = sources
        self.scalars = scalars or {}
        self.dialect = dialect
        self.order = block.live(roots)
        self.roots = frozenset(roots)
        self.uses = Counter(arg for number in self.order for arg in block.values[number].args)
        self.user = {arg: number for number in self.order for arg in block.values[number].args}
        self.vector: dict[int, bool] = {}
        self.text: dict[int, str] = {}
        self.nested: Counter[int] = Counter()
        self.lines: list[str] = []
        for number in self.order:
            self._define(number)

    def result(self, number: int) -> str:
        """The text of a value, widened to a vector if this is the vector form."""
        return self._widen(number) if self.width > 1 else self.text[number]

    def _define(self, number: int) -> None:
        value = self.block.values[number]
        self.vector[number] = self._is_vector(value)
        text = self._expression(value)
        if value.op in {"const", "scalar"} or (value.op == "load" and not self._moving(value)):
            self.text[number] = text
        elif self._inlined(number, value):
            self.text[number] = f"({text})"
            self.nested[number] = 1 + max(self.nested[arg] for arg in value.args)
        else:
            self.text[number] = name = f"v{number}"
            note = f"  // {self.block.steps[value.origin]}" if value.origin >= 0 else ""
            self.lines.append(f"const {self._type(value.ctype, number)} {name} = {text};{note}")

    def _moving(self, value: Value) -> bool:
        return self.sources[value.payload].vector is not None

    def _is_vector(self, value: Value) -> bool:
        if self.width == 1 or value.op in {"const", "scalar"}:
            return False
        if value.op == "load":
            return self._moving(value)
        return any(self.vector[arg] for arg in value.args)

    def _inlined(self, number: int, value: Value) -> bool:
        if value.op == "load" or self.uses[number] != 1 or number in self.roots:
            return False
        if any(self.nested[arg] >= _NESTED for arg in value.args):
            return False
        return self.block.values[self.user[number]].origin == value.origin

    def _type(self, ctype: str, number: int) -> str:
        base = _LANE.get(ctype, ctype)
        if self.vector[number]:
            return f"{base}{self.width}"
        return "int" if ctype in _LANE else base

    def _widen(self, number: int) -> str:
        if self.vector[number]:
            return self.text[number]
        return f"({self.block.values[number].ctype}{self.width})({self.text[number]})"

    def _expression(self, value: Value) -> str:
        if value.op == "const":
            return literal(value.payload, value.ctype)
        if value.op == "scalar":
            return self.scalars.get(value.payload, str(value.payload))
        if value.op == "load":
            source = self.sources[value.payload]
            return source.vector if self.width > 1 and source.vector else source.scalar
        wide = any(self.vector[arg] for arg in value.args)
        texts = [self.text[arg] for arg in value.args]
        if value.op == "/" and self._is_one(value.args[0]) and self._helper("recip", value):
            return f"{self._function('recip', value, wide)}({texts[1]})"
        if value.op in _INFIX:
            return f"{texts[0]} {value.op} {texts[1]}"
        if value.op in {"neg", "!"}:
            return f"{'-' if value.op == 'neg' else '!'}{texts[0]}"
        if value.op == "convert":
            return f"convert_{value.ctype}{self.width if wide else ''}({texts[0]})"
        if value.op == "remask":
            return f"convert_{_LANE[value.ctype]}{self.width}({texts[0]})" if wide else texts[0]
        if value.op == "?:":
            branches = [self._widen(arg) if wide else self.text[arg] for arg in value.args[1:]]
            return f"{texts[0]} ? {branches[0]} : {branches[1]}"
        args = [self._widen(arg) if wide else self.text[arg] for arg in value.args]
        return f"{self._function(value.op, value, wide)}({', '.join(args)})"

    def _is_one(self, number: int) -> bool:
        value = self.block.values[number]
        return value.op == "const" and value.payload == 1

    def _helper(self, name: str, value: Value) -> str | None:
        if name in _OF_INTEGERS:
            return f"{_OF_INTEGERS[name]}_{value.ctype}"
        return self.dialect.helpers.get(name) if value.ctype == "float" else None

    def _function(self, name: str, value: Value, wide: bool) -> str:
        """How a function is called in the dialect."""
        helper = self._helper(name, value)
        return name if helper is None else f"{helper}_{self.width if wide else 1}"


def _each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of the standard library for each element, in the dtype of the array.

    The elements are read from memory one by one, so that no list of them is made.
    """

    def apply(x: Any) -> Any:
        given = np.asarray(x)
        elements = given.astype(np.float64, order="C").reshape(-1).data
        values = np.fromiter(map(function, elements), given.dtype, given.size)
        return values.reshape(given.shape)

    return apply


def _round(x: Any) -> Any:
    """Halves away from zero, as in C."""
    whole = np.trunc(x)
    return whole + np.copysign(np.abs(x - whole) >= 0.5, x)


def _integer_power(base: Any, exponent: Any) -> Any:
    """As `power_int` of functions.cl.j2; NumPy itself refuses negative exponents."""
    negative = np.asarray(exponent < 0)
    if not negative.any():
        return np.power(base, exponent)
    sign = np.power(base, np.where(negative, exponent & 1, exponent))
    return np.where(negative & (base != 1) & (base != -1), base.dtype.type(0), sign)


def _integer_quotient(x: Any, y: Any) -> Any:
    """Towards zero, as `quotient_int` of functions.cl.j2."""
    safe = np.where((y == 0) | (y == -1), y.dtype.type(1), y)
    quotient = (x - np.fmod(x, safe)) // safe
    return np.where(y == 0, x.dtype.type(0), np.where(y == -1, -x, quotient))


def _integer_rest(x: Any, y: Any) -> Any:
    """What division towards zero leaves; as `rest_int` of functions.cl.j2."""
    return np.fmod(x, np.where((y == 0) | (y == -1), y.dtype.type(1), y))


def _fma(x: Any, y: Any, z: Any) -> Any:
    """Rounded once in float32, of which float64 holds each product."""
    wide = np.float64 if x.dtype == np.float32 else x.dtype
    return (np.multiply(x, y, dtype=wide) + z).astype(x.dtype)


_SAME_NAME: Final = (
    "exp exp2 expm1 log log1p log2 log10 sqrt cbrt sin cos tan tanh sinh cosh "
    "fmax fmin fmod copysign floor ceil rint trunc isnan isinf isfinite"
)
#: What each function of an expression is on the NumPy path.
NUMPY_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: getattr(np, name) for name in _SAME_NAME.split()},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "pow": np.power,
    "fabs": np.abs,
    "rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "sign": lambda x: np.where(np.isnan(x), x.dtype.type(0), np.sign(x)),  # 0 for NaN, as in C
    "round": _round,
    "fma": _fma,
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
}
_NUMPY_LOGICAL: Final = {"&&": "logical_and", "||": "logical_or", "!": "logical_not"}


def numpy_source(block: Block, roots: Sequence[int], slots: Sequence[str], name: str) -> str:
    """The Python source of a function that computes the roots from arrays and scalars.

    The arguments are the slots in order; each is an array or a NumPy scalar of the
    type that the block expects. Names `np_<function>` are NUMPY_FUNCTIONS.
    """
    printer = _NumpyPrinter(block, roots)
    result = "".join(f"{printer.text[root]}, " for root in roots)
    body = [*printer.body(), f"return ({result})"]
    return "\n".join([f"def {name}({', '.join(slots)}):", *(f"    {line}" for line in body)]) + "\n"


@final
class _NumpyPrinter:
    """Prints the live values of a block as few statements.

    What is used once stands where it is used: NumPy then computes in place of a large array that
    nothing else refers to, and lets go of the others at once. What is used more often is deleted
    after its last use, so that a function of many values touches about as much memory as its ops
    one by one.
    """

    def __init__(self, block: Block, roots: Sequence[int]) -> None:
        self.block = block
        order = block.live(roots)
        self.uses = Counter(arg for number in order for arg in block.values[number].args)
        self.roots = frozenset(roots)
        self.text: dict[int, str] = {}
        self.nested: Counter[int] = Counter()
        self.names: dict[int, set[int]] = {}  # of the statements that a text refers to
        self.statements: dict[int, tuple[str, set[int]]] = {}
        for number in order:
            self._define(number)

    def _define(self, number: int) -> None:
        value = self.block.values[number]
        text = _numpy_expression(value, [self.text[arg] for arg in value.args])
        read = {name for arg in value.args for name in self.names[arg]}
        depth = 1 + max((self.nested[arg] for arg in value.args), default=0)
        if value.op in {"load", "scalar"}:
            self.text[number], self.names[number] = text, set()
        elif self.uses[number] == 1 and number not in self.roots and depth <= _NESTED:
            self.text[number], self.names[number] = f"({text})", read
            self.nested[number] = depth
        else:
            self.statements[number] = f"v{number} = {text}", read
            self.text[number], self.names[number] = f"v{number}", {number}

    def body(self) -> list[str]:
        """The statements, each followed by the deletion of what nothing reads any more."""
        seen = set(self.roots)
        lines: list[str] = []
        for line, read in reversed(self.statements.values()):
            dead = sorted(read - seen)
            if dead and lines:  # a function lets go of all when it returns
                lines.append(f"del {', '.join(f'v{name}' for name in dead)}")
            lines.append(line)
            seen |= read
        return lines[::-1]


def _numpy_expression(value: Value, args: Sequence[str]) -> str:
    if value.op == "const":
        return f"{NUMPY_OF_COMPUTE[value.ctype].name}({_python_number(value)})"
    if value.op in {"load", "scalar"}:
        return str(value.payload)
    if value.op == "neg":
        return f"-{args[0]}"
    if value.op in _NUMPY_LOGICAL:
        return f"{_NUMPY_LOGICAL[value.op]}({', '.join(args)})"
    if value.op in _INFIX:
        return f"{args[0]} {value.op} {args[1]}"
    if value.op == "convert":
        return f"{args[0]}.astype({NUMPY_OF_COMPUTE[value.ctype].name})"
    if value.op == "remask":
        return args[0]
    if value.op == "?:":
        return f"where({', '.join(args)})"
    return f"np_{value.op}({', '.join(args)})"


def _python_number(value: Value) -> str:
    if value.ctype in INTEGERS:
        return str(int(value.payload))
    return f"float('{float(value.payload)!r}')"


#: The names that a function made from `numpy_source` sees.
NUMPY_NAMES: Final[dict[str, Any]] = {
    **{f"np_{name}": function for name, function in NUMPY_FUNCTIONS.items()},
    **{dtype.name: dtype.type for dtype in NUMPY_OF_COMPUTE.values()},
    "np_ipow": _integer_power,
    "np_idiv": _integer_quotient,
    "np_imod": _integer_rest,
    "where": np.where,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "float": float,
}
