"""NAdam: Adam with a look ahead along the mean of the gradient."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from threading import Lock
from typing import Any, ClassVar, Final, final

from netcl_plugin_optim.groups import Group
from netcl_plugin_optim.means import TwoMeans, root_correction
from netcl_plugin_optim.powers import power
from netcl_plugin_optim.settings import AtLeast0, Betas, settings

#: A product of momenta that is smaller counts as 0: 1 minus it is 1.
_NOTHING: Final = 1e-18
_LOCK: Final = Lock()


@lru_cache(maxsize=64)
def _known(beta1: float, share: float) -> list[tuple[float, float]]:
    """The products of the momenta of no step, one, two ..., each with the share of its last."""
    return [(1.0, 1.0)]


def _product(beta1: float, share: float, steps: int) -> float:
    """That of the first `steps` momenta, by the multiplications that the kernel does."""
    with _LOCK:
        known = _known(beta1, share)
        while len(known) <= steps and known[-1][0] > 0:
            product, own = known[-1][0], known[-1][1] * share
            product *= beta1 * (1 - own / 2)
            known.append((0.0 if product < _NOTHING else product, own))
        return known[min(steps, len(known) - 1)][0]


@final
class NAdam(TwoMeans):
    """NAdam (Dozat 2016, "Incorporating Nesterov Momentum into Adam") with PyTorch's formulas.

    >>> w = nc.tensor([4.0, -2.0], requires_grad=True)
    >>> optimizer = optim.NAdam([w], lr=0.1)
    >>> ag.sum(ag.square(w)).backward()
    >>> optimizer.step()
    >>> w.numpy().round(3)
    array([ 3.894, -1.894], dtype=float32)

    The product of the momenta (`mu_product`) follows from the settings of now, and is the same as
    PyTorch's unless `betas` or `momentum_decay` change while it trains.

    Args:
        params: Tensors, pairs of a name and a tensor, or dicts with `params` and settings of
            their own.
        lr: The learning rate.
        betas: The decay rates of the means of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: The L2 penalty's factor, added to the gradient.
        momentum_decay: How fast the momentum rises to its full size.
        decoupled_weight_decay: Let the decay bypass the means, as `AdamW` does.
        maximize: Go up the gradient.
    """

    template: ClassVar[str] = "optim/nadam.cl.j2"

    @settings()
    def __init__(
        self,
        params: Iterable[Any],
        lr: AtLeast0 = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: AtLeast0 = 1e-8,
        weight_decay: AtLeast0 = 0.0,
        momentum_decay: AtLeast0 = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...

    def _counted(self, group: Group, steps: int) -> dict[str, float]:
        lr, beta1, share = group["lr"], group["betas"][0], _share(group)
        mu, mu_next = (beta1 * (1 - power(share, k) / 2) for k in (steps, steps + 1))
        product = _product(beta1, share, steps)
        return {
            "gradient_factor": lr * (1 - mu) / (1 - product),
            "mean_factor": lr * mu_next / (1 - product * mu_next),
            "root_correction": root_correction(group, steps),
        }

    def _counted_from(self, group: Group) -> dict[str, float]:
        return {**super()._counted_from(group), "kept_share": _share(group)}

    def _extras(self, group: Group, steps: int) -> dict[str, Any]:
        return {"mu_product": _product(group["betas"][0], _share(group), steps)}


def _share(group: Group) -> float:
    """How much each step keeps of what the momentum lacks."""
    return float(0.96 ** group["momentum_decay"])
