"""Kernels of data call nothing but OpenCL C, and stay in their buffers on a CPU."""

from __future__ import annotations

import contextlib
import time

import numpy as np
import pytest
from netcl_plugin_data_kernels.screening import screen_of
from netcl_plugin_data_kernels.vocabulary import KERNEL

import netcl_core as nc
from netcl_core.errors import BuildError, TemplateError
from netcl_core.hardware import programs

BOTH = {bounds: screen_of("odd/odd.cl.j2", bounds) for bounds in (False, True)}
bounded = BOTH[True]

#: Statements of a kernel, and what stands above it; the word that the error names.
HOSTILE = {
    "a prototype": ("int system(const __private char *);", "", ")"),
    "a prototype inside": ("", "int system(const char *);", "("),
    "extern": ("extern int environ;", "", "extern"),
    "parentheses round it": ("int (system)(const char *);", "", "system"),
    "after a comma": ("", "int a, system(const char *);", "("),
    "typedef": ("typedef int f(const char *);", "", "typedef"),
    "typeof": ("__typeof__(abs) system;", "", "__typeof__"),
    "union": ("union u { ulong a; float b; };", "", "union"),
    "struct": ("", "struct { int x; } s;", "struct"),
    "asm": ("", 'asm("syscall");', '"s'),
    "__asm__": ("", "__asm__ volatile (0);", "__asm__"),
    "a builtin of the compiler": ("", "__builtin_trap();", "__builtin_trap"),
    "undeclared": ("", "system(0);", "system"),
    "printf": ("", "printf(0);", "printf"),
    "include": ("#include </etc/passwd>", "", "#include </etc/passwd>"),
    "define": ("#define f(x) int x(int);", "", "#define f(x) int x(int);"),
    "a pragma": ("#pragma clang attribute push", "", "#pragma clang attribute push"),
    "_Pragma": ("", "_Pragma(0)", "_Pragma"),
    "a trigraph": ("??=define system", "", "??"),
    "a line splice": ("// harmless \\\nint system(int);", "", "\\"),
    "a digraph": ("%:define f", "", "%:"),
    "an attribute": ("__attribute__((constructor)) void f(void) {}", "", "__attribute__"),
    "an alias": ('void f(void) __attribute__((alias("system")));', "", '"s'),
    "a pointer of a number": ("", "*(__global int *)0x7f00 = 1;", "0x7f00"),
    "a pointer that gets one": ("", "__global float *p = 4096;", "4096"),
    "the address of a pointer": ("", "__global float *p = x; *(ulong *)&p = 1;", "p"),
    "a function as a value": ("float f(float y) { return y; }", "x[0] = (f)(1);", "f"),
    "recursion": ("float f(float y) { return f(y); }", "", "f"),
    "a built-in's name": ("int select(int n) { return n; }", "", "select"),
    "a name of ours": ("", "int netcl_at = 1;", "netcl_at"),
    "an array by a constant's name": ("", "float M_X[4]; *(M_X + 1000000) = 1;", "M_X"),
    "a constant that no device has": ("", "int SINT_MIN = 1;", "SINT_MIN"),
    "no end": ("/*", "", "/"),
    "another alphabet": ("int \u0441os = 1;", "", "\u0441"),
}
#: More of it: what stands above the kernel, and in it.
MORE = {
    "a pointer to a function": ("", "void (*f)(void) = 0;"),
    "a cast to one": ("", "((void (*)(void))x)();"),
    "its address": ("", "&fabs;"),
    "a choice of functions": ("", "x[0] = (n ? fabs : sin)(1.0f);"),
    "a function behind a comma": ("", "x[0] = (0, fabs)(1.0f);"),
    "no parameters": ("int system();", ""),
    "a function in a function": ("", "int f(int a) { return a; }"),
    "a block": ("", "int a = ^(int b) { return b; }(1);"),
    "a statement as a value": ("", "int a = ({ 1; });"),
    "goto": ("", "goto out; out: ;"),
    "a computed goto": ("", "goto *x;"),
    "cleanup": ("", "__attribute__((cleanup(free))) int a;"),
    "_Generic": ("", "int a = _Generic(1, int: system);"),
    "_Alignas": ("", "_Alignas(64) int a;"),
    "an image": ("", "image2d_t i;"),
    "a sampler": ("__constant sampler_t s = 0;", ""),
    "a pipe": ("void f(pipe int p) {}", ""),
    "a copy that goes on": ("", "async_work_group_copy(x, x, n, 0);"),
    "a kernel that starts one": ("", "enqueue_kernel(0, 0, 0, 0);"),
    "another address space": ("", "to_global(x);"),
    "an array of a variable size": ("", "float t[n];"),
    "an array of a negative size": ("", "float t[-1];"),
    "an array without a name": ("", "x[0] = (float[2]){1, 2}[5];"),
    "a named place in an array": ("", "float t[2] = {[9] = 1};"),
    "a pointer to a pointer": ("", "__global float **p = 0;"),
    "a pointer in parentheses that gets a number": ("", "__global float *p = x; ((p)) = n;"),
    "a character": ("", "int a = 'a';"),
    "a file's name": ("", "__FILE__;"),
    "another file": ('#line 1 "/etc/passwd"', ""),
    "import": ("#import <stdlib.h>", ""),
    "a null byte": ("", "int a = 1;\0"),
    "a form feed": ("", "int\fsystem(int);"),
    "a carriage return": ("// \rint system(int);", ""),
    "a pragma of two lines": ("#pragma unroll \\\nint system(int);", ""),
    "an atomic type": ("", "atomic_int a;"),
    "eight elements that look like ten": ("", "float t[010];"),
    "what compilers call": ("void memset(float *d, int c, ulong n) { d[n] = c; }", ""),
    "what mathematics calls": ("float sinf(float a) { return 5; }", ""),
    "a kernel of such a name": (f"{KERNEL} void memcpy(__global char *d) {{ d[9] = 65; }}", ""),
    "a first value that is skipped": ("", "switch (n) { int j = 3; case 4: x[j] = 1; }"),
    "and in a loop": ("", "switch (n) for (int j = 3; j < 5; ++j) { case 4: x[j] = 1; break; }"),
    "a loop without an end": ("", "while (1) x[0] += 1;"),
    "one of another kind": ("", "do { x[0] += 1; } while (true);"),
    "one without a condition": ("", "for (int k = 0; ; ++k) { x[k] = 1; }"),
    "many parentheses": ("", f"x[0] = {'(' * 9999}1{')' * 9999};"),
    "many values": ("", f"x[0] = {'1 + ' * 9999}1;"),
    "many signs": ("", f"x[0] = {'- ' * 9999}1;"),
    "many statements": ("", "x[0] = n + n;" * 9999),
    "many long functions": ("", "x[0] = pow(lgamma(tgamma(x[0])), x[1]);" * 600),
    "a buffer by a constant's name": (
        f"{KERNEL} void f1(__global float *M_X) {{ *(M_X + 1000000) = 1; }}",
        "",
    ),
    "many rounds": ("", "\n#pragma unroll 100000\nwhile (x[0] < n) x[0] += 1;"),
    "many rounds of many": ("", "\n#pragma unroll\nwhile (x[0] < n)" * 5 + "x[0] += 1;"),
    "casts in each other": ("", f"x[0] = {'((float)(int)' * 40}1{')' * 40};"),
    "many dimensions": ("", f"float t{'[1]' * 1000};"),
    "many parameters": (f"void f(int a{', int b' * 999}) {{}}", ""),
    "a size of many digits": ("", f"float t[{'9' * 5000}];"),
    "rounds of many digits": ("", f"\n#pragma unroll {'9' * 5000}\nwhile (n) x[0] += 1;"),
    "functions that double": (
        "float f0(float a) { return a; } "
        + "".join(
            f"float f{i}(float a) {{ return f{i - 1}(f{i - 1}(a)); }} " for i in range(1, 25)
        ),
        "",
    ),
}
#: Ways out of a buffer that no check of an index would see.
OUTSIDE = {
    "arithmetic": "*(x + 1000000) = 1;",
    "a pointer kept": "__global float *p = x; p[9] = 1;",
    "a cast": "((__global int4 *)x)[1] = 0;",
    "a pointer as a number": "ulong a = (ulong)x;",
    "an address": "__private float a = 1; (&a)[5] = 1;",
    "a row": "float t[2][3]; t[1] + 1;",
    "aligned": "vloada_half4(0, x);",
    "an index that changes": "vload4(n++, x);",
    "an index out of memory": "vload4((int)x[0], x);",
    "a value that changes it": "int j = 0; vstore4((float4)(j = 99), j, x);",
    "another type in a call": "halved(x);",
    "another type in vstore": "vstore_half(1, 0, x);",
    "another type in an atomic": "uchar c[4]; atomic_inc(&c[0]);",
    "a large array": "float t[64 * 1024];",
    "a fourth of three": "x[as_int4((int3)(1)).w] = 1;",
    "a fourth of three in memory": "int t[4]; x[as_int4(vload3(0, t)).w + 9] = 1;",
    "another half of three": "float3 v = (float3)(1); x[(int)v.hi.y] = 1;",
    "every other of three": "int4 v = (int4)(1); x[v.xyz.odd.y] = 1;",
}


