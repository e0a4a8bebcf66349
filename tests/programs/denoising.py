"""A diffusion model with linear attention, a cosine schedule, and an average of its weights."""

import copy
import math
import numpy as np
import torch
from torch import nn, optim
import torch.nn.functional as F


class SinusoidalPosEmb(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        half_dim = self.dim // 2
        emb = math.log(10000) / (half_dim - 1)
        emb = torch.exp(torch.arange(half_dim, device=x.device) * -emb)
        emb = x[:, None] * emb[None, :]
        return torch.cat((emb.sin(), emb.cos()), dim=-1)


class Block(nn.Module):
    def __init__(self, dim, dim_out, groups=4):
        super().__init__()
        self.proj = nn.Conv2d(dim, dim_out, 3, padding=1)
        self.norm = nn.GroupNorm(groups, dim_out)
        self.act = nn.SiLU()

    def forward(self, x, scale_shift=None):
        x = self.norm(self.proj(x))
        if scale_shift is not None:
            scale, shift = scale_shift
            x = x * (scale + 1) + shift
        return self.act(x)


class ResnetBlock(nn.Module):
    def __init__(self, dim, dim_out, *, time_emb_dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(time_emb_dim, dim_out * 2))
        self.block1, self.block2 = Block(dim, dim_out), Block(dim_out, dim_out)
        self.res_conv = nn.Conv2d(dim, dim_out, 1) if dim != dim_out else nn.Identity()

    def forward(self, x, time_emb):
        t = self.mlp(time_emb)[..., None, None].chunk(2, dim=1)
        h = self.block2(self.block1(x, scale_shift=t))
        return h + self.res_conv(x)


class LinearAttention(nn.Module):
    def __init__(self, dim, heads=2, dim_head=4):
        super().__init__()
        self.scale, self.heads = dim_head**-0.5, heads
        self.to_qkv = nn.Conv2d(dim, heads * dim_head * 3, 1, bias=False)
        self.to_out = nn.Conv2d(heads * dim_head, dim, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = (t.reshape(b, self.heads, -1, h * w) for t in self.to_qkv(x).chunk(3, dim=1))
        q, k = q.softmax(dim=-2) * self.scale, k.softmax(dim=-1)
        context = torch.einsum("b h d n, b h e n -> b h d e", k, v)
        out = torch.einsum("b h d e, b h d n -> b h e n", context, q)
        return self.to_out(out.reshape(b, -1, h, w))


class Unet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.init_conv = nn.Conv2d(1, dim, 5, padding=2)
        td = dim * 4
        self.time_mlp = nn.Sequential(
            SinusoidalPosEmb(dim), nn.Linear(dim, td), nn.GELU(), nn.Linear(td, td)
        )
        self.down = ResnetBlock(dim, dim * 2, time_emb_dim=td)
        self.pool = nn.Conv2d(dim * 2, dim * 2, 4, 2, 1)
        self.mid = ResnetBlock(dim * 2, dim * 2, time_emb_dim=td)
        self.attn = LinearAttention(dim * 2)
        self.up = nn.ConvTranspose2d(dim * 2, dim * 2, 4, 2, 1)
        self.final = ResnetBlock(dim * 4, dim, time_emb_dim=td)
        self.out = nn.Conv2d(dim, 1, 1)

    def forward(self, x, time):
        x = self.init_conv(x)
        t = self.time_mlp(time)
        skip = self.down(x, t)
        h = self.mid(self.pool(skip), t)
        h = self.attn(h) + h
        h = torch.cat((self.up(h), skip), dim=1)
        return self.out(self.final(h, t))


def extract(a, t, x_shape):
    out = a.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


def cosine_beta_schedule(timesteps, s=0.008):
    x = torch.linspace(0, timesteps, timesteps + 1, dtype=torch.float64)
    ac = torch.cos(((x / timesteps) + s) / (1 + s) * math.pi * 0.5) ** 2
    ac = ac / ac[0]
    return torch.clip(1 - (ac[1:] / ac[:-1]), 0, 0.999)


class GaussianDiffusion(nn.Module):
    def __init__(self, model, timesteps=20):
        super().__init__()
        self.model, self.T = model, timesteps
        betas = cosine_beta_schedule(timesteps)
        alphas = 1.0 - betas
        ac = torch.cumprod(alphas, dim=0)
        ac_prev = F.pad(ac[:-1], (1, 0), value=1.0)
        reg = lambda name, val: self.register_buffer(name, val.to(torch.float32))
        reg("betas", betas)
        reg("ac", ac)
        reg("sqrt_ac", torch.sqrt(ac))
        reg("sqrt_1mac", torch.sqrt(1.0 - ac))
        reg("post_var", (betas * (1.0 - ac_prev) / (1.0 - ac)).clamp(min=1e-20))
        reg("c1", betas * torch.sqrt(ac_prev) / (1.0 - ac))
        reg("c2", (1.0 - ac_prev) * torch.sqrt(alphas) / (1.0 - ac))

    @property
    def device(self):
        return self.betas.device

    def q_sample(self, x0, t, noise):
        return (
            extract(self.sqrt_ac, t, x0.shape) * x0 + extract(self.sqrt_1mac, t, x0.shape) * noise
        )

    def forward(self, x0, t, noise):
        pred = self.model(self.q_sample(x0, t, noise), t)
        loss = F.smooth_l1_loss(pred, noise, reduction="none").flatten(1).mean(1)
        w = torch.minimum(
            extract(self.ac, t, loss.shape) / (1 - extract(self.ac, t, loss.shape)),
            torch.full_like(loss, 5.0),
        )
        return (loss * w).mean()

    @torch.no_grad()
    def sample(self, noises):
        x = noises[0]
        for i in reversed(range(self.T)):
            t = torch.full((x.shape[0],), i, device=self.device, dtype=torch.long)
            eps = self.model(x, t)
            x0 = (
                (x - extract(self.sqrt_1mac, t, x.shape) * eps) / extract(self.sqrt_ac, t, x.shape)
            ).clamp_(-1.0, 1.0)
            mean = extract(self.c1, t, x.shape) * x0 + extract(self.c2, t, x.shape) * x
            x = (
                mean + (0.5 * extract(self.post_var, t, x.shape).log()).exp() * noises[i]
                if i > 0
                else mean
            )
        return x


class EMA:
    def __init__(self, model, decay=0.9):
        self.module = copy.deepcopy(model).eval().requires_grad_(False)
        self.decay, self.step = decay, 0

    @torch.no_grad()
    def update(self, model):
        self.step += 1
        d = self.decay * (1 - math.exp(-self.step / 5))
        msd = model.state_dict()
        for k, v in self.module.state_dict().items():
            if v.dtype.is_floating_point:
                v *= d
                v += (1 - d) * msd[k].detach()


def main():
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    rng = np.random.default_rng(1)
    rnd = lambda *s: torch.as_tensor(rng.standard_normal(s), dtype=torch.float32).to(device)
    model = GaussianDiffusion(Unet()).to(device)
    with torch.no_grad():
        for p in model.parameters():
            p.data = rnd(*p.shape) * 0.1 if p.dim() > 1 else p.data.zero_()
    ema = EMA(model)
    opt = optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=1e-2)
    sched = optim.lr_scheduler.OneCycleLR(opt, max_lr=5e-3, total_steps=8)
    out = []
    for step in range(6):
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(2):
            x0 = rnd(4, 1, 8, 8).tanh()
            t = torch.from_numpy(rng.integers(0, 20, 4)).long().to(device)
            loss = model(x0, t, rnd(4, 1, 8, 8)) / 2
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        ema.update(model)
        out += [total, norm.item(), sched.get_last_lr()[0]]
    s = ema.module.sample(rnd(20, 2, 1, 8, 8))
    return out + [s.mean().item(), s.std().item(), s.abs().max().item()]
