"""From any logged decisions, rewards and costs to one checked `Data`, and batches from it."""

from o3srl.data.build import from_arrays as from_arrays
from o3srl.data.columns import unpack as unpack
from o3srl.data.columns import width as width
from o3srl.data.describe import cheapest_warning as cheapest_warning
from o3srl.data.describe import describe as describe
from o3srl.data.describe import render as render
from o3srl.data.findings import DataWarning as DataWarning
from o3srl.data.read import load as load
from o3srl.data.sample import draw as draw
from o3srl.data.sample import draw_initial as draw_initial
from o3srl.data.transform import clip_rewards as clip_rewards
from o3srl.data.transform import observation_statistics as observation_statistics
from o3srl.data.transform import scale_costs as scale_costs
