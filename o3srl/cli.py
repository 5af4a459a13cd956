"""The command line: `o3srl train`, `resume`, `evaluate`, `report`, `data`, `tasks`, `theory`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from o3srl.errors import ConfigError, O3SRLError, did_you_mean

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
  o3srl theory --out runs/theory         check the paper's statements on finite problems, with exact answers

Each command explains itself: o3srl train --help. With --debug, an error shows its traceback.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for an error that a user can mend, 130 when stopped.

    It is 1 where `theory` finds a statement to be otherwise than it should.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    if not words or words[0] in ("-h", "--help"):
        print(OVERVIEW, end="")
        return 0
    if words[0] == "--version":
        from o3srl import __version__

        print(__version__)
        return 0
    try:
        return _command(words[0])(words[1:])
    except O3SRLError as error:
        if debug:
            raise
        _tell(_errors(), str(error), "[bold red]Error:[/] ")
        return 2
    except KeyboardInterrupt:
        if debug:
            raise
        _errors().print("Stopped at once; the last checkpoint stands.")
        return 130


def _command(name: str) -> Callable[[list[str]], int]:
    commands: Mapping[str, Callable[[list[str]], int]] = {
        "train": _train, "resume": _resume, "evaluate": _evaluate, "report": _report, "data": _data, "tasks": _tasks,
        "theory": _theory,
    }  # fmt: skip
    if name not in commands:
        raise ConfigError(f"There is no command {name!r}{did_you_mean(name, commands)} Known: {', '.join(commands)}.")
    return commands[name]


def _train(words: list[str]) -> int:
    from o3srl.experiment.arguments import parse_train

    plan = parse_train(words)
    _start_jax()
    from o3srl.experiment.run import start

    return _attend(Path(plan.run.out), lambda report, stop: start(plan, report, stop))


def _resume(words: list[str]) -> int:
    from o3srl.experiment.arguments import ResumeArguments, parse

    asked = parse(ResumeArguments, words, "o3srl resume")
    _start_jax()
    from o3srl.experiment.run import resume

    return _attend(asked.directory, lambda report, stop: resume(asked.directory, asked.updates, report, stop))


def _attend(directory: Path, work: Callable[..., bool]) -> int:
    from o3srl.experiment.progress import reporting, stoppable

    console = _output()
    with _warnings_told(), stoppable(console) as stop, reporting(console) as report:
        finished = work(report, stop)
    from o3srl.experiment.record import frozen_lanes
    from o3srl.experiment.run import read

    for told in frozen_lanes(directory):
        _tell(_errors(), told, "[yellow]Warning:[/] ")
    if not finished:
        _tell(console, f"Stopped. Go on with: o3srl resume {directory}")
        return 130
    following = "evaluate" if read(directory)[0].run.task else "report"
    _tell(console, f"Trained: {directory}. Next: o3srl {following} {directory}")
    return 0


def _evaluate(words: list[str]) -> int:
    from o3srl.experiment.arguments import EvaluateArguments, limit_of, parse

    asked = parse(EvaluateArguments, words, "o3srl evaluate")
    limit = None if asked.limit is None else limit_of(asked.limit)
    _start_jax()
    from o3srl.experiment.evaluation import Evaluation, evaluate
    from o3srl.experiment.table import result_table

    result = evaluate(asked.directory, Evaluation(asked.episodes, limit, asked.iterate, asked.seed))
    console = _output()
    console.print(result_table(result))
    _tell(console, f"Written: {asked.directory / 'result.json'}")
    return 0


def _report(words: list[str]) -> int:
    from o3srl.experiment.arguments import ReportArguments, parse

    directory = parse(ReportArguments, words, "o3srl report").directory
    from o3srl.experiment.report import write_report

    _tell(_output(), f"Written: {write_report(directory)}")
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
        _tell(_output(), finding, "[yellow]odd:[/] ")
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


def _theory(words: list[str]) -> int:
    from o3srl.experiment.arguments import parse
    from o3srl.theory.config import TheoryConfig, check

    config = parse(TheoryConfig, words, "o3srl theory")
    check(config)
    _start_jax()
    from o3srl.experiment.progress import counting
    from o3srl.theory.run import EXPERIMENTS, compute, write
    from o3srl.theory.statements import table

    console = _output()
    with counting(console, "checking", len(EXPERIMENTS), "parts") as report:
        result = compute(config, report)
    write(config, result)
    console.print(table(result.statements))
    _tell(console, f"Written: {config.out / 'theory.json'} and figures beside it")
    return 0 if result.sound else 1


def _start_jax() -> None:
    import jax

    from o3srl.envs.toy_data import cache_directory

    # A program is compiled once per machine: the second run starts at once. A name of the user's own wins.
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "compiled"))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@contextmanager
def _warnings_told() -> Generator[None]:
    def tell(message: Warning | str, *_: object, **__: object) -> None:
        _tell(_errors(), str(message), "[yellow]Warning:[/] ")

    from o3srl.data import DataWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)  # what a log has to say is said each time
        warnings.showwarning = tell
        yield


def _tell(console: Console, text: str, label: str = "") -> None:
    # A path or message is printed as it is, in one piece: not wrapped, not colored, its brackets no markup.
    from rich.markup import escape

    console.print(f"{label}{escape(text)}", soft_wrap=True, highlight=False)


def _output() -> Console:
    from rich.console import Console

    return Console()


def _errors() -> Console:
    from rich.console import Console

    return Console(stderr=True)
