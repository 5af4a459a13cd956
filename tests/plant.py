"""An environment as Gymnasium has it, without Gymnasium, and what can be wrong with one: what simulators' tests run.

It draws from the generators that a process shares, at reset and in every step, as a simulator should not but some do.
"""

import os
import random
import time

import numpy as np

OBS, ACTION = 3, 2


class Box:
    def __init__(self, low, high):
        self.low, self.high = np.asarray(low, np.float32), np.asarray(high, np.float32)
        self.shape, self.dtype = self.low.shape, self.low.dtype


class Plant:
    """Drifts toward what it is told. Costs 1 a step while the first entry is above 0.3; ends after 3 to 12 steps."""

    observation_space = Box([-9.0] * OBS, [9.0] * OBS)
    action_space = Box([0.0, -2.0], [4.0, 2.0])
    costs = 1

    def reset(self, *, seed=None, options=None):
        self.state = np.random.uniform(-0.5, 0.5, OBS)  # noqa: NPY002
        self.left = random.randint(3, 12)
        self.steps = 0
        return self.state.astype(np.float32), {}

    def step(self, action):
        assert (action >= self.action_space.low).all()
        assert (action <= self.action_space.high).all()
        pull = np.resize(action - np.array([2.0, 0.0]), OBS)
        luck = np.random.uniform(-0.1, 0.1, OBS) + random.uniform(0.0, 0.01)  # noqa: NPY002
        self.state = 0.8 * self.state + 0.2 * pull + luck
        self.left, self.steps = self.left - 1, self.steps + 1
        cost = np.array([float(self.state[0] > 0.3), abs(self.state[1])])[: self.costs]
        even = self.left % 2 == 0
        return self.told(
            self.state, float(self.state.sum()), cost, self.left <= 0 and even, self.left <= 0 and not even
        )

    def told(self, obs, reward, cost, terminal, truncated):
        return obs, reward, terminal, truncated, {"cost": cost if self.costs > 1 else cost[0]}


class Six(Plant):
    def told(self, obs, reward, cost, terminal, truncated):
        return obs, reward, cost[0], terminal, truncated, {}


class Two(Plant):
    costs = 2


class Silent(Plant):
    def told(self, obs, reward, cost, terminal, truncated):
        return obs, reward, terminal, truncated, {}


class Old(Plant):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


class Broken(Plant):
    """Goes wrong in the second step of an episode."""

    def __init__(self, how):
        self.how = how

    def step(self, action):
        if self.steps == 1:
            self.how()
        return super().step(action)


def hang():
    while True:
        pass


def complain():
    raise ValueError("the valve is stuck")


def leave():
    print("out of fuel", flush=True)
    os._exit(3)


class Foggy(Plant):
    def told(self, obs, reward, cost, terminal, truncated):
        return obs, float("nan"), terminal, truncated, {"cost": cost[0]}


class Chatty(Plant):
    """Prints to where a program's answers go."""

    def reset(self, *, seed=None, options=None):
        print("Loading ...")
        os.write(1, b"... from C\n")
        return super().reset(seed=seed)


class Slow(Plant):
    def reset(self, *, seed=None, options=None):
        time.sleep(0.3)
        return super().reset(seed=seed)


class Grid(Plant):
    action_space = range(4)


def hanging():
    return Broken(hang)


def crashing():
    return Broken(os.abort)


def leaving():
    return Broken(leave)


def complaining():
    return Broken(complain)


class Seen(Plant):
    """A plant with a camera, which sees one color."""

    color = (40, 120, 200)

    def render(self):
        return np.broadcast_to(np.array(self.color, np.uint8), (300, 480, 3))
