"""What a newcomer sees: help, names, and the texts of the usual mistakes."""

from __future__ import annotations

import pydoc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import nn
from netcl_core.codegen import primitives
from netcl_core.errors import PrimitiveError, ShapeError
from netcl_core.hardware import builders
from netcl_core.ops.registrars import _check_expressions


def test_help_and_dir_show_what_there_is() -> None:
    text = pydoc.plain(pydoc.render_doc(nc.Tensor))
    for name in ("softmax(x, dim=-1)", "clone", "backward", "add_"):
        assert name in text
    assert nc.Tensor.exp(nc.zeros(1)).item() == 1
    assert not hasattr(nc.Tensor, "no_such_method") and not hasattr(nc.Tensor, "_repr_html_")
    assert {"nn", "optim", "relu", "float32", "autocast", "Tensor"} <= set(dir(nc))
    for space in (nn, nn.init, nc.linalg, nc.fft, nc.random, nc.cuda, nc.signal, nc.utils.data):
        shown = {name for name in dir(space) if not name.startswith("__")}
        assert shown and not shown & {"Any", "Final", "annotations", "message", "nc", "np", "math"}


def test_the_truth_of_many_elements() -> None:
    x = nc.ones(2)
    with pytest.raises(ShapeError, match=r"Use x\.any\(\) or x\.all\(\)"):
        bool(x > 0)
    assert bool((x > 0).all())


def test_a_shape_error_names_the_layer() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(4, 2))
            self.body[2].register_forward_hook(lambda *_: None)

        def forward(self, x: Any) -> Any:
            return self.body(x)

    for model, where in ((Net(), r"body\.2: "), (nn.Linear(4, 2), "")):
        with pytest.raises(ShapeError, match=rf"^linear: .*In the layer {where}Linear\(in_feat"):
            model(nc.ones(1, 3))


def test_sizes_may_be_tensors_and_numpy_takes_tensors() -> None:
    assert nc.zeros(nc.tensor(3), 2).shape == nc.ones((nc.tensor(3), 2)).shape == (3, 2)
    x = nc.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert np.mean(x) == 2.5 and np.std(x, axis=0).tolist() == [1.0, 1.0]
    assert np.concatenate([x, x]).shape == (4, 2)


def test_a_notebook_shows_the_message_first() -> None:
    with pytest.raises(ShapeError) as caught:
        nn.Linear(4, 2)(nc.ones(1, 3))
    caught.value.add_note("a note")
    lines = caught.value._render_traceback_()
    assert lines[0].startswith("ShapeError: linear: x of shape") and lines[1] == "a note"
    assert any("test_a_notebook" in line for line in lines[2:])


def test_far_names_are_not_suggested() -> None:
    with pytest.raises(AttributeError, match=r"hub.*from_torch_state_dict"):
        _ = nc.hub


def test_a_line_counts_kernels_while_they_are_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(builders.count, "seconds", 2.0)
    monkeypatch.setattr(builders.count, "built", 4)
    with builders.told():  # in a pipe nothing is said
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("NETCL_BUILD_PROGRESS", "on")
    with builders.told():
        shown = capsys.readouterr().err
        assert "netcl: building kernel 6, 2 s so far" in shown and "\n" not in shown
    assert capsys.readouterr().err.strip() == ""  # it is wiped out again
    monkeypatch.setattr(builders.count, "seconds", 0.5)
    with builders.told():
        pass
    assert capsys.readouterr().err == ""


def test_expressions_that_were_right_once_are_not_parsed_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those of all ops took a second of each process; wrong ones are told every time."""
    monkeypatch.setenv("NETCL_CACHE_DIR", str(tmp_path))
    parsed: list[str] = []
    real = primitives.parse
    monkeypatch.setattr(
        primitives, "parse", lambda text, *rest: parsed.append(text) or real(text, *rest)
    )
    for text, count in (("x + 1", 1), ("x + 1", 1), ("x + 2", 2), ("x +", 3), ("x +", 4)):
        record = ag.AutogradPrimitive("one", lambda args, _, t=text: t, None, 1, inputs=["x"])
        with pytest.raises(PrimitiveError) if text == "x +" else nullcontext():
            _check_expressions(record)
        assert len(parsed) == count
