"""Factorizations: the host's LAPACK, by NumPy, with gradients.

On an OpenCL device the operand's memory is mapped for the host; compiled and captured, it is a
step like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import HostCall, Spec, Tensor
from netcl_core.autograd import Implementation, Operator, Request, Saved
from netcl_core.errors import AttributeValueError, DtypeError, GradientError, ShapeError, message

_DTYPES: Final = ("float32", "float64")


def matrices(who: str, *given: Any, square: bool = False) -> list[Any]:
    """Operands (..., n, m); raises ShapeError for others."""
    operands = ag.as_operands(*given)
    x = operands[0]
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        expected = "square matrices (..., n, n)" if square else "matrices (..., n, m)"
        raise ShapeError(message(who, f"shape {x.shape}", expected))
    return operands


def operator(
    name: str,
    bind: Callable[..., Any],
    run: Callable[..., Any],
    infer: Callable[..., Any],
    backward: Callable[..., Sequence[Any]],
    doc: str,
) -> Operator:
    def computed(*arrays: Any, **attrs: Any) -> Any:
        try:
            return run(*arrays, **attrs)
        except np.linalg.LinAlgError as error:
            raise AttributeValueError(message(name, f"{error}", "matrices that have it")) from None

    def inferred(*specs: Spec, **attrs: Any) -> Any:  # of what a policy of amp has cast
        for spec in specs:
            if spec.dtype not in _DTYPES:
                raise DtypeError(message(name, f"a {spec.dtype} tensor", "float32 or float64"))
        return infer(*specs, **attrs)

    def plan(request: Request) -> HostCall:
        def fill(inputs: Sequence[Any], *outputs: Any) -> None:
            computed_values = computed(*inputs, **request.attrs)
            results = computed_values if isinstance(computed_values, tuple) else (computed_values,)
            for out, result in zip(outputs, results, strict=True):
                out[...] = result

        return HostCall(fill)

    return Operator(
        name=name,
        bind=bind,
        infer=inferred,
        reference=computed,
        backward=backward,
        implementations=(Implementation(name, "host LAPACK", plan),),
        method=False,
        doc=f"{doc}\n\nIn float32 or float64. Other dtypes raise DtypeError, other shapes "
        "ShapeError.",
    )


def _square(name: str) -> Callable[[Any], Any]:
    """The binding of an op of square matrices."""
    return lambda x: (matrices(name, x, square=True), {})


def _same(x: Spec) -> Spec:
    return x


def mt(x: Any) -> Any:
    """Matrices with rows for columns."""
    return ag.transpose(x, -1, -2)


def _scaled(x: Any, columns: Any) -> Any:
    """x times a diagonal matrix."""
    return ag.mul(x, ag.unsqueeze(columns, -2))


def _diagonal(values: Any) -> Any:
    return ag.diag_embed(values)


# -- cholesky, inv, solve, det -----------------------------------------------------------


def _cholesky_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """L^-T phi(L^T G) L^-1, made symmetric; phi is the lower triangle, its diagonal halved
    (Murray 2016, arXiv:1602.07527)."""
    lower = saved.outputs[0]
    product = ag.matmul(mt(lower), grad)
    half = ag.sub(ag.tril(product), ag.mul(_diagonal(ag.diagonal(product, 0, -2, -1)), 0.5))
    left = SOLVE(mt(lower), half)
    inner = mt(SOLVE(mt(lower), mt(left)))
    return [ag.mul(ag.add(inner, mt(inner)), 0.5)]


CHOLESKY: Final = operator(
    "linalg_cholesky", _square("linalg_cholesky"), np.linalg.cholesky, _same, _cholesky_backward,
    (
        "linalg_cholesky(x): the lower triangle L with L L^T = x, of symmetric positive matrices."
        "\n\n"
        '>>> ag.linalg_cholesky([[4.0, 2.0], [2.0, 5.0]]).tolist()\n'
        '[[2.0, 0.0], [1.0, 2.0]]'
    ),
)  # fmt: skip


def _inv_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    inverse = mt(saved.outputs[0])
    return [ag.neg(ag.matmul(ag.matmul(inverse, grad), inverse))]


INV: Final = operator(
    "linalg_inv", _square("linalg_inv"), np.linalg.inv, _same, _inv_backward,
    (
        "linalg_inv(x): the inverses of matrices (..., n, n)."
        "\n\n"
        '>>> ag.linalg_inv([[2.0, 0.0], [0.0, 4.0]]).tolist()\n'
        '[[0.5, 0.0], [0.0, 0.25]]'
    ),
)  # fmt: skip


def _bind_solve(a: Any, b: Any) -> Any:
    a, b = matrices("linalg_solve", a, b, square=True)
    if a.dtype != b.dtype or a.shape[:-1] != b.shape[:-1]:
        given = f"{a.dtype} {a.shape} and {b.dtype} {b.shape}"
        raise ShapeError(message("linalg_solve", given, "one dtype, and as many rows"))
    return (a, b), {}


def _solve_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    gradient = SOLVE(mt(saved.inputs[0]), grad)
    return [ag.neg(ag.matmul(gradient, mt(saved.outputs[0]))), gradient]


SOLVE: Final = operator(
    "linalg_solve", _bind_solve, np.linalg.solve, lambda a, b: b, _solve_backward,
    (
        "linalg_solve(a, b): x with a x = b, of matrices (..., n, n) and (..., n, k)."
        "\n\n"
        '>>> ag.linalg_solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [2.0]]).tolist()\n'
        '[[1.0], [0.5]]'
    ),
)  # fmt: skip


def _det_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The cofactors, by the singular values: right of singular matrices too."""
    u, s, vh = SVD(saved.inputs[0], full_matrices=False)
    count = s.shape[-1]
    if not count:
        return [ag.full_like(saved.inputs[0], 0)]
    before, after = (ag.constant_pad_nd(ag.cumprod(line, -1), (1, -1), 1.0)
                     for line in (s, ag.flip(s, (-1,))))  # fmt: skip
    sign = ag.unsqueeze(ag.mul(ag.mul(DET(u), DET(vh)), grad), -1)
    scale = ag.mul(ag.mul(before, ag.flip(after, (-1,))), sign)
    return [ag.matmul(_scaled(u, scale), vh)]


