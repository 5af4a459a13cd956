"""Duals: no-regret learners over Lagrange multipliers, one algorithm per file."""

from o3srl.duals.exponential import exp3, hedge
from o3srl.duals.fixed import fixed
from o3srl.duals.gradient import ftrl, ogd
from o3srl.duals.grid import adaptive, joint, uniform
from o3srl.duals.pid import pid

__all__ = ["adaptive", "exp3", "fixed", "ftrl", "hedge", "joint", "ogd", "pid", "uniform"]
