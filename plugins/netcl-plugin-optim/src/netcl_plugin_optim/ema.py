"""EMA: running means of parameters, which often do better than the parameters themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, final

import numpy as np

from netcl_core import Tensor, before_replay, on_replay
from netcl_core.errors import ArgumentError, AttributeValueError, DeviceError, ReplayError, message
from netcl_plugin_optim.groups import leaves, named
from netcl_plugin_optim.placement import Placement
from netcl_plugin_optim.rule import Rule
from netcl_plugin_optim.slabs import OptimizerStateError, Slab, SlabWork

_FLAGS: Final = (("maximize", False), ("decay", False), ("shrink", False))


@final
class EMA:
    """Exponential moving averages of parameters: `decay * average + (1 - decay) * parameter`.

    (Polyak, Juditsky 1992; Tarvainen, Valpola 2017, arXiv:1703.01780)

    >>> w = nc.tensor([0.0], requires_grad=True)
    >>> ema = optim.EMA([w], decay=0.75)
    >>> _ = w.data.copy_([4.0])
    >>> ema.update()
    >>> with ema:  # the averages in the parameters' place
    ...     print(w.tolist())
    [1.0]
    >>> w.tolist()
    [4.0]

    Args:
        model_or_params: A module, tensors, or pairs of a name and a tensor.
        decay: How much of an average each update keeps; it can be changed between updates.

    Averages of 16-bit parameters add up in float32. An update is one launch for 24 parameters,
    can be captured, and does not wait for the device.
    """

    def __init__(self, model_or_params: Any, decay: float = 0.999) -> None:
        self.decay = decay
        self._rules(0)
        source = getattr(model_or_params, "named_parameters", None)
        given: Iterable[Any] = model_or_params if source is None else source()
        names, params = named("EMA", given)
        self.n_averaged = 0
        self.parameters = leaves("EMA", params)
        self.names = names or [str(k) for k in range(len(params))]
        self.averages = [_copy_of(p) for p in self.parameters]
        self._kept: list[Tensor] = []
        self._place({})

    def _place(self, held: Mapping[int, Mapping[str, Any]]) -> None:
        self._placement = Placement()
        self._placement.place(self.averages, (), held)
        for average, p in zip(self.averages, self.parameters, strict=True):
            self._placement.slot(average).source = p

    def update(self) -> None:
        """Let the averages follow the parameters as they are now; in a capture, at each replay."""
        works: dict[Slab, SlabWork] = {}
        for average, p in zip(self.averages, self.parameters, strict=True):
            if p.device is not average.device or p.dtype != average.dtype:
                given = f"a {p.dtype} parameter on {p.device!r}"
                expected = f"{average.dtype} on {average.device!r}, as when it was made"
                raise DeviceError(message("EMA.update", given, expected, "Move the model before"))
            if p.size:
                slot = self._placement.slot(average)
                work = works.setdefault(slot.slab, SlabWork([], [], self._rules))
                work.slots.append(slot)
                work.rows.append(0)
        before_replay(partial(self._check_replay, self._placement))
        for slab, work in works.items():
            slab.step(work)
        self._count()
        on_replay(self._count)

    def _rules(self, _: int) -> list[Rule]:
        if not 0 <= self.decay <= 1:
            raise AttributeValueError(message("EMA", f"decay={self.decay!r}", "0 to 1"))
        return [Rule("optim/ema.cl.j2", _FLAGS, {"one_minus_decay": 1 - self.decay})]

    def _check_replay(self, placement: Placement) -> None:
        if placement is not self._placement:
            given, expected = "a replay after load_state_dict", "the averages of the capture"
            raise ReplayError(message("EMA.update", given, expected, "Capture it anew"))

    def _count(self) -> None:
        self.n_averaged += 1

    def apply(self) -> None:
        """Put the averages in the parameters' place, until `restore`."""
        if self._kept:
            given, expected = "the averages applied already", "restore() before"
            raise ArgumentError(message("EMA.apply", given, expected))
        self._kept = [_copy_of(p) for p in self.parameters]
        for average, p in zip(self.averages, self.parameters, strict=True):
            p.overwrite(average)

    def restore(self) -> None:
        """Give the parameters back what they were before `apply`."""
        if not self._kept:
            raise ArgumentError(message("EMA.restore", "nothing applied", "apply() before"))
        for kept, p in zip(self._kept, self.parameters, strict=True):
            p.overwrite(kept)
        self._kept = []

    def __enter__(self) -> EMA:
        self.apply()
        return self

    def __exit__(self, *_: object) -> None:
        self.restore()

    def state_dict(self) -> dict[str, Any]:
        """The averages by name, as NumPy arrays (of 16-bit parameters in float32)."""
        held = self._placement.held(self.averages)
        return {
            "decay": self.decay,
            "n_averaged": self.n_averaged,
            "averages": {
                name: held[id(average)].get("master", average.to_host())
                if id(average) in held
                else average.to_host()
                for name, average in zip(self.names, self.averages, strict=True)
            },
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over averages.

        Raises OptimizerStateError if they do not fit, and then changes nothing.
        """
        saved = state_dict["averages"]
        if list(saved) != self.names:
            raise _misfit(f"averages of {', '.join(saved)}", ", ".join(self.names))
        for name, average in zip(self.names, self.averages, strict=True):
            if np.shape(saved[name]) != average.shape:
                raise _misfit(f"{name} of shape {np.shape(saved[name])}", f"{average.shape}")
        self.decay, self.n_averaged = state_dict["decay"], state_dict["n_averaged"]
        held = {}
        for name, average in zip(self.names, self.averages, strict=True):
            average.overwrite(saved[name])
            held[id(average)] = {"step": self.n_averaged, "master": saved[name]}
        self._place(held)


def _copy_of(p: Tensor) -> Tensor:
    return p.value.duplicate()


def _misfit(given: str, expected: str) -> OptimizerStateError:
    return OptimizerStateError(message("EMA.load_state_dict", given, expected))
