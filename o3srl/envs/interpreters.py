"""Which Python runs a simulator, and what to do where none can.

Simulators are bound to old versions of Python and of other packages, so that they may live in an environment of their
own. Their processes run under the interpreter that `O3SRL_SIMULATOR_PYTHON` names; without it, under this one if it has
the simulator, else under that of a folder `.simulators` here, beside the environment of this one, or beside o3srl.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from o3srl.envs.tasks import BULLET, OWN, Task, module
from o3srl.errors import SimulatorError

VARIABLE, FOLDER = "O3SRL_SIMULATOR_PYTHON", ".simulators"
HERE = Path(__file__).resolve().parent
_ASK = (
    "import importlib.util, sys; sys.path[:0] = [sys.argv[1]]; sys.exit(importlib.util.find_spec(sys.argv[2]) is None)"
)


def interpreter(task: Task) -> str:
    """Return the Python that can simulate a task; none is an error that says how to get one."""
    found = find(module(task))
    if found is None:
        raise SimulatorError(missing(task))
    return found


def find(name: str) -> str | None:
    """Return the first interpreter that has a module, or None."""
    own = os.environ.get(VARIABLE)
    if own:
        if not Path(own).is_file():
            raise SimulatorError(f"{VARIABLE} names {own}, but there is no such file. Name a Python, or unset it.")
        return own if _has(own, name) else None
    if _imports(name):
        return sys.executable
    return next((python for python in _beside() if _has(python, name)), None)


def _imports(name: str) -> bool:
    # A simulator's process also finds what lies where the user is.
    return (importlib.util.find_spec(name) or PathFinder.find_spec(name, [os.getcwd()])) is not None


def _beside() -> Iterator[str]:
    for folder in dict.fromkeys((Path.cwd(), Path(sys.prefix).parent, HERE.parent.parent)):
        for python in (folder / FOLDER / "bin" / "python", folder / FOLDER / "Scripts" / "python.exe"):
            if python.is_file():
                yield str(python)


@cache
def _has(python: str, name: str) -> bool:
    try:
        return subprocess.run([python, "-c", _ASK, os.getcwd(), name], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def command() -> str:
    """Return the shell command that sets up `.simulators` with both simulators; `make simulators` runs the same."""
    install = f"uv pip install --python {FOLDER} --override {HERE / 'overrides.txt'} -r {HERE / 'simulators.txt'}"
    return f"uv venv --python 3.11 {FOLDER} && {install}"


def remedy(suite: str) -> str:
    """Return what brings a suite's simulator."""
    simple = "pip install 'o3srl[bullet]'; or, " if suite == BULLET and sys.version_info < (3, 12) else ""
    both = "for both simulators, whatever Python o3srl runs on, `make simulators` in o3srl's repository, or with uv"
    return f"{simple}{both} (pip install uv): {command()}"


def missing(task: Task) -> str:
    """Return what to tell someone who wants a task simulated and has no interpreter for it."""
    name = module(task)
    if own := os.environ.get(VARIABLE):
        where = f"{own}, which {VARIABLE} names, has no module {name!r}"
    else:
        where = f"neither this Python ({sys.executable}) has the module {name!r} nor one in a folder {FOLDER}"
    if task.suite == OWN:
        cure = f"Install it, go to where {name}.py lies, or let {VARIABLE} name the Python that has it."
    else:
        cure = f"To install it: {remedy(task.suite)}"
    return f"{task.name} cannot be simulated: {where}. {cure}"
