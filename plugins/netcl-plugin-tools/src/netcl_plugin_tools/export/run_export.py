"""`netcl export`: the function of a file, written as a folder, as an ONNX file, or both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netcl_core import DTYPES, Tensor, dtype_name, nn, rand
from netcl_core.cli import print_json
from netcl_core.errors import ArgumentError, message
from netcl_plugin_tools.export import export, export_onnx
from netcl_plugin_tools.graph.target import called


def run(
    target: str,
    *,
    shapes: str | None,
    dtype: str,
    device: str | None,
    out: Path | None,
    onnx: Path | None,
    as_json: bool,
) -> None:
    """Write what is asked for; prints where. A Module is put into evaluation mode.

    Raises ArgumentError, ReplayError or FusionError.
    """
    if out is None and onnx is None:
        raise ArgumentError(message("export", "neither --out nor --onnx", "one of them, or both"))
    dtype = dtype_name(dtype, "--dtype")
    with called("export", target, shapes, dtype, device) as (function, _, given):
        inputs = [_drawn(x) if shapes is not None else x for x in given.args]
        if isinstance(function, nn.Module):
            function.eval()
        written = {}
        if out is not None:
            written["folder"] = str(export(function, *inputs, folder=out, device=device))
        if onnx is not None:
            written["onnx"] = str(export_onnx(function, *inputs, path=onnx))
    if as_json:
        print_json(written)
    else:
        for each in written.values():
            print(each)


def _drawn(x: Any) -> Any:
    """Random numbers for zeros: an example of zeros would show little."""
    floating = isinstance(x, Tensor) and DTYPES[x.dtype].floating
    return rand(*x.shape, dtype=x.dtype) if floating else x
