"""PyTorch's operators of linalg, fft, special, of order and places, pads, and samplers.

    python benchmarks operators                    the default device: a GPU if there is one
    python benchmarks operators --device opencl:0 --budget 0.5 --json record.json
    python benchmarks operators/linalg             a part of them

An expression serves both libraries, since the names are the same, and PyTorch's float64 on the
CPU for what is right. On a GPU there are sixteen times as many numbers, and PyTorch needs CUDA.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final

import numpy as np
from harness import RaceCase, RaceWork
from harness.peers import library, torch_place

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import Device

#: Numbers of an operand with rows of 256, and matrices of 64 x 64 in a batch.
SIZES: Final = {"cpu": (1 << 18, 16), "gpu": (1 << 22, 256)}

#: What has a gradient. An operand's name says what it holds: `operands`.
DIFFERENTIABLE: Final = """
special.digamma(p) special.entr(p) special.erfcx(x) special.erfinv(s) special.expit(x)
special.gammaln(p) special.i0(x) special.i0e(x) special.i1(x) special.i1e(x) special.log_ndtr(x)
special.logit(u) special.ndtr(x) special.ndtri(u) special.polygamma(1,p) special.sinc(x)
special.xlog1py(x,p) special.xlogy(x,p) linalg.cholesky(spd) linalg.inv(m) linalg.det(near)
linalg.slogdet(m)[1] linalg.solve(m,b) linalg.solve_triangular(low,b,upper=False)
linalg.qr(m)[1].abs() linalg.eigh(spd)[0] linalg.svdvals(m) linalg.pinv(m) linalg.matrix_exp(near)
linalg.lu_factor(m)[0] linalg.matrix_norm(m) linalg.vector_norm(m) linalg.matrix_power(near,3)
linalg.multi_dot([flat,flat,flat]) linalg.cross(t,t2) linalg.vecdot(x,y) linalg.lstsq(m,b)[0]
cholesky_solve(b,low) logdet(spd) baddbmm(m,m,m) tensordot(m,m,dims=([2],[1])) kron(flat,small)
einsum('bij,bjk->bik',m,m) addr(flat,one,one) addmv(one,flat,one) cov(flat) corrcoef(flat)
nn.functional.bilinear(one64,one64,m) fft.rfft(x) fft.irfft(z) fft.fft(z,pairs=True) fft.ifft(z)
fft.fft2(z2,pairs=True) fft.rfft2(square) fft.fftn(z2,pairs=True) fft.hfft(z)
stft(x,64,window=hann,return_complex=True) median(x,1) nanmedian(x,1) quantile(rows,0.3,1)
nanquantile(rows,0.3,1) kthvalue(x,9,1) cummax(x,1) cummin(x,1) cumprod(s,1) logcumsumexp(x,1)
aminmax(x,dim=1) std_mean(x,1) var_mean(x,1) dist(x,y) cdist(rows,rows) renorm(x,2,0,1.0)
logsumexp(x,1) trapezoid(x,dim=1) scatter_reduce(x,1,k,y,'sum') scatter_reduce(x,1,k,y,'amax')
scatter_reduce(x,1,k,y,'mean') index_add(x,0,r,x) index_copy(x,0,order,y) index_fill(x,0,r,2.0)
take_along_dim(x,k,1) take(x,k) masked_select(x,mask) masked_scatter(x,mask,y)
index_put(x,(order,),y) gather(x,1,k) index_select(x,0,r) diag_embed(x) diagonal(square,0,1,2)
diff(x) rot90(x) roll(x,3,1) tril(flat) cross(t,t2) repeat_interleave(x,2,1)
x.unfold(1,16,8).contiguous() addcmul(x,x,y) addcdiv(x,x,p) lerp(x,y,0.3) hypot(x,y) atan2(x,y)
logaddexp(x,y) copysign(x,y) float_power(p,1.5) asinh(x) atanh(s) sinh(x) xlogy(x,p)
nn.functional.pad(image,(3,3,3,3),'reflect') nn.functional.pad(image,(3,3,3,3),'replicate')
nn.functional.pad(image,(3,3,3,3),'circular') nn.functional.unfold(image,3)
nn.functional.fold(patches,(64,64),3) nn.functional.grid_sample(image,grid,align_corners=False)
nn.functional.affine_grid(theta,(8,16,64,64),align_corners=False)
nn.functional.max_unpool2d(halves,places,2) nn.functional.local_response_norm(image,5)
nn.functional.lp_pool2d(image,2.0,2) nn.functional.embedding_bag(k,rows)
nn.functional.ctc_loss(logs,targets,lengths,target_lengths)
nn.functional.multi_margin_loss(x,r256) nn.functional.multilabel_soft_margin_loss(x,u)
nn.functional.gaussian_nll_loss(x,y,p) nn.functional.poisson_nll_loss(x,y)
nn.functional.cosine_similarity(x,y) nn.functional.pixel_shuffle(image,2)
nn.functional.triplet_margin_loss(x,y,p) nn.functional.glu(x) nn.functional.softmin(x,1)
"""
#: What has none, or whose gradient is that of something above.
PLAIN: Final = """
special.modified_bessel_k0(p) special.modified_bessel_k1(p) special.scaled_modified_bessel_k0(p)
special.scaled_modified_bessel_k1(p) special.spherical_bessel_j0(x) special.zeta(p+1.0,2.0)
special.chebyshev_polynomial_t(s,5) special.hermite_polynomial_h(s,5)
special.laguerre_polynomial_l(s,5) special.legendre_polynomial_p(s,5) linalg.matrix_rank(m)
linalg.cond(m) linalg.lu_solve(lu,pivots,b) linalg.householder_product(q,tau) fft.fftfreq(65536)
fft.fftshift(x) signal.windows.kaiser(65536) signal.windows.gaussian(65536) nonzero(x) argwhere(x)
unique(k) unique_consecutive(k) bucketize(x,edges) searchsorted(edges,x) histc(x,64)
bincount(places1) isin(k,r) count_nonzero(x,1) argsort(x,dim=1,stable=True) msort(x)
heaviside(x,y) gcd(k,k2) lcm(k,k2) tril_indices(512,512) triu_indices(512,512)
cartesian_prod(one,one) combinations(one) frexp(x) ldexp(x,r256n) isclose(x,y) allclose(x,x)
equal(x,x) signbit(x) linalg.vander(one,N=8) mode(few,1)[0] logspace(0,2,65536)
linspace(0,2,65536) nan_to_num(x) block_diag(flat,flat)
"""
#: What draws: the mean and the deviation are compared.
DRAWN: Final = """
x.clone().uniform_() x.clone().normal_() x.clone().exponential_() x.clone().random_(0,9)
x.clone().bernoulli_(0.3) x.clone().geometric_(0.3) x.clone().log_normal_(0,0.3) bernoulli(u)
poisson(p) poisson(p*9) binomial(c,u) normal(x,p) multinomial(u,64,True) multinomial(u,64)
randint(0,9,like) nn.functional.dropout2d(image) nn.functional.gumbel_softmax(x)
nn.functional.alpha_dropout(x,0.3,True) distributions.Normal(x,p).sample()
distributions.Bernoulli(u).sample() distributions.Categorical(u).sample((256,))
distributions.Uniform(x,x+p).sample() distributions.Gamma(p,u).sample()
distributions.Gamma(u,p+3).sample() distributions.Beta(p,u).sample()
distributions.Dirichlet(p).sample() distributions.Exponential(p).sample()
distributions.Laplace(x,p).sample() distributions.StudentT(p+3,x,p).sample()
distributions.Poisson(p).sample() distributions.Geometric(u).sample()
distributions.MultivariateNormal(b[:,:,0],spd).sample((4096,))
"""


@cache
def operands(kind: str) -> dict[str, Any]:
    """The arrays by the names that the expressions have for them."""
    size, batch = SIZES[kind]
    random = np.random.default_rng(0)
    rows = size // 256

    def normal(*shape: int) -> Any:
        return random.standard_normal(shape, np.float32)

    def uniform(low: float, high: float, *shape: int) -> Any:
        return random.uniform(low, high, shape).astype(np.float32)

    def whole(high: int, *shape: int) -> Any:
        return random.integers(0, high, shape)

    given = {
        "x": normal(rows, 256), "y": normal(rows, 256), "p": uniform(0.1, 30, rows, 256),
        "u": uniform(0.01, 0.99, rows, 256), "s": uniform(-0.99, 0.99, rows, 256),
        "c": whole(40, rows, 256).astype(np.float32), "few": whole(9, rows, 256).astype(np.float32),
        "k": whole(256, rows, 256), "k2": 1 + whole(256, rows, 256), "r": whole(rows, rows),
        "r256": whole(256, rows), "r256n": whole(5, rows, 256), "order": random.permutation(rows),
        "places1": whole(4096, size), "edges": np.sort(normal(1024)), "rows": normal(256, 256),
        "z": normal(rows, 256, 2), "z2": normal(batch, 64, 64, 2), "square": normal(batch, 64, 64),
        "m": normal(batch, 64, 64) + 9 * np.eye(64, dtype=np.float32),
        "near": np.eye(64, dtype=np.float32) + normal(batch, 64, 64) / 64,
        "b": normal(batch, 64, 8), "flat": normal(512, 512), "small": normal(4, 4),
        "one": normal(512), "one64": normal(256, 64), "t": normal(rows, 3), "t2": normal(rows, 3),
        "hann": np.hanning(65)[:64].astype(np.float32), "image": normal(8, 16, 64, 64),
        "grid": uniform(-1, 1, 8, 64, 64, 2), "theta": normal(8, 2, 3),
        "patches": normal(8, 144, 62 * 62), "halves": normal(8, 16, 32, 32),
        "logs": np.log(uniform(0.01, 0.1, 64, 32, 20)), "targets": 1 + whole(19, 32, 12),
        "lengths": np.full(32, 64), "target_lengths": np.full(32, 12),
    }  # fmt: skip
    corner = 2 * np.arange(32)
    given["places"] = np.broadcast_to(corner[:, None] * 64 + corner, (8, 16, 32, 32)).copy()
    given["mask"], given["low"] = given["x"] > 0, np.tril(given["m"])
    given["spd"] = given["square"] @ given["square"].mT / 64 + np.eye(64, dtype=np.float32)
    torch = library("torch")
    given["lu"], given["pivots"] = map(
        np.asarray, torch.linalg.lu_factor(torch.from_numpy(given["m"]))
    )
    given["q"], given["tau"] = map(np.asarray, torch.geqrf(torch.from_numpy(given["m"])))
    return {**given, "like": (rows, 256)}


class _Names(dict[str, Any]):
    """An expression's names: operands, else what the library has."""

    def __init__(self, library: Any, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.library = library

    def __missing__(self, name: str) -> Any:
        return getattr(self.library, name)


def _leaves(value: Any) -> list[Any]:
    """The tensors of a result, complex ones as pairs."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in _leaves(item)]
    if not hasattr(value, "detach"):
        return [np.asarray(value)]
    if not isinstance(value, nc.Tensor) and value.is_complex():
        return [library("torch").view_as_real(value.resolve_conj())]
    return [value]


def _host(x: Any) -> Any:
    return x if isinstance(x, np.ndarray) else x.detach().cpu().numpy()


def _call(torch: bool, expression: str, kind: str, backward: bool, place: Any, wide: bool) -> Any:
    """What computes an expression, or its first result's gradient by its first operand."""
    expression = expression.replace(",pairs=True", "") if torch else expression
    code = compile(expression, expression, "eval")
    source: Any = library("torch") if torch else nc
    given: dict[str, Any] = {}
    for name, value in operands(kind).items():
        if name in code.co_names:
            array = value
            if wide and isinstance(value, np.ndarray) and value.dtype == np.float32:
                array = value.astype(np.float64)
            if isinstance(array, np.ndarray):
                array = (source.from_numpy(array).to(place) if torch
                         else nc.tensor(array, device=place))  # fmt: skip
            given[name] = torch_complex(array) if torch and name in ("z", "z2") else array
    leaf = next((name for name in code.co_names if name in given and _is_floating(given[name])), "")
    if backward:
        given[leaf].requires_grad_(True)
    names = _Names(source, given)
    if torch and re.search(r"fftfreq|windows|space|indices|randint", expression):
        expression = expression[:-1] + f",device='{place}')"
        code = compile(expression, expression, "eval")
    if not backward:

        def forward() -> Any:
            with source.no_grad():
                return eval(code, {}, names)

        return forward
    seed: list[Any] = []

    def both() -> Any:
        result = _leaves(eval(code, {}, names))[0]
        if not seed:
            array = np.cos(np.arange(result.numel())).reshape(tuple(result.shape))
            array = array.astype(np.float64 if wide else np.float32)
            seed.append(source.from_numpy(array).to(place) if torch
                        else nc.tensor(array, device=place))  # fmt: skip
        grad = source.autograd.grad if torch else ag.grad
        return [result, *grad(result, [given[leaf]], seed[0])]

    return both


def torch_complex(pairs: Any) -> Any:
    """Pairs as PyTorch's complex numbers."""
    return library("torch").view_as_complex(pairs)


def _is_floating(x: Any) -> bool:
    if isinstance(x, nc.Tensor):
        return bool(nc.DTYPES[x.dtype].floating)
    return hasattr(x, "dtype") and (x.dtype.is_floating_point or x.dtype.is_complex)


def _results(call: Callable[[], Any], drawn: bool) -> list[Any]:
    arrays = [_host(leaf) for leaf in _leaves(call())]
    if drawn:
        return [np.array([array.mean(), array.std()], np.float64) for array in arrays[:1]]
    return arrays


def _work(
    peer: str, expression: str, kind: str, backward: bool, drawn: bool, device: Device
) -> RaceWork:
    torch = peer == "torch"
    place = torch_place(device) if torch else device
    call = _call(torch, expression, kind, backward, place, False)
    return RaceWork(call, lambda: _results(call, drawn))


def _right(expression: str, kind: str, backward: bool, drawn: bool) -> list[Any]:
    torch = library("torch")
    torch.manual_seed(0)
    return _results(_call(True, expression, kind, backward, "cpu", not drawn), drawn)


def cases(kind: str) -> Iterator[RaceCase]:
    """Each expression forward; where it is differentiable, with the gradient of an operand, too."""
    for text, phases, drawn in (
        (DIFFERENTIABLE, (False, True), False), (PLAIN, (False,), False), (DRAWN, (False,), True)
    ):  # fmt: skip
        for expression in text.split():
            for backward in phases:
                makers = {
                    peer: partial(_work, peer, expression, kind, backward, drawn)
                    for peer in ("netcl", "torch")
                }
                right = partial(_right, expression, kind, backward, drawn)
                name = f"{expression} {'forward+backward' if backward else 'forward'}"
                yield RaceCase(name, makers, right, tolerance=0.03 if drawn else 1e-3)
