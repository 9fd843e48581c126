"""What an answer says beside a memory: what it is part of, what was noted, why to be careful."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from commonbrain.invalidation.reviews import review_notes
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import ANNOTATIONS_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import CURRENT_STATES, State
from commonbrain.model.query import Candidate, Filter, is_allowed
from commonbrain.model.skills import skill_of
from commonbrain.model.support import Review
from commonbrain.retrieval.banner import DEPRECATED
from commonbrain.retrieval.links import LinkExpansion
from commonbrain.retrieval.query_plan import QueryPlan
from commonbrain.storage.interface import Annotation

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_NOTE_CHARS_MAX: Final = 120
"""Shown of one annotation beside an item; get shows all of it."""
_CONTEXT_CHARS_MAX: Final = 60
"""Shown of the headline of what an item is part of: every item of a thread repeats it."""


def attach_metadata(
    tx: Transaction,
    plan: QueryPlan,
    *,
    ranked: Sequence[Candidate],
    graph: LinkExpansion,
    needs: Mapping[int, Sequence[Review]],
) -> list[Candidate]:
    """Give the candidates with what is to be said beside those that may get a seat."""
    near, rest = ranked[: 2 * plan.budget.max_items], ranked[2 * plan.budget.max_items :]
    annotations = tx.annotations.of([candidate.memory.id for candidate in near])
    close = {one.memory.id for one in near}
    review_notes_by_id = review_notes(
        tx, plan.caller, needs={id_: needs[id_] for id_ in needs if id_ in close}
    )
    contexts = _contexts(tx, plan, near=near, graph=graph)
    results: list[Candidate] = []
    for one in near:
        id_ = one.memory.id
        lines = tuple(
            _notes(
                one,
                plan,
                annotations=annotations.get(id_, ()),
                review_note=review_notes_by_id.get(id_),
            )
        )
        context = contexts.get(id_)
        # Beside most there is nothing to be said.
        has_metadata = context is not None or lines
        results.append(replace(one, context=context, notes=lines) if has_metadata else one)
    return [*results, *rest]


def _notes(
    candidate: Candidate,
    plan: QueryPlan,
    *,
    annotations: Sequence[Annotation],
    review_note: str | None,
) -> Iterator[str]:
    memory = candidate.memory
    skill = skill_of(memory)
    if skill and candidate.features.get("skill"):
        yield f"skill:{skill.name}"
    if memory.state is State.SUPERSEDED and memory.kind is Kind.RULE:
        yield DEPRECATED
    if memory.state not in CURRENT_STATES:
        yield f"{memory.state}"
    if candidate.features.get("contradicted"):
        yield "contradicted"
    if review_note is not None:
        yield review_note
    trusted = [one for one in annotations if one.trust.weight >= plan.filter.trust_min]
    for one in trusted[-ANNOTATIONS_MAX:]:
        yield f"noted by {one.agent} ({one.trust}): {_truncate(one.text, _NOTE_CHARS_MAX)}"


def _contexts(
    tx: Transaction, plan: QueryPlan, *, near: Iterable[Candidate], graph: LinkExpansion
) -> Mapping[int, str]:
    """Give the thread of each message, and the episode that tells of a memory."""
    threads: dict[int, int] = {}
    for candidate in near:
        detail = candidate.memory.detail
        if isinstance(detail, MessageDetail) and detail.thread_id is not None:
            threads[candidate.memory.id] = detail.thread_id
    subjects = tx.threads.subjects(list(dict.fromkeys(threads.values())))
    short = {thread: _truncate(subject, _CONTEXT_CHARS_MAX) for thread, subject in subjects.items()}
    results = {id_: short[thread] for id_, thread in threads.items() if thread in short}
    return dict(_episodes(plan, graph)) | results


def _episodes(plan: QueryPlan, graph: LinkExpansion) -> Iterator[tuple[int, str]]:
    for link in graph.links:
        episode = graph.ends.get(link.from_id)
        if link.type is not LinkType.DERIVED_FROM or episode is None:
            continue
        if episode.kind is Kind.EPISODE and is_allowed(
            episode, plan.caller, wanted=Filter(), now=plan.now
        ):
            yield link.to_id, _truncate(episode.headline, _CONTEXT_CHARS_MAX)


def _truncate(text: str, chars_max: int) -> str:
    line = inert_line(text)
    return line if len(line) <= chars_max else f"{line[: chars_max - 1]}…"
