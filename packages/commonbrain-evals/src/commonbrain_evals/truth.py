"""Plain notes that change over time: whether recall puts what is current first.

No text is revised here. Every case is a few texts that are only remembered, days or minutes apart,
among those of all other cases of its half, and a question in other words. The labels say which text
holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit, split_of

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.recall_result import EARLIER, Item
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock
from commonbrain_evals.labelled import (
    Figure,
    advance,
    digest_of,
    open_scratch_brain,
    read_rows,
    share,
    show_figures,
    show_lines,
)

_FILES: Final = ("truth.jsonl", "holding.jsonl")
_DATA: Final = (
    "truth.jsonl: cases written for it by one hand; holding.jsonl: 1,000 cases by others, most of"
    " texts that hold beside each other, those of the half check without sight of the rules."
    " {rows} cases in all. right_first is the share whose right text is the first of the case's"
    " own; outdated the share in which a text is marked earlier; recognised the share of last texts"
    " that were refused as a repetition; reported the share whose reply names a change or conflict;"
    " in_three the share of changes whose current text is among the first three of all, next to the"
    " one that it changed."
)
CHANGES: Final = (
    *("change_with_cue", "change_without_cue", "negation", "chain", "correction", "ellipsis"),
    *("change_quoted", "change_same_sentence", "change_cue", "change_end", "change_free"),
)
HOLDS: Final = (
    *("sibling_number", "sibling_name", "sibling_place", "sibling_condition", "changelog"),
    *("mention", "attribute", "list_grows", "rule_fact", "plan_deed"),
)
_IN_THREE: Final = 3
_ITEMS: Final = 12
_PROJECT: Final = "truth"
_DAYS_BETWEEN: Final = 6
"""Between two texts of a case of holding.jsonl."""
_AFTER: Final = timedelta(days=3)
"""Between the last text and the questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Texts with the time at which each is remembered, and what is asked."""

    sort: str
    half: CalibrationSplit
    texts: tuple[str, ...]
    times: tuple[timedelta, ...]
    session: str | None
    question: str | None
    right: frozenset[int]
    """The texts that answer; empty if any does, or nothing is asked."""
    changed: int | None = None
    """The text that another one changed, if the case says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What happened to one case."""

    sort: str
    half: CalibrationSplit
    question: str | None
    texts: tuple[str, ...]
    is_right: bool | None
    """Whether a right text is the first of the case; None if there is none."""
    is_in_three: bool | None
    """Whether the current text is among the first three, next to the changed one; None if none."""
    is_outdated: bool
    """Whether a text is marked earlier."""
    is_refused: bool
    """Whether the last text was refused as a repetition."""
    is_reported: bool
    """Whether the reply to the last text names an older one as changed or in conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthReport:
    """The whole evaluation, one row per case."""

    data: str
    sha256: str
    without: tuple[str, ...]
    """Parts of recall that were left out."""
    rows: tuple[CaseResult, ...]
    figures: tuple[Figure, ...]


def read_cases() -> Sequence[Case]:
    """Read the cases that ship with the package."""
    entries, pairs = (read_rows(dict[str, Any], name) for name in _FILES)
    return [*map(_case, entries), *map(_case_holding, pairs)]


def _case_holding(row: Mapping[str, Any]) -> Case:
    return Case(
        sort=row["type"],
        half=CalibrationSplit(row["half"]),
        texts=tuple(row["texts"]),
        times=tuple(timedelta(days=_DAYS_BETWEEN * n) for n in range(len(row["texts"]))),
        session=None,
        question=row["question"],
        right=frozenset(row["right"]),
        changed=row["changes"][-1][0] if row["changes"] else None,
    )


def _case(row: Mapping[str, Any]) -> Case:
    entries = row["entries"]
    return Case(
        sort=row["type"],
        half=split_of(entries[0]["text"]),
        texts=tuple(entry["text"] for entry in entries),
        times=tuple(
            timedelta(days=entry["day"], minutes=entry.get("minute", 0)) for entry in entries
        ),
        session=entries[0].get("session"),
        question=row.get("question"),
        right=frozenset(() if row.get("current") is None else (row["current"],)),
    )


def evaluate(
    cases: Sequence[Case],
    embedder: Embedder,
    *,
    without: Sequence[str] = (),
    on_progress: Progress = ignore_progress,
) -> TruthReport:
    """Remember the cases of each half in one store, then ask, `without` parts of recall."""
    rows: list[CaseResult] = []
    for number, half in enumerate(CalibrationSplit):
        chosen = [case for case in cases if case.half is half]
        clock = FakeClock()
        with open_scratch_brain(embedder, clock) as brain:
            rows += _TruthRun(brain, clock, chosen, without=without).results()
        on_progress((number + 1) / len(CalibrationSplit))
    return TruthReport(
        data=_DATA.format(rows=len(cases)),
        without=tuple(without),
        sha256=digest_of(*_FILES),
        rows=tuple(rows),
        figures=tuple(_figures(rows)),
    )


