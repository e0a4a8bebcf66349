"""What a tensor is: making some, looking into them, computing with them, changing them."""

import numpy as np
import torch


def main():
    placed = torch.tensor([1, 2], device=torch.device("cpu"))
    assert placed.to("cpu").device == placed.device == torch.device("cpu")
    table = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    found = [float(table.size(0)), float(table.shape[1]), float(table.ndim)]
    found.append(float(table.dtype == torch.float32))

    # sizes, views, joins
    found += table.t().reshape(-1).tolist()
    found += table.view(3, 2)[:, 1].tolist()
    found += torch.cat([table, table * 2], dim=1)[1].tolist()
    found += torch.stack([table, table + 1])[1, 0].tolist()
    found += table.unsqueeze(0).permute(2, 0, 1).squeeze().flatten().tolist()
    first, second = table.split([1, 2], dim=1)
    found += [first.sum().item(), second.sum().item()]

    # arithmetic, broadcasting, products
    row = torch.arange(3, dtype=torch.float32)
    found += (table + row).sum(dim=0).tolist()
    found += (table @ row).tolist()
    found += torch.matmul(table, table.T).flatten().tolist()
    found += (table // 2).flatten().tolist() + (table % 2).flatten().tolist()
    found += (-table).abs().sqrt().exp().log().pow(2).flatten().tolist()

    # reductions, order, comparisons
    found += [table.mean().item(), table.std().item(), table.max().item(), table.prod().item()]
    values, places = table.max(dim=1)
    found += values.tolist() + [float(place) for place in places]
    found += torch.sort(-table, dim=1).values.flatten().tolist()
    found += torch.where(table > 3, table, torch.zeros_like(table)).flatten().tolist()
    found += table[table > 2].tolist()
    found.append(float((table == table.clone()).all()))
    found.append(float(((table - table.t().t()).abs() < 1e-6).all()))

    # in place
    changed = torch.ones(2, 3)
    changed += table
    changed.mul_(2)
    changed[0, :] = 7
    changed[:, 1] += 0.5
    changed[changed > 9] = torch.tensor(0.0)
    found += changed.flatten().tolist()
    found += torch.zeros(4).fill_(3).tolist()

    # dtypes and NumPy
    found += (table.to(torch.int64) * 2).float().flatten().tolist()
    found += table.half().double().flatten().tolist()
    array = np.linspace(0, 1, 5, dtype=np.float32)
    found += torch.from_numpy(array).cumsum(0).numpy().tolist()
    found += torch.full((2,), 2.5).numpy().tolist() + torch.eye(2).flatten().tolist()
    found += torch.linspace(0, 1, steps=4).tolist()

    # random numbers: their own, but repeatable
    torch.manual_seed(1)
    drawn = torch.randn(500)
    torch.manual_seed(1)
    found.append(float((drawn == torch.randn(500)).all()))
    found.append(float(abs(drawn.mean().item()) < 0.2))
    found.append(float(torch.rand(3, 4).max().item() < 1))
    found.append(float(torch.randint(0, 10, (20,)).max().item() < 10))
    found += torch.sort(torch.randperm(6)).values.float().tolist()
    return found


if __name__ == "__main__":
    print(main())
