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
from netcl_core.plugins.namespace_import import fetched as _fetched

if TYPE_CHECKING:
    from netcl_core import autograd as autograd
    from netcl_core import errors as errors
    from netcl_core import plugins as plugins
    from netcl_core.dtypes import DTYPES as DTYPES
    from netcl_core.dtypes import dtype_name as dtype_name
    from netcl_core.dtypes import promote as promote
    from netcl_core.dtypes import widened as widened
    from netcl_core.hardware.device import Device as Device
    from netcl_core.hardware.device_table import all_devices as _all_devices
    from netcl_core.hardware.device_table import default_device as default_device
    from netcl_core.hardware.device_table import device as device
    from netcl_core.hardware.device_table import get_device as get_device
    from netcl_core.hardware.device_table import use_device as use_device
    from netcl_core.hardware.programs import Rewrite as Rewrite
    from netcl_core.hookspecs import hookimpl as hookimpl
    from netcl_core.ops.choosing import prefer as prefer
    from netcl_core.ops.registrars import AmpPolicyRegistrar as AmpPolicyRegistrar
    from netcl_core.ops.registrars import NamespaceRegistrar as NamespaceRegistrar
    from netcl_core.ops.registrars import OperatorRegistrar as OperatorRegistrar
    from netcl_core.ops.registrars import PatternRegistrar as PatternRegistrar
    from netcl_core.ops.registrars import PrimitiveRegistrar as PrimitiveRegistrar
    from netcl_core.plugins.manager import require_lock as require_lock
    from netcl_core.runtime.host_calls import HostCall as HostCall
    from netcl_core.runtime.kernels import Bound as Bound
    from netcl_core.runtime.kernels import Kernel as Kernel
    from netcl_core.runtime.kernels import Kernels as Kernels
    from netcl_core.runtime.kernels import Spec as Spec
    from netcl_core.runtime.memory import ZEROS_BYTES as ZEROS_BYTES
    from netcl_core.runtime.recording import before_replay as before_replay
    from netcl_core.runtime.recording import capturing as capturing
    from netcl_core.runtime.recording import on_replay as on_replay
    from netcl_core.runtime.recording import uncaptured as uncaptured
    from netcl_core.tape.modes import enable_grad as enable_grad
    from netcl_core.tape.modes import is_grad_enabled as is_grad_enabled
    from netcl_core.tape.modes import no_grad as no_grad
    from netcl_core.tape.modes import set_grad_enabled as set_grad_enabled
    from netcl_core.tape.tracing import random_state as random_state
    from netcl_core.tensors.arguments import lenient as lenient
    from netcl_core.tensors.arguments import renaming as renaming
    from netcl_core.tensors.creation import empty as empty
    from netcl_core.tensors.creation import empty_like as empty_like
    from netcl_core.tensors.creation import full as full
    from netcl_core.tensors.creation import full_like as full_like
    from netcl_core.tensors.creation import ones as ones
    from netcl_core.tensors.creation import ones_like as ones_like
    from netcl_core.tensors.creation import tensor as tensor
    from netcl_core.tensors.creation import zeros as zeros
    from netcl_core.tensors.creation import zeros_like as zeros_like
    from netcl_core.tensors.host_data import host_array as host_array
    from netcl_core.tensors.host_work import on_host as on_host
    from netcl_core.tensors.random_state import Generator as Generator
    from netcl_core.tensors.random_state import default_generator as default_generator
    from netcl_core.tensors.random_state import host_generator as host_generator
    from netcl_core.tensors.random_state import manual_seed as manual_seed
    from netcl_core.tensors.tensor import Tensor as Tensor
    from netcl_core.version import API_VERSION as API_VERSION

    __version__: str
    devices = _all_devices

#: module -> its names, or module:attribute -> another name; those of "" are modules themselves
_MODULES: Final = {
    "": "autograd errors jit plugins",
    "dtypes": "DTYPES dtype_name promote widened",
    "hardware.device": "Device",
    "hardware.device_table": "default_device device get_device use_device",
    "hardware.device_table:all_devices": "devices",
    "hardware.programs": "Rewrite",
    "hookspecs": "hookimpl",
    "ops.choosing": "prefer",
    "ops.registrars": (
        "AmpPolicyRegistrar NamespaceRegistrar OperatorRegistrar PatternRegistrar "
        "PrimitiveRegistrar"
    ),
    "plugins.manager": "require_lock",
    "runtime.host_calls": "HostCall",
    "runtime.kernels": "Bound Kernel Kernels Spec",
    "runtime.memory": "ZEROS_BYTES",
    "runtime.recording": "before_replay capturing on_replay uncaptured",
    "tape.modes": "enable_grad is_grad_enabled no_grad set_grad_enabled",
    "tape.tracing": "random_state",
    "tensors.arguments": "lenient renaming",
    "tensors.creation": "empty empty_like full full_like ones ones_like tensor zeros zeros_like",
    "tensors.host_data": "host_array",
    "tensors.host_work": "on_host",
    "tensors.random_state": "Generator default_generator host_generator manual_seed",
    "tensors.tensor": "Tensor",
    "version": "API_VERSION",
    "version:VERSION": "__version__",
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

#: The dtypes by PyTorch's names; they are texts, so that `x.dtype == "float32"` holds as well.
_ITSELF: Final = "bfloat16 float16 float32 float64 uint8 int8 int16 int32 int64 bool"
_DTYPES: Final = {name: name for name in _ITSELF.split()} | {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}

#: Names that stand in a namespace here, and are handed out by that.
_SHORT: Final = {
    **dict.fromkeys(("arange", "eye", "from_buffer", "from_dlpack", "linspace"), "creation"),
    **dict.fromkeys(("get_rng_state", "initial_seed", "seed", "set_rng_state"), "random"),
    "_assert": "port",
    "auto_replay": "capture",
    "autocast": "amp",
    "load": "serialization",
    "profile": "profiler",
    "save": "serialization",
}

__all__ = [*_MODULE_OF]
_fetch = _fetched(__name__, _MODULE_OF)


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return globals().setdefault(name, _fetch(name))
    if name in _DTYPES:
        return globals().setdefault(name, __getattr__("dtype_name")(_DTYPES[name]))
    # `from netcl_core import icd` asks here before it looks for the module of that name.
    private = name.startswith("_") and name not in _SHORT
    if private or PathFinder.find_spec(f"netcl_core.{name}", __path__) is not None:
        raise AttributeError(f"module 'netcl_core' has no attribute {name!r}")
    try:
        return importlib.import_module("netcl_core.plugins.manager").namespace_attribute(name)
    except AttributeError as error:  # it may be an op, or a name of PyTorch's
        if getattr(error, "told", False):
            raise
        return _op(name)


sys.meta_path.append(_NamespaceFinder(__getattr__))


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
    return importlib.import_module("netcl_core.ops.functions").face_of(globals(), "torch", _SHORT)


def __dir__() -> list[str]:
    """The names of this page, and those of dtypes, installed ops and namespaces."""
    registry = importlib.import_module("netcl_core.plugins.manager").registry
    registry.load(("namespace",))
    spaces = {row.record.name for row in registry.rows("namespace")}
    ops = importlib.import_module("netcl_core.ops.functions").__dir__()
    return sorted({*__all__, *spaces, *ops, *_DTYPES, *_SHORT})


#: What no namespace can be called: `netcl_core.<name>` is something else.
OWN_NAMES: Final = frozenset({*globals(), *_MODULE_OF, *_DTYPES, *_SHORT})

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
