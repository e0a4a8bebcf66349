"""LBFGS: steps along an estimate of Newton's direction, from the last changes of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, final

import numpy as np

from netcl_core import DTYPES
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.optimizer import Optimizer, evaluated
from netcl_plugin_optim.settings import AtLeast0, SettingLimit, settings
from netcl_plugin_optim.wolfe import Point, search

Array: TypeAlias = np.ndarray[Any, Any]

#: The curvature along a step that is worth being remembered.
_CURVED: Final = 1e-10
#: The state, by PyTorch's names: numbers, arrays, and lists of both.
_STATE: Final = (
    *("func_evals", "n_iter", "d", "t", "old_dirs", "old_stps", "ro", "H_diag"),
    *("prev_flat_grad", "prev_loss"),
)


@final
class LBFGS(Optimizer):
    """L-BFGS (Liu, Nocedal 1989, Math. Programming 45) with PyTorch's defaults and formulas.

    Each step calls its closure several times. The vectors of the method lie on the host, and
    gradients and parameters go there and back: it is for problems of some thousand parameters.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ag.sum(ag.square(w * nc.tensor([1.0, 3.0]) - 3.0))
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    82.0
    >>> w.numpy().round(4)
    array([3., 1.], dtype=float32)

    Args:
        params: Tensors, or one group of them.
        lr: The length of a step in units of the direction, where the line search begins.
        max_iter: Steps along a direction in one call of `step`.
        max_eval: Calls of the closure in one call of `step`; default: 5/4 of `max_iter`.
        tolerance_grad: It ends when no component of the gradient is larger.
        tolerance_change: It ends when neither the loss nor a parameter changes by more.
        history_size: How many changes of the gradient are remembered.
        line_search_fn: 'strong_wolfe', or None for steps of length `lr`.
    """

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: AtLeast0 = 1e-7,
        tolerance_change: AtLeast0 = 1e-9,
        history_size: AtLeast0 = 100,
        line_search_fn: str | None = None,
    ) -> None: ...

    def _begin(
        self, params: Iterable[Any], defaults: dict[str, Any], limits: Mapping[str, SettingLimit]
    ) -> None:
        self._state: dict[str, Any] = {}
        if defaults["max_eval"] is None:
            defaults["max_eval"] = defaults["max_iter"] * 5 // 4
        super()._begin(params, defaults, limits)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Refuse a second group: all parameters make one vector."""
        if self.param_groups:
            raise ArgumentError(message("LBFGS", "several groups", "one"))
        super().add_param_group(param_group)

    def _check(self, group: Group) -> None:
        super()._check(group)
        name = group["line_search_fn"]
        if name not in (None, "strong_wolfe"):
            given = f"line_search_fn={name!r}"
            raise AttributeValueError(message("LBFGS", given, "'strong_wolfe' or None"))

    def _states(self, group: Group) -> tuple[str, ...]:
        return ()

    def step(self, closure: Any = None) -> Any:
        """Go some steps down; `closure` computes the loss and its gradients anew.

        Returns:
            What the closure returned first.
        """
        group, state = self.param_groups[0], self._state
        value = evaluated("LBFGS", closure)
        loss, gradient, calls = float(value), self._gradient(), 1
        state["func_evals"] = state.get("func_evals", 0) + 1
        if not _above(gradient, group["tolerance_grad"]):
            return value
        place = self._place()
        for turn in range(1, group["max_iter"] + 1):
            state["n_iter"] = state.get("n_iter", 0) + 1
            self._turn(gradient)
            before, state["prev_flat_grad"], state["prev_loss"] = loss, gradient.copy(), loss
            slope = float(gradient @ state["d"])
            state["t"] = self._first_length(gradient)
            if slope > -group["tolerance_change"]:
                break
            if group["line_search_fn"] is not None:
                begin = Point(0.0, loss, gradient, slope)
                longest = float(np.abs(state["d"]).max())
                at = self._on_line(closure, place, state["d"])
                left = group["max_eval"] - calls
                point, steps = search(at, begin, state["t"], longest, left)
                loss, gradient, state["t"] = point.loss, point.gradient, point.t
                place = self._move(place, point.t)
            else:
                place = self._move(place, state["t"])
                steps = int(turn != group["max_iter"])  # what comes after is the next step's
                if steps:
                    written = self._versions()
                    loss, gradient = float(evaluated("LBFGS", closure)), self._gradient()
                    if self._versions() != written:  # the closure clamped them, say
                        place = self._place()
            calls += steps
            state["func_evals"] += steps
            done = not _above(gradient, group["tolerance_grad"]) or calls >= group["max_eval"]
            small = not _above(state["d"] * state["t"], group["tolerance_change"])
            if done or small or abs(loss - before) < group["tolerance_change"]:
                break
        return value

    def _first_length(self, gradient: Array) -> float:
        rate = float(self.param_groups[0]["lr"])
        first = self._state["n_iter"] == 1
        return min(1.0, 1 / float(np.abs(gradient).sum())) * rate if first else rate

    def _turn(self, gradient: Array) -> None:
        """The new direction, after the last step has been remembered."""
        state = self._state
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0, d=-gradient)
            return
        change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = float(change @ step)
        if curvature > _CURVED:
            state["old_dirs"].append(change)
            state["old_stps"].append(step)
            state["ro"].append(1 / curvature)
            state["H_diag"] = curvature / float(change @ change)
            for name in ("old_dirs", "old_stps", "ro"):
                del state[name][: -self.param_groups[0]["history_size"] or None]
        state["d"] = self._newton(gradient)

    def _newton(self, gradient: Array) -> Array:
        """Minus the estimate of the inverse Hessian times the gradient, by two loops."""
        state, shares = self._state, []
        direction: Array = -gradient
        remembered = list(zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True))
        for change, step, ro in reversed(remembered):
            shares.append(float(step @ direction) * ro)
            direction = direction - change.dtype.type(shares[-1]) * change
        direction = direction * direction.dtype.type(state["H_diag"])
        for change, step, ro in remembered:
            share = shares.pop() - float(change @ direction) * ro
            direction = direction + direction.dtype.type(share) * step
        return direction

    def _on_line(self, closure: Any, place: Array, direction: Array) -> Callable[[float], Point]:
        def at(t: float) -> Point:
            self._move(place, t)
            loss, gradient = float(evaluated("LBFGS", closure)), self._gradient()
            return Point(t, loss, gradient, float(gradient @ direction))

        return at

    def _move(self, place: Array, t: float) -> Array:
        """Set the parameters to what lies that far along the direction, and return it."""
        moved: Array = place + place.dtype.type(t) * self._state["d"]
        offset = 0
        for p in self._parameters():
            p.overwrite(moved[offset : offset + p.size].reshape(p.shape))
            offset += p.size
        return moved

    def _versions(self) -> list[int]:
        return [p.version for p in self._parameters()]

    def _place(self) -> Array:
        return self._flat([p.to_host() for p in self._parameters()])

    def _gradient(self) -> Array:
        return self._flat(
            [np.zeros(p.shape) if p.grad is None else p.grad.to_host() for p in self._parameters()]
        )

    def _flat(self, arrays: list[Array]) -> Array:
        """One vector of them all, in the widest dtype of the parameters, float32 at least."""
        wide = np.result_type(*(DTYPES[DTYPES[p.dtype].wide].numpy for p in self._parameters()))
        return np.concatenate([array.reshape(-1).astype(wide) for array in arrays])

    def _saved_states(self, number: Mapping[int, int]) -> dict[int, dict[str, Any]]:
        return {0: {name: _copied(value) for name, value in self._state.items()}}

    def _load_states(self, held: Mapping[int, Mapping[str, Any]]) -> None:
        entry = held.get(id(self._parameters()[0]), {})
        self._state = {name: _copied(entry[name]) for name in _STATE if name in entry}


def _above(vector: Array, limit: float) -> bool:
    """Whether a component is larger; NaN is."""
    return not float(np.abs(vector).max(initial=0)) <= limit


def _copied(value: Any) -> Any:
    """A part of the state, PyTorch's too, as numbers and arrays of its own."""
    if isinstance(value, list):
        return [_copied(item) for item in value]
    array = np.asarray(value)
    return array.copy() if array.ndim else array.item()
