"""DSRL's logs by task (Liu et al. 2024, https://arxiv.org/abs/2306.09303), from the Hugging Face Hub.

The Hub's own client fetches them: it keeps files in its cache (HF_HOME), takes up a broken connection where it broke,
and heeds HF_HUB_OFFLINE, a mirror in HF_ENDPOINT and a token in HF_TOKEN. Here a file is also compared with the sha256
that the Hub promises, loaded, and counted, before it is called fetched; one that is damaged does not stay in the cache.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from o3srl.data.check import counted
from o3srl.data.findings import DataWarning
from o3srl.data.read import load
from o3srl.envs.tasks import BUILT_IN, Log, Task, check_fits
from o3srl.errors import ConfigError, DataError, DownloadError
from o3srl.files import aside
from o3srl.types import Data

REPOSITORY = "YYY-45/DSRL"  # where DSRL's own dsrl/infos.py points to
HDF5 = (".hdf5", ".h5")
ROUNDED = 2  # by how much the largest cost in a file's name may exceed what dsrl/infos.py says (CarCircle2: 398 of 400)


class Fetched(NamedTuple):
    """DSRL's log of a task: the file in the cache, what it holds, and what is odd next to what DSRL says of it."""

    file: Path
    data: Data
    odd: tuple[str, ...]


def cached(task: Task) -> Path | None:
    """Return DSRL's log of the task where the Hub's client has it in its cache; nothing is asked of the network."""
    return _cached(task.log) if task.log else None


def missing(task: Task) -> str:
    """Return how someone comes by a log of a task that has none here."""
    ways = [f"fetch DSRL's (o3srl data get {task.name})"] if task.log else []
    ways += [
        f"name a file that you have (--task {task.name} --data FILE)",
        f"or make one in the simulator (o3srl collect --task {task.name} --out FILE)",
    ]
    return f"There is no log of {task.name} here: {', '.join(ways)}."


def get(task: Task) -> Fetched:
    """Return DSRL's log of the task, fetched unless the cache has the Hub's present version of it, and checked."""
    log = _log(task)
    file = _fetch(log)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # `o3srl data check` and training say what is in the data
            data = load(file, task=task.name, horizon=task.sizes.horizon if task.sizes else None)
    except DataError as error:
        if isinstance(error.__context__, MemoryError):  # then it is this machine that will not do
            raise
        _discard(file)
        raise DownloadError(
            f"DSRL's log of {task.name} did not pass the checks and was removed from the cache: {error} Run the "
            "command again to fetch it anew; if it fails again, the copy there is damaged: name a mirror (HF_ENDPOINT)."
        ) from error
    check_fits(data.info, task)
    return Fetched(file, data, tuple(_odd(log, data)))


def refuse_target(out: Path) -> None:
    """Raise unless a log may be copied to `out`: an HDF5 file that is not there yet."""
    if out.suffix.lower() not in HDF5:
        raise ConfigError(f"--out {out}: DSRL's logs are HDF5 files; let its name end in {' or '.join(HDF5)}.")
    if out.exists() or out.is_symlink():
        raise ConfigError(f"--out {out} exists already, and is left alone. Name another file, or remove it first.")


