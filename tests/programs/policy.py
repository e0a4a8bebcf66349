"""REINFORCE and an actor with a critic on a small corridor, as the examples of policy gradients."""

from collections import deque, namedtuple
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

eps = np.finfo(np.float32).eps.item()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SavedAction = namedtuple("SavedAction", ["log_prob", "value"])


class Corridor:
    """Walk right along five cells; each step costs a little, the end gives one."""

    def reset(self):
        self.place = 1
        return self._state(), {}

    def _state(self):
        state = np.zeros(5, dtype=np.float32)
        state[self.place] = 1
        return state

    def step(self, action):
        self.place = max(self.place + (1 if action == 1 else -1), 0)
        done = self.place == 4
        return self._state(), 1.0 if done else -0.1, done, False, {}


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(5, 16)
        self.dropout = nn.Dropout(p=0.0)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.affine1(x)))
        action_prob = F.softmax(self.action_head(x), dim=-1)
        return action_prob, self.value_head(x)


def select_action(model, state):
    state = torch.from_numpy(state).float().to(device)
    probs, state_value = model(state)
    action = torch.multinomial(probs, num_samples=1)
    log_prob = torch.log(probs.gather(0, action)).squeeze()
    model.saved_actions.append(SavedAction(log_prob, state_value))
    return action.item()


def finish_episode(model, optimizer):
    R = 0
    policy_losses, value_losses, returns = [], [], deque()
    for r in model.rewards[::-1]:
        R = r + 0.9 * R
        returns.appendleft(R)
    returns = torch.tensor(returns, device=device)
    returns = (returns - returns.mean()) / (returns.std(unbiased=False) + eps)
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R], device=device)))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss.item()


def replayed(model, optimizer):
    """One update of known actions: its numbers are the same whatever the random numbers."""
    env = Corridor()
    state, _ = env.reset()
    for action in [1, 0, 1, 1, 1]:
        probs, value = model(torch.from_numpy(state).unsqueeze(0).to(device))
        log_prob = torch.log(probs)[0, action].unsqueeze(0)
        model.saved_actions.append(SavedAction(log_prob[0], value[0]))
        state, reward, done, _, _ = env.step(action)
        model.rewards.append(reward)
    return finish_episode(model, optimizer), -(probs * probs.log()).sum(-1).mean().item()


def main():
    torch.manual_seed(543)
    model = Policy().to(device)
    rng = np.random.RandomState(4)
    for p in model.parameters():
        p.data = torch.tensor(rng.uniform(-0.4, 0.4, p.shape), dtype=p.dtype, device=p.device)
    optimizer = optim.Adam(model.parameters(), lr=3e-2)
    numbers = []
    for _ in range(3):
        numbers.extend(replayed(model, optimizer))
    env = Corridor()
    lengths = deque(maxlen=10)
    running_reward = 0
    for i_episode in range(40):
        state, ep_reward = env.reset()[0], 0
        for t in count(1):
            action = select_action(model, state)
            state, reward, done, _, _ = env.step(action)
            model.rewards.append(reward)
            ep_reward += reward
            if done or t > 40:
                break
        lengths.append(t)
        running_reward = 0.05 * ep_reward + 0.95 * running_reward
        finish_episode(model, optimizer)
    numbers.append(sum(lengths) / len(lengths) < 8)
    with torch.no_grad():
        probs, _ = model(torch.eye(5, device=device)[:4])
        numbers.append(bool((probs[:, 1] > 0.5).all()))
        logits = torch.log(probs.double().float() + torch.finfo(torch.float32).eps)
        numbers.append(bool(torch.isfinite(logits).all().item()))
    return numbers


if __name__ == "__main__":
    print(main())
