"""Every argument of PyTorch's, of every function, method, layer and optimizer that netcl offers: it
is taken, or ignored because it has no meaning here, or refused with what to write instead.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from beside_pytorch import PLACES, place
from netcl_plugin_port.absent import pytorchs
from netcl_plugin_port.arguments import IGNORED, REFUSED

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import ArgumentError
from netcl_core.plugins.registry import registry
from netcl_core.tensors.arguments import renaming

#: Arguments of old, of PyTorch's inner workings, or of other meaning, by the name that has them.
ELSE = {
    "args": "a layer without settings takes and ignores any",
    "kwargs": "the same",
    "self": "a method's own tensor",
    "size_average": "becomes `reduction`, as the next",
    "reduce": "see test_old_forms_of_reduction",
    "check_nan": "document 003 says `check_numerics`, which is off by default",
    **dict.fromkeys(
        (
            "pickle_module",
            "pickle_load_args",
            "pickle_protocol",
            "_disable_byteorder_record",
            "_use_new_zipfile_serialization",
        ),
        "nothing is pickled",
    ),
    "dtype": "`view(dtype)` is refused with a sentence",
    "embedding.indices": "torch.embedding has its operands the other way round",
    "embedding.max_norm": "refused; nn.Embedding has it",
    "embedding.norm_type": "the same",
    "Embedding._freeze": "Embedding.from_pretrained has it",
    "RNNBase.mode": "LSTM, GRU and RNN are the modes",
    "UninitializedBuffer.persistent": "register_buffer has it",
    "grad.materialize_grads": "allow_unused gives None",
    "set_detect_anomaly.mode": "it comes first",
    "randperm.requires_grad": "whole numbers have no gradients",
    "tril_indices.requires_grad": "the same",
    "triu_indices.requires_grad": "the same",
    "new": "sizes or data by position, as it was written before PyTorch 0.4",
    "is_pinned": "no memory is",
    "from_": "`from` is a word of Python's: it comes first",
    "result_type": "two operands by position",
    "grad_variables": "the name before PyTorch 0.4",
    "inputs": "ag.grad has it",
    "huber_loss.weight": "multiply with reduction='none'",
    "l1_loss.weight": "the same",
    "mse_loss.weight": "the same",
    "TensorDataset.tensors": "any number of them by position",
    "autocast": "see the tests of amp",
    "implicit": "a hint to expand",
    "inplace": "for every op: its first operand is changed",
}


def _mine(name: str, value: Any) -> list[str] | None:
    """The names of what a function takes; None: anything."""
    row = next(iter(registry.op_rows(name.removesuffix("_"))), None)
    record: Any = None if row is None else row.record
    if record is not None and hasattr(record, "arity"):
        return [*(record.inputs or ()), *record.attrs, *record.forms]
    if record is None and isinstance(value, type) and value.__module__ == "builtins":
        return None
    parameters = (inspect.signature(value) if record is None else record.signature).parameters
    if record is None and any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return None
    return list(parameters)


def _theirs(text: str) -> Iterator[str]:
    """The names of arguments in the forms of a line of `pytorch.txt`."""
    for form in text.split(" | "):
        for each in _arguments(form):
            yield each.partition("=")[0].lstrip("*")


def _arguments(form: str) -> Iterator[str]:
    """The arguments of one form, with their defaults."""
    inner, depth = "", 0
    for letter in form.strip()[1:-1] + ",":
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            yield inner.strip()
            inner = ""
        else:
            inner += letter


#: Places and defaults that differ, with the reason. `name` is for all places of its name.
OTHERWISE = {
    "batch_norm": "the order of nn.functional, also as nc.batch_norm",
    "instance_norm": "the same",
    "binary_cross_entropy_with_logits": "the same",
    "embedding": "the same",
    "embedding_bag": "the same",
    "kl_div": "the same; its log_target stands where PyTorch once had `reduce`",
    "norm": "`out` is given by name",
    "tensor": "dtype and device are given by name, as in PyTorch's own function",
    "detect_anomaly": "whether it is on comes first; it looks for NaN in any case",
    "set_detect_anomaly": "the same",
    "enable_grad": "`function`, by position",
    "backward": "PyTorch's None is False",
    "uniform_": "`from` is a word of Python's",
    "where": "as a method, `x.where(condition, other)`",
    "RNNBase": "LSTM, GRU and RNN are the modes",
    "softmax": "the last axis, outside of nn.functional, where PyTorch wants one",
    "log_softmax": "the same",
    "softmin": "the same",
    "std": "PyTorch's None is 1",
    "var": "the same",
    **dict.fromkeys(
        (f"{kind}_pool{n}d_with_indices" for kind in ("adaptive_max", "fractional_max", "max")
         for n in (1, 2, 3)),
        "they give the places, whatever `return_indices` says",
    ),
    "cdist": "one way to compute it",
    **dict.fromkeys(
        ("BCEWithLogitsLoss", "CrossEntropyLoss", "KLDivLoss", "NLLLoss", "PoissonNLLLoss",
         "SmoothL1Loss", "cross_entropy", "nll_loss", "poisson_nll_loss", "smooth_l1_loss"),
        "without `size_average` and `reduce`; a bool in the place of a class is refused",
    ),
    "Embedding": "`_freeze` is for PyTorch itself",
    "Hardtanh": "min_value is an older name of min_val",
}  # fmt: skip
#: Defaults that say the same in other words.
SAME = {
    ("()", None), ("1", "mean"), ("None", "mean"), ("None", "float32"), ("None", 0.0),
    ("None", ()), ("None", False), ("torch.contiguous_format", None), ("-1", None),
}  # fmt: skip


def _places(name: str, value: Any) -> tuple[list[str], dict[str, Any]] | None:
    """What a function takes by position, and all its defaults; None: anything."""
    row = next(iter(registry.op_rows(name.removesuffix("_"))), None)
    record: Any = None if row is None else row.record
    if hasattr(record, "arity"):
        attrs = record.default_attrs() or {}
        mine = _mine(name, value)
        return None if mine is None or record.arity is None else (mine, attrs)
    if _mine(name, value) is None:
        return None
    signature = inspect.signature(value) if record is None else record.signature
    given = signature.parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in given):
        return None
    by_place = [x.name for x in given if x.kind in (x.POSITIONAL_ONLY, x.POSITIONAL_OR_KEYWORD)]
    return by_place, {x.name: x.default for x in given if x.default is not x.empty}


def _misplaced(name: str, mine: list[str], defaults: dict[str, Any], form: list[str]) -> list[str]:
    """What means another argument by position, and what has another default."""
    wrong, by_place = [], True
    renamed = renaming(name, tuple({*mine, *defaults}))
    for i, each in enumerate(form):
        said, told, default = each.partition("=")
        by_place = by_place and each[0] != "*"
        known = said in REFUSED or each[0] == "*"
        ours = said if known else next(iter(renamed({said: None})), said)
        of_old = said in {"size_average", "reduce"} and mine[i : i + 1] == ["reduction"]
        if by_place and i < len(mine) and mine[i] != ours and not of_old:  # else it is refused
            wrong.append(f"{said} is {mine[i]}")
        if told and ours in defaults and not of_old and not _alike(default, defaults[ours]):
            wrong.append(f"{each}, not {defaults[ours]!r}")
    return wrong


def _alike(text: str, value: Any) -> bool:
    """Whether a default is PyTorch's, of which a text tells."""
    if text in {"...", repr(value), str(value)} or (text, value) in SAME:
        return True
    try:
        return bool(ast.literal_eval(text) == value)
    except ValueError:
        return False


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("where", PLACES)
def test_every_argument_stands_in_its_place_with_its_default(where: str) -> None:
    owner, wrong = place(nc, where), {}
    for name, text in pytorchs()[where].items():
        value, takes = getattr(owner, name, None), text.partition(" -> ")[0]
        if not callable(value) or not takes or name in ELSE or name in OTHERWISE:
            continue
        known = _places("" if where == "nn.init" else name, value)
        if known is None:
            continue
        places, defaults = known
        forms = [[x for x in _arguments(form) if x not in ("", "/")] for form in takes.split(" | ")]
        forms = [form for form in forms if not any(x[0] == "*" != x for x in form)]
        own = (places, places[1:]) if where == "Tensor" else (places,)
        tried = [_misplaced(name, mine, defaults, form) for form in forms for mine in own]
        found = min(tried, key=len, default=[])
        if found:
            wrong[name] = found
    assert wrong == {}