def copy(file: Path, out: Path) -> None:
    """Copy a file whole or not at all; its folder is made."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with file.open("rb") as source, aside(out) as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except OSError as error:
        raise DownloadError(
            f"{out} could not be written ({error.strerror}). Name another place, or leave out --out and use the file "
            f"where it lies: {file}"
        ) from error


def _log(task: Task) -> Log:
    if task.log is not None:
        return task.log
    if task.suite == BUILT_IN:
        raise ConfigError(
            f"The log of {task.name} is made on the spot and need not be fetched: o3srl train --task {task.name}."
        )
    raise ConfigError(f"DSRL has no log of {task.name}; `o3srl tasks` lists what it has. {missing(task)}")


def _cached(log: Log) -> Path | None:
    from huggingface_hub import try_to_load_from_cache  # here and below, so that all else does without it

    found = try_to_load_from_cache(REPOSITORY, log.file, repo_type="dataset")
    return Path(found) if isinstance(found, str) else None


def _fetch(log: Log) -> Path:
    """Return the file in the cache, of the size and with the sha256 that the Hub promises."""
    from huggingface_hub import hf_hub_download

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a disk that may be too small: the error says so where it is
            before = _cached(log)
            file = Path(hf_hub_download(REPOSITORY, log.file, repo_type="dataset"))
            promised = _promised(file, log, fresh=file != before)
            actual = _sha256(file) if re.fullmatch(r"[0-9a-f]{64}", promised) else promised
    except Exception as error:  # of the client, of its two ways to transfer, of their HTTP library, of the disk
        raise DownloadError(_explained(log, error)) from error
    if actual != promised:
        _discard(file)
        raise DownloadError(
            f"{log.file} arrived damaged and was removed: its sha256 begins with {actual[:12]}, but the Hub promises "
            f"{promised[:12]}. Run the command again; if this happens again, something between here and {_place()} "
            "changes files: try another network, or a mirror (HF_ENDPOINT)."
        )
    return file


def _promised(file: Path, log: Log, *, fresh: bool) -> str:
    """Return the hash that the Hub knows a cached file by: the name of what the cache links to, else asked for."""
    if file.is_symlink():
        return Path(os.readlink(file)).name
    if not fresh:  # on a disk without links: it was compared when it was fetched
        return ""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(REPOSITORY, log.file, repo_type="dataset")
    return get_hf_file_metadata(url, retry_on_errors=True).etag or ""


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _discard(file: Path) -> None:
    """Remove a file from the cache, and what it links to."""
    while file.is_symlink():
        target = file.parent / os.readlink(file)
        file.unlink()
        file = target
    file.unlink(missing_ok=True)


def _odd(log: Log, data: Data) -> Iterator[str]:
    episodes, most = len(data.episodes.start), float(np.max(np.asarray(data.episodes.costs)))
    if episodes != log.episodes:
        yield f"It holds {counted(episodes, 'finished episode')}, but DSRL's name of the file says {log.episodes:,}."
    if not log.most_cost - ROUNDED <= most <= log.most_cost:
        yield f"The largest cost of an episode is {most:g}, but DSRL's name of the file says {log.most_cost}."


def _place() -> str:
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/datasets/{REPOSITORY}"


def _explained(log: Log, error: Exception) -> str:
    """Return one paragraph for whatever ended a download: what happened, and the way out."""
    from huggingface_hub import constants, errors, is_offline_mode

    cause, cache = _root(error), constants.HF_HUB_CACHE
    answer = getattr(error, "response", None) or getattr(cause, "response", None)
    status = getattr(answer, "status_code", None)
    if is_offline_mode():
        return (
            f"{log.file} is not in the cache ({cache}), and HF_HUB_OFFLINE forbids to fetch it. Unset that variable, "
            "or copy the cache of a machine that has the file."
        )
    full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
    if full or "No space left" in str(cause):  # the second is how the faster of its transfers says it
        return (
            f"{log.file} does not fit on the disk of the cache ({cache}); nothing was kept. Free some space there, or "
            "let HF_HOME name a folder on a larger disk."
        )
    if isinstance(cause, OSError) and cause.filename is not None:
        return (
            f"{log.file} cannot be kept in the cache: {cause.strerror} ({cause.filename}). Let HF_HOME name a folder "
            "that can be written to."
        )
    if status in (401, 403) or isinstance(error, errors.GatedRepoError):
        return (
            f"{_place()} refuses {log.file} (HTTP {status}). If HF_TOKEN is set or you are logged in, that token may "
            "be wrong or too old: unset it, or log in anew with `hf auth login`. The Hub also answers so where there "
            "is no such dataset any more: then name a mirror (HF_ENDPOINT), or a file got elsewhere (--data FILE)."
        )
    if status == 404:
        return (
            f"{_place()} has no {log.file} (HTTP 404): the file has moved, or HF_ENDPOINT names something that mirrors "
            "other things. Look there with a browser; a file got elsewhere works too (--data FILE)."
        )
    said = (str(cause).strip().splitlines() or [""])[0].rstrip(".")
    return (
        f"{log.file} could not be fetched from {_place()}: {said:.200} ({type(cause).__name__}). Check the connection "
        "and run the command again; where the Hub cannot be reached, name a mirror (HF_ENDPOINT=https://...), or a "
        "file got elsewhere (--data FILE)."
    )


def _root(error: BaseException) -> BaseException:
    """Return what an error goes back to, as far as its message is for people."""
    while True:
        if isinstance(error, OSError) and error.errno is not None:
            return error
        following = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if following is None:
            return error
        error = following
