"""o3srl: the policy that earns the most from a log of decisions while its cost stays within a budget."""

from importlib.metadata import version

from o3srl import budget, data, duals, feedback, oracles
from o3srl.duals import adaptive, exp3, fixed, ftrl, hedge, ogd, pid, uniform
from o3srl.envs import make as make_task
from o3srl.envs.toy_data import task_data
from o3srl.evaluate import rollout
from o3srl.experiment.restore import load_policy as load
from o3srl.game import o3srl
from o3srl.oracles import BCConfig, IQLConfig, TD3BCConfig, bc, iql, td3_bc
from o3srl.plain import plain
from o3srl.train import train

__version__ = version("o3srl")

__all__ = [
    "BCConfig", "IQLConfig", "TD3BCConfig", "__version__", "adaptive", "bc", "budget", "data", "duals", "exp3",
    "feedback", "fixed", "ftrl", "hedge", "iql", "load", "make_task", "o3srl", "ogd", "oracles", "pid", "plain",
    "rollout", "task_data", "td3_bc", "train", "uniform",
]  # fmt: skip
