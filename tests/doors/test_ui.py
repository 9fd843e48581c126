"""`brain ui`, as a person starts it: its link, its end, and what it says."""

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.processes import PATIENCE_S, clean_environment, command

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


def test_page_answers_nobody_without_the_link(page: subprocess.Popen[str]) -> None:
    address = link_of(page).partition("/open")[0]
    assert httpx2.get(address, timeout=PATIENCE_S).status_code == 401
    assert httpx2.get(f"{address}/?format=json", timeout=PATIENCE_S).status_code == 401


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
