"""The records that everything is made of: NamedTuples of pure functions, and NamedTuples of arrays.

The words are those of O3SRL (Chemingui et al., NeurIPS 2025): an offline RL *oracle* plays against a no-regret
*dual* over Lagrange multipliers; what a round of that game reveals to the dual is its *feedback*. All state is a
pytree of arrays, the key comes first and is used once. `M` is the number of costs, `K` the number of arms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

State = Any  # a pytree of arrays, private to the record that made it
Parameters = Any  # a pytree of arrays that is all a policy needs in order to act
Metrics = Mapping[str, Array]  # `group/name` to a scalar or a short vector


class Transition(NamedTuple):
    """Logged steps; the leading axes are batch axes.

    Fields: obs [n]; action [m] in the unit box; reward []; cost [M]; next_obs [n]; terminal [] is 1 where the
    world ended (a backup stops there); timeout [] is 1 where only the recording ended; first [] is 1 at an
    episode's first step.
    """

    obs: Array
    action: Array
    reward: Array
    cost: Array
    next_obs: Array
    terminal: Array
    timeout: Array
    first: Array


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Info:
    """Static facts about a log.

    Fields: obs_dim, action_dim and costs (M) are sizes; horizon is the time limit T in steps where one is known,
    else the longest logged episode; action_low and action_high are the environment's own box, which the unit box
    stands for; task is the built-in or simulator task that the log belongs to, if any; source says where the log
    came from; sha256 is of its content; findings are the sentences that the checks had to say, and the counts after
    them are of rows.
    """

    obs_dim: int
    action_dim: int
    costs: int
    horizon: int
    action_low: tuple[float, ...]
    action_high: tuple[float, ...]
    task: str | None
    source: str
    sha256: str
    findings: tuple[str, ...] = ()
    stale_first_observations: int = 0
    actions_outside_box: int = 0


class Episodes(NamedTuple):
    """Finished episodes in the log's order: start [E] row, length [E], returns [E] and costs [E, M] (undiscounted)."""

    start: Array
    length: Array
    returns: Array
    costs: Array


class Scaling(NamedTuple):
    """How sampled rewards and costs differ from the logged ones: r' = clip(r, -clip, clip) * reward, c' = c * cost."""

    clip: Array
    reward: Array
    cost: Array


class Data(NamedTuple):
    """A checked log; lives on the device once and is shared by all lanes.

    Fields: table [N, width] holds each row's obs, action, reward, cost, next_obs, terminal, timeout and first side
    by side, as logged, so that one take gathers a batch (`data.sample.unpack` names the columns); usable [U] are
    the rows that may be sampled; initial [I] are those among them that start an episode; scaling is applied to
    what is sampled.
    """

    table: Array
    episodes: Episodes
    usable: Array
    initial: Array
    scaling: Scaling
    info: Info


class Sample(NamedTuple):
    """What one round learns from: batches, a Transition with axes [updates, batch]; initial observations [batch, n]."""

    batches: Transition
    initial: Array


class Objective(NamedTuple):
    """What an oracle maximizes this round: the value of r - multiplier . (c - allowance).

    Fields: multiplier [M] >= 0; allowance [M], the cost allowed per step.
    """

    multiplier: Array
    allowance: Array

    @property
    def weights(self) -> Array:
        """[1 + M]: (1, multiplier), so that r' = parts @ weights."""
        return jnp.concatenate([jnp.ones_like(self.multiplier[:1]), self.multiplier])

    def reward(self, batch: Transition) -> Array:
        """[...]: the paper's modified reward r' = r - multiplier . (c - allowance)."""
        return batch.reward - (batch.cost - self.allowance) @ self.multiplier

    def parts(self, batch: Transition) -> Array:
        """[..., 1 + M]: the same, unsummed: (r, allowance - c)."""
        return jnp.concatenate([batch.reward[..., None], self.allowance - batch.cost], axis=-1)


