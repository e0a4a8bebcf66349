"""Training in JAX: loss, gradients and the optimizer's step as one compiled function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, final

import numpy as np

from harness import jax_layers
from harness.cases import Array, RaceWork
from harness.peers import library
from harness.weights import drawn
from netcl_core import Device

_RATE: Final = 1e-4
_FIRST, _SECOND, _EPS = 0.9, 0.999, 1e-8
#: Optimizer -> its decay of weights, and whether it has averages, as PyTorch has by default.
_OPTIMIZERS: Final = {"SGD": (0.0, False), "Adam": (0.0, True), "AdamW": (0.01, True)}


@final
class JaxOps:
    """JAX's functions under the names that `netcl_core.autograd` has, for arrays as PyTorch's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(library("jax").numpy, name)

    def permute(self, x: Any, dims: Sequence[int]) -> Any:
        """Dimensions in another order."""
        return x.transpose(dims)

    def cross_entropy(self, logits: Any, labels: Any) -> Any:
        """The mean over rows."""
        jax = library("jax")
        log_probs = jax.nn.log_softmax(logits)
        return -jax.numpy.take_along_axis(log_probs, labels[:, None], 1).mean()

    def scaled_dot_product_attention(
        self, query: Any, key: Any, value: Any, is_causal: bool
    ) -> Any:
        """Of (batch, heads, context, width)."""
        parts = (operand.swapaxes(1, 2) for operand in (query, key, value))
        attention = library("jax").nn.dot_product_attention
        return attention(*parts, is_causal=is_causal).swapaxes(1, 2)


def jax_step(
    build: Callable[[Any], Any],
    loss: Callable[..., Any],
    data: Callable[[], Sequence[Array]],
    optimizer: str,
    device: Device,
) -> RaceWork:
    """A step of a model that is written for any library, as `model_case` has it.

    Args:
        build: Makes the model of layers.
        loss: Takes ops, the model and the inputs.
        data: Makes the inputs.
        optimizer: Its name.
        device: Not asked: JAX uses its own default device, which is of the same kind.
    """
    jax, model = library("jax"), build(jax_layers)
    places = jax_layers.Parameters(model)
    values = [jax.numpy.asarray(array) for array in drawn(places.shapes).values()]
    inputs = [jax.numpy.asarray(array) for array in data()]

    def of_values(values: Any, *inputs: Any) -> Any:
        places.put(values)
        return loss(JaxOps(), model, *inputs)

    gradients = jax.value_and_grad(of_values)
    update = _updating(jax, optimizer)

    def step(state: Any, *inputs: Any) -> Any:
        losses, slopes = gradients(state[0], *inputs)
        return losses, update(state, slopes)

    compiled = jax.jit(step, donate_argnums=0)
    zeros = [jax.numpy.zeros_like(value) for value in values]
    state = [(values, zeros, [zero.copy() for zero in zeros], jax.numpy.zeros(()))]

    def call() -> Any:
        losses, state[0] = compiled(state[0], *inputs)
        return losses

    def results() -> list[Array]:
        losses, slopes = jax.jit(gradients)(state[0][0], *inputs)
        return [np.asarray(value) for value in (losses, *slopes)]

    return RaceWork(call, results)


def _updating(jax: Any, optimizer: str) -> Callable[[Any, Any], Any]:
    """The optimizer's step of a state: values, both averages, the count of steps."""
    decay, averaged = _OPTIMIZERS[optimizer]

    def plain(state: Any, slopes: Any) -> Any:
        values = [x - _RATE * g for x, g in zip(state[0], slopes, strict=True)]
        return (values, *state[1:])

    def adam(state: Any, slopes: Any) -> Any:
        values, first, second, count = state
        count = count + 1
        first = [_FIRST * m + (1 - _FIRST) * g for m, g in zip(first, slopes, strict=True)]
        second = [_SECOND * v + (1 - _SECOND) * g * g for v, g in zip(second, slopes, strict=True)]
        rate = _RATE / (1 - _FIRST**count)
        scale = jax.lax.rsqrt(1 - _SECOND**count)
        values = [
            x * (1 - _RATE * decay) - rate * m / (jax.numpy.sqrt(v) * scale + _EPS)
            for x, m, v in zip(values, first, second, strict=True)
        ]
        return values, first, second, count

    return adam if averaged else plain
