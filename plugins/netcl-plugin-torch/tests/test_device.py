"""The device: memory, views, copies, files, random numbers, errors."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import threading
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import netcl_torch  # noqa: E402 - makes the device known, if there is PyTorch
from netcl_plugin_torch import dispatch  # noqa: E402
from netcl_plugin_torch.tensor import OPS  # noqa: E402

import netcl_core as nc  # noqa: E402

aten = torch.ops.aten
DTYPES = [getattr(torch, name) for name in nc.DTYPES if name != "float64"]


def both(make: Any) -> tuple[Any, Any]:
    """What a function of a device gives on the CPU and on netcl."""
    return make("cpu"), make("netcl")


def same(make: Any) -> None:
    """A function of a device gives the same on both."""
    here, there = both(make)
    torch.testing.assert_close(there.cpu(), here, check_stride=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_go_there_and_back(dtype: Any) -> None:
    x = torch.tensor([[0, 1, 5], [3, 2, 0]]).to(dtype)
    y = x.to("netcl", non_blocking=True)
    assert (y.device, y.dtype, y.shape) == (torch.device("netcl:0"), dtype, x.shape)
    for each in (y, y.t(), y[:, 1], y[:0], y[1, 2]):
        index = {id(y): x}.get(id(each))
        assert each.cpu().dtype == dtype and (index is None or torch.equal(each.cpu(), index))
    assert torch.equal(y.t().cpu(), x.t()) and torch.equal(y[:, 1].cpu(), x[:, 1])
    assert y.t().cpu().stride() == x.t().stride() and y[1, 2].item() == x[1, 2].item()
    assert torch.equal(y.float().cpu(), x.float()) and y.tolist() == x.tolist()


def test_views_share_memory_and_a_write_shows_in_all() -> None:
    def run(device: str) -> Any:
        x = torch.arange(24.0, device=device).reshape(2, 3, 4)
        x[:, 1] = -1
        x.transpose(0, 2)[3].mul_(2)
        x.view(6, 4)[::2, 1:3] += 10
        x.diagonal(0, 0, 1).fill_(7)
        x.unfold(2, 2, 2)[0, 0, 0].zero_()
        a, b = x.chunk(2)
        a.copy_(b)
        x[0, 0].set_(x[1, 1])
        torch.as_strided(x, (2, 2), (12, 1), 4).neg_()
        torch.add(x[0], 1, out=x[1])
        x[x > 9] = 0.5
        x[torch.tensor([0, 1], device=device), :, torch.tensor([2, 0], device=device)] = 3
        return x

    same(run)


def test_what_overlaps_is_read_before_it_is_written() -> None:
    x = torch.arange(6.0, device="netcl")
    x[1:].copy_(x[:-1])
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.ones(1, device="netcl").expand(3).add_(torch.arange(3.0, device="netcl"))


def test_sizes_change_as_pytorchs_do() -> None:
    def run(device: str) -> Any:
        x = torch.arange(6.0, device=device)
        x.resize_(2, 2)
        x.t_().unsqueeze_(0)
        out = torch.empty(0, device=device)
        torch.mul(x, 2, out=out)
        return torch.cat([out.flatten(), x.squeeze_(0).flatten()])

    same(run)


def test_gradients_through_views_and_changes() -> None:
    def run(device: str) -> Any:
        x = torch.arange(6.0, device=device).reshape(2, 3).requires_grad_()
        y = x * 2
        y[0] += x[1]
        y[:, 1].mul_(3)
        (y.sigmoid() * y).sum().backward()
        return x.grad

    same(run)
    x = torch.ones(3, device="netcl", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="leaf"):
        x.add_(1)


def test_second_gradients() -> None:
    def run(device: str) -> Any:
        x = torch.linspace(-1, 1, 5).to(device).requires_grad_()
        (first,) = torch.autograd.grad((x.tanh() * x**3).sum(), x, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), x)[0]

    same(run)


def test_linear_is_one_op_and_its_gradient_another() -> None:
    def run(device: str, bias: bool = True, lead: tuple[int, ...] = (2, 3)) -> Any:
        torch.manual_seed(0)
        operands = [torch.randn(*lead, 4), torch.randn(5, 4), *[torch.randn(5)] * bias]
        operands = [x.to(device).requires_grad_() for x in operands]
        output = torch.nn.functional.linear(*operands)
        first = torch.autograd.grad(output.tanh().sum(), operands, create_graph=True)
        second = torch.autograd.grad(sum(x.square().sum() for x in first), operands)
        return [output, *first, *second]

    for options in ({}, {"bias": False}, {"lead": ()}, {"lead": (0,)}):
        for a, b in zip(run("netcl", **options), run("cpu", **options), strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)
    x = torch.ones(2, 4, device="netcl")
    assert "Linear" in str(torch.nn.functional.linear(x, x.clone().requires_grad_()).grad_fn)
    for weight in (
        torch.ones(4),
        torch.ones(3, 5),
    ):  # PyTorch's way: a vector, or what does not fit
        if weight.dim() == 1:
            assert torch.nn.functional.linear(x, weight.to("netcl")).tolist() == [4, 4]
            continue
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            torch.nn.functional.linear(x, weight.to("netcl"))


def test_an_op_that_was_called_before_looks_at_all_that_it_depends_on() -> None:
    """Its call is known from the third time on: of other numbers, strides and dtypes another."""
    rows = torch.randn(3, 4, 6)

    def run(device: str) -> Any:
        x, given = rows.to(device), []
        forms = [x[:, :3], x[:, 1:], x.transpose(1, 2)[:, :3], x[:, :3].half().float()]
        for _ in range(4):
            for form in forms:
                for number in (0.0, -0.0, 1, 1.0, True, 2.5):
                    given += [1 / (form * number), form + number]
                given += [form.softmax(-1), form.sum(0), form.half() * 2, form > 0.5]
                given += [
                    torch.nn.functional.gelu(form, approximate=how) for how in ("none", "tanh")
                ]
        return given

    for a, b in zip(run("netcl"), run("cpu"), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5, check_stride=False)


def test_an_error_in_a_backward_pass_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's engine would end the process: guard.py."""

    def refuse(*_: Any) -> Any:
        raise ValueError("no cosine today")

    def hook(_: Any) -> Any:
        raise KeyError("a hook's")

    x = torch.ones(3, device="netcl", requires_grad=True)
    monkeypatch.setitem(OPS, aten.cos.default, refuse)
    for _ in range(2):
        with pytest.raises(ValueError, match="no cosine today"):
            x.sin().sum().backward()
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(KeyError, match="a hook's"):
        y.sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist()[-1] >= 3


