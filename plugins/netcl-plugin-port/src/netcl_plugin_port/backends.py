"""The namespace `netcl_core.backends`: PyTorch's switches of its backends.

Those of `cuda.matmul` choose TF32; the others change nothing.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import Any, Final

from netcl_plugin_linalg import precision

from netcl_plugin_port import cuda as _cuda
from netcl_plugin_port.absent import absence

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"]

_SWITCHES: Final = {
    "allow_tf32": False,
    "benchmark": False,
    "deterministic": True,
    "enabled": False,
    "fp32_precision": "ieee",
}


class Backend(ModuleType):
    """Switches that can be set and read: kernels are chosen by records of tuning, and results are
    the same bits each time.

    >>> nc.backends.cudnn.benchmark = True
    >>> nc.backends.cudnn.is_available()
    False
    """

    def __init__(self, name: str, available: Any, below: tuple[str, ...] = ()) -> None:
        super().__init__(f"netcl_core.backends.{name}", Backend.__doc__)
        self.__dict__.update(_SWITCHES, is_available=available, is_built=available)
        self.__dict__.update({each: Backend(f"{name}.{each}", available) for each in below})

    def version(self) -> None:
        """None: it is not there."""

    def flags(self, **options: Any) -> Any:
        """A context that changes nothing."""
        return nullcontext()


class Products(Backend):
    """The older switches of `nc.set_float32_matmul_precision`.

    >>> nc.backends.cuda.matmul.allow_tf32
    False
    """

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 products may be of TF32."""
        return precision.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        precision.set_float32_matmul_precision("high" if allowed else "highest")

    @property
    def fp32_precision(self) -> str:
        """`"ieee"` or `"tf32"`."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, wanted: str) -> None:
        self.allow_tf32 = wanted == "tf32"


def _never() -> bool:
    return False


cpu = Backend("cpu", lambda: True)
cuda = Backend("cuda", _cuda.is_available)
cuda.__dict__["matmul"] = Products("cuda.matmul", _cuda.is_available)
cudnn = Backend("cudnn", _never, ("conv", "rnn"))
mkl, mkldnn, openmp, opt_einsum = (
    Backend(name, _never) for name in ("mkl", "mkldnn", "openmp", "opt_einsum")
)
mps = Backend("mps", _never)


def __getattr__(name: str) -> Any:
    raise absence("backends", name, __all__)
