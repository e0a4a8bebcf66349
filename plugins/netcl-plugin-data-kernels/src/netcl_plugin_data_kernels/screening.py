"""Reads the kernels of a plugin that is data, and refuses what could leave them.

A stranger's kernel runs in the user's process on a CPU runtime, which links whatever it declares.
So the grammar here is a small part of C: functions with bodies, plain declarations, expressions.
No declaration has parentheses, so that none is of a function; no type is defined; a name is called
only if OpenCL C or the source defines it. What the grammar does not have is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache, partial
from typing import Final, final

from netcl_core.errors import TemplateError, coded, message
from netcl_plugin_data_kernels.kernel_declarations import DeclaredName, unfit
from netcl_plugin_data_kernels.kernel_expressions import CHECKED, ExpressionReader
from netcl_plugin_data_kernels.settled import is_clean
from netcl_plugin_data_kernels.vocabulary import (
    BYTES,
    CONSTANT,
    KERNEL,
    LIBRARY,
    QUALIFIERS,
    STATEMENTS,
    TYPES,
    Refused,
    Token,
    is_function,
)

#: How a value is declared that may change between two looks at it.
_LOCAL: Final = frozenset({"local", "__local"})
_SHARED: Final = _LOCAL | {"volatile"}
#: Bytes of the arrays of one source.
_PRIVATE: Final = 4096
#: Bytes of all variables on a thread's stack: where work-items wait for each other, those of a
#: whole group are there at once.
_STACK: Final = 2 << 20
#: The most work-items of a group where the plugin leaves that to the driver.
_ITEMS: Final = 4096
#: More of these crash a compiler, or keep it busy for a minute.
_DIMENSIONS: Final = 8
_PARAMETERS: Final = 250
#: How often a loop is written out where the source leaves that to the compiler.
_ROUNDS: Final = "8"
#: What stands before a source. PoCL only warns where a function stores more than a pointer's type.
_HELPERS: Final = (
    '#pragma clang diagnostic error "-Wincompatible-pointer-types"\n'
    "static inline ulong netcl_in(ulong i, ulong n) { return i < n ? i : 0; } "
    "static inline ulong netcl_at(ulong i, ulong n) "
    "{ volatile ulong settled = i; return netcl_in(settled, n); } "
    "static inline bool netcl_has(ulong i, ulong w, ulong n) { return w <= n && i <= n - w; } "
)


@final
class _Reader(ExpressionReader):
    """One source of a kernel; `bounds`: with each index checked."""

    def __init__(
        self, source: str, bounds: bool, items: int, settled: Collection[str] | None = None
    ) -> None:
        super().__init__(source, bounds, settled)
        self.private = 0
        self.kernels: dict[str, tuple[Token, Sequence[DeclaredName]]] = {}
        self._items = items
        self._outside = 0  # blocks around the innermost `switch`

    # -- declarations ----------------------------------------------------------------------

    def run(self) -> str:
        while self.now.kind != "end":
            if self.now.kind == "pragma":
                self.take()
                continue
            self.top()
        return (_HELPERS if self.bounds else "") + self.written

    def top(self) -> None:
        """A function with its body, or a constant."""
        words, type_ = self.specifiers()
        if self.text == "*":
            self.refuse("functions that return values, and constants")
        if self.peek() == "(":
            self.function("kernel" in words or KERNEL in words, type_)
        elif "constant" in words or "__constant" in words:
            self.declarators(words, type_)
            self.want(";")
        else:
            self.take()
            self.refuse("a function with its body, or `__constant`")

    def name(self) -> str:
        token = self.now
        text = self.take()
        taken = text in STATEMENTS or text in TYPES or text in QUALIFIERS
        # A constant's name is read as a number, also where the device has no such constant.
        taken = taken or CONSTANT.fullmatch(text) is not None
        if token.kind != "word" or taken or text[0] == "_" or text[:6] == "netcl_":
            self.refuse("a name of its own", token)
        return text

    def function(self, kernel: bool, type_: str) -> None:
        token = self.now
        name = self.name()
        if is_function(name) or name in self.functions or LIBRARY.fullmatch(name):
            self.refuse("a name that no other function has", token)
        self.writes.hand_out(name)
        self.want("(")
        self.scopes.append({})
        parameters = self.parameters(kernel)
        if kernel:
            self.kernels[name] = token, [of for _, of in parameters]
        pointers = [parameter for parameter, of in parameters if of.pointer]
        if self.bounds:
            what = "bytes" if kernel else "count"
            self.say("".join(f", const ulong netcl_{what}_{pointer}" for pointer in pointers))
        self.want(")")
        if self.text != "{":
            self.refuse("the body of the function: none is declared without it")
        self.take()
        if self.bounds and kernel and pointers:
            for parameter, of in parameters:
                count = f"netcl_bytes_{parameter} / {BYTES.get(of.type)}"
                self.say(f" const ulong netcl_count_{parameter} = {count};" if of.pointer else "")
            self.say(f" if (!({' && '.join(f'netcl_count_{x}' for x in pointers)})) return;")
        self.used, before = 0, self.weight
        ends = self.bounds and type_ != "void"  # else the value would be any, or two
        self.block(f"return ({type_})(0); " if ends else "")
        self.scopes.pop()
        if self.bounds and self.used * (self._items if self.waits else 1) > _STACK:
            at = f" for each of {self._items} work-items" if self.waits else ""
            self.refuse(
                f"variables of at most {_STACK} bytes{at}, those of called functions too", token
            )
        self.costs[name], self.weights[name] = self.used, self.weight - before
        self.functions[name] = tuple((x, of.type if of.pointer else "") for x, of in parameters)

    def launched(self, entry: str, args: Sequence[str]) -> None:
        """Refuse a kernel whose parameters are not what it is launched with.

        A runtime takes the bytes of a number for a buffer's handle where a pointer is declared.
        """
        token, parameters = self.kernels.get(entry, (None, ()))
        if token is None:
            self.refuse(f"the kernel {entry!r}, which is launched")
        expected = unfit(parameters, args)
        if expected:
            self.refuse(f"{expected}, as it is launched", token)

    def parameters(self, kernel: bool) -> list[tuple[str, DeclaredName]]:
        parameters: list[tuple[str, DeclaredName]] = []
        if self.text == "void" and self.peek() == ")":
            self.take()
        while self.text != ")":
            if len(parameters) == _PARAMETERS:
                self.refuse(f"at most {_PARAMETERS} parameters")
            if parameters:
                self.want(",")
            words, type_ = self.specifiers()
            pointer = self.given("*")
            while self.text in QUALIFIERS:
                self.take()
            if pointer and type_ not in BYTES:
                self.refuse("a pointer to numbers of a type with its own size")
            if pointer and self.bounds and kernel and {"local", "__local"} & words:
                self.refuse("local memory that the kernel declares")
            parameters.append((self.name(), DeclaredName(type_, pointer, const="const" in words)))
            self.writes.declare(parameters[-1][0], type_, not pointer)
            self.scopes[-1][parameters[-1][0]] = parameters[-1][1]
        return parameters

    def declarators(self, words: set[str], type_: str) -> None:
        """Names with their sizes and first values; with `bounds` each has one."""
        shared = not _SHARED.isdisjoint(words)
        while True:
            pointer = self.text == "*"
            if pointer and self.bounds:
                self.refuse(CHECKED)
            if pointer:
                self.take()
            while self.text in QUALIFIERS:
                self.take()
            name = self.name()
            sizes: list[int] = []
            while self.given("["):
                if pointer:
                    self.refuse("no arrays of pointers")
                if len(sizes) == _DIMENSIONS:
                    self.refuse(f"at most {_DIMENSIONS} dimensions")
                sizes.append(self.size())
            bytes_ = BYTES.get(type_, 8) * math.prod(sizes)
            self.used += bytes_
            if self.bounds and sizes:
                self.hold(bytes_)
            self.scopes[-1][name] = DeclaredName(type_, pointer, tuple(map(str, sizes)), shared)
            self.writes.declare(name, type_, not (pointer or sizes or shared))
            if self.given("="):
                self.pointing() if pointer else None
                self.written_to(name, self.initial)
            elif self.bounds and _LOCAL.isdisjoint(words):
                self.say(f" = {'{' * len(sizes)}({type_})(0){'}' * len(sizes)}")
            if not self.given(","):
                return

    def hold(self, bytes_: int) -> None:
        """Count arrays: a stack that they do not fit would run into others' memory."""
        self.private += bytes_
        if self.private > _PRIVATE:
            self.refuse(f"arrays of at most {_PRIVATE} bytes on a CPU")

    def initial(self) -> None:
        self.values = 0
        if not self.given("{"):
            return self.assignment()
        while not self.given("}"):
            self.deeper(self.initial)
            if self.text != "}":
                self.want(",")
        return None

    # -- statements ------------------------------------------------------------------------

    def block(self, end: str = "") -> None:
        """The statements up to the `}` of an open block, where `end` is written."""
        self.scopes.append({})
        while self.text != "}":
            self.statement()
        self.say(end)
        self.take()
        self.scopes.pop()

    def statement(self) -> None:
        self.deeper(self._statement)

    def _statement(self) -> None:
        token = self.now
        text = token.text
        self.values = 0
        if token.kind == "pragma":
            self.pragma(text.split())
        elif text == "{":
            self.take()
            self.block()
        elif text == ";":
            self.take()
        elif text in STATEMENTS and text != "sizeof":
            self.take()
            getattr(self, f"_{text}")()
        elif self.declares():
            words, type_ = self.specifiers()
            self.declarators(words, type_)
            self.want(";")
        else:
            if not self.store():
                self.expression()
            self.want(";")

    def pragma(self, words: Sequence[str]) -> None:
        """A hint; before a loop that is unrolled, with the loop, of which there are copies then."""
        loop = "unroll" in words
        if words[-1] == "unroll":
            words = [*words, _ROUNDS]
            self.say(f"\n{' '.join(words)}\n")
            self.take()
            self.skip()
        else:
            self.take()
        if loop:
            before, self.copies = self.copies, self.copies * max(int(words[-1]), 1)
            self.statement()
            self.copies = before

    def condition(self) -> None:
        self.want("(")
        self.expression()
        self.want(")")

    def _if(self) -> None:
        self.condition()
        self.statement()
        if self.given("else"):
            self.statement()

    def _while(self) -> None:
        token, place = self.now, self.place
        self.condition()
        condition = self.texts(place)
        self.statement()
        self.ends(token, condition, place)

    def ends(self, token: Token, condition: Sequence[str], place: int) -> None:
        """Refuse a loop that nothing can end; whether another one does, nobody can tell."""
        parts = {*condition} - {"(", ")"}
        constant = all(not part[0].isalpha() or part == "true" for part in parts)
        if constant and parts != {"0"} and not {"break", "return"}.intersection(self.texts(place)):
            self.refuse("a loop that ends: a condition with a variable, `break` or `return`", token)

    def _switch(self) -> None:
        outside, self._outside = self._outside, len(self.scopes)
        self.condition()
        self.statement()
        self._outside = outside

    def _do(self) -> None:
        token, start = self.now, self.place
        self.statement()
        self.want("while")
        place = self.place
        self.condition()
        self.ends(token, self.texts(place), start)
        self.want(";")

    def _for(self) -> None:
        token = self.now
        self.want("(")
        self.scopes.append({})
        if self.declares():
            self.declarators(*self.specifiers())
        elif self.text != ";":
            self.expression()
        self.want(";")
        place = self.place
        if self.text != ";":
            self.expression()
        condition = self.texts(place)
        self.want(";")
        if self.text != ")":
            self.expression()
        self.want(")")
        self.statement()
        self.ends(token, condition, place)
        self.scopes.pop()

    def _case(self) -> None:
        self.ternary()
        self._default()

    def _default(self) -> None:
        if any(self.scopes[self._outside :]):
            self.refuse("no variable before it in its block, whose first value it would skip")
        self.want(":")

    def _break(self) -> None:
        self.want(";")

    _continue = _break

    def _return(self) -> None:
        if self.text != ";":
            self.expression()
        self.want(";")

    def _else(self) -> None:
        self.refuse("`if` before `else`")


