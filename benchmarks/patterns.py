"""Training patterns of the first-party plugins: a group with its pattern beside the same without.

    python benchmarks/patterns.py [device] [--rows N]

Rows have 1,024 float32 elements. Prints launches of the forward, the best of several runs in
milliseconds, and the ratio of the time with the pattern to that without.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from bandwidth import best

import netcl_core as nc
import netcl_core.autograd as ag

ROW = 1024


def block_end(x: Any, bias: Any, residual: Any, weight: Any, shift: Any) -> Any:
    """The group of bias_dropout_residual_layer_norm."""
    return ag.layer_norm(ag.dropout(x + bias, 0.1) + residual, (ROW,), weight, shift)


def calls(function: Callable[..., Any], given: list[Any], seed: Any) -> dict[str, Any]:
    """The forward without recording, and with its gradients."""

    def forward() -> None:
        with ag.no_grad():
            function(*given)

    def both() -> None:
        for leaf in given:
            leaf.grad = None
        function(*given).backward(seed)

    return {"forward": forward, "forward+backward": both}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", nargs="?")
    parser.add_argument("--rows", type=int, default=4096)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with nc.use_device(given.device or nc.default_device()) as device:
        random = np.random.default_rng(0)
        shapes = [(given.rows, ROW), (ROW,), (given.rows, ROW), (ROW,), (ROW,)]
        tensors = [
            nc.tensor(random.standard_normal(shape, dtype=np.float32), requires_grad=True)
            for shape in shapes
        ]
        seed = nc.tensor(random.standard_normal(shapes[0], dtype=np.float32))
        finish = (lambda: None) if device.queue is None else device.queue.finish
        fused = ag.jit_compile(block_end)
        plain = ag.jit_compile(block_end, patterns=ag.TrainingGraphCompiler.private())
        counts = [function.lower(*tensors).launches for function in (fused, plain)]
        print(f"{device}: bias_dropout_residual_layer_norm, {given.rows} rows of {ROW}")
        print(f"launches {counts[0]} and {counts[1]}")
        for name in ("forward", "forward+backward"):
            ours, other = (
                best(calls(function, tensors, seed)[name], finish) for function in (fused, plain)
            )
            print(f"{name:>17}: {ours:8.2f} ms and {other:8.2f} ms, ratio {ours / other:.2f}")


if __name__ == "__main__":
    main()
