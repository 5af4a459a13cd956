"""Simulators in processes of their own, and what to do when one crashes or hangs: our end of `worker.py`'s pipes.

A pool has S slots, each an environment of the same task with its own random numbers, dealt to the processes in turn.
What a slot yields depends on what it alone was told, not on how many processes there are.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from o3srl.envs.interpreters import interpreter
from o3srl.envs.tasks import Task, module
from o3srl.envs.worker import HEADER, IDLE, MARK, PICTURE, RESET, STEP
from o3srl.errors import SimulatorError

__all__ = ["IDLE", "RESET", "STEP", "Answers", "Facts", "Pool"]

Floats = npt.NDArray[np.float64]
PATIENCE = 60.0  # seconds for one reset or step; to start and make an environment, never less
LOOKS = 8  # how often, while patience lasts, one looks whether a process has moved


class Facts(NamedTuple):
    """What an environment says of itself: obs_dim; the box low [m] and high [m] of its actions; horizon, if it has
    a time limit."""

    obs_dim: int
    low: Floats
    high: Floats
    horizon: int | None


class Answers(NamedTuple):
    """What came of a tick, per slot: obs [S, n], reward [S], cost [S, M], and state [S], which is `worker.GOES_ON`,
    `TERMINAL` or `TRUNCATED`. A slot with nothing to do yields zeros."""

    obs: npt.NDArray[np.float32]
    reward: Floats
    cost: Floats
    state: npt.NDArray[np.uint8]


class _Process:
    """One worker: its pipes, what it has written so far, and where it says it is."""

    def __init__(self, python: str, slots: npt.NDArray[np.int64]) -> None:
        self.slots, self.received, self.operations = slots, b"", 0
        self.moved = self.looked = time.monotonic()
        # Files without a name, so that nothing is left of them, whoever is killed.
        self.mark, self.log = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115
        self.mark.write(bytes(MARK.size))
        self.mark.flush()
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.popen = subprocess.Popen(
            [python, str(Path(__file__).with_name("worker.py")), str(self.mark.fileno())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, pass_fds=[self.mark.fileno()],
            env={**os.environ, **single},
        )  # fmt: skip

    def where(self) -> tuple[int, int]:
        """Return (operations begun, the slot of the last)."""
        operations, slot = MARK.unpack(os.pread(self.mark.fileno(), MARK.size, 0))
        return operations, int(self.slots[slot])

    def send(self, kind: bytes, content: bytes) -> None:
        """Write a message; a process that is gone is found out when it does not answer."""
        assert self.popen.stdin is not None
        self.moved = self.looked = time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.write(HEADER.pack(kind, len(content)) + content)
            self.popen.stdin.flush()

    def message(self) -> tuple[bytes, bytes] | None:
        """Take a whole message out of what has been received, if there is one."""
        if len(self.received) < HEADER.size:
            return None
        kind, length = HEADER.unpack_from(self.received)
        end = HEADER.size + length
        if len(self.received) < end:
            return None
        content, self.received = self.received[HEADER.size : end], self.received[end:]
        return kind, content

    def words(self) -> str:
        """Return what the process wrote where errors go."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace").strip()

    def end(self, seconds: float) -> None:
        """Wait for the process, whose pipe is closed, to go; kill it if it does not."""
        try:
            self.popen.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        for stream in (self.popen.stdout, self.mark, self.log):
            if stream is not None:
                stream.close()


