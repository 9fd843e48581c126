"""The fifth stage of a recall: what may be shown, in which order, and what is said of each.

Candidates come in the order of their scores. Those that the caller may not see or did not ask for
go, and so do summaries of what is there itself. What is on one matter is shown together: what a
claimed change says no longer holds follows the memory that changed it, marked as earlier. Otherwise
a newer memory that is near to an older one, and about as near to the question, is shown next to it,
and the older one names it without a judgement. Of two that answer equally well, as far as words and
meaning tell, the newer comes first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import KINDS, SUMMARY, Kind, MessageDetail, is_blocker
from commonbrain.model.limits import ANNOTATIONS_MAX
from commonbrain.model.links import (
    Conflict,
    LinkType,
    basis_of,
    conflict_of,
    is_sure,
)
from commonbrain.model.memory import CURRENT_STATES, Memory, State, says_too_little
from commonbrain.model.query import Candidate, Filter, is_allowed
from commonbrain.model.recall_result import EARLIER, NEWER, Order, SourceTurn
from commonbrain.model.revision import DEPRECATED
from commonbrain.model.scope import Authority
from commonbrain.model.skills import skill_of
from commonbrain.model.support import may_outdate, outranks
from commonbrain.model.timestamps import show_day
from commonbrain.retrieval.occurrences import at_each_time, time_of_occurrence
from commonbrain.retrieval.plan import NEWER_FIRST, SOURCES_FIRST, content_words
from commonbrain.retrieval.score import has_answer
from commonbrain.retrieval.table import SKILL
from commonbrain.text.normalisation import is_same_text
from commonbrain.text.repetition import adds_nothing, content_stems
from commonbrain.text.segmentation import Sought, excerpt
from commonbrain.text.time_expressions.mentions import notes_in
from commonbrain.text.tokens import estimate
from commonbrain.text.words import stem

if TYPE_CHECKING:
    from commonbrain.retrieval.table import Table
    from commonbrain.retrieval.value_history import ValueChange

LINKED: Final = "linked"
"""The feature of a candidate that links brought."""


def order(table: Table) -> None:
    """Bring the ranked candidates into the order in which they are shown."""
    plan = table.plan
    table.considered = table.ranked
    visible = filter_visible(table, table.ranked)
    table.passed = frozenset(one.memory.id for one in visible)
    if plan.query:
        visible = _order_by_matter(table, _drop_messages(table, _drop_summaries(table, visible)))
        if plan.budget.order is Order.TIMELINE and table.times:
            visible = filter_visible(table, _repeat_for_times(table, visible))
    table.ranked = visible
    table.is_answered = has_answer(table)
    table.conflicts = _list_conflicts(table)
    table.considered = with_marks(table.considered, table.ranked)


def describe(table: Table) -> None:
    """Add context, notes, history and source to the candidates that may become items."""
    near = 2 * table.plan.budget.max_items
    table.ranked = [*_describe_each(table, table.ranked[:near]), *table.ranked[near:]]


def filter_visible(table: Table, ranked: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that the caller may see and asked for, each text once, in order.

    A timeline has a text once for each time at which it happened.
    """
    plan = table.plan
    visible: list[Candidate] = []
    alike: defaultdict[tuple[str, datetime | None], list[Memory]] = defaultdict(list)
    caller, criteria, now = plan.caller, plan.filter, plan.now
    for candidate in ranked:
        memory = candidate.memory
        if criteria.needs_review and memory.id not in table.reviews:
            continue
        past = table.believed.get(memory.id, ())
        if is_allowed(memory, caller, criteria=criteria, now=now, past=past):
            time = time_of_occurrence(memory, order=plan.budget.order)
            known = alike[memory.semantic_hash, time]
            if not any(is_same_text(one.text, memory.text) for one in known):
                known.append(memory)
                visible.append(candidate)
    return visible


def with_marks(
    considered: Sequence[Candidate], shown: Iterable[Candidate], *, added: str = EARLIER
) -> Sequence[Candidate]:
    """Return candidates for the recall log, with a feature that was added later."""
    marked = {one.memory.id: one.features for one in shown if added in one.features}
    if not marked:
        return considered
    return [replace(one, features=marked.get(one.memory.id, one.features)) for one in considered]


