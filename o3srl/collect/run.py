"""From a task to a log: behavior policies at a ladder of cost limits, all episodes of their training, and a choice.

While a collection runs, `<out>.collecting/` holds what was asked (`asked.json`) and, per rung of the ladder, its
finished stints (`rung-0/000000.npz` ...) and the learner after the last of them (`learner.safetensors`). A stint is a
stretch of training with environments of its own, so that one that begins again after a crash meets the same worlds.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from o3srl import checkpoint
from o3srl.collect import episodes as stored
from o3srl.collect import ppo, thin
from o3srl.collect.episodes import Episodes
from o3srl.collect.play import Simulators, Stage, stage
from o3srl.data.write import write_hdf5
from o3srl.envs.pool import PATIENCE
from o3srl.envs.tasks import Task, find
from o3srl.errors import ConfigError
from o3srl.files import refuse_file, write_json
from o3srl.policy import in_box
from o3srl.train import raw_key

STINTS = 5  # per rung, about
EPISODES = 1000  # of a log whose task has no published one
LEARNER = "learner.safetensors"
STREAMS = {"worlds": 6, "episodes": 8}  # what tells two kinds of seeds apart
STEPS = {"toy-": 100_000, "Ball": 400_000, "Car": 600_000}  # per limit, by how a task's name begins


@dataclasses.dataclass(frozen=True)
class Asked:
    """What to collect. limits: the ladder, inf for none; steps: of the simulator, per limit; environments: how many
    play side by side; envelope: as `thin.parse` reads it, "task" for what is published, or "none"; costs per step and
    horizon: where the task does not tell."""

    task: str
    limits: tuple[float, ...]
    steps: int
    episodes: int | None = None
    environments: int = 16
    envelope: str = "task"
    seed: int = 0
    costs: int = 1
    horizon: int | None = None
    ppo: ppo.PPOConfig = ppo.DEFAULT


class Progress(NamedTuple):
    """Where a collection is: the rung's number and limit, steps done in it, and the last batch's metrics."""

    rung: int
    limit: float
    steps: int
    metrics: dict[str, Any]


class Collected(NamedTuple):
    """What came of it: cost (summed over costs) and return of all episodes, the chosen ones' numbers, the envelope."""

    cost: npt.NDArray[Any]
    returns: npt.NDArray[Any]
    chosen: npt.NDArray[Any]
    envelope: thin.Envelope | None


class _Rung(NamedTuple):
    """A rung of the ladder on its way: its folder, number and limit; stints, steps and batches that are done."""

    folder: Path
    number: int
    limit: float
    learner: ppo.Learner
    stints: int = 0
    steps: int = 0
    batches: int = 0


def collect(
    asked: Asked,
    out: Path,
    *,
    processes: int | None = None,
    patience: float = PATIENCE,
    overwrite: bool = False,
    keep: bool = False,
    report: Callable[[Progress], None] = lambda progress: None,
    stop: Callable[[], bool] = lambda: False,
) -> Collected | None:
    """Write the log that was asked for to `out`, going on where a stopped collection left; None when stopped.

    `keep` keeps the episodes of all training beside it. `report` hears of every batch; `stop` is asked after each.
    """
    task, envelope, count = check(asked, out, overwrite)
    simulators = Simulators(asked.costs, asked.horizon, processes, patience)
    with stage(task, np.zeros(1, np.uint32), simulators) as first:
        place = first  # its sizes and its box are used below, where it is closed
    work = working(out)
    _open(work, asked)
    for number, limit in enumerate(asked.limits):
        rung = _begin(asked, place, work / f"rung-{number}", number, limit)
        while rung.steps < asked.steps:
            worlds = _seeds(asked, number, rung.stints, "worlds")
            with stage(task, worlds, simulators) as place:
                played = _stint(asked, place, rung, report, stop)
            if played is None:
                return None
            rung = played
    cost, returns = _outcomes(work)
    chosen = thin.choose(asked.seed, cost, returns, count, envelope)
    if not len(chosen):
        raise ConfigError(
            f"None of {len(cost):,} episodes lies under the envelope {asked.envelope!r}. All of them are still in "
            f"{work}: give another --envelope, or none, and the same command chooses anew."
        )
    write_hdf5(out, {**stored.columns(_chosen(work, chosen)), **_box(place)})
    if not keep:
        shutil.rmtree(work)
    return Collected(cost, returns, chosen, envelope)


