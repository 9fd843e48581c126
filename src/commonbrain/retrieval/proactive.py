"""Decide whether what recall finds is worth showing to an agent that did not ask.

A cosine alone cannot: "explain how Kafka works" is as near to a fact on Kafka as "why did we take
NATS?". So a candidate's cosine is weighed with the share of the prompt's words that it has, and
with what the prompt asks for: what is ours, what anyone could answer, or an order on the code at
hand. The weights were fitted by logistic regression; `brain eval prompts` and `brain eval turns`
measure the result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model import ids as public_ids
from commonbrain.model.errors import UnavailableError
from commonbrain.model.kinds import KINDS
from commonbrain.model.memory import ACCESSES_PER_RECALL, Memory
from commonbrain.model.model_card import CROSS_ENCODER
from commonbrain.model.query import PROACTIVE, Candidate
from commonbrain.model.recall_result import EARLIER
from commonbrain.model.scope import Caller
from commonbrain.model.values import dataclass, field, replace
from commonbrain.retrieval.load import SOURCE_TURNS
from commonbrain.retrieval.order import (
    LINKED,
    is_on_matter,
    is_persons_blocker,
    is_persons_skill,
    with_marks,
)
from commonbrain.retrieval.plan import QueryPlan, limit_to_time, search_terms
from commonbrain.retrieval.score import ANSWERABILITY, word_share
from commonbrain.services import Services
from commonbrain.storage.interface import MemoryAccess, ShownMemories
from commonbrain.text.classification import untagged
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.prompts import typed_text
from commonbrain.text.reports import states_decision
from commonbrain.text.search_words import count_words, folded
from commonbrain.text.segmentation import split_sentences

if TYPE_CHECKING:
    from datetime import datetime

    from commonbrain.clock import Deadline
    from commonbrain.retrieval.table import Table
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
        asks_ours=float(_OURS.search(text) is not None),
        is_general=float(_GENERAL.search(text) is not None),
        is_order=float(_ORDER.search(text) is not None),
        is_definite=float(_DEFINITE.search(text) is not None),
        is_long=float(count_words(text) > _LONG_WORDS),
        terms=tuple(one for one in search_terms(text) if one not in _REQUEST_WORDS),
        identifiers=frozenset(
            one.strip("().-").lower() for one in map(str, _IDENTIFIER.findall(text))
        ),
    )


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
        "words": word_share(prompt.terms, folded(text)),
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
"""Of the logarithm of the number of memories: each is one more that may be near by chance."""
_SIZE_MIN: Final = 125
"""Smaller stores are as strict as this one: what a project notes is near to any of its prompts.