def _drop_summaries(table: Table, ranked: list[Candidate]) -> list[Candidate]:
    """Leave out the episodes of reflections whose sources are candidates too.

    An episode says a third of what its sources say, so it only takes their place. It stays for a
    question with a time ("What was decided on Monday?"), for a query for episodes, and once its
    sources have faded.
    """
    plan = table.plan
    wants_them = plan.period is not None or Kind.EPISODE in plan.filter.kinds or plan.filter.labels
    if wants_them or not plan.overrides.is_enabled(SOURCES_FIRST):
        return ranked
    known = {one.memory.id for one in ranked}
    return [
        one
        for one in ranked
        if one.memory.kind is not Kind.EPISODE
        or one.memory.label != SUMMARY
        or known.isdisjoint(table.derived.get(one.memory.id, ()))
    ]


def _drop_messages(table: Table, ranked: list[Candidate]) -> list[Candidate]:
    """Show what was taken from a message, or superseded it, in place of one that says no more."""
    taken = {one.source_message_id: one for one in reversed([*table.known.values()])}
    current = {one.memory.id: one for one in ranked}
    # The latest first, so that each of several revisions leads to what holds.
    for memory in sorted(table.known.values(), key=lambda one: -one.superseded_count):
        if newer := current.get(memory.superseded_by or 0):
            current.setdefault(memory.id, newer)
    shown = dict[int, Candidate]()
    for one in ranked:
        fact = taken.get(one.memory.id)
        text = fact and one.memory.body.removeprefix(f"@{fact.label}").lstrip(" :")
        says_more = isinstance(one.memory.detail, MessageDetail) and one.memory.detail.subject
        is_same = fact and text == fact.body and not says_more
        newest = current.get(fact.id) if fact and is_same else None
        first = replace(newest, score=one.score) if newest else one
        shown.setdefault(first.memory.id, first)
    return list(shown.values())


def _repeat_for_times(table: Table, ranked: Sequence[Candidate]) -> list[Candidate]:
    """Repeat each candidate of a timeline for all of its times, latest first."""
    return [
        replace(one, memory=at)
        for one in ranked
        for at in reversed(at_each_time([one.memory], table.times))
    ]


def _order_by_matter(table: Table, ranked: list[Candidate]) -> list[Candidate]:
    """Order candidates by matter, each at the place of its best; each rank keeps its score.

    Skills of people come first, those of models rank as their texts do. A changed memory gets the
    feature `EARLIER` and a note that names what changed it, which is brought in if it was not
    found.
    """
    plan = table.plan
    skills = [one for one in ranked if is_persons_skill(one)]
    others = [one for one in ranked if not is_persons_skill(one)] if skills else ranked
    if table.changes:
        others = _place_changed(table, others)
    if table.similarity is not None and len(others) > 1:
        others = _join_matters(table, others)
    return place_persons(
        _place_blockers(table, [*skills, *others]),
        count=plan.budget.max_items,
        is_near=partial(is_on_matter, table),
    )


_BLOCKERS_PLACED: Final = 2
"""BLOCKERs that come second and third at the latest; hooks show three memories."""


def is_persons_skill(candidate: Candidate) -> bool:
    """Return whether it is a skill of a person that the query names."""
    return bool(candidate.features.get(SKILL)) and candidate.memory.authority is Authority.PERSON


def _place_blockers(table: Table, ranked: list[Candidate]) -> list[Candidate]:
    """Put the nearest BLOCKERs of people behind the best result, and before skills of others.

    Other authors choose how near their texts are to a question, and how many they are.
    """
    blockers = [
        (table.cosines.get(one.memory.id, 0.0), place)
        for place, one in enumerate(ranked)
        if is_persons_blocker(one.memory) and is_on_matter(table, one)
    ]
    is_led = bool(ranked) and (not ranked[0].features.get(SKILL) or is_persons_skill(ranked[0]))
    places = [place for _, place in nlargest(_BLOCKERS_PLACED, blockers)]
    late = [place for at, place in enumerate(places, start=is_led) if place > at]
    if not late:
        return ranked
    others = [one for place, one in enumerate(ranked) if place not in late]
    start = is_led + len(places) - len(late)
    moved = (ranked[place] for place in late)
    return assign_scores([*others[:start], *moved, *others[start:]], ranked)


