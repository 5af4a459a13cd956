"""DSRL's logs from a Hub on loopback: fetched, taken up, checked, kept; and what is said where that fails."""

import errno
import logging
import os
import re
import subprocess
import sys
import time

import pytest

from o3srl.cli import main
from o3srl.data import dsrl
from o3srl.envs import tasks
from o3srl.envs.tasks import TASKS, Log
from o3srl.experiment.config import RunConfig
from o3srl.experiment.run import load_data, read
from tests.helpers_data import dsrl_log, write
from tests.hub import damaged, serving

pytestmark = pytest.mark.filterwarnings("ignore::o3srl.data.DataWarning")  # the log is odd on purpose

EPISODES = 12
TASK = "BallRun"
CHUNK = 4096


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """A file in DSRL's format, as BallRun's is but small."""
    return write(tmp_path_factory.mktemp("log") / "log.hdf5", dsrl_log(EPISODES)).read_bytes()


@pytest.fixture
def hub(content, tmp_path, monkeypatch):
    """A Hub that has the file; the client looks there, keeps its cache here, and waits no long between tries."""
    from huggingface_hub import constants

    log = Log(f"SafetyBallRun-v0-{EPISODES - 1}-{EPISODES}.hdf5", EPISODES, EPISODES - 1)
    monkeypatch.setitem(TASKS, TASK, TASKS[TASK]._replace(log=log))
    with serving() as served:
        served.files[log.file] = content
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{served.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", CHUNK)
        monkeypatch.setattr(logging.getLogger("huggingface_hub"), "handlers", [])  # they hold another test's stderr
        sleep = time.sleep
        monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.01)))
        yield served


def kept(tmp_path):
    """Everything in the cache that has content: nothing else may pass for a log."""
    cache = tmp_path / "hub"
    return [*cache.rglob("*SafetyBallRun*"), *cache.rglob("blobs/*")]


def _raise(said):
    raise RuntimeError(said)


def told(capsys):
    """The one paragraph of an error, after what the client logged on the way to it."""
    said = capsys.readouterr().err
    assert "Traceback" not in said
    paragraph = said[re.search("^Error: ", said, re.MULTILINE).start() :].strip()
    assert "\n" not in paragraph
    return paragraph


