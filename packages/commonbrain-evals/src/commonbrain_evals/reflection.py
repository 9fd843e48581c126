"""Episodes: whether they answer questions on a day better than as many tokens of its events.

The events of several days are remembered as the clock moves, each by its author, and every evening
the job `reflect` runs; another store lives through the same without it. Then questions are asked:
the episodes of a day are held against as many tokens of its events, and recall of the store with
episodes against recall of the one without, at equal budgets.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit, split_of

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.jobs.worker import Worker
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import RECALL_TOKENS_DEFAULT, RECALL_TOKENS_MAX
from commonbrain.model.recall_result import Item
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock
from commonbrain.text.tokens import estimate
from commonbrain_evals.labelled import (
    Figure,
    digest_of,
    open_scratch_brain,
    read_rows,
    show_figures,
    show_lines,
)

_FILE: Final = "days.jsonl"
_DATA: Final = (
    "days.jsonl: {days} days of a team with {events} events, and {questions} questions, written for"
    " it by one hand before the rules. A question is answered if one line of what is shown has all"
    " phrases of its answer; a question on a whole day counts the share of its"
    " answers. A day belongs to one half. Facts: of what was proposed, the share that the writer"
    " marked as holding beyond the day, and of those the share that was proposed."
)
BUDGETS: Final = (100, 200, 400)
"""Tokens of what is shown."""
_COLUMNS: Final = tuple(map(str, (*BUDGETS, RECALL_TOKENS_DEFAULT)))
_EVENING: Final = timedelta(hours=22)
_SYSTEM: Final = "ci"
"""The author of events without one."""
_OF_DAY: Final = {
    "decided": "What was decided on {day}?",
    "done": "What was done on {day}?",
    "open": "What was still open on {day}?",
}
"""Questions on a whole day, by the sort of questions whose answers they want together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What one author noted."""

    at: datetime
    author: str
    text: str
    is_fact: bool
    """Whether it holds beyond the day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DayQuestion:
    """A question, and the answers that it wants, each with the phrases that one line must have."""

    sort: str
    text: str
    answers: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """The events of a day in their order, with the questions on it."""

    date: datetime
    half: CalibrationSplit
    events: tuple[Event, ...]
    questions: tuple[DayQuestion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DayQuestionResult:
    """The share of its answers that each way of showing the day has, by way and budget."""

    half: CalibrationSplit
    sort: str
    question: str
    shown: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class FactsResult:
    """The facts that were proposed in one half, and which of them the data marks as such."""

    half: CalibrationSplit
    proposed: int
    right: int
    marked: int
    """Events that the data marks as facts."""
    wrong: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionReport:
    """The whole evaluation, one row per question."""

    data: str
    sha256: str
    tokens: Mapping[str, float]
    """By half: the share of their sources' tokens that all episodes take."""
    rows: tuple[DayQuestionResult, ...]
    facts: tuple[FactsResult, ...]
    figures: tuple[Figure, ...]


def read_days() -> Sequence[Day]:
    """Read the days that ship with the package, in the order of time."""
    return [_day(row) for row in read_rows(dict[str, Any], _FILE)]


def _day(row: Mapping[str, Any]) -> Day:
    date = datetime.fromisoformat(row["day"]).replace(tzinfo=UTC)
    events = tuple(
        Event(
            at=datetime.fromisoformat(f"{row['day']}T{one['at']}").replace(tzinfo=UTC),
            author=one.get("actor", _SYSTEM),
            text=one["text"],
            is_fact=one.get("fact", False),
        )
        for one in row["events"]
    )
    single = [
        DayQuestion(sort=one["sort"], text=one["text"], answers=(tuple(one["answer"]),))
        for one in row["questions"]
    ]
    return Day(
        date=date,
        half=split_of(events[0].text),
        events=events,
        questions=(*single, *_on_whole_day(single, day=f"{date:%-d %B %Y}")),
    )


def _on_whole_day(single: Sequence[DayQuestion], *, day: str) -> Iterator[DayQuestion]:
    for sort, text in _OF_DAY.items():
        answers = tuple(answer for one in single if one.sort == sort for answer in one.answers)
        if answers:
            yield DayQuestion(sort=f"day: {sort}", text=text.format(day=day), answers=answers)


def evaluate(
    days: Sequence[Day], embedder: Embedder, *, on_progress: Progress = ignore_progress
) -> ReflectionReport:
    """Remember the days of each half in a store of its own, then ask."""
    tally = _ReflectionTally()
    for number, half in enumerate(CalibrationSplit):
        own = [day for day in days if day.half is half]
        if not own:
            continue
        with (
            _remembered(own, embedder, reflects=True) as on,
            _remembered(own, embedder, reflects=False) as off,
        ):
            on_progress((number + 0.5) / len(CalibrationSplit))
            _ask_all(on, own, off=off, tally=tally)
        on_progress((number + 1) / len(CalibrationSplit))
    return ReflectionReport(
        data=_DATA.format(
            days=len(days),
            events=sum(len(day.events) for day in days),
            questions=len(tally.rows),
        ),
        sha256=digest_of(_FILE),
        tokens=tally.tokens,
        rows=tuple(tally.rows),
        facts=tuple(tally.facts),
        figures=tuple(_figures(tally.rows)),
    )


@dataclass(slots=True, kw_only=True)
class _ReflectionTally:
    rows: list[DayQuestionResult] = field(default_factory=list[DayQuestionResult])
    facts: list[FactsResult] = field(default_factory=list[FactsResult])
    tokens: dict[str, float] = field(default_factory=dict[str, float])


@contextmanager
def _remembered(days: Sequence[Day], embedder: Embedder, *, reflects: bool) -> Generator[Brain]:
    """Remember the events of the days at their times, and reflect every evening."""
    clock = FakeClock(days[0].date)
    with open_scratch_brain(embedder, clock) as brain:
        for day in days:
            for event in day.events:
                clock.move(event.at - clock.now())
                brain.acting_as(agent=event.author).remember(event.text, kind=Kind.EVENT)
            clock.move(day.date + _EVENING - clock.now())
            if reflects:
                brain.jobs.run("reflect", {"max_candidates": 32})
                Worker(services=brain.services, name="evaluation").sweep()
        yield brain


def _ask_all(on: Brain, days: Sequence[Day], *, off: Brain, tally: _ReflectionTally) -> None:
    half = days[0].half
    episodes = on.recall(kinds=[Kind.EPISODE], max_items=100, max_tokens=RECALL_TOKENS_MAX).items
    events = [event for day in days for event in day.events]
    in_episodes = sum(estimate(episode.shown_text) for episode in episodes)
    tally.tokens[half] = in_episodes / sum(estimate(event.text) for event in events)
    tally.facts.append(_facts(on, events, half=half))
    for day in days:
        own = [episode for episode in episodes if episode.occurred_at.date() == day.date.date()]
        for question in day.questions:
            shown = {
                **dict(_of_day(question, day, episodes=own, off=off)),
                **dict(_of_store(question, on=on, off=off)),
            }
            tally.rows.append(
                DayQuestionResult(
                    half=half, sort=question.sort, question=question.text, shown=shown
                )
            )


def _of_day(
    question: DayQuestion, day: Day, *, episodes: Sequence[Item], off: Brain
) -> Iterator[tuple[str, float]]:
    """Show as many tokens of a day's events as its episodes have, at most the budget."""
    of_episodes = [line for episode in episodes for line in episode.shown_text.splitlines()]
    recalled = off.recall(
        question.text,
        since=day.date,
        until=day.date + timedelta(days=1),
        max_items=100,
        max_tokens=RECALL_TOKENS_MAX,
        bump=False,
    )
    whole = sum(estimate(episode.shown_text) for episode in episodes)
    ways = {
        "episodes of the day": of_episodes,
        "its newest events": [f"{event.author}: {event.text}" for event in reversed(day.events)],
        "its events, recalled": [line for item in recalled.items for line in _lines(item)],
    }
    for budget in BUDGETS:
        for name, lines in ways.items():
            yield f"{name} {budget}", _share(question, _first(lines, tokens=min(budget, whole)))


def _of_store(question: DayQuestion, *, on: Brain, off: Brain) -> Iterator[tuple[str, float]]:
    """Recall as agents do, each item with its line of provenance."""
    for budget in (*BUDGETS, RECALL_TOKENS_DEFAULT):
        for name, brain, kinds in (
            ("recall without episodes", off, ()),
            ("recall with episodes", on, ()),
            ("recall of episodes alone", on, [Kind.EPISODE]),
        ):
            recalled = brain.recall(question.text, kinds=kinds, max_tokens=budget, bump=False)
            lines = [line for item in recalled.items for line in _lines(item)]
            yield f"{name} {budget}", _share(question, lines)


def _lines(item: Item) -> Iterator[str]:
    for line in item.shown_text.splitlines():
        yield line if item.kind is Kind.EPISODE else f"{item.agent}: {line}"


def _first(lines: Iterable[str], *, tokens: int) -> list[str]:
    """Return the first lines that fit, without any line of provenance."""
    chosen: list[str] = []
    for line in lines:
        if estimate("\n".join([*chosen, line])) > tokens:
            break
        chosen.append(line)
    return chosen


def _share(question: DayQuestion, lines: Sequence[str]) -> float:
    folded = [line.casefold() for line in lines]
    answered = [
        any(all(phrase.casefold() in line for phrase in answer) for line in folded)
        for answer in question.answers
    ]
    return sum(answered) / len(answered)


def _facts(brain: Brain, events: Sequence[Event], *, half: CalibrationSplit) -> FactsResult:
    ids = [proposal.memory.id for proposal in brain.review("proposals", limit=100).proposals]
    proposed = [brain.get(id_) for id_ in ids]
    facts = [event.text for event in events if event.is_fact]
    bodies = [one.body or "" for one in proposed]
    wrong = [body for body in bodies if not any(_states(body, text) for text in facts)]
    return FactsResult(
        half=half,
        proposed=len(proposed),
        right=len(proposed) - len(wrong),
        marked=len(facts),
        wrong=tuple(wrong),
    )


def _states(body: str, text: str) -> bool:
    return body.partition(": ")[2].rstrip(".") in text or body.rstrip(".") in text


def _figures(rows: Sequence[DayQuestionResult]) -> Iterator[Figure]:
    for half in dict.fromkeys(row.half for row in rows):
        for name, is_whole_day in (("one thing", False), ("whole day", True)):
            group = [
                row
                for row in rows
                if row.half is half and row.sort.startswith("day: ") is is_whole_day
            ]
            for way in group[0].shown:
                yield {
                    "half": str(half),
                    "questions": name,
                    "count": len(group),
                    "shown": way,
                    "answered": round(sum(row.shown[way] for row in group) / len(group), 4),
                }


def show_reflection(report: ReflectionReport) -> None:
    """Print the figures, and the wrong proposals of the half calibrate."""
    for half, tokens in report.tokens.items():
        table: dict[tuple[str, str], dict[str, Any]] = {}
        for figure in report.figures:
            if figure["half"] == half:
                way, _, budget = figure["shown"].rpartition(" ")
                names = {"questions": figure["questions"], "shown": way}
                row = table.setdefault((figure["questions"], way), names | dict.fromkeys(_COLUMNS))
                row[budget] = figure["answered"]
        columns = ("questions", "shown", *_COLUMNS)
        show_figures(f"Answered, {half}", table.values(), columns=columns)
        show_lines([f"Episodes take {tokens:.0%} of the tokens of all events."])
    for facts in report.facts:
        show_lines(
            [
                f"{facts.half}: {facts.proposed} facts proposed, {facts.right} of them right,"
                f" {facts.marked} marked"
            ]
        )
        if facts.half is CalibrationSplit.CALIBRATE:
            show_lines(f"not a fact: {text}" for text in facts.wrong)
    show_lines([report.data])