def test_files_and_copies_keep_what_shares_memory() -> None:
    table = torch.nn.Embedding(4, 3).to("netcl")
    model = torch.nn.ModuleDict({"table": table, "head": torch.nn.Linear(3, 4, bias=False)})
    model["head"].weight = table.weight
    optimizer = torch.optim.Adam(model.parameters())
    model.to("netcl")
    assert model["head"].weight is table.weight is optimizer.param_groups[0]["params"][0]
    twin = copy.deepcopy(model)
    assert twin["head"].weight is twin["table"].weight is not table.weight
    file = io.BytesIO()
    torch.save({"state": model.state_dict(), "rows": table.weight.detach()[1:]}, file)
    for place, kind in ((None, "netcl"), ("cpu", "cpu"), ("netcl", "netcl")):
        file.seek(0)
        found = torch.load(file, map_location=place)
        assert found["rows"].device.type == kind
        assert torch.equal(found["rows"].cpu(), table.weight.detach().cpu()[1:])
    pointers = {found["state"][name].data_ptr() for name in found["state"]}
    assert len(pointers) == 1  # one memory in the file
    assert torch.equal(pickle.loads(pickle.dumps(table.weight)).cpu(), table.weight.cpu())
    model.cpu()
    assert type(table.weight) is torch.nn.Parameter and model["head"].weight is table.weight


def test_a_run_goes_on_from_a_checkpoint() -> None:
    def steps(model: Any, optimizer: Any, count: int) -> list[float]:
        losses = []
        for i in range(count):
            optimizer.zero_grad()
            loss = model(torch.full((2, 3), float(i), device="netcl")).square().mean()
            (loss / 2).backward()
            (model(torch.ones(2, 3, device="netcl")).mean() / 2).backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def made() -> tuple[Any, Any]:
        model = torch.nn.Linear(3, 2).to("netcl")
        return model, torch.optim.AdamW(model.parameters(), lr=0.1)

    model, optimizer = made()
    steps(model, optimizer, 3)
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    file.seek(0)
    twin, other = made()
    states = torch.load(file)
    twin.load_state_dict(states[0])
    other.load_state_dict(states[1])
    assert steps(twin, other, 3) == steps(model, optimizer, 3)


