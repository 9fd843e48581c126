"""Three weeks of an agent that never revises: it remembers each new value, and later asks."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.embeddings.interface import Embedder
from commonbrain.history.review_queue import ReviewCategory
from commonbrain.ingestion.result import ItemResult
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import remember_one, stored

PROJECT = "shop"
NOTES = """\
The staging database is rebuilt every night at two.
Error pages are served from the CDN.
Production runs Postgres 16.
Integration tests need Docker.
Feature flags live in the admin console.
The storefront is written in Svelte.
Access logs are kept for 14 days.
Secrets come from Vault.
TLS ends at the gateway.
Thumbnails are made when a picture is uploaded.
Invoices are numbered per country.
Ruff checks the style of every pull request.
Two people approve a change of the schema.
The mobile app polls every five minutes.
Webhooks are signed with HMAC.
The product search is rebuilt on Sundays.
Dashboards live in Grafana.
Backups are copied to a second region.
The sandbox forgets everything at midnight.
Release notes are written by the person on call.
""".splitlines()
WAIT = "The API timeout is 30 seconds."
WAIT_LONGER = "We raised the API timeout to 45 seconds."
WAIT_LONGEST = "The API timeout is now 60 seconds."
OWNER = "Piotr owns the billing service."
NEW_OWNER = "Jonas took over the billing service from Piotr."
PLAN = "We will move the sessions to Redis in April."
CANCELLED = "We will no longer move the sessions to Redis in April; the plan is cancelled."
FIGURE = "The peak load is 1,200 requests per second."
CORRECTED = "Correction: the peak load is 2,100 requests per second, not 1,200."
DECISION = "@decision Four servers are enough for the shop."
MARTA = "Marta leads the data team."
SVEN = "Sven leads the platform team."
CHANGES = {
    "How long is the API timeout?": (WAIT_LONGEST, {WAIT, WAIT_LONGER}),
    "Who owns the billing service?": (NEW_OWNER, {OWNER}),
    "Do we move the sessions to Redis?": (CANCELLED, {PLAN}),
    "What is the peak load of the shop?": (CORRECTED, {FIGURE}),
}
"""Each question with what holds, and what held before."""


class Weeks:
    """A brain after three weeks of plain remembering, with all that was remembered by its text."""

    def __init__(self, path: Path, clock: FakeClock, embedder: Embedder) -> None:
        self.clock = clock
        self.path = path
        self.brain = a_brain(path, clock=clock, embedder=embedder).acting_as(project=PROJECT)
        self.began = clock.now()
        self.outcomes: dict[str, ItemResult] = {}
        notes = iter(NOTES)
        self.day(0, WAIT, MARTA)
        self.day(1, next(notes), OWNER, next(notes))
        self.day(2, next(notes), next(notes), next(notes), FIGURE)
        self.day(3, next(notes), next(notes))
        self.outcomes[DECISION] = remember_one(
            self.brain, DECISION, derived_from=[self.id(FIGURE)], project=PROJECT
        )
        self.day(5, PLAN, next(notes), next(notes))
        self.day(8, WAIT_LONGER, next(notes), next(notes))
        self.middle = clock.now() + timedelta(hours=1)
        self.day(10, NEW_OWNER, SVEN, next(notes), next(notes))
        self.day(13, next(notes), CORRECTED, next(notes), next(notes))
        self.day(16, CANCELLED, next(notes), next(notes))
        self.day(18, next(notes), WAIT_LONGEST, *notes)
        self.day(21)

    def day(self, number: int, *texts: str) -> None:
        self.clock.move(self.began + timedelta(days=number) - self.clock.now())
        for text in texts:
            self.clock.move(timedelta(minutes=20))
            self.outcomes[text] = remember_one(self.brain, text, project=PROJECT)
            assert self.outcomes[text].id, text

    def id(self, text: str) -> str:
        return str(self.outcomes[text].id)

    def recalled(self, query: str, as_of: datetime | None = None) -> dict[str, tuple[str, ...]]:
        """Map the texts of the items, in their order, to their notes."""
        result = self.brain.recall(query, project=PROJECT, bump=False, as_of=as_of, max_items=12)
        return {item.body or "": item.notes for item in result.items}


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return make_embedder(load_settings())


@pytest.fixture(scope="module")
def weeks(tmp_path_factory: pytest.TempPathFactory, embedder: Embedder) -> Iterator[Weeks]:
    """Shared by tests that only read."""
    history = Weeks(tmp_path_factory.mktemp("weeks") / "brain.db", FakeClock(), embedder)
    with history.brain:
        yield history


@pytest.mark.requirement("PV-09")
def test_current_memory_comes_first_and_earlier_ones_are_marked(
    weeks: Weeks, subtests: pytest.Subtests
) -> None:
    for question, (holds, earlier) in CHANGES.items():
        with subtests.test(question=question):
            results = weeks.recalled(question)
            assert next(iter(results)) == holds
            assert not any(note.startswith("earlier") for note in results[holds])
            marked = {
                text
                for text in earlier
                if any(n.startswith("earlier") for n in results.get(text, ()))
            }
            assert marked == earlier & results.keys()


@pytest.mark.requirement("PV-09")
def test_earlier_values_of_a_limit_are_shown_as_one_history(weeks: Weeks) -> None:
    longer, first = weeks.id(WAIT_LONGER), weeks.id(WAIT)
    line = (
        f'"We raised the API timeout to 45 seconds" until 2026-03-20 ({longer}), '
        f'"30 seconds" until 2026-03-10 ({first})'
    )
    [best, *_] = weeks.brain.recall("How long is the API timeout?", bump=False).items
    assert best.earlier == line
    assert f"| earlier: {line}" in weeks.brain.recall("How long is the API timeout?").evidence
    assert weeks.brain.get(weeks.id(WAIT_LONGEST)).earlier == line


def test_boot_shows_recent_changes_and_only_current_memories(
    weeks: Weeks,
) -> None:
    briefing = weeks.brain.boot(task="Size the gateway")
    assert [one.id for one in briefing.changes] == [weeks.id(WAIT_LONGEST), weeks.id(CANCELLED)]
    first, second = (one.note or "" for one in briefing.changes)
    assert first.startswith('earlier: "We raised the API timeout to 45 seconds" until 2026-03-20')
    assert "30 seconds" in first
    assert second.startswith(f'earlier: "{PLAN[:-1]}" until 2026-03-18')
    assert "CHANGED LATELY\n" in briefing.text


def test_decision_based_on_an_outdated_figure_needs_review(weeks: Weeks) -> None:
    [waiting] = weeks.brain.review(ReviewCategory.NEEDS_REVIEW).needs_review
    assert waiting.memory.id == weeks.id(DECISION)
    assert weeks.id(FIGURE) in waiting.because
    results = weeks.recalled("How many servers are enough?")
    assert results[DECISION.removeprefix("@decision ")] == (waiting.because,)
    assert "Needs review" in (weeks.brain.get(weeks.id(DECISION)).banner or "")


def test_similar_facts_about_different_subjects_are_not_marked_as_changed(
    weeks: Weeks, subtests: pytest.Subtests
) -> None:
    for text in (MARTA, SVEN):
        with subtests.test(text=text):
            question = f"Who leads {text.partition('leads ')[2].rstrip('.')}?"
            results = weeks.recalled(question)
            assert next(iter(results)) == text
            assert results[MARTA] == results[SVEN] == ()
            assert weeks.brain.get(weeks.id(text)).banner is None


def test_recall_as_of_an_earlier_time_ignores_later_changes(weeks: Weeks) -> None:
    results = weeks.recalled("How long is the API timeout?", as_of=weeks.middle)
    assert WAIT_LONGEST not in results
    assert {WAIT, WAIT_LONGER} <= results.keys()
    results = weeks.recalled("Who owns the billing service?", as_of=weeks.middle)
    assert (next(iter(results)), results[OWNER]) == (OWNER, ())


def test_old_memories_stay_active_and_name_the_newer_ones(
    weeks: Weeks, subtests: pytest.Subtests
) -> None:
    for holds, earlier in CHANGES.values():
        with subtests.test(holds=holds):
            for text in earlier:
                view = weeks.brain.get(weeks.id(text))
                assert (view.body, view.state) == (text, "active")
                banner = view.banner or ""
                assert banner.startswith("Earlier: since ")
                assert weeks.id(holds) in banner
                assert "revise resolve" in banner
                assert "revise keep_both" in banner


def test_trace_and_review_show_changes_with_the_calls_to_decide_them(weeks: Weeks) -> None:
    pair = f"{weeks.id(CORRECTED)} --other {weeks.id(FIGURE)} --reason WHY"
    calls = {f"revise resolve {pair}", f"revise keep_both {pair}"}
    banner = weeks.brain.get(weeks.id(FIGURE)).banner or ""
    assert all(call in banner for call in calls)
    # An announced change needs no decision.
    assert weeks.brain.review(ReviewCategory.CONFLICTS).conflicts == ()
    [line] = weeks.brain.trace.provenance(weeks.id(DECISION)).changes
    assert all(call in line for call in calls)
    [line] = weeks.brain.trace.dependents(weeks.id(FIGURE)).changes
    assert all(call in line for call in calls)


def test_command_line_shows_the_same_changes(weeks: Weeks) -> None:
    def shown(*words: str) -> str:
        ran = CliRunner().invoke(app, ["--store", str(weeks.path), *words], catch_exceptions=False)
        return " ".join(ran.stdout.replace("\u2502", " ").split())

    change = weeks.brain.get(weeks.id(OWNER)).banner or ""
    assert change in shown("get", weeks.id(OWNER))
    assert f"changed: {weeks.id(FIGURE)}: since" in shown("trace", "provenance", weeks.id(DECISION))
    assert "| earlier: " in shown("recall", "Who owns the billing service?")


def test_declaring_both_memories_true_withdraws_a_change_permanently(
    tmp_path: Path, clock: FakeClock, embedder: Embedder
) -> None:
    history = Weeks(tmp_path / "brain.db", clock, embedder)
    brain, old, new = history.brain, history.id(PLAN), history.id(CANCELLED)
    brain.revise.keep_both(new, other=old, reason="the second is about another cluster")
    for hour in (8, 9):
        results = history.recalled("Do we move the sessions to Redis?")
        assert not any(note.startswith("earlier") for note in results[PLAN])
        assert brain.get(old).banner is None
        assert brain.get(new).earlier is None
        assert new not in {one.id for one in brain.boot(project=PROJECT).changes}
        stored(brain, f"The stand-up begins at {hour}.", kind="event")
        clock.move(timedelta(days=1))
    assert brain.doctor().is_sound