class _TruthRun:
    """The texts of all cases, remembered in the order of time."""

    def __init__(
        self,
        brain: Brain,
        clock: FakeClock,
        cases: Sequence[Case],
        *,
        without: Sequence[str] = (),
    ) -> None:
        self.brain = brain.acting_as(project=_PROJECT)
        self.clock = clock
        self.cases = cases
        overrides = RetrievalOverrides(without=frozenset(without))
        self.recall = Recall(self.brain.services, self.brain.caller, overrides)
        self.ids: dict[str, tuple[int, int]] = {}
        self.refused: set[int] = set()
        self.reported: set[int] = set()

    def results(self) -> list[CaseResult]:
        start = self.clock.now()
        order = sorted(
            (time, number, place)
            for number, case in enumerate(self.cases)
            for place, time in enumerate(case.times)
        )
        for time, number, place in order:
            advance(self.clock, start + time)
            self._remember(number, place)
        self.clock.move(_AFTER)
        return [self._ask(number, case) for number, case in enumerate(self.cases)]

    def _remember(self, number: int, place: int) -> None:
        case = self.cases[number]
        view = self.brain.acting_as(session=case.session) if case.session else self.brain
        [outcome] = view.remember(case.texts[place]).items
        if outcome.status is ItemStatus.STORED and outcome.id is not None:
            self.ids[outcome.id] = (number, place)
        is_last = place == len(case.texts) - 1
        if is_last and outcome.status in {ItemStatus.DUPLICATE, ItemStatus.EXISTS}:
            self.refused.add(number)
        if is_last and (outcome.changes or outcome.conflicts):
            self.reported.add(number)

    def _ask(self, number: int, case: Case) -> CaseResult:
        shown: dict[int, tuple[int, Item]] = {}
        if case.question is not None:
            answer = self.recall(
                case.question, max_items=_ITEMS, bump=False, project=self.brain.caller.project
            )
            for rank, item in enumerate(answer.items):
                case_number, place = self.ids.get(item.id, (-1, -1))
                if case_number == number:
                    shown[place] = rank, item
        first = next(iter(shown), None)
        return CaseResult(
            sort=case.sort,
            half=case.half,
            question=case.question,
            texts=case.texts,
            is_right=first in case.right if case.right else None,
            is_in_three=_is_in_three(case, {place: rank for place, (rank, _) in shown.items()}),
            is_outdated=any(is_marked(item) for _, item in shown.values()),
            is_refused=number in self.refused,
            is_reported=number in self.reported,
        )


def _is_in_three(case: Case, ranks: Mapping[int, int]) -> bool | None:
    if case.changed is None:
        return None
    current = min((ranks[place] for place in case.right if place in ranks), default=_IN_THREE)
    older = ranks.get(case.changed)
    return current < _IN_THREE and (older is None or abs(older - current) == 1)


def is_marked(item: Item) -> bool:
    """Return whether an item says that a newer one changed it."""
    return any(note.startswith(EARLIER) for note in item.notes)


def _figures(rows: Sequence[CaseResult]) -> Iterator[Figure]:
    for half in CalibrationSplit:
        here = [row for row in rows if row.half is half]
        groups = {
            "all changes": [row for row in here if row.sort in CHANGES],
            "all that hold": [row for row in here if row.sort in HOLDS],
        }
        for row in here:
            groups.setdefault(row.sort, []).append(row)
        for sort, group in sorted(groups.items()):
            if group:
                yield {
                    "half": str(half),
                    "sort": sort,
                    "cases": len(group),
                    "right_first": share(row.is_right for row in group),
                    "in_three": share(row.is_in_three for row in group),
                    "outdated": share(row.is_outdated for row in group),
                    "recognised": share(row.is_refused for row in group),
                    "reported": share(row.is_reported for row in group),
                }


def show_truth(report: TruthReport) -> None:
    """Print the figures, and the failures of the half calibrate."""
    columns = (
        *("half", "sort", "cases", "right_first", "in_three", "outdated", "recognised", "reported"),
    )
    show_figures("Truth", report.figures, columns=columns)
    show_lines(
        f"{row.sort}: {row.question} / {' / '.join(row.texts)}"
        for row in report.rows
        if row.half is CalibrationSplit.CALIBRATE and row.is_right is False
    )
    show_lines([report.data])