def place_persons(
    ranked: list[Candidate], *, count: int, is_near: Callable[[Candidate], bool]
) -> list[Candidate]:
    """Let the last of the first be a person's if all are of others: a rule if one of them is."""
    best, later = ranked[:count], ranked[count:]
    of_persons = [one for one in later if one.memory.authority is Authority.PERSON]
    if count == 1 or not of_persons:
        return ranked
    has_rules = any(KINDS[one.memory.kind].is_binding for one in best)
    for is_binding in (has_rules, False):
        is_due = partial(_is_persons, is_binding=is_binding)
        if any(map(is_due, best)):
            return ranked
        due = next((one for one in of_persons if is_due(one) and is_near(one)), None)
        if due is not None:
            rest = (one for one in ranked if one is not due)
            return assign_scores([*islice(rest, count - 1), due, *rest], ranked)
    return ranked


def _is_persons(candidate: Candidate, *, is_binding: bool) -> bool:
    memory = candidate.memory
    is_alike = KINDS[memory.kind].is_binding or not is_binding
    return is_alike and memory.authority is Authority.PERSON


def is_persons_blocker(memory: Memory) -> bool:
    """Return whether it is a BLOCKER of a person."""
    return is_blocker(memory.detail) and memory.authority is Authority.PERSON


_WORDS_SHARED_MIN: Final = 2


def is_on_matter(table: Table, candidate: Candidate) -> bool:
    """Return whether a memory that still holds is near to the query, by meaning if it is known.

    Otherwise it has at least half of the query's terms, and at least two.
    """
    memory = candidate.memory
    if EARLIER in candidate.features:
        return False
    if table.cosines:
        return table.cosines.get(memory.id, 0.0) >= table.space.relevance_threshold
    terms = frozenset(table.plan.terms)
    shared = len(terms.intersection(content_words(f"{memory.headline} {memory.body}", frozenset())))
    return shared >= max(_WORDS_SHARED_MIN, len(terms) / 2)


def _place_changed(table: Table, ranked: Sequence[Candidate]) -> list[Candidate]:
    """Put each changed memory after what changed it, and mark it."""
    plan = table.plan
    changes = table.changes
    by_id = {one.memory.id: one for one in ranked}
    ordered: dict[int, Candidate] = {}
    for one in ranked:
        change = changes.get(one.memory.id)
        if change is None:
            ordered.setdefault(one.memory.id, one)
            continue
        for newer in (change.head, change.newer):
            if newer.id not in ordered and newer.id not in changes:
                candidate = by_id.get(newer.id)
                if candidate is not None:
                    ordered[newer.id] = candidate
                elif is_allowed(newer, plan.caller, criteria=plan.filter, now=plan.now):
                    brought = Candidate(memory=newer, features={LINKED: 1.0}, score=one.score)
                    ordered[newer.id] = brought
        ordered[one.memory.id] = _mark_earlier(one, change)
    return assign_scores(ordered.values(), ranked)


def _mark_earlier(older: Candidate, change: ValueChange) -> Candidate:
    shown_id, day = ids.show(ids.MEMORY, change.newer.id), show_day(change.newer.occurred_at)
    note = f"{EARLIER}, changed by {shown_id} on {day}"
    features = {**older.features, EARLIER: 1.0}
    return replace(older, features=features, notes=(note, *older.notes))


_FIRST: Final = 10
"""Best candidates that get their newer neighbours; later ones are seldom shown in full."""
_SEARCHED: Final = 24
"""Best candidates among which the newer neighbours are looked for."""
_NEAR: Final = 0.6
"""Cosine from which two memories are on one matter."""
_GAP_MAX: Final = 0.2
"""How much further from the question the newer memory may be, as a cosine."""
_TIED: Final = 0.75
"""Cosine from which the newer of two memories comes first, if it answers equally well."""
_TIE_MAX: Final = 0.1
"""How much further from the question it may be, as a cosine: a near tie."""


