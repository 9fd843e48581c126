"""Of notes in other languages nothing is said by English words; what holds in all, holds."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from commonbrain.ingestion.rationale import rationales
from commonbrain.model.kinds import Kind
from commonbrain.security.secrets import SecretScanner
from commonbrain.text.changes import find_change
from commonbrain.text.classification import classify, extract_tasks
from commonbrain.text.languages import is_english
from commonbrain.text.preferences import guidance_in
from commonbrain.text.repetition import adds_nothing
from commonbrain.text.reports import states_cause
from commonbrain.text.time_expressions.calendar import DAY
from commonbrain.text.time_expressions.mentions import mentions_in
from commonbrain.text.time_expressions.parser import parse_time_range
from commonbrain.text.user_statements import statements_in

_NOW: Final = datetime(2026, 3, 18, 12, tzinfo=UTC)
_SAMPLES: Final = Path(__file__).with_name("samples")
FILES: Final = ("foreign_notes", "foreign_notes_held_back")


def _rows(file: str) -> Iterator[tuple[str, str, str]]:
    """Yield what must hold, the language and the note of each line of a table."""
    for line in _SAMPLES.joinpath(f"{file}.txt").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            expected, language, note = line.split(" ", 2)
            yield expected, language, note


def _changes(note: str) -> bool:
    older, newer = note.split(" | ")
    return find_change(older, newer) is not None


def _names_day(note: str) -> bool:
    return [one.first for one in mentions_in(note, _NOW)] == ["2026-03-27"]


def _repeats(note: str) -> bool:
    known, text = note.split(" | ")
    return adds_nothing(text, known=known)


_HOLDS: Final[Mapping[str, Callable[[str], bool]]] = {
    "unchanged": lambda note: not _changes(note),
    "unguessed": lambda note: classify(note) is Kind.FACT,
    "untimed": lambda note: not mentions_in(note, _NOW) and parse_time_range(note, _NOW) is None,
    "uncaused": lambda note: not states_cause(note) and not rationales(note),
    "untasked": lambda note: not extract_tasks(note) and classify(note) is not Kind.TASK,
    "unruled": lambda note: (
        not guidance_in(note) and not statements_in(note) and classify(note) is not Kind.RULE
    ),
    "changed": _changes,
    "timed": _names_day,
    "distinct": lambda note: not _repeats(note),
    "task": lambda note: bool(extract_tasks(note)),
    "secret": lambda note: bool(SecretScanner().find(note)),
    **{f"kind:{kind}": lambda note, kind=kind: classify(note) is kind for kind in Kind},
}


@pytest.mark.requirement("RT-44")
@pytest.mark.parametrize("file", FILES)
def test_english_words_say_nothing_of_a_foreign_note(file: str, subtests: pytest.Subtests) -> None:
    for expected, language, note in _rows(file):
        if expected in _HOLDS:
            with subtests.test(expected=expected, language=language, note=note):
                assert _HOLDS[expected](note)


@pytest.mark.requirement("RT-45")
@pytest.mark.parametrize("file", FILES)
def test_days_are_read_in_six_languages(file: str, subtests: pytest.Subtests) -> None:
    """In notes, and in questions of the same words."""
    for expected, language, note in _rows(file):
        if expected.startswith("on:"):
            since, _, until = expected.removeprefix("on:").partition("/")
            days = f"{since} to {until}" if until else since
            with subtests.test(days=days, language=language, note=note):
                assert [one.days for one in mentions_in(note, _NOW)] == [days]
                named = parse_time_range(note, _NOW)
                assert named is not None
                assert f"{named.period.since:%Y-%m-%d}" == since
                assert f"{named.period.until - DAY / 2:%Y-%m-%d}" == (until or since)


@pytest.mark.parametrize(
    "note",
    [
        "Der Termin am 31.02.2026 wird nicht verlegt.",
        "La reunión del 12/25/2026 no está en el calendario.",
        "发布日期写成了2026年13月5日。",
    ],
)
def test_impossible_date_of_a_foreign_note_is_no_date(note: str) -> None:
    assert mentions_in(note, _NOW) == ()
    assert parse_time_range(note, _NOW) is None


def test_deadline_at_a_day_of_a_month_is_not_some_days_ago() -> None:
    note = "请在2026年3月5日前完成部署。"
    assert [one.days for one in mentions_in(note, _NOW)] == ["2026-03-05"]
    for text in ("请在 3 月 5 日前完成部署。", "3天前端重构", "10天前后"):
        assert mentions_in(text, _NOW) == ()


@pytest.mark.parametrize("unit", ["µs", "\u03bcs"])
def test_microseconds_make_no_english_note_foreign(unit: str) -> None:
    assert is_english(f"Latency budget: 30 {unit}")


def test_names_of_people_and_places_make_no_english_note_foreign(
    subtests: pytest.Subtests,
) -> None:
    for note in [
        "Maria de la Cruz leads billing.",
        "Jan van der Berg owns the pager.",
        "Los Angeles: 8080",
        "Locale de-DE: EST, not CET",
        "Müller GmbH: invoice due",
    ]:
        with subtests.test(note=note):
            assert is_english(note)
