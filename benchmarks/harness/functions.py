"""Cases of functions: one form per library, from which forward and gradients of each are made.

A form takes the library (`ag`, `torch`, `jax`, `tinygrad.Tensor`, `numpy`) and its arrays. NumPy's
form is the reference as well, in float64: of the result, and of the gradients by its slope along
random directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final, TypeAlias, final

import numpy as np

import netcl_core.autograd as ag
from harness.cases import Array, RaceCase, RaceLimit, RaceWork
from harness.peers import library, torch_compiled, torch_ops, torch_place
from netcl_core import Device, Tensor

Form: TypeAlias = Callable[..., Any]
_DIRECTIONS: Final = 2
#: So small that few elements cross a kink of the function, and float64 still sees the difference.
_STEP: Final = 1e-8


def function_cases(
    name: str,
    forms: Mapping[str, Form],
    data: Callable[[], Sequence[Array]],
    *,
    gradients: int = 1,
    forward: RaceLimit | None = None,
    both: RaceLimit | None = None,
    tolerance: float = 1e-5,
) -> Iterator[RaceCase]:
    """A case of the forward, and one with the gradients.

    >>> forms = {"netcl": lambda ag, x: ag.relu(x), "numpy": lambda np, x: np.maximum(x, 0)}
    >>> cases = function_cases("relu 4", forms, lambda: [np.ones(4, np.float32)])
    >>> [each.name for each in cases]
    ['relu 4 forward', 'relu 4 forward+backward']

    Args:
        name: What is done, with its size.
        forms: `netcl` and `numpy`, and `torch`, `jax` and `tinygrad` where there is one.
        data: Makes the arguments; made once a case.
        gradients: Of so many arguments, the first ones; with 0 there is a forward alone.
        forward: The limit of the forward.
        both: The limit of forward and backward.
        tolerance: As `Case` has it.
    """
    problem = _Problem(forms["numpy"], data, gradients)
    phases: tuple[tuple[str, bool, RaceLimit | None], ...] = (
        ("forward", False, forward),
        ("forward+backward", True, both),
    )
    for phase, backward, limit in phases[: 2 if gradients else 1]:
        makers = {
            peer: partial(make, forms[library], problem, backward)
            for peer, (library, make) in _MAKERS.items()
            if library in forms and not (backward and library == "numpy")
        }
        reference = problem.gradients if backward else problem.value
        yield RaceCase(f"{name} {phase}", makers, reference, limit, tolerance)


def op_cases(
    name: str, form: Form, data: Callable[[], Sequence[Array]], **options: Any
) -> Iterator[RaceCase]:
    """Cases of a form that netcl and PyTorch spell alike; PyTorch's in float64 is the reference.

    Args:
        name: What is done.
        form: Takes a namespace of ops, `ag` or PyTorch's functions, and the arrays.
        data: Makes the arguments; made once a case.
        options: As `function_cases` has them.
    """

    def theirs(torch: Any, *given: Any) -> Any:
        return form(torch_ops(), *given)

    def exact(np: Any, *given: Array) -> Any:
        torch = library("torch")
        place = "cuda" if torch.cuda.is_available() else "cpu"
        return theirs(torch, *(torch.from_numpy(array).to(place) for array in given)).cpu().numpy()

    forms = {"netcl": form, "torch": theirs, "numpy": exact}
    for case in function_cases(name, forms, data, **options):
        makers = {peer: make for peer, make in case.makers.items() if peer != "numpy"}
        yield replace(case, makers=makers)


@final
class _Problem:
    """The arguments, the seed of the gradients, and what is right."""

    def __init__(self, form: Form, data: Callable[[], Sequence[Array]], gradients: int) -> None:
        self.form, self.data, self.count = form, data, gradients
        self._drawn: dict[int, list[Array]] = {}

    @cached_property
    def host(self) -> list[Array]:
        """The arguments."""
        return list(self.data())

    @cached_property
    def result(self) -> Array:
        """The right result."""
        return np.asarray(self.form(np, *self._exact()))

    @cached_property
    def seed(self) -> Array:
        """The gradient of the result: 1 for a loss, else random."""
        shape, dtype = self.result.shape, self.host[0].dtype
        return _drawn(1, shape).astype(dtype) if shape else np.ones((), dtype)

    def _exact(self) -> list[Array]:
        return [
            array.astype(np.float64) if array.dtype.kind == "f" else array for array in self.host
        ]

    def value(self) -> list[Array]:
        """The right result of the forward."""
        return [self.result]

    def gradients(self) -> list[Array]:
        """The right result, and the slopes for each argument."""
        return [self.result, *(np.array(self._slopes(i)) for i in range(self.count))]

    def _slopes(self, position: int) -> list[float]:
        seed, slopes = self.seed.astype(np.float64), []
        for direction in self._directions(position):
            ends = []
            for step in (_STEP, -_STEP):
                given = self._exact()
                given[position] += step * direction.astype(np.float64)
                ends.append(self.form(np, *given))
            slopes.append(float(np.sum(seed * (ends[0] - ends[1]))) / (2 * _STEP))
        return slopes

    def _directions(self, position: int) -> list[Array]:
        """In float32; all peers are asked for the same ones."""
        if position not in self._drawn:
            shape = self.host[position].shape
            self._drawn[position] = [_drawn((position, i), shape) for i in range(_DIRECTIONS)]
        return self._drawn[position]

    def sloped(self, result: Any, gradients: Sequence[Any]) -> list[Array]:
        """What a peer found, in the form of what is right."""
        slopes = [
            np.array([_dot(gradient, direction) for direction in self._directions(i)])
            for i, gradient in enumerate(gradients)
        ]
        return [np.asarray(result), *slopes]

    def work(
        self, backward: bool, call: Callable[[], Any], host: Callable[[Any], Array]
    ) -> RaceWork:
        """A call that gives a result, or also its gradients; `host` makes an array of each."""

        def results() -> list[Array]:
            output = call()
            if not backward:
                return [host(output)]
            result, *gradients = output
            return self.sloped(host(result), [host(gradient) for gradient in gradients])

        return RaceWork(call, results)


def _dot(a: Array, b: Array) -> float:
    """Summed in float64."""
    return float(np.einsum("i,i", np.ravel(a), np.ravel(b), dtype=np.float64, casting="unsafe"))


def _drawn(seed: Any, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


# -- netcl -------------------------------------------------------------------------------


def _netcl(how: str, form: Form, problem: _Problem, backward: bool, device: Device) -> RaceWork:
    given = [
        Tensor.from_host(array, device, requires_grad=backward and i < problem.count)
        for i, array in enumerate(problem.host)
    ]
    leaves, function = given[: problem.count], _bound(form, how)
    seed = Tensor.from_host(problem.seed, device) if backward else None

    def call(*tensors: Any) -> Any:
        if not backward:
            with ag.no_grad():
                return function(*tensors)
        result = function(*tensors)
        return [result, *ag.grad(result, leaves, seed)]

    if how == "replay":
        graph = ag.capture(lambda: call(*given))
        return problem.work(backward, graph, _host)
    return problem.work(backward, lambda: call(*given), _host)


def _bound(form: Form, how: str) -> Callable[..., Any]:
    """A form for our library; compiled, but for eager calls."""

    def function(*tensors: Any) -> Any:
        return form(ag, *tensors)

    return function if how == "eager" else ag.jit_compile(function)


def _host(value: Any) -> Array:
    return value.numpy()  # type: ignore[no-any-return]


# -- the others --------------------------------------------------------------------------


def _torch(
    compiled: bool, form: Form, problem: _Problem, backward: bool, device: Device
) -> RaceWork:
    torch, place = library("torch"), torch_place(device)
    given = [torch.from_numpy(array).to(place) for array in problem.host]
    leaves = [tensor.requires_grad_() for tensor in given[: problem.count]] if backward else []
    seed = torch.as_tensor(problem.seed).to(place) if backward else None

    def plain(*tensors: Any) -> Any:
        return form(torch, *tensors)

    function = torch_compiled(plain) if compiled else plain

    def call() -> Any:
        if not backward:
            with torch.no_grad():
                return function(*given)
        result = function(*given)
        return [result, *torch.autograd.grad(result, leaves, seed)]

    return problem.work(backward, call, lambda each: each.detach().cpu().numpy())


def _jax(form: Form, problem: _Problem, backward: bool, device: Device) -> RaceWork:
    jax = library("jax")
    given = [jax.numpy.asarray(array) for array in problem.host]
    leaves, others = given[: problem.count], given[problem.count :]

    def both(leaves: Any, others: Any, seed: Any) -> Any:
        result, pull = jax.vjp(lambda *xs: form(jax, *xs, *others), *leaves)
        return [result, *pull(seed)]

    if not backward:
        forward = jax.jit(partial(form, jax))
        return problem.work(False, lambda: forward(*given), np.asarray)
    seed, compiled = jax.numpy.asarray(problem.seed), jax.jit(both)
    return problem.work(True, lambda: compiled(leaves, others, seed), np.asarray)


def _tinygrad(form: Form, problem: _Problem, backward: bool, device: Device) -> RaceWork:
    tinygrad = library("tinygrad")
    given = [tinygrad.Tensor(array).realize() for array in problem.host]
    seed = tinygrad.Tensor(problem.seed).realize() if backward else None

    def plain(*tensors: Any) -> Any:
        result = form(tinygrad.Tensor, *tensors)
        if not backward:
            return result.realize()
        results = [result, *result.gradient(*tensors[: problem.count], gradient=seed)]
        tinygrad.Tensor.realize(*results)
        return results

    compiled = tinygrad.TinyJit(plain)
    return problem.work(backward, lambda: compiled(*given), lambda each: each.numpy())


def _numpy(form: Form, problem: _Problem, backward: bool, device: Device) -> RaceWork:
    return problem.work(False, lambda: form(np, *problem.host), np.asarray)


#: Peer -> the library whose form it takes, and what makes its work.
_MAKERS: Final[Mapping[str, tuple[str, Callable[..., RaceWork]]]] = {
    "netcl": ("netcl", partial(_netcl, "eager")),
    "netcl-compiled": ("netcl", partial(_netcl, "compiled")),
    "netcl-replay": ("netcl", partial(_netcl, "replay")),
    "torch": ("torch", partial(_torch, False)),
    "torch-compile": ("torch", partial(_torch, True)),
    "jax": ("jax", _jax),
    "tinygrad": ("tinygrad", _tinygrad),
    "numpy": ("numpy", _numpy),
}
