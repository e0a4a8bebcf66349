"""`netcl_core.optim.swa_utils`: means of a model's parameters, as PyTorch's users write them.

`optim.EMA` does the same without a copy of the model, in one launch for 24 parameters.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, final

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import ArgumentError, AttributeValueError, message
from netcl_plugin_optim.schedules import LRScheduler

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
           "get_swa_multi_avg_fn", "update_bn"]  # fmt: skip

_Mean: TypeAlias = Callable[[Any, Any, Any], Any]


def get_ema_avg_fn(decay: float = 0.999) -> _Mean:
    """For `avg_fn`: the exponential mean `decay * average + (1 - decay) * parameter`."""
    if not 0 <= decay <= 1:
        raise AttributeValueError(message("get_ema_avg_fn", f"decay={decay}", "0 to 1"))
    return lambda average, now, count: decay * average + (1 - decay) * now


def get_swa_avg_fn() -> _Mean:
    """For `avg_fn`: the mean of all (Izmailov et al. 2018, arXiv:1803.05407)."""
    return lambda average, now, count: average + (now - average) / (count + 1)


def _of_several(mean: _Mean) -> Callable[[Any, Any, Any], None]:
    def update(averages: Any, parameters: Any, count: Any) -> None:
        with nc.no_grad():
            for average, now in zip(averages, parameters, strict=True):
                average.copy_(mean(average, now, count))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """For `multi_avg_fn`: the exponential means of several parameters, in place."""
    return _of_several(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """For `multi_avg_fn`: the means of all of several parameters, in place."""
    return _of_several(get_swa_avg_fn())


class AveragedModel(nn.Module):  # type: ignore[misc]  # of another plugin
    """A copy of a model whose parameters are means of the model's.

    >>> model = nn.Linear(2, 2)
    >>> averaged = optim.swa_utils.AveragedModel(model)
    >>> averaged.update_parameters(model)
    >>> averaged.n_averaged.item(), averaged(nc.ones(1, 2)).shape
    (1, (1, 2))

    Args:
        model: The model, of which `module` is a copy.
        device: Where the means lie.
        avg_fn: `(average, parameter, count)` gives the next average; by default `get_swa_avg_fn`.
        multi_avg_fn: Or `(averages, parameters, count)`, which changes the averages.
        use_buffers: Whether buffers are averaged as well, or else copied.
    """

    def __init__(
        self, model: Any, device: Any = None, avg_fn: _Mean | None = None,
        multi_avg_fn: Callable[[Any, Any, Any], None] | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        if avg_fn is not None and multi_avg_fn is not None:
            given = "avg_fn and multi_avg_fn"
            raise ArgumentError(message("AveragedModel", given, "one of them"))
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", nc.tensor(0, device))
        self.use_buffers = use_buffers
        self._update = multi_avg_fn or _of_several(avg_fn or get_swa_avg_fn())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the copy computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Let the means follow the model's parameters of now."""
        count = self.n_averaged.item()
        averages, now = [*self.module.parameters()], [*model.parameters()]
        buffers = [*self.module.buffers()], [*model.buffers()]
        if self.use_buffers:
            averages, now = averages + buffers[0], now + buffers[1]
        now = [x.detach().to(average.device) for x, average in zip(now, averages, strict=True)]
        with nc.no_grad():
            if count:
                self._update([x.detach() for x in averages], now, count)
            pairs = [] if count else [*zip(averages, now, strict=True)]
            pairs += [] if self.use_buffers else [*zip(*buffers, strict=True)]
            for average, x in pairs:
                average.copy_(x.detach())
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Compute the running means and variances of batch norms anew, by a pass over data.

    Of a batch that is a tuple or a list the first is the input; `device` is where it goes.
    """
    kinds = nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm
    norms = [module for module in model.modules() if isinstance(module, kinds)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    training = model.training
    model.train()
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all batches
        with nc.no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(x if device is None else x.to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(training)


@final
class SWALR(LRScheduler):
    """From the rate of now to `swa_lr` in some epochs, then constant.

    >>> optimizer = optim.SGD([nc.zeros(2, requires_grad=True)], lr=1.0)
    >>> schedule = optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2)
    >>> for _ in range(3):
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [0.5]

    Args:
        optimizer: The optimizer.
        swa_lr: The last rate, or one for each group.
        anneal_epochs: In how many steps.
        anneal_strategy: "cos" or "linear".
        last_epoch: As for all schedules.
    """

    def __init__(
        self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if anneal_strategy not in ("cos", "linear"):
            given = f"anneal_strategy={anneal_strategy!r}"
            raise AttributeValueError(message("SWALR", given, "'cos' or 'linear'"))
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            given = f"anneal_epochs={anneal_epochs!r}"
            raise AttributeValueError(message("SWALR", given, "an int of 0 or more"))
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        self.optimizer = optimizer
        rates = self._per_group("swa_lr", swa_lr)
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the last rate there is in that of a step."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self.anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        step = max(1, self.last_epoch) if self.anneal_epochs == 0 else self.last_epoch
        before, share = self._share(step - 1), self._share(step)
        rates = []
        for group in self.optimizer.param_groups:
            last = group["swa_lr"]
            first = last if before == 1 else (group["lr"] - before * last) / (1 - before)
            rates.append(last * share + first * (1 - share))
        return rates
