"""The simulators themselves, where they are installed (`make simulators`, or `pip install o3srl[bullet]`)."""

import json
import subprocess

import jax
import numpy as np
import pytest

from o3srl.envs import interpreters
from o3srl.envs.gym import Settings, episode_seeds, simulate
from o3srl.envs.pool import RESET, STEP, Pool
from o3srl.envs.tasks import BULLET, SAFETY_GYMNASIUM, SUITES, TASKS
from o3srl.policy import markov
from o3srl.types import Info

PAPER = (
    "PointCircle1", "PointCircle2", "AntVelocity", "HalfCheetahVelocity", "HopperVelocity", "SwimmerVelocity",
    "Walker2dVelocity",
)  # fmt: skip
STEPS = 30


def names(suite, of=None):
    """The tasks of a suite as parameters, skipped where its simulator is missing."""
    absent = interpreters.find(SUITES[suite].module) is None
    skip = pytest.mark.skipif(absent, reason=f"{SUITES[suite].title} is not installed")
    listed = [name for name, task in TASKS.items() if task.suite == suite and (of is None or name in of)]
    return [pytest.param(name, marks=[skip, pytest.mark.simulator]) for name in listed]


def facts(task):
    obs_dim, action_dim, costs, horizon = task.sizes
    return Info(obs_dim, action_dim, costs, horizon, (-1.0,) * action_dim, (1.0,) * action_dim, task.name, "none", "")


POLICY = markov(lambda parameters, obs: parameters @ obs)


def check(name):
    """A task has the sizes that are listed; its episodes are the same twice, whoever plays them; costs are counted."""
    task = TASKS[name]
    with Pool(task, 1, [3]) as pool:
        assert (pool.facts.obs_dim, len(pool.facts.low), pool.facts.horizon) == (
            task.sizes.obs_dim, task.sizes.action_dim, task.sizes.horizon,
        )  # fmt: skip
        np.testing.assert_array_equal(
            [pool.facts.low, pool.facts.high], [[-1.0] * len(pool.facts.low), [1.0] * len(pool.facts.low)]
        )
    short = task._replace(sizes=task.sizes._replace(horizon=STEPS))
    weights = jax.random.normal(jax.random.key(1), (2, task.sizes.action_dim, task.sizes.obs_dim))
    limits = np.full((2, 1), 5.0)
    builds = task.suite == SAFETY_GYMNASIUM and not name.endswith(
        "Velocity"
    )  # a new world at each reset, over a second
    episodes = 1 if builds else 2
    once, again = (
        simulate(POLICY, weights, limits, short, facts(task), episodes, Settings(environments=1, processes=processes))
        for processes in (2, 1)
    )
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(np.unique(once.returns)) == 2 * episodes  # every episode of every lane is another
    assert (once.lengths <= STEPS).all()
    assert (once.lengths > 0).all()
    assert ((once.costs >= 0) & (once.costs <= STEPS)).all()


@pytest.mark.parametrize("name", names(BULLET))
def test_bullet(name):
    check(name)


@pytest.mark.parametrize("name", names(SAFETY_GYMNASIUM, PAPER))
def test_the_papers_tasks_of_safety_gymnasium(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in names(SAFETY_GYMNASIUM) if one.values[0] not in PAPER])
def test_the_other_tasks_of_safety_gymnasium(name):
    check(name)


PLAIN = """
import json, sys
import numpy as np
name, seed, steps, worker = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
sys.path.insert(0, worker)
import worker
sys.path.pop(0)
if "Point" in name or "Velocity" in name:
    worker.import_safety_gymnasium()
    import safety_gymnasium
    env = safety_gymnasium.make(name)
else:
    import gymnasium, bullet_safety_gym
    env = gymnasium.make(name)
rows = []
for seed in (seed, seed + 1):
    np.random.seed(seed)
    obs, _ = env.reset(seed=seed)
    rows.append([*obs.tolist(), 0.0, 0.0])
    for step in range(steps):
        told = env.step(np.full(env.action_space.shape, np.sin(step), env.action_space.dtype))
        cost = told[2] if len(told) == 6 else told[4]["cost"]
        rows.append([*told[0].tolist(), float(told[1]), float(cost)])
print("RESULT" + json.dumps(rows))
"""


@pytest.mark.parametrize("name", [*names(BULLET, ("BallCircle", "DroneRun")), *names(SAFETY_GYMNASIUM, PAPER[1:4])])
def test_what_arrives_is_what_the_simulator_says(name):
    """Two episodes, one after the other in one environment: in Bullet the second feels the first."""
    task, seed = TASKS[name], int(episode_seeds(5, 1)[0])
    words = [task.environment, str(seed), str(STEPS), str(interpreters.HERE)]
    plain = subprocess.run(
        [interpreters.interpreter(task), "-W", "ignore", "-c", PLAIN, *words],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = json.loads(plain.stdout.rpartition("RESULT")[2])
    with Pool(task, 1, [seed, 1], processes=1) as pool:  # beside another one
        for at, row in enumerate(rows):
            episode, step = divmod(at, STEPS + 1)
            seeds = np.array([seed + episode, 1], np.uint32)
            todo = np.full(2, STEP if step else RESET, np.uint8)
            answers = pool.tick(todo, seeds, np.full((2, task.sizes.action_dim), np.sin(step - 1)))
            np.testing.assert_array_equal(answers.obs[0], np.asarray(row[:-2], np.float32))
            assert [answers.reward[0], answers.cost[0, 0]] == row[-2:]
