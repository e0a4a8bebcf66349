"""Proximal policy optimisation with distributions, advantages and a clipped ratio."""

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Categorical, Normal


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(3, 8)), nn.Tanh(), layer_init(nn.Linear(8, 1), std=1.0)
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(3, 8)), nn.Tanh(), layer_init(nn.Linear(8, 2), std=0.01)
        )
        self.log_std = nn.Parameter(torch.zeros(1, 2))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits)
        if action is None:
            action = probs.sample()
        normal = Normal(logits, self.log_std.expand_as(logits).exp())
        spread = normal.log_prob(logits.detach() + 0.1).sum(1)
        return (
            action,
            probs.log_prob(action),
            probs.entropy() + 0.1 * normal.entropy().sum(1) + 0.01 * spread,
            self.critic(x),
        )


def main():
    rng = np.random.RandomState(0)
    agent = Agent()
    for p in agent.parameters():
        p.data = torch.from_numpy(rng.uniform(-0.5, 0.5, tuple(p.shape))).float()
    optimizer = torch.optim.Adam(agent.parameters(), lr=5e-3, eps=1e-5)
    obs = torch.from_numpy(rng.rand(12, 3)).float()
    actions = torch.from_numpy(rng.randint(0, 2, 12))
    rewards, dones = torch.from_numpy(rng.rand(12)).float(), torch.zeros(12)
    with torch.no_grad():
        sampled, *_ = agent.get_action_and_value(obs)
        assert sampled.shape == (12,) and set(sampled.tolist()) <= {0, 1}
        _, logprobs, _, values = agent.get_action_and_value(obs, actions)
        values = values.flatten()
        advantages, lastgaelam = torch.zeros_like(rewards), 0
        for t in reversed(range(12)):
            nextnonterminal = 1.0 - dones[t]
            nextvalues = values[t + 1] if t < 11 else torch.tensor(0.0)
            delta = rewards[t] + 0.99 * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + 0.99 * 0.95 * nextnonterminal * lastgaelam
        returns = advantages + values
    numbers = []
    for _epoch in range(3):
        for start in range(0, 12, 6):
            mb = np.arange(12)[start : start + 6]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                obs[mb], actions.long()[mb]
            )
            logratio = newlogprob - logprobs[mb]
            ratio = logratio.exp()
            adv = advantages[mb]
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
            pg_loss = torch.max(-adv * ratio, -adv * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)).mean()
            v_loss = 0.5 * ((newvalue.view(-1) - returns[mb]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            numbers.append(loss.item())
    y_pred, y_true = values.cpu().numpy(), returns.cpu().numpy()
    return [*numbers, 1 - np.var(y_true - y_pred) / np.var(y_true)]


if __name__ == "__main__":
    print(main())
