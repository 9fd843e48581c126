"""Decide which memories are worth showing to an agent that did not ask.

A cosine alone cannot: "explain how Kafka works" is as near to a fact on Kafka as "why did we take
NATS?". So a candidate's cosine is weighed with the share of the prompt's words that it has, and
with what the prompt asks for: what is ours, what anyone could answer, or an order on the code at
hand. The weights were fitted by logistic regression; `brain eval prompts` measures the result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model import ids
from commonbrain.model.memory import Memory
from commonbrain.model.query import PROACTIVE, Candidate
from commonbrain.model.scope import Caller
from commonbrain.retrieval.current_first import EARLIER
from commonbrain.retrieval.query_plan import QueryPlan, search_terms
from commonbrain.retrieval.ranking import word_share
from commonbrain.retrieval.write_behind import WriteBehindQueue
from commonbrain.services import Services
from commonbrain.storage.interface import MemoryAccess, ShownMemories
from commonbrain.text.changes import logistic
from commonbrain.text.prompts import typed_text

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

THRESHOLD: Final = 0.5
_WIDTH_MIN: Final = 0.01
"""Least distance of the two thresholds that a cosine is measured by."""

_OURS: Final = re.compile(r"\b(?:we|our|ours|us|we're|we've|let's)\b", re.IGNORECASE)
_DEFINITE: Final = re.compile(r"\bthe\b", re.IGNORECASE)
_FRAME: Final = r"^\W*(?:(?:please|can you|could you|now|okay|ok|and|then)\b\W*)*"
_GENERAL: Final = re.compile(
    _FRAME + r"(?:explain|compare|tell me|show me|give me"
    r"|how (?:do i|does|do|would you|to|can i)\b"
    r"|what does|what (?:is|are|does) an?\b|what (?:is|are|does) \w+s\b"
    r"|what(?:'s| is| are) the (?:difference|best|pros|complexity)|(?:is|are) there an?\b)",
    re.IGNORECASE,
)
"""Asks for what any reference says."""
_SIGNS: Final = re.compile(r"[{}();=<>\[\]`|\\]|->|::")
"""Signs of code."""
_IDENTIFIER: Final = re.compile(
    r"(?<![\w/.-])(?:[\w.-]*/[\w./-]+|\w+(?:[._]\w+)+(?:\(\))?|\w+\(\)|[a-z]+[A-Z]\w+"
    r"|[A-Z][a-z]+[A-Z]\w+|--\w[\w-]*|\.[a-z]\w+)(?![\w-])"
)
"""A file, path, option or name in code."""
_REQUEST_WORDS: Final = frozenset(
    (
        "add build change check code convert create explain file files find fix function generate"
        " give help implement line list look make name need new next one print problem question"
        " read refactor remove rename replace run set show test tests thing try turn two update"
        " use want way work write good better best first last please"
    ).split()
)
"""Words of requests of any topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a prompt says by itself; features are 0 or 1 unless they say more."""

    asks_ours: float
    is_general: float
    is_definite: float
    code: float
    """Signs of code per word, at most 1."""
    terms: tuple[str, ...]
    """Words that tell its topic."""
    identifiers: frozenset[str]
    """Files, paths, options and names in code, in lower case."""


def read_prompt(text: str) -> Prompt:
    """Read a prompt."""
    words = len(text.split()) or 1
    return Prompt(
        asks_ours=_is_in(text, _OURS),
        is_general=_is_in(text, _GENERAL),
        is_definite=_is_in(text, _DEFINITE),
        code=min(len(_SIGNS.findall(text)) / words, 1.0),
        terms=tuple(one for one in search_terms(text) if one not in _REQUEST_WORDS),
        identifiers=frozenset(
            one.strip("().-").lower() for one in map(str, _IDENTIFIER.findall(text))
        ),
    )


def _is_in(text: str, pattern: re.Pattern[str]) -> float:
    return float(pattern.search(text) is not None)


def pair_features(
    prompt: Prompt, memory: Memory, *, cosine: float, space: EmbeddingSpace
) -> Mapping[str, float]:
    """Return the features of a prompt and a memory, by the names of `WEIGHTS`."""
    width = max(space.similar_threshold - space.relevance_threshold, _WIDTH_MIN)
    text = f"{memory.keywords} {memory.text}".lower()
    known = sum(one in text for one in prompt.identifiers)
    return {
        # Between relevant (0) and nearly identical (1).
        "meaning": (cosine - space.relevance_threshold) / width,
        "words": word_share(prompt.terms, text),
        # It names code that the memory does not know.
        "foreign": float(len(prompt.identifiers) > known),
        "ours": prompt.asks_ours,
        "general": prompt.is_general,
        "definite": prompt.is_definite,
        "code": prompt.code,
    }


# Fitted by logistic regression on the half `calibrate` of `brain eval prompts`, with stores of 8 to
# 125 memories, prompts that nothing answers weighing most.
BIAS: Final = -1.39
WEIGHTS: Final[Mapping[str, float]] = {
    "meaning": 7.24,
    "words": 1.28,
    "foreign": -1.68,
    "ours": 0.96,
    "general": -1.48,
    "definite": 1.11,
    "code": -3.34,
}
SIZE_WEIGHT: Final = -0.5
"""Of the logarithm of the number of memories: each is one more that may be near by chance.

