"""The second step of recall, for questions whose answer lies in several memories.

"Which books has Ana read?" is answered by many short remarks, each said on another day. One search
brings the few that are most alike, mostly of one conversation, and the remarks of others about the
topic. The second search looks among the memories of the people that the question names, and the
results are spread over conversations. All other questions are left as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from commonbrain.model.kinds import MessageDetail
from commonbrain.model.memory import Memory
from commonbrain.model.query import Candidate
from commonbrain.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix
    from commonbrain.retrieval.query_plan import QueryPlan
    from commonbrain.storage.store import Transaction

STAGE: Final = "second_step"
NAMES: Final = "names_something"
"""The feature of a memory that mentions a name other than those in the question."""
CROWDED: Final = "crowded"
"""The feature of a candidate: how many better ones are from its conversation."""
_PEOPLE_MAX: Final = 3
"""People whose memories are searched separately; a question seldom names more."""
_FOUND_MAX: Final = 30
"""Memories of each person that the second search adds at most."""
_TERMS_MAX: Final = 4
"""Content words other than names; a question that says more describes one thing."""
# Of the rows, only speaker and thread replace a weight of every question. Chosen on three of five
# LoCoMo conversations; the other two gained as much.
WEIGHTS: Final[Mapping[str, float]] = {
    "speaker": 0.3,
    "thread": 0.05,
    # What answers a question of the other speaker.
    "replies": 0.1,
    NAMES: 0.05,
}
"""Weights that replace those of ranking for these questions."""
_CROWDED_WEIGHT: Final = 0.02
_NOT_PLURAL: Final = (
    r"(?:is|was|has|does|this|its|his|us|as|always|class|business|process|news|series|focus|status"
    r"|access|\w+ss|\w+us)"
)
_PLURAL: Final = rf"(?!{_NOT_PLURAL}\b)(?:[a-z-]{{2,}}[^s\W]s|people|children|men|women|media)"
_SEVERAL: Final = lazy_pattern(
    # "Which (of the) outdoor activities ..."; a relative clause narrows them to one, and "would"
    # asks for a guess.
    r"^(?!.*\bwould\b).*?\b(?:what|which)\s+(?:(?:are|were|other|different|some|of the)\s+)?"
    rf"(?:[\w'\u2019-]+\s+){{0,3}}?{_PLURAL}\b(?!['\u2019])(?!.*\bthat\b)"
    r"|\bhow (?:many|often)\b|\bin (?:what|which) ways\b|\b(?:list|name) (?:all|every|each)\b"
    # "What has Ana painted?": any of it, so far.
    r"|^(?:what|where|who|which)(?:\s+(?!does|did|do|would)\w+){0,3}?\s+(?:has|have)\b",
    re.IGNORECASE,
)


def asks_for_several(plan: QueryPlan) -> bool:
    """Return whether a question asks for several memories of the people that it names."""
    is_open = bool(plan.speakers) and plan.period is None
    if not (is_open and plan.overrides.is_enabled(STAGE)):
        return False
    names = {word for name in plan.speakers for word in name.split()}
    terms = [term for term in plan.terms if term not in names]
    return len(terms) <= _TERMS_MAX and _SEVERAL.search(plan.query) is not None


def search_people(tx: Transaction, plan: QueryPlan, *, vector: Matrix) -> dict[int, float]:
    """Return the cosines of the nearest memories of each person that the question names.

    The scope of the query holds: a filter on other people leaves nothing to search.
    """
    allowed = plan.filter.people
    people = sorted(name for name in plan.speakers if not allowed or name in allowed)
    cosines: dict[int, float] = {}
    for name in people[:_PEOPLE_MAX]:
        scope = replace(plan.query_scope, filter=replace(plan.filter, people=(name,)))
        hits = tx.index.nearest(vector, scope, limit=_FOUND_MAX)
        cosines |= {hit.id: hit.score for hit in hits}
    return cosines


def names_something(memory: Memory, plan: QueryPlan) -> bool:
    """Return whether a memory mentions a name that the question does not."""
    query = plan.query.casefold()
    return any(topic not in query for topic in memory.topics if topic[0].isalpha())


def spread(ranked: Sequence[Candidate]) -> list[Candidate]:
    """Reorder candidates, best first: each costs later ones of its conversation a little.

    Skills stay first. Scores change by the penalty, so that they still fall.
    """
    skills = [one for one in ranked if one.features["skill"]]
    others = ranked[len(skills) :]
    taken: Counter[int | str] = Counter()
    # A candidate's score only falls while others are taken, so one whose score is still up to date
    # when it is the best is the best of all.
    waiting = [(-one.score, place, 0) for place, one in enumerate(others)]
    heapify(waiting)
    placed: list[Candidate] = []
    while waiting:
        negative, place, counted = heappop(waiting)
        one = others[place]
        source = _conversation(one.memory)
        before = 0 if source is None else taken[source]
        if before != counted:
            heappush(waiting, (_CROWDED_WEIGHT * before - one.score, place, before))
            continue
        if source is not None:
            taken[source] += 1
        features = {**one.features, CROWDED: float(before)}
        placed.append(replace(one, score=max(-negative, 0.0), features=features))
    return [*skills, *placed]


def _conversation(memory: Memory) -> int | str | None:
    detail = memory.detail
    return detail.thread_id if isinstance(detail, MessageDetail) else memory.session
