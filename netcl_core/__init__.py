"""netcl: a small OpenCL autograd core and a market of kernels.

Importing this package imports nothing heavy: every name below is fetched from
its module on first use. Namespaces such as `nn` come from installed plugins.
"""

from __future__ import annotations

import functools
import importlib
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any, Final

from netcl_core.plugins.namespace_import import IntroducingFinder as _IntroducingFinder
from netcl_core.plugins.namespace_import import NamespaceFinder as _NamespaceFinder

if TYPE_CHECKING:
    from netcl_core import autograd, errors, plugins
    from netcl_core.dtypes import DTYPES, dtype_name, promote, widened
    from netcl_core.hardware.device import Device
    from netcl_core.hardware.device_table import all_devices as devices
    from netcl_core.hardware.device_table import default_device, device, get_device, use_device
    from netcl_core.hardware.programs import Rewrite
    from netcl_core.hookspecs import hookimpl
    from netcl_core.jit.patterns.records import PatternRegistrar
    from netcl_core.ops.choosing import prefer
    from netcl_core.ops.registrars import (
        AmpPolicyRegistrar,
        NamespaceRegistrar,
        OperatorRegistrar,
        PrimitiveRegistrar,
    )
    from netcl_core.plugins.manager import require_lock
    from netcl_core.runtime.host_calls import HostCall
    from netcl_core.runtime.kernels import Bound, Kernel, Kernels, Spec
    from netcl_core.runtime.memory import ZEROS_BYTES
    from netcl_core.runtime.recording import before_replay, capturing, on_replay, uncaptured
    from netcl_core.tape.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
    from netcl_core.tape.tracing import random_state
    from netcl_core.tensors.creation import (
        arange,
        as_tensor,
        empty,
        empty_like,
        eye,
        from_numpy,
        full,
        full_like,
        linspace,
        ones,
        ones_like,
        tensor,
        zeros,
        zeros_like,
    )
    from netcl_core.tensors.host_data import host_array
    from netcl_core.tensors.host_work import on_host
    from netcl_core.tensors.random_state import (
        get_rng_state,
        host_generator,
        manual_seed,
        set_rng_state,
    )
    from netcl_core.tensors.sharing import from_buffer, from_dlpack
    from netcl_core.tensors.tensor import Tensor
    from netcl_core.version import API_VERSION

    __version__: str

#: name -> (module, attribute); the attribute "" is the module itself
_NAMES: Final = {
    "API_VERSION": ("version", "API_VERSION"),
    "__version__": ("version", "VERSION"),
    "DTYPES": ("dtypes", "DTYPES"),
    "AmpPolicyRegistrar": ("ops.registrars", "AmpPolicyRegistrar"),
    "Bound": ("runtime.kernels", "Bound"),
    "Device": ("hardware.device", "Device"),
    "HostCall": ("runtime.host_calls", "HostCall"),
    "Kernel": ("runtime.kernels", "Kernel"),
    "Kernels": ("runtime.kernels", "Kernels"),
    "NamespaceRegistrar": ("ops.registrars", "NamespaceRegistrar"),
    "OperatorRegistrar": ("ops.registrars", "OperatorRegistrar"),
    "PatternRegistrar": ("jit.patterns.records", "PatternRegistrar"),
    "PrimitiveRegistrar": ("ops.registrars", "PrimitiveRegistrar"),
    "Rewrite": ("hardware.programs", "Rewrite"),
    "Spec": ("runtime.kernels", "Spec"),
    "Tensor": ("tensors.tensor", "Tensor"),
    "ZEROS_BYTES": ("runtime.memory", "ZEROS_BYTES"),
    "autograd": ("autograd", ""),
    "default_device": ("hardware.device_table", "default_device"),
    "device": ("hardware.device_table", "device"),
    "dtype_name": ("dtypes", "dtype_name"),
    "get_device": ("hardware.device_table", "get_device"),
    "promote": ("dtypes", "promote"),
    "jit": ("jit", ""),
    "host_array": ("tensors.host_data", "host_array"),
    "devices": ("hardware.device_table", "all_devices"),
    "errors": ("errors", ""),
    "hookimpl": ("hookspecs", "hookimpl"),
    "from_buffer": ("tensors.sharing", "from_buffer"),
    "from_dlpack": ("tensors.sharing", "from_dlpack"),
    **{
        name: ("tensors.random_state", name)
        for name in ("get_rng_state", "host_generator", "manual_seed", "set_rng_state")
    },
    "plugins": ("plugins", ""),
    "on_host": ("tensors.host_work", "on_host"),
    "before_replay": ("runtime.recording", "before_replay"),
    "capturing": ("runtime.recording", "capturing"),
    "on_replay": ("runtime.recording", "on_replay"),
    "prefer": ("ops.choosing", "prefer"),
    "random_state": ("tape.tracing", "random_state"),
    "require_lock": ("plugins.manager", "require_lock"),
    "uncaptured": ("runtime.recording", "uncaptured"),
    "widened": ("dtypes", "widened"),
    "use_device": ("hardware.device_table", "use_device"),
    **{
        name: ("tape.modes", name)
        for name in ("enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled")
    },
    **{
        name: ("tensors.creation", name)
        for name in (
            "arange",
            "as_tensor",
            "empty",
            "empty_like",
            "eye",
            "from_numpy",
            "full",
            "full_like",
            "linspace",
            "ones",
            "ones_like",
            "tensor",
            "zeros",
            "zeros_like",
        )
    },
}

