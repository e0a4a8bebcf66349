"""GradScaler: losses scaled up so that gradients of half precision do not vanish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from inspect import Signature, signature
from typing import Any, final

import netcl_core.autograd as ag
from netcl_core import DTYPES, Device, Tensor, capturing, default_device, on_replay, optim
from netcl_core.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    GradientError,
    ReplayError,
    message,
)
from netcl_plugin_amp.loss_scale import LossScale, joined
from netcl_plugin_amp.members import Members
from netcl_plugin_amp.scaler_settings import (
    WHO,
    checked_scale,
    checked_settings,
    whole_number,
)
from netcl_plugin_amp.unscaled import Unscaled, Verdict


@final
class GradScaler:
    """Scales losses, and skips the steps whose gradients were infinite or NaN.

    >>> w = nc.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = optim.SGD([w], lr=0.1)
    >>> scaler = amp.GradScaler(init_scale=1024.0)
    >>> for factor in (1.0, float("inf")):
    ...     optimizer.zero_grad()
    ...     scaler.scale_loss(ag.sum(w * factor)).backward()
    ...     scaler.step(optimizer)
    ...     print(w.numpy(), scaler.get_scale())
    [0.9 1.9] 1024.0
    [0.9 1.9] 512.0

    A clean step is the optimizer's, with gradients divided by the scale; after `growth_interval`
    of them in a row the scale grows. Else the step is skipped, the scale shrinks, and the count
    begins again. Optimizers that share a scaler take one step each after the losses were scaled:
    their gradients are divided by one scale, and the next one follows from all of them.

    A step waits for the device once, to read one flag. Inside a capture none is read: the device
    skips the step and changes the scale, and replays give what eager steps give.

    Settings by position are `init_scale` and so on in this order, with the device before them if
    the first is a text or a Device: `GradScaler("cuda", 1024.0)`. All are attributes, too.

    Args:
        device: PyTorch's word for where the scale lies. Without effect: it follows the losses.
        init_scale: The first scale, from 2**-126 to 2**126, which it never leaves.
        growth_factor: Above 1; computed in float32, as all of these.
        backoff_factor: Above 0 and below 1.
        growth_interval: Clean steps in a row after which the scale grows.
        enabled: Without it losses and gradients are left as they are, and every step is taken.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        if args and not isinstance(args[0], (str, Device)):  # the documents' order has no device
            args = ("cuda", *args)
        self._set_up(*args, **settings)

    def _set_up(
        self,
        device: str | Device = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self.init_scale = checked_scale(init_scale)
        self.enabled = bool(enabled)
        settings = checked_settings(growth_factor, backoff_factor, growth_interval)
        self._scale = LossScale(self.init_scale, settings)
        self._unscaled = Unscaled()
        self._stepped = Members()  # the optimizers of this round
        self._divided = Members()  # those that `unscale_` was called for since their last step

    #: For `help` and editors.
    __signature__ = Signature([*signature(_set_up).parameters.values()][1:])

    @property
    def growth_factor(self) -> float:
        """By what the scale grows."""
        return self._scale.settings.growth_factor

    @property
    def backoff_factor(self) -> float:
        """By what it shrinks."""
        return self._scale.settings.backoff_factor

    @property
    def growth_interval(self) -> int:
        """After how many clean steps in a row it grows."""
        return self._scale.settings.growth_interval

    def scale_loss(self, loss: Any) -> Any:
        """The loss times the scale, computed on its device and differentiable.

        A 16-bit loss gives a float32 one: 2**16 is no float16 number.

        Args:
            loss: A Tensor or Node of a floating dtype and any shape.

        Returns:
            A new value; `loss` itself if the scaler is not enabled.
        """
        if not self.enabled:
            return loss
        if not isinstance(loss, Tensor):
            raise ArgumentError(message(WHO, f"a {type(loss).__name__}", "a loss: Tensor or Node"))
        if not DTYPES[loss.dtype].floating:
            raise DtypeError(message(WHO, f"a loss of {loss.dtype}", "a floating dtype"))
        _now_and_at_replays(self._stepped.clear)
        wide = DTYPES[loss.dtype].wide
        given: Any = loss if loss.dtype == wide else loss.astype(wide)
        return ag.mul(given, self._scale.on(loss.device, of_round=False))

    #: PyTorch's name.
    scale = scale_loss

    def unscale_grads(self, params: Iterable[Any]) -> Verdict:
        """Divide gradients by the scale, in place, before `step` does, for clipping, say.

        A gradient is divided once: whatever is done to it afterwards, it counts as unscaled until
        `step`, or until a backward pass (or a replay of a captured one) leaves another one. Those
        of one call are judged together. What is below 6e-8 is 0 in float16; parameters of float32
        have gradients of float32.

        Args:
            params: Tensors or leaf Nodes, any iterable; those without a gradient are left out.

        Returns:
            Whether one of these gradients has an element that is infinite or NaN; it waits for
            the device. Inside a capture, where nothing can be read: an int32 tensor that says it.
        """
        if not self.enabled:
            return False
        leaves = _leaves(params)
        verdict = self._unscale(leaves)
        self._unscaled.note([p for p in leaves if p.grad is not None], verdict)
        return verdict

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer by the scale, before they are clipped, say.

        >>> w = nc.tensor([3.0, 4.0], requires_grad=True)
        >>> optimizer, scaler = optim.SGD([w], lr=1.0), amp.GradScaler("cuda")
        >>> scaler.scale(ag.sum(w * 2.0)).backward()
        >>> scaler.unscale_(optimizer)
        >>> w.grad.numpy()
        array([2., 2.], dtype=float32)

        Args:
            optimizer: What has `param_groups`. Its `step` does not divide them again.

        Raises GradientError if it was called for this optimizer since the last step or `update`.
        """
        if not self.enabled:
            return
        if optimizer in self._divided:
            given = "a second call for one optimizer since its last step or update()"
            raise GradientError(message(f"{WHO}.unscale_", given, "one call per step"))
        self.unscale_grads(_parameters(optimizer))
        _now_and_at_replays(partial(self._divided.add, optimizer))

    def step(self, optimizer: Any, params: Iterable[Any] | None = None) -> None:
        """Take the optimizer's step if its gradients are finite, and update the scale.

        It unscales the gradients that are not yet, and does not drop them: that is `zero_grad`.

        Args:
            optimizer: One of `netcl_core.optim`, or outside of captures anything that has
                `step()`, and `param_groups` if there are no `params`.
            params: More parameters whose gradients count; those in `param_groups` always do.

        Raises:
            GradientError: no parameter has a gradient.
            ReplayError: inside a capture, for an optimizer that cannot be skipped by the device.
        """
        if not self.enabled:
            optimizer.step()
            return
        own = _parameters(optimizer, needed=params is None)
        leaves = _leaves([*own, *(() if params is None else params)])
        if all(p.grad is None for p in leaves):
            remedy = "Call backward on the scaled loss first"
            given = "an optimizer of whose parameters none has a gradient"
            raise GradientError(message(f"{WHO}.step", given, "gradients", remedy))
        if optimizer in self._stepped:
            _now_and_at_replays(self._stepped.clear)
        first = not self._stepped
        verdict = self._unscale(leaves)
        if isinstance(verdict, Tensor):
            self._step_captured(optimizer, verdict, first)
        else:
            if not verdict:
                optimizer.step()
            self._scale.step(verdict, first)
        _now_and_at_replays(partial(self._stepped.add, optimizer))
        _now_and_at_replays(partial(self._divided.discard, optimizer))
        self._unscaled.drop(leaves)

    def update(self) -> None:
        """Allow `unscale_` again; the scale itself was updated by `step`."""
        _now_and_at_replays(self._divided.clear)

    def get_scale(self) -> float:
        """The scale; 1.0 if not enabled. After a captured step it waits for the device."""
        return self._scale.now if self.enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether it does anything."""
        return self.enabled

    def state_dict(self) -> dict[str, Any]:
        """Scale, settings and count, laid out as PyTorch's; empty if not enabled."""
        if not self.enabled:
            return {}
        known = asdict(self._scale.settings)
        return {"scale": self._scale.now, **known, "_growth_tracker": self._scale.tracker}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a state, PyTorch's too; replays go on with it.

        Raises ArgumentError or AttributeValueError, and then changes nothing. A scaler that is
        not enabled ignores it.
        """
        if not self.enabled:
            return
        names = ("growth_factor", "backoff_factor", "growth_interval")
        missing = [name for name in ("scale", *names, "_growth_tracker") if name not in state]
        if missing:
            given = f"no {', '.join(missing)}" if state else "an empty state, of a disabled scaler"
            raise ArgumentError(message(f"{WHO}.load_state_dict", given, "a scaler's state"))
        settings = checked_settings(*(state[name] for name in names))
        tracker = whole_number("_growth_tracker", state["_growth_tracker"], 0)
        self._scale.set(checked_scale(state["scale"]), tracker)
        self._scale.settings = settings
        self._stepped.clear()

    def __repr__(self) -> str:
        if not self.enabled:
            return f"{WHO}(enabled=False)"
        given = ", ".join(f"{k}={v!r}" for k, v in asdict(self._scale.settings).items())
        return f"{WHO}({given})"

    # -- gradients -------------------------------------------------------------------------

    def _unscale(self, leaves: Sequence[Tensor]) -> Verdict:
        """Unscale the gradients that are not yet; returns what was found in any of them."""
        known = [(p, self._unscaled.verdict(p)) for p in leaves if p.grad is not None]
        earlier = {id(verdict): verdict for _, verdict in known if verdict is not None}
        flags = self._divide([p for p, verdict in known if verdict is None])
        if not capturing():
            overflows = [bool(verdict.item()) for verdict in flags]
            return any(overflows) or any(map(bool, earlier.values()))
        if any(isinstance(verdict, bool) for verdict in earlier.values()):
            given = "gradients that were unscaled before the capture"
            remedy = "Capture the backward pass too, or step outside of the capture"
            raise ReplayError(message(WHO, given, "gradients that are computed in it", remedy))
        flags += [verdict for verdict in earlier.values() if isinstance(verdict, Tensor)]
        return joined(flags) if flags else self._no_flag(leaves)

    def _no_flag(self, leaves: Sequence[Tensor]) -> Tensor:
        """The flag of gradients without elements."""
        devices = [p.device for p in leaves if p.grad is not None] or [default_device()]
        return Tensor.zeros((1,), "int32", devices[0])

    def _divide(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """Divide gradients by the scale; returns a flag for each device."""
        devices: dict[Any, dict[int, Tensor]] = {}
        for p in parameters:
            if p.grad is not None and p.size:
                devices.setdefault(p.device, {})[id(p.grad.value)] = p
        if capturing() and len(devices) > 1:
            given = f"gradients on {' and on '.join(map(repr, devices))} inside a capture"
            raise DeviceError(message(WHO, given, "all on one device"))
        flags = []
        for device, members in devices.items():
            flags.append(Tensor.zeros((1,), "int32", device))
            scale = self._scale.on(device, of_round=bool(self._stepped))
            optim.unscale_grads_(members.values(), scale, flags[-1])
        return flags

    def _step_captured(self, optimizer: Any, found_inf: Tensor, first: bool) -> None:
        if not isinstance(optimizer, optim.Optimizer):
            given = f"a {type(optimizer).__name__} inside a capture"
            remedy = "Step it after the replay"
            expected = "an optimizer of netcl_core.optim"
            raise ReplayError(message(f"{WHO}.step", given, expected, remedy))
        optimizer.step(found_inf=found_inf)
        self._scale.step_on(found_inf, first)


def _now_and_at_replays(function: Callable[[], None]) -> None:
    function()
    on_replay(function)


def _parameters(optimizer: Any, needed: bool = True) -> list[Any]:
    groups = getattr(optimizer, "param_groups", None)
    if groups is None:
        if not needed:
            return []
        given = f"a {type(optimizer).__name__}"
        expected, remedy = "an optimizer with param_groups", "Give step its parameters as params="
        raise ArgumentError(message(f"{WHO}.step", given, expected, remedy))
    return [p for group in groups for p in group["params"]]


def _leaves(params: Any) -> list[Tensor]:
    """The leaf tensors of some operands, each once."""
    given = [params] if isinstance(params, Tensor) else list(params)
    tensors: dict[int, Tensor] = {}
    for p in given:
        if not (isinstance(p, Tensor) and p.is_leaf):
            raise ArgumentError(message(WHO, f"a {type(p).__name__} to unscale", "leaf tensors"))
        tensors[id(p.value)] = p.value
    return list(tensors.values())
