"""How an op of PyTorch's is computed: by the table, by other ops, or by the host.

What an op needs is found out at its first call, in this order: the table's row; the row of the
same op that writes nothing, whose result is then written; PyTorch's own ways to make the op of
others, in C++ and in Python; the host.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import NetclError
from netcl_plugin_torch.collectives import through_host
from netcl_plugin_torch.host import by_host, by_host_instead
from netcl_plugin_torch.prepared import Prepared, is_preparable
from netcl_plugin_torch.tensor import (
    DEVICE,
    NAMES,
    OPS,
    NetclTensor,
    wrap,
    write,
)

#: Rows: the name of an overload -> a function of netcl Tensors and other arguments.
ROWS: Final[dict[str, Callable[..., Any]]] = {}
#: By the beginning of their names, what finds out how ops are computed.
_FAMILIES: Final[dict[str, Callable[[Any], Callable[..., Any]]]] = {}
_COMPOSITE: Final = "CompositeExplicitAutograd"
_GRAD_OFF: Final = ag.no_grad()
#: Ops with a function of PyTorch's tensors.
_DIRECT: Final[set[Any]] = set()
_ACTIVE: Final = threading.local()


class Unfit(Exception):  # noqa: N818 - no error of the user's: the host computes instead
    """The table's function does not do this."""