def _join_matters(table: Table, ranked: list[Candidate]) -> list[Candidate]:
    """Put memories on one matter next to each other; the older names the newer.

    Nothing is said of pairs of which a user said that both hold.
    """
    plan = table.plan
    newer_of: dict[int, int] = {}
    before_of: dict[int, int] = {}
    orders = plan.is_about_now and plan.overrides.is_enabled(NEWER_FIRST)
    for older, near in _find_near(table, ranked).items():
        memory = table.known[older]
        higher = [(c, id_) for c, id_, one in near if outranks(one, memory)]
        newer = [
            (cosine, id_, one)
            for cosine, id_, one in near
            if may_outdate(one, memory) and not may_outdate(memory, one)
        ]
        if higher:
            before_of[older] = max(higher)[1]
        elif newer:
            cosine, id_, one = max(newer, key=lambda each: each[:2])
            newer_of[older] = id_
            is_tie = cosine >= _TIED and table.cosines[older] - table.cosines[id_] <= _TIE_MAX
            if orders and is_tie and _answers_as_well(one, memory, asked=plan.content_terms):
                before_of[older] = id_
    if not (newer_of or before_of):
        return ranked
    return assign_scores(group_matters(ranked, newer_of=newer_of, before_of=before_of), ranked)


def _find_near(
    table: Table, ranked: Sequence[Candidate]
) -> Mapping[int, Sequence[tuple[float, int, Memory]]]:
    """Map memories that may change to those on the same matter, each with their cosine.

    What happened is never outdated, but may come after what it ended.
    """
    import numpy as np  # noqa: PLC0415 replies are described without it

    assert table.similarity is not None  # noqa: S101 the caller has looked
    places, cosines = table.similarity
    pool = [
        (one, rank < _FIRST)
        for rank, one in enumerate(ranked[:_SEARCHED])
        if one.memory.id in places and KINDS[one.memory.kind].can_change_others
    ]
    at = [places[one.memory.id] for one, _ in pool]
    settled = {
        frozenset({link.from_id, link.to_id}): link.authority
        for link in table.links
        if link.type is LinkType.RELATES_TO
    }
    near: defaultdict[int, list[tuple[float, int, Memory]]] = defaultdict(list)
    for row, column in np.argwhere(cosines[np.ix_(at, at)] >= _NEAR).tolist():
        (one, is_first), (other, is_other_first) = pool[row], pool[column]
        older, newer = one.memory, other.memory
        if (
            row != column
            and (newer.occurred_at >= older.occurred_at or outranks(newer, older))
            and KINDS[older.kind].can_change
            and (is_first or is_other_first)
            and EARLIER not in one.features
            and EARLIER not in other.features
            and not _is_settled(older, newer, settled=settled)
            and abs(table.cosines[older.id] - table.cosines[newer.id]) <= _GAP_MAX
            and not (
                older.semantic_hash == newer.semantic_hash and is_same_text(older.text, newer.text)
            )
        ):
            near[older.id].append((float(cosines[at[row], at[column]]), newer.id, newer))
    return near


def _is_settled(one: Memory, other: Memory, *, settled: Mapping[frozenset[int], Authority]) -> bool:
    """Return whether both hold by the word of who may say so of either."""
    authority = settled.get(frozenset({one.id, other.id}))
    return authority is not None and authority.rank <= min(one.authority.rank, other.authority.rank)


def _answers_as_well(newer: Memory, older: Memory, *, asked: Iterable[str]) -> bool:
    """Return whether the newer has each word of the question that the older one has.

    It must not speak of another thing: "Grandma takes 5 mg", "Grandpa takes 10 mg".
    """
    new, old = newer.reading, older.reading
    return not new.is_of_another_thing(old) and {*map(stem, asked)} & old.stems <= new.stems


