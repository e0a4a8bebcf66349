"""Training steps of models that many people train, in float32 and in 16 bits, and a decoder.

On a GPU in their usual sizes, on a CPU three small ones. The architectures are in
`harness/architectures.py`. Of 16 bits netcl has a storage policy, PyTorch its autocast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import amp
import numpy as np
from harness import RaceCase, RaceWork, model_case
from harness import architectures as of
from harness.models import loaded
from harness.peers import library, torch_place

import netcl_core as nc
from netcl_core import Device, Tensor, use_device

#: Of gradients, by norm, and of float16 of the loss: batch norms enlarge what was rounded.
TOLERANCES = {None: 0.05, "bfloat16": 0.2, "float16": 0.01}


@dataclass(frozen=True)
class Model:
    """What is trained: how it is built, what its loss is, and the shapes of a batch.

    Attributes:
        build: Makes the model of a module of layers.
        loss: Of ops, the model and the arrays.
        floats: Shapes of inputs that are normal numbers.
        whole: Shapes of inputs that are whole numbers, and what they are below.
        optimizer: Its name in both libraries.
    """

    build: Callable[[Any], Any]
    loss: Callable[..., Any]
    floats: tuple[tuple[int, ...], ...] = ()
    whole: tuple[tuple[tuple[int, ...], int], ...] = ()
    optimizer: str = "SGD"

    def data(self) -> list[Any]:
        """The batch."""
        random = np.random.default_rng(1)
        arrays: list[Any] = [random.standard_normal(shape, np.float32) for shape in self.floats]
        return [*arrays, *(random.integers(0, below, shape) for shape, below in self.whole)]


def _labels(ops: Any, model: Any, x: Any, y: Any) -> Any:
    """Each row of logits has a label; of sequences and pictures each place has one."""
    logits = model(x)
    if logits.ndim == 4:
        return ops.cross_entropy(logits, y)
    return ops.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def _told_apart(ops: Any, model: Any, noise: Any, pictures: Any, real: Any) -> Any:
    logits = model(noise, pictures)
    return ops.binary_cross_entropy_with_logits(logits, real.to(logits.dtype))


def _clicked(ops: Any, model: Any, numbers: Any, places: Any, clicks: Any) -> Any:
    logits = model(numbers, places)
    return ops.binary_cross_entropy_with_logits(logits, clicks.to(logits.dtype))


def _near(ops: Any, model: Any, x: Any, y: Any) -> Any:
    return ops.mse_loss(model(x), y)


def _texts(build: Any, words: int, *shape: int) -> Model:
    return Model(build, _labels, whole=((shape, words), (shape, words)), optimizer="AdamW")


def _pictures(build: Any, batch: int, classes: int = 1000, side: int = 224) -> Model:
    return Model(build, _labels, ((batch, 3, side, side),), (((batch,), classes),))


def models(kind: str) -> dict[str, Model]:
    """Name -> model, for this kind of device."""
    if kind != "gpu":
        return {
            "LeNet, batch 2": Model(of.lenet, _labels, ((2, 1, 28, 28),), (((2,), 10),)),
            "LSTM 2 x 16, 8 x 4": _texts(partial(of.lstm_lm, width=16, words=32), 32, 8, 4),
            "GPT 2 x 64, 2 x 32": _texts(
                partial(of.gpt2, layers=2, width=64, words=64, length=32), 64, 2, 32
            ),
        }
    unet = Model(of.unet, _labels, ((8, 3, 256, 256),), (((8, 256, 256), 2),))
    noise, faces, real = (128, 100, 1, 1), (128, 3, 64, 64), ((256,), 2)
    tables = ((2048, 26), 100_000), ((2048,), 2)
    return {
        "GPT-2, 4 x 1024": _texts(of.gpt2, 50257, 4, 1024),
        "BERT-base, 16 x 128": _texts(of.bert, 30522, 16, 128),
        "ViT-B/16, batch 32": _pictures(of.vit, 32),
        "ResNet-50, batch 32": _pictures(of.resnet50, 32),
        "MobileNetV2, batch 32": _pictures(of.mobilenet_v2, 32),
        "U-Net, 8 x 256 x 256": unet,
        "DCGAN, batch 128": Model(of.dcgan, _told_apart, (noise, faces), (real,), "Adam"),
        "LSTM 2 x 650, 35 x 20": _texts(of.lstm_lm, 10000, 35, 20),
        "DLRM, batch 2048": Model(of.dlrm, _clicked, ((2048, 13),), tables),
        "policy 64 x 64, batch 32": Model(
            of.policy_net, _near, ((32, 17), (32, 6)), optimizer="Adam"
        ),
    }


#: What is trained in 16 bits as well.
HALVES = {
    "GPT-2, 4 x 1024": "bfloat16",
    "ViT-B/16, batch 32": "bfloat16",
    "ResNet-50, batch 32": "float16",
}


#: Without it most gradients of a ResNet are below the smallest float16.
SCALE = 1024


def trained(kind: str) -> Iterator[tuple[str, Model, str | None]]:
    """Name, model and the dtype of 16 bits in which it is trained; None: in float32."""
    for name, model in models(kind).items():
        yield name, model, None
        if kind == "gpu" and name in HALVES:
            yield f"{name}, {HALVES[name]}", model, HALVES[name]


def loss_of(model: Model, dtype: str | None, kind: str) -> Callable[..., Any]:
    """The loss, in 16 bits or as it is; of float16 scaled, as a GradScaler does."""
    if dtype is None:
        return model.loss
    # Not by way of the model, whose data are random: a compiled function would run in parts.
    loss, scale = model.loss, SCALE if dtype == "float16" else 1
    return amp.cast(kind, dtype, lambda *given: loss(*given) * scale)


def cases(kind: str) -> Iterator[RaceCase]:
    """Steps of all models, then the decoder."""
    for name, model, dtype in trained(kind):
        yield model_case(
            name,
            model.build,
            loss_of(model, dtype, kind),
            model.data,
            optimizer=model.optimizer,
            tolerance=TOLERANCES[dtype],
            by_jax=False,
            gradients=dtype != "float16",
        )
    if kind == "gpu":
        yield _decoding()


# -- a decoder -------------------------------------------------------------------------------

#: Tokens that are given, and that are made of them one by one.
GIVEN, MADE = 128, 32


def _decoding() -> RaceCase:
    makers = {"netcl": _netcl_decoder, "torch": _torch_decoder}
    name = f"GPT-2 decodes {MADE} tokens behind {GIVEN}, growing cache"
    return RaceCase(name, makers, None, tolerance=1e-3)


def _decode(whole: Any, model: Any, tokens: Any) -> Any:
    """The logits behind the last of the tokens, each the likeliest."""
    caches = [None] * 12
    with whole.no_grad():
        logits = model(tokens, caches)[:, -1:]
        for _ in range(MADE):
            logits = model(whole.argmax(logits, -1), caches)
    return logits


def _tokens() -> Any:
    return np.random.default_rng(1).integers(0, 50257, (1, GIVEN))


def _netcl_decoder(device: Device) -> RaceWork:
    with use_device(device):
        model = of.gpt2(nc.nn)
        loaded(model, lambda array: array)
        tokens = Tensor.from_host(_tokens())
    call = partial(_decode, nc, model, tokens)
    return RaceWork(call, lambda: [call().numpy()])


def _torch_decoder(device: Device) -> RaceWork:
    torch = library("torch")
    model = of.gpt2(torch.nn)
    loaded(model, torch.from_numpy)
    place = torch_place(device)
    model.to(place)
    call = partial(_decode, torch, model, torch.from_numpy(_tokens()).to(place))
    return RaceWork(call, lambda: [call().cpu().numpy()])
