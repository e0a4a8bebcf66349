"""Adafactor and Muon: optimizers whose steps look at whole matrices, made of ops."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import DTYPES, Tensor, before_replay
from netcl_core.errors import AttributeValueError, ReplayError, message
from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.optimizer import Closure, Optimizer, evaluated
from netcl_plugin_optim.settings import AtLeast0, SettingLimit, settings

#: A group's entries that are no settings of a step.
_NAMES: Final = ("params", "param_names")
_ADJUSTED: Final = ("original", "match_rms_adamw")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_pair(value: Any) -> bool:
    if not (isinstance(value, (list, tuple)) and len(value) == 2):
        return False
    numbers = value[value[0] is None :]
    return all(_is_number(number) and number >= 0 for number in numbers)


AtMost0: TypeAlias = Annotated[
    float, SettingLimit("a number <= 0", lambda value: _is_number(value) and value <= 0)
]
AtLeast1: TypeAlias = Annotated[
    float, SettingLimit("a number >= 1", lambda value: _is_number(value) and value >= 1)
]
Epsilons: TypeAlias = Annotated[
    tuple[float | None, float],
    SettingLimit("two numbers >= 0, the first of which may be None", _is_pair),
]
Three: TypeAlias = Annotated[
    tuple[float, float, float],
    SettingLimit(
        "three numbers",
        lambda value: (
            isinstance(value, (list, tuple)) and len(value) == 3 and all(map(_is_number, value))
        ),
    ),
]
Turns: TypeAlias = Annotated[
    int,
    SettingLimit("an int from 0 to 99", lambda value: isinstance(value, int) and 0 <= value < 100),
]


class _MatrixOptimizer(Optimizer):
    """An optimizer that changes one parameter after the other, by ops on its device.

    Nothing is read by the host. States are float32, of float64 parameters float64. A 16-bit
    parameter is rounded after each step, as in PyTorch.
    """

    def _begin(
        self, params: Iterable[Any], defaults: dict[str, Any], limits: Mapping[str, SettingLimit]
    ) -> None:
        self._held: dict[int, dict[str, Tensor]] = {}
        super()._begin(params, defaults, limits)

    def step(self, closure: Closure | None = None) -> Any:
        """Update every parameter that has a gradient; does not wait for the device.

        Inside a capture each replay is a step too, with the settings of the capture.

        Args:
            closure: Computes the loss and its gradients anew; called once, with gradients on.

        Returns:
            What the closure returned.
        """
        loss = None if closure is None else evaluated(type(self).__name__, closure)
        with ag.no_grad():
            for group in self.param_groups:
                before_replay(partial(self._check_replay, group, _settings(group)))
                for p in group["params"]:
                    if p.grad is not None and p.size:
                        self._step(group, p, p.grad.detach().astype(_wide(p)))
        return loss

    @abstractmethod
    def _step(self, group: Group, p: Tensor, g: Any) -> None:
        """Change a parameter by its gradient, which has the dtype of the states."""

    @abstractmethod
    def _fresh(self, p: Tensor) -> dict[str, tuple[int, ...]]:
        """The shapes of a parameter's states, which begin as zeros."""

    def _state(self, p: Tensor) -> dict[str, Tensor]:
        if id(p) not in self._held:
            self._held[id(p)] = {
                name: Tensor.zeros(shape, _wide(p), p.device)
                for name, shape in self._fresh(p).items()
            }
        return self._held[id(p)]

    def _check_replay(self, group: Group, captured: dict[str, Any]) -> None:
        """Raise ReplayError if a captured step has other settings than the group has now."""
        if _settings(group) != captured:
            who, given = f"{type(self).__name__}.step", f"a replay with {_settings(group)}"
            expected = f"{captured}, as captured"
            raise ReplayError(message(who, given, expected, "Capture the step anew"))

    def _states(self, group: Group) -> tuple[str, ...]:
        return ()

    def _saved_states(self, number: Mapping[int, int]) -> dict[int, dict[str, Any]]:
        return {
            number[id(p)]: {
                name: int(x.item()) if name == "step" else x.to_host()
                for name, x in self._held[id(p)].items()
            }
            for p in self._parameters()
            if id(p) in self._held
        }

    def _load_states(self, held: Mapping[int, Mapping[str, Any]]) -> None:
        states: dict[int, dict[str, Tensor]] = {}
        for p in self._parameters():
            if id(p) not in held:
                continue
            states[id(p)] = {}
            for name, shape in self._fresh(p).items():
                value = np.asarray(held[id(p)][name], DTYPES[_wide(p)].numpy)
                if value.shape != shape:
                    given = f"{name} of shape {value.shape} for a parameter of {p.shape}"
                    raise self._misfit(given, f"{shape}")
                states[id(p)][name] = Tensor.from_host(value.copy(), p.device)
        self._held = states


