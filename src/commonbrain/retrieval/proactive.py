"""Decide whether what recall finds is worth showing to an agent that did not ask.

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
from commonbrain.model import ids as public_ids
from commonbrain.model.errors import UnavailableError
from commonbrain.model.kinds import KINDS
from commonbrain.model.memory import Memory
from commonbrain.model.query import PROACTIVE, Candidate
from commonbrain.model.scope import Caller
from commonbrain.retrieval.query_plan import QueryPlan, search_terms
from commonbrain.retrieval.ranking import word_share
from commonbrain.retrieval.retrievers import Deadline
from commonbrain.retrieval.same_matter import EARLIER
from commonbrain.services import Services
from commonbrain.storage.interface import MemoryAccess, ShownMemories
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.prompts import typed_text
from commonbrain.text.segmentation import count_words, split_sentences

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

THRESHOLD: Final = 0.5
_WIDTH_MIN: Final = 0.01
"""Least distance of the two thresholds that a cosine is measured by."""

_OURS: Final = lazy_pattern(r"\b(?:we|our|ours|us|we're|we've|let's)\b", re.IGNORECASE)
_DEFINITE: Final = lazy_pattern(r"\bthe\b", re.IGNORECASE)
"""Speaks of something known, which no reference explains."""
_LONG_WORDS: Final = 30
"""A longer prompt mostly describes work; its sentences tell what else it is about."""
_FRAME: Final = r"^\W*(?:(?:please|can you|could you|now|okay|ok|and|then)\b\W*)*"
_GENERAL: Final = lazy_pattern(
    _FRAME + r"(?:explain|compare|tell me|show me|give me"
    r"|how (?:do i|does|do|would you|to|can i)\b"
    r"|what does|what (?:is|are|does) an?\b|what (?:is|are|does) \w+s\b"
    r"|what(?:'s| is| are) the (?:difference|best|pros|complexity)|(?:is|are) there an?\b)",
    re.IGNORECASE,
)
"""Asks for what any reference says."""
_ORDER: Final = lazy_pattern(
    _FRAME + r"(?:add|apply|book|build|bump|cache|cent(?:er|re)|change|check|clean|commit|compare"
    r"|compute|convert|count|create|cut|delete|design|do|draft|draw|explain|extract|fetch|find|fix"
    r"|format|generate|give|go|implement|inline|let|load|look|make|merge|move|optimi[sz]e|parse"
    r"|plan|play|port|prepare|print|propose|publish|put|read|refactor|remove|rename|replace|revert"
    r"|review|rewrite|run|send|set|show|sign|simplify|sort|split|squash|stop|store|suggest"
    r"|summari[sz]e|take|track|translate|try|turn|undo|update|upgrade|use|walk|wrap|write)\b",
    re.IGNORECASE,
)
"""Orders work, most of which concerns only the code at hand."""
_IDENTIFIER: Final = lazy_pattern(
    r"(?<![\w/.-])(?:[\w.-]*/[\w./-]+|\w+(?:[._]\w+)+(?:\(\))?|\w+\(\)|[a-z]+[A-Z]\w+"
    r"|[A-Z][a-z]+[A-Z]\w+|--\w[\w-]*|\.[a-z]\w+)(?![\w-])"
)
"""A file, path, option or name in code."""
_SENTENCE_WORDS: Final = 3
"""A shorter sentence has no topic."""
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
    """What a prompt says by itself; the features are 0 or 1."""

    asks_ours: float
    is_general: float
    is_order: float
    is_definite: float
    is_long: float
    terms: tuple[str, ...]
    """Words that tell its topic."""
    identifiers: frozenset[str]
    """Files, paths, options and names in code, in lower case."""


def read_prompt(text: str) -> Prompt:
    """Read a prompt."""
    return Prompt(
        asks_ours=_is_in(text, _OURS),
        is_general=_is_in(text, _GENERAL),
        is_order=_is_in(text, _ORDER),
        is_definite=_is_in(text, _DEFINITE),
        is_long=float(count_words(text) > _LONG_WORDS),
        terms=tuple(one for one in search_terms(text) if one not in _REQUEST_WORDS),
        identifiers=frozenset(
            one.strip("().-").lower() for one in map(str, _IDENTIFIER.findall(text))
        ),
    )


def _is_in(text: str, pattern: re.Pattern[str]) -> float:
    return float(pattern.search(text) is not None)


def pair_features(
    prompt: Prompt, memory: Memory, *, cosine: float, sentence: float, space: EmbeddingSpace
) -> Mapping[str, float]:
    """Return the features of a prompt and a memory, by the names of `WEIGHTS`.

    `cosine` is that of the whole prompt, `sentence` that of its nearest sentence.
    """
    width = max(space.similar_threshold - space.relevance_threshold, _WIDTH_MIN)
    text = f"{memory.keywords} {memory.text}".lower()
    known = sum(one in text for one in prompt.identifiers)
    return {
        # Between relevant (0) and worth a hint (1).
        "meaning": (cosine - space.relevance_threshold) / width,
        # By how much a sentence is nearer: a long prompt is about several things.
        "sentence": max(sentence - cosine, 0.0) / width,
        "words": word_share(prompt.terms, text),
        # It names code that the memory does not know.
        "foreign": float(len(prompt.identifiers) > known),
        "ours": prompt.asks_ours,
        "definite": prompt.is_definite,
        "general": prompt.is_general,
        "order": prompt.is_order,
        "long": prompt.is_long,
    }


# Fitted by logistic regression on the half `calibrate` of `brain eval prompts`, with stores of 8 to
# 125 memories, prompts that nothing answers weighing most.
BIAS: Final = -1.3
WEIGHTS: Final[Mapping[str, float]] = {
    "meaning": 7.5,
    "sentence": 5.6,
    "words": 1.5,
    "foreign": -1.9,
    "ours": 0.65,
    "definite": 1.0,
    "general": -1.1,
    "order": -0.85,
    "long": -1.15,
}
SIZE_WEIGHT: Final = -0.6
"""Of the logarithm of the number of memories: each is one more that may be near by chance.