DET: Final = operator(
    "linalg_det", _square("linalg_det"), np.linalg.det, lambda x: Spec(x.shape[:-2], x.dtype),
    _det_backward, (
        "linalg_det(x): the determinants of matrices (..., n, n)."
        "\n\n"
        '>>> round(ag.linalg_det([[1.0, 2.0], [3.0, 4.0]]).item(), 4)\n'
        '-2.0'
    ),
)  # fmt: skip


def _infer_slogdet(x: Spec) -> tuple[Spec, Spec]:
    spec = Spec(x.shape[:-2], x.dtype)
    return spec, spec


def _slogdet_backward(saved: Saved, _: Any, grad: Any) -> Sequence[Any]:
    if grad is None:
        return [None]
    across = ag.unsqueeze(ag.unsqueeze(grad, -1), -1)
    return [ag.mul(mt(INV(saved.inputs[0])), across)]


SLOGDET: Final = operator(
    "linalg_slogdet", _square("linalg_slogdet"), lambda x: tuple(np.linalg.slogdet(x)),
    _infer_slogdet, _slogdet_backward,
    (
        "linalg_slogdet(x): the sign of the determinant and the logarithm of its absolute "
        "value, of matrices (..., n, n)."
        "\n\n"
        '>>> sign, logarithm = ag.linalg_slogdet([[1.0, 2.0], [3.0, 4.0]])\n'
        '>>> sign.item(), round(logarithm.item(), 4)\n'
        '(-1.0, 0.6931)'
    ),
)  # fmt: skip

# -- qr, eigh, svd -----------------------------------------------------------------------


def _bind_qr(x: Any, mode: str) -> Any:
    if mode not in ("reduced", "complete"):
        expected = "'reduced' or 'complete'"
        raise AttributeValueError(message("linalg_qr", f"mode={mode!r}", expected))
    return matrices("linalg_qr", x), {"mode": mode}


def _infer_qr(x: Spec, mode: str) -> tuple[Spec, Spec]:
    *lead, n, m = x.shape
    k = n if mode == "complete" else min(n, m)
    return Spec((*lead, n, k), x.dtype), Spec((*lead, k, m), x.dtype)


