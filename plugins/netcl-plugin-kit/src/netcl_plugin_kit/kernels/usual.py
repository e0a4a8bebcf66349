"""A usual call of an op: shapes and attributes of one of its conformance cases."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, final

from netcl_core import Spec, Tensor, dtype_name, use_device
from netcl_core.autograd import Operator
from netcl_core.errors import PluginError
from netcl_core.inspect.recorded import thread
from netcl_core.plugins.protocol import Row, registry
from netcl_plugin_kit.faults.substitution import substituted
from netcl_plugin_kit.testing.cases import Case
from netcl_plugin_kit.testing.collection import table_of


@final
@dataclass(frozen=True, slots=True)
class Usual:
    """What a case calls an op with: its first tensors, and what is named behind them."""

    case: str
    inputs: list[Spec]
    attrs: dict[str, Any]


class _Called(Exception):  # noqa: N818 - it ends a call, and is no error
    """The op was called, with these arguments."""

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.given = (args, kwargs)


def usual_call(op: str, dtype: str) -> Usual | None:
    """The largest case that calls a structured op; None if none has arguments to tell."""
    row = registry.find_op(op, thread.chosen)
    if row is None or not isinstance(row.record, Operator):
        return None
    try:
        cases = [case for case in table_of(row.provider).cases_of(op) if dtype in case.takes]
    except PluginError:  # nobody's cases can be had: then shapes have to be given
        return None
    cases.sort(key=lambda case: (case.call is not None, -_size(case, dtype)))
    for case in cases:
        call = _plain(case, dtype) if case.call is None else _seen(row, case, dtype)
        if call is not None:
            return call
    return None


def _size(case: Case, dtype: str) -> int:
    return sum(array.size for array in case.main_sample(dtype))


def _plain(case: Case, dtype: str) -> Usual:
    """That of a case which calls the op alone."""
    arrays = case.main_sample(dtype)
    inputs = [Spec(array.shape, dtype_name(array.dtype)) for array in arrays]
    return Usual(str(case), inputs, dict(case.attrs))


def _seen(row: Row, case: Case, dtype: str) -> Usual | None:
    """What a case's own function calls the op with, where a tensor comes first."""
    record: Operator = row.record
    kind = "bind" if record.function is None else "function"

    @functools.wraps(getattr(record, kind))
    def noting(*args: Any, **kwargs: Any) -> Any:
        raise _Called(args, kwargs)

    changed: dict[str, Any] = {kind: noting}
    with substituted(row, replace(record, **changed)), use_device("numpy"):
        try:
            case.run(*map(Tensor.from_host, case.main_sample(dtype)))
        except _Called as called:
            args, kwargs = called.given
        except Exception:  # a plugin's function may raise anything: then it is no use
            return None
        else:
            return None
    named = record.signature.bind(*args, **kwargs).arguments
    tensors = list(takewhile(lambda item: isinstance(item[1], Tensor), named.items()))
    inputs = [Spec(tensor.shape, tensor.dtype) for _, tensor in tensors]
    attrs = dict(list(named.items())[len(tensors) :])
    return Usual(str(case), inputs, attrs) if inputs else None
