"""Whether fading costs evidence: public talks a month later, with strength weighed and without.

Talks are kept as events, which fade fastest. Over a month every other question is asked once, which
wakes the best it shows; then all are asked, with the strength of memories weighed as ever and left
out. Of the questions that were never asked before, fading must not lose the evidence.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.jobs.worker import Worker
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import RECALL_TOKENS_MAX
from commonbrain.model.memory import Draft
from commonbrain.retrieval.plan import NO_OVERRIDES, RetrievalOverrides
from commonbrain.retrieval.recall import Recall
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.storage.job_queue import MAINTAIN
from commonbrain.transfer.importer import Unreadable
from commonbrain_evals.measures import Estimate, estimate_mean
from commonbrain_evals.retrieval.corpora import Corpus, Question
from commonbrain_evals.retrieval.eval_store import EvalStore, open_eval_store
from commonbrain_evals.retrieval.locomo import LOCOMO

DEPTH: Final = 10
_MONTH: Final = timedelta(days=30)
_WITHOUT: Final = RetrievalOverrides(without=frozenset({"strength"}))
_GROUPS: Final = ("asked before", "never asked")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgedGroup:
    """The share of a question's evidence among the first ten, over the questions of one sort."""

    group: str
    questions: int
    with_decay: float
    without_decay: float
    difference: Estimate
    """With less without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FadingReport:
    """What fading changed after a month."""

    conversations: int
    memories: int
    groups: tuple[AgedGroup, ...]


def evaluate(
    path: Path,
    *,
    settings: Settings,
    conversations: int | None = None,
    seed: int = 0,
    on_progress: Progress = ignore_progress,
) -> FadingReport:
    """Let each conversation of a LoCoMo file age for a month in a store of its own.

    Raises:
        InvalidInputError: the file is missing or malformed, or a library of the extra is.

    """
    corpora = list(LOCOMO.read(LOCOMO.files(path)))[:conversations]
    values: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
    memories = 0
    for number, corpus in enumerate(corpora, 1):
        with open_eval_store(_with_events(corpus), settings=settings, seed=seed) as eval_store:
            memories += len(eval_store.memories)
            for group, has_decay, value in _measure_after_month(eval_store, corpus):
                values[group, has_decay].append(value)
        on_progress(number / len(corpora))
    groups = [
        _group(name, on=values[name, True], off=values[name, False], seed=seed)
        for name in _GROUPS
        if values[name, True]
    ]
    return FadingReport(conversations=len(corpora), memories=memories, groups=tuple(groups))


def _with_events(corpus: Corpus) -> Corpus:
    def drafts() -> Iterator[Draft | Unreadable]:
        for one in corpus.drafts():
            yield _to_event(one) if isinstance(one, Draft) else one

    return replace(corpus, drafts=drafts)


def _to_event(one: Draft) -> Draft:
    sender = one.detail.sender if isinstance(one.detail, MessageDetail) else None
    return Draft(
        body=f"{sender}: {one.body}" if sender else one.body,
        kind=Kind.EVENT,
        occurred_at=one.occurred_at,
        source_ref=one.source_ref,
        project=one.project,
    )


def _measure_after_month(
    eval_store: EvalStore, corpus: Corpus
) -> Iterator[tuple[str, bool, float]]:
    """Ask half of the questions over a month, then all; yield the share of evidence of each."""
    questions = [
        question for question in corpus.questions if question.is_answerable and question.gold
    ]
    messages_before, never = questions[::2], questions[1::2]
    for number, question in enumerate(messages_before):
        eval_store.at(corpus.ends_at + _MONTH * number / len(messages_before)).recall(question.text)
    eval_store.services.journal.flush()
    later = eval_store.at(corpus.ends_at + _MONTH)
    worker = Worker(services=later.services, name="month", kinds=(MAINTAIN,))
    worker.schedule()
    worker.sweep()
    for group, those in zip(_GROUPS, (messages_before, never), strict=True):
        for question in those:
            for overrides in (NO_OVERRIDES, _WITHOUT):
                yield (
                    group,
                    overrides is NO_OVERRIDES,
                    _evidence_share(later, question, overrides=overrides),
                )


def _evidence_share(brain: Brain, question: Question, *, overrides: RetrievalOverrides) -> float:
    recall = Recall(brain.services, brain.caller, overrides)
    result = recall(question.text, max_items=DEPTH, max_tokens=RECALL_TOKENS_MAX, bump=False)
    evidence = {item.source_ref for item in result.items}
    return len(evidence & set(question.gold)) / len(question.gold)


def _group(name: str, *, on: Sequence[float], off: Sequence[float], seed: int) -> AgedGroup:
    return AgedGroup(
        group=name,
        questions=len(on),
        with_decay=round(sum(on) / len(on), 5),
        without_decay=round(sum(off) / len(off), 5),
        difference=estimate_mean(
            [one - other for one, other in zip(on, off, strict=True)], seed=seed
        ),
    )


def render_fading(report: FadingReport) -> Iterator[str]:
    """Say in lines what fading changed."""
    yield f"{report.memories:,} events of {report.conversations} conversations, a month later:"
    for group in report.groups:
        change = group.difference
        yield (
            f"evidence among the first {DEPTH}, questions {group.group} ({group.questions}): "
            f"{group.with_decay:.3f} with decay, {group.without_decay:.3f} without, difference "
            f"{change.mean:+.3f} ({change.low:+.3f} to {change.high:+.3f})"
        )