def group_matters(
    ranked: Sequence[Candidate], *, newer_of: Mapping[int, int], before_of: Mapping[int, int]
) -> Iterable[Candidate]:
    """Yield each candidate, and after it the newer and older ones of the same matter.

    What `before_of` names, newer or of a higher rank, comes before it.
    """
    by_id = {one.memory.id: one for one in ranked}
    older_of: dict[int, list[int]] = {}
    for older, newer in newer_of.items():
        older_of.setdefault(newer, []).append(older)
    placed: dict[int, Candidate] = {}
    deferred: set[int] = set()
    for one in ranked:
        waiting = [one.memory.id]
        while waiting:
            id_ = waiting.pop(0)
            before = before_of.get(id_)
            if before is not None and before not in placed and before not in deferred:
                # Once: what comes after itself, by way of others, keeps its place.
                deferred.add(id_)
                waiting[:0] = [before, id_]
                continue
            if id_ in placed:
                continue
            candidate = by_id[id_]
            newer = newer_of.get(id_)
            if newer is not None:
                note = f"{NEWER}{ids.show(ids.MEMORY, newer)}"
                candidate = replace(candidate, notes=(note, *candidate.notes))
                waiting.append(newer)
            placed[id_] = candidate
            waiting += older_of.get(id_, ())
    return placed.values()


def assign_scores(ordered: Iterable[Candidate], ranked: Sequence[Candidate]) -> list[Candidate]:
    """Give each rank the score that it had."""
    places = list(ordered)
    scores = sorted((one.score for one in ranked), reverse=True)
    scores += [scores[-1]] * (len(places) - len(scores))
    return [
        one if one.score == score else replace(one, score=score)
        for one, score in zip(places, scores, strict=True)
    ]


def _list_conflicts(table: Table) -> list[Conflict]:
    """List the conflicts of which the caller may see both sides.

    They come from links, and from memories that repeat what a superseded source said.
    """
    plan = table.plan

    def is_seen(memory: Memory) -> bool:
        return is_allowed(memory, plan.caller, criteria=plan.filter, now=plan.now)

    linked: dict[Conflict, None] = {}
    for link in table.links:
        if link.type is LinkType.CONFLICTS_WITH and is_sure(link):
            one, other = table.known.get(link.from_id), table.known.get(link.to_id)
            if one is not None and other is not None and is_seen(one) and is_seen(other):
                linked[conflict_of(one, other, basis=basis_of(link))] = None
    shown = {ids.show(ids.MEMORY, one.memory.id) for one in table.ranked}
    return [*linked, *(one for one in table.outdated if not shown.isdisjoint(one.ids))]


_NOTE_CHARS_MAX: Final = 120
"""Characters shown of an annotation; get shows all of it."""
_CONTEXT_CHARS_MAX: Final = 60
"""Characters shown of a thread's subject, which every item of the thread repeats."""


