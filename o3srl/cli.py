"""The command line: `o3srl train`, `resume`, `evaluate`, `report`, `collect`, `data`, `tasks`, `theory`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from o3srl.errors import ConfigError, O3SRLError, did_you_mean
from o3srl.terminal import errors, output, tell

OVERVIEW = """\
o3srl: the policy that earns the most from a log while its cost stays within a budget

  o3srl train [ALGORITHM] --task toy-circle --limit 5 --out runs/x   train on a built-in task's log
  o3srl train [ALGORITHM] --data FILE --limit 5 --out runs/x         train on your own log (.hdf5, .npz)
  o3srl resume runs/x [--updates N]      go on from the last checkpoint, or train on to N updates
  o3srl evaluate runs/x [--episodes 20]  simulate the policies, print the table, write result.json
  o3srl evaluate runs/x --snapshots      the same for the policies on the way: learning curves
  o3srl evaluate runs/x --render x.gif   a film of an episode
  o3srl report runs/x                    write runs/x/report.html
  o3srl collect --task BallRun --out FILE.hdf5   make a log oneself, in a simulator
  o3srl data get TASK                    fetch DSRL's log of a task; then: o3srl train --task TASK
  o3srl data info FILE [--picture X.png] what a log holds, and every episode's reward over its cost
  o3srl data check FILE                  whether a log can be trained on, and what is odd about it
  o3srl tasks                            the tasks, their simulators and logs, and how to get them
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
        tell(errors(), str(error), "[bold red]Error:[/] ")
        return 2
    except KeyboardInterrupt:
        if debug:
            raise
        errors().print(
            "Stopped at once; the last checkpoint stands." if words[0] in ("train", "resume") else "Stopped at once."
        )
        return 130


def _command(name: str) -> Callable[[list[str]], int]:
    commands: Mapping[str, Callable[[list[str]], int]] = {
        "train": _train, "resume": _resume, "evaluate": _evaluate, "report": _report,
        "collect": _collect, "data": _data, "tasks": _tasks, "theory": _theory,
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

    console = output()
    with _warnings_told(), stoppable(console) as stop, reporting(console) as report:
        finished = work(report, stop)
    from o3srl.experiment.record import frozen_lanes
    from o3srl.experiment.run import read

    for told in frozen_lanes(directory):
        tell(errors(), told, "[yellow]Warning:[/] ")
    if not finished:
        tell(console, f"Stopped. Go on with: o3srl resume {directory}")
        return 130
    following = "evaluate" if read(directory)[0].run.task else "report"
    tell(console, f"Trained: {directory}. Next: o3srl {following} {directory}")
    return 0


def _evaluate(words: list[str]) -> int:
    from o3srl.experiment.arguments import EvaluateArguments, limit_of, parse

    asked = parse(EvaluateArguments, words, "o3srl evaluate")
    limit = None if asked.limit is None else limit_of(asked.limit)
    _start_jax()
    from o3srl.experiment import table
    from o3srl.experiment.evaluation import Evaluation, evaluate, evaluate_snapshots
    from o3srl.experiment.progress import simulating
    from o3srl.experiment.run import CURVE, RESULT

    question = Evaluation(
        asked.episodes,
        limit,
        asked.iterate,
        asked.seed,
        asked.task,
        asked.environments,
        asked.processes,
        asked.patience,
    )
    console = output()
    if asked.render is not None:
        from o3srl.film.episode import film

        with console.status("filming ..."):
            filmed = film(asked.directory, question, asked.lane, asked.render)
        cost = ", ".join(f"{one:g}" for one in filmed.cost)
        tell(console, f"Written: {asked.render}: {filmed.steps} steps, reward {filmed.reward:.2f}, cost {cost}")
        return 0
    with simulating(console) as told:
        result = (evaluate_snapshots if asked.snapshots else evaluate)(asked.directory, question, told)
    console.print(table.curve_table(result) if asked.snapshots else table.result_table(result))
    tell(console, f"Written: {asked.directory / (CURVE if asked.snapshots else RESULT)}")
    return 0


def _report(words: list[str]) -> int:
    from o3srl.experiment.arguments import ReportArguments, parse

    directory = parse(ReportArguments, words, "o3srl report").directory
    from o3srl.experiment.report import write_report

    tell(output(), f"Written: {write_report(directory)}")
    return 0


def _collect(words: list[str]) -> int:
    from o3srl.experiment.arguments import CollectArguments, asked_of, parse

    told = parse(CollectArguments, words, "o3srl collect")
    _start_jax()
    from o3srl.collect.run import collect, working
    from o3srl.experiment import table
    from o3srl.experiment.picture import write_scatter
    from o3srl.experiment.progress import collecting, stoppable

    asked = asked_of(told)
    picture = told.out.with_suffix(".png")
    if picture.exists() and not told.overwrite:
        raise ConfigError(f"{picture} exists, where the picture of the log goes. Choose another --out, or --overwrite.")
    console = output()
    with (
        stoppable(console, "batch; finished stints stay") as stop,
        collecting(console, asked.limits, asked.steps) as report,
    ):
        collected = collect(
            asked,
            told.out,
            processes=told.processes,
            patience=told.patience,
            overwrite=told.overwrite,
            keep=told.keep,
            report=report,
            stop=stop,
        )
    if collected is None:
        tell(console, f"Stopped. The same command goes on from {working(told.out)}.")
        return 130
    console.print(table.collected_table(collected, asked.limits))
    for sentence in table.collected_notes(collected):
        tell(console, sentence)
    cost, returns = collected.cost[collected.chosen], collected.returns[collected.chosen]
    write_scatter(picture, f"{told.task}: {len(cost):,} episodes", returns, cost[:, None], table.finite(asked.limits))
    tell(console, f"Written: {picture}, every episode's reward over its cost.")
    tell(console, f"Written: {told.out}. Next: o3srl train --task {told.task} --data {told.out} --out runs/x")
    return 0


def _data(words: list[str]) -> int:
    from o3srl.cli_data import run

    return run(words)


def _tasks(words: list[str]) -> int:
    if words in (["-h"], ["--help"]):
        print("Usage: o3srl tasks")
        return 0
    if words:
        raise ConfigError(f"o3srl tasks takes no arguments; got {' '.join(words)}.")
    from o3srl.experiment.table import task_tables

    console = output()
    for table, note in task_tables():
        console.print(table)
        if note:
            tell(console, f"{note}\n")
    tell(console, "The log of a task that has none here: o3srl data get TASK fetches DSRL's.")
    tell(console, "Your own Gymnasium environment, with the cost in its info: --task MyTask-v0 or my_module:make.")
    tell(
        console, "Returns are the extremes of the task's log (DSRL's in simulators): 0 and 1 of the normalized reward."
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

    console = output()
    with counting(console, "checking", len(EXPERIMENTS), "parts") as report:
        result = compute(config, report)
    write(config, result)
    console.print(table(result.statements))
    tell(console, f"Written: {config.out / 'theory.json'} and figures beside it")
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
    def say(message: Warning | str, *_: object, **__: object) -> None:
        tell(errors(), str(message), "[yellow]Warning:[/] ")

    from o3srl.data import DataWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", DataWarning)  # what a log has to say is said each time
        warnings.showwarning = say
        yield
