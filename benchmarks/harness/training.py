"""Cases of training: a model and an optimizer of netcl's and of PyTorch's, with the same weights.

The first loss and its gradients are compared, with PyTorch's in float64 where it is installed;
then whole steps are timed: zero_grad, loss, backward, the optimizer's step.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np

import netcl_core.autograd as ag
from harness.cases import Array, Maker, RaceCase, RaceLimit, RaceWork
from harness.peers import library, torch_compiled, torch_place
from netcl_core import Device, use_device


@final
@dataclass(frozen=True)
class Training:
    """What a step needs, in one library.

    Attributes:
        loss: The loss of some inputs; what is compiled.
        parameters: Whose gradients are compared, in the same order in each library.
        optimizer: With `zero_grad` and `step`.
        inputs: Of the loss; tensors on the device.
    """

    loss: Callable[..., Any]
    parameters: Sequence[Any]
    optimizer: Any
    inputs: tuple[Any, ...]

    def gradients(self, compared: bool = True) -> list[Any]:
        """The loss and, if they are compared, its gradients, without a step."""
        self.optimizer.zero_grad()
        loss = self.loss(*self.inputs)
        loss.backward()
        return (
            [loss] if not compared else [loss, *(parameter.grad for parameter in self.parameters)]
        )

    def step(self, *inputs: Any) -> Any:
        """A step; gives the loss."""
        self.optimizer.zero_grad()
        loss = self.loss(*inputs)
        loss.backward()
        self.optimizer.step()
        return loss

    def compiled(self, compiler: Callable[[Any], Any]) -> Training:
        """The same with its loss compiled."""
        return Training(compiler(self.loss), self.parameters, self.optimizer, self.inputs)


#: Makes the training of netcl on the default device.
Ours: TypeAlias = Callable[[], Training]
#: Makes that of PyTorch for a place (`cpu`, `cuda`), a dtype, and whether its optimizer is fused.
Theirs: TypeAlias = Callable[[str, str, bool], Training]


def training_case(
    name: str,
    ours: Ours,
    theirs: Theirs,
    *,
    limit: RaceLimit | None = None,
    tolerance: float = 1e-4,
    needs: str = "",
    others: Mapping[str, Maker] | None = None,
    gradients: bool = True,
) -> RaceCase:
    """A step of training as a case.

    PyTorch's eager step has the optimizer as it is by default, the others its fused form, the
    fastest that there is; `torch-graph` is a step as a CUDA graph.

    Args:
        name: The model, with its size.
        ours: Makes netcl's.
        theirs: Makes PyTorch's, of the same weights and inputs.
        limit: What a step is compared with besides the peers.
        tolerance: Of the loss and of each gradient, by norm.
        needs: As `RaceCase` has it.
        others: Further peers and what makes their work.
        gradients: Whether they are compared. Of a deep net in float16 they are not: those of
            PyTorch are 0.7 off in its first step.
    """
    makers: dict[str, Maker] = {
        **{
            f"netcl{how}": partial(_netcl, how, ours, gradients)
            for how in ("", "-compiled", "-replay")
        },
        "torch": partial(_torch, False, theirs, gradients),
        "torch-compile": partial(_torch, True, theirs, gradients),
        "torch-graph": partial(_torch_graph, theirs, gradients),
        **(others or {}),
    }
    known = importlib.util.find_spec("torch") is not None
    reference = partial(_exact, theirs, gradients) if known else None
    return RaceCase(name, makers, reference, limit, tolerance, needs, by_norm=True)


def _netcl(how: str, ours: Ours, compared: bool, device: Device) -> RaceWork:
    with use_device(device):
        training = ours()
    if how:
        training = training.compiled(ag.jit_compile)

    def results() -> list[Array]:
        return [gradient.numpy() for gradient in training.gradients(compared)]

    return RaceWork(_replayed(training) if how == "-replay" else _stepping(training), results)


def _stepping(training: Training) -> Callable[[], Any]:
    return lambda: training.step(*training.inputs)


def _replayed(training: Training) -> Callable[[], Any]:
    """Replays of a step, which the first call runs and captures."""
    graphs: list[Any] = []

    def call() -> Any:
        if graphs:
            return graphs[0](*training.inputs)
        graphs.append(ag.capture(training.step, *training.inputs))
        return graphs[0].outputs

    return call


def _torch(compiled: bool, theirs: Theirs, compared: bool, device: Device) -> RaceWork:
    training = theirs(torch_place(device), "float32", compiled)
    if compiled:
        training = training.compiled(torch_compiled)
    return RaceWork(_stepping(training), lambda: _arrays(training, compared))


def _torch_graph(theirs: Theirs, compared: bool, device: Device) -> RaceWork:
    """A whole step is captured at the first call, as PyTorch documents it for CUDA graphs."""
    torch, graphs = library("torch"), list[Any]()
    training = theirs(torch_place(device), "float32", True)
    for group in training.optimizer.param_groups:
        group.update({key: True for key in group if key == "capturable"})

    def call() -> Any:
        if not graphs:
            _warm(torch, training)
            graphs.append(torch.cuda.CUDAGraph())
            with torch.cuda.graph(graphs[0]):
                training.step(*training.inputs)
        return graphs[0].replay()

    return RaceWork(call, lambda: _arrays(training, compared))


def _warm(torch: Any, training: Training) -> None:
    """Some steps on a stream of their own, after which nothing is made for the first time."""
    current, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        for _ in range(3):
            training.step(*training.inputs)
    current.wait_stream(side)
    training.optimizer.zero_grad()


def _exact(theirs: Theirs, compared: bool) -> list[Array]:
    place = "cuda" if library("torch").cuda.is_available() else "cpu"  # float64 takes its time
    return _arrays(theirs(place, "float64", False), compared)


def _arrays(training: Training, compared: bool) -> list[Array]:
    return [np.asarray(gradient.detach().cpu()) for gradient in training.gradients(compared)]