def steps_for(task: str) -> int:
    """Return how many steps per limit a task's behavior policies need, by default."""
    return next((steps for begin, steps in STEPS.items() if task.startswith(begin)), 900_000)


def exploration_for(task: str) -> float:
    """Return the standard deviation of the first actions, by default: drones that shake more only learn to fall."""
    return 0.3 if task.startswith("Drone") else 0.6


def limit_at(limits: Sequence[float], limit: float, done: float) -> float:
    """Return what a rung's limit is when so much of its training is done, from 0 to 1.

    In the second half it moves linearly to the next larger limit of the ladder, so that costs in between are met.

    >>> [limit_at((20.0, 40.0, math.inf), 20.0, done) for done in (0.0, 0.5, 0.75, 1.0)]
    [20.0, 20.0, 30.0, 40.0]
    """
    beyond = min((other for other in limits if limit < other < math.inf), default=limit)
    return limit + max(0.0, 2.0 * done - 1.0) * (beyond - limit) if beyond > limit else limit


def limit_of(text: str) -> float:
    """Return a limit of the ladder; `none` is infinite.

    >>> limit_of("none"), limit_of("5")
    (inf, 5.0)
    """
    try:
        return math.inf if text == "none" else float(text)
    except ValueError:
        raise ConfigError(f"--limits takes numbers, and `none` for no limit; {text!r} is neither.") from None


def check(asked: Asked, out: Path, overwrite: bool) -> tuple[Task, thin.Envelope | None, int]:
    """Return the task, envelope and number of episodes that were asked for; raise before anything is written."""
    task = find(asked.task)
    refuse_file("--out", out, (".hdf5", ".h5"), overwrite=overwrite)
    if not asked.limits or any(limit < 0 or math.isnan(limit) for limit in asked.limits):
        raise ConfigError("--limits takes costs per episode, not negative, and `none` for no limit: 5 10 20 none.")
    for name in ("steps", "environments", "costs", "episodes", "horizon"):
        if getattr(asked, name) is not None and getattr(asked, name) < 1:
            raise ConfigError(f"--{name} must be at least 1.")
    envelope = None
    if asked.envelope == "task":
        envelope = thin.PUBLISHED.get(task.name)
    elif asked.envelope != "none":
        envelope = thin.parse(asked.envelope)
    count = asked.episodes or (task.log.episodes if task.log else EPISODES)
    return task, envelope, count


def working(out: Path) -> Path:
    """Return the folder that holds an unfinished collection."""
    return out.with_name(f"{out.name}.collecting")


def _open(work: Path, asked: Asked) -> None:
    """Begin the folder, or make sure that it holds the same collection; how to choose may have changed."""
    told = {**dataclasses.asdict(asked), "limits": [_name(limit) for limit in asked.limits]}
    told = json.loads(json.dumps(told))  # tuples become lists
    training = {name: value for name, value in told.items() if name not in ("episodes", "envelope")}
    file = work / "asked.json"
    if not file.exists():
        work.mkdir(exist_ok=True)
        write_json(file, training)
        return
    before = json.loads(file.read_text())
    changed = [name for name in training if before.get(name) != training[name]]
    if changed:
        name = changed[0]
        raise ConfigError(
            f"{work} holds a collection that was begun with {name} = {before.get(name)}, not {training[name]}. "
            "Go on with the same settings, choose another --out, or delete that folder."
        )


