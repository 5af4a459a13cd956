"""Evaluation in a Gymnasium environment with costs: all lanes of a run together, over processes of simulators.

Each lane has a few environments, each of which plays every so-manyth of the lane's episodes, one after the other. In
every step one call of the policy acts in all environments of all lanes. An episode's luck is a function of the seed
and of its number: the environment's through the seed that it is reset with, the policy's through a key. Lanes
therefore meet the same episodes, and no number depends on how many processes there are. The number of environments is
part of what makes the numbers where a reset does not undo everything: in Bullet-Safety-Gym joints go on turning and
contacts stay, so that an episode feels the one before it. DSRL's protocol has one environment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array

from o3srl.envs.pool import IDLE, PATIENCE, RESET, STEP, Answers, Facts, Pool
from o3srl.envs.tasks import Task
from o3srl.envs.worker import GOES_ON
from o3srl.errors import SimulatorError
from o3srl.evaluate import Outcome
from o3srl.policy import in_box
from o3srl.train import raw_key
from o3srl.types import Info, Parameters, Policy, State, Step

ENVIRONMENTS = 5  # per lane

Told = Callable[[int], None]  # how many episodes have ended
Watch = Callable[[Pool, Answers], None]  # sees what every tick brought


class Settings(NamedTuple):
    """How episodes are played: seed; environments per lane; processes (None: one per core); patience in seconds."""

    seed: int = 0
    environments: int = ENVIRONMENTS
    processes: int | None = None
    patience: float = PATIENCE


def episode_seeds(seed: int, episodes: int) -> npt.NDArray[np.uint32]:
    """Return what the environment is reset with in each episode, [E], below 2^31.

    >>> episode_seeds(0, 3).tolist() == episode_seeds(0, 5)[:3].tolist()
    True
    """
    drawn = [np.random.SeedSequence([seed, number]).generate_state(1)[0] for number in range(episodes)]
    return np.asarray(drawn, np.uint32) >> np.uint32(1)


def simulate(
    policy: Policy,
    parameters: Parameters,
    limits: npt.ArrayLike,
    task: Task,
    info: Info,
    episodes: int,
    settings: Settings = Settings(),
    told: Told | None = None,
    watch: Watch | None = None,
) -> Outcome:
    """Return the outcome [L, E] of `episodes` episodes of every lane, with parameters [L, ...] and limits [L, M].

    `info` are the facts about the log: its action box, number of costs, and time limit where the task has none. Where
    someone watches, environments are made with a camera.
    """
    budgets = np.asarray(limits, np.float32)
    side = min(settings.environments, episodes)
    seeds = episode_seeds(settings.seed, episodes)
    slots = np.tile(seeds[:side], len(budgets))
    camera = watch is not None
    with Pool(task, info.costs, slots.tolist(), settings.processes, settings.patience, camera) as pool:
        horizon = time_limit(task, info, pool.facts)
        check_fits(task, info, pool.facts)
        board = _Board(len(budgets), side, episodes, horizon, info.costs)
        actor = _Actor(policy, parameters, budgets, raw_key(settings.seed), side)
        actions = np.zeros((len(slots), info.action_dim))
        while True:
            answers = pool.tick(board.todo(), seeds[board.episode], actions)
            if watch is not None:
                watch(pool, answers)
            if not board.note(answers, told):
                break
            actions = in_box(actor.act(board, answers), info.action_low, info.action_high)
    return Outcome(board.returns, board.costs, board.lengths)


def time_limit(task: Task, info: Info, facts: Facts) -> int:
    """Return how many steps an episode may take: the task's, else the environment's own, else the log's horizon."""
    return task.sizes.horizon if task.sizes else facts.horizon or info.horizon


def check_fits(task: Task, info: Info, facts: Facts) -> None:
    """Raise unless a policy learned from the log can act in the environment."""
    found, expected = (info.obs_dim, info.action_dim), (facts.obs_dim, len(facts.low))
    if found != expected:
        raise SimulatorError(
            f"The run does not belong to {task.name}: its log has {found[0]} observation and {found[1]} action "
            f"entries, the environment {expected[0]} and {expected[1]}."
        )
    slack = 1e-5 * np.maximum(1.0, np.abs(info.action_high))
    if (np.asarray(info.action_low) < facts.low - slack).any() or (info.action_high > facts.high + slack).any():
        raise SimulatorError(
            f"The log's action box, {_box(info.action_low, info.action_high)}, leaves that of {task.name}, "
            f"{_box(facts.low, facts.high)}: actions would not mean what they meant in the log. Give the log its own "
            "box (action_low and action_high, see docs/data.md) and train again."
        )