def test_a_parameter_that_moves_keeps_its_hooks_and_attributes() -> None:
    layer = torch.nn.Linear(2, 2, bias=False)
    layer.weight.no_weight_decay, seen = True, []
    layer.weight.register_hook(lambda grad: grad * 2)
    layer.weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.device.type))
    for device in ("netcl", "netcl", "cpu"):
        layer.to(device).load_state_dict(torch.nn.Linear(2, 2, bias=False).state_dict())
        layer.zero_grad()
        layer(torch.ones(1, 2, device=device)).sum().backward()
        assert layer.weight.grad.tolist() == [[2, 2], [2, 2]] and layer.weight.no_weight_decay
    assert seen == ["netcl", "netcl", "cpu"] and not hasattr(layer.weight, "raw")
    loss = layer.weight.square().sum()
    with pytest.raises(RuntimeError, match=r"Couldn't swap Linear.weight") as raised:
        layer.to("netcl")
    assert loss and "before its first forward pass" in str(raised.value.__cause__)


def test_printing() -> None:
    x = torch.tensor([1.0, 2.5], device="netcl", requires_grad=True)
    assert repr(x) == "tensor([1.0000, 2.5000], device='netcl:0', requires_grad=True)"
    assert repr((x * 2).int()) == "tensor([2, 5], dtype=torch.int32, device='netcl:0')"
    assert "grad_fn=<MulBackward0>" in repr(x * 2)
    assert f"{x[1]:.2f}" == "2.50" and f"{torch.tensor(3, device='netcl')}" == "3"


def test_random_numbers_follow_their_seed() -> None:
    def drawn() -> list[Any]:
        x = torch.empty(3, device="netcl")
        return [torch.rand(2, device="netcl").tolist(), x.normal_().tolist(),
                torch.randperm(5, device="netcl").tolist(),
                torch.nn.functional.dropout(torch.ones(9, device="netcl")).tolist(),
                torch.multinomial(torch.ones(4, device="netcl"), 2).tolist()]  # fmt: skip

    torch.manual_seed(4)
    state = torch.netcl.get_rng_state()
    first = drawn()
    torch.netcl.set_rng_state(state)
    assert drawn() == first != drawn()
    torch.netcl.manual_seed(4)
    assert drawn() == first
    with torch.random.fork_rng(devices=[0], device_type="netcl"):
        drawn()
    host = torch.Generator().manual_seed(1)
    x = torch.empty(4, device="netcl").uniform_(generator=host)
    assert torch.equal(x.cpu(), torch.empty(4).uniform_(generator=host.manual_seed(1)))
    mean = torch.rand(20000, device="netcl").bernoulli_(0.25).mean().item()
    assert abs(mean - 0.25) < 0.02


def test_autocast_and_the_scaler() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).to("netcl")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("netcl", init_scale=4.0, growth_interval=2)
    x = torch.randn(3, 4).to("netcl")
    for step, scale in enumerate((4.0, 8.0, 4.0)):
        with torch.autocast("netcl", dtype=torch.bfloat16):
            assert (x @ x.T).dtype == torch.bfloat16
            assert torch.softmax(x.half(), 1).dtype == torch.float32
            loss = model(x).square().mean() * (float("inf") if step == 2 else 1.0)
        optimizer.zero_grad()
        before = model[0].weight.detach().clone()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale
        assert torch.equal(before, model[0].weight) is (step == 2)
    with torch.autocast("netcl"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x.sigmoid(), x.sigmoid())


