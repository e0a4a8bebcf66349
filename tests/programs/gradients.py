"""Gradients: of expressions, of several losses, of gradients; and a fit without a library."""

import math

import torch


def main():
    found = []

    # a chain of ops
    x = torch.tensor([[1.0, -2.0], [3.0, 0.5]], requires_grad=True)
    y = (x * x).sum() + x.sin().exp().mean()
    y.backward()
    found += x.grad.flatten().tolist()

    # gradients add up until they are cleared
    (3 * x).sum().backward()
    found += x.grad.flatten().tolist()
    x.grad.zero_()
    x.grad = None
    found.append(float(x.grad is None))

    # the gradient of a result that is no number
    z = x**3
    z.backward(gradient=torch.ones_like(z))
    found += x.grad.flatten().tolist()

    # one graph, two losses
    x.grad = None
    shared = torch.tanh(x)
    shared.sum().backward(retain_graph=True)
    (shared * shared).sum().backward()
    found += x.grad.flatten().tolist()
    try:
        shared.sum().backward()
    except RuntimeError as error:
        found.append(float("retain_graph=True" in str(error)))

    # without recording
    with torch.no_grad():
        found.append(float((x * 2).requires_grad))
    found.append(float(x.detach().requires_grad))

    # second derivatives
    t = torch.tensor([0.3, 1.1], requires_grad=True)
    (slope,) = torch.autograd.grad((t**4).sum(), t, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), t)
    found += slope.tolist() + bend.tolist()

    # hooks
    t.grad = None
    handle = t.register_hook(lambda grad: grad * 10)
    (t * t).sum().backward()
    handle.remove()
    found += t.grad.tolist()

    # a cubic that follows a sine, by steps written out
    line = torch.linspace(-math.pi, math.pi, 200)
    target = torch.sin(line)
    weights = [torch.tensor(start, requires_grad=True) for start in (0.1, -0.2, 0.05, -0.01)]
    for step in range(200):
        a, b, c, d = weights
        loss = (a + b * line + c * line**2 + d * line**3 - target).pow(2).mean()
        loss.backward()
        if step % 20 == 0:
            found.append(loss.item())
        with torch.no_grad():
            for weight, rate in zip(weights, (1e-1, 1e-2, 1e-3, 1e-4), strict=True):
                weight -= rate * weight.grad
                weight.grad = None
    return found


if __name__ == "__main__":
    print(main())
