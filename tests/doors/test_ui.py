"""`brain ui`, as a person starts it: its link, its end, and what it says."""

import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx2
import pytest

import commonbrain
from commonbrain.jobs.worker import Worker
from commonbrain.model.limits import JOB_LEASE_S
from commonbrain.testing.builders import FakeClock
from tests.processes import PATIENCE_S, clean_environment, command

POTS = 640
"""Memories whose import takes longer than the command takes to end."""
CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')
LINK = re.compile(r"http://127\.0\.0\.1:\d+/open\?token=\S+")


@pytest.fixture
def page(path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command(path, "ui", "--no-browser"),
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def link_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return next(match[0] for line in process.stdout if (match := LINK.search(line)))


def test_page_opens_by_its_link_and_ends_by_a_signal(page: subprocess.Popen[str]) -> None:
    link = link_of(page)
    with httpx2.Client(follow_redirects=True, timeout=PATIENCE_S) as browser:
        assert "Learnt today" in browser.get(link).text
        stored = browser.get(link.partition("/open")[0] + "/?format=json").json()
    assert stored["status"]["memories"] == 0
    page.send_signal(signal.SIGINT)
    _, complaints = page.communicate(timeout=PATIENCE_S)
    assert link.partition("token=")[2] not in complaints
    assert "Traceback" not in complaints


@pytest.fixture
def opened(path: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The command with a browser that writes down its arguments, and that file."""
    noted, browser = tmp_path / "arguments", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {noted}.new\nmv {noted}.new {noted}\n', "utf-8")
    browser.chmod(0o700)
    process = subprocess.Popen(
        command(path, "ui"),
        env=clean_environment(BROWSER=str(browser)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process, noted
    process.kill()
    process.communicate()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_browser_gets_a_file_of_its_user_instead_of_the_secret(
    opened: tuple[subprocess.Popen[str], Path], end: signal.Signals
) -> None:
    process, noted = opened
    link = link_of(process)
    address = noted.read_text("utf-8").strip()
    assert address.startswith("file://")
    assert "token" not in address
    file = Path(url2pathname(urlsplit(address).path))
    assert file.stat().st_mode & 0o777 == 0o600
    assert f'content="0; url={link}"' in file.read_text("utf-8")
    with httpx2.Client(follow_redirects=True, timeout=PATIENCE_S) as browser:
        assert "Learnt today" in browser.get(link).text
    process.send_signal(end)
    process.communicate(timeout=PATIENCE_S)
    assert not file.exists()


def test_page_answers_nobody_without_the_link(page: subprocess.Popen[str]) -> None:
    address = link_of(page).partition("/open")[0]
    assert httpx2.get(address, timeout=PATIENCE_S).status_code == 401
    assert httpx2.get(f"{address}/?format=json", timeout=PATIENCE_S).status_code == 401


def upload(browser: httpx2.Client, address: str, content: bytes) -> None:
    """Send a file by the form of the screen."""
    found = CSRF.search(browser.get(f"{address}/transfer").text)
    assert found is not None
    sent = browser.post(
        f"{address}/transfer/import?csrf={found[1]}",
        data={"format": "markdown"},
        files={"file": ("notes.md", content)},
    )
    assert sent.status_code == 200, sent.text


def wait_until(is_so: Callable[[], bool]) -> None:
    """Ask until something is so."""
    until = monotonic() + PATIENCE_S
    while not is_so():
        assert monotonic() < until


def job_of(browser: httpx2.Client, address: str) -> dict[str, Any]:
    [one] = browser.get(f"{address}/transfer?format=json").json()["jobs"]
    return one["job"]


def test_import_is_finished_by_the_command_itself(page: subprocess.Popen[str]) -> None:
    link = link_of(page)
    address = link.partition("/open")[0]
    with httpx2.Client(follow_redirects=True, timeout=PATIENCE_S) as browser:
        browser.get(link)
        upload(browser, address, b"## Tea\n\nThe tea of the office is in the left drawer.\n")
        wait_until(lambda: job_of(browser, address)["state"] == "done")
        assert job_of(browser, address)["result"]["stored"] == 1


def test_import_that_the_end_of_the_command_interrupts_is_finished_later(
    page: subprocess.Popen[str], path: Path
) -> None:
    link = link_of(page)
    address = link.partition("/open")[0]
    many = "".join(f"## Pot {n}\n\nThe pot number {n} of the shop is red.\n\n" for n in range(POTS))
    with httpx2.Client(follow_redirects=True, timeout=PATIENCE_S) as browser:
        browser.get(link)
        upload(browser, address, many.encode())
        wait_until(lambda: job_of(browser, address)["progress"] > 0)
        page.send_signal(signal.SIGINT)
        page.communicate(timeout=PATIENCE_S)
    with commonbrain.open(path) as brain:
        [job] = brain.jobs(kind="import").jobs
        assert job.state in {"queued", "running"}
        # A step that was cut off is due when its lease has ended.
        later = FakeClock(brain.services.clock.now() + timedelta(seconds=JOB_LEASE_S))
        Worker(services=replace(brain.services, clock=later), name="w", kinds=("import",)).sweep()
        assert (brain.jobs.show(job.id).result or {})["stored"] == POTS
        assert brain.status().memories == POTS


def test_port_in_use_is_said_with_the_next_step(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            command(path, "ui", "--no-browser", "--port", port),
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 2
    assert port in done.stderr
    assert "Leave out --port" in done.stderr