def kernel(body: str, above: str = "") -> str:
    return f"{above}\n{KERNEL} void f0(__global float *x, ulong n)\n{{\n{body}\n}}\n"


@pytest.mark.parametrize("bounds", BOTH)
@pytest.mark.parametrize(("above", "body", "word"), HOSTILE.values(), ids=HOSTILE)
def test_a_kernel_calls_nothing_else(bounds: bool, above: str, body: str, word: str) -> None:
    with pytest.raises(TemplateError) as raised:
        BOTH[bounds](kernel(body, above))
    assert raised.value.code == "NP320"  # type: ignore[attr-defined]
    words = [word, "*"] if bounds and "*" in body else [word]  # no pointer at all on a CPU
    start = f"the kernel of data 'odd/odd.cl.j2': line {4 if body else 1}: "
    assert str(raised.value).startswith(tuple(f"{start}{each!r};" for each in words))


@pytest.mark.parametrize("bounds", BOTH)
@pytest.mark.parametrize(("above", "body"), MORE.values(), ids=MORE)
def test_nothing_but_the_small_grammar_is_read(bounds: bool, above: str, body: str) -> None:
    with pytest.raises(TemplateError, match="the kernel of data"):
        BOTH[bounds](kernel(body, above))


#: Sources for which a reader takes minutes that looks at everything again at each word.
LONG = {
    "parentheses": f"x[0] = {'(' * 300_000};",
    "variables that depend on the next": "int i0 = 0; "
    + "".join(f"int i{k} = 0; " for k in range(1, 4000))
    + "".join(f"i{k} = i{k + 1}; " for k in range(3999))
    + "i3999 = 1 / n; x[i0] = 1;",
}


