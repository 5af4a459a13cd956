"""What the paper states, on problems whose answers are exact: every statement turns out as docs/theory.md says."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl import duals
from o3srl.cli import main
from o3srl.tabular import oracle
from o3srl.tabular.play import play
from o3srl.theory import bandit, equilibrium, evaluated, interval, practical, problems, samples
from o3srl.theory.config import FIGURES
from o3srl.theory.statements import Statement


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def few():
    with jax.enable_x64(True):
        return problems.make(8)


@pytest.fixture(scope="module")
def hundred():
    with jax.enable_x64(True):
        return problems.make(100)


def sound(said):
    wrong = [f"{one.claim}: {one.verdict} ({one.figure})" for one in said if one.holds != one.expected]
    assert not wrong, "\n".join(wrong)


def test_the_printed_order_misses_the_bound_and_independent_charge_keeps_it():
    """One state, two actions, K = 20 arms as in Theorem 2, T = 200,000: docs/theory.md has the table."""
    found = bandit.order_of_play("twenty arms", rounds=(20_000, 200_000))
    printed, apart = found["printed"], found["independent"]
    assert (printed[-1] > 0.3).all()
    assert printed[-1].mean() > printed[0].mean() + 0.05
    assert (apart[-1] < 0.02).all()
    assert (apart[-1] < bandit.regret_bound(20, 200_000, 3.0)).all()


def test_with_two_arms_the_printed_order_forgets_the_cost():
    found = bandit.order_of_play("two arms", rounds=(2_000, 20_000))
    assert (found["printed"][-1] > 0.6).all()
    assert (found["independent"][-1] < bandit.regret_bound(2, 20_000, 3.0)).all()


def test_theorem_1_on_a_few_problems(few):
    sound(equilibrium.theorem_1(few)[1])


@pytest.mark.slow
def test_theorem_1_on_a_hundred_problems(hundred):
    numbers, said = equilibrium.theorem_1(hundred)
    sound(said)
    assert all(numbers[name]["runs_where_it_could_fail"] >= 600 for name in equilibrium.NAMES)


def test_the_bound_is_missed_by_what_does_not_learn(few):
    """A multiplier that stays at 0 has a gap above the bound, so the test of the bound can fail."""

    def build(problem):
        return equilibrium.exact_game(oracle.along(problem.cmdp, problem.path), duals.fixed(0.0), problem.limit)

    rounds = equilibrium.ROUNDS[-1]
    at = play(build, few, np.arange(8), rounds)[-1]
    gap = problems.gaps(few, at.average, at.multiplier).total
    _, bound = equilibrium.rate_and_bound("ogd", np.asarray(few.maximum), np.asarray(few.size), rounds)
    assert (gap > bound).all()


def test_the_average_multiplier_is_of_what_was_answered(few):
    numbers, said = equilibrium.average_that_belongs(few, rounds=64)
    sound(said)
    assert numbers["regret_as_printed"] < 0 < numbers["gap"]


def test_two_costs_on_a_few_problems():
    sound(equilibrium.several_costs(count=3, rounds=256, names=("ogd",))[1])


@pytest.mark.slow
def test_two_costs():
    sound(equilibrium.several_costs()[1])


def test_theorem_2_on_a_few_problems(few):
    sound(bandit.theorem_2(few.take(np.arange(4)))[1])


@pytest.mark.slow
def test_theorem_2_on_a_hundred_problems(hundred):
    sound(bandit.theorem_2(hundred)[1])
    sound(bandit.stochastic(hundred)[1])


@pytest.mark.slow
def test_grids_and_rates():
    sound(bandit.grids()[1])


def test_the_paper_on_the_dual_and_slater():
    sound(interval.duality()[1])


def test_the_interval_and_limits(few):
    sound(interval.how_large(few, few=4)[1])
    sound(interval.limits(few, few=4)[1])


@pytest.mark.slow
def test_remark_1(hundred):
    sound(samples.remark_1(hundred)[1])
    sound(samples.hardest()[1])


@pytest.mark.slow
def test_the_practical_variant(hundred):
    sound(practical.practical(hundred)[1])


@pytest.mark.slow
def test_evaluation_in_the_loop(hundred):
    sound(evaluated.batch_constrained(hundred)[1])


def test_problems_bind_and_their_numbers_agree(few):
    assert (np.asarray(few.multiplier) > 0).all()
    assert (np.asarray(few.maximum) > np.asarray(few.multiplier)).all()
    assert (np.asarray(few.slater) > 0).all()
    assert (np.asarray(few.span) > 0).all()
    # The range of L is wider than any gap that its ends allow.
    at = problems.gaps(few, few.path.occupancy[:, 0], jnp.zeros((8, 1)))
    assert (at.total <= np.asarray(few.span) + 1e-12).all()


def test_a_statement_says_what_was_seen():
    told = [Statement("", "", expected, holds, "").verdict for expected in (True, False) for holds in (True, False)]
    assert told == ["holds", "FAILS", "HOLDS, BUT SHOULD FAIL", "fails, as expected"]


@pytest.mark.slow
def test_the_command_writes_statements_numbers_and_figures(tmp_path):
    out = tmp_path / "theory"
    assert main(["theory", "--out", str(out)]) == 0
    written = json.loads((out / "theory.json").read_text())
    assert {path.name for path in out.iterdir()} == {"theory.json", *(f"{name}.png" for name in FIGURES)}
    assert all(one["holds"] == one["expected"] for one in written["statements"])
    assert main(["theory", "--out", str(out)]) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--problems", "1"], "--problems"),
        (["--seed", "-1"], "--seed"),
        (["--out", "{tmp}"], "exists already"),
        (["--out", "{tmp}", "--overwrite"], "notes.txt"),
    ],
)
def test_the_command_refuses_before_it_computes(words, said, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("keep")
    assert main(["theory", *(word.format(tmp=tmp_path) for word in words)]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.strip().count("\n") == 0
    assert (tmp_path / "notes.txt").read_text() == "keep"
