"""`brain ui`, as a person starts it: its link, its end, and its output."""

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx2
import pytest

import commonbrain
from commonbrain.jobs.worker import Worker
from commonbrain.model.limits import JOB_LEASE_S
from commonbrain.testing.builders import FakeClock
from tests.in_process import run_brain
from tests.laid_out_stores import lay_out_store
from tests.processes import TIMEOUT_S, clean_environment, command, until

POTS = 240
"""Memories whose import takes longer than the command takes to end."""
CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')
LINK = re.compile(r"http://127\.0\.0\.1:\d+/[\w-]{22}/open\?token=\S+")


@dataclass(frozen=True)
class Page:
    """The command with a browser that writes its arguments into a file."""

    process: subprocess.Popen[str]
    arguments: Path
    link: str

    @property
    def address(self) -> str:
        return self.link.partition("/open")[0]

    def redirect(self) -> Path:
        """Give the file that the browser opens."""
        opened = self.arguments.read_text("utf-8").strip()
        assert opened.startswith("file://")
        assert "token" not in opened
        return Path(url2pathname(urlsplit(opened).path))

    def end_by(self, end: signal.Signals) -> str:
        """Send a signal; give the rest of stderr."""
        self.process.send_signal(end)
        return self.process.communicate(timeout=TIMEOUT_S)[1]


@pytest.fixture
def page(path: Path, tmp_path: Path) -> Iterator[Page]:
    arguments, browser = tmp_path / "arguments", tmp_path / "browser"
    script = f'#!/bin/sh\necho "$@" > {arguments}.new\nmv {arguments}.new {arguments}\n'
    browser.write_text(script, "utf-8")
    browser.chmod(0o700)
    lay_out_store(path)
    process = subprocess.Popen(
        command(path, "ui"),
        env=clean_environment(BROWSER=str(browser)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    link = next(match[0] for line in process.stdout if (match := LINK.search(line)))
    yield Page(process, arguments, link)
    process.kill()
    process.communicate()


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGHUP])
def test_browser_gets_a_private_file_instead_of_the_secret_until_the_end(
    page: Page, end: signal.Signals
) -> None:
    file = page.redirect()
    assert file.stat().st_mode & 0o777 == 0o600
    assert f'content="0; url={page.link}"' in file.read_text("utf-8")

    page.end_by(end)

    assert not file.exists()


def upload(browser: httpx2.Client, address: str, content: bytes) -> None:
    """Send a file by the form of the screen."""
    match = CSRF.search(browser.get(f"{address}/transfer").text)
    assert match is not None
    sent = browser.post(
        f"{address}/transfer/import?csrf={match[1]}",
        data={"format": "markdown"},
        files={"file": ("notes.md", content)},
    )
    assert sent.status_code == 200, sent.text


def jobs_of(browser: httpx2.Client, address: str) -> list[dict[str, Any]]:
    return [one["job"] for one in browser.get(f"{address}/transfer?format=json").json()["jobs"]]


def test_page_opens_by_its_link_alone_and_leaves_an_interrupted_import_for_later(
    page: Page, path: Path
) -> None:
    address, file = page.address, page.redirect()
    assert httpx2.get(address, timeout=TIMEOUT_S).status_code == 401
    assert httpx2.get(f"{address}/?format=json", timeout=TIMEOUT_S).status_code == 401
    many = "".join(f"## Pot {n}\n\nThe pot number {n} of the shop is red.\n\n" for n in range(POTS))
    with httpx2.Client(follow_redirects=True, timeout=TIMEOUT_S) as browser:
        assert "Open the page" in browser.get(page.link).text
        token = page.link.partition("token=")[2]
        assert "Learnt today" in browser.post(f"{address}/open", data={"token": token}).text
        shown = browser.get(f"{address}/?format=json").json()
        assert shown["status"]["memories"] == 0
        upload(browser, address, b"## Tea\n\nThe tea of the office is in the left drawer.\n")
        until(lambda: jobs_of(browser, address)[0]["state"] == "done")
        [first] = jobs_of(browser, address)
        assert first["result"]["stored"] == 1
        upload(browser, address, many.encode())
        until(
            lambda: any(
                one["state"] != "done" and one["progress"] > 0 for one in jobs_of(browser, address)
            )
        )
        complaints = page.end_by(signal.SIGINT)
    assert not file.exists()
    assert token not in complaints
    assert f"The page is at {address}/; Ctrl-C ends it." in complaints
    assert "Traceback" not in complaints
    with commonbrain.open(path) as brain:
        [job] = [one for one in brain.jobs(kind="import").jobs if one.state != "done"]
        assert job.state in {"queued", "running"}
        # A step that was cut off is due when its lease has ended.
        later = FakeClock(brain.services.clock.now() + timedelta(seconds=JOB_LEASE_S))
        worker = Worker(services=replace(brain.services, clock=later), name="w", kinds=("import",))
        worker.sweep()
        assert (brain.jobs.show(job.id).result or {})["stored"] == POTS
        assert brain.status().memories == POTS + 1


def test_port_in_use_is_reported_with_the_next_step(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_brain("--store", str(path), "ui", "--no-browser", "--port", port)
    assert done.status == 2
    assert port in done.err
    assert "Leave out --port" in done.err