def _wide(p: Tensor) -> str:
    return DTYPES[p.dtype].wide


def _settings(group: Group) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in _NAMES}


def _toward(old: Any, new: Any, share: Any) -> Any:
    """A mean that moves by a share of the way."""
    return ag.add(old, ag.mul(ag.sub(new, old), share))


@final
class Adafactor(_MatrixOptimizer):
    """Adafactor (Shazeer, Stern 2018, arXiv:1804.04235) with PyTorch's defaults and formulas.

    Of a matrix (R, C) the mean squares of the gradient take R + C numbers.

    >>> w = nc.tensor([[4.0, -2.0]], requires_grad=True)
    >>> optimizer = optim.Adafactor([w], lr=0.1)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.numpy().round(4)
    array([[ 3.6838, -1.6838]], dtype=float32)

    Args:
        params: Tensors, or groups of them.
        lr: The largest step relative to a parameter's size.
        beta2_decay: The power of the count of steps by which means of squares forget.
        eps: The least root of a mean square, None for the dtype's own; the least size of a
            parameter.
        d: How large an update may be, in its root mean square.
        weight_decay: What share of a parameter a step of 1 takes off.
        maximize: Whether the objective is to rise.
    """

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-2,
        beta2_decay: AtMost0 = -0.8,
        eps: Epsilons = (None, 1e-3),
        d: AtLeast1 = 1.0,
        weight_decay: AtLeast0 = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

    def _fresh(self, p: Tensor) -> dict[str, tuple[int, ...]]:
        if p.ndim < 2:
            return {"step": (), "variance": p.shape}
        rows, columns = (*p.shape[:-1], 1), (*p.shape[:-2], 1, p.shape[-1])
        return {"step": (), "row_var": rows, "col_var": columns}

    def _step(self, group: Group, p: Tensor, g: Any) -> None:
        state, lr, least = self._state(p), float(group["lr"]), _least(group, p)
        g = ag.neg(g) if group["maximize"] else g
        state["step"].copy_(ag.add(state["step"], 1.0))
        share = ag.pow(state["step"], float(group["beta2_decay"]))
        longest = ag.clamp(ag.rsqrt(state["step"]), max=lr)
        place = p.detach().astype(_wide(p))
        length = ag.mul(ag.clamp(_root_mean_square(place), min=float(group["eps"][1])), longest)
        if group["weight_decay"]:
            place = ag.mul(place, 1 - lr * group["weight_decay"])
        squares = ag.clamp(self._squares(state, g, share, least), min=least * least)
        update = ag.mul(ag.rsqrt(squares), g)
        limit = ag.clamp(ag.div(_root_mean_square(update), float(group["d"])), min=1.0)
        p.copy_(ag.sub(place, ag.mul(update, ag.div(length, limit))).astype(p.dtype))

    def _squares(self, state: dict[str, Tensor], g: Any, share: Any, least: float) -> Any:
        """The estimate of the mean squares of the gradient, moved by it."""
        if "variance" in state:
            state["variance"].copy_(_toward(state["variance"], ag.square(g), share))
            return state["variance"]
        for name, axis in (("row_var", -1), ("col_var", -2)):
            state[name].copy_(_toward(state[name], ag.mean(ag.square(g), axis, True), share))
        rows = state["row_var"]
        total = ag.clamp(ag.mean(rows, -2, True), min=least)
        return ag.div(ag.mul(rows, state["col_var"]), total)


def _root_mean_square(x: Any) -> Any:
    return ag.sqrt(ag.mean(ag.square(x)))


def _least(group: Group, p: Tensor) -> float:
    given = group["eps"][0]
    if given is not None:
        return float(given)
    return 2.0**-7 if p.dtype == "bfloat16" else float(np.finfo(DTYPES[p.dtype].numpy).eps)