@pytest.mark.parametrize("body", LONG.values(), ids=LONG)
def test_a_long_source_is_read_or_refused_soon(body: str) -> None:
    start = time.process_time()
    with contextlib.suppress(TemplateError):
        bounded(kernel(body))
    assert time.process_time() - start < 5


@pytest.mark.parametrize("body", OUTSIDE.values(), ids=OUTSIDE)
def test_bounds_that_cannot_be_checked_are_refused(body: str) -> None:
    with pytest.raises(
        TemplateError, match=r"NAME|three|array of half|element of|'0'|bytes|alignment|expected '.'"
    ):
        bounded(kernel(body, "void halved(__global half *y) {}"))


#: More than a thread's stack holds: of a group that waits, all work-items have theirs at once.
STACKS = {
    "arrays of a group": ("", "float t[1000]; barrier(1); x[0] = t[1];"),
    "numbers of a group": ("", "float16 " + ", ".join(f"v{i}" for i in range(9)) + "; barrier(1);"),
    "functions that call each other": (
        "void f0(int n) { float t[250]; t[n] = 1; } "
        + "".join(f"void f{i}(int n) {{ {f'f{i - 1}(n); ' * 5} }} " for i in range(1, 6)),
        "f5(1);",
    ),
}


@pytest.mark.parametrize(("above", "body"), STACKS.values(), ids=STACKS)
def test_a_stack_is_not_overrun(above: str, body: str) -> None:
    source = f"{above} {KERNEL} void odd(__global float *x, ulong n) {{ {body} }}"
    with pytest.raises(TemplateError, match="variables of at most 2097152 bytes"):
        bounded(source)
    if not above:
        screen_of("odd/odd.cl.j2", True, 64)(source)


