"""ZeroRedundancyOptimizer: each process keeps the optimizer's states of a part of the parameters.

"ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", arXiv 1910.02054, stage 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, final

import numpy as np

import netcl_core.autograd as ag
from netcl_core import Tensor, capturing, optim
from netcl_core.errors import ArgumentError, ReplayError, message
from netcl_plugin_mpi.parallel import host_view
from netcl_plugin_mpi.processes import DistributedError, current

_WHO: Final = "ZeroRedundancyOptimizer"


@final
class ZeroRedundancyOptimizer(optim.Optimizer):  # type: ignore[misc]  # known when plugins are
    """An optimizer whose states are shared out over the processes.

    >>> distributed.init()
    >>> model = distributed.DistributedDataParallel(nc.nn.Linear(2, 1))
    >>> optimizer = distributed.ZeroRedundancyOptimizer(model.parameters(), optim.Adam, lr=0.1)
    >>> model(nc.ones(4, 2)).sum().backward()
    >>> optimizer.step()

    Each process changes the parameters whose states it has, then sends them to the others: of n
    processes each has about 1/n of the states, and the parameters are as by the optimizer
    alone. Every parameter is in one process as a whole, so one that is larger than all others
    together bounds what is saved.

    Every process calls `step` and `consolidate_state_dict`. Schedules of learning rates, clipping
    and GradScaler take it as any optimizer.

    Args:
        params: As for the optimizer; the same in every process, and the same gradients.
        optimizer_class: Any but LBFGS, which needs all parameters at once.
        defaults: The optimizer's settings.

    Raises:
        DistributedError: `init()` was not called, or the processes' parameters differ.
        ArgumentError: LBFGS, or what the optimizer refuses.
    """

    def __init__(self, params: Iterable[Any], optimizer_class: type[Any], **defaults: Any) -> None:
        self._job = current(_WHO)
        if issubclass(optimizer_class, optim.LBFGS):
            given = "LBFGS, whose step depends on all parameters at once"
            raise ArgumentError(message(_WHO, given, "an optimizer such as Adam"))
        self._whole = optimizer_class(params, **defaults)  # for its settings; it has no states
        self.defaults = self._whole.defaults
        self.param_groups = self._whole.param_groups
        about = [[(p.shape, p.dtype) for p in group["params"]] for group in self.param_groups]
        self._job.agree(_WHO, f"{optimizer_class.__name__} of {about}")
        self._loads = [0] * self._job.size
        self._parts: list[list[Tensor]] = [[] for _ in self._loads]
        mine = [self._own_of(group) for group in self.param_groups]
        self._own = optimizer_class(mine, **defaults)
        self._gathered: dict[int, Any] | None = None

    def _own_of(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """A group's part for this process, once its parameters are given out, the large first."""
        owners = {}
        for p in sorted(group["params"], key=lambda p: p.size, reverse=True):
            owner = owners[id(p)] = self._loads.index(min(self._loads))
            self._loads[owner] += p.size
            self._parts[owner].append(p)
        own = [p for p in group["params"] if owners[id(p)] == self._job.rank]
        return {**_settings(group), "params": own}

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """As the optimizer's; every process calls it."""
        super().add_param_group(param_group)
        self._own.add_param_group(self._own_of(self.param_groups[-1]))

    def step(self, closure: Any = None, **more: Any) -> Any:
        """Update the parameters, each in one process, and take over those of the others.

        Args:
            closure: Computes the loss and its gradients anew.
            more: Goes to the optimizer's `step`.

        Returns:
            What the closure returned. Raises ReplayError inside a capture.
        """
        if capturing():
            given, remedy = "a step inside a capture", "Transfers are not replayed: run it eagerly"
            raise ReplayError(message(f"{_WHO}.step", given, "one outside of captures", remedy))
        loss = None
        if closure is not None:
            with ag.enable_grad():
                loss = closure()
        for mine, group in zip(self._own.param_groups, self.param_groups, strict=True):
            mine.update(_settings(group))
        self._own.step(**more)
        self._gathered = None
        self._exchange()
        return loss

    def _exchange(self) -> None:
        """Overwrite the parameters of other processes with theirs."""
        rank = self._job.rank
        views = [[host_view(p) for p in part] for part in self._parts]
        flats = [np.empty(sum(view.nbytes for view in part), np.uint8) for part in views]
        if views[rank]:
            rows = [np.ascontiguousarray(view).reshape(-1).view(np.uint8) for view in views[rank]]
            np.concatenate(rows, out=flats[rank])

        def transfer(world: Any) -> None:
            for root, flat in enumerate(flats):
                world.Bcast(flat, root=root)

        self._job.begin("the exchange of parameters", transfer).result()
        with ag.no_grad():
            for owner, part in enumerate(self._parts):
                start = 0
                for p, view in zip(part, views[owner], strict=True):
                    flat = flats[owner][start : start + view.nbytes]
                    start += view.nbytes
                    if owner != rank:
                        p.copy_(flat.view(view.dtype).reshape(p.shape))

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Gather the states in the process `to`, whose `state_dict()` then is the optimizer's."""
        number = {id(p): n for n, p in enumerate(self._parameters())}
        own = [number[id(p)] for group in self._own.param_groups for p in group["params"]]
        state = {own[n]: entry for n, entry in self._own.state_dict()["state"].items()}

        def transfer(world: Any) -> Any:
            return world.gather(state, root=to)

        seen = self._job.begin("consolidate_state_dict", transfer).result()
        if seen is not None:
            self._gathered = dict(sorted(item for part in seen for item in part.items()))

    def _saved_states(self, number: Mapping[int, int]) -> dict[int, dict[str, Any]]:
        if self._gathered is None:
            given = f"rank {self._job.rank}, which has its own states alone"
            remedy = "Call consolidate_state_dict(to=rank) in every process first"
            who = f"{_WHO}.state_dict"
            raise DistributedError(message(who, given, "the states of all processes", remedy))
        return self._gathered

    def _load_states(self, held: Mapping[int, Mapping[str, Any]]) -> None:
        own = [p for group in self._own.param_groups for p in group["params"]]
        state = {n: held[id(p)] for n, p in enumerate(own) if id(p) in held}
        groups = self._own.state_dict()["param_groups"]
        self._own.load_state_dict({"state": state, "param_groups": groups})
        self._gathered = None

    def _states(self, group: Mapping[str, Any]) -> Any:
        return self._whole._states(group)

    def _check(self, group: Mapping[str, Any]) -> None:
        self._whole._check(group)


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in group.items() if name not in ("params", "param_names")}
