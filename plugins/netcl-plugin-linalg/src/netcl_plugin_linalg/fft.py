"""nc.fft: discrete Fourier transforms, with complex numbers as pairs in a last dimension.

    >>> nc.fft.rfft(nc.tensor([1.0, 0.0, -1.0, 0.0])).tolist()
    [[0.0, 0.0], [2.0, 0.0], [0.0, 0.0]]

Each function has PyTorch's arguments and `pairs`: whether the input is complex numbers, as
`torch.view_as_real` gives them. `dim` counts dimensions without that of the pairs. The host
computes (pocketfft, by NumPy) in float32 or float64; each has gradients of every order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_linalg.fourier import FFT, IRFFT, RFFT

_NORMS: Final = {"backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}


def _floating(input: Any) -> Any:
    x = ag.as_operand(input)
    return x if x.dtype == "float64" else x.astype("float32")


def _operand(who: str, input: Any, pairs: bool) -> Any:
    x = _floating(input)
    if pairs and (not x.ndim or x.shape[-1] != 2):
        given = f"shape {x.shape}"
        raise ShapeError(message(who, given, "pairs (..., 2)", "Of real numbers say pairs=False"))
    return x if pairs else ag.stack([x, ag.full_like(x, 0)], -1)


def _places(who: str, ndim: int, dim: Any, s: Any, count: int | None = None) -> list[int]:
    """The axes of a transform of numbers with so many dimensions."""
    if dim is None:
        some = count if s is None else len(s)
        dim = range(ndim) if some is None else range(-some, 0)
    given = [dim] if isinstance(dim, int) else list(dim)
    if any(not -ndim <= place < ndim for place in given) or len({d % ndim for d in given}) < len(
        given
    ):
        raise AttributeValueError(message(who, f"dim={dim!r} of {ndim} dimensions", "each once"))
    return [place % ndim for place in given]


def _sized(who: str, x: Any, places: Sequence[int], s: Any) -> Any:
    """x cut off or with zeros at the end of axes, so that they have the sizes s."""
    if s is None:
        s = [None] * len(places)
    if len(s) != len(places):
        raise AttributeValueError(message(who, f"s={s!r}", f"{len(places)} sizes"))
    for place, size in zip(places, s, strict=True):
        if size is None or size == -1:
            size = x.shape[place]
        if size < 1:
            raise AttributeValueError(message(who, f"a size of {size}", "at least 1"))
        if size != x.shape[place]:
            after = [0] * (2 * (x.ndim - place))
            after[-1] = size - x.shape[place]
            x = ag.pad(x, after)
    return x


def _factor(who: str, norm: str | None, inverse: bool, count: int) -> float:
    if norm not in (None, *_NORMS):
        expected = " or ".join(map(repr, _NORMS))
        raise AttributeValueError(message(who, f"norm={norm!r}", expected))
    return float(count ** -_NORMS[norm or "backward"][inverse])


def _complex(who: str, input: Any, s: Any, dim: Any, norm: str | None, pairs: bool, inverse: bool,
             count: int | None = None) -> Any:  # fmt: skip
    x = _operand(who, input, pairs)
    places = _places(who, x.ndim - 1, dim, s, count)
    x = _sized(who, x, places, s)
    size = math.prod(x.shape[place] for place in places)
    if not places:
        return x
    return FFT(x, dims=tuple(places), inverse=inverse, scale=_factor(who, norm, inverse, size))


def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *,
        pairs: bool = False) -> Any:  # fmt: skip
    """The transform along an axis, of real numbers unless `pairs`; pairs (..., 2).

    >>> nc.fft.fft(nc.tensor([1.0, 0.0])).numpy().round(4).tolist()  # pairs
    [[1.0, 0.0], [1.0, 0.0]]

    `n` is the size of the axis, which is cut or filled with zeros. The other arguments are as of
    `fftn`.
    """
    return _complex("fft", input, None if n is None else [n], dim, norm, pairs, False)


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *,
         pairs: bool = True) -> Any:  # fmt: skip
    """The inverse of `fft`: pairs of pairs.

    >>> nc.fft.ifft(nc.fft.fft(nc.rand(8))).shape
    (8, 2)

    `n` is the size of the axis, which is cut or filled with zeros. The other arguments are as of
    `fftn`.
    """
    return _complex("ifft", input, None if n is None else [n], dim, norm, pairs, True)


def fft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *,
         pairs: bool = False) -> Any:  # fmt: skip
    """The transform along two axes; as `fftn`.

    >>> nc.fft.fft2(nc.rand(4, 6)).shape
    (4, 6, 2)

    Its arguments are as of `fftn`.
    """
    return _complex("fft2", input, s, dim, norm, pairs, False)


def ifft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *,
          pairs: bool = True) -> Any:  # fmt: skip
    """The inverse of `fft2`.

    >>> nc.fft.ifft2(nc.rand(4, 6, 2)).shape
    (4, 6, 2)

    Its arguments are as of `fftn`.
    """
    return _complex("ifft2", input, s, dim, norm, pairs, True)


def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *,
         pairs: bool = False) -> Any:  # fmt: skip
    """The transform along axes.

    >>> nc.fft.fftn(nc.rand(4, 6, 8)).shape
    (4, 6, 8, 2)

    Args:
        input: Real numbers, or pairs (..., 2).
        s: The sizes of the axes: cut off or filled with zeros.
        dim: The axes; None: the last of `s`, or all.
        norm: `'backward'` (None), `'ortho'` or `'forward'`: which direction has the factor.
        pairs: Whether the input is pairs.
    """
    return _complex("fftn", input, s, dim, norm, pairs, False)


def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *,
          pairs: bool = True) -> Any:  # fmt: skip
    """The inverse of `fftn`.

    >>> nc.fft.ifftn(nc.rand(4, 6, 8, 2)).shape
    (4, 6, 8, 2)

    Its arguments are as of `fftn`.
    """
    return _complex("ifftn", input, s, dim, norm, pairs, True)


def _half(who: str, input: Any, s: Any, dim: Any, norm: str | None, inverse: bool = False) -> Any:
    """The first half of a transform of real numbers along the last of the axes."""
    x = _floating(input)
    places = _places(who, x.ndim, dim, s)
    x = _sized(who, x, places, s)
    scale = _factor(who, norm, inverse, math.prod(x.shape[place] for place in places))
    last = places[-1]
    half = RFFT(x, dim=last, size=x.shape[last], inverse=inverse, scale=scale)
    return FFT(half, dims=places[:-1], inverse=inverse, scale=1.0) if places[:-1] else half


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The transform of real numbers: its first n // 2 + 1 numbers, which tell the others.

    >>> nc.fft.rfft(nc.ones(4)).numpy().round(4).tolist()
    [[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]]

    Its arguments are as of `fftn`.
    """
    return _half("rfft", input, None if n is None else [n], dim, norm)


def rfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """The transform of real numbers along two axes; as `rfftn`.

    >>> nc.fft.rfft2(nc.rand(4, 6)).shape
    (4, 4, 2)

    Its arguments are as of `fftn`.
    """
    return _half("rfft2", input, s, dim, norm)


def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The transform of real numbers along axes; the first half of the last one stays.

    >>> nc.fft.rfftn(nc.rand(4, 6, 8)).shape
    (4, 6, 5, 2)

    Its arguments are as of `fftn`.
    """
    return _half("rfftn", input, s, dim, norm)


def _real(who: str, input: Any, s: Any, dim: Any, norm: str | None, pairs: bool,
          inverse: bool = True) -> Any:  # fmt: skip
    """Real numbers from the first half of their transform."""
    x = _operand(who, input, pairs)
    places = _places(who, x.ndim - 1, dim, s)
    last = places[-1]
    sizes = [None] * len(places) if s is None else list(s)
    size = sizes[-1] if sizes[-1] not in (None, -1) else 2 * (x.shape[last] - 1)
    if size < 1:
        raise AttributeValueError(message(who, f"a size of {size}", "at least 1"))
    x = _sized(who, x, places, [*sizes[:-1], size // 2 + 1])
    count = math.prod(x.shape[place] for place in places[:-1]) * size
    scale = _factor(who, norm, inverse, count)
    if places[:-1]:
        x = FFT(x, dims=tuple(places[:-1]), inverse=inverse, scale=1.0)
    return IRFFT(x, dim=last, size=size, inverse=inverse, scale=scale)


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *,
          pairs: bool = True) -> Any:  # fmt: skip
    """The inverse of `rfft`: n real numbers, by default 2 * (m - 1) from m pairs.

    >>> nc.fft.irfft(nc.fft.rfft(nc.tensor([1.0, 2.0, 3.0, 4.0]))).numpy().round(4).tolist()
    [1.0, 2.0, 3.0, 4.0]

    Its arguments are as of `fftn`.
    """
    return _real("irfft", input, None if n is None else [n], dim, norm, pairs)


def irfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *,
           pairs: bool = True) -> Any:  # fmt: skip
    """The inverse of `rfft2`.

    >>> nc.fft.irfft2(nc.rand(4, 4, 2)).shape
    (4, 6)

    Its arguments are as of `fftn`.
    """
    return _real("irfft2", input, s, dim, norm, pairs)


def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *,
           pairs: bool = True) -> Any:  # fmt: skip
    """The inverse of `rfftn`.

    >>> nc.fft.irfftn(nc.rand(4, 6, 5, 2)).shape
    (4, 6, 8)

    Its arguments are as of `fftn`.
    """
    return _real("irfftn", input, s, dim, norm, pairs)


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *,
         pairs: bool = True) -> Any:  # fmt: skip
    """The transform, which is real, of n numbers that are Hermitian, from their first half.

    >>> nc.fft.hfft([[1.0, 0.0], [0.0, 1.0]], n=2).tolist()
    [1.0, 1.0]

    Its arguments are as of `fftn`.
    """
    return _real("hfft", input, None if n is None else [n], dim, norm, pairs, False)


def hfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *,
          pairs: bool = True) -> Any:  # fmt: skip
    """`hfft` along two axes.

    >>> nc.fft.hfft2(nc.ones(2, 2, 2)).shape
    (2, 2)

    Its arguments are as of `fftn`.
    """
    return _real("hfft2", input, s, dim, norm, pairs, False)


def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *,
          pairs: bool = True) -> Any:  # fmt: skip
    """`hfft` along axes.

    >>> nc.fft.hfftn(nc.ones(3, 2, 2)).shape
    (3, 2)

    Its arguments are as of `fftn`.
    """
    return _real("hfftn", input, s, dim, norm, pairs, False)


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`: the first half, as pairs.

    >>> nc.fft.ihfft(nc.ones(4)).shape
    (3, 2)

    `n` is the size of the axis, which is cut or filled with zeros. The other arguments are as of
    `fftn`.
    """
    return _half("ihfft", input, None if n is None else [n], dim, norm, True)


def ihfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `hfft2`.

    >>> nc.fft.ihfft2(nc.ones(4, 4)).shape
    (4, 3, 2)

    Its arguments are as of `fftn`.
    """
    return _half("ihfft2", input, s, dim, norm, True)


def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """The inverse of `hfftn`.

    >>> nc.fft.ihfftn(nc.ones(2, 4, 4)).shape
    (2, 4, 3, 2)

    Its arguments are as of `fftn`.
    """
    return _half("ihfftn", input, s, dim, norm, True)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a transform of n samples, d apart.

    >>> nc.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return nc.tensor(np.fft.fftfreq(n, d), dtype=dtype or "float32", device=device)


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of an `rfft` of n samples, d apart.

    >>> nc.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return nc.tensor(np.fft.rfftfreq(n, d), dtype=dtype or "float32", device=device)


def _shifted(input: Any, dim: Any, back: bool) -> Any:
    x = ag.as_operand(input)
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    moves = [x.shape[d] - x.shape[d] // 2 if back else x.shape[d] // 2 for d in dims]
    return ag.roll(x, tuple(moves), tuple(dims))


def fftshift(input: Any, dim: Any = None) -> Any:
    """The frequency 0 in the middle of axes; of pairs name these.

    >>> nc.fft.fftshift(nc.tensor([0, 1, 2, 3])).tolist()
    [2, 3, 0, 1]
    """
    return _shifted(input, dim, False)


def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of `fftshift`.

    >>> nc.fft.ifftshift(nc.tensor([2, 3, 0, 1])).tolist()
    [0, 1, 2, 3]
    """
    return _shifted(input, dim, True)
