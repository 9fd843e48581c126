"""One question, asked of recall and of everything it is compared with."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.limits import RECALL_ITEMS_MAX, RECALL_TOKENS_MAX
from commonbrain.model.recall_result import Item, RecallResult, ResultStatus
from commonbrain.retrieval.plan import RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain_evals.retrieval.ablation import Ablation, parts_of
from commonbrain_evals.retrieval.baselines import BASELINES, RECALL, fill, search, sources
from commonbrain_evals.retrieval.corpora import Question
from commonbrain_evals.retrieval.eval_store import EvalStore, LastSession
from commonbrain_evals.retrieval.metrics import DEPTH
from commonbrain_evals.retrieval.study import Recipe, Shapes, rank

BUDGETS: Final = (500, 1000, 2000, 4000, 8000)
"""Tokens that an answer may take."""
AS_SERVED: Final = "default"
"""The default budget: what an agent gets unless it says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedEvidence:
    """What was packed of one question's evidence."""

    tokens: int
    is_whole: bool
    """Whether all of its evidence is there in full."""
    is_in_part: bool
    """Whether all of it is there at least as an excerpt, which may lack what answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRun:
    """What came of one question."""

    question: Question
    rankings: Mapping[str, Sequence[str]]
    """Sources best first, by system; recall without a part goes by the name of the part."""
    sessions: Mapping[str, Sequence[str]]
    """The sessions of what is ranked, each by its best, by system; none where none is asked of."""
    gold_sessions: Mapping[str, int]
    """The sessions of its evidence."""
    packed: Mapping[str, Mapping[str, PackedEvidence]]
    """By system and tokens allowed."""
    ms: Mapping[str, float]
    """How long each system took."""
    has_abstained: bool
    history_tokens: int
    is_in_last_session: bool
    """Whether the last session alone holds all of its evidence."""
    last_session_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionRunner:
    """Asks one filled store."""

    eval_store: EvalStore
    overrides: RetrievalOverrides
    shapes: Shapes
    """What the study's recipes look at."""
    recipes: Mapping[str, Recipe]
    history_tokens: int
    """Of everything that was said in this store."""
    last_session: LastSession
    ablated: tuple[str, ...] = ()
    """Parts each of which is left out once."""

    def ask(self, question: Question) -> QuestionRun:
        """Ask everyone one question."""
        question = replace(question, gold=self.eval_store.findable(question.gold))
        brain = self._brain(question)
        started = time.perf_counter()
        served = self._recall(brain)(question.text, bump=False)
        took_ms = (time.perf_counter() - started) * 1000
        rankings = {RECALL: self._rank(brain, question)}
        gold_sessions = dict.fromkeys(self.eval_store.sessions(question.gold), 1)
        sessions = {RECALL: self._rank_sessions(brain, question)} if gold_sessions else {}
        packed = {
            RECALL: {AS_SERVED: self._packed(served, question), **self._pack(brain, question)}
        }
        ms = {RECALL: took_ms}
        for name, ranked, seconds in self._baselines(question):
            rankings[name] = sources(self.eval_store, ranked[:DEPTH])
            if gold_sessions:
                sessions[name] = self.eval_store.sessions(sources(self.eval_store, ranked))
            packed[name] = {
                str(tokens): self._fill(ranked, question, tokens=tokens) for tokens in BUDGETS
            }
            ms[name] = seconds * 1000
        return QuestionRun(
            question=question,
            rankings={**rankings, **self._ablated(brain, question)},
            sessions=sessions,
            gold_sessions=gold_sessions,
            packed=packed,
            ms=ms,
            has_abstained=served.verdict is not ResultStatus.FOUND,
            history_tokens=self.history_tokens,
            is_in_last_session=set(question.gold) <= self.last_session.sources,
            last_session_tokens=self.last_session.tokens,
        )

    def abstains(self, question: Question) -> bool:
        """Return whether recall finds nothing that answers."""
        result = self._recall(self.eval_store.brain)(question.text, bump=False)
        return result.verdict is not ResultStatus.FOUND

    def _brain(self, question: Question) -> Brain:
        at = question.asked_at
        brain = self.eval_store.brain if at is None else self.eval_store.at(at)
        return brain.acting_as(**question.asker)

    def _recall(self, brain: Brain, *, without: str | None = None) -> Recall:
        left_out = self.overrides.without | (parts_of(without) if without else frozenset[str]())
        return Recall(brain.services, brain.caller, RetrievalOverrides(without=left_out))

    def _rank(
        self, brain: Brain, question: Question, *, without: str | None = None
    ) -> Sequence[str]:
        result = self._recall(brain, without=without)(
            question.text, max_items=DEPTH, max_tokens=RECALL_TOKENS_MAX, bump=False
        )
        return list(dict.fromkeys(map(self._source, result.items)))

    def _source(self, item: Item) -> str:
        return self.eval_store.source(ids.parse(ids.MEMORY, item.id))

    def _ablated(self, brain: Brain, question: Question) -> Mapping[str, Sequence[str]]:
        """Rank without each part, and as ever without those that are known to change nothing."""
        if not self.ablated:
            return {}
        apart = Ablation.of(brain)
        whole = self._rank(apart.brain, question)
        idle = apart.idle()
        return {
            part: whole
            if parts_of(part) <= idle
            else self._rank(apart.brain, question, without=part)
            for part in self.ablated
        }

    def _rank_sessions(self, brain: Brain, question: Question) -> Sequence[str]:
        """Look further down than for memories: many of the best may be of one session."""
        result = self._recall(brain)(
            question.text,
            max_items=RECALL_ITEMS_MAX,
            max_tokens=RECALL_TOKENS_MAX,
            bump=False,
        )
        return self.eval_store.sessions(map(self._source, result.items))

    def _pack(self, brain: Brain, question: Question) -> Mapping[str, PackedEvidence]:
        recall = self._recall(brain)
        return {
            str(tokens): self._packed(
                recall(question.text, max_items=RECALL_ITEMS_MAX, max_tokens=tokens, bump=False),
                question,
            )
            for tokens in BUDGETS
        }

    def _baselines(self, question: Question) -> Iterator[tuple[str, list[int], float]]:
        lists = search(self.eval_store.brain, question.text)
        for name, baseline in BASELINES.items():
            started = time.perf_counter()
            ranked = list(baseline.rank(lists))
            yield name, ranked, baseline.seconds(lists) + time.perf_counter() - started
        now = self._brain(question).services.clock.now()
        for name, recipe in self.recipes.items():
            started = time.perf_counter()
            ranked = list(rank(self.shapes, recipe, text=question.text, now=now))
            yield name, ranked, time.perf_counter() - started

    def _fill(self, ranked: Sequence[int], question: Question, *, tokens: int) -> PackedEvidence:
        shown, spent = fill(self.eval_store, ranked, tokens=tokens)
        is_whole = set(question.gold) <= set(sources(self.eval_store, shown))
        return PackedEvidence(tokens=spent, is_whole=is_whole, is_in_part=is_whole)

    def _packed(self, result: RecallResult, question: Question) -> PackedEvidence:
        whole = {self._source(item) for item in result.items if item.body is not None}
        shortened = {self._source(item) for item in result.items if item.excerpt is not None}
        gold = set(question.gold)
        return PackedEvidence(
            tokens=result.tokens, is_whole=gold <= whole, is_in_part=gold <= whole | shortened
        )