def _qr_backward(saved: Saved, grad_q: Any, grad_r: Any) -> Sequence[Any]:
    """(G_Q + Q copyltu(R G_R^T - G_Q^T Q)) R^-T (Walter, Lehmann 2010, arXiv:1001.1654)."""
    q, r = saved.outputs
    count = r.shape[-2]
    if q.shape[-1] != count or q.shape[-1] > min(saved.inputs[0].shape[-2:]):
        given = f"a gradient of {saved.inputs[0].shape}, mode {saved.attrs['mode']!r}"
        raise GradientError(message("linalg_qr", given, "mode 'reduced'"))
    grad_q = ag.full_like(q, 0) if grad_q is None else grad_q
    grad_r = ag.full_like(r, 0) if grad_r is None else grad_r
    more = r.shape[-1] - count  # columns that the first ones span: Q^T of them is all
    rest, grad_rest = (ag.narrow(x, -1, count, more) for x in (saved.inputs[0], grad_r))
    grad_q = ag.add(grad_q, ag.matmul(rest, mt(grad_rest)))
    r, grad_r = ag.narrow(r, -1, 0, count), ag.narrow(grad_r, -1, 0, count)
    m = ag.sub(ag.matmul(r, mt(grad_r)), ag.matmul(mt(grad_q), q))
    both = ag.add(ag.tril(m), mt(ag.tril(m, -1)))
    first = mt(SOLVE(r, mt(ag.add(grad_q, ag.matmul(q, both)))))
    return [ag.cat([first, ag.matmul(q, grad_rest)], -1)]


QR: Final = operator(
    "linalg_qr", _bind_qr, lambda x, mode: tuple(np.linalg.qr(x, mode)), _infer_qr, _qr_backward,
    "linalg_qr(x, mode): Q and R with Q R = x, of matrices (..., n, m); mode 'reduced' or "
    "'complete'.\n\n"
    ">>> q, r = ag.linalg_qr([[3.0, 1.0], [4.0, 2.0]], mode='reduced')\n"
    ">>> (q @ r).numpy().round(4).tolist()\n[[3.0, 1.0], [4.0, 2.0]]",
)  # fmt: skip


def _infer_eigh(x: Spec) -> tuple[Spec, Spec]:
    return Spec(x.shape[:-1], x.dtype), x


def _gaps(values: Any) -> Any:
    """1 / (v_j - v_i), 0 along the diagonal."""
    gap = ag.sub(ag.unsqueeze(values, -2), ag.unsqueeze(values, -1))
    own = nc.eye(values.shape[-1], dtype="bool", device=values.device)
    return ag.where(own, 0.0, ag.div(1.0, ag.where(own, 1.0, gap)))


def _eigh_backward(saved: Saved, grad_l: Any, grad_v: Any) -> Sequence[Any]:
    """V (diag(G_L) + (V^T G_V) / (l_j - l_i)) V^T (Giles 2008, section 3.1), made symmetric."""
    values, v = saved.outputs
    inner: Any = ag.full_like(v, 0) if grad_l is None else _diagonal(grad_l)
    if grad_v is not None:
        inner = ag.add(inner, ag.mul(ag.matmul(mt(v), grad_v), _gaps(values)))
    middle = ag.matmul(ag.matmul(v, inner), mt(v))
    return [ag.mul(ag.add(middle, mt(middle)), 0.5)]


EIGH: Final = operator(
    "linalg_eigh", _square("linalg_eigh"), lambda x: tuple(np.linalg.eigh(x)),
    _infer_eigh, _eigh_backward,
    (
        "linalg_eigh(x): eigenvalues, the least first, and eigenvectors of symmetric matrices, "
    "whose lower triangle is read."
        "\n\n"
        '>>> values, vectors = ag.linalg_eigh([[2.0, 0.0], [0.0, 1.0]])\n'
        '>>> values.tolist()\n'
        '[1.0, 2.0]'
    ),
)  # fmt: skip


def _bind_svd(x: Any, full_matrices: Any) -> Any:
    if not isinstance(full_matrices, bool):
        given = f"full_matrices={full_matrices!r}"
        raise AttributeValueError(message("linalg_svd", given, "True or False"))
    return matrices("linalg_svd", x), {"full_matrices": full_matrices}


def _infer_svd(x: Spec, full_matrices: bool) -> tuple[Spec, Spec, Spec]:
    *lead, n, m = x.shape
    k = min(n, m)
    u, vh = (n, n if full_matrices else k), (m if full_matrices else k, m)
    return Spec((*lead, *u), x.dtype), Spec((*lead, k), x.dtype), Spec((*lead, *vh), x.dtype)


