"""`nn.utils.prune`: masks on parameters, computed again before each call of their layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError, AttributeValueError, message

#: Of a module: name -> the method that pruned it last, and its hook.
_PLACE = "_prunings"


class BasePruningMethod(ABC):
    """How to prune: a subclass has `compute_mask(t, default_mask)`.

    >>> class EveryOther(nn.utils.prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         mask = default_mask.clone()
    ...         mask.view(-1)[::2] = 0
    ...         return mask
    >>> layer = nn.Linear(2, 1, bias=False)
    >>> method = EveryOther.apply(layer, "weight")
    >>> layer.weight_mask.tolist(), layer.weight_mask.sum().item()
    ([[0.0, 1.0]], 1.0)

    Where something is pruned already, `PRUNING_TYPE` says what the method sees of it:
    "unstructured" the elements that are left, "structured" the slices along `dim` that are not all
    0, "global" all.
    """

    PRUNING_TYPE: ClassVar[str] = "global"
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        """1 where an element stays, else 0; `t` says how important they are."""

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Any) -> Any:
        """The pruned parameter."""
        return getattr(module, self._tensor_name + "_mask") * getattr(
            module, self._tensor_name + "_orig"
        )

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter: it becomes `name_orig`, with a buffer `name_mask`, and `name` is their
        product. Further arguments make the method; `importance_scores` stand for the values."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        value = getattr(module, name)
        scores = value.detach() if importance_scores is None else importance_scores.detach()
        if scores.shape != value.shape:
            given = f"importance_scores of shape {scores.shape}"
            raise ArgumentError(message("prune", given, f"{value.shape}"))
        held = module.__dict__.setdefault(_PLACE, {})
        before = getattr(module, name + "_mask") if name in held else ag.ones_like(value).detach()
        mask = method._further(scores, before)
        if name in held:
            held.pop(name)[1].remove()
            setattr(module, name + "_mask", mask)
        else:
            if name not in module._parameters:
                given = f"{type(module).__name__} without a parameter {name!r}"
                raise ArgumentError(message("prune", given, "one of its own"))
            original = module._parameters[name]
            delattr(module, name)
            module.register_parameter(name + "_orig", original)
            module.register_buffer(name + "_mask", mask)
        method(module, None)
        held[name] = method, module.register_forward_pre_hook(method)
        return method

    def _further(self, t: Any, mask: Any) -> Any:
        """The mask of what an earlier mask has left."""
        if self.PRUNING_TYPE == "global":
            return self.compute_mask(t, mask)
        if self.PRUNING_TYPE == "unstructured":
            left = ag.eq(mask, 1)
        else:
            dim = self.dim % t.ndim  # type: ignore[attr-defined]
            left = ag.ne(ag.sum(mask, tuple(i for i in range(t.ndim) if i != dim)), 0)
            left = (*[slice(None)] * dim, left)
        further = mask.clone()
        further[left] = self.compute_mask(t[left], mask[left]).astype(mask.dtype)
        return further

    def prune(self, t: Any, default_mask: Any = None, importance_scores: Any = None) -> Any:
        """A tensor with the mask on it, of which nothing is kept."""
        mask = ag.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, mask)

    def remove(self, module: Any) -> None:
        """`remove(module, name)`."""
        remove(module, self._tensor_name)


class Identity(BasePruningMethod):
    """Prunes nothing."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask


class _Amount(BasePruningMethod):
    def __init__(self, amount: float) -> None:
        whole = isinstance(amount, int) and not isinstance(amount, bool)
        if not (amount >= 0 if whole else isinstance(amount, float) and 0 <= amount <= 1):
            expected = "a share from 0.0 to 1.0, or a number"
            raise AttributeValueError(message("prune", f"amount={amount!r}", expected))
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of some are pruned."""
        count = self.amount if isinstance(self.amount, int) else round(self.amount * size)
        if count > size:
            raise AttributeValueError(message("prune", f"amount={count}", f"at most {size}"))
        return count

    def _without_least(self, scores: Any, dim: int | None, mask: Any) -> Any:
        """The mask with 0 where scores are least; `dim`: of slices along it."""
        count = self._count(scores.numel())
        if not count:
            return mask
        kept = ag.ones_like(scores).detach()
        kept[ag.topk(scores, count, largest=False).indices] = 0
        if dim is None:
            return mask * kept.reshape(mask.shape)
        return mask * kept.reshape([-1 if i == dim % mask.ndim else 1 for i in range(mask.ndim)])


class RandomUnstructured(_Amount):
    """Prunes elements at random."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return self._without_least(ag.rand_like(t).reshape(-1), None, default_mask)


class L1Unstructured(_Amount):
    """Prunes the elements nearest to 0."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return self._without_least(ag.abs(t).reshape(-1), None, default_mask)


class RandomStructured(_Amount):
    """Prunes slices along a dimension at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Any) -> Any:
        return ag.rand(t.shape[self.dim], device=t.device)

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return self._without_least(self._scores(t), self.dim, default_mask)


