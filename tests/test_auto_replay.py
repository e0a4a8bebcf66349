"""auto_replay: whatever happens, a step gives bit for bit what the plain function gives."""

from __future__ import annotations

import gc
import re
import struct
import threading
import weakref
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial, reduce
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import pytest
from netcl_plugin_capture import watched_values
from netcl_plugin_capture.step_watch import StepWatch
from netcl_plugin_capture.watched_values import addresses
from twins import alike, floats, leaf, same

import netcl_core as nc
import netcl_core.autograd as ag
from netcl_core import amp, nn, optim
from netcl_core.errors import AttributeValueError

auto_replay = nc.capture.auto_replay


def plainly(function: Any) -> Any:
    return function


class Training:
    """A model in training, with all that may change from step to step."""

    def __init__(self, wrap: Callable[[Any], Any], dtype: str = "float32") -> None:
        layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 4)
        model = self.model = nn.Sequential(*layers)
        for number, parameter in enumerate(model.parameters()):
            parameter.overwrite(floats(parameter.shape, number) * 0.3)
        model.to(dtype=dtype)
        optimizer = self.optimizer = optim.AdamW(model.parameters(), lr=0.02)
        schedule = self.schedule = optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = ag.cross_entropy(model(x), y)
            loss.backward()
            norm = optim.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            return {"loss": loss, "norm": norm}

        self.step = wrap(step)
        self.given: list[Any] = []
        self.turn = 0

    def call(self, size: int = 5) -> None:
        x = nc.tensor(floats((size, 6), self.turn)).to(self.model[0].weight.dtype)
        y = nc.tensor(np.random.default_rng(self.turn).integers(0, 4, size))
        self.given.append(self.step(x, y))
        self.turn += 1

    def act(self, action: str) -> None:
        """A step, or what users do between two."""
        model, optimizer = self.model, self.optimizer
        match action:
            case "step":
                self.call()
            case "small":
                self.call(3)
            case "eval":
                model.eval()
            case "train":
                model.train()
            case "rate":
                optimizer.param_groups[0]["lr"] *= 0.5
            case "drop":
                model[3].p = 0.6 if model[3].p == 0.3 else 0.3
            case "load":
                model.load_state_dict({k: v.numpy() * 0.5 for k, v in model.state_dict().items()})
            case "resume":
                optimizer.load_state_dict(optimizer.state_dict())
            case "freeze":
                model[0].requires_grad_(not model[0].weight.requires_grad)
            case "replace":
                model[4].weight = nn.Parameter(model[4].weight.numpy() * 2)
            case "no gradients":
                optimizer.zero_grad()
            case "zeros":
                optimizer.zero_grad(set_to_none=False)
            case "keep":
                self.given.append({"kept": model[0].weight.grad})
            case "hold":
                self.given.append({"held": model[4].bias.grad.detach()})
            case "decay":
                optimizer.param_groups[0]["weight_decay"] = 0.0
            case "group":
                optimizer.add_param_group({"params": [leaf((2,), 1)]})
            case "move":
                model[4].weight.leave_memory()
            case "groups":
                optimizer.param_groups = [dict(group) for group in optimizer.param_groups]
                optimizer.param_groups[0]["weight_decay"] = 0.5
            case "fewer":
                optimizer.param_groups[0]["params"] = optimizer.param_groups[0]["params"][:2]
            case "hook":
                model[4].weight.register_hook(lambda gradient: gradient * 3.0)
            case "class":
                model[2].__class__ = nn.Tanh if type(model[2]) is nn.ReLU else nn.ReLU
            case "attributes":
                model[3].__dict__ = {**vars(model[3]), "p": 0.6}
            case "seed":
                nc.manual_seed(self.turn)

    def state(self) -> list[Any]:
        tensors = [*self.model.state_dict().values(), *(p.grad for p in self.model.parameters())]
        return [None if tensor is None else tensor.numpy() for tensor in tensors]


