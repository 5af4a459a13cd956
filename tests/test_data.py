"""The data layer: what a log may be, what is said of it, and what is sampled from it."""

from __future__ import annotations

import struct
import warnings
import zipfile

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from o3srl import data as o3data
from o3srl.data import columns, from_arrays, load
from o3srl.data.columns import spans_of
from o3srl.errors import ConfigError, DataError
from tests.helpers_data import changed, make_log, without, write

LOG = make_log()


def quiet(log, **options):
    """Return the checked log, and its findings, whatever they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", o3data.DataWarning)
        data = from_arrays(log, **options)
    return data, " ".join(data.info.findings)


# What is right


def test_a_valid_log_is_taken_as_it_is():
    data = from_arrays(LOG, task="toy")  # no warning: they are errors
    info = data.info
    assert (info.obs_dim, info.action_dim, info.costs, info.horizon, info.findings) == (3, 2, 1, 6, ())
    assert (info.task, info.source, info.action_low, info.action_high) == ("toy", "arrays", (-1.0, -1.0), (1.0, 1.0))
    assert data.table.shape == (16, o3data.width(info))
    assert data.table.dtype == np.float32
    rows = o3data.unpack(data.table, info)
    for name, (field, _) in columns.NAMES.items():
        logged = LOG[name][:, None] if field == "cost" else LOG[name]
        np.testing.assert_array_equal(getattr(rows, field), logged)
    np.testing.assert_array_equal(np.flatnonzero(rows.first), [0, 6, 10])
    np.testing.assert_array_equal(data.usable, np.arange(16))
    np.testing.assert_array_equal(data.initial, [0, 6, 10])
    assert data.usable.dtype == data.initial.dtype == data.episodes.start.dtype == np.int32


def test_episodes_are_summed_one_by_one():
    data = from_arrays(make_log((6, 2, 1, 6, 3), costs=2))
    episodes = data.episodes
    np.testing.assert_array_equal(episodes.start, [0, 6, 8, 9, 15])
    np.testing.assert_array_equal(episodes.length, [6, 2, 1, 6, 3])
    rows = o3data.unpack(data.table, data.info)
    for number, (start, length) in enumerate(zip(episodes.start, episodes.length, strict=True)):
        np.testing.assert_allclose(episodes.returns[number], rows.reward[start : start + length].sum(), rtol=1e-6)
        np.testing.assert_allclose(episodes.costs[number], rows.cost[start : start + length].sum(0))
    assert episodes.costs.shape == (5, 2)


@pytest.mark.parametrize("costs", [0, 2])
def test_every_format_gives_the_same_data(tmp_path, costs):
    log = make_log(costs=costs)
    expected = from_arrays(log)
    double = {name: column.astype(np.float64) for name, column in log.items()}
    fortran = {name: np.asfortranarray(column) for name, column in log.items()}
    paths = [
        write(tmp_path / "log.hdf5", log),
        write(tmp_path / "log.h5", {**log, "rewards": log["rewards"][:, None]}),
        write(tmp_path / "log.npz", log),
        write(tmp_path / "double.npz", double),
        write(tmp_path / "fortran.npz", fortran),
    ]
    np.savez_compressed(tmp_path / "compressed.npz", **log)
    for path in [*paths, tmp_path / "compressed.npz"]:
        data = load(path)
        jax.tree.map(np.testing.assert_array_equal, data._replace(info=0), expected._replace(info=0))
        assert data.info.sha256 == expected.info.sha256
        assert data.info.source == str(path)
    assert from_arrays(changed(log, "rewards", 3, 9.0)).info.sha256 != expected.info.sha256


@pytest.mark.parametrize("suffix", [".hdf5", ".npz"])
def test_a_log_of_many_slabs_is_the_same(tmp_path, monkeypatch, suffix):
    log = make_log((60, 40, 60))
    expected = from_arrays(log)
    path = write(tmp_path / f"log{suffix}", log)
    monkeypatch.setattr(columns, "SLAB_BYTES", 100)
    for data in (load(path), from_arrays(log)):
        np.testing.assert_array_equal(data.table, expected.table)
        assert data.info.sha256 == expected.info.sha256
    bad = write(tmp_path / f"bad{suffix}", changed(changed(log, "costs", 150, -1), "costs", 99, -2))
    with pytest.raises(DataError, match=r"2 values below zero.*row 99: -2"):
        load(bad)


def test_an_action_box_is_rescaled_to_the_unit_box(tmp_path):
    box = {"action_low": np.array([0.0, -4.0]), "action_high": np.array([10.0, 4.0])}
    log = {**LOG, "actions": np.tile([[0.0, 4.0], [5.0, 2.0]], (8, 1)).astype(np.float32)}
    paths = [write(tmp_path / "log.npz", {**log, **box}), write(tmp_path / "log.hdf5", {**log, **box})]
    paths.append(write(tmp_path / "attributes.hdf5", log, **box))
    for data in [*map(load, paths), from_arrays(log, **box), load(paths[0], action_high=[10, 4])]:
        np.testing.assert_allclose(o3data.unpack(data.table, data.info).action[:2], [[-1, 1], [0, 0.5]])
        assert data.info.action_low == (0.0, -4.0)
        assert data.info.action_high == (10.0, 4.0)
    assert len({load(path).info.sha256 for path in paths}) == 1
    assert load(paths[0]).info.sha256 != load(paths[0], action_low=-1).info.sha256
    assert (
        from_arrays({**log, "actions": log["actions"] / 4}, action_low=-10, action_high=10).info.action_low
        == (-10.0,) * 2
    )


def test_horizon_is_the_longest_episode_unless_it_is_given():
    assert from_arrays(LOG, horizon=50).info.horizon == 50
    with pytest.raises(ConfigError, match=r"horizon 5 is shorter than the longest logged episode, 6"):
        from_arrays(LOG, horizon=5)


# What is wrong, at the door


def nonsense(**changes):
    return {**LOG, **changes}


ERRORS = {
    "missing": (without(LOG, "timeouts"), r"no column 'timeouts'.*holds actions, costs.*add timeouts of zeros"),
    "misspelled": (
        {**without(LOG, "rewards"), "reward": LOG["rewards"]},
        r"no column 'rewards' \(did you mean 'reward'\?\)",
    ),
    "two missing": (without(LOG, "rewards", "costs"), r"no column 'rewards', nor 'costs'"),
    "lengths": (
        nonsense(rewards=LOG["rewards"][:-1]),
        r"differ in length \(.*rewards 15, costs 16.*one row per logged step",
    ),
    "T+1 per episode": (
        nonsense(observations=np.zeros((19, 3))),
        r"'observations' has 3 rows more than 'actions'.*as many as there are episodes.*T\+1.*episode\[:-1\]",
    ),
    "T+1 once": (without(nonsense(observations=np.zeros((17, 3))), "next_observations"), r"1 row more.*T\+1"),
    "width": (
        nonsense(next_observations=np.zeros((16, 4))),
        r"'next_observations' has 4 entries.*'observations' has 3",
    ),
    "rank 1": (nonsense(observations=np.zeros(16)), r"'observations' has shape \[16\].*\[rows, entries\].*reshape"),
    "images": (nonsense(observations=np.zeros((16, 8, 8))), r"'observations' has shape \[16, 8, 8\].*Flatten"),
    "discrete": (nonsense(actions=np.zeros(16, int)), r"'actions' has shape \[16\].*discrete actions"),
    "wide reward": (nonsense(rewards=np.zeros((16, 2))), r"'rewards' has shape \[16, 2\] but must be \[rows\]"),
    "no cost": (nonsense(costs=np.zeros((16, 0))), r"'costs' has shape \[16, 0\].*without empty axes"),
    "scalar": (nonsense(terminals=np.zeros(())), r"'terminals' has shape \[\]"),
    "strings": (nonsense(rewards=np.full(16, "1.0")), r"'rewards' is of type <U3.*Convert it to float32"),
    "complex": (nonsense(rewards=np.zeros(16, complex)), r"'rewards' is of type complex128"),
    "objects": (nonsense(rewards=np.array([None] * 16)), r"'rewards' is of type object"),
    "ragged": (nonsense(observations=[[1, 2], [3]]), r"'observations' is not an array.*rectangular"),
    "zero rows": ({name: column[:0] for name, column in LOG.items()}, r"every column has zero rows"),
    "nan": (
        changed(LOG, "observations", (5, 1), np.nan),
        r"'observations' holds 1 value of NaN or infinity, the first at row 5, entry 1: nan",
    ),
    "inf": (
        changed(LOG, "rewards", slice(7, 9), np.inf),
        r"'rewards' holds 2 values of NaN or infinity, the first at row 7: inf",
    ),
    "huge": (changed(LOG, "rewards", 3, 1e30), r"'rewards' holds 1 value beyond what float32.*row 3: 1.0.*rescale"),
    "double": (nonsense(rewards=np.full(16, 1e300)), r"16 values beyond"),
    "wrapped": (
        nonsense(rewards=np.array([2**64 - 1] * 16, np.uint64)),
        r"row 0: 18446744073709551615.*wrapped around",
    ),
    "integer": (
        nonsense(actions=np.full((16, 2), -(2**24) - 1)),
        r"'actions' holds 32 values beyond.*integers up to 16,777,216",
    ),
    "negative": (
        changed(LOG, "costs", slice(2, 5), -0.5),
        r"'costs' holds 3 values below zero, the first at row 2: -0.5.*np.maximum",
    ),
    "flag": (changed(LOG, "timeouts", 4, 2), r"'timeouts' holds 1 value other than 0 and 1, the first at row 4: 2"),
    "terminal": (changed(LOG, "terminals", 4, 0.5), r"'terminals' holds 1 value other than"),
    "unfinished": (
        nonsense(terminals=np.zeros(16), timeouts=np.zeros(16)),
        r"no episode is finished.*each episode's last row",
    ),
    "half a box": (nonsense(action_low=-2.0), r"the action box has no 'action_high'"),
    "flat box": (nonsense(action_low=1.0, action_high=1.0), r"action box from \[1.0, 1.0\] to"),
    "infinite box": (nonsense(action_low=-np.inf, action_high=1.0), r"must be finite"),
    "long box": (
        nonsense(action_low=[-1] * 3, action_high=[1] * 3),
        r"'action_low' must be a number or one number per",
    ),
    "worded box": (nonsense(action_low="low", action_high="high"), r"'action_low' is of type <U3"),
    "nothing to sample": (
        without(nonsense(terminals=np.zeros(16), timeouts=np.ones(16)), "next_observations"),
        r"no row can be sampled",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_wrong_is_named_with_its_remedy(case):
    log, words = ERRORS[case]
    with pytest.raises(DataError, match=words) as raised:
        from_arrays(log, source="here.npz")
    assert str(raised.value).startswith("here.npz: ")
    assert "\n" not in str(raised.value)


def test_files_that_are_not_logs(tmp_path):
    write(tmp_path / "CarRun.hdf5", LOG)
    (tmp_path / "log.csv").write_text("a,b\n")
    (tmp_path / "empty.npz").write_bytes(b"")
    (tmp_path / "web.hdf5").write_text("<html>not found</html>")
    (tmp_path / "lfs.hdf5").write_text("version https://git-lfs.github.com/spec/v1\n")
    (tmp_path / "swapped.npz").write_bytes((tmp_path / "CarRun.hdf5").read_bytes())
    (tmp_path / "cut.hdf5").write_bytes((tmp_path / "CarRun.hdf5").read_bytes()[:-2000])
    cases = {
        "CarRum.hdf5": r"no such file in that folder \(did you mean 'CarRun.hdf5'",
        "nowhere/CarRun.hdf5": r"no such file, nor its folder",
        "": r"this is a directory, not a log. It holds .*CarRun.hdf5",
        "log.csv": r"format '.csv' is not supported, only .h5, .hdf5, .npz.*np.savez",
        "empty.npz": r"cannot be read as npz.*It is empty",
        "web.hdf5": r"cannot be read as HDF5.*looks like a web page",
        "lfs.hdf5": r"Git LFS pointer",
        "swapped.npz": r"looks like an HDF5 file \(rename it to .hdf5\)",
        "cut.hdf5": r"cannot be read as HDF5 \(OSError: .*truncated",
    }
    for name, words in cases.items():
        with pytest.raises(DataError, match=words):
            load(tmp_path / name)


def test_hdf5_that_lacks_what_it_names(tmp_path):
    with h5py.File(write(tmp_path / "group.hdf5", without(LOG, "observations")), "a") as file:
        file["observations/left"] = LOG["observations"]
    with pytest.raises(DataError, match=r"no column 'observations' \(did you mean 'observations/left'"):
        load(tmp_path / "group.hdf5")
    with h5py.File(write(tmp_path / "holes.hdf5", without(LOG, "rewards")), "a") as file:
        file.create_dataset("rewards", (16,), "f4", chunks=(4,))[:8] = 1
    with pytest.raises(DataError, match=r"part of column 'rewards' was never written"):
        load(tmp_path / "holes.hdf5")
    with h5py.File(write(tmp_path / "space.hdf5", without(LOG, "rewards")), "a") as file:
        file["rewards"] = h5py.Empty("f4")
    with pytest.raises(DataError, match=r"column 'rewards' has no data space"):
        load(tmp_path / "space.hdf5")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_checksum_that_is_wrong_is_seen(tmp_path, save):
    path = tmp_path / "log.npz"
    save(path, **LOG)
    with zipfile.ZipFile(path) as archive:
        checksum = archive.getinfo("rewards.npy").CRC
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", checksum), struct.pack("<I", checksum ^ 1)))
    with pytest.raises(DataError, match=r"Bad CRC-32 for file 'rewards.npy'"):
        load(path)


def test_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("it was unpickled",))

    np.savez(tmp_path / "trap.npz", **without(LOG, "rewards"), rewards=np.array([Trap()] * 16))
    with pytest.raises(DataError, match=r"type object.*never unpickled"):
        load(tmp_path / "trap.npz")


# What has to be known


def far(log, rows):
    """Return the log with the observations of these rows moved away."""
    return changed(log, "observations", rows, 40.0)


def test_one_warning_sums_up_every_finding(tmp_path):
    path = write(
        tmp_path / "log.npz", {**changed(LOG, "actions", (3, 0), 2.0), "infos": np.zeros(16), "costs": np.zeros(16)}
    )
    with pytest.warns(o3data.DataWarning, match=r"log.npz: 3 findings: \(1\).*\(2\).*\(3\)") as caught:
        data = load(path)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(data.info.findings) == 3
    with pytest.warns(o3data.DataWarning) as caught:
        from_arrays({**LOG, "infos": 1})
    assert caught[0].filename == __file__


def test_actions_outside_the_box_are_kept_and_counted():
    data, said = quiet(changed(LOG, "actions", ([3, 5], 0), [2.0, -4.0]))
    assert "2 rows (12.5%) hold an action outside [-1, 1]" in said
    assert "action_low" in said
    assert data.table[3, 3] == 2.0
    assert len(data.usable) == 16
    assert "outside the given box" in quiet(changed(LOG, "actions", (3, 0), 5.0), action_low=-2, action_high=2)[1]


def test_stale_first_observations_are_left_out():
    data, said = quiet(far(LOG, [0, 10]))
    assert "2 of 3 episodes begin with an observation that seems left over from elsewhere" in said
    assert "row 0)" in said
    assert set(range(16)) - set(data.usable.tolist()) == {0, 10}
    np.testing.assert_array_equal(data.initial, [6])
    assert data.table[0, 0] == 40.0
    data, said = quiet(far(LOG, [0, 6, 10]))  # none is left: the second rows, whose observations are right
    np.testing.assert_array_equal(data.initial, [1, 7, 11])
    assert "the second ones serve as initial states" in said


def test_an_entry_that_moves_only_at_the_start_is_no_sign_of_staleness():
    log = {name: np.array(column) for name, column in LOG.items()}
    first = np.isin(np.arange(16), [0, 6, 10])
    log["observations"][:, 2], log["next_observations"][:, 2] = first, 0
    assert quiet(log)[0].info.findings == ()
    log["observations"][:], log["next_observations"][:] = 1, 1  # nothing moves at all
    assert quiet(log)[0].info.findings == ()


def test_an_unfinished_tail_is_left_out():
    log = make_log((6, 4, 6, 3))
    log["terminals"][-1] = False
    data, said = quiet(log)
    assert "3 rows after the last flag (from row 16) belong to an unfinished episode" in said
    assert "longer" not in said
    assert len(data.table) == 19
    assert data.usable.max() == 15
    assert len(data.episodes.start) == 3
    assert o3data.unpack(data.table, data.info).first[16] == 1
    assert 16 not in data.initial
    np.testing.assert_allclose(data.episodes.returns[2], log["rewards"][10:16].sum(), rtol=1e-5)
    log["timeouts"][10:] = False
    log["terminals"][10:] = False
    assert "longer than any finished episode (6): are flags missing?" in quiet(log)[1]


def test_flags_that_contradict_or_look_wrong():
    data, said = quiet(changed(LOG, "terminals", 5, 1))
    assert "1 row carry both flags: a terminal wins" in said
    rows = o3data.unpack(data.table, data.info)
    assert rows.terminal[5] == rows.timeout[5] == 1
    log = make_log((5, 5, 5))
    said = quiet({**log, "terminals": log["timeouts"], "timeouts": log["terminals"]})[1]
    assert "3 of 3 episodes end in a terminal after exactly 5 steps" in said
    assert "belongs in 'timeouts'" in said
    inverted = {**LOG, "terminals": np.ones(16), "timeouts": np.zeros(16)}
    assert "16 of 16 episodes have a single step: are the flags inverted?" in quiet(inverted)[1]


def test_rows_that_do_not_follow_each_other():
    log = make_log((6, 4, 6, 6, 6))
    log["timeouts"][5] = False  # two episodes counted as one
    said = quiet(log)[1]
    assert "In 1 of 24 rows inside episodes" in said
    assert "first at row 5" in said
    assert "flag may be missing" in said
    order = np.random.default_rng(0).permutation(28)
    flags = {name: log[name] for name in ("terminals", "timeouts")}
    _, said = quiet({**{name: column[order] for name, column in log.items()}, **flags})
    assert "the rows look shuffled" in said


def test_what_the_signals_do_not_show():
    assert "Every cost is zero" in quiet({**LOG, "costs": np.zeros(16)})[1]
    assert "Every cost 2 of 2 is zero" in quiet({**LOG, "costs": np.eye(16)[:, [0, 1]] * [1, 0]})[1]
    assert "not always 0 or 1 (another value in 1 row, up to 7)" in quiet(changed(LOG, "costs", 3, 7.0))[1]
    assert "Every reward is 2" in quiet({**LOG, "rewards": np.full(16, 2.0)})[1]
    assert "Not used: infos." in quiet({**LOG, "infos": 1})[1]


def test_missing_next_observations_are_derived_where_that_is_true():
    data, said = quiet(without(LOG, "next_observations"))
    assert "There is no column 'next_observations'" in said
    rows = o3data.unpack(data.table, data.info)
    inside = np.setdiff1d(np.arange(16), [5, 9, 15])
    np.testing.assert_array_equal(rows.next_obs[inside], LOG["next_observations"][inside])
    np.testing.assert_array_equal(rows.next_obs[[5, 9, 15]], LOG["observations"][[5, 9, 15]])
    assert set(range(16)) - set(data.usable.tolist()) == {5, 15}  # timeouts; row 9 is a terminal
    data, _ = quiet(changed(without(LOG, "next_observations"), "terminals", 5, 1))  # a terminal wins
    assert set(range(16)) - set(data.usable.tolist()) == {15}


# Batches


def test_only_usable_rows_are_drawn_scaled_and_clipped():
    log = changed(far(make_log((6, 4, 6, 3)), [0, 10]), "actions", (slice(None), 0), np.linspace(-3, 3, 19))
    log["terminals"] = log["terminals"].copy()
    log["terminals"][-1] = False
    data, _ = quiet(log)
    data = o3data.scale_costs(o3data.clip_rewards(data, percentile=50), 10.0)
    batch = jax.jit(o3data.draw, static_argnums=2)(jax.random.key(0), data, (50, 40))
    assert batch.obs.shape == (50, 40, 3)
    assert batch.reward.shape == (50, 40)
    assert batch.cost.shape == (50, 40, 1)
    found = {tuple(obs) for obs in np.asarray(batch.obs).reshape(-1, 3).tolist()}
    assert found == {tuple(obs) for obs in log["observations"][data.usable].tolist()}
    assert jnp.abs(batch.action).max() == 1.0
    assert set(np.unique(batch.cost)) == {0.0, 10.0}
    clip = np.percentile(np.abs(log["rewards"]).astype(float), 50)
    np.testing.assert_allclose(jnp.abs(batch.reward).max(), 0.9, rtol=1e-6)
    row = int(np.flatnonzero((log["observations"] == np.asarray(batch.obs)[0, 0]).all(1))[0])
    np.testing.assert_allclose(batch.reward[0, 0], np.clip(log["rewards"][row], -clip, clip) * 0.9 / clip, rtol=1e-5)
    assert data.table[row, 5] == log["rewards"][row]  # as logged
    starts = o3data.draw_initial(jax.random.key(1), data, (100,))
    assert {tuple(obs) for obs in starts.tolist()} == {tuple(log["observations"][6].tolist())}


def test_lanes_share_the_data():
    data = from_arrays(LOG)
    keys = jax.random.split(jax.random.key(0), 3)
    lanes = jax.vmap(o3data.draw, (0, None, None))(keys, data, (4,))
    for lane, key in enumerate(keys):
        one = jax.tree.map(lambda part, lane=lane: part[lane], lanes)
        jax.tree.map(np.testing.assert_array_equal, one, o3data.draw(key, data, (4,)))
    assert o3data.draw(keys[0], data, ()).obs.shape == (3,)
    # One random access to memory per row; one more for its number where some rows must not be drawn.
    for part, gathers in ((data, 1), (data._replace(usable=data.usable[1:]), 2)):
        program = str(jax.make_jaxpr(o3data.draw, static_argnums=2)(keys[0], part, (4,)))
        assert program.count("gather[") == gathers


# Transforms


def test_sparse_rewards_fall_back_to_the_largest():
    log = {**LOG, "rewards": np.where(np.arange(16) == 3, 5.0, 0.0)}
    with pytest.warns(o3data.DataWarning, match=r"Rewards are sparse.*largest \|r\|, 5"):
        data = o3data.clip_rewards(from_arrays(log), percentile=50)
    np.testing.assert_allclose([data.scaling.clip, data.scaling.reward], [5.0, 0.18])
    assert "sparse" in data.info.findings[-1]
    data, _ = quiet({**LOG, "rewards": np.zeros(16)})
    with pytest.warns(o3data.DataWarning, match="Every reward is 0"):
        assert o3data.clip_rewards(data).scaling.reward == 1


@pytest.mark.parametrize(("percentile", "target"), [(0, 0.9), (101, 0.9), (99, 0.0), (99, np.nan)])
def test_reward_clipping_refuses_what_cannot_be(percentile, target):
    with pytest.raises(ConfigError, match="percentile"):
        o3data.clip_rewards(from_arrays(LOG), percentile, target)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, [1.0, 2.0]])
def test_cost_scale_must_be_positive(scale):
    with pytest.raises(ConfigError, match="cost_scale"):
        o3data.scale_costs(from_arrays(LOG), scale)


def test_observation_statistics_are_of_usable_rows():
    data, _ = quiet(far(LOG, [0]))
    mean, std = o3data.observation_statistics(data)
    obs = LOG["observations"][1:].astype(np.float64)
    np.testing.assert_allclose(mean, obs.mean(0), rtol=1e-5)
    np.testing.assert_allclose(std, obs.std(0) + 1e-3, rtol=1e-5)


# Descriptions


def test_description_counts_what_is_there():
    data, _ = quiet(changed(far(LOG, [0]), "actions", (3, 0), 2.0))
    facts = o3data.describe(data)
    assert (facts["rows"], facts["usable_rows"], facts["episodes"], facts["initial_states"]) == (16, 15, 3, 2)
    assert facts["length"] == {"min": 4, "median": 6.0, "max": 6}
    assert (facts["terminals"], facts["timeouts"]) == (1, 2)
    assert (facts["stale_first_observations"], facts["actions_outside_box"]) == (1, 1)
    costs, returns = data.episodes.costs[:, 0], data.episodes.returns
    assert facts["cost"] == [{"min": costs.min(), "median": np.median(costs), "max": costs.max()}]
    assert facts["within"][0] == {"limit": 0, "episodes": 0, "best_return": None}
    assert facts["within"][1] == {"limit": 5, "episodes": 3, "best_return": float(returns.max())}
    text = o3data.render(facts)
    assert max(map(len, text.splitlines())) <= 80
    assert "16, of which 15 can be sampled" in text
    assert "* 1 of 3 episodes begin" in text
    text = o3data.render(o3data.describe(from_arrays(make_log(costs=2), action_low=[-1, -2], action_high=[1, 2])))
    assert "every cost <=" in text
    assert "cost 2" in text
    assert "[-1, 1] x [-2, 2]" in text


def test_a_limit_below_the_cheapest_episode_is_said():
    data = from_arrays(LOG)  # costs 2, 2, 2
    assert o3data.cheapest_warning(data, 2) is None
    said = o3data.cheapest_warning(data, 0.5)
    assert said is not None
    assert "limit 0.5 is below the cheapest logged episode (2)" in said
    both, _ = quiet({**LOG, "costs": np.stack([np.arange(16) < 6, np.arange(16) >= 6], 1)})
    assert "none" not in str(o3data.cheapest_warning(both, [6, 0]))
    assert "no logged episode keeps all the limits at once" in str(o3data.cheapest_warning(both, [0, 0]))
    assert "limit -1 on cost 2 is below" in str(o3data.cheapest_warning(both, [0, -1]))
    with pytest.raises(ConfigError, match="2 entries, but the log has 1"):
        o3data.cheapest_warning(data, [1, 2])


def test_spans_cover_the_table():
    info = from_arrays(make_log(costs=2)).info
    rows = np.arange(o3data.width(info))
    parts = [np.atleast_1d(rows[span]) for span in spans_of(info)]
    np.testing.assert_array_equal(np.concatenate(parts), rows)