With 30, a project with 25 notes shows three times as often what is of no use.
"""
_SIZE_MAX: Final = 2000
"""Memories that are counted at most; a larger store is treated alike."""
_JUDGED: Final = 10
"""Best candidates that are judged: the few to show, and some that the session was shown."""


def plan_prompt(plan: QueryPlan) -> QueryPlan:
    """Plan for a prompt: it lists nothing, and has no time for what costs much and shows little."""
    overrides = replace(plan.overrides, without=plan.overrides.without | _LEFT_OUT)
    return replace(limit_to_time(plan), overrides=overrides)


_LEFT_OUT: Final = frozenset({CROSS_ENCODER, SOURCE_TURNS, ANSWERABILITY})


@dataclass(slots=True)
class PromptJudge:
    """The last stage of a recall for a prompt: what is worth showing, if anything is.

    Nothing, unless one of the best is worth it by itself: then the first of recall, and those that
    are worth it. Skills of people always are. A newer memory is as worthy as the older one on its
    matter. Not shown are what a newer one changed, what the session was shown before unless it
    needs review since, and anything with a prompt that no person typed.
    """

    services: Services
    plan: QueryPlan
    deadline: Deadline
    unwritten: Sequence[ShownMemories] = field(init=False)
    """What the session was shown and the store may not hold yet, before the transaction."""
    size: int = field(default=0, init=False)
    """Memories in scope, up to `_SIZE_MAX`."""
    shown: Mapping[int, bool] = field(default_factory=dict[int, bool], init=False)
    """What the session was shown, and whether it needed review then."""
    sentences: Mapping[int, float] = field(default_factory=dict[int, float], init=False)
    """The cosine of the nearer one of the first and the last sentence of several."""

    def __post_init__(self) -> None:
        """Ask the write-behind queue before the transaction that reads the rest."""
        self.unwritten = self.services.journal.unwritten_shown(self.plan.caller)

    def load(self, tx: Transaction, table: Table) -> None:
        """Read what the judgement needs of the store."""
        self.shown = shown_to(tx, self.plan.caller, unwritten=self.unwritten)
        if table.query_vector is not None and table.rows:
            self.size = tx.memories.count(self.plan.query_scope, at_most=_SIZE_MAX)
            self.sentences = self._sentence_cosines(tx, table)

    def judge(self, table: Table) -> None:
        """Choose what is worth showing, with the feature `PROACTIVE`: how probably it is."""
        plan = self.plan
        if plan.query and not typed_text(plan.query):
            table.ranked = []
        elif not table.cosines:
            # The embedder did not answer in time: words alone have to match well.
            table.ranked = [
                one
                for one in table.ranked
                if not one.features.get(LINKED) and is_on_matter(table, one)
            ]
        else:
            judged = self._rate_candidates(table)
            table.considered = with_marks(table.considered, judged, added=PROACTIVE)
            table.ranked = judged
        table.ranked = worth_showing(
            table.ranked,
            shown=self.shown,
            reviews=table.reviews,
            max_items=plan.budget.max_items,
        )
        table.is_answered = bool(table.ranked)

    def _rate_candidates(self, table: Table) -> list[Candidate]:
        """Rate the best that were compared; all others, linked ones too, get 0."""
        compared = [one for one in table.ranked[:_JUDGED] if one.memory.id in table.cosines]
        prompt, space = read_prompt(self.plan.query), table.space.under(self.plan.parameters)
        probabilities: dict[int, float] = {}
        for one in compared:
            cosine = table.cosines[one.memory.id]
            features = pair_features(
                prompt,
                one.memory,
                cosine=cosine,
                sentence=self.sentences.get(one.memory.id, cosine),
                space=space,
            )
            # There are few BLOCKERs, however many memories others write.
            size = _SIZE_MIN if is_persons_blocker(one.memory) else max(self.size, _SIZE_MIN)
            odds = BIAS + SIZE_WEIGHT * math.log(size)
            odds += sum(WEIGHTS[name] * value for name, value in features.items())
            probabilities[one.memory.id] = round(1 / (1 + math.exp(-odds)), 3)
        return [
            replace(
                one, features={**one.features, PROACTIVE: probabilities.get(one.memory.id, 0.0)}
            )
            for one in table.ranked
        ]

    def _sentence_cosines(self, tx: Transaction, table: Table) -> Mapping[int, float]:
        """Compare the first and the last sentence; empty if there is no time left.

        A prompt begins with its subject or ends with its question.
        """
        text, services = self.plan.query, self.services
        sentences = [one for one in split_sentences(text) if count_words(one) >= _SENTENCE_WORDS]
        if len(sentences) < 2:  # noqa: PLR2004 one sentence is the whole prompt
            return {}
        ends = (sentences[0], sentences[-1])
        pending = services.embedding_executor.submit(lambda: [*map(services.embedder.query, ends)])
        try:
            vectors = self.deadline.wait_for(pending)
        except UnavailableError:
            return {}
        compared = [id_ for id_ in table.rows if id_ in table.cosines]
        each = [tx.index.similarities(vector, compared) for vector in vectors]
        return {id_: max(cosines[id_] for cosines in each) for id_ in each[0]}


def worth_showing(
    ranked: Sequence[Candidate],
    *,
    shown: Mapping[int, bool],
    reviews: Container[int],
    max_items: int,
) -> list[Candidate]:
    """Choose what to show, in the order of recall; see `PromptJudge`."""
    worth = {
        one.memory.id: 1.0 if is_persons_skill(one) else one.features.get(PROACTIVE, 1.0)
        for one in ranked
    }
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
        and not _is_shown_as_episode(one.memory)
        and is_news(one.memory.id, shown=shown, reviews=reviews)
    ][:max_items]
    worthy = [one for one in best if worth[one.memory.id] >= THRESHOLD]
    return [one for one in best if one in worthy or one is ranked[0]] if worthy else []


def _is_shown_as_episode(memory: Memory) -> bool:
    """Return whether what a hook captured is left to an episode made of it: all but decisions."""
    is_captured = memory.auto_captured and KINDS[memory.kind].is_reflected
    return is_captured and not states_decision(untagged(memory.text))


def is_news(id_: int, *, shown: Mapping[int, bool], reviews: Container[int]) -> bool:
    """Return whether the session was not shown a memory, or it needs review only since then."""
    return id_ not in shown or (not shown[id_] and id_ in reviews)


def record_shown(
    services: Services, caller: Caller, *, ids: Sequence[int], reviews: Container[int], at: datetime
) -> None:
    """Count an access, and remember that the session was shown these, and which need review."""
    shown = None
    if caller.session is not None:
        shown = ShownMemories(
            agent=caller.agent,
            session=caller.session,
            memories={id_: id_ in reviews for id_ in ids},
        )
    counted = tuple(ids[:ACCESSES_PER_RECALL])
    services.journal.touch(MemoryAccess(tenant=caller.tenant, ids=counted, at=at, shown=shown))


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
