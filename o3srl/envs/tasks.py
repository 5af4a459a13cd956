"""Tasks by name: the built-in ones, those of DSRL in two simulators, and environments of one's own.

A task of one's own is named as Gymnasium does, `MyTask-v0` or `my_module:MyTask-v0`, or by a function that makes the
environment, `my_module:make`. Nothing is simulated here: this is what can be known without a simulator.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from o3srl.envs import look_up, toy
from o3srl.errors import ConfigError
from o3srl.types import Info


class Sizes(NamedTuple):
    """What a log of the task must fit: entries of an observation, an action and a cost, and the time limit T."""

    obs_dim: int
    action_dim: int
    costs: int
    horizon: int


class Constants(NamedTuple):
    """The extreme episode returns of a task's log."""

    min_return: float
    max_return: float


class Log(NamedTuple):
    """DSRL's log of a task: its file, and what the file's name says of it, its number of episodes and the largest cost
    of one, rounded up."""

    file: str
    episodes: int
    most_cost: int


class Task(NamedTuple):
    """A task. suite: a key of `SUITES`; environment: what its simulator calls it; sizes and constants, None where only
    the simulator, or the log, can tell; log, None where DSRL has none."""

    name: str
    suite: str
    environment: str
    sizes: Sizes | None
    constants: Constants | None
    log: Log | None = None


Row = tuple[int, int, int, float, float, int, int]


class Suite(NamedTuple):
    """Where tasks come from: title, and the Python module that a simulator's interpreter must have ("" for none)."""

    title: str
    module: str


BUILT_IN, BULLET, SAFETY_GYMNASIUM, OWN = "built in", "bullet", "safety-gymnasium", "own"
SUITES = {
    BUILT_IN: Suite("built in", ""),
    BULLET: Suite("Bullet-Safety-Gym", "bullet_safety_gym"),
    SAFETY_GYMNASIUM: Suite("Safety-Gymnasium", "safety_gymnasium"),
    OWN: Suite("your own", "gymnasium"),
}

# The built-in tasks' constants are of their logs with seed 0 and are printed by
# `python benchmarks/toy_tasks.py --seeds 0`.
_TOY = {
    "toy-run": Constants(-3.58544, 18.4852),
    "toy-circle": Constants(23.5188, 390.986),
    "toy-hover": Constants(1.44269, 92.1396),
}

# name: (observation, action, T, least and greatest return of an episode of DSRL's log, its largest cost, episodes).
# Returns, and the last two as part of the file's name, are the figures of dsrl/infos.py in
# https://github.com/liuzuxin/DSRL at 71064f2, where AntRun's least return repeats CarButton2's, which changes no score;
# sizes and time limits are the simulators' own.
_BULLET = {
    "BallRun": (7, 2, 100, 26.339754104614258, 1327.445556640625, 80, 940),
    "CarRun": (7, 2, 200, 204.28726196289062, 574.6533203125, 40, 651),
    "DroneRun": (17, 4, 200, 10.557029724121094, 682.8330078125, 140, 1990),
    "AntRun": (33, 8, 200, 0.001767391717990563, 955.4818725585938, 150, 1816),
    "BallCircle": (8, 2, 200, 0.38312244415283203, 881.46337890625, 80, 886),
    "CarCircle": (8, 2, 300, 3.484419822692871, 534.3060913085938, 100, 1450),
    "DroneCircle": (18, 4, 300, 207.794189453125, 996.38916015625, 100, 1923),
    "AntCircle": (34, 8, 500, 0.0177031010389328, 460.7091979980469, 200, 5728),
}
_VELOCITY = {
    "AntVelocity": (27, 8, 1000, 6.1519012451171875, 2976.276611328125, 250, 2249),
    "HalfCheetahVelocity": (17, 6, 1000, 5.7509765625, 2806.93310546875, 250, 2495),
    "HopperVelocity": (11, 3, 1000, 37.05154800415039, 1911.396728515625, 250, 2240),
    "SwimmerVelocity": (8, 2, 1000, 0.07114458084106445, 238.95831298828125, 200, 1686),
    "Walker2dVelocity": (17, 6, 1000, 18.668498992919922, 3418.223876953125, 300, 2729),
}
_NAVIGATION = {
    "PointCircle1": (28, 2, 500, 20.067626953125, 61.72819519042969, 200, 1098),
    "PointCircle2": (28, 2, 500, 20.478347778320312, 54.02184295654297, 300, 895),
    "PointGoal1": (60, 2, 1000, 0.01196012764197707, 30.071114857340543, 100, 2022),
    "PointGoal2": (60, 2, 1000, 0.002616959830266108, 27.717709787852737, 200, 3442),
    "PointButton1": (76, 2, 1000, 0.008822109034937853, 41.19301568767707, 200, 2268),
    "PointButton2": (76, 2, 1000, 0.014114166087574098, 42.8985953616709, 250, 3288),
    "PointPush1": (76, 2, 1000, 0.0014001545292344209, 16.518654299293367, 150, 2379),
    "PointPush2": (76, 2, 1000, 0.0012438183001730607, 14.691039145644403, 200, 3242),
    "CarCircle1": (40, 2, 500, 8.037073135375977, 24.94155502319336, 250, 1271),
    "CarCircle2": (40, 2, 500, 5.113386154174805, 25.950098037719727, 400, 940),
    "CarGoal1": (72, 2, 1000, 0.012232819540852091, 39.907809198384705, 120, 1671),
    "CarGoal2": (72, 2, 1000, 0.001032874531954775, 28.902897990056502, 200, 4105),
    "CarButton1": (88, 2, 1000, 0.0028926206826067613, 44.420003345738984, 250, 2656),
    "CarButton2": (88, 2, 1000, 0.001767391717990563, 41.99513815522894, 300, 3755),
    "CarPush1": (88, 2, 1000, 0.013700173533941762, 16.304467598905237, 200, 2871),
    "CarPush2": (88, 2, 1000, 0.00029391133526335267, 15.141648491514314, 250, 4407),
}


