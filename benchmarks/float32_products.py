"""How exact float32 products are, and how fast, by each precision, beside PyTorch's on one device.

    python benchmarks/float32_products.py [size] [--json FILE]

Matrices of size x size (2048, unless said) that are hard for tensor cores. The error is the norm of
the difference to float64 by that of the result; of results that are not finite it says whether
both libraries have the same. Times are of `nc.set_float32_matmul_precision("highest")` and
`("high")`, PyTorch's with TF32 off and on.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from special_functions import seconds

import netcl_core as nc
import netcl_core.autograd as ag


def inputs(n: int) -> dict[str, tuple[Any, Any]]:
    """Pairs of matrices by their name."""
    random = np.random.default_rng(0)

    def normal() -> Any:
        return random.standard_normal((n, n)).astype(np.float32)

    a, b = normal(), normal()
    spread = (normal() * 2.0 ** random.integers(-50, 51, (n, n))).astype(np.float32)
    paired = np.concatenate([a[:, : n // 2], a[:, : n // 2] * np.float32(-(1 - 1e-4))], 1)
    large, one = normal(), normal()
    large[:, :2], one[:2] = (1e8, -1e8), 1
    infinite = normal()
    infinite[3, 5] = np.inf
    moved = np.eye(n, dtype=np.float32)[random.permutation(n)]
    whole = random.integers(-(2**24), 2**24, (n, n)).astype(np.float32)
    return {
        "normal": (a, b),
        "magnitudes of 2^-50 to 2^50": (spread, b),
        "a - a (1 - 1e-4)": (paired, np.concatenate([b[: n // 2]] * 2)),
        "1e8 - 1e8 + normal": (large, one),
        "values of 1e-40": (a * np.float32(1e-40), b),
        "one infinity": (infinite, b),
        "a permutation": (moved, b),
        "integers up to 2^24, permuted": (moved, whole),
    }


def error(given: Any, wanted: Any) -> str:
    """The norm of the difference to that of what is wanted; or whether the same is not finite."""
    odd = ~np.isfinite(wanted)
    if odd.any() or not np.isfinite(given).all():
        same = np.array_equal(given[odd], wanted[odd], equal_nan=True)
        more = (~np.isfinite(given) & ~odd).sum()
        return f"{'the same' if same else 'others'}, {more} more not finite"
    return f"{np.linalg.norm(given - wanted) / np.linalg.norm(wanted):.1e}"


def main() -> None:
    """Print a row for each input, then the times."""
    parser = argparse.ArgumentParser()
    parser.add_argument("size", nargs="?", type=int, default=2048)
    parser.add_argument("--json")
    given = parser.parse_args()
    device = nc.default_device()
    place = "cuda" if device.kind == "gpu" else "cpu"
    wait = torch.cuda.synchronize if device.kind == "gpu" else lambda: None
    results: dict[str, Any] = {"device": device.name, "size": given.size}
    print(device.name, "PyTorch", torch.__version__, f"{given.size} x {given.size}")
    pairs = inputs(given.size)
    for name, (a, b) in pairs.items():
        with np.errstate(invalid="ignore"):
            wanted = a.astype(np.float64) @ b.astype(np.float64)
        row = {}
        for precision in ("highest", "high"):
            nc.set_float32_matmul_precision(precision)
            torch.set_float32_matmul_precision(precision)
            row[precision] = error(ag.matmul(nc.tensor(a), nc.tensor(b)).numpy(), wanted)
            theirs = torch.tensor(a, device=place) @ torch.tensor(b, device=place)
            row[f"PyTorch, {precision}"] = error(theirs.cpu().numpy(), wanted)
        print(f"{name:32}", "; ".join(f"{key} {value}" for key, value in row.items()))
        results[name] = row
    for n in (given.size // 2, given.size, given.size * 2):
        x = np.random.default_rng(1).standard_normal((n, n)).astype(np.float32)
        ours, theirs = nc.tensor(x), torch.tensor(x, device=place)
        for precision in ("highest", "high"):
            nc.set_float32_matmul_precision(precision)
            torch.set_float32_matmul_precision(precision)
            with nc.no_grad():
                mine = seconds(lambda x=ours: ag.matmul(x, x), nc.cuda.synchronize)
            his = seconds(lambda x=theirs: x @ x, wait)
            rate = f"{mine * 1e6:.0f} us, {2e-12 * n**3 / mine:.0f} TFLOP/s"
            print(f"{n}, {precision:8} {rate}, {mine / his:.2f} of PyTorch's")
            results[f"{n}, {precision}"] = {"us": mine * 1e6, "ratio": mine / his}
    if given.json:
        Path(given.json).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
