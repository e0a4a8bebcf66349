"""autocast: a block in which ops compute in the dtypes of an amp policy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, final

from netcl_core import Device, dtype_name
from netcl_core.errors import ArgumentError, message
from netcl_plugin_amp.casting import amp_policy, casting, named_policy
from netcl_plugin_amp.policy import AmpPolicy
from netcl_plugin_amp.support import supports_fp16

#: The policy that `autocast` takes if none is named.
DEFAULT: Final = "fp16"
#: The policies of the dtypes that PyTorch's autocast takes; they serve every device.
_OF_DTYPE: Final[Mapping[str, str]] = MappingProxyType(
    {"float16": "fp16-storage", "bfloat16": "bf16-storage"}
)
#: What a program may call its device: PyTorch's words and netcl's.
_KINDS: Final = ("cpu", "cuda", "gpu", "mps", "xpu", "netcl", "numpy", "opencl")


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

    PyTorch's words do as well:

    >>> with amp.autocast("cuda", dtype="float16"):
    ...     ag.linear(x, w).dtype
    'float16'

    Args:
        device_type: `"cuda"`, `"cpu"` and so on, or a Device. Every device's ops are cast; the word
            decides about the dtype if no other argument does, as in PyTorch: bfloat16 for `"cpu"`.
            A bool in this place is `enabled`, and what follows it `device_queue`.
        dtype: `"float16"` (the policy `"fp16-storage"`) or `"bfloat16"` (`"bf16-storage"`). For any
            other, a warning, and the block is as with `enabled=False`.
        enabled: False: no policy within, also inside of another block.
        cache_enabled: Without effect: a leaf is cast once per block in any case.
        device_queue: A queue or Device; if it has no half arithmetic and the policy needs that,
            the block is as with `enabled=False`.
        policy: The name of a policy that a plugin brings, or an AmpPolicy. `"fp16"`, the default,
            leaves ops on devices without half arithmetic in float32; `"fp16-storage"` serves every
            device.

    Raises ArgumentError for no device's word, and for a policy beside a dtype; where the block
    begins, PluginError for a name that nobody brings.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and not isinstance(args[0], bool) and callable(args[0]):
            return cls()(args[0])
        return super().__new__(cls)

    def __init__(
        self,
        device_type: str | Device | bool | None = None,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
        *,
        device_queue: Any = None,
        policy: str | AmpPolicy | None = None,
    ) -> None:
        if isinstance(device_type, bool):  # autocast(False), autocast(True, queue)
            enabled = device_type and enabled
            device_type, dtype, device_queue = None, None, dtype or device_queue
        _check_kind(device_type)
        chosen = _policy_of(device_type, dtype, policy)
        self._enabled = bool(enabled) and chosen is not None
        self._queue = device_queue
        self._policy = DEFAULT if chosen is None else chosen
        self._casting = casting(self._in_force)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator it holds while the function's own code runs."""
        return self._casting(function)

    def __enter__(self) -> autocast:
        self._casting.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._casting.__exit__(*exc)

    def _in_force(self) -> AmpPolicy | None:
        policy = named_policy(self._policy) if isinstance(self._policy, str) else self._policy
        unfit = policy.needs_fp16 and self._queue is not None and not supports_fp16(self._queue)
        return None if unfit or not self._enabled else policy


def _check_kind(device_type: Any) -> None:
    if device_type is None or isinstance(device_type, Device):
        return
    if not isinstance(device_type, str) or device_type.partition(":")[0].lower() not in _KINDS:
        given, expected = f"device_type={device_type!r}", f"a Device, or one of {', '.join(_KINDS)}"
        remedy = "Name a policy with policy=, a dtype with dtype="
        raise ArgumentError(message("autocast", given, expected, remedy))


def _policy_of(device_type: Any, dtype: Any, policy: Any) -> str | AmpPolicy | None:
    """The policy that is asked for; None, with a warning, for a dtype that has none."""
    if policy is not None:
        if dtype is not None:
            given = f"dtype={dtype!r} and policy={policy!r}"
            raise ArgumentError(message("autocast", given, "one of them"))
        chosen: str | AmpPolicy = policy
        return chosen
    if dtype is None:
        of_cpu = isinstance(device_type, str) and device_type.lower().startswith("cpu")
        return _OF_DTYPE["bfloat16"] if of_cpu else DEFAULT
    name = dtype_name(dtype, "autocast")
    if name not in _OF_DTYPE:
        text = f"autocast: dtype {name} is not one of {', '.join(_OF_DTYPE)}; nothing is cast"
        warnings.warn(text, UserWarning, stacklevel=3)
    return _OF_DTYPE.get(name)


def is_autocast_enabled() -> bool:
    """Whether a policy is in force in this thread.

    >>> with amp.autocast():
    ...     amp.is_autocast_enabled()
    True
    """
    return amp_policy() is not None


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
    policy = amp_policy()
    if policy is None or t.dtype != "float32" or policy.unmet(t.device) is not None:
        return t
    return t.astype(policy.storage)
