"""Rows of LSTM and GRU cells, whose gates are one kernel."""

from __future__ import annotations

from typing import Any

import netcl_core.autograd as ag
from netcl_plugin_torch.dispatch import direct
from netcl_plugin_torch.layers import needs_record
from netcl_plugin_torch.records import NetclRecord, recorded
from netcl_plugin_torch.tensor import wrap, wrap_later


def _with_bias(gates: Any, bias: Any) -> Any:
    return gates if bias is None else gates + bias


def _cell(
    function: Any, given: Any, product: Any, state: Any, biases: Any, width: int
) -> list[Any]:
    """The results of a cell, and what PyTorch saves for its gradient: netcl's record."""
    pairs = zip((given, product), biases, strict=True)
    raws = [*(_with_bias(gates, bias).raw for gates, bias in pairs), state.raw]
    if needs_record(given, product, state, *biases):
        outputs, leaves = recorded(function, raws)
    else:
        leaves = raws
        with ag.no_grad():
            outputs = function(*raws)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    record = NetclRecord(None if leaves is raws else outputs, leaves, _unread)
    workspace = wrap_later((state.shape[0], width * state.shape[1]), state.dtype, record, 0)
    return [*(wrap(output.value.detach()) for output in outputs), workspace]


def _unread(*_: Any) -> Any:
    raise NotImplementedError("netcl: the workspace of a recurrent cell holds no numbers")


def _gradients(workspace: Any, grads: Any) -> list[Any]:
    record = workspace.record.with_graph()
    outputs, leaves = record.outputs, record.leaves
    pairs = [(out, grad.raw) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    outs, seeds = zip(*pairs, strict=True)
    gradients = ag.grad(outs, leaves, seeds, retain_graph=True, allow_unused=True)
    return [None if gradient is None else wrap(gradient) for gradient in gradients]


@direct("_thnn_fused_lstm_cell", depends=needs_record)
def lstm_cell(given: Any, product: Any, cell: Any, first: Any = None, second: Any = None) -> Any:
    return tuple(_cell(ag.lstm_gates, given, product, cell, (first, second), 4))


@direct("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(grad_hidden: Any, grad_cell: Any, cell: Any, new_cell: Any, workspace: Any,
                       has_bias: bool) -> Any:  # fmt: skip
    if grad_hidden is None and grad_cell is None:
        return None, None, None
    gates, _, before = _gradients(workspace, (grad_hidden, grad_cell))
    return gates, before, gates.sum(0) if has_bias else None


@direct("_thnn_fused_gru_cell", depends=needs_record)
def gru_cell(given: Any, product: Any, hidden: Any, first: Any = None, second: Any = None) -> Any:
    return tuple(_cell(ag.gru_gates, given, product, hidden, (first, second), 5))


@direct("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad: Any, workspace: Any, has_bias: bool) -> Any:
    given, product, hidden = _gradients(workspace, (grad,))
    biases = (given.sum(0), product.sum(0)) if has_bias else (None, None)
    return given, product, hidden, *biases
