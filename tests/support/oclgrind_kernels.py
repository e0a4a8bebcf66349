"""Run by test_lowering.py under Oclgrind: each kind of elementwise kernel once, with tails."""

from __future__ import annotations

import numpy as np

import netcl_core as nc
from netcl_core.autograd.elementwise import plan_gradients
from netcl_core.autograd.kernels import run_plan
from netcl_core.autograd.lowering import Plan
from netcl_core.autograd.primitives import AutogradPrimitive
from netcl_core.autograd.region import Region, Signature, Step

#: Full rows, rows and splats over one and two outer dimensions, a single element.
SHAPES = (
    ((37,), (37,)),
    ((3, 37), (37,)),
    ((5, 7), (5, 1)),
    ((2, 1, 18), (3, 1)),
    ((300,), ()),
)
DTYPES = (
    ("float32", "float32"),
    ("float16", "float64"),
    ("uint8", "int64"),
    ("bool", "float32"),
)

record = AutogradPrimitive(
    "kind",
    lambda x, a: f"{x[0]} > {x[1]} ? {x[0]} * {x[1]} : {x[1]}",
    lambda x, g, a, o: [
        f"{x[0]} > {x[1]} ? {g} * {x[1]} : 0",
        f"{x[0]} > {x[1]} ? {g} * {x[0]} : {g}",
    ],
    2,
)
region = Region(2, 0, (Step(record, (("in", 0), ("in", 1))),), (("step", 0),))

with nc.use_device("opencl:oclgrind") as device:
    count = 0
    for kind in ("cpu", "gpu"):
        device.kind = kind
        for shapes in SHAPES:
            for dtypes in DTYPES:
                arrays = [
                    np.resize(np.arange(7), shape).astype(dtype)
                    for shape, dtype in zip(shapes, dtypes, strict=True)
                ]
                tensors = [nc.tensor(array) for array in arrays]
                signature = Signature(tuple((t.shape, t.dtype) for t in tensors), ())
                made = Plan(region, device, signature)
                (out,) = run_plan(made, [tensor.buffer for tensor in tensors], ())
                x, y = arrays
                assert np.array_equal(out.to_host(), np.where(x > y, x * y, y)), (shapes, dtypes)
                needs = tuple(tensor.dtype.startswith("float") for tensor in tensors)
                if any(needs):
                    plan_gradients(made, tensors, (), needs, nc.Tensor.ones(out.shape, out.dtype))
                device.queue.finish()
                count += 1
    print(f"{count} kernels ran")
