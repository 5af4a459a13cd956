"""What a round of the game reveals to the dual, in units of an average per step.

An oracle values its policy as a discounted sum; here, and nowhere else, that is divided by H = 1/(1 - gamma), so that
losses are about [-1, 1] whatever the discount.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
from jax import Array

from o3srl.types import Data, Feedback, Objective, Oracle, Sample, State, Value


def at_batch_states() -> Feedback:
    """Return the paper's feedback: the oracle's value at the states of the round's last batch, divided by H.

    It averages over the states that the log visits, also those that only unsafe behavior reaches.
    """
    return _from_critic(lambda sample: sample.batches.obs[-1])


def at_initial_states() -> Feedback:
    """Return the oracle's value at logged initial states, divided by H: what the limit is about, on fewer states."""
    return _from_critic(lambda sample: sample.initial)


def _from_critic(states: Callable[[Sample], Array]) -> Feedback:
    def init(key: Array, data: Data) -> State:
        del key, data
        return ()

    def reveal(
        key: Array, state: State, oracle: Oracle, primal: State, sample: Sample, objective: Objective
    ) -> tuple[State, Value]:
        assert oracle.value is not None  # the game refuses an oracle without a critic
        value = oracle.value(key, primal, states(sample), objective)
        return state, jax.tree.map(lambda v: v * (1.0 - oracle.discount), value)

    return Feedback(init, reveal)
