"""The words of OpenCL C that a kernel of data may use, and the tokens of a source.

Whatever a compiler would replace before it reads a source is refused: macros, line splices,
trigraphs, digraphs, `_Pragma`. So the tokens here are those that the compiler sees.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, final


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


_SIZES: Final = {
    "char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4, "long": 8, "ulong": 8,
    "float": 4, "double": 8, "half": 2,
}  # fmt: skip
_WIDTHS: Final = (2, 3, 4, 8, 16)
#: Bytes of an element of each type that a buffer may hold.
BYTES: Final = _SIZES | {
    f"{name}{width}": size * (4 if width == 3 else width)
    for name, size in _SIZES.items() for width in _WIDTHS
}  # fmt: skip
TYPES: Final = frozenset({*BYTES, "bool", "void", "size_t", "ptrdiff_t", "unsigned", "signed"})
KERNEL: Final = "__" + "kernel"
QUALIFIERS: Final = words(
    "const volatile restrict global local constant private inline static kernel "
    f"__global __local __constant __private {KERNEL}"
)
STATEMENTS: Final = words("if else for while do switch case default break continue return sizeof")
ATTRIBUTES: Final = re.compile(
    r"\(\((reqd_work_group_size|work_group_size_hint|vec_type_hint|opencl_unroll_hint)"
    r"\([\w,]*\)\)\)|\(\((always_inline|noinline)\)\)"
)
_PRAGMA: Final = re.compile(
    r"#\s*pragma\s+(unroll(\s+\d+)?|OPENCL\s+EXTENSION\s+\w+\s*:\s*(enable|disable)"
    r"|OPENCL\s+FP_CONTRACT\s+(ON|OFF|DEFAULT))\s*"
)
CONSTANT: Final = re.compile(
    r"true|false|INFINITY|NAN|MAXFLOAT|HUGE_VALF?|M_[A-Z0-9_]+|CLK_(LOCAL|GLOBAL)_MEM_FENCE"
    r"|CHAR_BIT|U?(CHAR|SHRT|INT|LONG)_MAX|S?(CHAR|SHRT|INT|LONG)_MIN|SCHAR_MAX"
    r"|(FLT|DBL|HALF)_(DIG|MANT_DIG|MAX|MIN|EPSILON|RADIX|(MAX|MIN)(_10)?_EXP)"
)
SWIZZLE: Final = re.compile(r"[xyzw]{1,4}|[rgba]{1,4}|s[0-9a-fA-F]{1,16}|lo|hi|even|odd")
#: What is of vectors of three numbers, and which parts of a vector are three.
THREE: Final = re.compile(
    rf"((as|convert)_)?({'|'.join(_SIZES)})3(_\w+)?|v(load|store)(a?_half)?3(_\w+)?"
)
THREE_PARTS: Final = re.compile(r"[xyzw]{3}|[rgba]{3}|s[0-9a-fA-F]{3}")
#: Functions of OpenCL C whose last argument is where a second result goes.
POINTING: Final = words("fract frexp lgamma_r modf remquo sincos")
_MATH: Final = (
    "acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi atan2pi cbrt ceil copysign cos "
    "cosh cospi erfc erf exp exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod hypot ilogb "
    "ldexp lgamma log log2 log10 log1p logb mad maxmag minmag nan nextafter pow pown powr "
    "remainder rint rootn round rsqrt sin sinh sinpi sqrt tan tanh tanpi tgamma trunc"
)
_OTHERS: Final = (
    "abs abs_diff add_sat hadd rhadd clamp clz ctz mad_hi mad_sat max min mul_hi rotate sub_sat "
    "upsample popcount mad24 mul24 degrees mix radians step smoothstep sign cross dot distance "
    "length normalize fast_distance fast_length fast_normalize isequal isnotequal isgreater "
    "isgreaterequal isless islessequal islessgreater isfinite isinf isnan isnormal isordered "
    "isunordered signbit any all bitselect select shuffle shuffle2 barrier mem_fence "
    "read_mem_fence write_mem_fence sub_group_barrier work_group_barrier"
)
_FAMILIES: Final = (
    r"native_(cos|divide|exp|exp2|exp10|log|log2|log10|powr|recip|rsqrt|sin|sqrt|tan)",
    r"half_(cos|divide|exp|exp2|exp10|log|log2|log10|powr|recip|rsqrt|sin|sqrt|tan)",
    rf"as_({'|'.join(_SIZES)})(2|3|4|8|16)?",
    rf"convert_({'|'.join(_SIZES)})(2|3|4|8|16)?(_sat)?(_rt[ezpn])?",
    r"get_(work_dim|(global|local|group|enqueued_local)_(id|size|offset)|num_groups)",
    r"get_(global|local)_linear_id|get_(max_)?sub_group_size|get_sub_group_(local_)?id"
    r"|get_num_sub_groups",
    r"(sub|work)_group_((reduce|scan_inclusive|scan_exclusive)_(add|min|max)|broadcast|all|any)",
)
_FUNCTION: Final = re.compile("|".join([*f"{_MATH} {_OTHERS}".split(), *_FAMILIES]))
#: Functions that are long in machine code: thousands of them keep a compiler busy for minutes.
LONG: Final = words(_MATH)
#: What a work-item may ask of itself and its group.
ASKING: Final = re.compile(_FAMILIES[4])
#: What compilers and runtimes call by themselves; a kernel of this name would be called instead.
LIBRARY: Final = re.compile(
    rf"({_FUNCTION.pattern}|{'|'.join(POINTING)}|nearbyint|roundeven|l?l(round|rint)|sincos)[fl]?"
    r"|f(minimum|maximum)(_num)?[fl]?|w?mem(cpy|move|set|cmp|chr|pcpy|ccpy)|(str|wcs)n?len"
    r"|b(cmp|zero|copy)|abort|main|puts|putchar|(m|c|re)alloc|free|(p?ocl|llvm|sleef|svml)_\w*"
)
#: Functions that read or write where a pointer says.
ATOMIC: Final = re.compile(r"atom(ic)?_(add|sub|xchg|inc|dec|cmpxchg|min|max|and|or|xor)")
VECTOR: Final = re.compile(r"v(load|store)(a?_half)?(2|3|4|8|16)?(_rt[ezpn])?")


def is_function(name: str) -> bool:
    """Whether OpenCL C has a function of this name, so that a kernel cannot define it."""
    matches = (pattern.fullmatch(name) for pattern in (_FUNCTION, ATOMIC, VECTOR))
    return name in POINTING or any(matches)


@final
class Refused(Exception):  # noqa: N818 - what is told of it is another error
    """A word that must not stand in a kernel of data, where it is, and what may."""

    def __init__(self, at: int, word: str, expected: str) -> None:
        super().__init__(word)
        self.at, self.word, self.expected = at, word, expected


class Token(NamedTuple):
    """A word, a number, an operator or a pragma, and where it begins."""

    kind: str
    text: str
    at: int


_TOKEN: Final = re.compile(
    r"(?P<space>[ \t\n]+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?(?:[pP][+-]?[0-9]+)?"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFhHuUlL]*(?![A-Za-z_0-9.]))"
    r"|(?P<pragma>\#[^\n]*)"
    r"|(?P<odd><:|:>|<%|%>|%:|->|\.\.\.|[^A-Za-z_0-9(){}\[\];,.?:~!=<>&|+*/%^-])"
    r"|(?P<sign><<=|>>=|\+\+|--|<<|>>|&&|\|\||[-+*/%&|^<>=!]=|[(){}\[\];,.?:~!=<>&|+*/%^-])",
    re.DOTALL,
)
#: Tokens of a source, and characters of one: more keep the reader or a compiler busy for minutes.
_MOST: Final = 50_000
_LONGEST: Final = 200
#: What compilers replace wherever it stands, and what no source of ours holds.
_ANYWHERE: Final = re.compile(r"\\|\?\?|[^\t\n -~]")


def tokens(source: str) -> list[Token]:
    """The tokens of a source; raises Refused for what no kernel of data may hold."""
    hidden = _ANYWHERE.search(source)
    if hidden is not None:
        raise Refused(hidden.start(), hidden.group(), "ASCII without `\\` and `??`")
    tokens: list[Token] = []
    at = 0
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None or match.lastgroup == "odd":
            raise Refused(at, source[at : at + 2], "OpenCL C without texts and digraphs")
        kind, text = match.lastgroup or "", match.group()
        if kind == "pragma" and not _PRAGMA.fullmatch(text):
            raise Refused(at, text, "no directive but `#pragma unroll` or `OPENCL ...`")
        if kind != "space":
            if len(text) > _LONGEST or len(tokens) == _MOST:
                raise Refused(at, text, f"{_MOST} words and signs of at most {_LONGEST} characters")
            tokens.append(Token(kind, text, at))
        at = match.end()
    tokens.append(Token("end", "the end", at))
    return tokens