FINE = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
__constant float table[2][2] = {{1, 2}, {3, 4}};
static inline float picked(__global const float *from, const int at) { return from[at]; }
static inline float summed(const float *of) { return of[-1] + of[3]; }
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void odd(__global const float *x, __global float *out, __global int *count, const long away)
{
    const size_t i = get_global_id(0);
    float own[4] = {1, 2, 3, 4}, whole;
    #pragma unroll
    for (int k = 0; k < 4; ++k) own[k + away] += fract(x[i], &whole);
    const float4 v = vload4(0, x + i * 4 + away), none = vload4(i, x);
    do { atomic_inc(&count[away]); } while (0);
    vstore4(v + none, away, out + 4);
    out[i] = i == 0 ? picked(x, -5) : summed(own);
    out[i + away] = (float)table[1][i] * (float2)(1, 2).x;
    switch (i) { case 1: out[away] = 7; break; default: return; }
}
"""


def test_a_kernel_stays_in_its_buffers() -> None:
    """What lies outside is zero, and is stored nowhere but perhaps in the first element."""
    device = nc.default_device()
    if not device.has_kernels:
        pytest.skip("needs a device with kernels")
    cl = pytest.importorskip("pyopencl")
    arrays = [np.full(300, 99, kind) for kind in (np.float32, np.float32, np.int32)]
    queue, both = device.queue, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    held = [cl.Buffer(device.context, both, hostbuf=each) for each in arrays]
    kernel = cl.Kernel(programs.build(device, bounded(FINE), "odd"), "odd")
    kernel(queue, (2,), (1,), *held, np.int64(1 << 40), *map(np.uint64, (32, 32, 4)))
    for array, buffer in zip(arrays, held, strict=True):
        cl.enqueue_copy(queue, array, buffer)
    assert (arrays[1][:2] != 99).any() and (arrays[1][8:] == 99).all()
    assert arrays[2][0] == 99 + 2 and (arrays[2][1:] == 99).all()


#: Indices that are another one when they are looked at again.
MOVING = {
    "a function": "y[moved(at)] = 7;",
    "an atomic": "at[0] = 0; y[atomic_xchg(&at[0], 2000)] = 7;",
    "the value": "int j = 0; y[j] = (j = 2000);",
    "a pointer's value": "int j = 0; y[j] = (int)(100 * frexp(ldexp(1.0f, 100), &j));",
}
#: Indices whose value C leaves open: it could be one when it is compared, another when it is used.
OPEN = {
    "no first value": "int j; y[same(j) + 2000] = 7;",
    "no first value of a vector": "int4 v; v.x = 1; y[same(v.w) + 2000] = 7;",
    "no first value in an array": "int t[4]; y[same(t[2]) + 2000] = 7;",
    "nothing returned": "y[none(3) + 2000] = 7;",
    "no number": "y[whole(NAN) + 2000] = 7;",
    "a large number": "int j = whole(1e30f); vstore4((int4)(7), j + 500, y);",
    "a division by zero": "y[by(1, 0) + 2000] = 7; y[by(1, 0) % 7 + 2001] = 7;",
    "one more, much later": "int j = 0; do { y[j] = 7; j = whole(NAN) + 2000; } while (j < 9);",
    "a function's name, too": "y[same(whole(NAN)) + 2000] = 7; int whole = 0; y[whole] = 7;",
}
#: Indices that another work-item can change between two looks: each may be written once.
RACING = {
    "a buffer": "y[at[0]] = 7;",
    "local memory": "__local int j; j = 0; y[j] = 7;",
    "volatile": "volatile int j = 0; y[j] = 7;",
}
MOVED = """
int moved(__global int *at) { at[0] = 2000 - at[0]; return at[0]; }
int same(int a) { return a; }
int none(int a) { }
int whole(float a) { return (int)a; }
int by(int a, int b) { return a / b; }
"""


def moving(body: str) -> str:
    return f"{MOVED} {KERNEL} void odd(__global int *at, __global int *y) {{ {body} }}"


@pytest.mark.parametrize("body", (MOVING | OPEN).values(), ids=MOVING | OPEN)
def test_what_is_checked_is_what_is_used(body: str) -> None:
    device = nc.default_device()
    if not device.has_kernels:
        pytest.skip("needs a device with kernels")
    cl = pytest.importorskip("pyopencl")
    both = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    arrays = [np.full(1, 2000, np.int32), np.full(4096, 99, np.int32)]
    held = [cl.Buffer(device.context, both, hostbuf=each) for each in arrays]
    kernel = cl.Kernel(programs.build(device, bounded(moving(body)), "odd"), "odd")
    kernel(device.queue, (1,), (1,), *held, *map(np.uint64, (4, 64)))
    cl.enqueue_copy(device.queue, arrays[1], held[1])
    assert (arrays[1][16:] == 99).all()


#: Launches that the kernel `f0(x, n)` does not declare, and what is said of each.
LAUNCHES = {
    "a number for a buffer": (("ulong", "in"), "parameter 1 of type ulong"),
    "a shorter number": (("out", "uint"), "parameter 2 of type uint"),
    "too few": (("out",), "1 parameters, as it is launched"),
    "too many": (("out", "ulong", "ulong"), "3 parameters, as it is launched"),
    "an input that it may change": (("in", "ulong"), "a pointer to const as parameter 1"),
}


@pytest.mark.parametrize("bounds", BOTH)
@pytest.mark.parametrize(("args", "expected"), LAUNCHES.values(), ids=LAUNCHES)
def test_a_kernel_gets_what_it_declares(bounds: bool, args: tuple[str, ...], expected: str) -> None:
    """PoCL takes the bytes of a number for a buffer where the kernel has a pointer."""
    source = kernel("x[0] = n;")
    screen_of("odd/odd.cl.j2", bounds, entry="f0", args=("out", "ulong"))(source)
    constant = source.replace("__global float", "__global const float").replace("x[0] = n;", "")
    screen_of("odd/odd.cl.j2", bounds, entry="f0", args=("in", "ulong"))(constant)
    with pytest.raises(TemplateError, match=expected):
        screen_of("odd/odd.cl.j2", bounds, entry="f0", args=args)(source)
    with pytest.raises(TemplateError, match="the kernel 'f1', which is launched"):
        screen_of("odd/odd.cl.j2", bounds, entry="f1", args=("out", "ulong"))(source)


#: Ways to write to a buffer that is const; a compiler refuses each.
CHANGES = {
    "an element": "x[0] = 1;",
    "a vector": "vstore4((float4)(1), 0, x);",
    "a second result": "float f = fract(1.5f, &x[0]);",
    "a function of its own": "set(x);",
}


@pytest.mark.parametrize("body", CHANGES.values(), ids=CHANGES)
def test_an_input_is_not_changed(body: str) -> None:
    above = "void set(__global float *to) { to[0] = 1; }"
    source = kernel(body, above).replace("f0(__global float", "f0(__global const float")
    for device in nc.devices():
        if device.has_kernels and device.kind == "cpu":
            with pytest.raises(BuildError, match=r"const|discards qualifiers|not assignable"):
                programs.build(device, bounded(source), "f0")


#: Functions that store more than an element of their buffer, of which PoCL only warns.
WIDER = {
    "vstore of doubles": "vstore4((double4)(7), 3, x);",
    "a second result": "float4 v = fract((float4)(1.5f), &x[15]);",
}


@pytest.mark.parametrize("body", WIDER.values(), ids=WIDER)
def test_no_function_stores_more_than_a_pointer_says(body: str) -> None:
    for device in nc.devices():
        if device.has_kernels and device.kind == "cpu":
            with pytest.raises(BuildError, match="incompatible pointer types"):
                programs.build(device, bounded(kernel(body)), "f0")


@pytest.mark.parametrize("body", RACING.values(), ids=RACING)
def test_an_index_that_others_can_change_is_looked_at_once(body: str) -> None:
    assert "y[netcl_at(" in bounded(moving(body))


def test_an_index_of_whole_numbers_costs_a_comparison() -> None:
    """What no compiler can take for another number is not written to memory first."""
    body = "int i = get_global_id(0), r = i / 4; for (int k = 0; k < r; k += 2) y[r * 4 + k] = 7;"
    assert "y[r * 4 + k] = 7" in bounded(moving(body))


@pytest.mark.parametrize("bounds", BOTH)
def test_what_kernels_are_made_of_is_read(bounds: bool) -> None:
    assert "table" in BOTH[bounds](FINE)
