"""Oracles: offline RL algorithms that maximize a modified reward, one algorithm per file."""

from o3srl.oracles.bc import BCConfig, bc
from o3srl.oracles.iql import IQLConfig, iql
from o3srl.oracles.td3_bc import TD3BCConfig, td3_bc

__all__ = ["BCConfig", "IQLConfig", "TD3BCConfig", "bc", "iql", "td3_bc"]
