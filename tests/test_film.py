"""Films: the episode that is shown is the first that is evaluated, and the account below it is the episode's."""

import numpy as np
import pytest
from PIL import Image

from o3srl.cli import main
from o3srl.envs.interpreters import VARIABLE
from o3srl.errors import ConfigError, SimulatorError
from o3srl.experiment.evaluation import Evaluation, evaluate
from o3srl.film import scene, strip
from o3srl.film.episode import film
from tests import plant
from tests.conftest import walk
from tests.test_gym import HERE

SMALL = ["--updates", "20", "--batch-size", "8", "--td3-bc.hidden", "8"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    directory = tmp_path_factory.mktemp("film") / "run"
    assert main(["train", "--task", "toy-hover", "--seeds", "1", "2", "--out", str(directory), *SMALL]) == 0
    return directory


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("film-plant")
    box = plant.Plant.action_space
    log = {
        **walk(episodes=4, length=12, obs_dim=plant.OBS, action_dim=plant.ACTION),
        "action_low": box.low,
        "action_high": box.high,
    }
    np.savez(folder / "log.npz", **log)
    words = ["train", "--data", str(folder / "log.npz"), "--horizon", "12", "--out", str(folder / "run"), *SMALL]
    assert main(words) == 0
    return folder / "run"


@pytest.fixture
def beside_the_plant(monkeypatch):
    monkeypatch.chdir(HERE)
    monkeypatch.delenv(VARIABLE, raising=False)


def frames_of(path):
    with Image.open(path) as film:
        return film.n_frames


def test_a_film_shows_the_first_episode_of_the_evaluation(toy, tmp_path):
    evaluated = evaluate(toy, Evaluation(episodes=2, seed=3))
    for lane in (0, 1):
        filmed = film(toy, Evaluation(seed=3), lane, tmp_path / f"{lane}.gif")
        assert filmed.reward == pytest.approx(evaluated["lanes"][lane]["returns"][0], rel=1e-5)
        assert filmed.cost.tolist() == evaluated["lanes"][lane]["costs"][0]
        assert filmed.steps < frames_of(tmp_path / f"{lane}.gif")


def test_a_simulators_camera_is_asked_for_every_frame(simulated, tmp_path, beside_the_plant):
    asked = Evaluation(episodes=1, task="plant:Seen", seed=1)
    evaluated = evaluate(simulated, asked)
    filmed = film(simulated, asked, 0, tmp_path / "film.gif")
    assert filmed.reward == pytest.approx(evaluated["lanes"][0]["returns"][0])
    assert frames_of(tmp_path / "film.gif") >= filmed.steps
    with Image.open(tmp_path / "film.gif") as first:
        pixels = np.asarray(first.convert("RGB"))
    assert (abs(pixels[:300].astype(int) - plant.Seen.color) < 12).all()  # above the strip


def test_a_task_without_a_camera_says_so_and_nothing_is_written(simulated, tmp_path, beside_the_plant):
    with pytest.raises(SimulatorError, match="it has no camera"):
        film(simulated, Evaluation(task="plant:Plant"), 0, tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("task", ["toy-run", "toy-circle", "toy-hover"])
def test_scenes_move_as_their_bodies_do(task):
    entries = 3 if task == "toy-run" else 4
    still = np.zeros((3, entries), np.float32)
    moving = still.copy()
    moving[1:, 0] = 0.5
    resting, gone = scene.drawn(task, still), scene.drawn(task, moving)
    assert resting[0].shape == (*scene.SIZE[::-1], 3)
    np.testing.assert_array_equal(resting[0], resting[2])
    np.testing.assert_array_equal(resting[0], gone[0])
    assert (resting[2] != gone[2]).any()


def test_the_account_tells_sums_and_is_red_beyond_the_limit():
    frames = [np.full((300, 480, 3), 255, np.uint8)] * 4
    account = strip.Account(np.ones(3), np.array([[0.0], [1.0], [1.0]]), np.array([1.0]), "x")
    pictures = [np.asarray(picture) for picture in strip.with_account(frames, account)]
    assert all(picture.shape == (300 + strip.STRIP, 480, 3) for picture in pictures)

    def red(picture):
        return int(((picture[..., 0] > 150) & (picture[..., 1] < 100)).sum())

    below, above = [red(picture[300:]) for picture in pictures], [red(picture[:300]) for picture in pictures]
    assert below[0] == below[1] == below[2] == 0 < below[3]
    assert above[0] == above[1] == 0 < above[2] == above[3]  # a frame around a step that costs
    assert len(strip.with_account(frames[:2], account, every=2)) == 2


@pytest.mark.parametrize(
    ("name", "words"), [("film.avi", "end in"), ("taken.gif", "exists"), ("nowhere/film.gif", "no folder")]
)
def test_a_film_that_cannot_be_written_is_refused_before_anything_is_simulated(toy, tmp_path, name, words):
    (tmp_path / "taken.gif").write_text("mine")
    with pytest.raises(ConfigError, match=words):
        film(toy, Evaluation(), 0, tmp_path / name)
    assert (tmp_path / "taken.gif").read_text() == "mine"
    with pytest.raises(ConfigError, match="lanes 0 to 1"):
        film(toy, Evaluation(), 2, tmp_path / "film.gif")


def test_an_mp4_without_ffmpeg_says_what_to_do(toy, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="takes ffmpeg"):
        film(toy, Evaluation(), 0, tmp_path / "film.mp4")


def test_the_command_films(toy, tmp_path, capsys):
    assert main(["evaluate", str(toy), "--render", str(tmp_path / "film.gif"), "--lane", "1"]) == 0
    assert "steps, reward" in capsys.readouterr().out
    assert (tmp_path / "film.gif").stat().st_size > 1000
