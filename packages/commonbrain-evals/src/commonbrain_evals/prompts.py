"""Memories that are shown with a prompt without being asked for, and those of a plain recall.

Each half has a store with all memories of the data, and the prompts of its own. Every prompt is
the first of a session of its own, and goes the way that the prompt hook takes.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from statistics import mean
from typing import Final

from commonbrain_models.calibration import CalibrationSplit, split_of
from rich.console import Console
from rich.table import Table

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.hooks.actions import recall_for_prompt
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import HOOK_PROMPT_TOKENS, QUERY_CHARS_MAX, RECALL_ITEMS_DEFAULT
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain_evals.rows import read_rows

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
    figures: tuple[Mapping[str, object], ...]
    rows: tuple[PromptResult, ...]


def read_prompts() -> tuple[Sequence[StoredText], Sequence[LabelledPrompt]]:
    """Read the memories and prompts that ship with the package.

    The half of a related prompt is that of its memory, so that none is in both.
    """
    stored: list[StoredText] = []
    prompts: list[LabelledPrompt] = []
    for row in read_rows(_FILE):
        if "prompt" in row:
            text = row["prompt"]
            prompts.append(
                LabelledPrompt(sort=row["sort"], half=split_of(text), text=text, memory=None)
            )
            continue
        half, place = split_of(row["memory"]), len(stored)
        stored.append(StoredText(kind=row["kind"], text=row["memory"]))
        prompts += [
            LabelledPrompt(sort=one["sort"], half=half, text=one["text"], memory=place)
            for one in row["prompts"]
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
    with (
        tempfile.TemporaryDirectory() as folder,
        a_brain(Path(folder) / "brain.db", clock=clock, embedder=embedder) as opened,
    ):
        brain = opened.acting_as(project=_PROJECT)
        texts: dict[str, str] = {}
        memory_ids: list[str] = []
        for one in stored:
            clock.move(_APART)
            [outcome] = brain.remember(one.text, kind=one.kind, chunks=False).items
            if outcome.id is None:
                raise InvalidInputError(f"{one.text!r} was not stored: {outcome.reason}")
            texts[outcome.id] = one.text
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
    content = files("commonbrain_evals").joinpath(_FILE).read_bytes()
    return PromptReport(
        data=_DATA.format(memories=len(stored), prompts=len(prompts)),
        sha256=hashlib.sha256(content).hexdigest(),
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


def _figures(rows: Sequence[PromptResult]) -> Iterator[Mapping[str, object]]:
    """Count each half: all related prompts and their sorts, all unrelated ones and theirs."""
    groups: tuple[tuple[str, Callable[[PromptResult], bool]], ...] = (
        ("related", lambda row: row.memory is not None),
        ("unrelated", lambda row: row.memory is None),
    )
    for half in CalibrationSplit:
        for name, belongs in groups:
            here = [row for row in rows if row.half is half and belongs(row)]
            yield _figure(half, f"all {name}", rows=here)
            for sort in sorted({row.sort for row in here}):
                yield _figure(half, sort, rows=[row for row in here if row.sort == sort])


def _figure(
    half: CalibrationSplit, sort: str, *, rows: Sequence[PromptResult]
) -> Mapping[str, object]:
    related = [row for row in rows if row.memory is not None]
    shown = sum(len(row.shown) for row in related)
    hits = sum(row.is_right for row in related)
    replies = [row.reply for row in related if row.reply is not None]
    noisy = sum(bool(row.shown) for row in rows if row.memory is None)
    return {
        "half": str(half),
        "sort": sort,
        "prompts": len(rows),
        "hits": hits / len(related) if related else None,
        "precision": hits / shown if shown else None,
        "noise": None if related or not rows else noisy / len(rows),
        "answered": mean(float(one.is_answered) for one in replies) if replies else None,
        "tokens": round(mean(one.tokens for one in replies)) if replies else None,
        "listed": mean(float(one.is_listed) for one in replies) if replies else None,
        "of all": round(mean(one.tokens_of_all for one in replies)) if replies else None,
    }


def show_prompts(report: PromptReport) -> None:
    """Print the figures, and the failures of the half calibrate."""
    console = Console(highlight=False)
    related = [one for one in report.figures if one["tokens"] is not None]
    for title, figures, names in (
        ("Prompts", report.figures, ("hits", "precision", "noise")),
        ("Recall of related prompts", related, ("answered", "tokens", "listed", "of all")),
    ):
        table = Table("half", "sort", "prompts", *names, title=title)
        for figure in figures:
            table.add_row(*(_cell(figure[name]) for name in ("half", "sort", "prompts", *names)))
        console.print(table)
    for row in report.rows:
        if row.half is CalibrationSplit.CALIBRATE and not row.is_right:
            shown = " / ".join(row.shown) or "nothing"
            console.print(f"{row.sort}: {row.prompt!r}, shown: {shown}", markup=False)
    console.print(report.data, markup=False, style="dim")
    console.print(f"sha256 {report.sha256}", markup=False, style="dim")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{100 * value:.1f}%" if isinstance(value, float) else str(value)