def _svd_backward(saved: Saved, grad_u: Any, grad_s: Any, grad_vh: Any) -> Sequence[Any]:
    """As PyTorch's svd_backward has it (Townsend 2016, Differentiating the SVD)."""
    u, s, vh = saved.outputs
    k = s.shape[-1]
    if (u.shape[-1] > k and grad_u is not None) or (vh.shape[-2] > k and grad_vh is not None):
        given = "a gradient of U or Vh with full_matrices=True"
        raise GradientError(message("linalg_svd", given, "full_matrices=False"))
    u, vh = ag.narrow(u, -1, 0, k), ag.narrow(vh, -2, 0, k)
    inner: Any = ag.full_like(ag.matmul(mt(u), u), 0) if grad_s is None else _diagonal(grad_s)
    gaps = _gaps(ag.square(s)) if grad_u is not None or grad_vh is not None else None
    rest: list[Any] = []
    if grad_u is not None:
        turned = ag.matmul(mt(u), grad_u)
        inner = ag.add(inner, _scaled(ag.mul(ag.sub(turned, mt(turned)), gaps), s))
        if u.shape[-2] > k:
            outside = ag.div(ag.sub(grad_u, ag.matmul(u, turned)), ag.unsqueeze(s, -2))
            rest.append(ag.matmul(outside, vh))
    if grad_vh is not None:
        turned = ag.matmul(vh, mt(grad_vh))
        own = ag.mul(ag.sub(turned, mt(turned)), gaps)
        inner = ag.add(inner, ag.mul(ag.unsqueeze(s, -1), own))
        if vh.shape[-1] > k:
            outside = ag.sub(grad_vh, ag.matmul(mt(turned), vh))
            rest.append(ag.matmul(u, ag.div(outside, ag.unsqueeze(s, -1))))
    gradient = ag.matmul(ag.matmul(u, inner), vh)
    for term in rest:
        gradient = ag.add(gradient, term)
    return [gradient]


SVD: Final = operator(
    "linalg_svd", _bind_svd, lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
    _infer_svd, _svd_backward,
    "linalg_svd(x, full_matrices): U, S and Vh with U diag(S) Vh = x (..., n, m).\n\n"
    ">>> u, s, vh = ag.linalg_svd([[0.0, 3.0], [2.0, 0.0]], full_matrices=False)\n"
    ">>> s.numpy().round(4).tolist()\n[3.0, 2.0]",
)  # fmt: skip


def _values_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The vectors of the values, which the forward had not computed."""
    (x,) = saved.inputs
    u, _, vh = SVD(x, full_matrices=False)
    return [ag.matmul(_scaled(u, grad), vh)]


SVDVALS: Final = operator(
    "linalg_svdvals", lambda x: (matrices("linalg_svdvals", x), {}),
    lambda x: np.linalg.svd(x, compute_uv=False),
    lambda x: Spec((*x.shape[:-2], min(x.shape[-2:])), x.dtype), _values_backward,
    (
        "linalg_svdvals(x): the singular values of matrices (..., n, m), the largest first."
        "\n\n"
        '>>> ag.linalg_svdvals([[2.0, 0.0], [0.0, 4.0]]).numpy().round(4).tolist()\n'
        '[4.0, 2.0]'
    ),
)  # fmt: skip


def _bind_pinv(a: Any, p: Any) -> Any:
    a, p = matrices("linalg_pinv", a, p)
    if a.dtype != p.dtype or (*a.shape[:-2], a.shape[-1], a.shape[-2]) != p.shape:
        given = f"{a.dtype} {a.shape} and {p.dtype} {p.shape}"
        raise ShapeError(message("linalg_pinv", given, "one dtype, and the shape turned"))
    return (a, p), {}


def _pinv_backward(saved: Saved, grad: Tensor) -> Sequence[Any]:
    """The gradient of a pseudoinverse P of A where its rank stays (Golub, Pereyra 1973)."""
    a, p = saved.inputs
    first = ag.neg(ag.matmul(ag.matmul(mt(p), grad), mt(p)))
    rows, across = ag.matmul(mt(p), p), ag.matmul(p, mt(p))
    left = ag.matmul(rows, ag.sub(mt(grad), ag.matmul(ag.matmul(mt(grad), p), a)))
    turned = ag.matmul(mt(grad), across)
    right = ag.sub(turned, ag.matmul(a, ag.matmul(p, turned)))
    return [ag.add(ag.add(first, left), right), None]


PINV: Final = operator(
    "linalg_pinv", _bind_pinv, lambda a, p: p, lambda a, p: p, _pinv_backward,
    "linalg_pinv(a, p): p (..., m, n), the pseudoinverse of a (..., n, m), as a function of a.\n\n"
    ">>> a = nc.tensor([[2.0]], requires_grad=True)\n"
    ">>> ag.linalg_pinv(a, nc.tensor([[0.5]])).sum().backward()\n"
    ">>> a.grad.tolist()\n[[-0.25]]",
)  # fmt: skip

OPERATORS: Final = (
    CHOLESKY,
    INV,
    SOLVE,
    DET,
    SLOGDET,
    QR,
    EIGH,
    SVD,
    SVDVALS,
    PINV,
)
