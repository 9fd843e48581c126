"""`python -m benchmarks page`: how long the web page takes on a large store."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Final

import httpx2
import typer
import uvicorn

import commonbrain
from benchmarks.large_stores import Lending
from benchmarks.lists import fill
from benchmarks.machine import describe_machine
from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.web.app import make_page
from commonbrain.web.logins import LinkLogins
from commonbrain.web.screens import all_screens

if TYPE_CHECKING:
    from playwright.sync_api import Page

page = typer.Typer()
_PARAMETERS: Final = {
    "search": "?query=which+database+does+the+shop+use",
    "boot": "?task=move+the+shop+to+another+database",
}
_DECISIONS: Final = 100
"""Conflicts and proposals each that wait in the review queue."""
_MS: Final = 1000
_STOP_S: Final = 20
_PAINTS: Final = 3
_FIRST_PAINT: Final = """() => new Promise((resolve) => {
  const report = (list) =>
    list.getEntriesByName("first-contentful-paint").forEach((one) => resolve(one.startTime));
  new PerformanceObserver(report).observe({ type: "paint", buffered: true });
})"""
"""The paint may come after the page has loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """What one screen took."""

    path: str
    server_ms: float
    """Median from the request to the last byte, over loopback."""
    slowest_ms: float
    kilobytes: float
    paint_ms: float | None
    """Median of the first contentful paint in headless Chromium; None without one."""


@page.command("page")
def measure_page(
    memories: Annotated[int, typer.Option(help="The number of memories in the store.")] = 10_000,
    runs: Annotated[int, typer.Option(help="The number of requests of each screen.")] = 7,
    file: Annotated[
        Path | None, typer.Option(help="Fill this file, or measure it if it exists.")
    ] = None,
) -> None:
    """Measure the time, size and first paint of every screen of the web page."""
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        store = file or Path(folder) / "brain.db"
        is_filled = store.exists()
        with commonbrain.open(store) as brain:
            if not is_filled:
                began = time.monotonic()
                fill(brain, memories, embedder=Lending(brain.services.embedder))
                typer.echo(f"{memories:,} memories stored in {time.monotonic() - began:.0f} s")
            _time_screens(brain, runs=runs)


def _time_screens(brain: Brain, *, runs: int) -> None:
    typer.echo(f"{'screen':<34}{'server ms':>10}{'slowest':>9}{'kB':>7}{'paint ms':>10}")
    with _served(brain) as (url, sessions):
        for one in _timed(brain, sessions, url=url, runs=runs):
            paint = "-" if one.paint_ms is None else f"{one.paint_ms:.0f}"
            typer.echo(
                f"{one.path[:33]:<34}{one.server_ms:>10.1f}{one.slowest_ms:>9.1f}"
                f"{one.kilobytes:>7.1f}{paint:>10}"
            )


@contextmanager
def _served(brain: Brain) -> Generator[tuple[str, LinkLogins]]:
    sessions = LinkLogins(brain.caller, brain.services.clock)
    threads = ThreadLimiter(4, seconds_max=60)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app = make_page(brain, sessions, threads=threads)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
        thread = Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", sessions
        finally:
            server.should_exit = True
            thread.join(_STOP_S)
            threads.close()


def _timed(brain: Brain, sessions: LinkLogins, *, url: str, runs: int) -> Iterator[Timed]:
    newest = brain.list(limit=1).memories[0].id
    thread = _write_to_each_other(brain)
    named = {"thread": thread}
    paths = [
        one.path.replace("{id}", named.get(one.name, newest)) + _PARAMETERS.get(one.name, "")
        for one in all_screens()
    ]
    with httpx2.Client(base_url=url, timeout=60, follow_redirects=True) as client:
        client.post("/open", data={"token": sessions.make_link()}).raise_for_status()
        paints = _paints(f"{url}/open?token={sessions.make_link()}", url=url, paths=paths)
        for path in paths:
            taken: list[float] = []
            size = 0
            for _ in range(runs):
                began = time.perf_counter()
                response = client.get(path)
                taken.append((time.perf_counter() - began) * _MS)
                size = len(response.raise_for_status().content)
            yield Timed(
                path=path.replace(newest, "ID").replace(thread, "ID"),
                server_ms=median(taken),
                slowest_ms=max(taken),
                kilobytes=size / 1024,
                paint_ms=paints.get(path),
            )


def _write_to_each_other(brain: Brain) -> str:
    """Leave decisions in the review queue and messages in a thread, whose id is returned."""
    web = brain.acting_as(agent="scraper")
    for number in range(_DECISIONS):
        for count in (number % 7 + 2, number % 7 + 11):
            brain.remember(f"Cluster c{number:03} of the shop has {count} nodes", kind="fact")
        rule = f"Always restart cluster c{number:03} before a release"
        web.remember(rule, kind="rule", trust="untrusted_web")
    codex = brain.acting_as(agent="codex")
    sent = codex.message.send(brain.caller.agent, "Shall I restart the shop?", subject="Restart")
    brain.message.reply(sent.id, "Yes, tonight.")
    return sent.thread


def _paint(tab: Page, address: str) -> float:
    tab.goto(address)
    return tab.evaluate(_FIRST_PAINT)


def _paints(link: str, *, url: str, paths: list[str]) -> dict[str, float]:
    """Return when each page is first painted; nothing without Chromium."""
    program = shutil.which("chromium")
    if program is None:
        typer.echo("No Chromium: first paints are left out (apt-get install chromium).")
        return {}
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 only this needs it

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.goto(link)
        tab.wait_for_url(f"{url}/")
        paints: dict[str, float] = {}
        for path in paths:
            tab.goto(url + path)
            # A warm connection and warm caches, as of a person who moves through the page.
            paints[path] = median(_paint(tab, url + path) for _ in range(_PAINTS))
        browser.close()
    return paints