class Pool:
    """Environments of a task that act together; a context manager, after which no process is left."""

    def __init__(
        self,
        task: Task,
        costs: int,
        seeds: Sequence[int],
        processes: int | None = None,
        patience: float = PATIENCE,
        camera: bool = False,
    ) -> None:
        """Make one slot per seed, with environments that tell `costs` costs.

        `processes` are by default one per core; `patience` is how many seconds one operation may take; `camera` is
        whether pictures will be asked for.
        """
        self.task, self.costs, self.patience, self._camera = task, costs, patience, camera
        self.seeds = np.asarray(seeds, np.uint32)
        count = min(len(seeds), processes or cores())
        python = interpreter(task)
        self._selector = selectors.DefaultSelector()
        self._processes: list[_Process] = []
        try:
            for number in range(count):
                own = np.arange(number, len(seeds), count)
                self._processes.append(_Process(python, own))
                self._selector.register(self._stream(number), selectors.EVENT_READ, self._processes[-1])
            self.facts = self._set_up()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Pool:
        """Return the pool."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End all processes."""
        self.close()

    def _stream(self, number: int) -> Any:
        return self._processes[number].popen.stdout

    def _set_up(self) -> Facts:
        setup = {
            "environment": self.task.environment,
            "module": module(self.task),
            "costs": self.costs,
            "camera": self._camera,
            "path": [os.getcwd()],
        }
        for process in self._processes:
            seeds = self.seeds[process.slots].tolist()
            process.send(b"J", json.dumps({**setup, "seeds": seeds}).encode())
        told: dict[str, Any] = json.loads(self._gather(b"J", max(self.patience, PATIENCE))[0])
        return Facts(told["obs_dim"], np.asarray(told["low"]), np.asarray(told["high"]), told["horizon"])

    def tick(self, todo: npt.NDArray[np.uint8], seeds: npt.NDArray[np.uint32], actions: Floats) -> Answers:
        """Do IDLE, STEP or RESET in each slot, todo [S], with seeds [S] and actions [S, m] in the environment's box."""
        self.seeds = np.where(todo == RESET, seeds, self.seeds).astype(np.uint32)
        for process in self._processes:
            own = process.slots
            parts = (todo[own].astype(np.uint8), seeds[own].astype(np.uint32), actions[own].astype(np.float64))
            process.send(b"T", b"".join(np.ascontiguousarray(part).tobytes() for part in parts))
        count = len(self.seeds)
        answers = Answers(
            np.zeros((count, self.facts.obs_dim), np.float32), np.zeros(count), np.zeros((count, self.costs)),
            np.zeros(count, np.uint8),
        )  # fmt: skip
        for process, content in zip(self._processes, self._gather(b"T", self.patience), strict=True):
            start = 0
            for whole in answers:
                part = whole[process.slots]
                whole[process.slots] = np.frombuffer(content, part.dtype, part.size, start).reshape(part.shape)
                start += part.nbytes
        self._check_finite(answers)
        return answers

    def picture(self, slot: int) -> npt.NDArray[np.uint8]:
        """Return what a slot's environment looks like now, [height, width, 3]."""
        number = slot % len(self._processes)
        process = self._processes[number]
        process.send(b"F", np.uint32(slot // len(self._processes)).tobytes())
        content = self._gather(b"F", self.patience, [number])[0]
        height, width = PICTURE.unpack_from(content)
        return np.frombuffer(content, np.uint8, offset=PICTURE.size).reshape(height, width, 3)

    def _check_finite(self, answers: Answers) -> None:
        finite = np.isfinite(answers.reward) & np.isfinite(answers.cost).all(1) & np.isfinite(answers.obs).all(1)
        if not finite.all():
            self._fail(int(np.argmin(finite)), "yields numbers that are not finite")

    def _gather(self, kind: bytes, patience: float, asked: Sequence[int] | None = None) -> list[bytes]:
        """Return the next message, of this kind, of the processes that were asked (None: all of them).

        Fail for one that died, complains or hangs.
        """
        asked = range(len(self._processes)) if asked is None else asked
        answers: dict[int, bytes] = {}
        while len(answers) < len(asked):
            for key, _ in self._selector.select(timeout=0.25):
                process: _Process = key.data
                fresh = os.read(process.popen.stdout.fileno(), 1 << 20) if process.popen.stdout else b""
                if not fresh:
                    self._died(process)
                process.received += fresh
            for number in asked:
                if number in answers:
                    continue
                process = self._processes[number]
                found = process.message()
                if found is None:
                    self._check_moving(process, patience)
                elif found[0] == kind:
                    answers[number] = found[1]
                else:
                    complaint = json.loads(found[1])
                    self._fail(
                        int(process.slots[complaint["slot"]]), f"failed ({complaint['said']})", complaint["trace"]
                    )
        return [answers[number] for number in asked]

    def _check_moving(self, process: _Process, patience: float) -> None:
        # Reading the mark is a system call, so it is not done in every round of a quick simulator.
        now = time.monotonic()
        if now - process.looked < patience / LOOKS:
            return
        process.looked = now
        operations, slot = process.where()
        if operations != process.operations:
            process.operations, process.moved = operations, now
        elif now - process.moved >= patience:
            process.popen.send_signal(signal.SIGABRT)  # it writes where it hangs, and dies
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(timeout=2.0)
            self._fail(slot, f"has not answered for {patience:g} s (--patience)", process.words())

    def _died(self, process: _Process) -> None:
        code = process.popen.wait()
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        self._fail(process.where()[1], f"died {how}", process.words())

    def _fail(self, slot: int, what: str, words: str = "") -> None:
        gist = f" It wrote: {_gist(words)}." if words else ""
        error = SimulatorError(
            f"The simulator of {self.task.name} {what}, in the episode of seed {self.seeds[slot]}.{gist}"
        )
        if words:
            error.add_note(words)  # all of it, for --debug
        raise error

    def close(self) -> None:
        """End all processes, at once where they do not go by themselves."""
        for process in self._processes:
            with contextlib.suppress(BrokenPipeError):
                if process.popen.stdin:
                    process.popen.stdin.close()
        deadline = time.monotonic() + 1.0
        for process in self._processes:
            process.end(max(0.0, deadline - time.monotonic()))
        self._selector.close()


def cores() -> int:
    """Return how many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _gist(words: str) -> str:
    """The line of what a process wrote that says most: where it was when it was ended, or the last."""
    lines = words.splitlines()
    fatal = next((index for index, line in enumerate(lines) if line.startswith("Fatal Python error")), None)
    inmost = [] if fatal is None else [line for line in lines[fatal:] if line.startswith("  File")]
    return (inmost or lines[-1:])[0].strip().rstrip(".")
