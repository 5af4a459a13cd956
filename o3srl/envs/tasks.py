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


class Task(NamedTuple):
    """A task. suite: a key of `SUITES`; environment: what its simulator calls it; sizes and constants, None where only
    the simulator, or the log, can tell."""

    name: str
    suite: str
    environment: str
    sizes: Sizes | None
    constants: Constants | None


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

# name: (observation, action, T, least and greatest return of an episode of DSRL's log). Returns are the figures of
# dsrl/infos.py in https://github.com/liuzuxin/DSRL at 71064f2, where AntRun's least return repeats CarButton2's, which
# changes no score; sizes and time limits are the simulators' own.
_BULLET = {
    "BallRun": (7, 2, 100, 26.339754104614258, 1327.445556640625),
    "CarRun": (7, 2, 200, 204.28726196289062, 574.6533203125),
    "DroneRun": (17, 4, 200, 10.557029724121094, 682.8330078125),
    "AntRun": (33, 8, 200, 0.001767391717990563, 955.4818725585938),
    "BallCircle": (8, 2, 200, 0.38312244415283203, 881.46337890625),
    "CarCircle": (8, 2, 300, 3.484419822692871, 534.3060913085938),
    "DroneCircle": (18, 4, 300, 207.794189453125, 996.38916015625),
    "AntCircle": (34, 8, 500, 0.0177031010389328, 460.7091979980469),
}
_VELOCITY = {
    "AntVelocity": (27, 8, 1000, 6.1519012451171875, 2976.276611328125),
    "HalfCheetahVelocity": (17, 6, 1000, 5.7509765625, 2806.93310546875),
    "HopperVelocity": (11, 3, 1000, 37.05154800415039, 1911.396728515625),
    "SwimmerVelocity": (8, 2, 1000, 0.07114458084106445, 238.95831298828125),
    "Walker2dVelocity": (17, 6, 1000, 18.668498992919922, 3418.223876953125),
}
_NAVIGATION = {
    "PointCircle1": (28, 2, 500, 20.067626953125, 61.72819519042969),
    "PointCircle2": (28, 2, 500, 20.478347778320312, 54.02184295654297),
    "PointGoal1": (60, 2, 1000, 0.01196012764197707, 30.071114857340543),
    "PointGoal2": (60, 2, 1000, 0.002616959830266108, 27.717709787852737),
    "PointButton1": (76, 2, 1000, 0.008822109034937853, 41.19301568767707),
    "PointButton2": (76, 2, 1000, 0.014114166087574098, 42.8985953616709),
    "PointPush1": (76, 2, 1000, 0.0014001545292344209, 16.518654299293367),
    "PointPush2": (76, 2, 1000, 0.0012438183001730607, 14.691039145644403),
    "CarCircle1": (40, 2, 500, 8.037073135375977, 24.94155502319336),
    "CarCircle2": (40, 2, 500, 5.113386154174805, 25.950098037719727),
    "CarGoal1": (72, 2, 1000, 0.012232819540852091, 39.907809198384705),
    "CarGoal2": (72, 2, 1000, 0.001032874531954775, 28.902897990056502),
    "CarButton1": (88, 2, 1000, 0.0028926206826067613, 44.420003345738984),
    "CarButton2": (88, 2, 1000, 0.001767391717990563, 41.99513815522894),
    "CarPush1": (88, 2, 1000, 0.013700173533941762, 16.304467598905237),
    "CarPush2": (88, 2, 1000, 0.00029391133526335267, 15.141648491514314),
}


def _built_in(name: str, environment: toy.Environment) -> Task:
    sizes = Sizes(environment.obs_dim, environment.action_dim, environment.costs, environment.horizon)
    return Task(name, BUILT_IN, name, sizes, _TOY[name])


def _simulated(suite: str, table: dict[str, tuple[int, int, int, float, float]], version: int) -> list[Task]:
    return [
        Task(name, suite, f"Safety{name}-v{version}", Sizes(obs_dim, action_dim, 1, horizon), Constants(low, high))
        for name, (obs_dim, action_dim, horizon, low, high) in table.items()
    ]


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
