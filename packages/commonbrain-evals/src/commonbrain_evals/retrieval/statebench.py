"""What recall shows of StateBench's timelines when everything is only remembered.

No language model answers or judges. Retrieval is judged by the texts of its items: whether one
that says what must be mentioned comes before those that say what no longer holds, and whether
anything is shown that the asker may not see.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from commonbrain_models.calibration import CalibrationSplit, split_of
from rich.console import Console
from rich.table import Table

from commonbrain.config import Settings
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import RECALL_ITEMS_DEFAULT
from commonbrain.model.memory import full_text
from commonbrain.model.recall_result import EARLIER, Item
from commonbrain.model.scope import Scope
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain_evals.retrieval.ablation import Differences, differences_of, parts_of
from commonbrain_evals.retrieval.baselines import BASELINES, RECALL, search
from commonbrain_evals.retrieval.eval_store import NoteStore, open_note_store
from commonbrain_evals.retrieval.record import ALL, Run, commit, digest, read, read_as
from commonbrain_evals.retrieval.runs import EvalRequest, ablated, check_parts
from commonbrain_evals.retrieval.statebench_data import (
    StateNote,
    StateQuestion,
    Timeline,
    read_timelines,
)
from commonbrain_evals.retrieval.statebench_verdicts import (
    AnswerPhrases,
    Says,
    ShownItem,
    StateOutcome,
    judge,
)
from commonbrain_evals.retrieval.tables import empty_table, percent

RANKED: Final = (
    *("supersession", "supersession_detection", "repair_propagation", "environmental_freshness"),
    *("interruption_resumption", "brutal_realistic", "scope_permission"),
)
"""Tracks whose stale and current texts recall can put in order."""
_EXPLORATORY: Final = "scope_leak"
_MENTIONED: Final = (*RANKED, _EXPLORATORY, "commitment_durability")
LEFT_OUT: Final[Mapping[str, str]] = {
    "hallucination_resistance": "asks for what was never said: no text to find",
    "causality": "asks for a conclusion from several constraints; nothing is stale",
    "authority_hierarchy": "the higher rank decides, not the later text",
    "enterprise_privacy": "holds nothing of the other tenant, so nothing can leak",
}
_METRICS: Final = (*("mentioned", "current_first", "stale_above", "stale_or_both_above", "leaked"),)
_MARKS: Final = (EARLIER, "needs review")
"""How the notes begin of what no longer holds, or rests on what does not."""
_FAILURES_SHOWN: Final = 10
_BOTH: Final = "both"
_WITHOUT: Final = "without "
_MEASURE: Final = "statebench current first"
_DATA: Final = (
    "Every turn, initial fact and state write is given to plain remember at its time, in one"
    " session per timeline; a state is written as 'key: value', or as its value where the key says"
    " nothing new. Restricted facts are private notes of another agent. mentioned: any item says a"
    " must_mention phrase. Of questions with a text that says what must be mentioned and a text"
    " that says what must not, without taking it back, current_first: one of the former precedes"
    " all unmarked ones of the latter; stale_above: the other way round; stale_or_both_above: also"
    " counting texts that say both. leaked: a restricted fact is shown, or in scope_leak an"
    " exploratory text, unmarked. The timelines come from few templates, so the halves, chosen by"
    " their ids, share wording."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuestionResult:
    """One question, and what each system shows."""

    id: str
    track: str
    half: CalibrationSplit
    question: str
    systems: Mapping[str, StateOutcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFigure:
    """One share: of one metric, system, track and half."""

    half: str
    """One of `CalibrationSplit`, or `both`."""
    track: str
    system: str
    metric: str
    questions: int
    """Those that the metric applies to."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReport:
    """The whole evaluation, one row per question."""

    data: str
    source: str
    sha256: str
    version: str
    commit: str | None
    seed: int
    conversations: int | None
    without: tuple[str, ...]
    space: str
    started_at: str
    timelines: int
    notes: int
    refused: int
    """Notes that were refused as repetitions."""
    left_out: Mapping[str, str]
    figures: tuple[StateFigure, ...]
    rows: tuple[StateQuestionResult, ...]


