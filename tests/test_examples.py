"""The examples run and learn; the README's Python runs, its commands parse, and its tree is the package's."""

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from o3srl import cli
from o3srl.cli_data import GetArguments
from o3srl.collect.run import check
from o3srl.data import DataWarning
from o3srl.envs import tasks
from o3srl.experiment.arguments import CollectArguments, asked_of, parse, parse_train
from o3srl.theory import config as theory
from tests.conftest import walk

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
PAGES = {path.name: path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}


def blocks(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_train_and_load():
    outcome, earned = example("train_and_load").main(["--updates", "3000"])
    assert outcome.returns.mean() > 150.0  # the log's sloppy controllers earn far less
    assert outcome.costs.mean() < 30.0  # blind to cost it would be more
    assert earned > 150.0


def test_own_log():
    found = example("own_log").main(["--updates", "10000"])
    assert found["comfort"] > found["logged"]
    assert found["energy"] < 24.0


def test_own_oracle_learns_and_the_game_restrains_it():
    (blind, spent), (earned, cost) = example("own_oracle").main(["--updates", "3000"]).values()
    assert blind > 300.0
    assert spent > 25.0
    assert earned > 200.0
    assert cost < spent / 2


def test_the_readme_runs_as_python(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("log.npz", **walk())
    words = "--task toy-circle --limit 5 --seeds 10 --updates 20 --td3-bc.hidden 8 8 --batch-size 8 --out runs/circle"
    assert cli.main(["train", *words.split()]) == 0
    space = {}
    for page, text in PAGES.items():
        for code in blocks(text, "python"):
            quick, numbers = re.subn(r"updates=[\d_]+", "updates=20", code)
            assert numbers == code.count("updates=")
            exec(compile(quick, page, "exec"), space)  # one after another, as they are read
    assert space["action"].shape == (2,)
    assert np.isfinite(space["outcome"].returns).all()


def commands():
    for page, text in PAGES.items():
        for block in blocks(text, "bash"):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["o3srl"]:
                    yield pytest.param(words[1:], id=f"{page}: {' '.join(words[:6])}")


@pytest.mark.parametrize("words", list(commands()))
def test_every_printed_command_parses(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    if words[0] == "train":
        plan = parse_train(words[1:])
        assert plan.run.out
        assert plan.lanes
    elif words[:2] == ["data", "get"]:  # what it does, without the network: test_hub.py
        assert tasks.find(parse(GetArguments, words[2:], "o3srl data get").task).log
    elif words[0] == "data":
        np.savez("log.npz", **walk())
        assert cli.main(words) == 0
        assert words[2] in capsys.readouterr().out
    elif words[0] == "collect":  # what it does: test_collect.py
        asked = asked_of(parse(CollectArguments, words[1:], "o3srl collect"))
        assert check(asked, Path(words[words.index("--out") + 1]), overwrite=False)[0] == tasks.find(asked.task)
    elif words[0] == "theory":  # what it does: test_theory.py
        theory.check(parse(theory.TheoryConfig, words[1:], "o3srl theory"))
    elif words == ["tasks"]:
        assert cli.main(words) == 0
    else:
        assert cli.main(words) == 2  # there is no such run here, but the words were understood
        assert "does not exist" in capsys.readouterr().err


def tree():
    """The paths in the README's tree."""
    folders, paths = [], []
    (block,) = blocks(README, "text")
    for line in block.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name = line.split()[0]
        folders = folders[:depth]
        paths.append("".join([*folders, name]))
        folders.append(name)
    return paths


def test_the_readme_tree_is_the_package():
    paths = tree()
    assert [path for path in paths if not (ROOT / path).exists()] == []
    files = {path.relative_to(ROOT).as_posix() for kind in ("*.py", "*.jinja") for path in (ROOT / "o3srl").rglob(kind)}
    assert sorted(path for path in files - set(paths) if not path.endswith("__init__.py")) == []


def test_links_of_the_documents_lead_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_odd_rows_are_told(tmp_path):
    """docs/data.md: what is odd is a DataWarning in Python."""
    from o3srl.data import load

    np.savez(tmp_path / "log.npz", **{**walk(), "actions": 2.0 * walk()["actions"]})
    with pytest.warns(DataWarning, match="outside"):
        load(tmp_path / "log.npz")
