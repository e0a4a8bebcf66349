"""Rows of PyTorch's fused optimizers (`fused=True`): few launches for all parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from netcl_plugin_torch.dispatch import direct, overload
from netcl_plugin_torch.host import by_host
from netcl_plugin_torch.lists import Rows


def _shared(**tensors: Any) -> dict[str, Any]:
    """Those that are tensors, as netcl's."""
    return {name: x.raw for name, x in tensors.items() if hasattr(x, "raw")}


def _fused(name: str) -> Callable[..., Any]:
    """Enter a step as that of both overloads: of a learning rate that is a number or a tensor."""

    def enter(step: Callable[..., Any]) -> None:
        for kind in ("default", "tensor_lr"):
            func = overload(f"{name}.{kind}")

            def run(*lists: Sequence[Any], func: Any = func, lr: Any, grad_scale: Any = None,
                    found_inf: Any = None, **settings: Any) -> None:  # fmt: skip
                if not lists[0]:
                    return
                pointers = _shared(rate=lr, scale=grad_scale, found_inf=found_inf)
                if any(x.dtype != "float32" for x in pointers.values()):
                    pointers = _shared(scale=grad_scale, found_inf=found_inf)
                    lr = float(lr)
                scalars = {} if "rate" in pointers else {"lr": lr}
                scalars["sign"] = -1.0 if settings["maximize"] else 1.0
                try:
                    step(lists, settings, pointers=pointers, scalars=scalars)
                except TypeError:  # of tensors that are not alike
                    by_host(func, *lists, lr=lr, grad_scale=grad_scale, found_inf=found_inf,
                            **settings)  # fmt: skip

            direct(f"{name}.{kind}")(run)

    return enter


def _adams(name: str, flags: Sequence[str]) -> None:
    @_fused(name)
    def step(lists: Any, settings: Any, *, pointers: Any, scalars: Any) -> None:
        params, grads, means, squares, most, steps = lists
        columns = {"x": params, "g": grads, "m": means, "v": squares}
        if settings["amsgrad"]:
            columns["w"] = most
        for i in (1, 2):
            beta = settings[f"beta{i}"]
            scalars |= {f"rest{i}": 1 - beta, f"log{i}": math.log(beta) if beta else -math.inf}
        scalars |= {"beta2": beta, "decay": settings["weight_decay"], "eps": settings["eps"]}
        Rows(columns).run(
            "adam", [name for name in columns if name != "g"], flags=flags,
            counters={"step": [x.raw for x in steps]}, pointers=pointers, scalars=scalars,
        )  # fmt: skip


_adams("_fused_adam_", [])
_adams("_fused_adamw_", ["decoupled"])


@_fused("_fused_sgd_")
def _sgd(lists: Any, settings: Any, *, pointers: Any, scalars: Any) -> None:
    params, grads, buffers = lists
    columns = {"x": params, "g": grads}
    written, flags = ["x"], []
    if buffers:
        columns["m"] = buffers
        written.append("m")
        scalars |= {"momentum": settings["momentum"], "dampening": settings["dampening"]}
        flags += ["nesterov"] if settings["nesterov"] else []
        flags += ["first"] if settings["is_first_step"] else []
    scalars["decay"] = settings["weight_decay"]
    Rows(columns).run("sgd", written, flags=flags, pointers=pointers, scalars=scalars)