-1 would be the weight if every prompt were about something stored; it lets too much through in
small stores.
"""
_SIZE_MIN: Final = 30
"""Smaller stores are as strict as this one: there, one chance match shows in many prompts."""
SIZE_MAX: Final = 2000
"""Memories that are counted at most; a larger store is treated alike."""


def judge(
    plan: QueryPlan,
    ranked: Sequence[Candidate],
    *,
    meaning: Mapping[int, float],
    space: EmbeddingSpace,
    size: int,
) -> list[Candidate]:
    """Add the feature `PROACTIVE` to each candidate; none can be judged without vectors.

    Candidates that were not compared with the prompt, but linked to one that was, get 0.
    `meaning` holds the cosines of the prompt, `size` the number of memories that could be shown.
    """
    if not meaning:
        return list(ranked)
    prompt = read_prompt(plan.query)
    prior = BIAS + SIZE_WEIGHT * math.log(min(max(size, _SIZE_MIN), SIZE_MAX))

    def probability(one: Candidate) -> float:
        cosine = meaning.get(one.memory.id)
        if cosine is None:
            return 0.0
        features = pair_features(prompt, one.memory, cosine=cosine, space=space)
        return logistic(prior + sum(WEIGHTS[name] * value for name, value in features.items()))

    return [
        replace(one, features={**one.features, PROACTIVE: round(probability(one), 3)})
        for one in ranked
    ]


def worth_showing(
    plan: QueryPlan,
    ranked: Iterable[Candidate],
    *,
    shown: Mapping[int, bool],
    reviews: Container[int],
) -> list[Candidate]:
    """Choose what to show to an agent that did not ask: the most probable first, at most the items.

    Skills are always worth it. An outdated memory is not; the newer one takes its place. What the
    session was shown before is not either, unless it needs review since. Nothing is for a prompt
    that no person typed.
    """
    if plan.query and not typed_text(plan.query):
        return []
    candidates = list(ranked)
    worth = {one.memory.id: _worth(one) for one in candidates}
    # An outdated candidate comes after the newer one, so a chain is followed from its end.
    for older in reversed(candidates):
        if EARLIER in older.features:
            for newer in candidates:
                if ids.show(ids.MEMORY, newer.memory.id) in older.notes[0]:
                    worth[newer.memory.id] = max(worth[newer.memory.id], worth[older.memory.id])
    chosen = [
        one
        for one in candidates
        if worth[one.memory.id] >= THRESHOLD
        and EARLIER not in one.features
        and not _is_known(one.memory.id, shown=shown, reviews=reviews)
    ]
    best_first = sorted(chosen, key=lambda one: -worth[one.memory.id])
    return best_first[: plan.budget.max_items]


def _worth(one: Candidate) -> float:
    return 1.0 if one.features.get("skill") else one.features.get(PROACTIVE, 1.0)


def _is_known(id_: int, *, shown: Mapping[int, bool], reviews: Container[int]) -> bool:
    return id_ in shown and (shown[id_] or id_ not in reviews)


def shown_to(tx: Transaction, caller: Caller, *, journal: WriteBehindQueue) -> Mapping[int, bool]:
    """Return what the caller's session was shown unasked, and whether it needed review then."""
    if caller.session is None:
        return {}
    stored = tx.sessions.shown(caller.agent, caller.session)
    return journal.shown(caller, stored=stored)


def forget_shown(services: Services, caller: Caller) -> None:
    """Let the caller's session be shown everything again, since its conversation was compacted.

    It is queued: nobody waits for a writer.
    """
    if caller.session is None:
        return
    lost = ShownMemories(agent=caller.agent, session=caller.session, memories={}, is_fresh=True)
    services.journal.touch(
        MemoryAccess(tenant=caller.tenant, ids=(), at=services.clock.now(), shown=lost)
    )
