"""What an item was derived from: the message and its thread, and the sentence that supports it.

A fact is shorter than what was said, and an agent that needs the rest should not ask again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Memory
from commonbrain.model.query import Candidate, Filter, is_allowed
from commonbrain.model.recall_result import SourceTurn
from commonbrain.model.timestamps import show_day
from commonbrain.retrieval.same_matter import EARLIER
from commonbrain.text.repetition import adds_nothing, content_stems
from commonbrain.text.segmentation import Sought, excerpt
from commonbrain.text.tokens import estimate

if TYPE_CHECKING:
    from commonbrain.retrieval.fusion import LinkExpansion
    from commonbrain.retrieval.query_plan import QueryPlan
    from commonbrain.storage.store import Transaction

STAGE: Final = "source_turns"
_QUOTED: Final = frozenset({Kind.MESSAGE, Kind.EVENT})
"""Sources whose sentences are quoted; others are only named."""
_WITHOUT_QUOTE: Final = frozenset({Kind.MESSAGE, Kind.EVENT, Kind.EPISODE, Kind.ATOM})
"""A turn has its own text; an episode sums up many, and an atom repeats its source."""
_PER_ITEM_MAX: Final = 4
"""Sources read of one memory; one with more is a summary of them."""
_LINKS_MAX: Final = 200
_RECIPIENTS_MAX: Final = 3
_TOKENS_MAX: Final = 60
"""About two sentences; the item itself says what was asked for."""


def source_turns(
    tx: Transaction, plan: QueryPlan, *, near: Sequence[Candidate], graph: LinkExpansion
) -> Mapping[int, SourceTurn]:
    """Map candidates to their best source, with its sentences if they add to the candidate.

    Messages are best, then what says most about it. At most two queries read the sources of all,
    and none is run without any. A source is checked like a
    candidate: visible, current, of the project and trusted enough. A proactive recall has none,
    nor has one about the past.
    """
    if plan.is_proactive or plan.filter.as_of is not None or not plan.overrides.is_enabled(STAGE):
        return {}
    sources = _source_ids(tx, near, graph=graph)
    if not sources:
        return {}
    source_ids = {id_ for those in sources.values() for id_ in those}
    memories = {id_: graph.ends[id_] for id_ in source_ids & graph.ends.keys()}
    memories |= tx.memories.get(list(source_ids - graph.ends.keys()))
    criteria = Filter(project=plan.filter.project, trust_min=plan.filter.trust_min)
    allowed = {
        id_: one
        for id_, one in memories.items()
        if is_allowed(one, plan.caller, criteria=criteria, now=plan.now)
    }
    turns: dict[int, SourceTurn] = {}
    for candidate in near:
        those = [allowed[id_] for id_ in sources.get(candidate.memory.id, ()) if id_ in allowed]
        if those:
            turns[candidate.memory.id] = _turn(candidate.memory, those, terms=plan.terms)
    return turns


def _source_ids(
    tx: Transaction, near: Iterable[Candidate], *, graph: LinkExpansion
) -> Mapping[int, Sequence[int]]:
    shown = [one.memory for one in near if not one.features.get(EARLIER)]
    links = [link for link in graph.links if link.type is LinkType.DERIVED_FROM]
    linked = {link.from_id for link in links}
    # The links of the best candidates are known; what was extracted always has some.
    unknown = [one.id for one in shown if _is_extracted(one) and one.id not in linked]
    if unknown:
        links += tx.links.touching(unknown, types=[LinkType.DERIVED_FROM], limit=_LINKS_MAX)
    derived: defaultdict[int, list[int]] = defaultdict(list)
    for link in links:
        derived[link.from_id].append(link.to_id)
    sources: dict[int, Sequence[int]] = {}
    for memory in shown:
        own = [] if memory.source_message_id is None else [memory.source_message_id]
        if named := list(dict.fromkeys([*own, *derived.get(memory.id, ())]))[:_PER_ITEM_MAX]:
            sources[memory.id] = named
    return sources


def _is_extracted(memory: Memory) -> bool:
    return memory.auto_captured and memory.source_message_id is None


def _turn(memory: Memory, sources: Sequence[Memory], *, terms: Sequence[str]) -> SourceTurn:
    """Describe the best of some sources, with its sentences if they add to the memory."""
    known = content_stems(memory.text)
    best = max(
        sources,
        key=lambda one: (one.kind is Kind.MESSAGE, len(known & content_stems(one.text))),
    )
    text = ""
    if best.kind in _QUOTED and memory.kind not in _WITHOUT_QUOTE:
        text = inert_line(_sentences(best.body, sought=Sought([*sorted(known), *terms])))
    is_new = bool(text) and not adds_nothing(text, known=memory.text)
    detail = best.detail if isinstance(best.detail, MessageDetail) else MessageDetail()
    thread = detail.thread_id
    return SourceTurn(
        id=ids.show(ids.MEMORY, best.id),
        kind=best.kind,
        by=best.speaker or best.agent,
        to=_recipients(detail),
        thread=ids.show(ids.THREAD, thread) if thread is not None else None,
        date=show_day(best.occurred_at),
        has_others=len(sources) > 1 or None,
        text=text if is_new else None,
    )


def _recipients(message: MessageDetail) -> str | None:
    names, others = message.recipients[:_RECIPIENTS_MAX], len(message.recipients) - _RECIPIENTS_MAX
    return ", ".join(names) + (f" and {others} more" if others > 0 else "") or None


def _sentences(text: str, *, sought: Sought) -> str:
    """Return a short text, or the sentences of a longer one that say most of what is sought."""
    sample = text[:1000]
    chars = _TOKENS_MAX * len(sample) // max(1, estimate(sample))
    return text if len(text) <= chars else excerpt(text, sought, chars=chars)