def _begin(asked: Asked, place: Stage, folder: Path, number: int, limit: float) -> _Rung:
    """A rung as its last whole stint left it."""
    folder.mkdir(exist_ok=True)
    key = jax.random.fold_in(raw_key(asked.seed), 2 * number)
    learner = ppo.start(key, place.sizes.obs_dim, place.sizes.action_dim, place.sizes.costs, asked.ppo)
    file = folder / LEARNER
    if not file.exists():
        return _Rung(folder, number, limit, learner)
    learner, facts = checkpoint.restore(file, learner)
    return _Rung(folder, number, limit, jax.device_put(learner), **facts)


def _stint(
    asked: Asked, place: Stage, rung: _Rung, report: Callable[[Progress], None], stop: Callable[[], bool]
) -> _Rung | None:
    """Return the rung after one more stint, which is on disk then; None when stopped."""
    key = jax.random.fold_in(raw_key(asked.seed), 2 * rung.number + 1)
    until = min(asked.steps, rung.steps + math.ceil(asked.steps / STINTS))
    file = rung.folder / f"{rung.stints:06d}.npz"
    parts: list[Episodes] = []
    while rung.steps < until:
        key_play, key_learn = jax.random.split(jax.random.fold_in(key, rung.batches))
        seeds = _seeds(asked, rung.number, rung.batches, "episodes")
        seen = place.play(key_play, seeds, ppo.behavior(rung.learner))
        done = rung.steps / asked.steps
        limit = jnp.full(place.sizes.costs, limit_at(asked.limits, rung.limit, done), jnp.float32)
        learner, metrics = ppo.learn(key_learn, rung.learner, seen, limit, jnp.float32(1.0 - done), asked.ppo)
        parts.append(stored.of(seen, in_box(seen.action, place.low, place.high)))
        steps = rung.steps + int(parts[-1].length.sum())
        rung = rung._replace(learner=learner, steps=steps, batches=rung.batches + 1)
        told = {name: np.asarray(value) for name, value in metrics.items()}
        report(Progress(rung.number, rung.limit, steps, told))
        if stop():
            return None
    rung = rung._replace(stints=rung.stints + 1)
    stored.save(file, stored.join(parts))
    facts = {"stints": rung.stints, "steps": rung.steps, "batches": rung.batches}
    checkpoint.save(rung.folder / LEARNER, rung.learner, facts)  # last: it is what says that the stint is whole
    return rung


def _seeds(asked: Asked, number: int, turn: int, what: str) -> npt.NDArray[np.uint32]:
    """What the environments are made or reset with, [S], below 2^31."""
    entropy = [asked.seed, number, turn, STREAMS[what]]
    return np.random.SeedSequence(entropy).generate_state(asked.environments) >> np.uint32(1)


def _stints(work: Path) -> Iterator[Episodes]:
    """The episodes of all stints, in order."""
    for file in sorted(work.glob("rung-*/*.npz"), key=lambda file: (int(file.parent.name[5:]), file.name)):
        yield stored.restore(file)


def _outcomes(work: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Cost, summed over costs, and return of every episode, [E]."""
    pairs = [(part.costs.sum(axis=1), part.returns) for part in _stints(work)]
    cost, returns = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return cost, returns


def _chosen(work: Path, chosen: npt.NDArray[Any]) -> Episodes:
    parts: list[Episodes] = []
    begin = 0
    for part in _stints(work):
        end = begin + len(part.length)
        parts.append(stored.take(part, chosen[(begin <= chosen) & (chosen < end)] - begin))
        begin = end
    return stored.join(parts)


def _box(place: Stage) -> dict[str, npt.NDArray[Any]]:
    """The log's own action box, where it is not the unit box."""
    if np.allclose(place.low, -1.0) and np.allclose(place.high, 1.0):
        return {}
    return {"action_low": place.low.astype(np.float32), "action_high": place.high.astype(np.float32)}


def _name(limit: float) -> float | str:
    return limit if math.isfinite(limit) else "none"