def twins_agree(actions: str, dtype: str = "float32") -> Any:
    """Do the like with and without auto_replay; gives what was decorated."""
    pair = []
    for wrap in (plainly, auto_replay):
        nc.manual_seed(7)
        training = Training(wrap, dtype)
        states = []
        for action in actions.split(", "):
            training.act(action)
            states.append(training.state())
        pair.append((training, states))
    (plain, wanted), (auto, found) = pair
    for one, other in zip(found, wanted, strict=True):
        same(one, other)
    for one, other in zip(auto.given, plain.given, strict=True):
        alike({k: v for k, v in one.items() if v is not None},
              {k: v for k, v in other.items() if v is not None})  # fmt: skip
    alike(auto.optimizer.state_dict(), plain.optimizer.state_dict())
    alike(auto.schedule.state_dict(), plain.schedule.state_dict())
    return auto.step


def replays(step: Any) -> int:
    """How many of the calls were replays."""
    return sum(int(count) for count in re.findall(r"so far in (\d+) of", step.explain()))


SIX = ", ".join(["step"] * 6)


@pytest.mark.parametrize(
    "between",
    ["rate", "decay", "drop", "load", "resume", "freeze", "no gradients", "zeros", "keep",
     "hold", "group", "groups", "class", "attributes", "seed", "move", "small", "eval",
     "eval, step, train", "small, step, small", "drop, step, drop", "keep, step, keep, step, hold"],
)  # fmt: skip
def test_what_happens_between_two_calls(between: str, fast: nc.Device) -> None:
    step = twins_agree(f"{SIX}, {between}, {SIX}, {between}, {SIX}")
    most = {"seed": 15, "rate": 15, "resume": 7}.get(between, 0)
    assert replays(step) >= (most or 3) * fast.has_kernels, step.explain()


@pytest.mark.parametrize(
    ("between", "why"),
    [("replace", "two calls differ"), ("fewer", "two calls differ"), ("hook", "which its code")],
)
def test_what_ends_replays_for_good(between: str, why: str, fast: nc.Device) -> None:
    """Of a parameter that no optimizer has any longer gradients add up; hooks run Python."""
    step = twins_agree(f"{SIX}, {between}, {SIX}")
    if fast.has_kernels:
        assert why in step.explain()


@pytest.mark.parametrize("early", range(1, 4))
@pytest.mark.parametrize("between", ["drop", "eval", "no gradients", "zeros", "load", "freeze"])
def test_what_happens_before_the_first_replay(between: str, early: int, fast: nc.Device) -> None:
    twins_agree(", ".join(["step"] * early + [between, SIX, between, SIX]))


def test_float16(fast: nc.Device) -> None:
    twins_agree(f"{SIX}, {SIX}", "float16")


def test_a_device_without_kernels() -> None:
    with nc.use_device("numpy"):
        assert "no kernels" in twins_agree(SIX).explain()


# -- steps of their own: each case gives what to call with a turn, and what there is to compare ----

Case: TypeAlias = tuple[Callable[[int], Any], Callable[[], Sequence[Any]], Any]
Wrap: TypeAlias = Callable[[Any], Any]
CASES: dict[str, tuple[str, Callable[[Wrap], Case]]] = {}
COUNT = 0


def case(outcome: str) -> Callable[[Any], Any]:
    """A case by its name, with what `explain` says after twelve calls."""

    def entered(function: Any) -> Any:
        CASES[function.__name__] = outcome, function
        return function

    return entered


def batch(turn: int, *shape: int) -> nc.Tensor:
    return nc.tensor(floats(shape or (4, 3), turn))


def begun() -> tuple[nc.Tensor, Any]:
    w = leaf((3, 2), 0)
    return w, optim.SGD([w], lr=0.1, momentum=0.9)