It was chosen so that stores of 30, 60 and 125 memories show something at the same share of
unrelated prompts.
"""
_SIZE_MIN: Final = 30
"""Smaller stores are as strict as this one: there, one chance match shows in many prompts."""
_SIZE_MAX: Final = 2000
"""Memories that are counted at most; a larger store is treated alike."""
_JUDGED: Final = 10
"""Best candidates that are judged: the few to show, and some that the session was shown."""
_HOPELESS_BELOW: Final = -3.0
"""Logarithm of the odds that a nearer sentence does not raise to 0: it adds 2 at most, mostly 1."""


def judge(
    tx: Transaction,
    plan: QueryPlan,
    *,
    services: Services,
    ranked: Sequence[Candidate],
    meaning: Mapping[int, float],
    deadline: Deadline,
) -> list[Candidate]:
    """Add the feature `PROACTIVE`, the probability that a candidate is worth showing.

    Candidates that do not match the prompt, but are linked to one that does, get 0, and so do all
    but the best. The others get none if `meaning`, the cosines of the prompt, is empty: they were
    selected by words.
    """
    if not meaning:
        return [
            replace(one, features={**one.features, PROACTIVE: 0.0})
            if one.features.get("linked")
            else one
            for one in ranked
        ]
    prompt, space = read_prompt(plan.query), services.store.space.under(plan.parameters)
    compared = {one.memory.id: one.memory for one in ranked[:_JUDGED] if one.memory.id in meaning}
    size = tx.memories.count(plan.query_scope, at_most=_SIZE_MAX) if compared else 0
    prior = BIAS + SIZE_WEIGHT * math.log(max(size, _SIZE_MIN))

    def log_odds(id_: int, sentence: float) -> float:
        features = pair_features(
            prompt, compared[id_], cosine=meaning[id_], sentence=sentence, space=space
        )
        return prior + sum(WEIGHTS[name] * value for name, value in features.items())

    known = {id_: log_odds(id_, meaning[id_]) for id_ in compared}
    open_ids = [id_ for id_, value in known.items() if _HOPELESS_BELOW < value < 0]
    nearest = _sentence_cosines(tx, plan.query, services=services, ids=open_ids, deadline=deadline)
    known |= {id_: log_odds(id_, sentence) for id_, sentence in nearest.items()}
    probabilities = {id_: round(_logistic(value), 3) for id_, value in known.items()}
    return [
        replace(one, features={**one.features, PROACTIVE: probabilities.get(one.memory.id, 0.0)})
        for one in ranked
    ]


def _sentence_cosines(
    tx: Transaction, text: str, *, services: Services, ids: Sequence[int], deadline: Deadline
) -> Mapping[int, float]:
    """Return the cosines of the first or last sentence of several, whichever is nearer.

    A prompt begins with its subject or ends with its question. Empty if there is no time left.
    """
    sentences = [one for one in split_sentences(text) if count_words(one) >= _SENTENCE_WORDS]
    if len(sentences) < 2 or not ids:  # noqa: PLR2004 one sentence is the whole prompt
        return {}
    ends = (sentences[0], sentences[-1])
    pending = services.embedding_executor.submit(lambda: [*map(services.embedder.query, ends)])
    try:
        vectors = deadline.wait_for(pending)
    except UnavailableError:
        return {}
    each = [tx.index.similarities(vector, ids) for vector in vectors]
    return {id_: max(cosines[id_] for cosines in each) for id_ in each[0]}


def _logistic(value: float) -> float:
    """Map a sum of weighted features to a probability."""
    return 1 / (1 + math.exp(-value))


def worth_showing(
    plan: QueryPlan,
    ranked: Sequence[Candidate],
    *,
    shown: Mapping[int, bool],
    reviews: Container[int],
) -> list[Candidate]:
    """Choose what to show to an agent that did not ask, in the order of recall.

    Nothing, unless one of the best is worth it by itself: then the first of recall, and those that
    are worth it. Skills always are. A newer memory is as worthy as the older one on its matter. Not
    shown are what a newer one changed, what the session was shown before unless it needs review
    since, and anything with a prompt that no person typed.
    """
    if plan.query and not typed_text(plan.query):
        return []
    worth = {one.memory.id: _worth(one) for one in ranked}
    shown_ids = {id_: public_ids.show(public_ids.MEMORY, id_) for id_ in worth}
    # An older candidate mostly comes after the newer one, so a chain is followed from its end.
    for older in reversed(ranked):
        for newer, shown_id in shown_ids.items():
            if any(shown_id in note for note in older.notes):
                worth[newer] = max(worth[newer], worth[older.memory.id])
    best = [
        one
        for one in ranked
        if EARLIER not in one.features
        and not _is_raw(one.memory)
        and not _is_known(one.memory.id, shown=shown, reviews=reviews)
    ][: plan.budget.max_items]
    worthy = [one for one in best if worth[one.memory.id] >= THRESHOLD]
    return [one for one in best if one in worthy or one is ranked[0]] if worthy else []


def _is_raw(memory: Memory) -> bool:
    """Return whether a hook captured it as material for an episode, which is shown instead."""
    return memory.auto_captured and KINDS[memory.kind].is_reflected


def _worth(one: Candidate) -> float:
    return 1.0 if one.features.get("skill") else one.features.get(PROACTIVE, 1.0)


def _is_known(id_: int, *, shown: Mapping[int, bool], reviews: Container[int]) -> bool:
    return id_ in shown and (shown[id_] or id_ not in reviews)


def shown_to(
    tx: Transaction, caller: Caller, *, unwritten: Iterable[ShownMemories]
) -> Mapping[int, bool]:
    """Return what the caller's session was shown, and whether it needed review then.

    `unwritten` is what the write-behind queue held for it before the transaction began.
    """
    if caller.session is None:
        return {}
    known: Mapping[int, bool] = tx.sessions.shown(caller.agent, caller.session)
    for one in unwritten:
        known = one.added_to(known)
    return known


def forget_shown(services: Services, caller: Caller) -> None:
    """Let the caller's session be shown everything again, since its conversation was compacted.

    It is queued, so that the call does not wait for a writer.
    """
    if caller.session is None:
        return
    lost = ShownMemories(agent=caller.agent, session=caller.session, memories={}, is_fresh=True)
    services.journal.touch(
        MemoryAccess(tenant=caller.tenant, ids=(), at=services.clock.now(), shown=lost)
    )