def evaluate(
    request: EvalRequest, *, settings: Settings, on_progress: Progress = ignore_progress
) -> StateReport:
    """Remember each timeline in a store of its own, and ask its questions.

    Raises:
        InvalidInputError: the data is missing or malformed, recall has no such part, or nothing can
            be measured.

    """
    check_parts(request.without, notes=True)
    if request.questions is not None:
        raise InvalidInputError(
            "The questions of a timeline belong together.", hint="Sample with --conversations."
        )
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    timelines = _choose(read_timelines(request.path), request)
    rows: list[StateQuestionResult] = []
    notes = refused = 0
    space = ""
    for number, timeline in enumerate(timelines, 1):
        start = timeline.events[0].at
        with open_note_store(
            settings=settings, start=start, seed=request.seed, without=request.without
        ) as store:
            life = _TimelineRun(store, timeline, request)
            rows += life.results()
            notes += life.notes
            refused += life.refused
            space = store.brain.services.embedder.space.name
        on_progress(number / len(timelines))
    return StateReport(
        data=_DATA,
        source=request.path.name,
        sha256=digest([request.path]),
        version=version("commonbrain"),
        commit=commit(),
        seed=request.seed,
        conversations=request.conversations,
        without=request.without,
        space=space,
        started_at=started_at,
        timelines=len(timelines),
        notes=notes,
        refused=refused,
        left_out=LEFT_OUT,
        figures=tuple(_figures(rows)),
        rows=tuple(rows),
    )


def _choose(timelines: Sequence[Timeline], request: EvalRequest) -> Sequence[Timeline]:
    usable = [timeline for timeline in timelines if timeline.track in _MENTIONED]
    if not usable:
        raise InvalidInputError(
            "No timeline is of a track that retrieval can answer.", hint=", ".join(_MENTIONED)
        )
    count = request.conversations
    if count is None or count >= len(usable):
        return usable
    chosen = random.Random(request.seed).sample(range(len(usable)), count)  # noqa: S311 foreseen
    return [usable[place] for place in sorted(chosen)]


class _TimelineRun:
    """One timeline in one store."""

    def __init__(self, store: NoteStore, timeline: Timeline, request: EvalRequest) -> None:
        self.store = store
        self.timeline = timeline
        self.asker = store.brain.acting_as(agent=timeline.user, session=timeline.id)
        self.notes = 0
        self.refused = 0
        self.visible: list[str] = []
        self.restricted: set[str] = set()
        self.systems: Mapping[str, Callable[[str], Sequence[ShownItem]]] = {
            RECALL: partial(self._recall, without=request.without),
            **{name: partial(self._baseline, name=name) for name in ("full text", "vectors")},
            **{
                f"{_WITHOUT}{part}": partial(
                    self._recall, without=(*request.without, *parts_of(part))
                )
                for part in ablated(request)
            },
        }

    def results(self) -> Iterator[StateQuestionResult]:
        for event in self.timeline.events:
            self.store.advance_to(event.at)
            if isinstance(event, StateNote):
                self._remember(event)
            else:
                yield self._ask(event)

    def _remember(self, note: StateNote) -> None:
        view = self.asker.acting_as(agent=note.writer)
        scope = Scope.PRIVATE if note.restricted_to else None
        [outcome] = self.store.remember(view, note.text, scope=scope)
        self.notes += 1
        self.refused += not outcome.status.is_new
        if note.restricted_to is None:
            self.visible.append(note.text)
        elif outcome.id is not None:
            self.restricted.add(outcome.id)

    def _ask(self, question: StateQuestion) -> StateQuestionResult:
        # A few questions of the data demand what they forbid.
        must_not = tuple(phrase for phrase in question.must_not if phrase not in question.must)
        phrases = AnswerPhrases(must=question.must, must_not=must_not)
        readings = {phrases.read(text) for text in self.visible}
        track = self.timeline.track
        is_ranked = track in RANKED and {Says.CURRENT, Says.STALE} <= readings
        leak = Says.NEITHER if self.restricted else None
        if track == _EXPLORATORY:
            leak = Says.STALE
        return StateQuestionResult(
            id=question.id,
            track=track,
            half=split_of(self.timeline.id),
            question=question.text,
            systems={
                name: judge(phrases, ask(question.text), is_ranked=is_ranked, leak=leak)
                for name, ask in self.systems.items()
            },
        )

    def _recall(self, text: str, *, without: tuple[str, ...]) -> Sequence[ShownItem]:
        overrides = RetrievalOverrides(without=frozenset(without))
        recall = Recall(self.asker.services, self.asker.caller, overrides)
        return [
            ShownItem(
                text=item.shown_text,
                is_marked=is_marked(item),
                is_restricted=item.id in self.restricted,
            )
            for item in recall(text, bump=False).items
        ]

    def _baseline(self, text: str, *, name: str) -> Sequence[ShownItem]:
        ranked = list(BASELINES[name].rank(search(self.asker, text)))[:RECALL_ITEMS_DEFAULT]
        memories = self.store.memories(ranked)
        return [
            ShownItem(
                text=full_text(memories[id_].headline, memories[id_].body),
                is_restricted=ids.show(ids.MEMORY, id_) in self.restricted,
            )
            for id_ in ranked
        ]


def is_marked(item: Item) -> bool:
    """Return whether an item says that a newer one changed it, or that its grounds fell."""
    return any(note.startswith(_MARKS) for note in item.notes)