def updated(optimizer: Any, loss: Any) -> Any:
    """The rest of a step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


@case("in 6 of 12 calls")
def reads_a_tensor_that_gets_another_shape(wrap: Wrap) -> Case:
    (w, optimizer), rates = begun(), nc.tensor([1.0, 2.0, 3.0, 4.0])
    call = wrap(lambda x: updated(optimizer, ag.sum(ag.square(x @ w @ ag.ones((2, 4)) * rates))))

    def run(turn: int) -> Any:
        if turn == 6:
            rates.unsqueeze_(1)
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("in 6 of 12 calls")
def reads_lists_and_a_dict(wrap: Wrap) -> Case:
    (w, optimizer), first, second, table = begun(), [1.0, 2.0], [3.0], {"a": 1.0, "b": 2.0}

    def step(x: Any) -> Any:
        loss = updated(optimizer, ag.sum(ag.square(x @ w)))
        for term in first:
            loss = loss + term
        for factor in second:
            loss = loss * factor
        return {name: loss * factor for name, factor in table.items()}

    call = wrap(step)

    def run(turn: int) -> Any:
        if turn == 4:
            table["a"], first[0] = float("1"), float("1")  # other objects
        if turn == 6:
            second.insert(0, first.pop())
            table["c"] = table.pop("b")
        losses = call(batch(turn))
        assert list(losses) == list(table)
        return losses["a"]

    return run, lambda: [w, w.grad], call


@case("it sets COUNT")
def counts_in_python(wrap: Wrap) -> Case:
    w, optimizer = begun()
    start = COUNT

    def step(x: Any) -> Any:
        global COUNT
        COUNT += 1
        return updated(optimizer, ag.sum(ag.square(x @ w)) * (COUNT - start))

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("the step itself changes seen")
def counts_in_a_dict(wrap: Wrap) -> Case:
    (w, optimizer), seen = begun(), {"steps": 0}

    def step(x: Any) -> Any:
        seen["steps"] += 1
        return updated(optimizer, ag.sum(ag.square(x @ w)) * seen["steps"])

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("it sets steps")
def counts_in_a_layer(wrap: Wrap) -> Case:
    class Counting(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(floats((3, 2), 0))
            self.steps = 0

        def forward(self, x: Any) -> Any:
            self.steps += 1
            return x @ self.weight * (1.0 / self.steps)

    model = Counting()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    call = wrap(lambda x: updated(optimizer, ag.sum(ag.square(model(x)))))
    return lambda turn: call(batch(turn)), lambda: [model.weight], call


@case("it calls list.append")
def keeps_a_history(wrap: Wrap) -> Case:
    (w, optimizer), history = begun(), list[Any]()

    def step(x: Any) -> Any:
        loss = updated(optimizer, ag.sum(ag.square(x @ w)))
        history.append(loss.detach())
        return loss

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, *history], call


@case("it calls print")
def prints(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        print(end="")
        return updated(optimizer, ag.sum(ag.square(x @ w)))

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("it reads a tensor's values")
def branches_on_data(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        loss = ag.sum(ag.square(x @ w))
        return updated(optimizer, loss) if loss.item() > 20 else loss.detach()

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("when changes between calls")
def reads_at_times(wrap: Wrap) -> Case:
    (w, optimizer), when = begun(), [0]

    def step(x: Any) -> Any:
        loss = updated(optimizer, ag.sum(ag.square(x @ w)))
        return loss * loss.item() if when[0] == 2 else loss

    call = wrap(step)

    def run(turn: int) -> Any:
        when[0] = turn
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("it asks the host for what no replay knows (host_generator)")
def draws_on_the_host_after_the_update(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        return updated(optimizer, ag.sum(ag.square(x @ w))) * nc.host_generator().random()

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("gradients that were unscaled before the capture")
def unscales_before_the_step(wrap: Wrap) -> Case:
    w, optimizer = begun()
    scaler, count = amp.GradScaler(init_scale=1024.0), nc.zeros(2)

    def step() -> None:
        count.add_(nc.rand(2))
        scaler.step(optimizer)
        scaler.update()

    call = wrap(step)

    def run(turn: int) -> Any:
        optimizer.zero_grad()
        loss = ag.sum(ag.square(batch(turn) @ w))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        call()
        return loss

    return run, lambda: [w, w.grad, count, nc.rand(2)], call


@case("two calls differ")
def gathers_gradients(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        loss = ag.sum(ag.square(x @ w))
        loss.backward()
        return loss

    call = wrap(step)

    def run(turn: int) -> Any:
        loss = call(batch(turn))
        if turn % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
        return loss

    return run, lambda: [w, w.grad], call


@case("in 8 of 12 calls")
def begins_without_gradients(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        loss = ag.sum(ag.square(x @ w))
        loss.backward()
        optimizer.step()
        return loss

    call = wrap(step)

    def run(turn: int) -> Any:
        if turn != 6:  # forgotten once
            optimizer.zero_grad()
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("in 8 of 12 calls")
def leaves_no_gradient(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        loss = updated(optimizer, ag.sum(ag.square(x @ w)))
        optimizer.zero_grad()
        return loss

    call = wrap(step)

    def run(turn: int) -> Any:
        w.grad = nc.ones(3, 2) if turn != 6 else None
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("in 7 of 12 calls")
def steps_by_a_gradient_of_others(wrap: Wrap) -> Case:
    (w, optimizer), own = begun(), nc.ones(3, 2)

    def step(x: Any) -> Any:
        optimizer.step()
        return ag.sum(x @ w).detach()

    call = wrap(step)

    def run(turn: int) -> Any:
        own.overwrite(np.full((3, 2), turn))
        w.grad = nc.zeros(3, 2) if turn in (6, 8) else own
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("two calls differ")
def lags_behind(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        optimizer.step()
        optimizer.zero_grad()
        loss = ag.sum(ag.square(x @ w))
        loss.backward()
        return loss

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("which its code does not show")
def has_a_hook(wrap: Wrap) -> Case:
    (w, optimizer), factor = begun(), [1.0]
    w.register_hook(lambda gradient: gradient * factor[0])
    call = wrap(lambda x: updated(optimizer, ag.sum(ag.square(x @ w))))

    def run(turn: int) -> Any:
        factor[0] = 1.0 + turn
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("model has hooks")
def has_a_layer_with_a_hook(wrap: Wrap) -> Case:
    model, seen = nn.Linear(3, 2), list[Any]()
    for number, parameter in enumerate(model.parameters()):
        parameter.overwrite(floats(parameter.shape, number))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    model.register_forward_hook(lambda *given: seen.append(given[2].detach()))
    call = wrap(lambda x: updated(optimizer, ag.sum(ag.square(model(x)))))
    return lambda turn: call(batch(turn)), lambda: [model.weight, *seen], call


@case("which its code does not show")
def gets_a_hook_late(wrap: Wrap) -> Case:
    w, optimizer = begun()
    call = wrap(lambda x: updated(optimizer, ag.sum(ag.square(x @ w))))

    def run(turn: int) -> Any:
        if turn == 6:
            w.register_hook(lambda gradient: gradient * 2.0)
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


class Trainer:
    scale = 2.0

    def __init__(self) -> None:
        self.w, self.optimizer = begun()
        self.factor, self.epoch = 1.0, 0

    def loss(self, x: Any) -> Any:
        return ag.sum(ag.square(x @ self.w)) * self.factor * self.scale

    def step(self, x: Any) -> Any:
        return updated(self.optimizer, self.loss(x))


@case("in 3 of 12 calls")
def reads_what_is_renamed(wrap: Wrap) -> Case:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(floats((3, 2), 0))
            self.drop = nn.Dropout(0.0)
            self.scale = 2.0

        def forward(self, x: Any) -> Any:
            return self.drop(x @ self.weight) * self.scale

    model = Scaled()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    call = wrap(lambda x: updated(optimizer, ag.sum(ag.square(model(x)))))

    def run(turn: int) -> Any:
        if turn == 6:  # under another name, behind all others
            vars(model)["factor"] = vars(model).pop("scale")
        elif turn == 7:
            model.scale, last = model.factor, list(vars(model.drop))[-1]
            model.drop.other = getattr(model.drop, last)
            delattr(model.drop, last)
        if turn < 6:
            return call(batch(turn))
        with pytest.raises(AttributeError):
            call(batch(turn))
        return model.weight

    return run, lambda: [model.weight], call


@case("in 6 of 12 calls")
def reads_a_number(wrap: Wrap) -> Case:
    (w, optimizer), factor = begun(), 2.0
    call = wrap(lambda x: updated(optimizer, ag.sum(ag.square(x @ w)) * factor))

    def run(turn: int) -> Any:
        nonlocal factor
        factor = 2.0 if turn < 6 else 3.0
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("in 3 of 12 calls")
def is_a_method(wrap: Wrap) -> Case:
    trainer = Trainer()
    call = wrap(Trainer.step)

    def run(turn: int) -> Any:
        trainer.epoch = turn  # which the step does not read
        if turn == 6:
            trainer.factor = 3.0
        if turn == 9:
            trainer.scale = 0.5  # hides that of the class
        return call.__get__(trainer)(batch(turn))

    return run, lambda: [trainer.w, trainer.w.grad], call


@case("so far in")
def gives_all_kinds_of_results(wrap: Wrap) -> Case:
    (w, optimizer), kept = begun(), list[Any]()

    def step(x: Any, factor: float = 2.0) -> Any:
        y = x @ w
        loss = updated(optimizer, ag.sum(ag.square(y)) * factor)
        return [loss, (y, y[1:, 0]), {"x": x, "w": w, "factor": factor, "g": w.grad * 1.0}]

    call = wrap(step)

    def run(turn: int) -> Any:
        x, factor = batch(turn), 2.0 if turn < 7 else -0.0
        loss, pair, more = call(x, factor=factor)
        assert more["x"] is x and more["w"] is w and repr(more["factor"]) == repr(factor)
        kept.extend([loss, *pair, more["g"]])
        return loss

    return run, lambda: kept, call


@case("it returns a result whose gradients are still to be computed")
def leaves_the_backward_to_the_caller(wrap: Wrap) -> Case:
    w, optimizer = begun()
    call = wrap(lambda x: ag.sum(ag.square(x @ w)))
    return lambda turn: updated(optimizer, call(batch(turn))), lambda: [w, w.grad], call


@case("it returns a gradient itself")
def gives_a_gradient(wrap: Wrap) -> Case:
    (w, optimizer), kept = begun(), list[Any]()

    def step(x: Any) -> Any:
        updated(optimizer, ag.sum(ag.square(x @ w)))
        return w.grad

    call = wrap(step)
    return lambda turn: kept.append(call(batch(turn))) or kept[-1], lambda: [w, *kept], call


@case("an argument is of the memory of a tensor that its code reads")
def reads_its_argument_elsewhere(wrap: Wrap) -> Case:
    (w, optimizer), data = begun(), batch(99)
    call = wrap(lambda x: updated(optimizer, ag.sum((x @ w) * (data @ w))))
    return lambda turn: call(data if turn < 4 else batch(turn)), lambda: [w, w.grad], call


@case("it writes to an argument")
def writes_to_its_argument(wrap: Wrap) -> Case:
    (w, optimizer), kept = begun(), list[Any]()

    def step(x: Any) -> Any:
        x.mul_(2.0)
        return updated(optimizer, ag.sum(ag.square(x @ w)))

    call = wrap(step)

    def run(turn: int) -> Any:
        kept.append(batch(turn))
        return call(kept[-1])

    return run, lambda: kept, call


@case("in 9 of 12 calls")
def slices_a_data_set(wrap: Wrap) -> Case:
    (w, optimizer), data = begun(), batch(1, 48, 3)

    def step(x: Any) -> Any:
        return updated(optimizer, ag.sum(ag.square(x @ w))), x

    call = wrap(step)

    def run(turn: int) -> Any:
        x = data[4 * turn : 4 * turn + 4]
        loss, same_x = call(x)
        assert same_x is x
        return loss

    return run, lambda: [w, w.grad], call


@case("an argument is of the memory of a tensor that its code reads")
def changes_what_it_gets_slices_of(wrap: Wrap) -> Case:
    (w, optimizer), data = begun(), batch(1, 48, 3)

    def step(x: Any) -> Any:
        loss = updated(optimizer, ag.sum(ag.square(x @ w)))
        data.mul_(0.9)
        return loss, x

    call = wrap(step)
    return lambda turn: call(data[4 * turn : 4 * turn + 4])[1], lambda: [w, data], call


@case("an argument is an array of the host")
def looks_at_arrays(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        return updated(optimizer, ag.sum(ag.square(nc.tensor(x) @ w)) * float(x.max() > 1.5))

    call = wrap(step)
    return lambda turn: call(floats((4, 3), turn)), lambda: [w, w.grad], call


@case("in 9 of 12 calls")
def draws_from_two_generators(wrap: Wrap) -> Case:
    (w, optimizer), own = begun(), nc.Generator().manual_seed(3)

    def step(x: Any) -> Any:
        x = x + nc.rand(4, 3) + nc.randn(4, 3, generator=own)
        return updated(optimizer, ag.sum(ag.square(x @ w)))

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad, nc.rand(2)], call


@case("in 9 of 12 calls")
def follows_a_function(wrap: Wrap) -> Case:
    w, optimizer = begun()
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))

    def step(x: Any) -> Any:
        loss = updated(optimizer, ag.sum(ag.square(x @ w)))
        schedule.step()
        return loss

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, nc.tensor(optimizer.lr)], call


@case("it changes an optimizer's groups")
def sets_the_rate(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        for group in optimizer.param_groups:
            group["lr"] = 0.05
        return updated(optimizer, ag.sum(ag.square(x @ w)))

    call = wrap(step)

    def run(turn: int) -> Any:
        optimizer.param_groups[0]["lr"] = 0.01 * turn
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("in 8 of 12 calls")
def scales_its_loss(wrap: Wrap) -> Case:
    w, optimizer = begun()
    scaler = amp.GradScaler(init_scale=2.0**10, growth_interval=3)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with nc.autocast("cpu", dtype="float16"):
            loss = ag.mean(ag.square((x @ w).float()))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    call = wrap(step)

    def run(turn: int) -> Any:
        return call(batch(turn) * (1e4 if turn in (2, 7) else 1.0))

    return run, lambda: [w, w.grad, nc.tensor(scaler.get_scale())], call


@case("in 5 of 12 calls")
def has_wrong_labels_at_times(wrap: Wrap) -> Case:
    w, optimizer = begun()
    always = nc.tensor([0, 1, 0, 1])

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        x = x + nc.rand(4, 3)
        loss = ag.cross_entropy(x @ w, y) + ag.cross_entropy(x @ w, always)
        return updated(optimizer, loss)

    call = wrap(step)

    def run(turn: int) -> Any:
        if turn in (6, 7):
            always.overwrite([1, 1, 0, 7 if turn == 6 else 0])
        try:
            return call(batch(turn), nc.tensor([0, 1, 0, 5 if turn == 9 else 1]))
        except AttributeValueError:
            assert turn in (6, 9)
            return nc.tensor(0.0)

    return run, lambda: [w, w.grad, nc.rand(2)], call


@case("the host checks values that it computes")
def computes_labels(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        return updated(optimizer, ag.cross_entropy(x @ w, (x[:, 0] > 0).to("int64")))

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("a gradient goes to a tensor that its code does not show")
def attacks_its_input(wrap: Wrap) -> Case:
    w, optimizer = begun()

    def step(x: Any) -> Any:
        x = x.detach().requires_grad_()
        ag.sum(ag.square(x @ w)).backward()
        return updated(optimizer, ag.sum(ag.square((x + ag.sign(x.grad)).detach() @ w)))

    call = wrap(step)
    return lambda turn: call(batch(turn)), lambda: [w, w.grad], call


@case("in 8 of 12 calls")
def sets_a_mode_itself(wrap: Wrap) -> Case:
    w, optimizer = begun()
    drop = nn.Dropout(0.5)

    def step(x: Any) -> Any:
        drop.train()
        return updated(optimizer, ag.sum(ag.square(drop(x @ w))))

    call = wrap(step)

    def run(turn: int) -> Any:
        if turn == 6:
            drop.eval()
        return call(batch(turn))

    return run, lambda: [w, w.grad], call


@case("so far in")
def calls_another(wrap: Wrap) -> Case:
    w, optimizer = begun()
    inner = wrap(lambda x: updated(optimizer, ag.sum(ag.square(x @ w))))
    call = wrap(lambda x: inner(x) + 1.0)
    return lambda turn: (inner if turn % 4 == 3 else call)(batch(turn)), lambda: [w], call


@pytest.mark.parametrize("name", CASES)
def test_a_step(name: str, fast: nc.Device) -> None:
    outcome, make = CASES[name]
    rows: list[list[Any]] = []
    for wrap in (plainly, auto_replay):
        nc.manual_seed(11)
        run, state, call = make(wrap)
        rows.append([])
        for turn in range(12):
            shown = iter([run(turn)])  # who holds a gradient keeps the next call from replaying
            rows[-1].append([x if x is None else x.numpy() for x in (*shown, *state())])
    for plain, auto in zip(*rows, strict=True):
        same(auto, plain)
    if fast.has_kernels:
        assert outcome in call.explain(), call.explain()


def own(base: type, *args: Any, **members: Any) -> Any:
    return type("Own", (base,), members)(*args)


def kept_by(x: Any, read: Callable[[Any], Any] | None = None) -> Any:
    """What reads a number of an object, and what changes it."""
    x.factor = 2.0
    reads = (lambda: x.factor) if read is None else partial(read, x)
    return reads, partial(setattr, x, "factor", 3.0)


def matched(x: Any) -> Any:
    match x:
        case SimpleNamespace(factor=factor):
            return factor


def hidden() -> Any:
    below = own(type("Base", (), {"factor": 2.0}))
    return (lambda: below.factor), partial(setattr, type(below), "factor", 3.0)


def of_a_metaclass() -> Any:
    meta = type("Meta", (type,), {"factor": 2.0})
    made = meta("Own", (), {})
    return (lambda: made.factor), partial(setattr, meta, "factor", 3.0)


def of_a_partial() -> Any:
    called = partial(lambda factor: factor, factor=2.0)
    return (lambda: called()), partial(called.keywords.update, factor=3.0)


def a_rate() -> Any:
    _, optimizer = begun()
    return (lambda: optimizer.lr), partial(optimizer.param_groups[0].update, lr=3.0)


def members() -> Any:
    model = own(nn.Module)
    return (lambda: len(list(model.children()))), lambda: model.add_module("late", nn.ReLU())


TEXT = "{0.factor}"
PLACES: dict[str, Callable[[], Any]] = {
    "a namespace": lambda: kept_by(SimpleNamespace()),
    "a list": lambda: kept_by(own(list)),
    "a number": lambda: kept_by(own(float, 1.0)),
    "an enum": lambda: kept_by(Enum("Own", "a").a),
    "a function": lambda: kept_by(lambda: 0),
    "slots": lambda: kept_by(own(object, __slots__=("factor",))),
    "a base": hidden,
    "a metaclass": of_a_metaclass,
    "a partial": of_a_partial,
    "a group": a_rate,
    "members": members,
    "attrgetter": lambda: kept_by(own(object), lambda x: attrgetter("factor")(x)),
    "getattr": lambda: kept_by(own(object), lambda x: reduce(getattr, ["factor"], x)),
    "format": lambda: kept_by(own(object), lambda x: len(TEXT.format(x))),
    "match": lambda: kept_by(SimpleNamespace(), matched),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_a_step_reads_is_seen_to_change(place: str, fast: nc.Device) -> None:
    read, change = PLACES[place]()
    step, x = auto_replay(lambda x: x * read()), batch(0)
    for turn in range(7):
        if turn == 5:
            assert place != "slots" or not fast.has_kernels or "so far in" in step.explain()
            change()
        same(step(x).numpy(), (x * read()).numpy())


def test_inside_a_capture_it_is_the_function() -> None:
    w, optimizer = begun()
    step = auto_replay(lambda x: updated(optimizer, ag.sum(ag.square(x @ w))))
    graph = ag.capture(step, batch(0))
    graph(batch(1))
    assert optimizer.state_dict()["state"] and step.explain() == "it has not been called"


def test_addresses_are_those_of_the_objects() -> None:
    objects = object(), "text", 1.5, None
    assert struct.unpack(f"{len(objects)}P", addresses(objects)) == tuple(map(id, objects))
    assert addresses(()) == b""


def test_many_layers_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a sign: values are compared one by one only where that has changed."""
    model = nn.Sequential(*[nn.Linear(2, 2) for _ in range(200)])
    watch = StepWatch(lambda x: model(x), [])
    assert watch.holds()
    with monkeypatch.context() as scope:
        scope.setattr(watched_values, "_alike", None)  # nobody calls it
        assert watch.holds(True)
    model[150].weight.requires_grad_(False)
    assert not watch.holds()
    assert watch.changed() == "a tensor"
    model[150].weight.requires_grad_()
    model[150].bias = None
    assert not watch.holds(True)
    assert watch.changed() == "model.150.bias"


