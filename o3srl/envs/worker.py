"""A simulator's process: makes Gymnasium environments, and resets and steps them as it is told over its pipes.

This is a program of its own, `python worker.py MARK`, which needs Python 3.10 or later, numpy, and the simulator, and
nothing of o3srl, so that a simulator may live in another interpreter than the one that asks, `pool.py`.

A message is a letter, the length of what follows (uint32), and that. A *slot* is an environment with its own random
numbers; S slots are made once (`J`, JSON in, JSON out) and then act together (`T`): in come, per slot, what to do
(uint8: 0 nothing, 1 step, 2 reset), a seed (uint32) and an action (float64 [m]); out go obs (float32 [n]), reward
(float64), cost (float64 [M]) and how the episode goes on (uint8: 0 does, 1 terminal, 2 truncated), one field after the
other for all slots. `F` with a slot (uint32) asks for its picture: height and width (uint32), then RGB (uint8). `E` is
an error instead, as JSON. MARK is the descriptor of a file of two numbers: how many operations were begun, and in which
slot the last; if this process dies or hangs they say where.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import importlib
import json
import mmap
import os
import random
import signal
import struct
import sys
import threading
import time
import traceback
from typing import Any

import numpy as np

HEADER, MARK, PICTURE = struct.Struct("<cI"), struct.Struct("<QI"), struct.Struct("<II")
IDLE, STEP, RESET = 0, 1, 2
GOES_ON, TERMINAL, TRUNCATED = 0, 1, 2
FARTHER = 1.2  # a still camera stands back so that who leaves the circle stays in sight

Answer = tuple[Any, float, Any, int]  # obs [n], reward, cost [M], how the episode goes on


class RefusalError(Exception):
    """An environment that cannot be used; the message says why."""


class Slot:
    """An environment and its own random numbers.

    Bullet-Safety-Gym draws from the generators of numpy and of Python that everything in a process shares. Each slot
    puts its own in their place while it acts, so that its luck does not depend on which others live beside it. (numpy
    draws normal numbers in pairs there, and forgets the second of a pair when generators change places.)
    """

    current: Slot | None = None  # whose Python generator is in place

    def __init__(self, setup: dict[str, Any], seed: int) -> None:
        self.numpy = np.random.MT19937()
        self.python = random.Random(seed).getstate()
        self.costs = int(setup["costs"])
        self.take_over()
        np.random.seed(seed)  # noqa: NPY002 (the simulator's own choice of generator)
        self.env = make(setup["environment"], setup["module"], setup["camera"])
        self.entries = len(box(self.env.action_space)[0])
        self.width = vector(self.env.observation_space)

    def take_over(self) -> None:
        """Put this slot's generators in the place of the shared ones."""
        np.random.set_bit_generator(self.numpy)  # pyright: ignore[reportAttributeAccessIssue] (numpy 1.24)
        if Slot.current is not self:
            if Slot.current is not None:
                Slot.current.python = random.getstate()
            random.setstate(self.python)
            Slot.current = self

    def reset(self, seed: int) -> Answer:
        """Begin the episode of a seed."""
        self.take_over()
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        answer = self.env.reset(seed=seed)
        if not (isinstance(answer, tuple) and len(answer) == 2):
            raise RefusalError("reset() must return (obs, info), as Gymnasium has it")
        return self.observed(answer[0]), 0.0, np.zeros(self.costs), GOES_ON

    def step(self, action: Any) -> Answer:
        """Go on by one step."""
        self.take_over()
        answer = self.env.step(action.astype(self.env.action_space.dtype))
        if len(answer) == 6:
            obs, reward, cost, terminal, truncated, _ = answer
        elif len(answer) == 5:
            obs, reward, terminal, truncated, info = answer
            if "cost" not in info:
                raise RefusalError('step() must tell the cost: in info["cost"], or third of six as in Safety-Gymnasium')
            cost = info["cost"]
        else:
            raise RefusalError(
                f"step() must return five entries, or six as in Safety-Gymnasium; it returned {len(answer)}"
            )
        cost = np.asarray(cost, np.float64).ravel()
        if len(cost) != self.costs:
            raise RefusalError(f"step() tells {len(cost)} cost(s), but the log has {self.costs}")
        return self.observed(obs), float(reward), cost, TERMINAL if terminal else TRUNCATED if truncated else GOES_ON

    def observed(self, obs: Any) -> Any:
        """Return an observation as float32 [n]."""
        obs = np.asarray(obs, np.float32).ravel()
        if len(obs) != self.width:
            raise RefusalError(f"an observation has {len(obs)} entries, but the observation space {self.width}")
        return obs


