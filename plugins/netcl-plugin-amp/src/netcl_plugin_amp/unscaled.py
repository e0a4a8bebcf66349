"""Unscaled: which parameters have gradients that were divided by the scale already."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, TypeAlias, final

from netcl_core import Tensor, on_replay

#: What was found in gradients: known on the host, or in a flag on the device.
Verdict: TypeAlias = bool | Tensor


@final
class Unscaled:
    """Parameters, each with what was found in its gradient.

    One counts until it is dropped (by a step), or until a backward pass or a replay leaves
    another gradient in it. Whatever else is done to its gradient, such as clipping, in place or
    by a new tensor, makes no difference.
    """

    def __init__(self) -> None:
        self._rows: Final[dict[int, tuple[Any, int, Verdict]]] = {}

    def verdict(self, parameter: Tensor) -> Verdict | None:
        """What was found; None: its gradient is still scaled."""
        held, arrivals, verdict = self._rows.get(id(parameter), (None, 0, None))
        if held is None or held() is not parameter or arrivals != parameter.arrivals:
            return None
        return verdict

    def note(self, parameters: Iterable[Tensor], verdict: Verdict) -> None:
        """Note what was found, here and at each replay."""
        rows = {id(p): weakref.ref(p) for p in parameters}
        note = partial(self._note, rows, verdict)
        note()
        on_replay(note)

    def _note(self, rows: dict[int, Any], verdict: Verdict) -> None:
        for key, held in rows.items():
            parameter = held()
            if parameter is not None:
                self._rows[key] = held, parameter.arrivals, verdict

    def drop(self, parameters: Iterable[Tensor]) -> None:
        """Forget parameters, here and at each replay, and those that are gone."""
        if not self._rows:
            return
        drop = partial(self._drop, [id(p) for p in parameters])
        drop()
        on_replay(drop)

    def _drop(self, keys: list[int]) -> None:
        for key in keys:
            self._rows.pop(key, None)
        for key in [key for key, (held, *_) in self._rows.items() if held() is None]:
            del self._rows[key]
