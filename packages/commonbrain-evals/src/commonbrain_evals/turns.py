"""Ordinary turns of work: how often hooks show something, and whether it is of use.

Prompts, edits and commands of ten projects are played in their order, each as the payloads that
Claude Code sends before and after it, in a store with what the teams of the projects noted.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit, split_of

from commonbrain.api.project_folder import FolderConfig
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.hooks.actions import HookRequest, perform
from commonbrain.hooks.table import HOOKS, PROMPT, TOOL, TOOL_USED, read_event
from commonbrain.model.limits import HOOK_EDIT_TOKENS, HOOK_PROMPT_TOKENS
from commonbrain.observability.hook_runs import HookRuns, ShownCounts
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

_NOTES: Final = "turn_notes.jsonl"
_TURNS: Final = "turns.jsonl"
_DATA: Final = (
    "turns.jsonl and turn_notes.jsonl: {turns} events of ordinary work in ten projects, and {notes}"
    " notes of their teams, written by one hand without sight of the rules; a project belongs to"
    " one half. shown: of all events, the share at which a hook shows something. noise: the share"
    " at which it shows no note that its writer marked as of use there. found: of the events for"
    " which a note is of use, the share at which it is shown, or was before in the session. tokens:"
    " what one showing takes."
)
_CLIENT: Final = "claude-code"
_LIMIT_S: Final = 60.0
_APART: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNote:
    """What a team noted."""

    project: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One event of ordinary work."""

    project: str
    event: str
    text: str = ""
    file: str = ""
    command: str = ""
    useful: list[int] = field(default_factory=list[int])
    """The project's notes that are of use here, by their place."""

    @property
    def shown_as(self) -> str:
        """What the event is about."""
        return self.text or self.file or self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """What hooks showed at one event."""

    half: CalibrationSplit
    project: str
    event: str
    about: str
    shown: tuple[str, ...]
    """The texts of the memories."""
    is_of_use: bool | None
    """Whether a note that is of use was shown by then; None if none is."""
    is_noise: bool
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport:
    """The whole evaluation, one row per event."""

    data: str
    sha256: str
    figures: tuple[Figure, ...]
    rows: tuple[TurnResult, ...]


def read_turns() -> tuple[Sequence[TurnNote], Sequence[Turn]]:
    """Read the notes and the turns that ship with the package."""
    return read_rows(TurnNote, _NOTES), read_rows(Turn, _TURNS)


def evaluate(
    notes: Sequence[TurnNote],
    turns: Sequence[Turn],
    *,
    embedder: Embedder,
    on_progress: Progress = ignore_progress,
) -> TurnReport:
    """Play the turns of each project as one session, in one store with all notes."""
    rows: list[TurnResult] = []
    clock = FakeClock()
    with open_scratch_brain(embedder, clock) as brain, TemporaryDirectory() as folder:
        stored: dict[str, list[str]] = {}
        for note in notes:
            [item] = brain.remember(
                note.text, kind=note.kind, project=note.project, chunks=False
            ).items
            stored.setdefault(note.project, []).append(item.id or "")
        clock.move(timedelta(days=1))
        texts = {id_: note.text for note, id_ in zip(notes, _in_order(notes, stored), strict=True)}
        runs, seen = HookRuns(Path(folder)), set[tuple[str, str]]()
        for done, turn in enumerate(turns, start=1):
            clock.move(_APART)
            shown = _shown(turn, brain=brain, runs=runs)
            useful = [stored[turn.project][place] for place in turn.useful]
            seen |= {(turn.project, id_) for id_ in shown.ids}
            rows.append(
                TurnResult(
                    half=split_of(turn.project),
                    project=turn.project,
                    event=turn.event,
                    about=turn.shown_as,
                    shown=tuple(texts.get(id_, id_) for id_ in shown.ids),
                    is_of_use=any((turn.project, id_) in seen for id_ in useful)
                    if useful
                    else None,
                    is_noise=bool(shown.memories) and not set(useful) & set(shown.ids),
                    tokens=shown.tokens,
                )
            )
            on_progress(done / len(turns))
    return TurnReport(
        data=_DATA.format(turns=len(turns), notes=len(notes)),
        sha256=digest_of(_NOTES, _TURNS),
        figures=tuple(_figures(rows)),
        rows=tuple(rows),
    )


def _in_order(notes: Sequence[TurnNote], stored: Mapping[str, Sequence[str]]) -> Iterator[str]:
    each = {project: iter(ids) for project, ids in stored.items()}
    return (next(each[note.project]) for note in notes)


def _shown(turn: Turn, *, brain: Brain, runs: HookRuns) -> ShownCounts:
    own = brain.as_model().acting_as(agent=_CLIENT, session=turn.project, project=turn.project)
    texts: list[str] = []
    for event, payload in _payloads(turn):
        request = HookRequest(
            hook=HOOKS[_CLIENT, event],
            event=read_event(json.dumps(payload).encode()),
            folder=FolderConfig(),
            agent=_CLIENT,
            remaining_s=lambda: _LIMIT_S,
            tokens=HOOK_PROMPT_TOKENS if event == PROMPT else HOOK_EDIT_TOKENS,
            runs=runs,
        )
        texts.append(perform(own, request) or "")
    return ShownCounts.of("\n".join(filter(None, texts)))


def _payloads(turn: Turn) -> Iterator[tuple[str, dict[str, Any]]]:
    folder = f"/home/dev/{turn.project}"
    shared: dict[str, Any] = {"session_id": turn.project, "cwd": folder}
    if turn.event == "prompt":
        yield PROMPT, shared | {"prompt": turn.text}
        return
    if turn.event == "edit":
        shared |= {"tool_name": "Edit", "tool_input": {"file_path": f"{folder}/{turn.file}"}}
    else:
        shared |= {"tool_name": "Bash", "tool_input": {"command": turn.command}}
    yield TOOL, shared
    yield TOOL_USED, shared | {"tool_response": {"stdout": "", "stderr": "", "interrupted": False}}


def _figures(rows: Sequence[TurnResult]) -> Iterator[Figure]:
    for half in CalibrationSplit:
        for event in ("all", *dict.fromkeys(row.event for row in rows)):
            group = [row for row in rows if row.half is half and event in {"all", row.event}]
            tokens = [row.tokens for row in group if row.tokens]
            yield {
                "half": str(half),
                "event": event,
                "events": len(group),
                "shown": share(bool(row.shown) for row in group),
                "noise": share(row.is_noise for row in group),
                "found": share(row.is_of_use for row in group),
                "tokens": round(mean(tokens)) if tokens else None,
            }


def show_turns(report: TurnReport) -> None:
    """Print the figures, and what was shown or missed in the half calibrate."""
    columns = ("half", "event", "events", "shown", "noise", "found", "tokens")
    show_figures("Ordinary turns", report.figures, columns=columns, digits=1)
    own = [row for row in report.rows if row.half is CalibrationSplit.CALIBRATE]
    show_lines(f"noise at {row.about!r}: {'; '.join(row.shown)}" for row in own if row.is_noise)
    show_lines(f"missed at {row.about!r}" for row in own if row.is_of_use is False)
    show_lines([report.data, f"sha256 {report.sha256}"])
