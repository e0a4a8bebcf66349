"""Casting: in which dtypes ops compute while an amp policy is in force.

An elementwise op reads its operands as they are and converts them in its kernel; the operands of
other ops are cast by a call that is recorded, those that are leaves once per block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, TypeAlias, final

from netcl_core import DTYPES, Device, Tensor, is_grad_enabled, promote
from netcl_core.autograd import as_operand
from netcl_core.errors import PluginError, coded, message
from netcl_core.inspect.recorded import Casts, Entries, cast, held, thread
from netcl_core.plugins.protocol import how_to_get, registry
from netcl_plugin_amp.leaf_casts import LeafCasts
from netcl_plugin_amp.policy import AmpPolicy, Rule

#: A policy, by itself or by its name; None: none.
Choice: TypeAlias = AmpPolicy | str | None


@final
class Casting:
    """A policy in force in a thread, with the casts of leaves that it has made so far."""

    __slots__ = ("_applies", "leaves", "policy")

    def __init__(self, policy: AmpPolicy, leaves: LeafCasts | None = None) -> None:
        self.policy = policy
        self.leaves = LeafCasts(policy) if leaves is None else leaves
        self._applies: dict[Device, bool] = {}

    def again(self) -> Casting:
        """The same policy without what has been cast: for what is computed a second time."""
        return Casting(self.policy, LeafCasts())

    def in_region(self, op: str, tensors: Sequence[Any]) -> Casts | None:
        """What an elementwise op converts its operands to, within its kernel; None: nothing."""
        rule = self.policy.rule(op, "primitive")
        if rule in ("promote", "leave") or not self._reaches(tensors[0].device):
            return None
        goal = self._goal(rule, tensors)
        targets = tuple([_target(x, goal) for x in tensors])
        return None if targets.count(None) == len(targets) else targets

    def cast(self, op: str, operands: Sequence[Any], device: Device) -> Sequence[Any]:
        """The operands of a structured op, cast where the policy says so."""
        if not self._reaches(device):
            return operands
        given: Sequence[Any] = [as_operand(x, device) for x in operands]
        goal = self._goal(self.policy.rule(op, "operator"), [x for x in given if x is not None])
        return [self._kept(x, goal) if x is not None and _target(x, goal) else x for x in given]

    def cast_all(self, op: str, values: Any) -> Any:
        """Arguments of an op, with the tensors among them and in their lists and tuples cast."""
        tensors: list[Any] = []
        _mapped(values, tensors.append)
        if not tensors or not self._reaches(tensors[0].device):
            return values
        goal = self._goal(self.policy.rule(op, "operator"), tensors)
        return _mapped(values, lambda x: self._kept(x, goal) if _target(x, goal) else x)

    def _reaches(self, device: Device) -> bool:
        """Whether the policy says anything about a device."""
        applies = self._applies.get(device)
        if applies is None:
            applies = self._applies[device] = self.policy.unmet(device) is None
        return applies

    def _goal(self, rule: Rule, tensors: Sequence[Any]) -> str:
        """The dtype of floating operands by a rule; empty: they stay what they are."""
        if rule == "leave":
            return ""
        if rule == "promote":
            floats = [(x.dtype, 1) for x in tensors if DTYPES[x.dtype].floating]
            return promote(floats) if floats else ""
        return self.policy.storage if rule == "allow" else "float32"

    def _kept(self, x: Any, dtype: str) -> Any:
        """An operand in a dtype: of a leaf one cast for all uses, in a trace of any value."""
        tracer = thread.tracer
        if tracer is not None:
            place = (tracer.node_of(x).number, dtype, is_grad_enabled())
            if place not in tracer.casts:
                tracer.casts[place] = cast(x, dtype, "autocast")
            return tracer.casts[place]
        # A leaf's Tensor says that it needs a gradient, a result's does not.
        return self.leaves.of(x, dtype) if x.value.requires_grad else cast(x, dtype, "autocast")


def _target(x: Any, goal: str) -> str | None:
    """The dtype that an operand is cast to; None: it stays what it is."""
    stays = x.dtype in {goal, "float64"} or not DTYPES[x.dtype].floating
    return None if stays else goal


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: _mapped(item, change) for name, item in value.items()}
    return type(value)(_mapped(x, change) for x in value) if type(value) in (list, tuple) else value


@final
class casting:  # noqa: N801 - a function to its users, and a context manager
    """Let an amp policy decide in which dtypes ops compute, in this thread; None: no policy.

    >>> half = ag.AmpPolicy("half", "float16", {"exp": "keep"}, default="allow")
    >>> x = nc.tensor([1.0])
    >>> with ag.casting(half):
    ...     (x * 2).dtype, ag.exp(x).dtype
    ('float16', 'float32')

    Args:
        policy: An AmpPolicy, the name of one that a plugin brings, or a function that gives either
            or None, and is called where a block begins.

    Also a decorator. Blocks nest, the innermost counts, and each is left again when an exception
    passes. Gradients are computed in the dtypes of the forward pass wherever `backward` is called.

    Raises:
        PluginError: nobody brings a policy of that name; where the block begins.
        AmbiguousOpError: several do, with the same priority.
    """

    def __init__(self, policy: Choice | Callable[[], Choice]) -> None:
        self._policy = policy
        self._outer = Entries()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return held(lambda: self, "casting", function)

    def __enter__(self) -> None:
        policy, outer = self._policy, thread.amp
        if not isinstance(policy, (AmpPolicy, str, NoneType)):
            policy = policy()
        if isinstance(policy, str):
            policy = named_policy(policy)
        self._outer.push(outer)
        leaves = None if outer is None else outer.leaves
        thread.amp = None if policy is None else Casting(policy, leaves)

    def __exit__(self, *exc: object) -> None:
        inner, outer = thread.amp, self._outer.restored(thread.amp)
        if inner is not None and outer is None:
            inner.leaves.close()
        thread.amp = outer


def amp_policy() -> AmpPolicy | None:
    """The amp policy in force in this thread; None: there is none.

    >>> with ag.casting(ag.AmpPolicy("half", "float16")):
    ...     ag.amp_policy().name
    'half'
    """
    amp: Casting | None = thread.amp
    return None if amp is None else amp.policy


def named_policy(name: str) -> AmpPolicy:
    """The amp policy of a name; raises PluginError if no plugin brings it.

    >>> ag.named_policy("fp16").storage
    'float16'
    """
    row = registry.find("amp_policy", name)
    if row is None:
        registry.load(("amp_policy",))
        known = sorted({each.record.name for each in registry.rows("amp_policy")})
        expected = f"one of {', '.join(known)}" if known else "one that a plugin brings"
        remedy = how_to_get(name, "amp_policy") or "Install a plugin that brings it"
        text = message("amp policy", f"{name!r} is brought by no active plugin", expected, remedy)
        raise coded("NP402", PluginError(text))
    record: AmpPolicy = row.record
    return record
