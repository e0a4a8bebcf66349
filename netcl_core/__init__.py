"""netcl: a small OpenCL autograd core and a market of kernels.

Importing this package imports nothing heavy: every name below is fetched from
its module on first use. Namespaces such as `nn` come from installed plugins.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final

from netcl_core.plugins.namespace_import import NamespaceFinder as _NamespaceFinder

if TYPE_CHECKING:
    from netcl_core import autograd, errors, plugins
    from netcl_core.device.device import Device
    from netcl_core.device.device_table import all_devices as devices
    from netcl_core.device.device_table import default_device, get_device, use_device
    from netcl_core.dtypes import DTYPES, dtype_name
    from netcl_core.hookspecs import hookimpl
    from netcl_core.jit.patterns import PatternRegistrar
    from netcl_core.ops.choosing import prefer
    from netcl_core.ops.registrars import (
        AmpPolicyRegistrar,
        NamespaceRegistrar,
        OperatorRegistrar,
        PrimitiveRegistrar,
    )
    from netcl_core.runtime.host_calls import HostCall
    from netcl_core.runtime.kernels import Bound, Kernel, Kernels, Spec
    from netcl_core.runtime.recording import before_replay, on_replay, uncaptured
    from netcl_core.tape.tracing import random_state
    from netcl_core.tensors.host_data import host_array
    from netcl_core.tensors.host_work import on_host
    from netcl_core.tensors.random_state import host_generator, manual_seed
    from netcl_core.tensors.tensor import Operand, Tensor
    from netcl_core.version import API_VERSION

    __version__: str

#: name -> (module, attribute); the attribute "" is the module itself
_NAMES: Final = {
    "API_VERSION": ("version", "API_VERSION"),
    "__version__": ("version", "VERSION"),
    "DTYPES": ("dtypes", "DTYPES"),
    "AmpPolicyRegistrar": ("ops.registrars", "AmpPolicyRegistrar"),
    "Bound": ("runtime.kernels", "Bound"),
    "Device": ("device.device", "Device"),
    "HostCall": ("runtime.host_calls", "HostCall"),
    "Kernel": ("runtime.kernels", "Kernel"),
    "Kernels": ("runtime.kernels", "Kernels"),
    "NamespaceRegistrar": ("ops.registrars", "NamespaceRegistrar"),
    "OperatorRegistrar": ("ops.registrars", "OperatorRegistrar"),
    "PatternRegistrar": ("jit.patterns", "PatternRegistrar"),
    "PrimitiveRegistrar": ("ops.registrars", "PrimitiveRegistrar"),
    "Spec": ("runtime.kernels", "Spec"),
    "Tensor": ("tensors.tensor", "Tensor"),
    "autograd": ("autograd", ""),
    "Operand": ("tensors.tensor", "Operand"),
    "default_device": ("device.device_table", "default_device"),
    "dtype_name": ("dtypes", "dtype_name"),
    "get_device": ("device.device_table", "get_device"),
    "host_array": ("tensors.host_data", "host_array"),
    "devices": ("device.device_table", "all_devices"),
    "errors": ("errors", ""),
    "hookimpl": ("hookspecs", "hookimpl"),
    "host_generator": ("tensors.random_state", "host_generator"),
    "manual_seed": ("tensors.random_state", "manual_seed"),
    "plugins": ("plugins", ""),
    "on_host": ("tensors.host_work", "on_host"),
    "before_replay": ("runtime.recording", "before_replay"),
    "on_replay": ("runtime.recording", "on_replay"),
    "prefer": ("ops.choosing", "prefer"),
    "random_state": ("tape.tracing", "random_state"),
    "uncaptured": ("runtime.recording", "uncaptured"),
    "use_device": ("device.device_table", "use_device"),
}

__all__ = [
    "API_VERSION",
    "DTYPES",
    "AmpPolicyRegistrar",
    "Bound",
    "Device",
    "HostCall",
    "Kernel",
    "Kernels",
    "NamespaceRegistrar",
    "OperatorRegistrar",
    "PatternRegistrar",
    "PrimitiveRegistrar",
    "Spec",
    "Operand",
    "Tensor",
    "__version__",
    "autograd",
    "before_replay",
    "default_device",
    "dtype_name",
    "get_device",
    "host_array",
    "devices",
    "errors",
    "hookimpl",
    "host_generator",
    "manual_seed",
    "on_host",
    "on_replay",
    "plugins",
    "prefer",
    "random_state",
    "tensor",
    "uncaptured",
    "use_device",
]


def tensor(array_like: Any, *args: Any, **kwargs: Any) -> Tensor:
    """A tensor with a copy of host data: `Tensor.from_host`.

    >>> nc.tensor([[1, 2], [3, 4]], device="cpu")
    Tensor([[1, 2],
            [3, 4]], shape=(2, 2), dtype=int32, device=cpu)
    """
    made: Tensor = __getattr__("Tensor").from_host(array_like, *args, **kwargs)
    return made


def _namespace(name: str) -> Any:
    return importlib.import_module("netcl_core.plugins.manager").namespace(name)


sys.meta_path.append(_NamespaceFinder(_namespace))


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module, attribute = _NAMES[name]
        found: Any = importlib.import_module(f"netcl_core.{module}")
        found = getattr(found, attribute) if attribute else found
        globals()[name] = found
        return found
    # `from netcl_core import icd` asks here before it looks for the module of that name.
    if name.startswith("_") or PathFinder.find_spec(f"netcl_core.{name}", __path__) is not None:
        raise AttributeError(f"module 'netcl_core' has no attribute {name!r}")
    return _namespace(name)


def __dir__() -> list[str]:
    return sorted(__all__)


#: What no namespace can be called: `netcl_core.<name>` is something else.
OWN_NAMES: Final = frozenset({*globals(), *_NAMES})
