"""Optimizer: the base of all: groups of parameters with their settings, and their gradients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from netcl_core import Tensor, enable_grad, tensor
from netcl_core.errors import ArgumentError, message
from netcl_plugin_optim.groups import Group, add_group, groups_of
from netcl_plugin_optim.settings import SettingLimit, check
from netcl_plugin_optim.slabs import OptimizerStateError

#: What schedules of learning rates keep in a group.
_KEPT: Final = ("initial_lr", "max_lr", "min_lr", "base_momentum", "max_momentum")

Closure = Callable[[], Any]


class Optimizer:
    """Changes parameters from their gradients.

    `param_groups` is a list of dicts with `params` and the settings of these
    parameters, which may be changed between steps; `lr` reads and sets the learning
    rate of all groups. Parameters without a gradient are left as they are.

    >>> w, b = nc.tensor([4.0], requires_grad=True), nc.tensor([1.0], requires_grad=True)
    >>> optimizer = optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.5}], lr=0.1)
    >>> for group in optimizer.param_groups:
    ...     group["weight_decay"] = 0.01
    >>> [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups]
    [(0.1, 0.01), (0.5, 0.01)]

    Args:
        params: Tensors, pairs of a name and a tensor (as `model.named_parameters()` gives), or
            dicts with `params` and settings of their own.
        defaults: Settings of the groups that do not say otherwise.
        more: More settings of the groups, by their names.

    An optimizer of your own has a `step`; what it keeps in `state` is saved and loaded:

    >>> class SignDescent(optim.Optimizer):
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 self.state[p]["steps"] = self.state[p].get("steps", 0) + 1
    ...                 p.data.add_(p.grad.sign(), alpha=-group["lr"])
    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = SignDescent([w], dict(lr=0.5))
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.tolist(), optimizer.state_dict()["state"]
    ([3.5, -1.5], {0: {'steps': 1}})
    """

    #: A subclass written as PyTorch's are keeps here what it remembers of each parameter.
    state: defaultdict[Any, dict[str, Any]]

    def __init__(
        self, params: Iterable[Any], defaults: Mapping[str, Any] | None = None, **more: Any
    ) -> None:
        self.state = defaultdict(dict)
        self._begin(params, {**(defaults or {}), **more}, {})

    def _begin(
        self, params: Iterable[Any], defaults: dict[str, Any], limits: Mapping[str, SettingLimit]
    ) -> None:
        """What the constructors do, which are made by `settings`."""
        self.defaults = defaults
        self._limits = limits
        self.param_groups: list[Group] = []
        for given in groups_of(type(self).__name__, params):
            self.add_param_group(given)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Take on a dict with `params` and settings; the others are the optimizer's defaults.

        >>> w, b = nc.zeros(2, requires_grad=True), nc.zeros(3, requires_grad=True)
        >>> optimizer = optim.SGD([w], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]

        Raises:
            ArgumentError: No leaf tensors, or one that is in a group already.
            AttributeValueError: A setting that cannot be used. Either way nothing changes.
        """
        group = add_group(type(self).__name__, self.param_groups, param_group, self.defaults)
        self._check(group)
        self.param_groups.append(group)

    def _check(self, group: Group) -> None:
        """Raise AttributeValueError if a group's settings cannot be used."""
        check(type(self).__name__, self._limits, group)

    @property
    def lr(self) -> float:
        """The learning rate of the first group; setting it sets that of all groups."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self.param_groups:
            group["lr"] = value

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or replace them by zeros."""
        for p in self._parameters():
            if set_to_none or p.grad is None:
                p.grad = None
            else:
                p.grad = Tensor.zeros(p.shape, p.dtype, p.device)

    def step(self, closure: Any = None) -> Any:
        """Update every parameter that has a gradient; returns what the closure returns."""
        given = f"{type(self).__name__} has no step"
        remedy = "Write `def step(self, closure=None)`, or take an optimizer of optim"
        raise NotImplementedError(message("optim.Optimizer", given, "one of its own", remedy))

    def state_dict(self) -> dict[str, Any]:
        """Settings and states, with NumPy arrays, laid out as PyTorch's; waits for the device.

        `{"state": {i: {"step": n, <name>: array}}, "param_groups": [...]}`, where `i`
        counts the parameters through all groups. Of a 16-bit parameter the state also has
        the float32 "master" that its steps add up in. Those from before masters, and PyTorch's,
        have none, and load as well.
        """
        number = {id(p): i for i, p in enumerate(self._parameters())}
        groups = [
            {**group, "params": [number[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": self._saved_states(number), "param_groups": groups}

    def _saved_states(self, number: Mapping[int, int]) -> dict[int, dict[str, Any]]:
        """What each parameter holds, by its number, which is given by its id."""
        return {
            number[id(p)]: {name: _on_host(value) for name, value in self.state[p].items()}
            for p in self._parameters()
            if p in self.state
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over settings and states, PyTorch's too.

        Raises OptimizerStateError or AttributeValueError, and then changes nothing.
        """
        groups = state_dict["param_groups"]
        sizes = [len(group["params"]) for group in self.param_groups]
        given = [len(group["params"]) for group in groups]
        if given != sizes:
            raise self._misfit(f"groups of {given} parameters", f"groups of {sizes}")
        merged = [
            {**group, **{name: other[name] for name in (*self.defaults, *_KEPT) if name in other}}
            for group, other in zip(self.param_groups, groups, strict=True)
        ]
        for group in merged:
            self._check(group)
        held = self._matched(merged, state_dict["state"])
        self.param_groups = merged
        self._load_states(held)

    def _load_states(self, held: Mapping[int, Mapping[str, Any]]) -> None:
        """Take over the saved states, which are given by the ids of their parameters."""
        for p in self._parameters():
            entry = held.get(id(p), {})
            self.state[p] = {name: _beside(p, value) for name, value in entry.items()}

    def _states(self, group: Group) -> tuple[str, ...]:
        """The names of the states that each parameter of a group has, of its shape."""
        return ()

    def _matched(
        self, groups: list[Group], state: Mapping[Any, Mapping[str, Any]]
    ) -> dict[int, dict[str, Any]]:
        """The saved states by the id of their parameter, each checked for its shape."""
        params = [(p, group) for group in groups for p in group["params"]]
        held = {}
        for number, entry in state.items():
            if not 0 <= int(number) < len(params):
                raise self._misfit(f"a state of parameter {number}", f"{len(params)} parameters")
            p, group = params[int(number)]
            values = {name: value for name, value in entry.items() if value is not None}
            for name in (*self._states(group), "master"):
                if name in values and np.shape(values[name]) != p.shape:
                    given = f"{name} of parameter {number} has shape {np.shape(values[name])}"
                    raise self._misfit(given, f"{p.shape}")
            held[id(p)] = values
        return held

    def _misfit(self, given: str, expected: str) -> OptimizerStateError:
        who = f"{type(self).__name__}.load_state_dict"
        return OptimizerStateError(message(who, given, expected))

    def _parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={self.param_groups[0][k]!r}" for k in self.defaults)
        return f"{type(self).__name__}({len(self._parameters())} parameters, {settings})"


def _on_host(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


def _beside(p: Tensor, value: Any) -> Any:
    """A saved state on its parameter's device; PyTorch's tensors too."""
    if not hasattr(value, "__array__"):
        return value
    array = np.asarray(value)
    dtype = p.dtype if array.dtype.kind == "f" else None
    return tensor(array, dtype=dtype, device=p.device)


def evaluated(who: str, closure: Any) -> Any:
    """What a closure returns; it runs with gradients on."""
    if not callable(closure):
        given, expected = f"a {type(closure).__name__} as closure", "a function without arguments"
        raise ArgumentError(message(f"{who}.step", given, expected))
    with enable_grad():
        return closure()
