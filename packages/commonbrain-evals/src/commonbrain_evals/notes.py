"""Six weeks of notes of three projects: what the memory claims of them, and what boot shows.

No text is revised, and each note is remembered as its author wrote it, in the order of time. The
labels say which earlier notes each one makes untrue, wholly or in part.
"""

import hashlib
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Final

from rich.console import Console

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.ingestion.preparation import draft_of
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain_evals.rows import read_rows

_FILE: Final = "six_weeks.jsonl"
_DATA: Final = (
    "six_weeks.jsonl: {notes} notes of three projects, written by one hand without sight of the"
    " rules, {changes} pairs of them labelled as a change. right is the share of claimed changes"
    " and conflicts that are changes, found the share of labelled changes that are claimed."
)
_APART: Final = timedelta(minutes=9)
"""The least time between two notes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorNote:
    """What an author wrote down on one day."""

    day: int
    project: str
    agent: str
    kind: str | None
    """The kind or alias that its author gave."""
    text: str
    changes: tuple[int, ...]
    """The places of the earlier notes that it makes untrue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedChange:
    """A pair of notes of which the memory says that the newer changes the older."""

    older: str
    newer: str
    is_conflict: bool
    """Whether it waits for a review."""
    is_right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownAtBoot:
    """What a briefing of one project shows at the end."""

    project: str
    rules: int
    rules_shown: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotesReport:
    """The whole evaluation."""

    data: str
    sha256: str
    claims: tuple[ClaimedChange, ...]
    precision: float | None
    """None if nothing is claimed."""
    recall: float
    refused: tuple[str, ...]
    """Notes that were not stored."""
    open_reviews: int
    """Conflicts that wait for a decision at the end."""
    boots: tuple[ShownAtBoot, ...]


def read_notes() -> Sequence[AuthorNote]:
    """Read the notes that ship with the package, oldest first."""
    return [
        AuthorNote(
            day=row["day"],
            project=row["project"],
            agent=row["agent"],
            kind=row["kind"],
            text=row["text"],
            changes=tuple(row["changes"]),
        )
        for row in read_rows(_FILE)
    ]


def evaluate(
    notes: Sequence[AuthorNote], embedder: Embedder, *, on_progress: Progress = ignore_progress
) -> NotesReport:
    """Live through the notes in one store.

    Raises:
        InvalidInputError: a note has an unknown kind.

    """
    labelled = {(older, place) for place, note in enumerate(notes) for older in note.changes}
    succeeded = _closed(labelled)
    clock = FakeClock()
    with (
        tempfile.TemporaryDirectory() as folder,
        a_brain(Path(folder) / "brain.db", clock=clock, embedder=embedder) as brain,
    ):
        life = _NotesRun(brain, clock, notes)
        pairs: list[tuple[int, int, bool]] = []
        for place in range(len(notes)):
            pairs += life.remember(place)
            on_progress((place + 1) / len(notes))
        right = [(older, newer) in succeeded for older, newer, _ in pairs]
        claimed = {(older, newer) for older, newer, _ in pairs} & labelled
        return NotesReport(
            data=_DATA.format(notes=len(notes), changes=len(labelled)),
            sha256=hashlib.sha256(
                files("commonbrain_evals").joinpath(_FILE).read_bytes()
            ).hexdigest(),
            claims=tuple(
                ClaimedChange(
                    older=notes[older].text,
                    newer=notes[newer].text,
                    is_conflict=is_conflict,
                    is_right=is_right,
                )
                for (older, newer, is_conflict), is_right in zip(pairs, right, strict=True)
            ),
            precision=sum(right) / len(right) if right else None,
            recall=len(claimed) / len(labelled),
            refused=tuple(life.refused),
            open_reviews=len(brain.review().conflicts),
            boots=tuple(life.boots()),
        )


def _closed(pairs: Collection[tuple[int, int]]) -> Collection[tuple[int, int]]:
    """Add the pairs that changes in a row make: of 60, 75 and 69 euros the first and last."""
    closed = set(pairs)
    for older, middle in sorted(pairs, reverse=True):
        closed |= {(older, newer) for start, newer in closed if start == middle}
    return closed


class _NotesRun:
    """The notes, remembered in the order of time by their authors."""

    def __init__(self, brain: Brain, clock: FakeClock, notes: Sequence[AuthorNote]) -> None:
        self.brain = brain
        self.clock = clock
        self.notes = notes
        self.start = clock.now()
        self.places: dict[str, int] = {}
        self.rules: dict[str, list[str]] = {}
        self.refused: list[str] = []

    def remember(self, place: int) -> Iterator[tuple[int, int, bool]]:
        """Remember a note, and yield the pairs that the reply names."""
        note = self.notes[place]
        wait = self.start + timedelta(days=note.day) - self.clock.now()
        self.clock.move(max(wait, _APART))
        agent = note.agent.casefold().replace(" ", "-")
        view = self.brain.acting_as(project=note.project, agent=agent)
        draft = draft_of(note.text, kind=note.kind) if note.kind else draft_of(note.text)
        [outcome] = view.remember(draft).items
        if outcome.id is None or not outcome.status.is_new:
            self.refused.append(note.text)
            return
        self.places[outcome.id] = place
        if outcome.kind == "rule":
            self.rules.setdefault(note.project, []).append(outcome.id)
        for one in outcome.changes:
            yield self.places[one.id], place, False
        for one in outcome.conflicts:
            yield self.places[one.id], place, True

    def boots(self) -> Iterator[ShownAtBoot]:
        """Yield what the briefing of each project shows."""
        for project in sorted({note.project for note in self.notes}):
            briefing = self.brain.acting_as(agent="newcomer").preview_boot(project)
            shown = {one.id for one in (*briefing.blockers, *briefing.patterns)}
            rules = self.rules.get(project, [])
            yield ShownAtBoot(
                project=project,
                rules=len(rules),
                rules_shown=len(shown.intersection(rules)),
                tokens=briefing.tokens,
            )


def show_notes(report: NotesReport) -> None:
    """Print the figures, each claim and each note that was refused."""
    console = Console()
    right = "-" if report.precision is None else f"{100 * report.precision:.0f}%"
    lines = [
        f"{len(report.claims)} claims, {right} right,"
        f" {100 * report.recall:.0f}% of the labelled changes,"
        f" {report.open_reviews} open reviews, {len(report.refused)} refused",
        *(
            f"{one.project}: {one.rules_shown} of {one.rules} rules at boot, {one.tokens} tokens"
            for one in report.boots
        ),
        *(
            f"{'right' if one.is_right else 'wrong'}"
            f"{' (in review)' if one.is_conflict else ''}: {one.older} / {one.newer}"
            for one in report.claims
        ),
        *(f"refused: {text}" for text in report.refused),
    ]
    for line in lines:
        console.print(line, markup=False, highlight=False)
    console.print(report.data, markup=False, style="dim")
