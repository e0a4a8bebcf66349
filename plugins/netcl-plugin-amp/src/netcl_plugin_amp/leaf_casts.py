"""LeafCasts: the casts of leaves in a block, one for all uses of a leaf, and many by one launch.

In which order a block has cast leaves is kept by its policy. When the next block casts one of them,
those that followed it are cast with it, as far as they are alike.
"""

from __future__ import annotations

import weakref
from threading import get_ident
from typing import Any, Final, TypeAlias, final

from netcl_core import Tensor, is_grad_enabled, plugins
from netcl_core.inspect.captures import captures
from netcl_core.inspect.recorded import apply, cast
from netcl_core.plugins.protocol import registry
from netcl_plugin_amp.policy import AmpPolicy

#: So many leaves are cast together at most: their gradients wait for each other.
_MOST: Final = 16
#: Leaves and dtypes in the order in which a block cast them, and the place of each there.
_Order: TypeAlias = tuple[list[tuple[Any, str]], dict[tuple[int, str], int]]
_orders: Final[weakref.WeakKeyDictionary[AmpPolicy, _Order]] = weakref.WeakKeyDictionary()


@final
class LeafCasts:
    """What a block under a policy has cast; without a policy nothing is cast ahead."""

    __slots__ = ("_ahead", "_before", "_kept", "_now", "_policy")

    def __init__(self, policy: AmpPolicy | None = None) -> None:
        #: By leaf, dtype, and what else a cast depends on: the leaf, its version, and the cast.
        self._kept: dict[Any, tuple[Any, int, Any]] = {}
        self._ahead: dict[Any, tuple[Any, int, Any]] = {}
        self._now: _Order = [], {}
        self._policy = policy
        self._before: _Order = ([], {}) if policy is None else _orders.get(policy, self._now)

    def of(self, x: Any, dtype: str) -> Any:
        """A leaf in a dtype."""
        leaf, capture = x.value, captures.get(get_ident()) if captures else None
        key = id(leaf), dtype, is_grad_enabled(), capture
        known = self._kept.get(key)
        if known is None or known[1] != leaf.version:
            ahead = self._ahead.pop(key, None)
            fits = ahead is not None and ahead[1] == leaf.version
            known = self._kept[key] = ahead if ahead and fits else self._cast(x, key)
            order, places = self._now
            if key[:2] not in places:
                places[key[:2]] = len(order)
                order.append((weakref.ref(leaf), dtype))
        return known[2]

    def close(self) -> None:
        """Let the policy's next block know the order of this one."""
        if self._policy is not None and self._now[0]:
            _orders[self._policy] = self._now

    def _cast(self, x: Any, key: Any) -> tuple[Any, int, Any]:
        """The cast of a leaf, and with it those of the leaves that followed it before."""
        leaf, dtype = x.value, key[1]
        group = self._following(leaf, dtype)
        fusion = registry.find("namespace", "fusion") if group else None
        if fusion is None:
            return leaf, leaf.version, cast(x, dtype, "autocast")
        shapes = tuple([each.shape for each in (leaf, *group)])
        together = plugins.namespace("fusion").cast_together
        first, *others = apply(together(shapes, leaf.dtype, dtype, leaf.device), [x, *group])
        for each, result in zip(group, others, strict=True):
            self._ahead[id(each), *key[1:]] = each, each.version, result
        return leaf, leaf.version, first

    def _following(self, leaf: Tensor, dtype: str) -> list[Tensor]:
        """The leaves that were cast after this one before, and can be cast with it."""
        order, places = self._before
        start = places.get((id(leaf), dtype), len(order))
        if start == len(order) or order[start][0]() is not leaf or not _is_plain(leaf):
            return []
        alive = [(other(), name) for other, name in order[start + 1 : start + _MOST]]
        return [
            other
            for other, name in alive
            if other is not None
            and (name, other.dtype, other.device) == (dtype, leaf.dtype, leaf.device)
            and _is_plain(other)
        ]


def _is_plain(leaf: Tensor) -> bool:
    """Whether a leaf with gradients lies in C order on a device with kernels."""
    whole = leaf.geometry is None and leaf.graph is None
    return whole and leaf.requires_grad and leaf.size > 0 and leaf.device.has_kernels
