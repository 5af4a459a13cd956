"""The fitted evaluation: against an exact value, and what it lets a scalar critic play with."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl import duals, feedback
from o3srl.data import DataWarning
from o3srl.game import o3srl
from o3srl.oracles import TD3BCConfig, td3_bc
from o3srl.tabular.cmdp import gridworld
from o3srl.tabular.log import as_data, logged
from o3srl.tabular.oracle import stationary
from o3srl.tabular.solve import occupancy, values
from o3srl.train import train
from o3srl.types import Oracle

KEY = jax.random.PRNGKey(0)


def still(rho, discount):
    """An oracle that never moves: it always acts as an occupancy rho [S, A] says."""
    return Oracle(
        init=lambda key, example: rho,
        cycle=(lambda key, state, batch, objective: (state, {}),),
        value=lambda key, state, obs, objective: None,
        parameters=lambda state: state,
        policy=stationary(),
        discount=discount,
        parts=False,
    )


def test_the_fitted_values_are_those_of_the_policy():
    """On the log of another policy, against linear solves; the behavior's own values are far from them."""
    cmdp = gridworld(jax.random.PRNGKey(3), 2, hazards=1.0, discount=0.7)
    policy = jnp.tile(jnp.array([0.45, 0.45, 0.05, 0.05]), (4, 1))
    behavior = jnp.full((4, 4), 0.25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        log = as_data(logged(KEY, cmdp, behavior, 100, 40))
    fitted = feedback.fitted(feedback.FittedConfig(passes=2, rate=1e-3, tau=0.02, hidden=(32, 32)))
    game = o3srl(
        still(policy, 0.7), duals.ogd(0.0), fitted, limit=0.5, batch_size=128, prepare=lambda data: data,
        updates_per_round=10,
    )  # fmt: skip
    _, metrics = train(KEY, game, log, updates=2000, chunk_updates=100)
    reward, cost = values(cmdp, occupancy(cmdp, policy))
    blind = values(cmdp, occupancy(cmdp, behavior))
    np.testing.assert_allclose(metrics["game/lagrangian"][-3:].mean(), reward, atol=0.02)
    np.testing.assert_allclose(metrics["game/violation"][-3:].mean(), cost - 0.3 * 0.5, atol=0.02)
    assert abs(float(blind[0] - reward)) > 0.05


@pytest.mark.parametrize("passes", [1, 3])
def test_a_scalar_critic_may_play_any_dual_on_a_fitted_evaluation(passes, log):
    config = feedback.FittedConfig(passes=passes, hidden=(16, 16))
    game = o3srl(td3_bc(TD3BCConfig(hidden=(16, 16))), duals.ogd(), feedback.fitted(config), limit=5.0, batch_size=16)
    state, metrics = train(KEY, game, log, updates=20, chunk_updates=20)
    # Adam's count is of its own updates: as many as the oracle's, in every pass.
    assert int(state.feedback.optimizer[0].count) == 20 * passes
    assert np.isfinite(metrics["game/violation"]).all()
