"""The reference that our speed is compared with: O3SRL's game over TD3+BC in plain eager PyTorch.

Written from the equations (Fujimoto and Gu, 2021, https://arxiv.org/abs/2106.06860; Chemingui et al., NeurIPS 2025),
the way a competent PyTorch user would: data on the device, batches by random indices there, one optimizer per player,
and one transfer to the host per round. No compiler and no CUDA graphs, which is how the field's code runs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

ARMS = (0.0, 0.5, 1.12, 2.5, 5.0)


@dataclass(frozen=True)
class Settings:
    """The paper's, the same as our library's defaults."""

    batch_size: int = 512
    hidden: int = 256
    updates_per_round: int = 10
    limit: float = 5.0
    discount: float = 0.99
    alpha: float = 2.5
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_delay: int = 2
    tau: float = 0.005
    learning_rate: float = 3e-4
    dual_rate: float = 2e-3


@dataclass
class Learner:
    """Both players: networks, their targets and optimizers; EXP3's log-weights [K] live on the host."""

    actor: nn.Module
    critics: nn.ModuleList
    actor_target: nn.Module
    critic_targets: nn.ModuleList
    actor_optimizer: torch.optim.Optimizer
    critic_optimizer: torch.optim.Optimizer
    log_weights: np.ndarray
    updates: int = 0


def perceptron(inputs: int, outputs: int, hidden: int, *final: nn.Module) -> nn.Sequential:
    layers = nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    return nn.Sequential(*layers, *final)


def make_learner(obs_dim: int, action_dim: int, settings: Settings, device: torch.device) -> Learner:
    actor = perceptron(obs_dim, action_dim, settings.hidden, nn.Tanh()).to(device)
    critics = nn.ModuleList(perceptron(obs_dim + action_dim, 1, settings.hidden) for _ in range(2)).to(device)
    return Learner(
        actor=actor,
        critics=critics,
        actor_target=copy.deepcopy(actor).requires_grad_(False),
        critic_targets=copy.deepcopy(critics).requires_grad_(False),
        actor_optimizer=torch.optim.Adam(actor.parameters(), lr=settings.learning_rate),
        critic_optimizer=torch.optim.Adam(critics.parameters(), lr=settings.learning_rate),
        log_weights=np.zeros(len(ARMS)),
    )


def to_device(arrays: Mapping[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    """Return float32 tensors on the device, by the names of DSRL's columns."""
    return {name: torch.as_tensor(np.asarray(value, np.float32), device=device) for name, value in arrays.items()}


def draw(data: dict[str, Tensor], batch_size: int) -> dict[str, Tensor]:
    rows = data["rewards"].shape[0]
    index = torch.randint(rows, (batch_size,), device=data["rewards"].device)
    return {name: column[index] for name, column in data.items()}


def train(
    learner: Learner, data: dict[str, Tensor], updates: int, settings: Settings, generator: np.random.Generator
) -> None:
    """Make `updates` gradient updates, in rounds of M: an arm, M updates on its modified reward, EXP3's answer.

    P_{t+1}(arm) ~ P_t(arm) exp(-rate V 1[arm played] / P_t(arm)), with V = (1 - gamma) mean min(Q1, Q2)(s, pi(s)).
    """
    for _ in range(updates // settings.updates_per_round):
        weights = np.exp(learner.log_weights - learner.log_weights.max())
        probability = weights / weights.sum()
        arm = generator.choice(len(ARMS), p=probability)
        for _ in range(settings.updates_per_round):
            batch = draw(data, settings.batch_size)
            update(learner, batch, ARMS[arm], settings)
        value = (1.0 - settings.discount) * policy_value(learner, batch["observations"])
        learner.log_weights[arm] -= settings.dual_rate * value / probability[arm]


def update(learner: Learner, batch: dict[str, Tensor], multiplier: float, settings: Settings) -> None:
    update_critics(learner, batch, multiplier, settings)
    learner.updates += 1
    if learner.updates % settings.policy_delay == 0:
        update_actor(learner, batch, settings)
        soft_update(learner.actor_target, learner.actor, settings.tau)
        soft_update(learner.critic_targets, learner.critics, settings.tau)


def update_critics(learner: Learner, batch: dict[str, Tensor], multiplier: float, settings: Settings) -> None:
    """sum_j mean (Q_j(s, a) - y)^2 with y = r' + gamma (1 - terminal) min_j Qbar_j(s', pibar(s') + noise)."""
    allowance = (1.0 - settings.discount) * settings.limit
    with torch.no_grad():
        reward = batch["rewards"] - multiplier * (batch["costs"] - allowance)
        action, following = batch["actions"], batch["next_observations"]
        noise = (settings.policy_noise * torch.randn_like(action)).clamp(-settings.noise_clip, settings.noise_clip)
        next_action = (learner.actor_target(following) + noise).clamp(-1.0, 1.0)
        after = torch.cat([following, next_action], dim=-1)
        next_value = torch.minimum(*(critic(after) for critic in learner.critic_targets)).squeeze(-1)
        target = reward + settings.discount * (1.0 - batch["terminals"]) * next_value
    joined = torch.cat([batch["observations"], batch["actions"]], dim=-1)
    loss = sum(functional.mse_loss(critic(joined).squeeze(-1), target) for critic in learner.critics)
    learner.critic_optimizer.zero_grad()
    loss.backward()
    learner.critic_optimizer.step()


def update_actor(learner: Learner, batch: dict[str, Tensor], settings: Settings) -> None:
    """-alpha mean Q_1(s, pi(s)) / mean |Q_1(s, pi(s))| + mean (pi(s) - a)^2."""
    observation = batch["observations"]
    action = learner.actor(observation)
    learner.critics.requires_grad_(False)  # only the action's gradient is needed, so do not pay for the weights'
    q = learner.critics[0](torch.cat([observation, action], dim=-1))
    scale = settings.alpha / q.abs().mean().detach()
    loss = -scale * q.mean() + functional.mse_loss(action, batch["actions"])
    learner.actor_optimizer.zero_grad()
    loss.backward()
    learner.actor_optimizer.step()
    learner.critics.requires_grad_(True)


@torch.no_grad()
def soft_update(target: nn.Module, online: nn.Module, tau: float) -> None:
    torch._foreach_lerp_(list(target.parameters()), list(online.parameters()), tau)


@torch.no_grad()
def policy_value(learner: Learner, observation: Tensor) -> float:
    joined = torch.cat([observation, learner.actor(observation)], dim=-1)
    return torch.minimum(*(critic(joined) for critic in learner.critics)).mean().item()
