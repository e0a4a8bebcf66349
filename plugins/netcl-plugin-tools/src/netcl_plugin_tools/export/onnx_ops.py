"""Structured ops in ONNX: a row for each, which writes the nodes of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np


class RefusalError(Exception):
    """A call has no counterpart; the text says why."""


def _need(holds: bool, what: str) -> None:
    if not holds:
        raise RefusalError(what)


def _reshape(g: Any, node: Any, x: Sequence[str]) -> str:
    return str(g.op("Reshape", [x[0], g.ints(*node.shape)], allowzero=1))


def _permute(g: Any, node: Any, x: Sequence[str]) -> str:
    return str(g.op("Transpose", x, perm=node.attrs["dims"]))


def _item(g: Any, node: Any, x: Sequence[str]) -> str:
    """Slices, numbers and new dimensions: a Slice, and a Reshape to what is left."""
    parts = [index for index in node.attrs["index"] if index[0] != "new"]
    _need({part[0] for part in parts} <= {"slice", "int"}, "an index other than slices")
    begins = [part[1] for part in parts]
    steps = [part[2] if part[0] == "slice" else 1 for part in parts]
    counts = [part[3] if part[0] == "slice" else 1 for part in parts]
    ends = [b + s * n for b, s, n in zip(begins, steps, counts, strict=True)]
    axes = g.ints(*range(len(parts)))
    cut = g.op("Slice", [x[0], g.ints(*begins), g.ints(*ends), axes, g.ints(*steps)])
    return str(g.op("Reshape", [cut, g.ints(*node.shape)], allowzero=1))


def _parts(g: Any, node: Any, x: Sequence[str]) -> list[str]:
    """All parts along a dimension; of `unbind`, without it."""
    axis, shape = node.attrs["dim"], node.inputs[0].shape
    sizes = node.attrs.get("sizes", (1,) * shape[axis])
    ends = np.cumsum(sizes).tolist()
    parts = []
    for end, size in zip(ends, sizes, strict=True):
        args = [x[0], g.ints(end - size), g.ints(end), g.ints(axis)]
        part = g.op("Slice", args)
        parts.append(part if "sizes" in node.attrs else g.op("Squeeze", [part, g.ints(axis)]))
    return parts


def _linear(g: Any, node: Any, x: Sequence[str]) -> str:
    y = g.op("MatMul", [x[0], g.op("Transpose", [x[1]], perm=[1, 0])])
    return str(g.op("Add", [y, x[2]]) if len(x) > 2 else y)


def _matmul(g: Any, node: Any, x: Sequence[str]) -> str:
    operands = []
    for name, operand, turned in zip(x, node.inputs, ("trans_a", "trans_b"), strict=True):
        order = [*range(len(operand.shape))]
        order[-2:] = order[:-3:-1]
        operands.append(g.op("Transpose", [name], perm=order) if node.attrs[turned] else name)
    return str(g.op("MatMul", operands))


def _layer_norm(g: Any, node: Any, x: Sequence[str]) -> str:
    shape, dtype = node.attrs["normalized_shape"], node.dtype
    scale = x[1] if len(x) > 1 else g.constant(np.ones(shape, dtype))
    return str(
        g.op(
            "LayerNormalization",
            [x[0], scale, *x[2:]],
            axis=-len(shape),
            epsilon=node.attrs["eps"],
        )
    )


def _attention(g: Any, node: Any, x: Sequence[str]) -> str:
    attrs, dtype = node.attrs, node.dtype
    _need(not attrs["dropout_p"], "dropout: call eval() before")
    _need(not attrs["enable_gqa"], "grouped heads")
    query, key = node.inputs[0].shape, node.inputs[1].shape
    order = [*range(len(key))]
    order[-2:] = order[:-3:-1]
    scores = g.op("MatMul", [x[0], g.op("Transpose", [x[1]], perm=order)])
    scores = g.op("Mul", [scores, g.constant(np.array(attrs["scale"], dtype))])
    lowest = np.array(np.finfo(dtype).min, dtype)
    if attrs["is_causal"]:
        mask = np.triu(np.full((query[-2], key[-2]), lowest, dtype), 1)
        scores = g.op("Add", [scores, g.constant(mask)])
    if len(x) > 3 and node.inputs[3].dtype == "bool":
        scores = g.op("Where", [x[3], scores, g.constant(lowest)])
    elif len(x) > 3:
        scores = g.op("Add", [scores, x[3]])
    return str(g.op("MatMul", [g.op("Softmax", [scores], axis=-1), x[2]]))


def _convolution(g: Any, node: Any, x: Sequence[str]) -> str:
    attrs = node.attrs
    pads = [pair[0] for pair in attrs["padding"]] + [pair[1] for pair in attrs["padding"]]
    sizes = {"strides": attrs["stride"], "dilations": attrs["dilation"]}
    return str(g.op("Conv", x, pads=pads, group=attrs["groups"], **sizes))


def _windows(kind: str, axes: Sequence[Any], g: Any, x: Sequence[str], **more: Any) -> str:
    """Pooling: the padding at the end is what the number of windows needs."""
    _need(not any(axis.adaptive for axis in axes), "windows of several sizes")
    ends = [
        max(0, (a.count - 1) * a.stride + a.dilation * (a.kernel - 1) + 1 - a.size - a.padding)
        for a in axes
    ]
    return str(
        g.op(
            kind,
            x,
            kernel_shape=[a.kernel for a in axes],
            strides=[a.stride for a in axes],
            pads=[a.padding for a in axes] + ends,
            **more,
        )
    )


def _max_pool(g: Any, node: Any, x: Sequence[str]) -> list[str]:
    axes = node.attrs["axes"]
    return [_windows("MaxPool", axes, g, x, dilations=[a.dilation for a in axes])]


def _average_pool(g: Any, node: Any, x: Sequence[str]) -> str:
    ways = node.attrs["ways"]
    average = all(way.mode == "average" and not way.axis.padding for way in ways)
    _need(average, "resampling other than averages without padding")
    return _windows("AveragePool", [way.axis for way in ways], g, x[:1])


def _reduction(kind: str) -> Callable[..., str]:
    def write(g: Any, node: Any, x: Sequence[str]) -> str:
        given = x[0]
        if node.inputs[0].dtype == "bool":
            given = g.cast(given, "int64" if node.dtype == "bool" else node.dtype)
        elif node.inputs[0].dtype != node.dtype:
            given = g.cast(given, node.dtype)
        keep = int(node.attrs["keepdim"])
        reduced = g.op(kind, [given, g.ints(*node.attrs["dim"])], keepdims=keep)
        return str(g.cast(reduced, "bool") if node.dtype == "bool" else reduced)

    return write


def _arg(kind: str) -> Callable[..., str]:
    def write(g: Any, node: Any, x: Sequence[str]) -> str:
        return str(g.op(kind, x, axis=node.attrs["dim"], keepdims=int(node.attrs["keepdim"])))

    return write


def _softmax(kind: str) -> Callable[..., str]:
    return lambda g, node, x: str(g.op(kind, x, axis=node.attrs["dim"]))


def _pad(g: Any, node: Any, x: Sequence[str]) -> str:
    pairs = node.attrs["pairs"]
    value = g.constant(np.array(node.attrs["value"], node.dtype))
    pads = g.ints(*(a for a, _ in pairs), *(b for _, b in pairs))
    return str(g.op("Pad", [x[0], pads, value]))


def _sums(g: Any, node: Any, x: Sequence[str]) -> str:
    axis = g.constant(np.array(node.attrs["dim"], np.int64))
    return str(g.op("CumSum", [x[0], axis], reverse=int(node.attrs["reverse"])))


def _select(g: Any, node: Any, x: Sequence[str]) -> str:
    return str(g.op("Gather", x, axis=node.attrs["dim"]))


#: What writes a call of each op: `(graph, node, names of the inputs) -> name, or names`.
OPS: Final[dict[str, Callable[..., Any]]] = {
    **dict.fromkeys(("reshape", "flatten", "unflatten", "contiguous"), _reshape),
    **dict.fromkeys(("unsqueeze", "squeeze"), _reshape),
    **dict.fromkeys(("permute", "transpose"), _permute),
    **dict.fromkeys(("split_views", "unbind_views"), _parts),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), _convolution),
    "basic_getitem": _item,
    "expand": lambda g, node, x: g.op("Expand", [x[0], g.ints(*node.shape)]),
    "cat": lambda g, node, x: g.op("Concat", x, axis=node.attrs["dim"]),
    "index_select": _select,
    "linear": _linear,
    "matmul": _matmul,
    "layer_norm": _layer_norm,
    "scaled_dot_product_attention": _attention,
    "max_windows": _max_pool,
    "resample": _average_pool,
    "sum": _reduction("ReduceSum"),
    "mean": _reduction("ReduceMean"),
    "prod": _reduction("ReduceProd"),
    "amax": _reduction("ReduceMax"),
    "amin": _reduction("ReduceMin"),
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "softmax": _softmax("Softmax"),
    "log_softmax": _softmax("LogSoftmax"),
    "constant_pad_nd": _pad,
    "cumsum": _sums,
}
