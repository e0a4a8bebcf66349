"""GradManager: gradients of the tensors that are attached to it, accumulated in their `grad`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, final

import netcl_core.autograd as ag
from netcl_core import Tensor
from netcl_core.autograd import Node
from netcl_core.errors import ArgumentError, GradientError, message
from netcl_plugin_autodiff.recording import (
    forget,
    get_backwarding_grad_manager,
    thread,
    track,
)

#: The module is what `netcl_core.autodiff.grad_manager` is.
__all__ = ["AttachSpec", "GradManager", "GradManagerGroup", "get_backwarding_grad_manager"]

Callback: TypeAlias = Callable[[Any, Any], Any]


@final
class AttachSpec:
    """What a manager knows of an attached tensor.

    >>> x = nc.tensor([3.0])
    >>> spec = autodiff.AttachSpec(lambda: x)
    >>> spec.tensor().tolist(), spec.callbacks
    ([3.0], [])

    Attributes:
        tensor: A weak reference; call it for the tensor, or None.
        callbacks: `(tensor, gradient) -> gradient`, in the order in which they are called.
    """

    __slots__ = ("callbacks", "tensor")

    def __init__(self, tensor: Callable[[], Any] = lambda: None) -> None:
        self.tensor = tensor
        self.callbacks: list[Callback] = []


@final
class GradManager:
    """Computes gradients of attached tensors, from what was computed while it recorded.

    >>> x = nc.tensor([3.0])
    >>> gm = autodiff.GradManager().attach(x)
    >>> with gm:
    ...     y = x * x
    ...     gm.backward(y)
    >>> x.grad.numpy()
    array([6.], dtype=float32)

    A tensor is attached once and remembered, by a weak reference: it need not stay until the
    manager goes. Between `record()` (or the beginning of a block) and `release()` (or its end, or
    `backward()`) operations on attached tensors are recorded, also on tensors that need no
    gradient otherwise. The manager may then be used again.

    A manager that began to record earlier in the same thread records the `backward` of a later
    one, so that gradients can be differentiated: nest two blocks for second derivatives. Managers
    of a group, `with gm1 | gm2:`, do not see each other.
    """

    def __init__(self) -> None:
        self._specs: dict[int, AttachSpec] = {}
        self._tracked: list[Tensor] = []
        self._recording = False
        self._group: GradManagerGroup | None = None

    # -- attaching -----------------------------------------------------------------------

    def attach(
        self,
        tensors: Any,
        callbacks: Callback | Iterable[Callback] | None = None,
        *,
        callback: Callback | None = None,
    ) -> GradManager:
        """Track a tensor, or several, from now on; returns the manager.

        Args:
            tensors: Tensors or Nodes of a floating dtype.
            callbacks: `(tensor, gradient) -> gradient`, one or several: called in `backward` as
                soon as the gradient is complete, while others are still to be computed. What the
                last one returns is added to `tensor.grad`. Those of earlier calls stay in front.
                They must not hold the tensor.
            callback: Another one, called after these.

        Raises ArgumentError for what is no tensor or cannot be called, DtypeError for integers.
        """
        given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
        chain = [callbacks] if callable(callbacks) else list(callbacks or ())
        chain += [] if callback is None else [callback]
        for tensor in given:
            if not isinstance(tensor, Tensor):
                raise _unfit(f"an object of type {type(tensor).__name__} to attach", "a tensor")
            tensor.detach().requires_grad_(True)  # raises for integers
        for callback in chain:
            if not callable(callback):
                raise _unfit(f"the callback {callback!r}", "a function (tensor, gradient)")
        for tensor in given:
            self._spec_of(_kept(tensor)).callbacks.extend(chain)
        return self

    def _spec_of(self, tensor: Any) -> AttachSpec:
        """What is known of a tensor; one that is new is tracked if the manager records."""
        key = id(tensor)
        spec = self._specs.get(key)
        if spec is None:
            mine = weakref.ref(self)

            def gone(_: Any) -> None:
                manager = mine()
                if manager is not None:
                    manager._specs.pop(key, None)

            spec = self._specs[key] = AttachSpec(weakref.ref(tensor, gone))
            if self._recording:
                self._track(tensor)
        return spec

    def attached_tensors(self) -> list[Any]:
        """The attached tensors that live."""
        tensors = [spec.tensor() for spec in self._specs.values()]
        return [tensor for tensor in tensors if tensor is not None]

    # -- recording -----------------------------------------------------------------------

    def record(self) -> None:
        """Begin to record. Raises GradientError if it does already."""
        if self._recording:
            given, remedy = "it is recording already", "Make another GradManager"
            raise GradientError(message("GradManager.record", given, "one history", remedy))
        self._recording = True
        thread.recording.append(self)
        for tensor in self.attached_tensors():
            self._track(tensor)

    def _track(self, tensor: Any) -> None:
        """Let operations on a leaf be recorded; those on results are, if any are."""
        if type(tensor) is not Node:
            track(tensor)
            self._tracked.append(tensor)

    def release(self) -> None:
        """Stop recording, and leave tensors as they were; nothing happens if it does not record."""
        if self._recording:
            self._recording, self._group = False, None
            thread.recording = [manager for manager in thread.recording if manager is not self]
            tracked, self._tracked = self._tracked, []
            forget(tracked)

    def __enter__(self) -> GradManager:
        self.record()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __or__(self, other: Any) -> GradManagerGroup:
        group: GradManagerGroup = GradManagerGroup([self]) | other
        return group

    # -- gradients -----------------------------------------------------------------------

    def backward(self, y: Any = None, dy: Any = None) -> None:
        """Add the gradients of all attached tensors to their `grad`, and stop recording.

        Args:
            y: A value, or several; None: there is nothing to differentiate.
            dy: The gradient of each, of its shape; default 1 for one element.

        Raises GradientError if the manager does not record, or a callback returns nothing.
        A value of `y` that does not depend on anything attached adds nothing.
        """
        if not self._recording:
            remedy = "Call record() before what is to be differentiated, or use `with`"
            given = "it does not record"
            raise GradientError(message("GradManager.backward", given, "a recording", remedy))
        outer, thread.backwarding = thread.backwarding, self
        try:
            self._backward(_several(y), None if dy is None else _several(dy))
        finally:
            thread.backwarding = outer
            self.release()

    def _backward(self, ys: Sequence[Any], dys: Sequence[Any] | None) -> None:
        if ys and dys is not None and len(dys) != len(ys):
            given, expected = f"{len(dys)} of dy", f"{len(ys)}, one for each y"
            raise ArgumentError(message("GradManager.backward", given, expected))
        pairs = zip(ys, dys or [None] * len(ys), strict=bool(ys))
        useful = [(y, dy) for y, dy in pairs if y.requires_grad]
        specs = [(spec, spec.tensor()) for spec in self._specs.values()]
        living = [(spec.callbacks, tensor) for spec, tensor in specs if tensor is not None]
        if not useful or not living:
            return

        def ready(number: int, gradient: Any) -> Any:
            callbacks, tensor = living[number]
            for callback in list(callbacks):
                gradient = callback(tensor, gradient)
                if gradient is None:
                    given = f"the callback {getattr(callback, '__name__', callback)!r} for a "
                    given += f"tensor of shape {tensor.shape} returned None"
                    raise GradientError(message("GradManager", given, "the gradient to go on with"))
            return gradient

        roots, seeds = [y for y, _ in useful], [dy for _, dy in useful]
        targets, records = [tensor for _, tensor in living], self._is_recorded()
        others = len(thread.recording) > 1  # which may walk the same graph
        grad = ag.grad(
            roots, targets, seeds, others, create_graph=records, allow_unused=True, ready=ready
        )
        with ag.enable_grad() if records else ag.no_grad():
            for tensor, gradient in zip(targets, grad, strict=True):
                if gradient is not None:
                    ag.accumulate_grad(tensor, gradient)

    def _is_recorded(self) -> bool:
        """Whether a manager that began to record before this one wants its gradients' graph."""
        earlier = thread.recording[: thread.recording.index(self)]
        return any(
            manager._group is None or manager._group is not self._group for manager in earlier
        )


