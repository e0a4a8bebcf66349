"""Random programs of ops, written out as Python source for netcl and for PyTorch.

`generate(choose)` makes one; all its decisions are calls `choose(n)` with 0 <= result < n,
so that Hypothesis can drive it, and shrink it, as well as a seeded generator can.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from netcl_plugin_kit.testing.reference import torch_module

from netcl_core.tensors.host_data import Shape

Choose = Callable[[int], int]

FLOATS: Final = ("float32", "float64", "float16", "bfloat16")
WHOLE: Final = ("int32", "int64", "uint8", "bool")
_DIMS: Final = (1, 2, 3, 4, 17, 5)
_LARGEST: Final = 4000
_NUMBERS: Final = ("0.5", "2", "-1.5", "3", "1e-3", "-0.25", "1.0", "-2")


@dataclass(frozen=True)
class Input:
    """A tensor argument."""

    shape: Shape
    dtype: str
    needs: bool


@dataclass(frozen=True)
class Line:
    """One assignment: the value's number and dtype, and its expressions.

    In the expressions `{0}`, `{1}`, ... stand for the operands, names of values or numbers;
    `N(...)` in PyTorch's marks a value in between that is rounded too.
    """

    netcl: str
    torch: str
    operands: tuple[str, ...]
    name: str
    dtype: str

    def text(self, expression: str) -> str:
        return expression.format(*self.operands)


@dataclass(frozen=True)
class Program:
    """A function of tensors `x<i>` and numbers `k<i>`; lines `nested` are a function inside."""

    inputs: tuple[Input, ...]
    numbers: tuple[float, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    nested: tuple[int, int] = (0, 0)

    @property
    def arguments(self) -> list[str]:
        names = [f"x{i}" for i in range(len(self.inputs))]
        return names + [f"k{i}" for i in range(len(self.numbers))]

    def netcl(self) -> str:
        """The source of `f` for netcl, the nested part as a compiled function of its own."""
        start, stop = self.nested
        body = [f"    {line.name} = {line.text(line.netcl)}" for line in self.lines]
        inner: list[str] = []
        if start < stop:
            own = [line.name for line in self.lines[start:stop]]
            needed = self._needed(start, stop)
            given = ", ".join(needed)
            inner = ["@ag.jit_compile", f"def part({given}):", *body[start:stop]]
            inner += [f"    return {', '.join(own)},", ""]
            body[start:stop] = [f"    {', '.join(own)}, = part({given})"]
        head = f"def f({', '.join(self.arguments)}):"
        return "\n".join([*inner, head, *body, f"    return {', '.join(self.outputs)},", ""])

    def _needed(self, start: int, stop: int) -> list[str]:
        own = {line.name for line in self.lines[start:stop]}
        used = [name for line in self.lines[start:stop] for name in line.operands]
        names = [*self.arguments, *(line.name for line in self.lines)]
        return [name for name in names if name in used and name not in own]

    def torch(self) -> str:
        """The source for PyTorch; `note_<dtype>(value)` sees every value."""
        body = []
        for line in self.lines:
            inner = line.text(line.torch).replace("N(", f"note_{self.coarsest(line)}(")
            body.append(f"    {line.name} = note_{line.dtype}({inner})")
        head = f"def f({', '.join(self.arguments)}):"
        return "\n".join([head, *body, f"    return {', '.join(self.outputs)},", ""])

    def coarsest(self, line: Line | None = None) -> str:
        """The floating dtype with the largest rounding errors, of a line's operands or of all."""
        dtypes = {f"x{i}": spec.dtype for i, spec in enumerate(self.inputs)}
        dtypes |= {each.name: each.dtype for each in self.lines}
        names = dtypes if line is None else (*line.operands, line.name)
        kinds = {dtypes.get(name) for name in names}
        return next(
            (name for name in ("bfloat16", "float16", "float32") if name in kinds), "float64"
        )

    def __str__(self) -> str:
        given = "\n".join(f"# x{i}: {spec}" for i, spec in enumerate(self.inputs))
        return f"{given}\n# numbers: {self.numbers}\n{self.netcl()}"

    def smaller(self) -> list[Program]:
        """Programs that do a little less."""
        programs = []
        if self.nested != (0, 0):
            programs.append(replace(self, nested=(0, 0)))
        if len(self.outputs) > 1:
            programs += [replace(self, outputs=(name,)) for name in self.outputs]
        by_name = {line.name: line for line in self.lines}
        for name in self.outputs:
            if name in by_name:
                operands = [x for x in by_name[name].operands if x in by_name]
                rest = [x for x in self.outputs if x != name]
                programs += [replace(self, outputs=(*rest, x)) for x in dict.fromkeys(operands)]
        return [program.pruned() for program in programs]

    def pruned(self) -> Program:
        """Without the lines that no output needs."""
        needed = set(self.outputs)
        kept: list[Line] = []
        for line in reversed(self.lines):
            if line.name in needed:
                needed.update(line.operands)
                kept.append(line)
        nested = (0, 0) if len(kept) < len(self.lines) else self.nested
        return replace(self, lines=tuple(reversed(kept)), nested=nested)


