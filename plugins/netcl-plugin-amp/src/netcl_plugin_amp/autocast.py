"""autocast: a block in which ops compute in the dtypes of an amp policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import netcl_core.autograd as ag
from netcl_core.autograd import AmpPolicy
from netcl_plugin_amp.support import supports_fp16

#: The policy that `autocast` takes if none is named.
DEFAULT: Final = "fp16"


@final
class autocast:  # noqa: N801 - a function to its users, and a context manager
    """Compute products in half precision in a block, and what needs float32 in float32.

    >>> x, w = nc.Tensor.ones((2, 3)), nc.Tensor.ones((4, 3))
    >>> with amp.autocast(policy="fp16-storage"):
    ...     h = ag.linear(x, w)
    ...     h.dtype, ag.relu(h).dtype, ag.softmax(h, 1).dtype
    ('float16', 'float16', 'float32')

    Also a decorator, bare or called. It concerns the thread that enters it; blocks nest, the
    innermost counts. Casts are part of the graph: a float32 parameter gets a float32 gradient, and
    is cast once per outermost block. `backward` belongs behind the block, and may stand inside.

    Args:
        enabled: False: no policy within, also inside of another block.
        device_queue: A queue or Device; if it has no half arithmetic and the policy needs that,
            the block is as with `enabled=False`.
        policy: The name of a policy that a plugin brings, or an AmpPolicy. `"fp16"` leaves
            ops on devices without half arithmetic in float32; `"fp16-storage"` serves every device.

    Raises, where the block begins, PluginError for a name that nobody brings.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and not isinstance(args[0], bool) and callable(args[0]):
            return cls()(args[0])
        return super().__new__(cls)

    def __init__(
        self,
        enabled: bool = True,
        device_queue: Any = None,
        *,
        policy: str | AmpPolicy = DEFAULT,
    ) -> None:
        self._enabled = enabled
        self._queue = device_queue
        self._policy = policy
        self._casting = ag.casting(self._in_force)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator it holds while the function's own code runs."""
        return self._casting(function)

    def __enter__(self) -> autocast:
        self._casting.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._casting.__exit__(*exc)

    def _in_force(self) -> AmpPolicy | None:
        policy = ag.named_policy(self._policy) if isinstance(self._policy, str) else self._policy
        unfit = policy.needs_fp16 and self._queue is not None and not supports_fp16(self._queue)
        return None if unfit or not self._enabled else policy


def is_autocast_enabled() -> bool:
    """Whether a policy is in force in this thread.

    >>> with amp.autocast():
    ...     amp.is_autocast_enabled()
    True
    """
    return ag.amp_policy() is not None


def maybe_cast_tensor(t: Any) -> Any:
    """A float32 value in the storage dtype of the policy in force; all else as it is.

    >>> with amp.autocast(policy="fp16-storage"):
    ...     amp.maybe_cast_tensor(nc.tensor([1.0])).dtype
    'float16'

    Args:
        t: A Tensor or Node. The cast is part of the graph.

    Returns `t` itself outside of a block, for another dtype than float32, and on a device that the
    policy leaves alone.
    """
    policy = ag.amp_policy()
    if policy is None or t.dtype != "float32" or policy.unmet(t.device) is not None:
        return t
    return t.astype(policy.storage)