class Value(NamedTuple):
    """What a round reveals: lagrangian [], the value of r' at the charged multiplier; violation [M] = V_c minus the
    allowed value, or None where the oracle cannot tell. `feedback` divides both by the horizon H = 1/(1-gamma)."""

    lagrangian: Array
    violation: Array | None


Update = Callable[[Array, State, Transition, Objective], tuple[State, Metrics]]


class Step(NamedTuple):
    """What a policy sees: obs [n] as logged or simulated; reward [] and cost [M] of the last step (zeros at first)."""

    obs: Array
    reward: Array
    cost: Array


class Policy(NamedTuple):
    """A controller; `parameters` are all it needs, memory is () for a Markov policy.

    Fields: reset: (key, parameters, limit [M]) -> memory, where the limit is the episode's budget and the key lets
    a mixture draw its member; act: (key, parameters, memory, step) -> (action [m] in the unit box, memory).
    """

    reset: Callable[[Array, Parameters, Array], State]
    act: Callable[[Array, Parameters, State, Step], tuple[Array, State]]


class Oracle(NamedTuple):
    """The paper's stochastic offline RL oracle.

    Fields: init: (key, example Transition without batch axes) -> state, whose dimensions come from the example;
    cycle: gradient updates, taken in turn (a delayed actor is a longer cycle, not a condition); value: (key, state,
    obs [B, n], objective) -> undivided Value of the policy, or None for an oracle without a critic; parameters: what
    of the state the policy acts with; policy; discount: gamma; parts: whether the critics know V_r and V_c apart.
    """

    init: Callable[[Array, Transition], State]
    cycle: tuple[Update, ...]
    value: Callable[[Array, State, Array, Objective], Value] | None
    parameters: Callable[[State], Parameters]
    policy: Policy
    discount: float
    parts: bool


class Play(NamedTuple):
    """A dual's move: multiplier [M] is what the oracle answers; charged [M] is what the loss is charged to, drawn as
    arm [] with probability prob []."""

    multiplier: Array
    charged: Array
    arm: Array
    prob: Array


class Dual(NamedTuple):
    """A no-regret learner that minimizes the Lagrangian over multipliers.

    Fields: init: () -> state; play: (key, state) -> Play; update: (state, play, value) -> state; metrics: (state) ->
    what to log; costs: M; parts: whether it needs an oracle whose critics know V_r and V_c apart, because it reads
    the violation or charges another multiplier than the one answered.
    """

    init: Callable[[], State]
    play: Callable[[Array, State], Play]
    update: Callable[[State, Play, Value], State]
    metrics: Callable[[State], Metrics]
    costs: int
    parts: bool


class Feedback(NamedTuple):
    """Where a round's Value comes from. init: (key, data) -> state; reveal: (key, state, oracle, primal, sample,
    objective at the charged multiplier) -> (state, Value divided by H); parts: whether it knows V_r and V_c apart by
    itself, whatever the oracle's critics know."""

    init: Callable[[Array, Data], State]
    reveal: Callable[[Array, State, Oracle, State, Sample, Objective], tuple[State, Value]]
    parts: bool = False


class Phase(NamedTuple):
    """A stretch of training. sample: (key, data) -> sample; step: (key, state, sample) -> (state, metrics); updates:
    gradient updates that one step makes; share: of the run's gradient updates."""

    sample: Callable[[Array, Data], Any]
    step: Callable[[Array, State, Any], tuple[State, Metrics]]
    updates: int
    share: float


class Algorithm(NamedTuple):
    """Anything that trains: `o3srl(...)`, a plain oracle, every baseline.

    Fields: prepare: (data) -> data, on the host, once for all lanes; init: (key, data) -> state; phases; policy, and
    parameters: (state) -> {iterate: parameters}, the variants that may be evaluated, `last` among them.
    """

    prepare: Callable[[Data], Data]
    init: Callable[[Array, Data], State]
    phases: tuple[Phase, ...]
    policy: Policy
    parameters: Callable[[State], Mapping[str, Parameters]]
