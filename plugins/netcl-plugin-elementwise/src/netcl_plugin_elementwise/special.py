"""nc.special: PyTorch's names of special functions, each an op of `ag`.

    >>> nc.special.expit(nc.tensor([0.0])).tolist()
    [0.5]

`docs/ops.md` says in which dtypes; integers become float32.
"""

from __future__ import annotations

from typing import Any, Final

import netcl_core.autograd as ag
from netcl_core.errors import missing_name

#: PyTorch's name in this namespace: the op's, where it is another.
_NAMES: Final = {
    **{
        name: name
        for name in (
            "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expm1", "i0", "i0e", "i1", "i1e",
            "log1p", "log_ndtr", "log_softmax", "logit", "logsumexp", "ndtr", "ndtri", "round",
            "sinc", "softmax", "xlog1py", "xlogy",
        )
    },
    "expit": "sigmoid",
    "gammaln": "lgamma",
    "psi": "digamma",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise missing_name("special", name, _NAMES)
    return getattr(ag, _NAMES[name])


def __dir__() -> list[str]:
    return sorted(_NAMES)