class LnStructured(RandomStructured):
    """Prunes the slices along a dimension with the smallest n-norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Any) -> Any:
        return ag.norm(t, self.n, tuple(i for i in range(t.ndim) if i != self.dim % t.ndim))


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def compute_mask(self, t: Any, default_mask: Any) -> Any:
        return default_mask * self.mask.to(default_mask.device).astype(default_mask.dtype)


# -- functions, which return the module ----------------------------------------------------


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune elements at random: a share, or a number of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Prune the elements nearest to 0, or of the least importance.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(4, 5), "weight", amount=0.2)
    >>> sorted(layer.state_dict()), layer.weight_mask.sum().item()
    (['bias', 'weight_mask', 'weight_orig'], 16.0)
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune slices along a dimension at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the slices along a dimension with the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Any) -> Any:
    """Prune where a mask is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Sequence[tuple[Any, str]],
    pruning_method: Callable[..., BasePruningMethod],
    importance_scores: Mapping[tuple[Any, str], Any] | None = None,
    **kwargs: Any,
) -> None:
    """Prune elements of several parameters as if they were one: `(module, name)` of each."""
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        given = f"a {method.PRUNING_TYPE} pruning_method"
        raise AttributeValueError(message("global_unstructured", given, "an unstructured one"))
    values = [getattr(module, name).detach() for module, name in parameters]
    scores = [(importance_scores or {}).get(place, value)
              for place, value in zip(parameters, values, strict=True)]  # fmt: skip
    masks = [getattr(module, name + "_mask", None) for module, name in parameters]
    whole = ag.cat([ag.ones_like(x).reshape(-1) if m is None else m.reshape(-1)
                    for m, x in zip(masks, values, strict=True)])  # fmt: skip
    pruned = method._further(ag.cat([x.detach().reshape(-1) for x in scores]), whole.detach())
    parts = ag.split(pruned, [int(x.size) for x in values])
    for (module, name), value, part in zip(parameters, values, parts, strict=True):
        custom_from_mask(module, name, part.reshape(value.shape))


def remove(module: Any, name: str) -> Any:
    """Let a pruned parameter be a plain one again, with zeros where it was pruned."""
    method, handle = module.__dict__.get(_PLACE, {}).pop(name, (None, None))
    if method is None:
        given = f"{type(module).__name__} without a pruned {name!r}"
        raise ArgumentError(message("prune.remove", given, "one that is pruned"))
    handle.remove()
    original = module._parameters[name + "_orig"]
    with ag.no_grad():
        original.copy_(method.apply_mask(module))
    for attribute in (name, name + "_orig", name + "_mask"):
        delattr(module, attribute)
    module.register_parameter(name, original)
    return module


def is_pruned(module: Any) -> bool:
    """Whether something of a module, or of one below it, is pruned."""
    return any(child.__dict__.get(_PLACE) for child in module.modules())
