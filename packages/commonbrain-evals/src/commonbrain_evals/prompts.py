"""Memories that are shown with a prompt without being asked for, and those of a plain recall.

Each half has a store with all memories of the data, and the prompts of its own. Every prompt is
the first of a session of its own, and goes the way that the prompt hook takes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import mean
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit, split_of

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.hooks.actions import recall_for_prompt
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import HOOK_PROMPT_TOKENS, QUERY_CHARS_MAX, RECALL_ITEMS_DEFAULT
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock
from commonbrain_evals.labelled import (
    Figure,
    digest_of,
    open_scratch_brain,
    read_rows,
    share,
    show_figures,
    show_lines,
)

_FILE: Final = "prompts.jsonl"
_DATA: Final = (
    "prompts.jsonl: {memories} memories and {prompts} prompts written for it by one hand. Of"
    " related prompts, hits is the share whose memory is among what is shown, and precision the"
    " share of what is shown that is that memory; of unrelated ones, noise is the share at which"
    " anything is shown. words: asks in the words of the memory; partly: names its subject, the"
    " rest in other words; meaning: in other words; task: an order that the memory bears upon;"
    " detailed: several sentences. Unrelated prompts of sort near are on subjects that the store"
    " has memories of. The weights were fitted on the half calibrate. answered is the share of"
    " related prompts whose memory is in the reply of a plain recall, and tokens what that reply"
    " takes; listed and of all are the same if the caller names the usual number of items, so that"
    " nothing is left out."
)
_PROJECT: Final = "prompts"
_APART: Final = timedelta(hours=7)
"""Between two memories, so that none is about what was just said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredText:
    """A memory, in the kind or alias that its author gave."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPrompt:
    """A prompt as a person types it or a client sends it."""

    sort: str
    half: CalibrationSplit
    text: str
    memory: int | None
    """The place of the memory that bears upon it; None if none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyResult:
    """What a plain recall of a related prompt returned: as it is, and without leaving out."""

    is_answered: bool
    """Whether the memory is in the reply."""
    tokens: int
    is_listed: bool
    tokens_of_all: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResult:
    """What was shown with one prompt."""

    sort: str
    half: CalibrationSplit
    prompt: str
    memory: str | None
    """The text that bears upon it."""
    shown: tuple[str, ...]
    reply: ReplyResult | None = None
    """None if no memory bears upon it."""

    @property
    def is_right(self) -> bool:
        """Whether the memory was shown, or nothing where none bears upon the prompt."""
        return not self.shown if self.memory is None else self.memory in self.shown


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptReport:
    """The whole evaluation, one row per prompt."""

    data: str
    sha256: str
    figures: tuple[Figure, ...]
    rows: tuple[PromptResult, ...]


def read_prompts() -> tuple[Sequence[StoredText], Sequence[LabelledPrompt]]:
    """Read the memories and prompts that ship with the package.

    The half of a related prompt is that of its memory, so that none is in both.
    """
    stored: list[StoredText] = []
    prompts: list[LabelledPrompt] = []
    for row in read_rows(dict[str, Any], _FILE):
        if "prompt" in row:
            text = row["prompt"]
            prompts.append(
                LabelledPrompt(sort=row["sort"], half=split_of(text), text=text, memory=None)
            )
            continue
        half, place = split_of(row["memory"]), len(stored)
        stored.append(StoredText(kind=row["kind"], text=row["memory"]))
        prompts += [
            LabelledPrompt(sort=prompt["sort"], half=half, text=prompt["text"], memory=place)
            for prompt in row["prompts"]
        ]
    return stored, prompts