@final
class Muon(_MatrixOptimizer):
    """Muon (Jordan 2024, kellerjordan.github.io/posts/muon) with PyTorch's defaults and formulas.

    Steps along the momentum made orthogonal, by an iteration of Newton and Schulz in bfloat16. It
    is for the matrices of hidden layers; give all else to AdamW.

    >>> w = nc.tensor([[4.0, -2.0], [1.0, 3.0]], requires_grad=True)
    >>> optimizer = optim.Muon([w], lr=0.1)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> bool(ag.sum(ag.square(w)).item() < 30)
    True

    Args:
        params: Matrices, or groups of them.
        lr: The length of a step.
        weight_decay: What share of a parameter a step of 1 takes off.
        momentum: How slowly the mean of the gradients moves.
        nesterov: Whether the gradient counts once more after it.
        ns_coefficients: Of the iteration's polynomial, for x, x^3 and x^5.
        eps: The least norm that the momentum is divided by.
        ns_steps: Turns of the iteration.
        adjust_lr_fn: How the step depends on a matrix (A, B): "original", or None, for
            sqrt(max(1, A / B)); "match_rms_adamw" for 0.2 * sqrt(max(A, B)).

    Raises AttributeValueError for a parameter that is no matrix.
    """

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 1e-3,
        weight_decay: AtLeast0 = 0.1,
        momentum: AtLeast0 = 0.95,
        nesterov: bool = True,
        ns_coefficients: Three = (3.4445, -4.7750, 2.0315),
        eps: AtLeast0 = 1e-7,
        ns_steps: Turns = 5,
        adjust_lr_fn: str | None = None,
    ) -> None: ...

    def _check(self, group: Group) -> None:
        super()._check(group)
        if group["adjust_lr_fn"] not in (None, *_ADJUSTED):
            given = f"adjust_lr_fn={group['adjust_lr_fn']!r}"
            raise AttributeValueError(message("Muon", given, f"{', '.join(_ADJUSTED)} or None"))
        for p in group["params"]:
            if p.ndim != 2:
                given = f"a parameter of shape {p.shape}"
                raise AttributeValueError(message("Muon", given, "a matrix", "Give it to AdamW"))

    def _fresh(self, p: Tensor) -> dict[str, tuple[int, ...]]:
        return {"momentum_buffer": p.shape}

    def _step(self, group: Group, p: Tensor, g: Any) -> None:
        mean, lr, momentum = (
            self._state(p)["momentum_buffer"],
            float(group["lr"]),
            group["momentum"],
        )
        mean.copy_(_toward(mean, g, 1 - momentum))
        update = _orthogonal(_toward(g, mean, momentum) if group["nesterov"] else mean, group)
        high, wide = p.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            step = lr * 0.2 * math.sqrt(max(high, wide))
        else:
            step = lr * math.sqrt(max(1, high / wide))
        place = ag.mul(p.detach().astype(_wide(p)), 1 - lr * group["weight_decay"])
        p.copy_(ag.sub(place, ag.mul(update.astype(_wide(p)), step)).astype(p.dtype))


def _orthogonal(x: Any, group: Group) -> Any:
    """A matrix with its singular values near 1, in bfloat16."""
    a, b, c = map(float, group["ns_coefficients"])
    high = x.shape[0] > x.shape[1]
    orthogonal = _rounded(ag.t(x) if high else x)
    norm = _rounded(ag.sqrt(ag.sum(ag.square(orthogonal))))
    orthogonal = _rounded(ag.div(orthogonal, ag.clamp(norm, min=float(group["eps"]))))
    for _ in range(group["ns_steps"]):
        gram = _rounded(ag.matmul(orthogonal, ag.t(orthogonal)))
        inner = _rounded(ag.add(ag.mul(gram, b), ag.mul(ag.matmul(gram, gram), c)))
        orthogonal = _rounded(ag.add(ag.mul(orthogonal, a), ag.matmul(inner, orthogonal)))
    return ag.t(orthogonal) if high else orthogonal


def _rounded(x: Any) -> Any:
    """float32 numbers that bfloat16 has, so that what comes of them is rounded once."""
    return x.astype("bfloat16").astype("float32")
