"""Expressions of OpenCL C, read from a source; each index is written with its bounds checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from netcl_plugin_data_kernels.cursor import DEEPEST
from netcl_plugin_data_kernels.kernel_declarations import DeclarationReader, DeclaredName
from netcl_plugin_data_kernels.settled import Writes, is_clean
from netcl_plugin_data_kernels.vocabulary import (
    ATOMIC,
    CONSTANT,
    LONG,
    POINTING,
    QUALIFIERS,
    STATEMENTS,
    SWIZZLE,
    THREE,
    THREE_PARTS,
    TYPES,
    VECTOR,
    is_function,
    words,
)

_ASSIGNING: Final = words("= += -= *= /= %= &= |= ^= <<= >>=")
_ADDING: Final = words("+ - * / %")
_JOINING: Final = _ADDING | words("<< >> < > <= >= == != & ^ | && ||")
_UNARY: Final = words("+ - ! ~ ++ -- & *")
#: What may stand before a pointer in something that is made of it.
_BEFORE: Final = TYPES | QUALIFIERS | {"(", "&", "*"}
#: What atomic functions change.
_ATOMIC: Final = ("int", "uint", "long", "ulong", "float")
#: Characters of indices that are written twice, once to compare them.
_LONG: Final = 200
#: Values and signs of one statement: the stack of a compiler does not hold any number of them.
_VALUES: Final = 2000
#: Those of a source, where each call and each round of an unrolled loop is a copy.
_SIZE: Final = 20_000
#: As how many a function counts that is long in machine code.
_OF_LONG: Final = 10
#: How functions begin at which the work-items of a group wait for each other.
WAITING: Final = ("barrier", "work_group_", "sub_group_")
#: What a kernel on a CPU may do with pointers.
CHECKED: Final = "buffers and arrays as NAME[index], vload or vstore at NAME + index"


class ExpressionReader(DeclarationReader):
    """Reads expressions.

    Attributes:
        bounds: Whether indices are checked.
        functions: The parameters of each function of the source so far: the name, and the type of
            one that is a pointer, "" of others.
        used: Bytes of the variables of the function at hand, and of those that it calls; `costs`
            has those of the functions so far.
        waits: Whether work-items wait for each other.
        weight: Values and signs so far; `weights` has those of each function, `copies` how often
            the loops at hand are written out.
        writes: What the source writes so far.
        indices: The indices so far, where it is not known yet what is settled.

    Args:
        settled: The variables of which an index may be made and be written twice; None: all.
    """

    def __init__(self, source: str, bounds: bool, settled: Collection[str] | None = None) -> None:
        super().__init__(source)
        self.bounds = bounds
        self.writes = Writes()
        self.indices: list[Sequence[str]] = []
        self._settled = settled
        self._threes = bounds and any(map(self.is_three, range(len(self._tokens))))
        self.functions: dict[str, tuple[tuple[str, str], ...]] = {}
        self.used, self.costs = 0, dict[str, int]()
        self.waits = False
        self._changes = 0  # of variables
        self._looks = 0  # at memory, which may hold something else when it is looked at again
        self.values = 0  # of a statement
        self.weight, self.weights, self.copies = 0, dict[str, int](), 1

    # -- values ----

    def expression(self) -> None:
        self.assignment()
        while self.given(","):
            self.assignment()

    def assignment(self) -> None:
        self.deeper(self._assignment)

    def _assignment(self) -> None:
        depth = 0
        while self.peek(depth) == "(" and depth <= DEEPEST:
            depth += 1
        name, after = self.peek(depth), depth + 1
        start = self.named(name)
        while depth and self.peek(after) == ")":
            after += 1
        pointer = start is not None and start.pointer and self.peek(after) in _ASSIGNING
        self.ternary()
        if self.text in _ASSIGNING:
            self._changes += 1
            sign = self.take()
            if sign == "=" and pointer:
                self.pointing()
            self.written_to(name, self.assignment, sign.rstrip("="))

    def written_to(self, name: str, read: Callable[[], None], sign: str = "") -> None:
        """Read what a variable gets, and remember it."""
        place = self.place
        read()
        self.writes.write(name, [sign] * bool(sign) + self.texts(place))

    def store(self) -> bool:
        """A statement `NAME[index] = value`, left out where it is outside; False: it is none."""
        held = self.named(self.text)
        if not self.bounds or held is None or self.peek() != "[":
            return False
        name, mark = self.text, self.mark()
        inside, element, _ = self.element((f"netcl_count_{name}",) if held.pointer else held.sizes)
        if self.text == ".":
            element += self.take() + self.part()
        sign = self.text
        if not inside or sign not in _ASSIGNING:
            self.back(mark)
            return False
        self.take()
        changes = self._changes
        value = self.apart(self.assignment)
        if self.text != ";" or self._changes != changes:  # perhaps of what the index is made of
            self.back(mark)
            return False
        self.skip()
        self.say(f"({inside} ? (void)({element} {sign} {value}) : (void)0)")
        return True

    def ternary(self) -> None:
        self.joined(_JOINING)
        if self.given("?"):
            self.expression()
            self.want(":")
            self.ternary()

    def joined(self, signs: frozenset[str]) -> None:
        self.operand()
        while self.text in signs:
            self.take()
            self.operand()

    def operand(self) -> None:
        """Signs and casts before something, and what follows it."""
        changed = False
        outside = self.depth
        while True:
            self.values += 1
            if self.values > _VALUES:
                self.refuse(f"at most {_VALUES} values and signs in a statement")
            self.weigh(1)
            text = self.text
            if text == "(" and self.peek() in TYPES | QUALIFIERS:
                self.cast()
            elif text in _UNARY:
                if self.bounds and text == "&":
                    self.refuse(CHECKED)
                changed = text in ("++", "--")
                self._changes += changed
                self.take()
                held = self.named(self.text) if text == "&" else None
                if held is not None and held.pointer and self.peek() != "[":
                    self.refuse("the address of a value, not of a pointer")
            else:
                break
            self.descend()
        self.primary(changed)
        self.depth = outside
        while self.text in (".", "[", "++", "--"):
            text = self.take()
            if text == ".":
                self.part()
            if text == "[":
                self.refuse("an index after the name of a buffer or an array")
            self._changes += text in ("++", "--")

    def weigh(self, values: int) -> None:
        """Count values and signs: what grows without an end is compiled without one."""
        self.weight += values * self.copies
        if self.weight > _SIZE:
            self.refuse(f"at most {_SIZE} values and signs, unrolled and with what is called")

    def is_three(self, place: int) -> bool:
        """Whether a token is of vectors of three numbers."""
        text, before = self._tokens[place].text, self._tokens[place - 1].text
        return bool(THREE.fullmatch(text)) or (before == "." and bool(THREE_PARTS.fullmatch(text)))

    def part(self) -> str:
        """The parts of a vector; one of three has no fourth, which could be any number."""
        if not SWIZZLE.fullmatch(self.text):
            self.refuse("parts of a vector")
        if self._threes and self.text in ("hi", "odd"):
            self.refuse("x, y, z or lo beside vectors of three numbers")
        return self.take()

    def cast(self) -> None:
        self.want("(")
        self.specifiers()
        star = self.text == "*"
        if star and self.bounds:
            self.refuse(CHECKED)
        if star:
            self.take()
        self.want(")")
        if star:
            self.pointing()

    def pointing(self) -> None:
        """Raise unless what follows is made of a pointer, and of no number."""
        ahead = 0
        while self.peek(ahead) in _BEFORE or (
            self.peek(ahead) == ")" and self.peek(ahead - 1) == "*"
        ):
            ahead += 1
        held = self.named(self.peek(ahead))
        address = ahead and self.peek(ahead - 1) == "&"
        if held is None or not (held.pointer or held.sizes or address):
            self.refuse("a pointer, not a number")

    def primary(self, changed: bool) -> None:
        token = self.now
        if token.kind == "number":
            self.take()
        elif token.text == "(":
            self.take()
            self.expression()
            self.want(")")
        elif token.text == "sizeof":
            self.take()
            self.size_of()
        elif token.kind != "word" or token.text in STATEMENTS:
            self.refuse("a value")
        elif self.peek() == "(":
            self.call()
        elif CONSTANT.fullmatch(token.text):
            self.take()
        else:
            self.variable(changed)

    def size_of(self) -> None:
        self.want("(")
        if self.declares():
            self.specifiers()
        else:
            self.expression()
        self.want(")")

    def variable(self, changed: bool = False) -> None:
        """A name and its indices; `changed`: it is written to, or its address is taken."""
        token = self.now
        held = self.named(token.text)
        if held is None:
            self.refuse("a name that is declared")
        self._looks += held.shared
        sizes = (f"netcl_count_{token.text}",) if held.pointer else held.sizes
        if sizes and self.bounds:
            self.checked(held, sizes, changed)
            return
        self.take()
        while sizes and self.given("["):
            self.expression()
            self.want("]")
            sizes = sizes[1:]

    def checked(self, held: DeclaredName, sizes: tuple[str, ...], changed: bool) -> None:
        """An element: zero if it is outside; one that is changed, or costly to find, the first."""
        inside, element, first = self.element(sizes)
        self._looks += 1
        after = self.peek(2 if self.text == "." else 0)
        if not inside or changed or after in _ASSIGNING or after in ("++", "--"):
            self.say(first)
        else:
            self.say(f"({inside} ? {element} : ({held.type})(0))")

    def element(self, sizes: tuple[str, ...]) -> tuple[str, str, str]:
        """Of an element: whether it is inside, itself, and that or the first one, all as C."""
        token = self.now
        self.say("")
        self.take()
        steady = self._changes, self._looks
        if self.text != "[":
            self.refuse(CHECKED, token)
        indices, clean = [], True
        for _ in sizes:
            self.want("[")
            place = self.place
            indices.append(self.apart(self.expression))
            clean = clean and self.is_clean(place)
            self.want("]")
        self.skip()
        pairs = [*zip(indices, sizes, strict=True)]
        at = "netcl_in" if clean else "netcl_at"
        first = token.text + "".join(f"[{at}({index}, {size})]" for index, size in pairs)
        once = len(first) > _LONG or (self._changes, self._looks) != steady
        if once or not clean:  # what is written twice may be another index when it is used
            return "", first, first
        inside = " && ".join(f"(ulong)({index}) < {size}" for index, size in pairs)
        return inside, token.text + "".join(f"[{index}]" for index in indices), first

    def is_clean(self, place: int) -> bool:
        """Whether what was read from a place on is the same number wherever it stands."""
        if self._settled is None:
            self.indices.append(self.texts(place))
            return True
        return is_clean(self.texts(place), self._settled)

    # -- calls -----------------------------------------------------------------------------

    def call(self) -> None:
        token = self.now
        name = token.text
        if VECTOR.fullmatch(name) and self.bounds:
            return self.vector(name)
        self.take()
        self.take()
        if name in self.functions:
            self.own_call(name)
        elif (name in POINTING or ATOMIC.fullmatch(name)) and self.bounds:
            self.pointed(0 if ATOMIC.fullmatch(name) else -1)
        elif is_function(name):
            self.waits |= name.startswith(WAITING)
            self.weigh(_OF_LONG if name in LONG else 0)
            if self._threes and name.startswith("as_") and name[-1].isdigit():
                self.refuse("no change of width beside vectors of three numbers", token)
            self.arguments()
        else:
            self.refuse("a function of OpenCL C, or one with its body above", token)
        return self.want(")")

    def arguments(self) -> None:
        if self.text != ")":
            self.expression()

    def own_call(self, name: str) -> None:
        """A call of one of the source's functions: pointers bring the number of their elements."""
        counts = ""
        self.used += self.costs[name]
        self.weigh(self.weights[name])
        self._looks += any(pointer for _, pointer in self.functions[name])
        for number, (parameter, pointer) in enumerate(self.functions[name]):
            if number:
                self.want(",")
            if not pointer:
                self.written_to(parameter, self.assignment)
            elif self.bounds:
                counts += f", {self.bare({pointer})[1]}"
            else:
                self.pointing()
                self.assignment()
        if counts:
            self.say(counts)

    def bare(self, types: Collection[str] = ()) -> tuple[DeclaredName, str]:
        """A buffer or an array of some types by its name, and the number of its elements as C."""
        token = self.now
        held = self.named(token.text)
        if held is None or not (held.pointer or len(held.sizes) == 1):
            self.refuse(CHECKED)
        if types and held.type not in types:  # some compilers only warn
            self.refuse(f"a buffer or an array of {' or '.join(types)}")
        self.take()
        return held, f"netcl_count_{token.text}" if held.pointer else held.sizes[0]

    def pointed(self, which: int) -> None:
        """Arguments of which one, the first or the last, is the address of an element or value."""
        number = 0
        while self.text != ")":
            if number:
                self.want(",")
            if self.text == "&" and (which == -1 or number == which):
                self.take()
                self._changes += 1
                token = self.now
                self.writes.hand_out(token.text)
                held = self.named(token.text)
                if held is None or (which == 0 and held.type not in _ATOMIC):
                    self.refuse(f"an element of {' or '.join(_ATOMIC)}")
                self.variable(changed=True)
                if which == -1 and self.text != ")":
                    self.refuse("the address of a value as the last argument", token)
            else:
                self.assignment()
            number += 1

    def vector(self, name: str) -> None:
        """`vload` and `vstore`, done only where all of the vector is inside."""
        match = VECTOR.fullmatch(name)
        assert match is not None  # the caller has asked
        kind, half, wide = match.group(1, 2, 3)
        if half == "a_half":
            self.refuse("vload_half and vstore_half, which need no alignment")
        width = int(wide or 1)
        self.say("")
        self.take()
        self.take()
        value, changes = "", self._changes
        if kind == "store":
            value = self.apart(self.assignment) + ", "
            self.want(",")
        looks, place = self._looks, self.place
        offset = self.apart(self.assignment)
        clean = self.is_clean(place)
        self.want(",")
        pointer = self.text
        held, count = self.bare({"half"} if half else ())
        rest = ""
        if self.given("+"):
            place = self.place
            rest = f" + (ulong)({self.apart(lambda: self.joined(_ADDING))})"
            clean = clean and self.is_clean(place)
        if self.text != ")" or (self._changes, self._looks) != (changes, looks):
            self.refuse("NAME, or NAME + index, of variables that nothing here changes")
        self.take()
        self.skip()
        at = f"(ulong)({offset}) * {width}{rest}"
        type_ = ("float" if half else held.type) + (wide or "")
        other = "(void)0" if value else f"({type_})(0)"
        inside = f"netcl_has({at}, {width}, {count})"
        if not clean:
            inside, at = f"{width} <= {count}", f"netcl_at({at}, {count} - {width - 1})"
        self.say(f"({inside} ? {name}({value}0, {pointer} + ({at})) : {other})")
