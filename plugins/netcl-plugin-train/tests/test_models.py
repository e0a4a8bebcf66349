"""Models with the weights of others: files of published names, and what their libraries compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from netcl_plugin_train.conformance import SMALL

import netcl_core as nc
from netcl_core import models, nn

#: Small models of transformers 5.24 and torchvision 0.28: the names and shapes of their files,
#: and the first outputs with the weights of `drawn`.
PUBLISHED = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))


def drawn(shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Weights by name."""
    random, found = np.random.default_rng(0), {}
    for name in sorted(shapes):
        array = (random.standard_normal(shapes[name]) * 0.3).astype(np.float32)
        if name.endswith("running_var"):
            array = np.abs(array) + np.float32(0.5)
        counts = name.endswith("num_batches_tracked")
        array = np.zeros((), np.int64) if counts else array
        found[name] = nc.tensor(array, device="numpy")
    return found


@pytest.mark.parametrize("given", PUBLISHED, ids=lambda x: f"{x['model']}-{x['origin']}")
def test_published_weights_give_the_published_outputs(given: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    other = {"lm_head.weight": nc.ones(3)} if given["model"] == "GPT2" else {}
    nc.save({**drawn(given["shapes"]), **other}, path)
    with nc.use_device("numpy"):
        model = getattr(models, given["model"])(**given["sizes"]).eval()
        report = models.load(model, path)
        assert report.missing_keys == [] and report.unexpected_keys == [*other]
        output = model(nc.tensor(SMALL[given["model"]][1]))
        output = output[0] if given["model"] == "BERT" else output
    found = output.numpy().flatten()[: len(given["output"])]
    np.testing.assert_allclose(found, given["output"], rtol=0, atol=2e-5)


def test_bert_leaves_out_padding() -> None:
    with nc.use_device("numpy"):
        model = models.BERT(**SMALL["BERT"][0]).eval()
        short = model(nc.tensor([[1, 2]]))[0].numpy()
        mask = nc.tensor([[1, 1, 0]])
        padded = model(nc.tensor([[1, 2, 5]]), mask)[0].numpy()[:, :2]
    np.testing.assert_allclose(short, padded, rtol=0, atol=1e-5)


def test_weights_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    given = PUBLISHED[0]
    nc.save(drawn(given["shapes"]), tmp_path / "gpt2")
    for layers, text in ((1, "unexpected transformer.h.1"), (3, "missing blocks.2.qkv.weight")):
        model = models.GPT2(**{**given["sizes"], "layers": layers})
        before = model.tokens.weight.numpy()
        with pytest.raises(nn.StateError, match=text):
            models.load(model, tmp_path / "gpt2")
        np.testing.assert_array_equal(model.tokens.weight.numpy(), before)
    with pytest.raises(TypeError, match=r"a Linear; expected a model of models\.GPT2"):
        models.load(nn.Linear(2, 2), tmp_path / "gpt2")
    with pytest.raises(nc.errors.ShapeError, match="6 positions; expected at most 5"):
        models.GPT2(**given["sizes"])(nc.tensor([[1] * 6]))