@dataclass(frozen=True)
class _Op:
    """How an op is written in both, for operands of some kinds.

    `takes` is one letter per operand: f floating, i whole, n any but bool, a any, b bool,
    s same shape and floating, # a number.
    """

    netcl: str
    torch: str
    takes: str


def _same(names: str, takes: str) -> list[_Op]:
    holes = ", ".join(f"{{{i}}}" for i in range(len(takes)))
    return [_Op(f"ag.{n}({holes})", f"torch.{n}({holes})", takes) for n in names.split()]


def _both(*expressions: str, takes: str) -> list[_Op]:
    return [_Op(text, text, takes) for text in expressions]


def _pairs(takes: str, *pairs: tuple[str, str]) -> list[_Op]:
    return [_Op(netcl, torch, takes) for netcl, torch in pairs]


_F: Final = "torch.nn.functional."
_ELEMENTWISE: Final = [
    *_same("relu sigmoid tanh sin cos erf expm1 exp square abs neg sign floor ceil round", "f"),
    *_same("sigmoid tanh sin abs square neg sign", "i"),
    *_same("maximum minimum add sub mul", "ff"),
    *_same("maximum minimum add sub mul", "nn"),
    *_same("eq ne lt le gt ge", "nn"),
    *_same("logical_not", "b"),
    *_same("where", "bff"),
    *_both("{0} + {1}", "{1} - {0}", "{0} * {1}", "{0} / {1}", "{1} * {0}", takes="f#"),
    *_both("{0} + {1}", "{0} * {1}", "{1} - {0}", takes="i#"),
    *_both("{0} > {1}", "{0} <= {1}", takes="f#"),
    *_both("{0} * {1}", "{0} + {1}", "{0} - {1}", takes="ff"),
    *_both("{0} * {1}", "{1} * {0}", takes="fa"),
    *_pairs(
        "f",
        ("ag.gelu(ag.clamp({0}, -3, 9))", _F + "gelu({0}.clamp(-3, 9), approximate='tanh')"),
        ("ag.gelu(ag.clamp({0}, -3, 9), approximate='none')", _F + "gelu({0}.clamp(-3, 9))"),
        ("ag.silu({0})", _F + "silu({0})"),
        ("ag.softplus({0})", _F + "softplus({0})"),
        ("ag.elu({0})", _F + "elu({0})"),
        ("ag.mish({0})", _F + "mish({0})"),
        ("ag.hard_sigmoid({0})", "torch.clamp(N({0} / 6 + 0.5), 0, 1)"),
        ("ag.hard_swish({0})", "{0} * torch.clamp(N({0} / 6 + 0.5), 0, 1)"),
        ("ag.hardtanh({0})", _F + "hardtanh({0})"),
        ("ag.leaky_relu({0}, 0.1)", _F + "leaky_relu({0}, 0.1)"),
        ("ag.clamp({0}, -0.5, 0.75)", "torch.clamp({0}, -0.5, 0.75)"),
        ("ag.sqrt(ag.abs({0}) + 0.1)", "torch.sqrt(N(torch.abs({0}) + 0.1))"),
        ("ag.rsqrt(ag.square({0}) + 0.5)", "torch.rsqrt(N(N(torch.square({0})) + 0.5))"),
        ("ag.log(ag.abs({0}) + 0.5)", "torch.log(N(torch.abs({0}) + 0.5))"),
        ("ag.log1p(ag.square({0}))", "torch.log1p(N(torch.square({0})))"),
        ("ag.log2(ag.abs({0}) + 1)", "torch.log2(N(torch.abs({0}) + 1))"),
        ("ag.reciprocal(ag.abs({0}) + 0.5)", "torch.reciprocal(N(torch.abs({0}) + 0.5))"),
        ("{0} ** 2", "{0} ** 2"),
        ("(ag.abs({0}) + 0.25) ** 1.5", "N(torch.abs({0}) + 0.25) ** 1.5"),
        ("{0}.detach()", "{0}.detach()"),
        ("1 / (2 + ag.tanh({0}))", "1 / N(2 + N(torch.tanh({0})))"),
    ),
    *_pairs(
        "ff",
        ("ag.div({0}, ag.abs({1}) + 0.5)", "torch.div({0}, N(torch.abs({1}) + 0.5))"),
        ("ag.add_relu({0}, {1})", "torch.relu(N({0} + {1}))"),
        ("ag.where({0} > {1}, {0}, {1} * 2)", "torch.where({0} > {1}, {0}, N({1} * 2))"),
        ("ag.pow(ag.abs({0}) + 0.5, {1})", "torch.pow(N(torch.abs({0}) + 0.5), {1})"),
    ),
    *_pairs(
        "f#",
        ("ag.where({0} < 0.25, {0}, {1})", "torch.where({0} < 0.25, {0}, {1})"),
        ("ag.maximum({0}, {1})", "torch.maximum({0}, torch.as_tensor({1}, dtype={0}.dtype))"),
        ("ag.leaky_relu({0}, {1})", "torch.where({0} > 0, {0}, {0} * {1})"),
    ),
]  # fmt: skip
_CASTS: Final = [
    _Op(f"{{0}}.astype('{name}')", f"{{0}}.to(dtypes['{name}'])", takes)
    for takes, names in (("f", FLOATS), ("a", FLOATS), ("n", ("int32", "int64")))
    for name in names
]


