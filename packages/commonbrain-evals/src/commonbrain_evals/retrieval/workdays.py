"""Five weeks of a small team of developers and their agents, with questions: `workdays`.

What no public data has: projects, sessions, trust, links, rules, skills, tasks, captures of hooks,
values that were revised. Unlike other data it is not imported but lived through, each note at its
time by its author: `workdays.jsonl` holds the notes and what was done to them later,
`workday_questions.jsonl` who asks what, and which notes answer. `not_first` names notes that look
like an answer: of another project, outdated, or from a source that is trusted less.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

from commonbrain.client import Brain, Identity
from commonbrain.ingestion.result import ItemResult
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain_evals.retrieval.corpora import Corpus, DataSet, Question
from commonbrain_evals.retrieval.data_files import UtcTime, named_files_in, read_json_lines
from commonbrain_evals.retrieval.eval_store import NoteStore
from commonbrain_evals.retrieval.study import TALKS

_EXPECTS: Final = "a folder with workdays.jsonl and workday_questions.jsonl."
_FILES: Final = ("workdays.jsonl", "workday_questions.jsonl")
SHIPPED: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkdayStep:
    """A note with an `id` and a `text`, or what was done to the note `on`: rate, pin or status."""

    at: UtcTime
    project: str
    agent: str
    session: str | None = None
    id: str | None = None
    text: str = ""
    given: dict[str, Any] | None = None
    """Further arguments of `remember`."""
    depends_on: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """Type and note of each."""
    replaces: str | None = None
    reason: str | None = None
    do: str | None = None
    on: str | None = None
    vote: Literal["up", "down"] | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    id: str
    project: str
    agent: str
    session: str | None = None
    question: str
    gold: tuple[str, ...]
    not_first: tuple[str, ...] = ()
    category: str


def _read(files: Sequence[Path]) -> Iterator[Corpus]:
    notes, questions = files
    steps = tuple(read_json_lines(WorkdayStep, notes))
    known = {step.id for step in steps if step.id is not None}
    queries = tuple(read_json_lines(_Asked, questions))
    for query in queries:
        if missing := {*query.gold, *query.not_first} - known:
            raise InvalidInputError(f"{questions.name}, {query.id}: there is no note {missing}.")
    yield Corpus(
        name=notes.stem,
        drafts=lambda: iter(()),
        live=lambda store: live(store, steps),
        begins_at=steps[0].at,
        ends_at=steps[-1].at + timedelta(days=1),
        questions=tuple(map(_question, queries)),
    )


def _question(query: _Asked) -> Question:
    return Question(
        id=query.id,
        text=query.question,
        category=query.category,
        gold=dict.fromkeys(query.gold, 1),
        not_first=query.not_first,
        asker=Identity(agent=query.agent, project=query.project, session=query.session),
    )


def live(store: NoteStore, steps: Sequence[WorkdayStep]) -> Mapping[str, int]:
    """Take every step at its time, and give the memory of each note.

    Raises:
        InvalidInputError: a note was not stored, or a step has a `do` that is not known.

    """
    memory_of: dict[str, str] = {}
    for step in steps:
        store.advance_to(step.at)
        view = store.brain.acting_as(agent=step.agent, project=step.project, session=step.session)
        if step.do is not None:
            _act(view, step, id_=memory_of[step.on or ""])
            continue
        item = _noted(view, step, memory_of=memory_of)
        if item.id is None or not item.status.is_new:
            raise InvalidInputError(f"{step.id}: the note was not stored but {item.status}.")
        memory_of[step.id or ""] = item.id
        for type_, to in step.links:
            view.revise.link(item.id, memory_of[to], type=type_)
    return {name: ids.parse(ids.MEMORY, shown) for name, shown in memory_of.items()}


def _noted(view: Brain, step: WorkdayStep, *, memory_of: Mapping[str, str]) -> ItemResult:
    given = dict(step.given or {})
    if step.depends_on:
        given["depends_on"] = [memory_of[name] for name in step.depends_on]
    if step.replaces is not None:
        return view.revise.supersede(
            memory_of[step.replaces], step.text, reason=step.reason or "", **given
        )
    return view.remember(step.text, **given).items[0]


def _act(view: Brain, step: WorkdayStep, *, id_: str) -> None:
    match step.do:
        case "rate" if step.vote is not None:
            view.revise.rate(id_, step.vote)
        case "pin":
            view.revise.pin(id_)
        case "status":
            view.revise.status(id_, step.status or "", reason=step.reason or "")
        case _:
            raise InvalidInputError(f"There is no step {step.do!r}.")


WORKDAYS: Final = DataSet(
    expects=_EXPECTS,
    files=lambda path: named_files_in(path, _FILES, expects=_EXPECTS),
    read=_read,
    recipes=TALKS,
    shipped=SHIPPED,
)