def test_an_inplace_at_the_end_and_the_places_of_old() -> None:
    x, target = nc.tensor([[-1.0, 2.0]]), nc.tensor([1])
    functional = nc.nn.functional
    assert functional.leaky_relu(x, 0.5, False).tolist() == [[-0.5, 2]]
    assert functional.leaky_relu(x, 0.5, True) is x and x.tolist() == [[-0.5, 2]]
    assert functional.dropout(x, 0.5, False, True) is x and x.tolist() == [[-0.5, 2]]
    for loss in (functional.cross_entropy, functional.nll_loss):
        with pytest.raises(ArgumentError, match=r"ignore_index=False.*reduction='sum'"):
            loss(x, target, None, False)


def _unknown(name: str, mine: list[str] | None, text: str) -> list[str]:
    if mine is None:
        return []
    known = {*mine, *IGNORED, *REFUSED, *ELSE, ""}
    asked = dict.fromkeys(each for each in _theirs(text) if each not in known)
    renamed = renaming(name, tuple(mine))
    return [
        each
        for each in asked
        if f"{name.rstrip('_')}.{each}" not in ELSE and not set(renamed({each: 0})) <= set(mine)
    ]


@pytest.mark.usefixtures("on_numpy")
@pytest.mark.parametrize("where", PLACES)
def test_every_argument_has_an_answer(where: str) -> None:
    owner, lacking = place(nc, where), {}
    for name, text in pytorchs()[where].items():
        value = getattr(owner, name, None)
        if not callable(value) or not text or name in ELSE:
            continue
        takes, _, called = text.partition(" -> ")
        mine = _mine("" if where == "nn.init" else name, value)  # else it is an op
        if where == "Tensor" and mine is not None:
            mine = [*mine, "self"]
        unknown = _unknown(name, mine, takes) if takes else []
        if called and not isinstance(value, type(ag.relu)) and "Lazy" not in name:
            unknown += _unknown(name, _mine("", value.forward), called)
        if unknown:
            lacking[name] = unknown
    assert lacking == {}


