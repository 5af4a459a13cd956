"""The command line: `o3srl train`, `resume`, `evaluate`, `report`, `data`, `tasks`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from o3srl.errors import ConfigError, O3SRLError

if TYPE_CHECKING:
    from rich.console import Console

OVERVIEW = """\
o3srl: the policy that earns the most from a log while its cost stays within a budget

  o3srl train [ALGORITHM] --task toy-circle --limit 5 --out runs/x   train on a built-in task's log
  o3srl train [ALGORITHM] --data FILE --limit 5 --out runs/x         train on your own log (.hdf5, .npz)
  o3srl resume runs/x [--updates N]      go on from the last checkpoint, or train on to N updates
  o3srl evaluate runs/x [--episodes 20]  simulate the policies, print the table, write result.json
  o3srl report runs/x                    write runs/x/report.html
  o3srl data info FILE                   what a log holds
  o3srl data check FILE                  whether a log can be trained on, and what is odd about it
  o3srl tasks                            the built-in tasks

Each command explains itself: o3srl train --help. With --debug, an error shows its traceback.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for an error that a user can mend, 130 when stopped."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(OVERVIEW, end="")
        return 0
    if words[0] == "--version":
        from importlib.metadata import version

        print(version("o3srl"))
        return 0
    try:
        return _command(words[0])(words[1:])
    except O3SRLError as error:
        if debug:
            raise
        _errors().print(f"[bold red]Error:[/] {_escape(str(error))}", soft_wrap=True, highlight=False)
        return 2
    except KeyboardInterrupt:
        if debug:
            raise
        _errors().print("Stopped at once; the last checkpoint stands.")
        return 130


def _command(name: str) -> Callable[[list[str]], int]:
    commands: Mapping[str, Callable[[list[str]], int]] = {
        "train": _train, "resume": _resume, "evaluate": _evaluate, "report": _report, "data": _data, "tasks": _tasks,
    }  # fmt: skip
    if name not in commands:
        from o3srl.experiment.arguments import nearest

        raise ConfigError(f"There is no command {name!r}{nearest(name, list(commands))}. Known: {', '.join(commands)}.")
    return commands[name]


def _train(words: list[str]) -> int:
    from o3srl.experiment.arguments import parse_train

    plan = parse_train(words)
    _start_jax()
    from o3srl.experiment.run import start

    return _attend(Path(plan.run.out), lambda report, stop: start(plan, report, stop))


def _resume(words: list[str]) -> int:
    import tyro

    def resume_arguments(directory: tyro.conf.Positional[Path], /, updates: int | None = None) -> tuple[Path, int | None]:
        """Go on from the last checkpoint of a run.

        Args:
            directory: the run directory
            updates: train on to this many gradient updates, more than before
        """
        return directory, updates

    directory, updates = tyro.cli(resume_arguments, args=words, prog="o3srl resume")
    _start_jax()
    from o3srl.experiment.run import resume

    return _attend(directory, lambda report, stop: resume(directory, updates, report, stop))


def _attend(directory: Path, work: Callable[..., bool]) -> int:
    from o3srl.experiment.progress import reporting, stoppable

    console = _output()
    with _warnings_told(), stoppable(console) as stop, reporting(console) as report:
        finished = work(report, stop)
    from o3srl.experiment.run import frozen_lanes

    for told in frozen_lanes(directory):
        _errors().print(f"[yellow]Warning:[/] {_escape(told)}", soft_wrap=True, highlight=False)
    if not finished:
        console.print(f"Stopped. Go on with: o3srl resume {directory}", highlight=False, soft_wrap=True)
        return 130
    console.print(f"Trained: {directory}", highlight=False, soft_wrap=True)
    return 0


def _evaluate(words: list[str]) -> int:
    import tyro

    def evaluate_arguments(
        directory: tyro.conf.Positional[Path],
        /,
        episodes: int = 20,
        limit: str | None = None,
        iterate: str = "last",
        seed: int = 0,
    ) -> tuple[Path, int, str | None, str, int]:
        """Simulate the policies of a run in its task; print the table and write result.json.

        Args:
            directory: the run directory
            episodes: episodes per lane (DSRL: 20)
            limit: score by this limit per episode instead of each lane's own; a comma joins several costs
            iterate: last (the paper), or the exponential or uniform average of the actor's parameters
            seed: of the simulated episodes
        """
        return directory, episodes, limit, iterate, seed

    directory, episodes, limit, iterate, seed = tyro.cli(evaluate_arguments, args=words, prog="o3srl evaluate")
    _start_jax()
    from o3srl.experiment.arguments import limit_of
    from o3srl.experiment.evaluation import Evaluation, evaluate
    from o3srl.experiment.table import result_table

    asked = Evaluation(episodes, None if limit is None else limit_of(limit), iterate, seed)
    result = evaluate(directory, asked)
    console = _output()
    console.print(result_table(result))
    console.print(f"Written: {directory / 'result.json'}", highlight=False, soft_wrap=True)
    return 0


def _report(words: list[str]) -> int:
    import tyro

    def report_arguments(directory: tyro.conf.Positional[Path], /) -> Path:
        """Write report.html into a run directory: one page that needs nothing from elsewhere.

        Args:
            directory: the run directory
        """
        return directory

    directory = tyro.cli(report_arguments, args=words, prog="o3srl report")
    from o3srl.experiment.report import write_report

    console = _output()
    console.print(f"Written: {write_report(directory)}", highlight=False, soft_wrap=True)
    return 0


def _data(words: list[str]) -> int:
    usage = "Usage: o3srl data info FILE | o3srl data check FILE"
    if not words or words[0] in ("-h", "--help"):
        print(usage)
        return 0
    if len(words) != 2 or words[0] not in ("info", "check"):
        raise ConfigError(usage)
    from o3srl.data import describe, load, render

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load(words[1])
    facts = describe(data)
    if words[0] == "info":
        print(render(facts))
        return 0
    for finding in data.info.findings:
        _output().print(f"[yellow]odd:[/] {_escape(finding)}", soft_wrap=True, highlight=False)
    print(f"{words[1]} can be trained on: {facts['episodes']:,} episodes, {facts['usable_rows']:,} usable rows.")
    return 0


def _tasks(words: list[str]) -> int:
    del words
    from o3srl.envs import make, names

    for name in names():
        environment = make(name)
        print(
            f"{name:<12} {environment.obs_dim} observations, {environment.action_dim} actions, "
            f"{environment.costs} cost, {environment.horizon} steps, built in"
        )
    return 0


def _start_jax() -> None:
    import jax

    from o3srl.envs.toy_data import cache_directory

    # A program is compiled once per machine: the second run starts at once. A name of the user's own wins.
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@contextmanager
def _warnings_told() -> Iterator[None]:
    def tell(message: Warning | str, *_: object, **__: object) -> None:
        _errors().print(f"[yellow]Warning:[/] {_escape(str(message))}", soft_wrap=True, highlight=False)

    with warnings.catch_warnings():
        warnings.showwarning = tell
        yield


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _output() -> Console:
    from rich.console import Console

    return Console()


def _errors() -> Console:
    from rich.console import Console

    return Console(stderr=True)
