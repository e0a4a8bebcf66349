"""Arguments of PyTorch's that have no meaning here, and those that are refused with a reason."""

from __future__ import annotations

from typing import Any, Final

from netcl_core.errors import ArgumentError, message

#: Hints on how to compute or where to keep something, none of which change a result here.
IGNORED: Final = frozenset(
    {
        "_stacklevel",
        "capturable",
        "cudnn_enable",
        "cudnn_enabled",
        "foreach",
        "force",
        "fused",
        "implicit",
        "in_order",
        "layout",
        "memory_format",
        "multiprocessing_context",
        "non_blocking",
        "only_inputs",
        "output_size",
        "pin_memory",
        "pin_memory_device",
        "prefetch_factor",
        "sparse",
        "sparse_grad",
    }
)
#: What is refused unless it is None or False -> what to do instead.
REFUSED: Final = {
    "create_graph": "Use ag.grad(outputs, inputs, create_graph=True)",
    "differentiable": "Steps of optimizers are not recorded; write the update with ops",
    "generator": "nc.manual_seed(n) makes random numbers repeatable",
    "is_grads_batched": "Call ag.grad once for each",
    "names": "Dimensions have numbers and no names: use x.shape and positions",
    "orig_func": "Use it as a decorator or in a with statement",
    "out": "Assign the result, or copy it with out.copy_(result)",
    "out_dtype": "Convert the result with x.astype(dtype)",
    "scale_grad_by_freq": "Gradients of rows are sums; divide them by counts of your own",
}


def without_foreign(who: str, ours: frozenset[str], given: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments without those that a function `who` can do without.

    >>> without_foreign("sum", frozenset({"x", "dim"}), {"dim": 0, "non_blocking": True})
    {'dim': 0}

    Raises ArgumentError for one that is refused, with what to do instead.

    Args:
        who: Who asks, for the message of an error.
        ours: The function's own parameters.
    """
    if "reduction" in ours and not given.keys().isdisjoint({"size_average", "reduce"}):
        given = _reduction(given)
    return {
        name: value
        for name, value in given.items()
        if name in ours or not _is_foreign(who, name, value)
    }


def _is_foreign(who: str, name: str, value: Any) -> bool:
    if name in REFUSED and value is not None and value is not False:
        raise ArgumentError(message(who, f"{name}={value!r:.60} is not there", "", REFUSED[name]))
    return name in REFUSED or name in IGNORED


def _reduction(given: dict[str, Any]) -> dict[str, Any]:
    """A loss's `size_average` and `reduce`, which PyTorch had first, as `reduction`."""
    average, reduce = given.pop("size_average", None), given.pop("reduce", None)
    if average is None and reduce is None:
        return given
    said = "none" if reduce is False else "sum" if average is False else "mean"
    return {**given, "reduction": said}