def _box(low: Any, high: Any) -> str:
    return f"[{', '.join(f'{x:g}' for x in low)}] to [{', '.join(f'{x:g}' for x in high)}]"


class _Board:
    """Which episode each environment plays and how far it is, all [L * side], and what has come of the episodes."""

    def __init__(self, lanes: int, side: int, episodes: int, horizon: int, costs: int) -> None:
        self.side, self.episodes, self.horizon = side, episodes, horizon
        self.lane = np.repeat(np.arange(lanes), side)
        self.episode = np.tile(np.arange(side), lanes)
        self.steps = np.full(lanes * side, -1)  # since the reset, which is yet to come
        self.playing = np.ones(lanes * side, bool)
        self.returns: Any = np.zeros((lanes, episodes))
        self.costs: Any = np.zeros((lanes, episodes, costs))
        self.lengths: Any = np.zeros((lanes, episodes), np.int64)

    def todo(self) -> npt.NDArray[np.uint8]:
        """Return what each environment shall do."""
        return np.where(self.playing, np.where(self.steps < 0, RESET, STEP), IDLE).astype(np.uint8)

    def note(self, answers: Answers, told: Told | None) -> bool:
        """Enter what came of a tick; return whether any episode is left to play."""
        moved = self.playing & (self.steps >= 0)
        at = (self.lane[moved], self.episode[moved])
        self.returns[at] += answers.reward[moved]
        self.costs[at] += answers.cost[moved]
        self.lengths[at] += 1
        self.steps += self.playing
        ended = moved & ((answers.state != GOES_ON) | (self.steps >= self.horizon))
        self.steps[ended] = -1
        self.playing &= ~(ended & (self.episode + self.side >= self.episodes))
        self.episode[ended & self.playing] += self.side
        if told is not None and ended.any():
            told(int(ended.sum()))
        return bool(self.playing.any())


class _Actor:
    """The policies of all lanes with what each remembers of the episode it is in."""

    def __init__(self, policy: Policy, parameters: Parameters, limits: Any, key: Array, side: int) -> None:
        self.policy, self.key, self.shape = policy, key, (len(limits), side)
        self.parameters, self.limits = jax.device_put((parameters, limits))
        self.memory = _remember(policy, key, self.parameters, self.limits, np.zeros(self.shape, np.int32))

    def act(self, board: _Board, answers: Answers) -> npt.NDArray[np.float32]:
        """Return actions [S, m] in the unit box, on what the last tick brought."""
        parts: Any = (part.astype(np.float32).reshape(*self.shape, *part.shape[1:]) for part in answers[:3])
        steps = Step(*parts)
        number, at = (x.astype(np.int32).reshape(self.shape) for x in (board.episode, board.steps))
        action, self.memory = _act(self.policy, self.key, self.parameters, self.limits, self.memory, steps, number, at)
        return np.asarray(action).reshape(len(board.lane), -1)


def _in_all(function: Callable[..., Any], shared: int) -> Callable[..., Any]:
    """`function` over lanes and environments; its first `shared` arguments are a lane's, the others have both axes."""

    def lane(*arguments: Any) -> Any:
        inner = jax.vmap(function, in_axes=(None,) * shared + (0,) * (len(arguments) - shared))
        return inner(*arguments)

    return jax.vmap(lane)


@partial(jax.jit, static_argnames="policy")
def _remember(policy: Policy, key: Array, parameters: Parameters, limits: Array, episode: Array) -> State:
    def one(parameters: Parameters, limit: Array, episode: Array) -> State:
        return policy.reset(_keys(key, episode)[0], parameters, limit)

    return _in_all(one, 2)(parameters, limits, episode)


@partial(jax.jit, static_argnames="policy")
def _act(
    policy: Policy,
    key: Array,
    parameters: Parameters,
    limits: Array,
    memory: State,
    steps: Step,
    episode: Array,
    at: Array,
) -> tuple[Array, State]:
    def one(parameters: Parameters, limit: Array, memory: State, step: Step, episode: Array, at: Array) -> Any:
        key_memory, key_act = _keys(key, episode)
        fresh = policy.reset(key_memory, parameters, limit)
        memory = jax.tree.map(lambda new, old: jnp.where(at == 0, new, old), fresh, memory)
        return policy.act(jax.random.fold_in(key_act, at), parameters, memory, step)

    return _in_all(one, 2)(parameters, limits, memory, steps, episode, at)


def _keys(key: Array, episode: Array) -> Array:
    return jax.random.split(jax.random.fold_in(key, episode))
