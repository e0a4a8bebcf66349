"""Spectra of pieces of a signal: stft, istft, and the windows that they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.autograd import composite
from netcl_core.errors import AttributeValueError, ShapeError, message
from netcl_plugin_linalg import fft, windows


def _size(who: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 40:
        raise AttributeValueError(message(who, f"{given!r} samples", "an int from 0 on"))
    return given


def _made(who: str, window: Callable[..., Any], length: int, periodic: bool, options: Any,
          **own: Any) -> Any:  # fmt: skip
    dtype, device, grad = options
    size = _size(who, length)
    return window(size, sym=not periodic, dtype=dtype, device=device, requires_grad=grad, **own)


def _plain(name: str) -> Callable[..., Any]:
    """A window without arguments of its own."""
    who = f"{name}_window"

    def window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None,
               requires_grad: bool = False) -> Any:  # fmt: skip
        options = (dtype, device, requires_grad)
        return _made(who, getattr(windows, name), window_length, periodic, options)

    window.__name__ = who
    window.__doc__ = (
        f"`nc.signal.windows.{name}` of so many samples.\n\n"
        f">>> ag.{who}(4).shape\n(4,)\n\nArgs:\n"
        "    window_length: How many samples.\n"
        "    periodic: Whether it is the first part of a symmetric window of one more.\n"
        "    dtype: A floating dtype; None: float32.\n    device: Where.\n"
        "    requires_grad: Whether it records."
    )
    return window


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """alpha - beta cos(2 pi n / (M - 1)); other arguments as of `hann_window`.

    >>> ag.hamming_window(4).numpy().round(4)
    array([0.08, 0.54, 1.  , 0.54], dtype=float32)
    """
    options = (dtype, device, requires_grad)
    own = {"a": (alpha, beta)}
    return _made(
        "hamming_window",
        windows.general_cosine,
        window_length,
        periodic,
        options,
        **own,
    )


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """`nc.signal.windows.kaiser`; arguments as of `hann_window`.

    >>> ag.kaiser_window(4, beta=2.0).numpy().round(4)
    array([0.4387, 0.8348, 1.    , 0.8348], dtype=float32)
    """
    options = (dtype, device, requires_grad)
    return _made(
        "kaiser_window",
        windows.kaiser,
        window_length,
        periodic,
        options,
        beta=beta,
    )


def _framed(who: str, window: Any, n_fft: int, win_length: int, x: Any) -> Any:
    """The window with zeros on both sides, so that it has n_fft samples."""
    if not 0 < win_length <= n_fft:
        given = f"win_length={win_length!r}, n_fft={n_fft!r}"
        raise AttributeValueError(message(who, given, "0 < win_length <= n_fft"))
    if window is None:
        window = nc.ones(win_length, dtype=x.dtype, device=x.device)
    window = ag.as_operand(window, x.device)
    if tuple(window.shape) != (win_length,):
        given = f"a window of shape {tuple(window.shape)}"
        raise ShapeError(message(who, given, f"({win_length},)"))
    before = (n_fft - win_length) // 2
    return ag.pad(window, (before, n_fft - win_length - before))


def stft(input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
         window: Any = None, center: bool = True, pad_mode: str = "reflect",
         normalized: bool = False, onesided: bool | None = None,
         return_complex: bool | None = None, align_to_window: Any = None) -> Any:  # fmt: skip
    """The Fourier transforms of overlapping pieces of a signal: pairs (..., frequency, piece, 2).

    >>> ag.stft(nc.rand(400), 64, window=nc.ones(64), return_complex=False).shape
    (33, 26, 2)

    Args:
        input: Samples (time,) or (batch, time).
        n_fft: The length of a piece.
        hop_length: How far apart they begin; None: n_fft // 4.
        win_length: The length of the window, in the middle of a piece; None: n_fft.
        window: What pieces are multiplied with; None: ones.
        center: Whether the piece k has its middle at k * hop_length, where the signal is padded.
        pad_mode: How, as of `pad`.
        normalized: Whether results are divided by the root of n_fft.
        onesided: Whether the first n_fft // 2 + 1 frequencies are enough; None: True.
        return_complex: Complex numbers are pairs, whatever is given.
        align_to_window: Not taken.

    Raises:
        ShapeError: Unless given (time,) or (batch, time).
        AttributeValueError: Unless given hops of 1 or more, and a piece at least.
    """
    x = ag.as_operand(input)
    if x.ndim not in (1, 2) or n_fft < 1:
        given = f"shape {x.shape}, n_fft={n_fft!r}"
        raise ShapeError(message("stft", given, "(time,) or (batch, time)"))
    hop = n_fft // 4 if hop_length is None else _size("stft", hop_length)
    frame = _framed("stft", window, n_fft, n_fft if win_length is None else win_length, x)
    rows = x if x.ndim == 2 else ag.unsqueeze(x, 0)
    if center:
        rows = ag.pad(rows, (n_fft // 2, n_fft // 2), pad_mode)
    if hop < 1 or rows.shape[-1] < n_fft:
        given = f"hop_length={hop!r}, {rows.shape[-1]} samples for n_fft={n_fft}"
        raise AttributeValueError(message("stft", given, "hops of 1 or more, and a piece at least"))
    pieces = ag.mul(rows.unfold(-1, n_fft, hop), frame)
    norm = "ortho" if normalized else None
    spectrum = fft.rfft(pieces, norm=norm) if onesided is not False else fft.fft(pieces, norm=norm)
    spectrum = ag.transpose(spectrum, 1, 2)
    return spectrum if x.ndim == 2 else ag.squeeze(spectrum, 0)


def istft(input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
          window: Any = None, center: bool = True, normalized: bool = False,
          onesided: bool | None = None, length: int | None = None,
          return_complex: bool = False) -> Any:  # fmt: skip
    """The signal whose `stft` the input is, by least squares (Griffin, Lim 1984).

    >>> signal, window = nc.arange(16, dtype="float32"), ag.hann_window(8)
    >>> pairs = ag.stft(signal, 8, window=window, return_complex=False)
    >>> ag.istft(pairs, 8, window=window).numpy().round(3)[:4]
    array([0., 1., 2., 3.], dtype=float32)

    Args:
        input: Pairs (frequency, piece, 2) or (batch, frequency, piece, 2).
        n_fft: The length of a piece; the other arguments are `stft`'s.
        length: How many samples; None: as many as the pieces cover.
        hop_length: How far apart the frames are.
        win_length: How long a window is.
        center: Whether the frames were centered by padding.
        normalized: Whether it was divided by the root of the length.
        onesided: Whether only the first half of the frequencies is there.

    Raises:
        ShapeError: Unless given pairs (..., frequency, piece, 2).
        AttributeValueError: Unless given pieces that cover all samples.
    """
    x = ag.as_operand(input)
    if x.ndim not in (3, 4) or x.shape[-1] != 2:
        given = f"shape {x.shape}"
        raise ShapeError(message("istft", given, "pairs (..., frequency, piece, 2)"))
    if x.shape[-3] not in (n_fft, n_fft // 2 + 1):
        given = f"{x.shape[-3]} frequencies for n_fft={n_fft!r}"
        raise ShapeError(message("istft", given, "n_fft of them, or n_fft // 2 + 1"))
    hop = n_fft // 4 if hop_length is None else _size("istft", hop_length)
    frame = _framed("istft", window, n_fft, n_fft if win_length is None else win_length, x)
    pieces = ag.transpose(x if x.ndim == 4 else ag.unsqueeze(x, 0), 1, 2)
    norm = "ortho" if normalized else None
    half = onesided if onesided is not None else pieces.shape[2] != n_fft
    if half:
        parts = fft.irfft(pieces, n_fft, norm=norm)
    else:
        parts = ag.select(fft.ifft(pieces, norm=norm), -1, 0)
    count = parts.shape[1]
    size = _size("istft", n_fft + hop * (count - 1))
    _size("istft", length or 0)
    places = np.arange(count)[:, None] * hop + np.arange(n_fft)
    index = nc.tensor(places.reshape(-1), device=x.device)

    def added(pieces: Any) -> Any:
        flat = ag.reshape(pieces, (pieces.shape[0], -1))
        zeros = nc.zeros(pieces.shape[0], size, dtype=x.dtype, device=x.device)
        return ag.index_add(zeros, 1, index, flat)

    total = added(ag.mul(parts, frame))
    weight = added(ag.expand(ag.square(frame), (1, count, n_fft)))
    start = n_fft // 2 if center else 0
    end = size - start if length is None else min(start + length, size)
    total, weight = (ag.narrow(tensor, 1, start, end - start) for tensor in (total, weight))
    if float(ag.amin(ag.abs(weight.detach())).item()) < 1e-11:
        raise AttributeValueError(message("istft", "a window that is 0 where no other piece is",
                                          "pieces that cover all samples"))  # fmt: skip
    signal = ag.div(total, weight)
    if length is not None and signal.shape[1] < length:
        signal = ag.pad(signal, (0, length - signal.shape[1]))
    return signal if x.ndim == 4 else ag.squeeze(signal, 0)


OPERATORS: Final = (
    composite(stft, ("input", "window")),
    composite(istft, ("input", "window")),
    *(composite(function, method=False) for function in (
        _plain("bartlett"), _plain("blackman"), _plain("hann"), hamming_window, kaiser_window)),
)  # fmt: skip
