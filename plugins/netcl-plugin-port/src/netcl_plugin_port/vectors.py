"""Parameters as one vector, numbers as tuples, keys: small functions of `torch.nn.utils`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import netcl_core as nc
import netcl_core.autograd as ag


def parameters_to_vector(parameters: Iterable[Any]) -> Any:
    """All elements of some tensors in one dimension."""
    return ag.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Any]) -> None:
    """Copy the elements of a vector into tensors, in order."""
    start = 0
    with nc.no_grad():
        for parameter in parameters:
            count = parameter.numel()
            parameter.copy_(vec[start : start + count].reshape(parameter.shape))
            start += count


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix such as `"module."` from the keys of a state, in place."""
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], Any]:
    return lambda x: tuple(x) if isinstance(x, Iterable) else (x,) * n


_single, _pair, _triple = (_ntuple(n) for n in (1, 2, 3))