def _describe_each(table: Table, ranked: Sequence[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates that may become items with context, notes, history and source."""
    plan = table.plan
    episodes = dict(_list_episodes(table))
    for one in ranked:
        memory = one.memory
        notes = tuple(_list_notes(one, table))
        context, context_id = _find_context(memory, table, episode=episodes.get(memory.id))
        earlier = source = None
        if not one.features.get(EARLIER):
            earlier = table.histories.get(memory.id)
            if sources := table.sources.get(memory.id):
                source = _describe_source(memory, sources, terms=plan.terms)
        # Most candidates have none; they are not copied.
        if notes or context is not None or earlier is not None or source is not None:
            yield replace(
                one,
                context=context,
                context_id=context_id,
                notes=notes,
                earlier=earlier,
                source=source,
            )
        else:
            yield one


_QUOTED: Final = frozenset({Kind.MESSAGE, Kind.EVENT})
"""Sources whose sentences are quoted; others are only named."""
_WITHOUT_QUOTE: Final = frozenset({Kind.MESSAGE, Kind.EVENT, Kind.EPISODE, Kind.ATOM})
"""A turn has its own text; an episode sums up many, and an atom repeats its source."""
_RECIPIENTS_MAX: Final = 3
_QUOTE_TOKENS_MAX: Final = 60
"""About two sentences; the item itself says what was asked for."""


def _describe_source(
    memory: Memory, sources: Sequence[Memory], *, terms: Sequence[str]
) -> SourceTurn:
    """Describe the best of some sources, with its sentences if they add to the memory.

    A fact is shorter than what was said, and an agent that needs the rest should not ask again.
    """
    known = content_stems(memory.text)
    best = max(
        sources,
        key=lambda one: (one.kind is Kind.MESSAGE, len(known & content_stems(one.text))),
    )
    text = ""
    if best.kind in _QUOTED and memory.kind not in _WITHOUT_QUOTE:
        # A longer text is cut to the sentences that say most of what is sought.
        sample = best.body[:1000]
        chars = _QUOTE_TOKENS_MAX * len(sample) // max(1, estimate(sample))
        sought = Sought([*sorted(known), *terms])
        is_short = len(best.body) <= chars
        text = inert_line(best.body if is_short else excerpt(best.body, sought, chars=chars))
    is_new = bool(text) and not adds_nothing(text, known=memory.text)
    detail = best.detail if isinstance(best.detail, MessageDetail) else MessageDetail()
    thread = detail.thread_id
    names, others = detail.recipients[:_RECIPIENTS_MAX], len(detail.recipients) - _RECIPIENTS_MAX
    return SourceTurn(
        id=ids.show(ids.MEMORY, best.id),
        kind=best.kind,
        by=best.speaker or best.agent,
        to=", ".join(names) + (f" and {others} more" if others > 0 else "") or None,
        thread=ids.show(ids.THREAD, thread) if thread is not None else None,
        date=show_day(best.occurred_at),
        has_others=len(sources) > 1 or None,
        text=text if is_new else None,
    )


def _list_notes(candidate: Candidate, table: Table) -> Iterator[str]:
    plan = table.plan
    memory = candidate.memory
    yield from candidate.notes
    yield from notes_in(memory.topics)
    if candidate.features.get(SKILL) and (skill := skill_of(memory)):
        yield f"skill:{skill.name}"
    if memory.state is State.SUPERSEDED and KINDS[memory.kind].is_binding:
        yield DEPRECATED
    if memory.state not in CURRENT_STATES:
        yield f"{memory.state}"
    if says_too_little(memory, plan.parameters):
        yield "archived: low salience"
    if candidate.features.get("contradicted") and not candidate.features.get(EARLIER):
        yield "contradicted"
    if (note := table.review_notes.get(memory.id)) is not None:
        yield note
    annotations = table.annotations.get(memory.id, ())
    trusted = [one for one in annotations if one.trust.weight >= plan.filter.trust_min]
    # A person's are not displaced by those of models.
    first = sorted(trusted, key=lambda one: one.authority.rank)[:ANNOTATIONS_MAX]
    for one in sorted(first, key=lambda one: one.id):
        yield f"noted by {one.agent} ({one.trust}): {_truncate(one.text, _NOTE_CHARS_MAX)}"


def _find_context(
    memory: Memory, table: Table, *, episode: Memory | None
) -> tuple[str, int] | tuple[None, None]:
    """Return the subject of the thread, the section or the episode of a memory, and its source."""
    subject = table.subjects.get(memory.thread_id or 0) if table.subjects else None
    if subject is not None:
        text, of = subject.text, subject.message_id
    elif memory.section:
        text, of = memory.section, memory.id
    elif episode is not None:
        text, of = episode.headline, episode.id
    else:
        return None, None
    return _truncate(text, _CONTEXT_CHARS_MAX), of


def _list_episodes(table: Table) -> Iterator[tuple[int, Memory]]:
    plan = table.plan
    criteria = Filter(trust_min=plan.filter.trust_min, project=plan.filter.project)
    for link in table.links:
        episode = table.known.get(link.from_id)
        if link.type is not LinkType.DERIVED_FROM or episode is None:
            continue
        if episode.kind is Kind.EPISODE and is_allowed(
            episode, plan.caller, criteria=criteria, now=plan.now
        ):
            yield link.to_id, episode


def _truncate(text: str, chars_max: int) -> str:
    line = inert_line(text)
    return line if len(line) <= chars_max else f"{line[: chars_max - 1]}…"