def _built_in(name: str, environment: toy.Environment) -> Task:
    sizes = Sizes(environment.obs_dim, environment.action_dim, environment.costs, environment.horizon)
    return Task(name, BUILT_IN, name, sizes, _TOY[name])


def _simulated(suite: str, table: dict[str, Row], version: int) -> list[Task]:
    tasks: list[Task] = []
    for name, (obs_dim, action_dim, horizon, low, high, cost, episodes) in table.items():
        logged = f"Safety{name}{'' if suite == BULLET else 'Gymnasium'}-v{version}-{cost}-{episodes}.hdf5"
        sizes, log = Sizes(obs_dim, action_dim, 1, horizon), Log(logged, episodes, cost)
        tasks.append(Task(name, suite, f"Safety{name}-v{version}", sizes, Constants(low, high), log))
    return tasks


TASKS = {
    task.name: task
    for task in (
        *(_built_in(name, environment) for name, environment in toy.TASKS.items()),
        *_simulated(BULLET, _BULLET, version=0),
        *_simulated(SAFETY_GYMNASIUM, _VELOCITY, version=1),
        *_simulated(SAFETY_GYMNASIUM, _NAVIGATION, version=0),
    )
}

_OWN = re.compile(r"[\w.]+:[\w./-]+|[\w./-]+-v\d+")  # module:function, module:Name-v0, or Name-v0


def find(name: str) -> Task:
    """Return a task by its short name or its simulator's, or the task of one's own that a name of that form means.

    >>> find("SafetyBallRun-v0").name
    'BallRun'
    >>> find("my_plant:make").suite
    'own'
    """
    known = next((task for task in TASKS.values() if task.environment == name), None)
    if known is not None:
        return known
    if name not in TASKS and _OWN.fullmatch(name):
        return Task(name, OWN, name, None, None)
    return look_up(TASKS, name)


def check_fits(info: Info, task: Task) -> None:
    """Raise unless a log can be the task's, as far as one can tell without its simulator."""
    if task.sizes is None:
        return
    found, expected = (info.obs_dim, info.action_dim, info.costs), task.sizes[:3]
    if found != expected:
        raise ConfigError(
            f"The log {info.source} does not belong to the task {task.name}: it has {found[0]} observations, "
            f"{found[1]} actions and {found[2]} cost(s), the task {expected[0]}, {expected[1]} and {expected[2]}. "
            "Name the right task, or leave --task out to train without a simulator."
        )


def module(task: Task) -> str:
    """Return the Python module that an interpreter must have in order to simulate the task.

    >>> module(find("AntVelocity")), module(find("my_plant:make")), module(find("CartPole-v1"))
    ('safety_gymnasium', 'my_plant', 'gymnasium')
    """
    named = task.environment.partition(":")[0].partition(".")[0]
    return named if task.suite == OWN and ":" in task.environment else SUITES[task.suite].module