def row(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of netcl Tensors as the row of these overloads."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        ROWS.update(dict.fromkeys(names, function))
        return function

    return enter


def direct(
    *names: str, depends: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function that gets and gives PyTorch's tensors.

    `depends` gives of the arguments what it depends on besides.
    """

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            func = overload(name)
            _DIRECT.add(func)
            can = func is not None and is_preparable(func)
            OPS[func] = Prepared(function, depends) if can else function
        return function

    return enter


def family(prefix: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function that finds out how the ops are computed whose names begin so."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        _FAMILIES[prefix] = function
        return function

    return enter


def overload(name: str) -> Any:
    """`"add.Tensor"` -> `torch.ops.aten.add.Tensor`; None if this PyTorch has none."""
    packet, _, kind = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), kind or "default", None)


def name_of_op(func: Any) -> str:
    """`torch.ops.aten.relu.default` -> `"relu"`."""
    return func.name().removeprefix("aten::")  # type: ignore[no-any-return]


# -- an op by its row -----------------------------------------------------------------------


def raw_of(x: Any) -> Any:
    """What a row gets for an argument: netcl Tensors, and numbers for the host's tensors of one."""
    kind = type(x)
    if kind is NetclTensor:
        return x.raw
    if kind is list or kind is tuple:
        return [raw_of(item) for item in x]
    if isinstance(x, torch.Tensor):
        if x.dim() == 0 and x.device.type == "cpu":
            return x.item()
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{DEVICE} and {x.device}! Move this one with x.to('netcl')"
        )
    return x


def _wrapped(results: Any, given: Sequence[Any], dtypes: Any) -> Any:
    """PyTorch's tensors of a row's results, which share nothing with what was given."""
    if isinstance(results, (tuple, list)):
        several = dtypes if dtypes is not None else [None] * len(results)
        pairs = zip(results, several, strict=False)
        return tuple([None if x is None else _wrapped(x, given, d) for x, d in pairs])
    if not isinstance(results, nc.Tensor):
        return results
    raw = results.value
    if dtypes is not None and raw.dtype != dtypes:
        return wrap(raw.astype(dtypes))
    if raw.is_alias:
        return wrap(raw.duplicate())
    for operand in given:
        if operand is raw:
            return wrap(raw.duplicate())
    return wrap(raw)


def by_row(func: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """What computes an op by a function of netcl Tensors; the host where that does not do it."""
    expected: dict[Any, Any] = {}

    def run(*args: Any, **kwargs: Any) -> Any:
        given = [raw_of(x) for x in args]
        key = torch.get_default_dtype(), *[_kind(x) for x in (*args, *kwargs.values())]
        dtypes = expected.get(key, _kind)
        if dtypes is _kind:
            dtypes = expected[key] = _result_dtypes(func, args, kwargs)
        try:
            with _GRAD_OFF:
                results = function(*given, **{name: raw_of(x) for name, x in kwargs.items()})
                return _wrapped(results, given, dtypes)
        except (NetclError, Unfit) as error:
            return by_host_instead(func, args, kwargs, error)

    return run


def _kind(x: Any) -> Any:
    """What a result's dtype depends on."""
    kind = type(x)
    if kind is NetclTensor:
        return x.dtype, x.dim() == 0
    if kind is list or kind is tuple:
        return tuple([_kind(item) for item in x]) if x and type(x[0]) is NetclTensor else kind
    if kind is torch.dtype:
        return x
    if isinstance(x, torch.Tensor):
        return "host", x.dtype, x.dim() == 0
    return kind


def _result_dtypes(func: Any, args: Any, kwargs: Any) -> Any:
    """netcl's names of the results' dtypes, as PyTorch's rules for shapes say; None: unknown."""

    def shadow(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        return torch.device("meta") if isinstance(x, torch.device) else x

    try:
        with torch.no_grad():
            results = func(*tree_map(shadow, args), **tree_map(shadow, kwargs))
    except (RuntimeError, NotImplementedError, IndexError, ValueError, TypeError):
        return None
    if isinstance(results, torch.Tensor):
        return NAMES.get(results.dtype)
    if isinstance(results, (tuple, list)):
        return [NAMES.get(x.dtype) if isinstance(x, torch.Tensor) else None for x in results]
    return None


# -- which way an op takes ------------------------------------------------------------------


def resolve(func: Any) -> Callable[..., Any]:
    """What computes an op."""
    kernel = _found_out(func)
    return Prepared(kernel) if is_preparable(func) else kernel


def _found_out(func: Any) -> Callable[..., Any]:
    if func.namespace == "c10d":
        return through_host(func)
    name = name_of_op(func)
    if name in ROWS:
        return by_row(func, ROWS[name])
    for prefix, resolver in _FAMILIES.items():
        if name.startswith(prefix):
            return resolver(func)
    return _as_writing(func) or made_of_others(func)


def made_of_others(func: Any) -> Callable[..., Any]:
    """What computes an op without the table: PyTorch's own ways, or the host."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "PrivateUse1"):
        return partial(func._op_dk, torch._C.DispatchKey.PrivateUse1)  # of torch.library
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE):
        composite = partial(func._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd)
        return partial(_made_of, func, composite)
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return func.decompose  # type: ignore[no-any-return]
    decomposition = decompositions().get(func)
    return (
        partial(by_host, func) if decomposition is None else partial(_made_of, func, decomposition)
    )


OPS.resolve = resolve


def decompositions() -> Any:
    """PyTorch's Python code by op."""
    from torch._decomp import decomposition_table  # which takes a second to import

    return decomposition_table


def _made_of(func: Any, decomposition: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """An op by PyTorch's own code that makes it of others; by the host where that comes back."""
    active = _ACTIVE.__dict__.setdefault("ops", set())
    if func in active:
        return by_host(func, *args, **kwargs)
    active.add(func)
    try:
        result = decomposition(*args, **kwargs)
    finally:
        active.discard(func)
    return by_host(func, *args, **kwargs) if result is NotImplemented else result


def _as_writing(func: Any) -> Callable[..., Any] | None:
    """An op that writes, by the one of its name that writes nothing; None: there is none."""
    schema = func._schema
    places = [i for i, x in enumerate(schema.arguments) if x.alias_info and x.alias_info.is_write]
    if not places:
        return None
    plain = _plain(func, schema, places)
    if plain is None or not _is_made_without_writing(plain):
        return None
    names = [schema.arguments[i].name for i in places]
    if schema.arguments[places[0]].kwarg_only:
        return partial(_into, plain, names)
    return partial(_in_place, plain) if places == [0] else None


def _is_made_without_writing(func: Any) -> bool:
    """Whether an op has a row or Python code: C++ makes it by a copy and the op that writes."""
    if func in _DIRECT or name_of_op(func) in ROWS:
        return True
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE):
        return False
    return func in decompositions()


def _plain(func: Any, schema: Any, places: Sequence[int]) -> Any:
    """The overload that gives what this one writes."""
    packet, _, _kind = name_of_op(func).partition(".")
    in_place = packet.endswith("_") and not packet.endswith("__")
    wanted = [
        (x.name, str(x.type)) for i, x in enumerate(schema.arguments) if in_place or i not in places
    ]
    other = getattr(torch.ops.aten, packet[:-1] if in_place else packet, None)
    for kind in other.overloads() if other is not None else ():
        candidate = getattr(other, kind)
        signature = candidate._schema
        given = [(x.name, str(x.type)) for x in signature.arguments]
        if given == wanted and candidate is not func and not signature.is_mutable:
            return candidate
    return None


def _in_place(plain: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    if type(x) is not NetclTensor:
        return x.copy_(plain(x, *args, **kwargs))
    result = OPS[plain](x, *args, **kwargs)
    if result.shape != x.shape:
        text = f"output with shape {list(x.shape)} doesn't match the broadcast shape"
        raise RuntimeError(f"{text} {list(result.shape)}")
    if result.dtype != x.dtype and not torch.can_cast(result.dtype, x.dtype):
        text = f"result type {_word(result.dtype)} can't be cast to the desired output type"
        raise RuntimeError(f"{text} {_word(x.dtype)}")
    raw = result.raw
    del result
    _written(x, raw)
    return x


def _word(dtype: torch.dtype) -> str:
    words = {torch.int64: "Long", torch.int32: "Int", torch.float16: "Half", torch.uint8: "Byte",
             torch.float64: "Double", torch.int16: "Short", torch.int8: "Char",
             torch.bfloat16: "BFloat16"}  # fmt: skip
    return words.get(dtype, str(dtype).removeprefix("torch.").removesuffix("32").capitalize())


def _written(x: NetclTensor, raw: Any) -> None:
    try:
        write(x, raw)
    except NetclError as error:
        text = "unsupported operation: more than one element of the written-to tensor refers to a "
        raise RuntimeError(f"{text}single memory location. {error}") from error


def _into(plain: Any, names: Sequence[str], *args: Any, **kwargs: Any) -> Any:
    """`op(..., out=x)`."""
    targets = [kwargs.pop(name) for name in names]
    results_given = plain(*args, **kwargs)
    results = results_given if isinstance(results_given, (tuple, list)) else [results_given]
    for target, new in zip(targets, results, strict=True):
        if not torch.can_cast(new.dtype, target.dtype):
            text = f"result type {_word(new.dtype)} can't be cast to the desired output type"
            raise RuntimeError(f"{text} {_word(target.dtype)}")
        if target.shape != new.shape:
            if target.numel():
                text = f"An output with one or more elements was resized to {list(new.shape)}"
                warnings.warn(f"{text}: pass one of that size, or an empty one", stacklevel=2)
            target.resize_(new.shape)
        _written(target, new.raw) if type(target) is NetclTensor else target.copy_(new)
    return targets[0] if len(targets) == 1 else tuple(targets)


def update_metadata(x: NetclTensor, size: Any, strides: Any, offset: int) -> None:
    """Give the PyTorch side of a tensor another size."""
    with no_dispatch():
        torch.ops.aten.as_strided_.default(x, size, strides, offset)
