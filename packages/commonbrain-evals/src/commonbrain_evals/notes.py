"""Six weeks of notes of three projects: what the memory claims of them, and what boot shows.

No text is revised, and each note is remembered as its author wrote it, in the order of time. The
labels say which earlier notes each one makes untrue, wholly or in part.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.ingestion.preparation import draft_of
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock
from commonbrain_evals.labelled import (
    advance,
    digest_of,
    open_scratch_brain,
    read_rows,
    show_lines,
)

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
    return read_rows(AuthorNote, _FILE)


def evaluate(
    notes: Sequence[AuthorNote], embedder: Embedder, *, on_progress: Progress = ignore_progress
) -> NotesReport:
    """Remember the notes in one store, in the order of time.

    Raises:
        InvalidInputError: a note has an unknown kind.

    """
    labelled = {(older, place) for place, note in enumerate(notes) for older in note.changes}
    succeeded = _closed(labelled)
    clock = FakeClock()
    with open_scratch_brain(embedder, clock) as brain:
        life = _NotesRun(brain, clock, notes)
        pairs: list[tuple[int, int, bool]] = []
        for place in range(len(notes)):
            pairs += life.remember(place)
            on_progress((place + 1) / len(notes))
        right = [(older, newer) in succeeded for older, newer, _ in pairs]
        claimed = {(older, newer) for older, newer, _ in pairs} & labelled
        return NotesReport(
            data=_DATA.format(notes=len(notes), changes=len(labelled)),
            sha256=digest_of(_FILE),
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
    """The notes, remembered by their authors."""

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
        advance(self.clock, self.start + timedelta(days=note.day), least=_APART)
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
        for change in outcome.changes:
            yield self.places[change.id], place, False
        for conflict in outcome.conflicts:
            yield self.places[conflict.id], place, True

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
    right = "-" if report.precision is None else f"{report.precision:.0%}"
    show_lines(
        [
            f"{len(report.claims)} claims, {right} right, {report.recall:.0%} of the labelled"
            f" changes, {report.open_reviews} open reviews, {len(report.refused)} refused",
            *(
                f"{boot.project}: {boot.rules_shown} of {boot.rules} rules at boot,"
                f" {boot.tokens} tokens"
                for boot in report.boots
            ),
            *(
                f"{'right' if claim.is_right else 'wrong'}"
                f"{' (in review)' if claim.is_conflict else ''}: {claim.older} / {claim.newer}"
                for claim in report.claims
            ),
            *(f"refused: {text}" for text in report.refused),
            report.data,
        ]
    )