@final
class GradManagerGroup:
    """Managers that record together, `with gm1 | gm2:`, each for itself.

    >>> a, b = autodiff.GradManager(), autodiff.GradManager()
    >>> type(a | b).__name__
    'GradManagerGroup'

    Args:
        managers: The managers.
    """

    def __init__(self, managers: Sequence[GradManager]) -> None:
        self.managers = tuple(managers)

    def __or__(self, other: Any) -> GradManagerGroup:
        if isinstance(other, GradManager):
            return GradManagerGroup([*self.managers, other])
        if isinstance(other, GradManagerGroup):
            return GradManagerGroup([*self.managers, *other.managers])
        return NotImplemented

    def __enter__(self) -> GradManagerGroup:
        begun: list[GradManager] = []
        try:
            for manager in self.managers:
                manager.record()
                manager._group = self
                begun.append(manager)
        except BaseException:
            for manager in begun:
                manager.release()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for manager in self.managers:
            manager.release()


def _kept(tensor: Any) -> Any:
    """What is attached: of a leaf its Tensor, which lives as long as any Node of it."""
    return tensor.value if isinstance(tensor, Node) and tensor.is_leaf else tensor


def _unfit(given: str, expected: str) -> ArgumentError:
    return ArgumentError(message("GradManager", given, expected))


def _several(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, (list, tuple)) else [given]