def evaluate(
    stored: Sequence[StoredText],
    prompts: Sequence[LabelledPrompt],
    *,
    embedder: Embedder,
    on_progress: Progress = ignore_progress,
) -> PromptReport:
    """Remember the texts and send the prompts.

    Raises:
        InvalidInputError: a text was not stored.

    """
    rows: list[PromptResult] = []
    clock = FakeClock()
    with open_scratch_brain(embedder, clock) as opened:
        brain = opened.acting_as(project=_PROJECT)
        texts: dict[str, str] = {}
        memory_ids: list[str] = []
        for memory in stored:
            clock.move(_APART)
            [outcome] = brain.remember(memory.text, kind=memory.kind, chunks=False).items
            if outcome.id is None:
                raise InvalidInputError(f"{memory.text!r} was not stored: {outcome.reason}")
            texts[outcome.id] = memory.text
            memory_ids.append(outcome.id)
        for number, prompt in enumerate(prompts):
            shown = _shown(brain.acting_as(session=f"session {number}"), prompt.text)
            rows.append(
                PromptResult(
                    sort=prompt.sort,
                    half=prompt.half,
                    prompt=prompt.text,
                    memory=None if prompt.memory is None else stored[prompt.memory].text,
                    shown=tuple(texts[id_] for id_ in shown),
                    reply=None
                    if prompt.memory is None
                    else _reply_to(brain, prompt.text, memory_id=memory_ids[prompt.memory]),
                )
            )
            on_progress((number + 1) / len(prompts))
    return PromptReport(
        data=_DATA.format(memories=len(stored), prompts=len(prompts)),
        sha256=digest_of(_FILE),
        figures=tuple(_figures(rows)),
        rows=tuple(rows),
    )


def _shown(brain: Brain, prompt: str) -> Sequence[str]:
    result = recall_for_prompt(brain, prompt, max_tokens=HOOK_PROMPT_TOKENS)
    return [item.id for item in result.items] if result else []


def _reply_to(brain: Brain, prompt: str, *, memory_id: str) -> ReplyResult:
    """Ask in the words of a prompt, as an agent does."""
    query = prompt[:QUERY_CHARS_MAX]
    served = brain.recall(query, bump=False)
    whole = brain.recall(query, max_items=RECALL_ITEMS_DEFAULT, bump=False)
    return ReplyResult(
        is_answered=memory_id in {item.id for item in served.items},
        tokens=served.tokens,
        is_listed=memory_id in {item.id for item in whole.items},
        tokens_of_all=whole.tokens,
    )


def _figures(rows: Sequence[PromptResult]) -> Iterator[Figure]:
    """Count each half: all related prompts and their sorts, all unrelated ones and theirs."""
    for half in CalibrationSplit:
        for name in ("related", "unrelated"):
            is_related = name == "related"
            group = [
                row for row in rows if row.half is half and (row.memory is not None) is is_related
            ]
            yield {"half": str(half), "sort": f"all {name}", **_counts(group)}
            for sort in sorted({row.sort for row in group}):
                counts = _counts([row for row in group if row.sort == sort])
                yield {"half": str(half), "sort": sort, **counts}


def _counts(rows: Sequence[PromptResult]) -> Figure:
    related = [row for row in rows if row.memory is not None]
    shown = sum(len(row.shown) for row in related)
    replies = [row.reply for row in related if row.reply is not None]
    return {
        "prompts": len(rows),
        "hits": share(row.is_right for row in related),
        "precision": sum(row.is_right for row in related) / shown if shown else None,
        "noise": None if related else share(bool(row.shown) for row in rows),
        "answered": share(reply.is_answered for reply in replies),
        "tokens": round(mean(reply.tokens for reply in replies)) if replies else None,
        "listed": share(reply.is_listed for reply in replies),
        "of all": round(mean(reply.tokens_of_all for reply in replies)) if replies else None,
    }


def show_prompts(report: PromptReport) -> None:
    """Print the figures, and the failures of the half calibrate."""
    names = ("half", "sort", "prompts")
    columns = (*names, "hits", "precision", "noise")
    show_figures("Prompts", report.figures, columns=columns, digits=1)
    related = [figure for figure in report.figures if figure["tokens"] is not None]
    columns = (*names, "answered", "tokens", "listed", "of all")
    show_figures("Recall of related prompts", related, columns=columns, digits=1)
    show_lines(
        f"{row.sort}: {row.prompt!r}, shown: {' / '.join(row.shown) or 'nothing'}"
        for row in report.rows
        if row.half is CalibrationSplit.CALIBRATE and not row.is_right
    )
    show_lines([report.data, f"sha256 {report.sha256}"])
