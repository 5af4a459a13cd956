"""A Hugging Face Hub on loopback: what the Hub's client asks for when it fetches a file of a dataset, and faults.

A file is first asked for by HEAD, answered with its commit, size and sha256 and with the address of its content, which
lies on another host, as on the real Hub; from there it comes by GET, whole or from a byte on.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def damaged(content: bytes) -> bytes:
    """Return the content with one bit turned where no reader of HDF5 looks: only a sha256 can tell."""
    return content[:-1] + bytes([content[-1] ^ 1])


class Request(NamedTuple):
    """What the client asked for; headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]


class Hub:
    """files: content by name, under /datasets/YYY-45/DSRL. heads: HTTP codes that the next HEADs get instead of an
    answer. gets: what happens to the next GETs, a number of bytes after which the connection breaks, or "damage"."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.heads: list[int] = []
        self.gets: list[int | str] = []
        self.requests: list[Request] = []
        self.port = 0

    @property
    def url(self) -> str:
        """What HF_ENDPOINT has to be."""
        return f"http://127.0.0.1:{self.port}"

    def asked(self, method: str) -> list[Request]:
        """Return the requests of a method, without those that are not about the dataset."""
        return [asked for asked in self.requests if asked.method == method and "/api/" not in asked.path]


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def log_message(self, *_: Any) -> None:
            pass

        def _note(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            hub.requests.append(Request(self.command, self.path, headers))

        def _answer(self, status: int, **headers: object) -> None:
            self.send_response(status)
            for name, value in {"Content_Length": 0, **headers}.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()

        def do_HEAD(self) -> None:
            self._note()
            name = self.path.removeprefix("/datasets/YYY-45/DSRL/resolve/main/")
            if hub.heads:
                code = hub.heads.pop(0)
                self._answer(code, **({"X_Error_Code": "RepoNotFound"} if code == 401 else {}))
            elif name not in hub.files:
                self._answer(404, X_Repo_Commit=COMMIT, X_Error_Code="EntryNotFound")
            else:
                content = hub.files[name]
                digest = hashlib.sha256(content).hexdigest()
                where = f"http://localhost:{hub.port}/content/{digest}"
                linked = {"X_Linked_Size": len(content), "X_Linked_Etag": f'"{digest}"', "Location": where}
                self._answer(302, X_Repo_Commit=COMMIT, ETag=f'"{COMMIT}"', **linked)

        def do_GET(self) -> None:
            self._note()
            known = {hashlib.sha256(content).hexdigest(): name for name, content in hub.files.items()}
            name = known.get(self.path.rpartition("/")[2])
            if name is None:
                self._answer(404)
                return
            content = hub.files[name]
            begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
            fault = hub.gets.pop(0) if hub.gets else None
            if fault == "damage":
                content = damaged(content)
            part = content[begin:]
            ranges = {"Content_Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"} if begin else {}
            named = {"Content_Disposition": f'inline; filename="{name}";', "Content_Length": len(part)}
            self._answer(206 if begin else 200, **ranges, **named)
            self.wfile.write(part[:fault] if isinstance(fault, int) else part)
            self.close_connection = True

    return Handler


@contextlib.contextmanager
def serving() -> Iterator[Hub]:
    """Yield a hub that answers on loopback until the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
