"""The cases of the matrix products: what each op is called with, and what it has to equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netcl_plugin_kit.testing import FLOATS, INTEGERS, Case, normal

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_plugin_linalg.attention_cases import ATTENTION

X = normal(0.5)
ALL = ("bool", *INTEGERS, *FLOATS)
#: Vectors, odd and prime sizes around the tiles, batches that broadcast, nothing to add up.
SHAPES: Sequence[Sequence[tuple[int, ...]]] = [
    [(5, 7), (7, 3)],
    [(1, 1), (1, 1)],
    [(33, 65), (65, 34)],
    [(9, 301), (301, 70)],
    [(7,), (7, 3)],
    [(5, 7), (7,)],
    [(7,), (7,)],
    [(2, 5, 7), (7, 33)],
    [(5, 7), (4, 7, 3)],
    [(2, 1, 5, 7), (1, 3, 7, 40)],
    [(2, 1, 1, 5, 7), (3, 1, 7, 2)],
    [(64,), (3, 64, 5)],
    [(3, 1, 64), (64,)],
    [(0, 5), (5, 3)],
    [(2, 0), (0, 3)],
    [(0, 4, 5), (5, 3)],
]


def transposed(first: bool, second: bool, shapes: Sequence[Any]) -> Case:
    """matmul of operands that are stored transposed."""

    def there(t: Any, a: Any, b: Any) -> Any:
        return (a.mT if first else a) @ (b.mT if second else b)  # fmt: skip

    return Case("matmul", (X, X), there, call=lambda a, b: ag.matmul(a, b, first, second),
                shapes=shapes, note=f"{first}-{second}", dtypes=("float16", "float32"),
                skip={"refusal": "the other dtypes are in another case"})  # fmt: skip


def of_equation(equation: str, *shapes: Any, dtypes: Any = FLOATS) -> Case:
    """An einsum, with the shapes of its operands."""
    skip = MORE if len(shapes) < 3 else {**MORE, "non-finite": ORDER}
    return Case("einsum", [X] * len(shapes), lambda t, *x: t.einsum(equation, *x),
                call=lambda *x: ag.einsum(equation, *x), shapes=[shapes], note=equation,
                dtypes=dtypes, skip=skip)  # fmt: skip


ORDER = "PyTorch multiplies three operands in another order where opt_einsum is installed"
MORE = {"refusal": "it takes whatever its parts take, and one case has whole numbers"}
EINSUM: Sequence[Case] = [
    of_equation("bij,bkj->bik", (3, 5, 7), (3, 2, 7), dtypes=(*INTEGERS, *FLOATS)),
    of_equation("...ij,jk", (2, 1, 5, 7), (7, 3)),
    of_equation("iij,j->ji", (4, 4, 3), (3,)),
    of_equation("ij,kj,li->lk", (4, 5), (3, 5), (2, 4)),
    of_equation("bi,bi->b", (3, 65), (3, 65)),
    of_equation("aij,bjk->", (2, 3, 4), (2, 4, 5)),
]  # fmt: skip
PRODUCTS: Sequence[Case] = [
    Case("mm", (X, X), "mm", shapes=[[(5, 7), (7, 3)], [(2, 0), (0, 3)]], dtypes=ALL),
    Case("mv", (X, X), "mv", shapes=[[(5, 7), (7,)], [(0, 2), (2,)]], dtypes=ALL),
    Case("outer", (X, X), "outer", shapes=[[(5,), (7,)], [(0,), (3,)]], dtypes=ALL),
    Case("dot", (X, X), "dot", shapes=[[(17,)] * 2, [(0,)] * 2], dtypes=FLOATS,
         skip={"refusal": "whole numbers have a case of their own"}),
    Case("dot", (X, X), note="whole", shapes=[[(17,)] * 2], dtypes=INTEGERS,
         torch="dot", differentiable=False,
         skip={"refusal": "the floating dtypes have a case of their own"}),
    Case("addmm", (X, X, X), "addmm", shapes=[[(5, 3), (5, 7), (7, 3)], [(3,), (2, 0), (0, 3)]],
         dtypes=(*INTEGERS, *FLOATS), skip=MORE),
    Case("addmm", (X, X, X), "addmm", {"beta": 0.5, "alpha": 2.0},
         shapes=[[(5, 1), (5, 7), (7, 3)]], skip=MORE),
    Case("cross", (X, X), lambda t, x, y: t.linalg.cross(x, y, dim=1), {"dim": 1}, dtypes=FLOATS,
         shapes=[[(4, 3, 2)] * 2, [(4, 3), (1, 3)], [(0, 3)] * 2], skip=MORE),
    Case("linear_relu", (X, X, X), lambda t, *x: t.relu(t.nn.functional.linear(*x)),
         shapes=[[(5, 7), (3, 7), (3,)], [(2, 3, 7), (40, 7), (40,)]], dtypes=ALL),
    Case("bias_add", (X, X), lambda t, x, b: x + b[:, None], {"dim": 1}, dtypes=ALL,
         shapes=[[(4, 3, 5), (3,)], [(0, 2, 3), (2,)]]),
]  # fmt: skip

FULL = {"refusal": "it takes what its parts take"}
SUMS: Sequence[Case] = [
    Case("inner", (X, X), "inner", shapes=[[(4, 5), (3, 5)], [(7,), (7,)]], skip=FULL),
    Case("vdot", (X, X), "vdot", shapes=[[(17,)] * 2], skip=FULL),
    Case("tensordot", (X, X), "tensordot", shapes=[[(2, 3, 4), (3, 4, 5)]], skip=FULL),
    *(Case(op, (X,), op, shapes=[[(3, 5)], [(2, 7)]], dtypes=("float32", "float64"),
           skip={"refusal": "whole numbers become floats",
                 "non-finite": "infinities less their mean"})
      for op in ("cov", "corrcoef")),
    Case("kron", (X, X), "kron", shapes=[[(2, 3), (3, 2)], [(3,), (2, 2)]], skip=FULL),
    Case("baddbmm", (X, X, X), "baddbmm", {"beta": 0.5, "alpha": 2.0}, skip=FULL,
         shapes=[[(2, 5, 3), (2, 5, 7), (2, 7, 3)]]),
    Case("addbmm", (X, X, X), "addbmm", shapes=[[(5, 3), (2, 5, 7), (2, 7, 3)]], skip=FULL),
    Case("addmv", (X, X, X), "addmv", shapes=[[(5,), (5, 7), (7,)]], skip=FULL),
    Case("addr", (X, X, X), "addr", shapes=[[(5, 7), (5,), (7,)]], skip=FULL),
]  # fmt: skip
WIDE = ("float32", "float64")
SQUARE: Sequence[Sequence[tuple[int, ...]]] = [[(3, 3)], [(2, 4, 4)], [(1, 1)]]
#: What is unique up to signs, rounded by a library that differs, or not there for NaN.
HOST = {
    "non-finite": "LAPACK refuses them, or not, as its version has it",
    "refusal": "float32 and float64 alone",
}


def at_host(op: str, torch: Any, call: Any, shapes: Any = SQUARE, **rest: Any) -> Case:
    """A case of an op that the host computes."""
    return Case(op, (X,), torch, call=call, shapes=shapes, dtypes=WIDE, skip=HOST, **rest)


def _near(x: Any) -> Any:
    return ag.add(x, ag.mul(nc.eye(x.shape[-1], dtype=x.dtype, device=x.device), 3))


def _symmetric(x: Any) -> Any:
    return ag.add(x, ag.transpose(x, -1, -2))


def _spd(x: Any) -> Any:
    """Symmetric and positive; without a product, which amp would round."""
    return ag.add(_symmetric(x), ag.mul(nc.eye(x.shape[-1], dtype=x.dtype, device=x.device), 9))


def _positive(t: Any, x: Any) -> Any:
    return x + x.mT + 9 * t.eye(x.shape[-1], dtype=x.dtype)


def _even(t: Any, x: Any) -> Any:
    return x + 3 * t.eye(x.shape[-1], dtype=x.dtype)


FACTORS: Sequence[Case] = [
    at_host("linalg_cholesky", lambda t, x: t.linalg.cholesky(_positive(t, x)),
            lambda x: ag.linalg_cholesky(_spd(x))),
    at_host("linalg_inv", lambda t, x: t.linalg.inv(_even(t, x)),
            lambda x: ag.linalg_inv(_near(x))),
    at_host("linalg_solve", lambda t, x: t.linalg.solve(_even(t, x), x),
            lambda x: ag.linalg_solve(_near(x), x)),
    at_host("linalg_det", lambda t, x: t.linalg.det(_even(t, x)),
            lambda x: ag.linalg_det(_near(x))),
    at_host("linalg_slogdet", lambda t, x: t.linalg.slogdet(_even(t, x))[1],
            lambda x: ag.linalg_slogdet(_near(x))[1]),
    at_host("linalg_pinv", lambda t, x: t.linalg.pinv(_even(t, x)),
            lambda x: ag.linalg_pinv(_near(x), ag.linalg_inv(_near(x).detach()))),
    at_host("linalg_qr", lambda t, x: t.linalg.qr(x)[1].abs(),
            lambda x: ag.abs(ag.linalg_qr(x, mode="reduced")[1]), [[(3, 3)], [(5, 3)]]),
    at_host("linalg_eigh", lambda t, x: t.linalg.eigh(x + x.mT)[0],
            lambda x: ag.linalg_eigh(_symmetric(x))[0]),
    at_host("linalg_svd", lambda t, x: t.linalg.svd(x)[1],
            lambda x: ag.linalg_svd(x, full_matrices=False)[1], [[(3, 3)], [(2, 5, 3)]]),
    at_host("fft_c2c", lambda t, x: t.view_as_real(t.fft.fftn(t.view_as_complex(x), dim=(0, 1))),
            lambda x: ag.fft_c2c(x, dims=(0, 1), inverse=False, scale=1.0), [[(3, 5, 2)]]),
    at_host("linalg_svdvals", lambda t, x: t.linalg.svdvals(x), lambda x: ag.linalg_svdvals(x),
            [[(4, 3)], [(2, 3, 5)]]),
    *(at_host("fft_r2c", lambda t, x: t.view_as_real(t.fft.rfft(x, dim=1)),
              lambda x, n=n: ag.fft_r2c(x, dim=1, size=n, inverse=False, scale=1.0),
              [[(3, n, 2)]], note=str(n)) for n in (1, 5, 6)),
    *(at_host("fft_c2r",
              lambda t, x, n=n: t.fft.irfft(t.view_as_complex(x), n, dim=1, norm="forward"),
              lambda x, n=n: ag.fft_c2r(x, dim=1, size=n, inverse=True, scale=1.0),
              [[(3, n // 2 + 1, 4, 2)]], note=str(n)) for n in (1, 5, 6)),
]  # fmt: skip


def _lower(x: Any) -> Any:
    return ag.linalg_cholesky(_spd(x))


NAMED: Sequence[Case] = [
    at_host("linalg_lu", lambda t, x: t.linalg.lu_factor(_even(t, x))[0],
            lambda x: ag.linalg_lu(_near(x))[0], [*SQUARE, [(0, 0)]]),
    at_host("lu", lambda t, x: t.linalg.lu_factor(_even(t, x))[0], lambda x: ag.lu(_near(x))[0]),
    at_host("lu_unpack", lambda t, x: t.linalg.lu(_even(t, x))[2],
            lambda x: ag.lu_unpack(*ag.lu(_near(x)))[2]),
    at_host("lu_solve", lambda t, x: t.linalg.solve(_even(t, x), x),
            lambda x: ag.lu_solve(x, *ag.lu(_near(x)))),
    at_host("cholesky", lambda t, x: t.linalg.cholesky(_positive(t, x)),
            lambda x: ag.cholesky(_spd(x))),
    at_host("cholesky_inverse", lambda t, x: t.linalg.inv(_positive(t, x)),
            lambda x: ag.cholesky_inverse(_lower(x))),
    at_host("cholesky_solve", lambda t, x: t.linalg.solve(_positive(t, x), x),
            lambda x: ag.cholesky_solve(x, _lower(x))),
    at_host("triangular_solve", lambda t, x: t.triangular_solve(x, _even(t, x))[0],
            lambda x: ag.triangular_solve(x, _near(x))[0]),
    at_host("inverse", lambda t, x: t.inverse(_even(t, x)), lambda x: ag.inverse(_near(x))),
    at_host("pinverse", lambda t, x: t.pinverse(_even(t, x)), lambda x: ag.pinverse(_near(x))),
    at_host("det", lambda t, x: t.det(_even(t, x)), lambda x: ag.det(_near(x))),
    at_host("logdet", lambda t, x: t.logdet(_positive(t, x)), lambda x: ag.logdet(_spd(x))),
    at_host("slogdet", lambda t, x: t.slogdet(_even(t, x))[1],
            lambda x: ag.slogdet(_near(x))[1]),
    at_host("matrix_power", lambda t, x: t.matrix_power(x, 3), lambda x: ag.matrix_power(x, 3)),
    at_host("matrix_exp", lambda t, x: t.matrix_exp(x), lambda x: ag.matrix_exp(x)),
    at_host("qr", lambda t, x: t.qr(x)[1].abs(), lambda x: ag.abs(ag.qr(x)[1])),
    at_host("svd", lambda t, x: t.svd(x)[1], lambda x: ag.svd(x)[1], [[(3, 3)], [(2, 5, 3)]]),
    at_host("stft", lambda t, x: t.view_as_real(t.stft(x, 8, window=t.hann_window(8, dtype=x.dtype),
                                                       return_complex=True)),
            lambda x: ag.stft(x, 8, window=ag.hann_window(8, dtype=x.dtype, device=x.device)),
            [[(31,)], [(2, 16)]]),
    at_host("istft", lambda t, x: x,
            lambda x: ag.istft(ag.stft(x, 8, window=ag.hann_window(8, dtype=x.dtype,
                                                                   device=x.device)), 8,
                               window=ag.hann_window(8, dtype=x.dtype, device=x.device)),
            [[(32,)], [(2, 16)]]),
]  # fmt: skip
WITHOUT = {
    "svd_lowrank": "its subspace is drawn at random",
    "pca_lowrank": "its subspace is drawn at random",
    **dict.fromkeys(
        (f"{name}_window" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")),
        "it makes numbers on the host",
    ),
}
CASES: Sequence[Case] = [
    *NAMED,
    *EINSUM,
    *PRODUCTS,
    *SUMS,
    *FACTORS,
    Case("matmul", (X, X), "matmul", shapes=SHAPES, dtypes=("float32",), note="shapes",
         skip={"refusal": "the other dtypes are in another case"}),
    Case("matmul", (X, X), "matmul", shapes=[SHAPES[2], SHAPES[9], SHAPES[14]],
         dtypes=ALL),
    transposed(True, False, [[(2, 7, 5), (2, 7, 4)], [(65, 33), (65, 17)]]),
    transposed(False, True, [[(2, 5, 7), (2, 4, 7)], [(33, 65), (17, 65)], [(33, 65), (9, 65)]]),
    transposed(True, True, [[(2, 7, 5), (2, 4, 7)], [(65, 33), (17, 65)]]),
    Case("bmm", (X, X), "bmm", dtypes=ALL,
         shapes=[[(3, 5, 7), (3, 7, 20)], [(1, 1, 1), (1, 1, 1)], [(0, 2, 3), (0, 3, 2)],
                 [(2, 31, 37), (2, 37, 17)]]),
    Case("linear", (X, X), "nn.functional.linear", dtypes=ALL,
         shapes=[[(5, 7), (3, 7)], [(7,), (3, 7)], [(0, 7), (3, 7)], [(2, 3, 7), (40, 7)],
                 [(2, 1, 3, 2, 7), (5, 7)]]),
    Case("linear", (X, X, X), "nn.functional.linear", note="bias", dtypes=ALL,
         shapes=[[(5, 7), (3, 7), (3,)], [(7,), (3, 7), (3,)], [(2, 3, 7), (40, 7), (40,)],
                 [(128, 64), (10, 64), (10,)], [(600, 5), (3, 5), (3,)], [(1, 1), (1, 1), (1,)]]),
    Case("bilinear", (X, X, X, X), "nn.functional.bilinear", dtypes=ALL,
         shapes=[[(2, 7, 4), (2, 7, 5), (3, 4, 5), (3,)], [(4,), (1,), (2, 4, 1), (2,)]],
         skip={"refusal": "it takes whatever products take",
               "non-finite": "the products come in another order"}),
    *ATTENTION,
]  # fmt: skip


def cases(op: str) -> Sequence[Case] | str:
    """The cases of an op, or why a namespace has none."""
    if op in ("linalg", "fft", "signal"):
        return "its functions are made of ops that have cases, such as linalg_svd and fft_c2c"
    return WITHOUT.get(op) or [case for case in CASES if case.op == op]