class _Generator:
    def __init__(self, choose: Choose, dtypes: Sequence[str]) -> None:
        self.torch: Any = torch_module()
        self.choose = choose
        self.dtypes = dtypes
        self.lines: list[Line] = []
        self.values: dict[str, Any] = {}
        self.numbers = 0

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.choose(len(options))]

    # -- values --------------------------------------------------------------------------

    def input(self, i: int) -> Input:
        rank = self.pick((2, 1, 3, 0, 2, 4, 6))
        dims = _DIMS if rank < 4 else (1, 2, 3)
        shape: Shape = tuple(self.pick(dims) for _ in range(rank))
        if i and self.choose(3) < 2:  # related to the first one, so that they broadcast
            first = tuple(self.values["x0"].shape)
            cut = self.choose(len(first) + 1)
            shape = tuple(1 if self.choose(4) == 3 else size for size in first[cut:])
        dtype = self.dtypes[0]
        if self.choose(4) == 3:
            dtype = self.pick((*self.dtypes, *WHOLE))
        needs = dtype in FLOATS and self.choose(5) < 4
        self.values[f"x{i}"] = self.meta(shape, dtype)
        return Input(shape, dtype, needs)

    def meta(self, shape: Shape, dtype: str) -> Any:
        return self.torch.empty(shape, dtype=getattr(self.torch, dtype), device="meta")

    def kind(self, name: str) -> str:
        dtype = self.values[name].dtype
        return "f" if dtype.is_floating_point else "b" if dtype == self.torch.bool else "i"

    def some(self, letter: str, like: Any = None) -> str | None:
        """A value for an operand, late ones preferred; None if there is none."""
        if letter == "#":
            if self.choose(2):
                return str(self.pick(_NUMBERS))
            self.numbers += 1
            return f"k{self.numbers - 1}"
        fitting = {"f": "f", "i": "i", "b": "b", "n": "fi", "a": "fib"}[letter]
        names = [
            name
            for name in reversed(self.values)
            if self.kind(name) in fitting and (like is None or self.fits(self.values[name], like))
        ]
        if not names:
            return None
        return str(names[min(self.choose(len(names)), self.choose(len(names)))])

    def fits(self, value: Any, like: Any) -> bool:
        try:
            shape = self.torch.broadcast_shapes(value.shape, like.shape)
        except RuntimeError:
            return False
        return math.prod(shape) <= _LARGEST

    # -- lines ---------------------------------------------------------------------------

    def line(self) -> None:
        """One more line, if what was chosen has operands."""
        way = self.choose(10)
        if way < 7:
            self.elementwise(_ELEMENTWISE)
        elif way == 7:
            self.elementwise(_CASTS)
        elif way == 8:
            self.reduction()
        else:
            self.structure()

    def elementwise(self, table: Sequence[_Op]) -> None:
        op = self.pick(table)
        operands: list[str] = []
        like = None
        for letter in op.takes:
            operand = self.some(letter, like)
            if operand is None:
                return
            operands.append(operand)
            if operand in self.values:
                value = self.values[operand]
                like = value if like is None else self.wider(value, like)
        self.add(op.netcl, op.torch, operands)

    def wider(self, first: Any, second: Any) -> Any:
        return self.meta(tuple(self.torch.broadcast_shapes(first.shape, second.shape)), "float32")

    def reduction(self) -> None:
        name = self.some("f")
        if name is None:
            return
        rank, size = self.values[name].ndim, self.values[name].numel()
        if not rank or not size:
            self.add("ag.sum({0})", "torch.sum({0})", [name])
            return
        op = self.pick(("sum", "mean", "amax", "amin", "softmax", "logsumexp", "log_softmax",
                        "cumsum", "layer_norm", "all"))  # fmt: skip
        if op == "all":
            self.add("ag.mean({0})", "torch.mean({0})", [name])
        elif op == "layer_norm":
            last = self.values[name].shape[-1]
            if last < 3:
                return  # its gradient is a difference of equal numbers
            self.add(f"ag.layer_norm({{0}}, {last})", f"{_F}layer_norm({{0}}, ({last},))", [name])
        elif op in ("softmax", "log_softmax", "cumsum"):
            axis = self.choose(rank)
            self.add(f"ag.{op}({{0}}, {axis})", f"torch.{op}({{0}}, {axis})", [name])
        else:
            axes = tuple(axis for axis in range(rank) if self.choose(2)) or (rank - 1,)
            keep = bool(self.choose(2))
            theirs = op
            self.add(
                f"ag.{op}({{0}}, {axes}, keepdims={keep})",
                f"torch.{theirs}({{0}}, {axes}, keepdim={keep})",
                [name],
            )

    def structure(self) -> None:
        name = self.some("f")
        if name is None:
            return
        shape = tuple(self.values[name].shape)
        op = self.pick(("reshape", "permute", "matmul", "unsqueeze", "flip", "getitem", "cat",
                        "expand", "stack"))  # fmt: skip
        if op == "reshape":
            wanted = self.pick((shape[::-1], (math.prod(shape),), (*shape, 1)))
            self.add(f"ag.reshape({{0}}, {wanted})", f"torch.reshape({{0}}, {wanted})", [name])
        elif op == "permute":
            axes = tuple(reversed(range(len(shape))))
            self.add(f"ag.permute({{0}}, {axes})", f"torch.permute({{0}}, {axes})", [name])
        elif op == "unsqueeze":
            axis = self.choose(len(shape) + 1)
            self.add(f"ag.unsqueeze({{0}}, {axis})", f"torch.unsqueeze({{0}}, {axis})", [name])
        elif op == "expand" and math.prod(shape) <= 500:
            wanted = (3, *shape)
            self.add(f"ag.expand({{0}}, {wanted})", f"{{0}}.expand({wanted})", [name])
        elif op in ("cat", "stack") and len(shape) and math.prod(shape) <= 1000:
            same = [x for x in self.values if tuple(self.values[x].shape) == shape]
            same = [x for x in same if self.values[x].dtype == self.values[name].dtype]
            axis = self.choose(len(shape))
            text = f"{op}(({{0}}, {{1}}), {axis})"
            self.add(f"ag.{text}", f"torch.{text}", [name, self.pick(same)])
        elif op in ("flip", "getitem") and shape:
            if op == "flip":
                self.add("ag.flip({0}, 0)", "torch.flip({0}, (0,))", [name])
            else:
                index = self.pick((":1", "0", "..., :1", "None"))
                self.add(f"{{0}}[{index}]", f"{{0}}[{index}]", [name])
        elif op == "matmul" and len(shape) == 2:
            others = [
                x
                for x in self.values
                if self.values[x].ndim == 2
                and self.values[x].shape[0] == shape[1]
                and self.values[x].dtype == self.values[name].dtype
            ]
            if others:
                self.add("{0} @ {1}", "{0} @ {1}", [name, self.pick(others)])
            else:
                self.add("{0} @ ag.transpose({0}, 0, 1)", "{0} @ {0}.T", [name])

    def add(self, netcl: str, torch: str, operands: Sequence[str]) -> None:
        name = f"v{len(self.lines)}"
        names = {
            "torch": self.torch,
            "N": lambda value: value,
            "dtypes": real_dtypes(self.torch),
            **self.values,
        }
        names |= {f"k{i}": 0.5 for i in range(self.numbers)}
        value = eval(torch.format(*operands), names)
        if value.ndim > 7 or value.numel() > _LARGEST:
            return
        self.values[name] = value
        dtype = str(value.dtype).removeprefix("torch.")
        self.lines.append(Line(netcl, torch, tuple(operands), name, dtype))


