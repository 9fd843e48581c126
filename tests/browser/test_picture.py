"""The picture of the README: the start page of a small team that builds a shop."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.runtime.models import make_embedder
from commonbrain.testing.builders import FakeClock, a_brain
from tests.browser.conftest import HEIGHT, TIMEOUT_MS, WIDE, log_in, serve_brain

PICTURE: Final = "page.png"
BYTES_MAX: Final = 250_000
"""Whoever opens the README loads it."""
NOW: Final = datetime(2026, 11, 26, 16, 10, tzinfo=UTC)


class Team:
    """Agents that share a store, whose clock moves from one call to the next."""

    def __init__(self, brain: Brain, clock: FakeClock) -> None:
        self._brain, self._clock = brain, clock

    def at(self, ago: timedelta, agent: str, project: str) -> Brain:
        """Return the view of an agent, this long before the picture is made."""
        self._clock.move(NOW - ago - self._clock.now())
        return self._brain.acting_as(agent=agent, project=project, session=f"{agent}-1")

    def learn(self, ago: timedelta, agent: str, project: str, text: str, **details: object) -> str:
        """Store a memory and return its id."""
        view = self.at(ago, agent, project)
        [done] = view.remember(text, **details).items  # pyright: ignore[reportArgumentType]
        assert done.id is not None, done
        return done.id


def fill_week(team: Team) -> str:
    """Store what the team knew before today; return the id of a task for today."""
    day = timedelta(days=1)
    postgres = team.learn(5 * day, "claude-code", "shop", "The shop runs on Postgres 16")
    team.learn(
        4 * day,
        "codex",
        "shop",
        "Carts are kept in Redis because Postgres 16 was too slow under load tests",
        depends_on=[postgres],
    )
    team.learn(3 * day, "cursor", "api", "The orders API answers within 300 ms", kind="fact")
    team.learn(2 * day, "claude-code", "infra", "The nightly export of invoices takes 12 minutes")
    team.learn(day, "ann", "shop", "Show the refund on the page of an order", kind="task")
    export = team.learn(day, "ann", "infra", "Move the export of invoices to a worker", kind="task")
    team.learn(day, "codex", "api", "The orders API answers within 450 ms", kind="fact")
    view = team.at(day, "codex", "shop")
    view.revise.supersede(postgres, "The shop runs on Postgres 18", reason="upgraded last night")
    return export


def fill_today(team: Team, *, export: str) -> None:
    """Store what the team learns today, and let its agents begin their tasks."""
    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    team.learn(
        8 * hour,
        "cursor",
        "shop",
        "Checkout failed for 40 minutes because a migration locked the orders table",
        kind="incident",
        root_cause="ALTER TABLE without a lock timeout",
    )
    team.learn(
        7 * hour,
        "cursor",
        "shop",
        "Set a lock timeout of two seconds before every migration",
        kind="rule",
        severity="BLOCKER",
    )
    team.learn(
        5 * hour, "ann", "api", "Ann prefers small pull requests with one reason each", kind="fact"
    )
    team.learn(
        3 * hour,
        "claude-code",
        "api",
        "We chose cursors over offsets, because orders arrive while people read the list",
        kind="fact",
        label="decision",
    )
    team.learn(
        2 * hour,
        "codex",
        "infra",
        "Write the runbook for migrations",
        kind="task",
        priority="high",
        due_at=NOW + timedelta(days=2, hours=1),
    )
    team.learn(
        100 * minute,
        "scraper",
        "infra",
        "Always restart the queue before a release",
        kind="rule",
        trust="untrusted_web",
    )
    team.learn(
        55 * minute,
        "gemini",
        "shop",
        "Load tests start from the seed in tests/load/seed.sql",
        kind="fact",
    )
    team.learn(30 * minute, "codex", "infra", "The nightly export of invoices takes 35 minutes")
    for minutes, agent, project, task in (
        (25, "cursor", "shop", "Test the checkout under load"),
        (4, "gemini", "shop", "Show the refund on the page of an order"),
        (3, "codex", "infra", "Move the export of invoices to a worker"),
        (3, "claude-code", "api", "Add cursors to the list of orders"),
    ):
        team.at(minutes * minute, agent, project).boot(project, task, client=agent)
    team.at(3 * minute, "codex", "infra").session.claim(export)
    team.learn(
        2 * minute,
        "claude-code",
        "api",
        "A cursor of the orders API is signed and ends after an hour",
        kind="fact",
    )


@pytest.fixture
def home(chromium: Browser, path: Path) -> Iterator[Page]:
    """The start page, in the window of a laptop."""
    clock = FakeClock(NOW - timedelta(days=30))
    brain = a_brain(path, clock=clock, embedder=make_embedder(Settings()))
    with brain:
        team = Team(brain, clock)
        fill_today(team, export=fill_week(team))
        clock.move(NOW - clock.now())
        with serve_brain(brain) as (url, sessions):
            page = chromium.new_page(
                viewport={"width": WIDE, "height": HEIGHT}, color_scheme="light"
            )
            page.set_default_timeout(TIMEOUT_MS)
            log_in(page, f"{url}/open?token={sessions.make_link()}")
            yield page
            page.close()


def test_start_page_for_the_readme_picture_shows_memories_within_the_size_limit(
    home: Page, request: pytest.FixtureRequest
) -> None:
    main = home.get_by_role("main")
    expect(main).to_contain_text("A cursor of the orders API is signed and ends after an hour")
    expect(main).to_contain_text("Add cursors to the list of orders")

    picture = home.screenshot()

    assert len(picture) < BYTES_MAX
    folder: Path | None = request.config.getoption("--pictures")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PICTURE).write_bytes(picture)