def read_differences(records: Sequence[Path]) -> Differences:
    """Read what leaving out each part changes, of runs and of reports of StateBench.

    Raises:
        InvalidInputError: a record cannot be read, or none has runs without each part.

    """
    runs: list[Run] = []
    differences: dict[tuple[str, str], Sequence[float]] = {}
    for path in records:
        try:
            differences |= differences_of_report(read_as(StateReport, path))
        except InvalidInputError:
            runs.append(read(path))
    return differences if differences and not runs else {**differences_of(runs), **differences}


def differences_of_report(report: StateReport) -> Differences:
    """Return what leaving out each part changes of `current_first`, by part and measure."""
    ranked = [row for row in report.rows if row.systems[RECALL].current_first is not None]
    names = [name for name in ranked[0].systems if name.startswith(_WITHOUT)] if ranked else []
    return {
        (name.removeprefix(_WITHOUT), _MEASURE): [
            float(row.systems[name].current_first or 0)
            - float(row.systems[RECALL].current_first or 0)
            for row in ranked
        ]
        for name in names
    }


def _figures(rows: Sequence[StateQuestionResult]) -> Iterator[StateFigure]:
    for half in (*CalibrationSplit, _BOTH):
        here = [row for row in rows if half in {row.half, _BOTH}]
        for track in (ALL, *dict.fromkeys(sorted(row.track for row in here))):
            those = [row for row in here if track in {ALL, row.track}]
            for system in those[0].systems if those else ():
                for metric in _METRICS:
                    values = [getattr(row.systems[system], metric) for row in those]
                    known = [value for value in values if value is not None]
                    if known:
                        yield StateFigure(
                            half=half,
                            track=track,
                            system=system,
                            metric=metric,
                            questions=len(known),
                            count=sum(known),
                        )


def show_states(report: StateReport) -> None:
    """Print the figures by half and track, and failures of the half calibrate."""
    console = Console(highlight=False)
    console.print(
        f"statebench: {report.source}, sha256 {report.sha256[:16]}, commonbrain {report.version},"
        f" commit {report.commit or 'unknown'}, seed {report.seed}",
        markup=False,
    )
    console.print(
        f"{report.timelines} timelines, {report.notes} notes ({report.refused} refused as"
        f" repetitions), {len(report.rows)} questions"
        + (f", without {', '.join(report.without)}" if report.without else ""),
        markup=False,
    )
    for metric in dict.fromkeys(figure.metric for figure in report.figures):
        console.print(_table(report, metric))
    if any(figure.system.startswith(_WITHOUT) for figure in report.figures):
        console.print(_ablation(report))
    failures = [
        row
        for row in report.rows
        if row.half is CalibrationSplit.CALIBRATE and row.systems[RECALL].current_first is False
    ]
    console.print(f"{len(failures)} of the half calibrate not current first; the first ten:")
    for row in failures[:_FAILURES_SHOWN]:
        above = row.systems[RECALL].first_stale or "(neither shown, or one that says both)"
        console.print(f"  {row.track}: {row.question} / {inert_line(above)}", markup=False)
    for track, reason in report.left_out.items():
        console.print(f"left out: {track}: {reason}", markup=False)
    console.print(report.data, markup=False, style="dim")


def _table(report: StateReport, metric: str) -> Table:
    figures = [
        figure
        for figure in report.figures
        if figure.metric == metric and not figure.system.startswith(_WITHOUT)
    ]
    systems = list(dict.fromkeys(figure.system for figure in figures))
    table = empty_table(metric, ("half", "track", "questions", *systems))
    cells: dict[tuple[str, str], dict[str, StateFigure]] = {}
    for figure in figures:
        cells.setdefault((figure.half, figure.track), {})[figure.system] = figure
    for (half, track), by_system in cells.items():
        questions = next(iter(by_system.values())).questions
        shares = (percent(by_system[name].count / questions) for name in systems)
        table.add_row(half, track, str(questions), *shares)
    return table


def _ablation(report: StateReport) -> Table:
    """Show recall over all tracks, whole and without each part."""
    names = {"current_first": "current", "stale_above": "stale"}
    columns = [(metric, half) for metric in names for half in CalibrationSplit]
    heads = (f"{names[metric]} {half}" for metric, half in columns)
    title = "What is left out: current_first and stale_above of all tracks, %"
    table = empty_table(title, ("left out", *heads))
    shares = {
        (figure.system, figure.metric, figure.half): percent(figure.count / figure.questions)
        for figure in report.figures
        if figure.track == ALL
    }
    for system in dict.fromkeys(figure.system for figure in report.figures):
        if system == RECALL or system.startswith(_WITHOUT):
            name = "" if system == RECALL else system.removeprefix(_WITHOUT)
            table.add_row(name, *(shares.get((system, *column), "") for column in columns))
    return table