@pytest.mark.parametrize(
    ("run", "kind", "text"),
    [
        (lambda x: x + torch.ones(2), RuntimeError, "on the same device"),
        (lambda x: x @ torch.ones(3, device="netcl"), RuntimeError, "size"),
        (lambda x: x.to(torch.complex64), TypeError, r"has no torch\.complex64.*x\.float"),
        (lambda x: torch.ones(2, device="netcl:1"), RuntimeError, "one device"),
        (lambda x: x.view(3), RuntimeError, "invalid for input of size 2"),
        (lambda x: x[torch.tensor([5])], IndexError, "out of bounds"),
        (lambda x: x.int().add_(1.5), RuntimeError, "can't be cast"),
        (lambda x: x.numpy(), TypeError, r"Tensor\.cpu"),
        (lambda x: x.pin_memory(), RuntimeError, "pinned"),
        (lambda x: torch.as_strided(x, (3,), (1,)), RuntimeError, "out of bounds"),
        (lambda x: x.sum(dim=4), IndexError, "Dimension out of range"),
    ],
)
def test_mistakes_are_pytorchs_errors(run: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        run(torch.ones(2, device="netcl"))


def test_the_host_computes_what_the_table_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.netcl.reset_fallbacks()
    x = torch.rand(3, device="netcl")
    with pytest.warns(UserWarning, match="the host computes aten::lgamma"):
        found = torch.lgamma(x)
    torch.lgamma(x)
    assert torch.netcl.fallbacks() == {"aten::lgamma": 2}
    torch.testing.assert_close(found.cpu(), torch.lgamma(x.cpu()))
    monkeypatch.setenv("NETCL_TORCH_FALLBACK", "error")
    with pytest.raises(NotImplementedError, match=r"aten::lgamma.*x\.cpu"):
        torch.lgamma(x)
    torch.netcl.reset_fallbacks()


def test_data_loaders_and_threads() -> None:
    rows = torch.utils.data.TensorDataset(torch.arange(12.0), torch.arange(12))
    total = sum(x.to("netcl").sum() for x, _ in torch.utils.data.DataLoader(rows, 5))
    assert total.item() == 66
    found = []

    def work(seed: int) -> None:
        x = torch.full((8, 8), float(seed), device="netcl", requires_grad=True)
        for _ in range(5):
            x.grad = None
            (x @ x).sum().backward()
        found.append((seed, x.grad[0, 0].item()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(found) == [(i, 16.0 * i) for i in range(4)]


def test_memory_is_given_back_and_counted() -> None:
    if not nc.default_device().has_kernels:
        pytest.skip("the NumPy path counts no memory")
    gc.collect()
    before = torch.netcl.memory_allocated()
    x = torch.zeros(1 << 20, device="netcl")
    assert torch.netcl.memory_stats()["allocated_bytes.all.current"] >= before + (4 << 20)
    y = x[5:].view(-1)
    del x
    assert torch.netcl.memory_allocated() >= before + (4 << 20)
    del y
    gc.collect()
    assert torch.netcl.memory_allocated() == before
    torch.netcl.synchronize()


@pytest.mark.parametrize("device", ["netcl", "cpu"])
def test_an_op_of_netcls_is_one_of_pytorchs(device: str) -> None:
    op = netcl_torch.op("rms_norm")
    args = (torch.randn(3, 4, dtype=torch.float64, device=device, requires_grad=True), [4],
            torch.randn(4, dtype=torch.float64, device=device, requires_grad=True))  # fmt: skip
    expected = torch.nn.functional.rms_norm(args[0].cpu(), (4,), args[2].cpu())
    torch.testing.assert_close(op(*args).cpu(), expected)
    assert torch.autograd.gradcheck(op, args)
    checks = ["test_schema", "test_faketensor"]
    if device == "cpu":  # PyTorch has the other checks for its own devices alone
        checks += ["test_autograd_registration", "test_aot_dispatch_dynamic"]
    assert set(torch.library.opcheck(op.default, args, test_utils=checks).values()) == {"SUCCESS"}
    with pytest.raises(ValueError, match="schema="):
        netcl_torch.op("max")


def test_memory_is_shared_with_numpy_and_pytorch() -> None:
    array = np.zeros(4, np.float32)
    x = torch.from_dlpack(nc.from_buffer(array))
    x += 2
    assert array.tolist() == [2, 2, 2, 2]


def test_rows_are_ops_that_pytorch_has() -> None:
    unknown = [name for name in dispatch.ROWS if dispatch.overload(name) is None]
    assert unknown == []


def test_views_in_inference_mode_of_what_was_there_before() -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device="netcl")
    with torch.inference_mode():
        views = [x[1], x.t(), x.detach(), *x.chunk(2)]
        assert [tuple(view.shape) for view in views] == [(2,), (2, 2), (2, 2), (1, 2), (1, 2)]
        assert (x[1] * 1)[0].is_inference() and not any(view.is_inference() for view in views)
    x.add_(1.0)
    assert views[0].tolist() == [4, 5]