def make(environment: str, module: str, camera: bool) -> Any:
    """Return the environment that a task's name stands for; `module` registers it, or has what makes it."""
    # Bullet-Safety-Gym's environments can always be looked at, and do not take the word.
    options = {"render_mode": "rgb_array"} if camera and module != "bullet_safety_gym" else {}
    if camera and sys.platform == "linux" and "DISPLAY" not in os.environ:
        os.environ.setdefault("MUJOCO_GL", "egl")  # MuJoCo's way to draw without a window
    if module == "safety_gymnasium":
        import_safety_gymnasium()
    else:
        importlib.import_module(module)
    if module == "safety_gymnasium" and ":" not in environment:
        if camera and "Velocity" not in environment:
            options["camera_name"] = "fixedfar"  # by default one sees through the robot's own eyes
        return sys.modules[module].make(environment, disable_env_checker=True, **options)
    name, colon, function = environment.partition(":")
    if colon and "-v" not in function:
        maker = getattr(importlib.import_module(name), function, None)
        if not callable(maker):
            raise RefusalError(f"{name} has no function {function!r}")
        return maker()
    return importlib.import_module("gymnasium").make(environment, disable_env_checker=True, **options)


def import_safety_gymnasium() -> None:
    """Import safety_gymnasium 1.0.0, whose dataclasses have arrays as defaults, which Python 3.11 refuses.

    Such a default becomes a factory that copies it, which is what was meant.
    """
    genuine = dataclasses.dataclass

    def mended(cls: Any = None, /, **options: Any) -> Any:
        def wrap(cls: Any) -> Any:
            for name, default in list(vars(cls).items()):
                if isinstance(default, np.ndarray) and name in cls.__annotations__:
                    setattr(cls, name, dataclasses.field(default_factory=default.copy))
            return genuine(cls, **options)

        return wrap if cls is None else wrap(cls)

    dataclasses.dataclass = mended
    try:
        importlib.import_module("safety_gymnasium")
    finally:
        dataclasses.dataclass = genuine


def picture(env: Any, follow: bool) -> Any:
    """Return what the environment looks like, uint8 [height, width, 3]; `follow` keeps a running agent in sight."""
    bare = env.unwrapped if hasattr(env, "unwrapped") else env
    if hasattr(bare, "bc") and hasattr(bare, "world"):
        return bullet_picture(bare, follow)
    seen = env.render() if hasattr(env, "render") else None
    if not isinstance(seen, np.ndarray) or seen.ndim != 3 or seen.shape[2] < 3:
        raise RefusalError(
            'it has no camera: render() must return an array [height, width, 3], as with render_mode="rgb_array"'
        )
    return np.ascontiguousarray(seen[..., :3], np.uint8)


def bullet_picture(bare: Any, follow: bool) -> Any:
    """Return a picture of Bullet-Safety-Gym without the red sphere that hides an agent which violates a constraint.

    The sphere is meant to be transparent, which PyBullet's renderer without a window does not draw.
    """
    sphere, camera = bare.agent.violation_body_id, bare.world.camera
    before, where = (camera.cam_base_pos, camera.cam_dist), bare.bc.getBasePositionAndOrientation(sphere)
    if follow:
        camera.cam_base_pos = (*bare.agent.get_position()[:2], 0.0)
    else:
        camera.cam_dist *= FARTHER
    bare.bc.resetBasePositionAndOrientation(sphere, (0.0, 0.0, -100.0), (0.0, 0.0, 0.0, 1.0))
    try:
        return np.ascontiguousarray(bare.render(mode="rgb_array"), np.uint8)
    finally:
        camera.cam_base_pos, camera.cam_dist = before
        bare.bc.resetBasePositionAndOrientation(sphere, *where)