def test_two_threads(fast: nc.Device) -> None:
    """While one is in the step, the other finds the function as it is."""
    w, _ = begun()
    inside, go_on = threading.Event(), threading.Event()

    @auto_replay
    def step(x: Any) -> Any:
        return ag.sum(x @ w).detach()

    for turn in range(6):
        step(batch(turn))

    def held() -> None:
        with step._lock:
            inside.set()
            go_on.wait(10)

    thread = threading.Thread(target=held)
    thread.start()
    inside.wait(10)
    np.testing.assert_array_equal(step(batch(7)).numpy(), ag.sum(batch(7) @ w).numpy())
    go_on.set()
    thread.join()


def test_of_many_objects_the_last_used_are_kept() -> None:
    step, often, lives = auto_replay(lambda x, trainer: x * trainer.factor), Trainer(), []
    for turn in range(12):
        step(batch(0), rare := Trainer())
        lives.append(weakref.ref(rare))
        for _ in range(2):
            step(batch(turn), often)
    del rare
    gc.collect()
    assert sum(life() is not None for life in lives) < 8
    if nc.default_device().has_kernels:
        assert "so far in 21 of 24 calls" in step.explain()


def test_one_recording_is_kept_and_goes_with_the_step(fast: nc.Device) -> None:
    def memory() -> int:
        gc.collect()
        return fast.memory_stats()["allocated"]

    w, _ = begun()
    before = memory()

    @auto_replay
    def step(x: Any) -> Any:
        return ag.sum(ag.tanh(x @ w)).detach()

    held = []
    for turn in range(4):
        step(batch(turn, 4096, 3))
        held.append(memory() - before)
    if fast.has_kernels:
        assert held[0] == held[1] == 0 < held[2]
    del step
    assert memory() == before
