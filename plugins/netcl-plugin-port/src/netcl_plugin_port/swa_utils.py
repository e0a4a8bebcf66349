"""`optim.swa_utils`: averages of a model's parameters in a copy of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import netcl_core as nc
from netcl_core import nn
from netcl_core.errors import AttributeValueError, message

#: `(averages, parameters, how many were averaged)`, which changes the averages.
Average = Callable[[Sequence[Any], Sequence[Any], Any], None]


def get_ema_multi_avg_fn(decay: float = 0.999) -> Average:
    """What moves averages towards parameters by `1 - decay` of the way."""
    if not 0 <= decay <= 1:
        given = f"decay={decay!r}"
        raise AttributeValueError(message("get_ema_multi_avg_fn", given, "0 to 1"))

    def average(averages: Sequence[Any], parameters: Sequence[Any], count: Any) -> None:
        for mean, each in zip(averages, parameters, strict=True):
            mean.copy_(mean * decay + each * (1 - decay))

    return average


def get_swa_multi_avg_fn() -> Average:
    """What makes averages the means of all parameters so far."""

    def average(averages: Sequence[Any], parameters: Sequence[Any], count: Any) -> None:
        share = 1 / (int(count) + 1)
        for mean, each in zip(averages, parameters, strict=True):
            mean.copy_(mean + (each - mean) * share)

    return average


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """The same of one parameter, whose average it returns."""
    return lambda mean, each, count: mean * decay + each * (1 - decay)


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """The mean of all values of one parameter so far."""
    return lambda mean, each, count: mean + (each - mean) / (int(count) + 1)


class AveragedModel(nn.Module):  # type: ignore[misc]  # known when plugins are
    """A copy of a model whose parameters are means of the model's.

    (Izmailov et al. 2018, arXiv:1803.05407; `optim.EMA` keeps averages without a copy)

    >>> model = nc.nn.Linear(1, 1)
    >>> average = optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 3.0):
    ...     _ = nc.nn.init.constant_(model.weight, value)
    ...     average.update_parameters(model)
    >>> average.module.weight.item(), average.n_averaged.item()
    (2.0, 2)

    Args:
        model: What is copied.
        device: Where the copy goes; None: where the model is.
        avg_fn: `(average, parameter, count) -> average`; default: the mean of all.
        multi_avg_fn: The same for all at once: `get_ema_multi_avg_fn(0.999)`.
        use_buffers: Whether floating buffers are averaged, too; else they are copied as they are.
    """

    def __init__(
        self,
        model: Any,
        device: Any = None,
        avg_fn: Callable[[Any, Any, Any], Any] | None = None,
        multi_avg_fn: Average | None = None,
        use_buffers: bool = False,
    ) -> None:
        if avg_fn is not None and multi_avg_fn is not None:
            given = "avg_fn and multi_avg_fn"
            raise AttributeValueError(message("AveragedModel", given, "one of them"))
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", nc.tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Any) -> None:
        """Let the averages follow a model as it is now."""
        with nc.no_grad():
            pairs = list(zip(self._averaged(self.module), self._averaged(model), strict=True))
            count = self.n_averaged
            if not count.item():
                for mean, each in pairs:
                    mean.copy_(each)
            elif self.avg_fn is None:
                average = self.multi_avg_fn or get_swa_multi_avg_fn()
                floating = [pair for pair in pairs if pair[0].is_floating_point()]
                if floating:
                    means, values = zip(*floating, strict=True)
                    average(means, values, count)
            else:
                for mean, each in pairs:
                    mean.copy_(self.avg_fn(mean, each, count))
            if not self.use_buffers:
                for mine, each in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.copy_(each)
            count.add_(1)

    def _averaged(self, model: Any) -> Iterable[Any]:
        found = list(model.parameters())
        return [*found, *model.buffers()] if self.use_buffers else found


def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Set the running statistics of batch norms to the means over all batches of a loader."""
    norms = {m: m.momentum for m in model.modules() if hasattr(m, "running_mean")}
    norms = {m: momentum for m, momentum in norms.items() if m.running_mean is not None}
    if not norms:
        return
    for each in norms:
        each.reset_running_stats()
        each.momentum = None
    training = model.training
    model.train()
    with nc.no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    for each, momentum in norms.items():
        each.momentum = momentum
    model.train(training)


@final
class SWALR(nc.optim.lr_scheduler.LRScheduler):  # type: ignore[misc]  # known when plugins are
    """Anneals each group's rate to `swa_lr` within some epochs, and keeps it there.

    Args:
        optimizer: The optimizer.
        swa_lr: The last rate, or one for each group.
        anneal_epochs: In how many epochs.
        anneal_strategy: By a half "cos"ine or a "linear" course.
        last_epoch: The number of the epoch before the first.
    """

    def __init__(
        self,
        optimizer: Any,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            given = f"anneal_strategy={anneal_strategy!r}"
            raise AttributeValueError(message("SWALR", given, "'cos' or 'linear'"))
        groups = optimizer.param_groups
        rates = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        for group, rate in zip(groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _way(self, epoch: int) -> float:
        """How much of the way to the last rate is behind at an epoch."""
        t = min(1.0, max(0, epoch) / max(1, self.anneal_epochs))
        if self.anneal_epochs == 0:
            t = 1.0
        return (1 - math.cos(math.pi * t)) / 2 if self.anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        """The rates of the groups for this epoch."""
        before, now = self._way(self.last_epoch - 1), self._way(self.last_epoch)
        found = []
        for group in self.optimizer.param_groups:
            goal, rate = group["swa_lr"], group["lr"]
            start = goal if before == 1 else (rate - goal * before) / (1 - before)
            found.append(goal * now + start * (1 - now))
        return found