def box(space: Any) -> tuple[Any, Any]:
    """Return the bounds of a box of actions."""
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if low is None or high is None or np.ndim(low) != 1:
        raise RefusalError(f"the action space must be a box with one axis, but is {space}")
    return np.asarray(low, np.float64), np.asarray(high, np.float64)


def vector(space: Any) -> int:
    """Return how many entries an observation has."""
    if not getattr(space, "shape", None):
        raise RefusalError(f"the observation space must be a box, but is {space}; gymnasium.wrappers can flatten it")
    return int(np.prod(space.shape))


def facts(env: Any) -> dict[str, Any]:
    """Return the environment's sizes and time limit as JSON types."""
    low, high = box(env.action_space)
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return {"obs_dim": vector(env.observation_space), "low": low.tolist(), "high": high.tolist(), "horizon": limit}


class Worker:
    """The slots, the pipes, and the mark that says where it is."""

    def __init__(self, mark: str) -> None:
        self.inward = sys.stdin.buffer
        # A simulator may print: what it prints goes where errors go, and the pipe out is ours alone.
        self.outward = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)
        self.mark = mmap.mmap(int(mark), MARK.size)
        self.operations, self.slot = 0, 0
        self.slots: list[Slot] = []
        self.follow = False

    def begin(self, slot: int) -> None:
        """Leave word of what comes next."""
        self.operations, self.slot = self.operations + 1, slot
        MARK.pack_into(self.mark, 0, self.operations, slot)

    def send(self, kind: bytes, content: bytes) -> None:
        """Write a message."""
        self.outward.write(HEADER.pack(kind, len(content)) + content)
        self.outward.flush()

    def serve(self) -> None:
        """Answer messages until the pipe is closed, or an error has been told."""
        while True:
            header = self.inward.read(HEADER.size)
            if len(header) < HEADER.size:
                return  # nobody is there any more
            kind, length = HEADER.unpack(header)
            content = self.inward.read(length)
            answer = {b"J": self.set_up, b"T": self.act, b"F": self.look}[kind]
            try:
                self.send(kind, answer(content))
            except BaseException as error:
                said = str(error) if isinstance(error, RefusalError) else f"{type(error).__name__}: {error}"
                trace = "" if isinstance(error, RefusalError) else traceback.format_exc()
                self.send(b"E", json.dumps({"slot": self.slot, "said": said, "trace": trace}).encode())
                return

    def set_up(self, content: bytes) -> bytes:
        """Make the slots; return what their environment is like."""
        setup: dict[str, Any] = json.loads(content)
        self.follow = "Run" in setup["environment"]
        sys.path[:0] = setup["path"]
        for number, seed in enumerate(setup["seeds"]):
            self.begin(number)
            self.slots.append(Slot(setup, seed))
        return json.dumps(facts(self.slots[0].env)).encode()

    def look(self, content: bytes) -> bytes:
        """Take a picture of a slot."""
        number = int(np.frombuffer(content, np.uint32)[0])
        self.begin(number)
        seen = picture(self.slots[number].env, self.follow)
        return PICTURE.pack(*seen.shape[:2]) + seen.tobytes()

    def act(self, content: bytes) -> bytes:
        """Do what is to be done in each slot; return what came of it."""
        count, entries = len(self.slots), self.slots[0].entries
        todo = np.frombuffer(content, np.uint8, count)
        seeds = np.frombuffer(content, np.uint32, count, count)
        actions = np.frombuffer(content, np.float64, count * entries, 5 * count).reshape(count, entries)
        first = self.slots[0]
        obs, reward = np.zeros((count, first.width), np.float32), np.zeros(count)
        cost, state = np.zeros((count, first.costs)), np.zeros(count, np.uint8)
        for number, slot in enumerate(self.slots):
            if todo[number] != IDLE:
                self.begin(number)
                answer = slot.step(actions[number]) if todo[number] == STEP else slot.reset(int(seeds[number]))
                obs[number], reward[number], cost[number], state[number] = answer
        return b"".join(part.tobytes() for part in (obs, reward, cost, state))


def die_with_parent() -> None:
    """End this process when the one that started it ends, even while a simulator hangs."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    own = os.path.dirname(os.path.abspath(__file__))  # whose files have names that a simulator may mean otherwise
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    faulthandler.enable(all_threads=False)
    die_with_parent()
    Worker(sys.argv[1]).serve()