def real_dtypes(torch: Any) -> dict[str, Any]:
    """PyTorch's dtypes by name."""
    return {name: getattr(torch, name) for name in (*FLOATS, *WHOLE)}


def generate(choose: Choose, *, length: int = 12, dtypes: Sequence[str] = FLOATS) -> Program:
    """A random program of up to `length` lines; most inputs have the first of the dtypes."""
    generator = _Generator(choose, (dtypes[choose(len(dtypes))], *dtypes))
    inputs = tuple(generator.input(i) for i in range(1 + choose(4)))
    for _ in range(1 + choose(length)):
        generator.line()
    names = [line.name for line in generator.lines] or ["x0"]
    outputs = [names[-1]]
    outputs += [str(generator.pick(names)) for _ in range(choose(3))]
    floating = [x for x in (*generator.values,) if generator.kind(x) == "f"]
    if floating and generator.kind(outputs[0]) != "f":
        outputs.append(floating[-1])
    numbers = tuple((choose(40) - 20) / 8 for _ in range(generator.numbers))
    nested = (0, 0)
    if len(generator.lines) > 2 and choose(4) == 3:
        start = choose(len(generator.lines) - 1)
        nested = (start, start + 1 + choose(len(generator.lines) - start))
    return Program(inputs, numbers, tuple(generator.lines), tuple(outputs), nested)