def test_old_forms_of_reduction() -> None:
    x, y = nc.tensor([1.0, 2.0]), nc.zeros(2)
    assert ag.mse_loss(x, y, size_average=False).item() == 5
    assert ag.mse_loss(input=x, target=y, reduce=False).tolist() == [1, 4]
    assert nc.nn.MSELoss(size_average=False)(input=x, target=y).item() == 5


def test_creation_by_pytorchs_names() -> None:
    hints: dict[str, Any] = {"pin_memory": True, "layout": nc.strided, "names": None}
    assert nc.zeros(size=(2,), **hints).tolist() == [0, 0]
    assert nc.full(size=(2,), fill_value=3, **hints).tolist() == [3, 3]
    assert nc.tensor(data=[1], pin_memory=True).tolist() == [1]
    assert nc.rand(size=(2, 3)).shape == nc.empty_like(nc.ones(2, 3), memory_format=None).shape
    assert nc.ones(2).to("cpu", non_blocking=True, copy=True).tolist() == [1, 1]
    with pytest.raises(ArgumentError, match=r"zeros: names=\('n',\) is not there. Dimensions have"):
        nc.zeros(2, names=("n",))


def test_out_is_written_into() -> None:
    x, found = nc.tensor([[1.0, 2.0], [3.0, 0.0]]), nc.zeros(2, 2)
    assert ag.add(x, x, out=found) is found and found.tolist() == [[2, 4], [6, 0]]
    assert ag.matmul(x, x, out=found).tolist() == (x @ x).tolist()
    values, places = nc.zeros(2), nc.zeros(2, dtype="int64")
    ag.max(x, dim=1, out=(values, places))
    assert (values.tolist(), places.tolist()) == ([2, 3], [1, 0])
    with pytest.raises(ArgumentError, match="mul: out= for a result that needs a gradient"):
        ag.mul(x.requires_grad_(), x, out=found)


def test_layers_and_optimizers_by_pytorchs_names() -> None:
    layer = nc.nn.Linear(in_features=2, out_features=1)
    optimizer = nc.optim.Adam(params=layer.parameters(), foreach=True, fused=None, capturable=False)
    layer(input=nc.ones(3, 2)).sum().backward()
    optimizer.step()
    with pytest.raises(ArgumentError, match=re.escape("Adam: differentiable=True is not there")):
        nc.optim.Adam(layer.parameters(), differentiable=True)
