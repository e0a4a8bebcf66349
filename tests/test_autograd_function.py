"""`ag.Function` and `grad_fn`: the same programs by netcl and by PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core.errors import GradientError, MutationError


def functions(torch: Any, function: Any, once: Any) -> dict[str, Any]:
    """Functions over one library or the other; each is called with two tensors."""

    class Product(function):  # saves inputs and a result
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, factor: float) -> Any:
            z = torch.exp(x) * y * factor
            ctx.save_for_backward(x, z, None, y)
            ctx.factor = factor
            assert ctx.needs_input_grad[2] is False
            return z

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, z, none, y = ctx.saved_tensors
            assert (
                none is None and y.shape == x.shape and ctx.needs_input_grad == (True, True, False)
            )
            return grad * z, grad * torch.exp(x) * ctx.factor, None

    class Split(function):  # several results, one of them no number
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            larger = x > y
            ctx.mark_non_differentiable(larger)
            ctx.save_for_backward(larger)
            return torch.where(larger, x, y), larger, "text", x * y * 2, x

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            assert len(grads) == 5 and grads[2] is None
            assert float(grads[3].sum()) == 0
            (larger,) = ctx.saved_tensors
            first = torch.where(larger, grads[0], torch.zeros_like(grads[0]))
            return first + grads[4], grads[0] - first

    class Late(function):
        @staticmethod
        def forward(x: Any, y: Any) -> Any:
            return x * y, y * 1

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, grad: Any, unused: Any) -> Any:
            assert unused is None
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    class Doubled(function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        @once
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    def dirty(x: Any, y: Any) -> Any:
        z = x * y
        again = Doubled.apply(z)
        assert again is z
        return z * y

    return {
        "product": lambda x, y: Product.apply(x, y, 3.0),
        "split": lambda x, y: (lambda out: out[0] + out[4])(Split.apply(x, y)),
        "late": lambda x, y: Late.apply(x, y)[0],
        "dirty": dirty,
    }


@pytest.mark.parametrize("name", ["product", "split", "late", "dirty"])
def test_functions_are_those_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.autograd.function import once_differentiable

    a, b = np.float32([[0.5, -1.0], [2.0, 0.1]]), np.float32([[1.0, 2.0], [-0.5, 3.0]])
    rows = []
    for library, make, function, once in (
        (nc, ag.tensor, ag.Function, ag.once_differentiable),
        (torch, torch.tensor, torch.autograd.Function, once_differentiable),
    ):
        x, y = make(a, requires_grad=True), make(b, requires_grad=True)
        z = functions(library, function, once)[name](x, y)
        z.sum().backward()
        rows.append([np.array(each.detach().tolist()) for each in (z, x.grad, y.grad)])
        if name in ("product", "late"):
            z = functions(library, function, once)[name](x, y)
            grad = library.autograd.grad(z.sum(), [x], create_graph=True)[0]
            rows[-1].append(np.array(library.autograd.grad(grad.sum(), [y])[0].tolist()))
    for ours, theirs in zip(*rows, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


class Square(ag.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @ag.once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_what_a_function_refuses() -> None:
    x = nc.tensor([1.0, 2.0], requires_grad=True)
    y = Square.apply(x)
    with nc.no_grad():
        x.add_(1)
    with pytest.raises(MutationError, match=r"backward of Square: .*changed in place"):
        y.sum().backward()
    with pytest.raises(GradientError, match=r"Square has no second derivative.*once_differ"):
        ag.grad(Square.apply(x).sum(), [x], create_graph=True)
    y = Square.apply(x)
    y.sum().backward()
    with pytest.raises(GradientError, match="walked before"):
        y.sum().backward()

    class Short(Square):
        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

    with pytest.raises(GradientError, match="backward of Short: it returned 2; expected 1"):
        Short.apply(x).sum().backward()


def test_without_gradients_and_compiled_it_computes_the_same() -> None:
    x = nc.tensor([3.0], requires_grad=True)
    with nc.no_grad():
        assert Square.apply(x).item() == 9 and not Square.apply(x).requires_grad
    assert not Square.apply(x.detach()).requires_grad
    compiled = ag.jit_compile(lambda x: Square.apply(x * 2) + 1)
    with pytest.warns(nc.errors.FusionSkipped, match="Square"):
        y = compiled(x)
    y.backward()
    assert (y.item(), x.grad.item()) == (37, 24)


def test_grad_fn_leads_through_the_graph() -> None:
    x, c = nc.tensor([1.0], requires_grad=True), nc.tensor([2.0])
    assert x.grad_fn is None and ag.tensor([1.0]).grad_fn is None
    values, _ = ag.max(x * c + 0.5, dim=0)
    fn = values.grad_fn
    assert fn is values.grad_fn and fn.name() == "MaxAlongBackward0"
    [(add, index)] = fn.next_functions
    assert (add.name(), index) == ("AddBackward0", 0)
    [(leaf, _), nothing] = add.next_functions[0][0].next_functions
    assert nothing == (None, 0)
    assert leaf.name() == "AccumulateGrad" and leaf.variable is x and leaf.next_functions == ()
    assert [grad.item() for grad in add(nc.tensor([5.0]))] == [5.0]
    assert add.next_functions[0][0] is add.next_functions[0][0]