#: The dtypes by PyTorch's names; they are texts, so that `x.dtype == "float32"` holds as well.
_DTYPES: Final = {
    **{
        name: name
        for name in (
            "bfloat16",
            "float16",
            "float32",
            "float64",
            "uint8",
            "int8",
            "int16",
            "int32",
            "int64",
            "bool",
        )
    },
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}

#: Names of PyTorch's that stand in a namespace here, and are handed out by that.
_SHORT: Final = {
    "_assert": "port",
    "autocast": "amp",
    "load": "serialization",
    "save": "serialization",
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
    "Tensor",
    "OperatorRegistrar",
    "PatternRegistrar",
    "PrimitiveRegistrar",
    "Rewrite",
    "Spec",
    "ZEROS_BYTES",
    "__version__",
    "arange",
    "as_tensor",
    "autograd",
    "before_replay",
    "capturing",
    "default_device",
    "device",
    "devices",
    "dtype_name",
    "empty",
    "empty_like",
    "enable_grad",
    "errors",
    "eye",
    "from_numpy",
    "full",
    "full_like",
    "get_device",
    "get_rng_state",
    "hookimpl",
    "host_array",
    "host_generator",
    "is_grad_enabled",
    "from_buffer",
    "from_dlpack",
    "linspace",
    "manual_seed",
    "no_grad",
    "on_host",
    "on_replay",
    "ones",
    "ones_like",
    "plugins",
    "prefer",
    "promote",
    "random_state",
    "require_lock",
    "set_grad_enabled",
    "set_rng_state",
    "tensor",
    "uncaptured",
    "use_device",
    "widened",
    "zeros",
    "zeros_like",
]


def _namespace(name: str) -> Any:
    return importlib.import_module("netcl_core.plugins.manager").namespace(name)


def _module(name: str) -> Any:
    """The module of a namespace, else one of PyTorch's names."""
    try:
        return _namespace(name)
    except AttributeError:
        return importlib.import_module("netcl_core.plugins.manager").absent("torch", name, ())


sys.meta_path.append(_NamespaceFinder(_module))


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        module, attribute = _NAMES[name]
        found: Any = importlib.import_module(f"netcl_core.{module}")
        found = getattr(found, attribute) if attribute else found
        globals()[name] = found
        return found
    if name in _DTYPES:
        return globals().setdefault(name, __getattr__("dtype_name")(_DTYPES[name]))
    if name in _SHORT:
        return globals().setdefault(name, getattr(_namespace(_SHORT[name]), name))
    # `from netcl_core import icd` asks here before it looks for the module of that name.
    if name.startswith("_") or PathFinder.find_spec(f"netcl_core.{name}", __path__) is not None:
        raise AttributeError(f"module 'netcl_core' has no attribute {name!r}")
    try:
        return _namespace(name)
    except AttributeError:  # no plugin's namespace: an op, a name of PyTorch's, or nothing
        return _op(name)


def _op(name: str) -> Any:
    """The function of an op, as `netcl_core.autograd` gives it, or a name of PyTorch's."""
    missing = importlib.import_module("netcl_core.errors").MissingOpError
    try:
        return _ops()(name)
    except missing as error:
        text = f"module 'netcl_core' has no attribute {name!r}. {error}"
        told = AttributeError(str(error) if error.told else text)
        told.told = error.told  # type: ignore[attr-defined]
        raise told from None


@functools.cache
def _ops() -> Any:
    return importlib.import_module("netcl_core.ops.functions").face_of(globals(), "torch")


def __dir__() -> list[str]:
    """The names of this page, and those of dtypes, installed ops and namespaces."""
    registry = importlib.import_module("netcl_core.plugins.manager").registry
    registry.load(("namespace",))
    spaces = {row.record.name for row in registry.rows("namespace")}
    ops = importlib.import_module("netcl_core.ops.functions").__dir__()
    return sorted({*__all__, *spaces, *ops, *_DTYPES, *_SHORT})


#: What no namespace can be called: `netcl_core.<name>` is something else.
OWN_NAMES: Final = frozenset({*globals(), *_NAMES, *_DTYPES, *_SHORT})

#: Where einops looks for what knows a library's tensors: among the subclasses of its own class.
_EINOPS: Final = "einops._backends"


def _introduce() -> None:
    manager = importlib.import_module("netcl_core.plugins.manager")
    port = manager.port()
    if port is not None:
        port.introduce_to_einops()


if _EINOPS in sys.modules:
    _introduce()
else:
    sys.meta_path.insert(0, _IntroducingFinder(_EINOPS, _introduce))