def test_a_log_is_fetched_once_checked_and_trained_on(hub, content, tmp_path, capsys):
    assert dsrl.cached(TASKS[TASK]) is None
    assert main(["data", "get", TASK]) == 0
    file = dsrl.cached(TASKS[TASK])
    said = capsys.readouterr().out
    assert f"{EPISODES} episodes" in said
    assert str(file) in said
    assert f"o3srl train --task {TASK} --limit 5" in said
    assert "odd" not in said
    assert file is not None
    assert file.read_bytes() == content
    assert file.is_relative_to(tmp_path / "hub")
    assert main(["data", "get", TASK]) == 0
    assert len(hub.asked("GET")) == 1
    small = ["--bc.hidden", "8", "8", "--batch-size", "8", "--updates", "20", "--seeds", "1"]
    assert main(["train", "bc", "--task", TASK, *small, "--out", str(tmp_path / "run")]) == 0
    data = load_data(RunConfig(task=TASK))
    assert read(tmp_path / "run")[1] == data.info
    assert (data.info.task, data.info.source, len(data.episodes.start)) == (TASK, str(file), EPISODES)
    assert data.info.horizon == TASKS[TASK].sizes.horizon
    capsys.readouterr()
    assert main(["tasks"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if TASK in line] == ["here"]


def test_a_broken_connection_is_taken_up_where_it_broke(hub, content):
    hub.gets = [5 * CHUNK + 17, 3 * CHUNK + 1]
    file, _, _ = dsrl.get(TASKS[TASK])
    assert file.read_bytes() == content
    ranges = [asked.headers.get("range") for asked in hub.asked("GET")]
    assert ranges == [None, f"bytes={5 * CHUNK}-", f"bytes={8 * CHUNK}-"]


def test_a_connection_that_always_breaks_ends(hub, tmp_path, capsys):
    hub.gets = [0] * 50
    assert main(["data", "get", TASK]) == 2
    assert "could not be fetched from" in told(capsys)
    assert len(hub.gets) > 40
    assert not kept(tmp_path)


@pytest.mark.parametrize("links", [True, False])
def test_what_arrives_damaged_is_refused_and_not_kept(links, hub, content, tmp_path, monkeypatch, capsys):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    hub.gets = ["damage"]
    assert main(["data", "get", TASK]) == 2
    assert "arrived damaged and was removed" in told(capsys)
    assert not kept(tmp_path)
    assert dsrl.cached(TASKS[TASK]) is None
    assert main(["data", "get", TASK]) == 0
    file = dsrl.cached(TASKS[TASK])
    assert file is not None
    assert file.read_bytes() == content
    assert file.is_symlink() == links


@pytest.mark.parametrize("spoiled", [lambda content: content[:-3000], lambda content: b"<html>moved</html>"])
def test_what_is_no_log_is_refused_and_not_kept(spoiled, hub, content, tmp_path, capsys):
    hub.files = {name: spoiled(content) for name in hub.files}
    assert main(["data", "get", TASK]) == 2
    assert "did not pass the checks and was removed" in told(capsys)
    assert not kept(tmp_path)


def test_a_log_larger_than_the_memory_is_no_damage(hub, monkeypatch, capsys):
    def none(*_, **__):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("o3srl.data.build.np.empty", none)
        assert main(["data", "get", TASK]) == 2
    assert "do not fit into this machine's memory" in told(capsys)
    assert dsrl.cached(TASKS[TASK]) is not None


def test_a_file_that_was_damaged_in_the_cache_is_found_and_fetched_anew(hub, content, tmp_path, capsys):
    file = dsrl.get(TASKS[TASK]).file
    file.resolve().write_bytes(damaged(content))
    assert main(["data", "get", TASK]) == 2
    assert "damaged" in told(capsys)
    assert not kept(tmp_path)
    assert dsrl.get(TASKS[TASK]).file.read_bytes() == content


def test_a_hub_that_is_busy_is_asked_again(hub, content):
    hub.heads = [503, 503]
    assert dsrl.get(TASKS[TASK]).file.read_bytes() == content


CODES = {
    401: ["refuses", "hf auth login"],
    403: ["refuses", "hf auth login"],
    404: ["HTTP 404", "--data FILE"],
    500: ["could not be fetched", "500", "HF_ENDPOINT"],
    503: ["could not be fetched", "503", "HF_ENDPOINT"],
}


@pytest.mark.parametrize("code", list(CODES))
def test_a_hub_that_refuses(code, hub, tmp_path, capsys):
    hub.heads = [code] * 50
    assert main(["data", "get", TASK]) == 2
    said = told(capsys)
    assert all(part in said for part in [*CODES[code], TASKS[TASK].log.file, hub.url])
    assert len(hub.heads) > 30
    assert not kept(tmp_path)


def test_a_file_that_the_hub_has_no_more(hub, capsys):
    hub.files = {}
    assert main(["data", "get", TASK]) == 2
    assert "HTTP 404" in told(capsys)


@pytest.mark.parametrize("links", [True, False])
def test_no_network(links, hub, monkeypatch, capsys):
    from huggingface_hub import constants

    template = constants.HUGGINGFACE_CO_URL_TEMPLATE
    nowhere = template.replace(hub.url, "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", nowhere)
    assert main(["data", "get", TASK]) == 2
    said = told(capsys)
    assert "onnection refused" in said
    assert "HF_ENDPOINT" in said
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    file = dsrl.get(TASKS[TASK]).file
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", nowhere)
    assert dsrl.get(TASKS[TASK]).file == file  # what is there serves


@pytest.mark.parametrize("links", [True, False])
def test_offline(links, hub, monkeypatch, capsys):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert main(["data", "get", TASK]) == 2
    said = told(capsys)
    assert "HF_HUB_OFFLINE" in said
    assert str(constants.HF_HUB_CACHE) in said
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    file = dsrl.get(TASKS[TASK]).file
    before = len(hub.requests)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert dsrl.get(TASKS[TASK]).file == file
    assert load_data(RunConfig(task=TASK)).info.source == str(file)
    assert len(hub.requests) == before


def test_a_full_disk_and_a_cache_that_cannot_be_written(hub, tmp_path, monkeypatch, capsys):
    from huggingface_hub import constants, file_download

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(file_download, "http_get", full)
        assert main(["data", "get", TASK]) == 2
    said = told(capsys)
    assert "does not fit on the disk" in said
    assert "HF_HOME" in said
    assert not kept(tmp_path)
    with monkeypatch.context() as patched:  # as the other of the client's transfers says it
        patched.setattr(file_download, "http_get", lambda *_, **__: _raise("No space left on device (os error 28)"))
        assert main(["data", "get", TASK]) == 2
    assert "does not fit on the disk" in told(capsys)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "file" / "hub"))
    assert main(["data", "get", TASK]) == 2
    said = told(capsys)
    assert "cannot be kept in the cache" in said
    assert "HF_HOME" in said


