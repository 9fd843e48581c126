"""A bucket on the loopback: what of S3 artifacts take, over HTTP as its clients speak it.

`COMMONBRAIN_TEST_S3_URL` names a whole server to use instead, such as that of moto, whose
requirements no environment with ours can have: `uvx --from 'moto[server]' moto_server -p 5000`.
"""

import hashlib
import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.request import Request, urlopen

SERVER_URL = "COMMONBRAIN_TEST_S3_URL"


class _Server(ThreadingHTTPServer):
    """Keeps buckets and what lies in them for as long as it runs."""

    buckets: set[str]
    objects: dict[str, bytes]


class _Handler(BaseHTTPRequestHandler):
    """Speaks of one path: `/BUCKET`, or `/BUCKET/KEY`."""

    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] there is no other
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        _, bucket, *key = self.path.split("/", 2)
        if not key:
            self.server.buckets.add(bucket)
        if bucket not in self.server.buckets:
            return self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        self.server.objects[self.path] = content
        return self._answer(200)

    def do_GET(self) -> None:
        content = self.server.objects.get(self.path)
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        else:
            self._answer(200, content)

    def do_POST(self) -> None:
        """Delete what a list names."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        bucket = self.path.split("/")[1].partition("?")[0]
        if bucket not in self.server.buckets:
            return self._answer(404, b"<Error><Code>NoSuchBucket</Code></Error>")
        keys = re.findall("<Key>(.*?)</Key>", body)
        for key in keys:
            self.server.objects.pop(f"/{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return self._answer(200, f"<DeleteResult>{deleted}</DeleteResult>".encode())

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"')
        self.send_header("Last-Modified", "Mon, 02 Mar 2026 12:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the parent's name
        """Say nothing."""


@contextmanager
def s3_server() -> Generator[str]:
    """Run it on a free port; give its URL."""
    if SERVER_URL in os.environ:
        yield os.environ[SERVER_URL]
        return
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.buckets, server.objects = set(), {}
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def put(url: str, content: bytes = b"") -> None:
    """Make a bucket, or put an object there as anybody could who may write to it."""
    with urlopen(Request(url, data=content, method="PUT"), timeout=30):  # noqa: S310 our own server
        pass
