"""A radiance field: encoded positions, rays through a camera, volume rendering, fine samples; a SIREN."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Embedder(nn.Module):
    def __init__(self, freqs):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.linspace(0.0, freqs - 1, steps=freqs))

    def forward(self, x):
        scaled = (x[..., None, :] * self.bands[:, None]).reshape(*x.shape[:-1], -1)
        return torch.cat([x, torch.sin(scaled), torch.cos(scaled)], -1)


class NeRF(nn.Module):
    def __init__(self, L=2, L_dir=1, W=16):
        super().__init__()
        self.embed, self.embed_dir = Embedder(L), Embedder(L_dir)
        self.pts_linears = nn.ModuleList(
            [nn.Linear(3 + 6 * L, W)]
            + [nn.Linear(W, W) if i != 1 else nn.Linear(W + 3 + 6 * L, W) for i in range(2)]
        )
        self.alpha_linear = nn.Linear(W, 1)
        self.rgb_linear = nn.Linear(W + 3 + 6 * L_dir, 3)

    def forward(self, pts, viewdirs):
        embedded = self.embed(pts)
        h = embedded
        for i, _ in enumerate(self.pts_linears):
            h = self.pts_linears[i](h)
            h = F.relu(h)
            if i == 1:
                h = torch.cat([embedded, h], -1)
        sigma = F.softplus(self.alpha_linear(h) - 1.0)
        dirs = self.embed_dir(viewdirs)[:, None].expand(-1, pts.shape[1], -1)
        return torch.sigmoid(self.rgb_linear(torch.cat([h, dirs], -1))), sigma.squeeze(-1)


def get_rays(H, W, focal, c2w):
    i, j = torch.meshgrid(
        torch.arange(W, dtype=torch.float32), torch.arange(H, dtype=torch.float32), indexing="xy"
    )
    dirs = torch.stack([(i - W * 0.5) / focal, -(j - H * 0.5) / focal, -torch.ones_like(i)], -1)
    rays_d = torch.sum(dirs[..., np.newaxis, :].to(c2w) * c2w[:3, :3], -1)
    rays_o = c2w[:3, -1].expand(rays_d.shape)
    return rays_o.reshape(-1, 3), rays_d.reshape(-1, 3)


def raw2outputs(rgb, sigma, z_vals, rays_d):
    dists = z_vals[..., 1:] - z_vals[..., :-1]
    dists = torch.cat([dists, torch.full_like(dists[..., :1], 1e10)], -1)
    dists = dists * torch.norm(rays_d[..., None, :], dim=-1)
    alpha = 1.0 - torch.exp(-sigma * dists)
    ones = torch.ones((alpha.shape[0], 1), device=alpha.device)
    weights = alpha * torch.cumprod(torch.cat([ones, 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
    rgb_map = torch.einsum("rs,rsc->rc", weights, rgb)
    depth_map = torch.sum(weights * z_vals, -1)
    acc = weights.sum(-1)
    return rgb_map + (1.0 - acc[..., None]), depth_map, weights


def sample_fine(z_vals, weights, n):
    mids = 0.5 * (z_vals[..., 1:] + z_vals[..., :-1])
    best = torch.topk(weights[..., 1:-1], n, dim=-1, sorted=True).indices
    fine = torch.gather(mids, 1, best).detach()
    z, _ = torch.sort(torch.cat([z_vals, fine], -1), -1)
    return z


class Siren(nn.Module):
    def __init__(self, fan_in, fan_out, w0=5.0):
        super().__init__()
        self.w0, self.linear = w0, nn.Linear(fan_in, fan_out)

    def forward(self, x):
        return torch.sin(self.w0 * self.linear(x))


def fill(model, rng, scale):
    for name, p in sorted(model.state_dict().items()):
        if "bands" not in name:
            p.data.copy_(torch.as_tensor(rng.uniform(-scale, scale, tuple(p.size()))))


def main():
    rng = np.random.RandomState(0)
    H = W = 4
    model = NeRF().to(device)
    fill(model, rng, 0.5)
    c2w = torch.eye(4, device=device)
    c2w[2, 3] = 4.0
    target = torch.tensor(rng.rand(H, W, 3), dtype=torch.float, device=device)
    mse2psnr = lambda x: -10.0 * torch.log(x) / torch.log(torch.Tensor([10.0]).to(x.device))
    optimizer = torch.optim.Adam(params=list(model.parameters()), lr=5e-3, betas=(0.9, 0.999))
    rays_o, rays_d = get_rays(H, W, 3.0, c2w)
    numbers = []
    for step in range(4):
        viewdirs = rays_d / torch.norm(rays_d, dim=-1, keepdim=True)
        t_vals = torch.linspace(0.0, 1.0, steps=6, device=device)
        z_vals = (2.0 * (1.0 - t_vals) + 6.0 * t_vals).expand([H * W, 6])
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        rgb0, _, weights = raw2outputs(*model(pts, viewdirs), z_vals, rays_d)
        z_fine = sample_fine(z_vals, weights, 2)
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_fine[..., :, None]
        rgb, depth, _ = raw2outputs(*model(pts, viewdirs), z_fine, rays_d)
        loss = F.mse_loss(rgb.view(H, W, 3), target) + F.mse_loss(rgb0.view(H, W, 3), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for param_group in optimizer.param_groups:
            param_group["lr"] = 5e-3 * (0.1 ** ((step + 1) / 10))
        numbers += [loss.item(), mse2psnr(loss.detach()).item()]
    numbers.append(depth.mean().item())
    siren = nn.Sequential(Siren(2, 8), Siren(8, 8), nn.Linear(8, 1)).to(device)
    fill(siren, rng, math.sqrt(6 / 8) / 5)
    coords = torch.stack(torch.meshgrid(*[torch.linspace(-1, 1, 4)] * 2, indexing="ij"), -1)
    coords = coords.view(-1, 2).to(device).requires_grad_(True)
    out = siren(coords)
    (slope,) = torch.autograd.grad(out, coords, torch.ones_like(out), create_graph=True)
    laplace = 0.0
    for k in range(2):
        second = torch.autograd.grad(slope[:, k].sum(), coords, create_graph=True)[0]
        laplace = laplace + second[:, k : k + 1]
    loss = ((slope.norm(dim=-1) - 1) ** 2).mean() + laplace.pow(2).mean() * 1e-2
    loss.backward()
    return [*numbers, loss.item(), siren[0].linear.weight.grad.abs().sum().item()]


if __name__ == "__main__":
    print(main())