def test_a_token_goes_to_the_hub_and_not_to_the_host_of_the_content(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_0123")
    dsrl.get(TASKS[TASK])
    assert [asked.headers.get("authorization") for asked in hub.asked("HEAD")] == ["Bearer hf_0123"]
    assert [asked.headers.get("authorization") for asked in hub.asked("GET")] == [None]


def test_a_copy_is_made_where_it_is_asked_for_and_over_nothing(hub, content, tmp_path, capsys):
    out = tmp_path / "logs" / "ball.hdf5"
    assert main(["data", "get", TASK, "--out", str(out)]) == 0
    assert out.read_bytes() == content
    assert f"o3srl train --task {TASK} --data {out}" in capsys.readouterr().out
    asked = len(hub.requests)
    out.write_text("mine")
    assert main(["data", "get", TASK, "--out", str(out)]) == 2
    assert "exists already" in told(capsys)
    assert main(["data", "get", TASK, "--out", str(tmp_path / "ball.npz")]) == 2
    assert ".hdf5" in told(capsys)
    assert main(["data", "get", TASK, "--out", str(out / "deeper.hdf5")]) == 2
    assert "could not be written" in told(capsys)
    assert out.read_text() == "mine"
    assert len(hub.requests) <= asked + 1
    assert sorted(path.name for path in out.parent.iterdir()) == ["ball.hdf5"]


def test_what_differs_from_the_name_is_said(hub, monkeypatch, capsys):
    log = TASKS[TASK].log
    monkeypatch.setitem(TASKS, TASK, TASKS[TASK]._replace(log=log._replace(episodes=940, most_cost=80)))
    assert main(["data", "get", TASK]) == 0
    said = capsys.readouterr().out
    assert f"odd: It holds {EPISODES} finished episodes, but DSRL's name of the file says 940." in said
    assert f"odd: The largest cost of an episode is {EPISODES - 1}, but DSRL's name of the file says 80." in said


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("BalRun", ["did you mean BallRun"]),
        ("toy-circle", ["made on the spot", "o3srl train --task toy-circle"]),
        ("my_plant:make", ["DSRL has no log of my_plant:make", "o3srl collect"]),
    ],
)
def test_tasks_without_a_log_to_fetch(task, parts, hub, capsys):
    assert main(["data", "get", task]) == 2
    said = told(capsys)
    assert all(part in said for part in parts)
    assert not hub.requests


def test_training_without_a_log_says_how_to_come_by_one(hub, tmp_path, capsys):
    assert main(["train", "--task", TASK, "--out", str(tmp_path / "run")]) == 2
    said = told(capsys)
    for way in (f"o3srl data get {TASK}", "--data FILE", f"o3srl collect --task {TASK} --out"):
        assert way in said
    assert not (tmp_path / "run").exists()
    assert not hub.requests


def test_every_dsrl_task_has_a_file_of_its_own():
    from huggingface_hub import hf_hub_url

    logs = {task.name: task.log for task in TASKS.values() if task.log}
    assert {task.name for task in TASKS.values() if task.suite != tasks.BUILT_IN} == set(logs)
    assert len({log.file for log in logs.values()}) == len(logs) == 29
    url = hf_hub_url(dsrl.REPOSITORY, logs["BallRun"].file, repo_type="dataset", endpoint="https://huggingface.co")
    assert url == "https://huggingface.co/datasets/YYY-45/DSRL/resolve/main/SafetyBallRun-v0-80-940.hdf5"  # DSRL's own
    assert logs["BallRun"].file == "SafetyBallRun-v0-80-940.hdf5"
    assert logs["PointCircle2"].file == "SafetyPointCircle2Gymnasium-v0-300-895.hdf5"
    assert logs["AntVelocity"].file == "SafetyAntVelocityGymnasium-v1-250-2249.hdf5"


def test_the_variables_of_the_client_count(content, tmp_path):
    """In processes of their own, for the client reads its variables once: mirror, cache, offline."""

    def get(**variables):
        words, own = [sys.executable, "-m", "o3srl", "data", "get", TASK], {**os.environ, **variables}
        return subprocess.run(words, capture_output=True, text=True, timeout=120, env=own)

    with serving() as served:
        served.files[TASKS[TASK].log.file] = content
        own = {"HF_ENDPOINT": served.url, "HF_HOME": str(tmp_path / "home")}
        absent = get(HF_HUB_OFFLINE="1", **own)
        assert absent.returncode == 2
        assert "HF_HUB_OFFLINE" in absent.stderr
        assert not served.requests
        fetched = get(**own)
        assert fetched.returncode == 0, fetched.stderr
        assert str(tmp_path / "home" / "hub") in fetched.stdout
        assert len(served.asked("GET")) == 1