@lru_cache(maxsize=1024)
def screen_of(
    template: str,
    bounds: bool,
    items: int = _ITEMS,
    entry: str = "",
    args: tuple[str, ...] = (),
) -> Callable[[str], str]:
    """`screened` for the kernels of a template, the same object each time."""
    who = f"the kernel of data {template!r}"
    return partial(screened, bounds=bounds, who=who, items=items, entry=entry, args=args)


def screened(
    source: str,
    bounds: bool = False,
    who: str = "a kernel of data",
    items: int = _ITEMS,
    entry: str = "",
    args: Sequence[str] = (),
) -> str:
    """The source of a kernel of data, if nothing in it leaves OpenCL C.

    With `bounds` indices of buffers and arrays are checked where they are used: what lies outside
    is read as zeros, and not stored. An element that an expression changes, or whose index comes
    out of memory or changes something, is the first then. Each kernel takes one more number for
    each buffer, after all other arguments: its bytes.

    The kernel `entry` is launched with `args`: `in`, `out` and `scratch` are buffers, of which it
    may not change the inputs; the others are types of numbers.

    Raises TemplateError NP320 with the line and the word of what is refused.
    """
    try:
        reader = _Reader(source, bounds, items)
        written = reader.run()
        if entry:
            reader.launched(entry, args)
        settled = reader.writes.settled() if bounds else frozenset()
        if bounds and not all(is_clean(index, settled) for index in reader.indices):
            written = _Reader(source, True, items, settled).run()
        return written
    except RecursionError:
        error = Refused(0, "parentheses or blocks", "fewer in each other")
    except Refused as refused:
        error = refused
    given = f"line {source.count(chr(10), 0, error.at) + 1}: {error.word.strip()[:40]!r}"
    remedy = "Uninstall the plugin. A kernel that needs more needs a plugin with code"
    raise coded("NP320", TemplateError(message(who, given, error.expected, remedy)))
