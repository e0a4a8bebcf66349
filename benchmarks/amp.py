"""Mixed precision: chains of elementwise ops on halves, and steps of models under a policy.

The light chain is y = relu(1.25 x + 0.5) x, the steep one that of the item `chain`. Their x is
stored in half precision, as the result of a product before it would be; our arithmetic is
float32's. PyTorch's step is under its autocast, on a CPU with bfloat16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import chain
import gpt
import mlp
import numpy as np
import resnet
from harness import RaceCase, copying, function_cases

import netcl_core.autograd as ag

POLICY = "fp16-storage"
POWERS = {"cpu": 22, "gpu": 26}


def _under(policy: str, form: Any) -> Any:
    def cast(library: Any, x: Any) -> Any:
        with library.casting(library.named_policy(policy)):
            return form(library, x)

    return cast


LIGHT = {
    "netcl": _under(POLICY, lambda ag, x: ag.relu(x * 1.25 + 0.5) * x),
    "torch": lambda torch, x: torch.relu(x * 1.25 + 0.5) * x,
    "jax": lambda jax, x: jax.nn.relu(x * 1.25 + 0.5) * x,
    "numpy": lambda np, x: np.maximum(x * 1.25 + 0.5, 0) * x,
}
STEEP = {**chain.FORMS, "netcl": _under(POLICY, chain.FORMS["netcl"])}


def _halves(size: int) -> list[Any]:
    return [np.random.default_rng(0).standard_normal(size, np.float32).astype(np.float16)]


#: netcl's policy by the dtype in which results are stored.
POLICIES = {"float16": "fp16-storage", "bfloat16": "bf16-storage"}


def cast(kind: str, dtype: str, loss: Any) -> Any:
    """A loss under the policy, or under PyTorch's autocast; the reference is in float64."""

    def of(ops: Any, model: Any, *inputs: Any) -> Any:
        if ops is ag:
            with ag.casting(ag.named_policy(POLICIES[dtype])):
                return loss(ops, model, *inputs)
        if next(model.parameters()).dtype == ops.float64:
            return loss(ops, model, *inputs)
        place, kept = ("cuda", dtype) if kind == "gpu" else ("cpu", "bfloat16")
        with ops.autocast(place, getattr(ops, kept)):
            return loss(ops, model, *inputs)

    return of


def cases(kind: str) -> Iterator[RaceCase]:
    """Chains with the bytes of halves; steps, where halves open and close gates of relu."""
    power = POWERS[kind]
    for name, forms in (("light", LIGHT), ("steep", STEEP)):
        yield from function_cases(
            f"{name} chain 2^{power} {POLICY}",
            forms,
            partial(_halves, 1 << power),
            forward=copying(4 << power),
            both=copying(10 << power),
            tolerance=4e-3,
        )
    options: dict[str, Any] = {"limit": None, "tolerance": 0.3, "by_jax": False}
    halves = partial(cast, kind, "float16")
    models = {"MLP": mlp.case(kind, mlp.BATCHES[kind][0], halves, **options)}
    if kind == "gpu":
        models["GPT"] = gpt.case(kind, halves, **options)
        models["ResNet-18"] = resnet.case(kind, halves, **options)
    for name, case in models.items():
        yield replace(case, name=f"{name} {case.name} {POLICY}")
