"""Failures that come back: whether hooks show what fixed them, and what they learn of a session.

Each half is a store of its own. Its sessions are played in their order, each step as the payload
that the session's client sends, through the actions of hooks.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit

from commonbrain.api.project_folder import FolderConfig
from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.hooks.actions import HookRequest, perform
from commonbrain.hooks.failure_log import FailureLog
from commonbrain.hooks.table import HOOKS, TOOL_FAILED, TOOL_USED, read_event
from commonbrain.model.limits import HOOK_EDIT_TOKENS
from commonbrain.observability.hook_runs import HookRuns, ShownCounts
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock
from commonbrain.text.failures import read_failure
from commonbrain_evals.labelled import (
    Figure,
    digest_of,
    open_scratch_brain,
    read_rows,
    share,
    show_figures,
    show_lines,
)

_FILES: Final = {half: f"failures_{half}.jsonl" for half in CalibrationSplit}
_DATA: Final = (
    "failures_*.jsonl: {sessions} sessions with failing commands in five programming languages,"
    " written by hand without sight of the rules; a half is a file. shown: of failures that an"
    " earlier session fixed, the share at which its fix is shown. wrong: of all failures, the share"
    " at which something else is shown. captured: of fixes that a session refs, the share that is"
    " stored, or was and is confirmed. right: of what is stored, the share that is such a fix."
    " tokens: what one showing takes."
)
_APART: Final = timedelta(hours=3)
_LIMIT_S: Final = 60.0
_NEWEST: Final = 20
"""Memories among which a step's new ones are."""

Step = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSession:
    """One session: commands with their output, and edits."""

    session: str
    language: str
    project: str
    client: str
    steps: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureResult:
    """What one failing command was shown, and what was learnt of it."""

    half: CalibrationSplit
    language: str
    ref: str
    command: str
    expected: str | None
    """The earlier failure whose fix helps."""
    shown: str | None
    """The failure whose fix was shown; empty if it is of none."""
    is_right: bool
    """Whether the fix that helps was shown, or nothing where none does."""
    tokens: int
    has_lesson: bool
    is_captured: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureReport:
    """The whole evaluation, one row per failing command."""

    data: str
    sha256: str
    figures: tuple[Figure, ...]
    rows: tuple[FailureResult, ...]


@dataclass(slots=True)
class _Player:
    """Plays sessions in one store, and knows of which failure each memory is."""

    brain: Brain
    runs: HookRuns
    clock: FakeClock
    refs: dict[str, str] = field(default_factory=dict[str, str])
    """The failure of each memory, by its id."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """The same, by its text."""
    causes: dict[str, str] = field(default_factory=dict[str, str])
    """The first failure with the same cause, by the failure."""

    def play(self, one: FailureSession, *, half: CalibrationSplit) -> list[FailureResult]:
        """Play the steps of a session."""
        brain = self.brain.acting_as(agent=one.client, session=one.session, project=one.project)
        rows: list[FailureResult] = []
        failed: list[tuple[str, Step]] = []
        captured: set[str] = set()
        for step in one.steps:
            self.clock.move(timedelta(minutes=2))
            text = self._send(one, step, brain=brain) or ""
            if step.get("exit"):
                ref = f"{one.session}/{step['ref']}"
                rows.append(self._row(one, step, half=half, text=text))
                failed.append((ref, step))
            captured |= self._new_memories(brain, failed)
        self.clock.move(_APART)
        return [replace(row, is_captured=row.ref in captured) for row in rows]

    def _send(self, one: FailureSession, step: Step, *, brain: Brain) -> str | None:
        name, payload = payload_of(one, step)
        log = FailureLog(self.runs, one.session)
        event = log.follow(read_event(json.dumps(payload).encode()), is_recorded=True)
        request = HookRequest(
            hook=HOOKS[one.client, name],
            event=event,
            folder=FolderConfig(),
            agent=one.client,
            remaining_s=lambda: _LIMIT_S,
            tokens=HOOK_EDIT_TOKENS,
            runs=self.runs,
        )
        text = perform(brain, request)
        log.mark_shown(event, text)
        return text

    def _row(
        self, one: FailureSession, step: Step, *, half: CalibrationSplit, text: str
    ) -> FailureResult:
        ref = f"{one.session}/{step['ref']}"
        expected: str | None = step.get("fixed_by")
        self.causes[ref] = self.causes.get(expected, expected) if expected else ref
        counts = ShownCounts.of(text)
        shown = self.refs.get(counts.ids[0], "") if counts.ids else None
        is_right = shown is None if expected is None else self._has_cause_of(shown, expected)
        return FailureResult(
            half=half,
            language=one.language,
            ref=ref,
            command=step["run"],
            expected=expected,
            shown=shown,
            is_right=is_right,
            tokens=counts.tokens,
            has_lesson=bool(step.get("lesson")),
            is_captured=False,
        )

    def _has_cause_of(self, shown: str | None, expected: str) -> bool:
        known = self.causes.get(shown or "", "")
        # Failures of one session that one edit mended have one cause.
        return (
            bool(known)
            and known.partition("/")[0] == self.causes.get(expected, expected).partition("/")[0]
        )

    def _new_memories(self, brain: Brain, failed: Sequence[tuple[str, Step]]) -> set[str]:
        """Name the failures of memories that are new, or were confirmed now."""
        refs: set[str] = set()
        for item in brain.list(kinds=["incident"], limit=_NEWEST).memories:
            memory = brain.get(item.id, bump=False)
            known = f"{memory.id} {memory.rating}"
            if known in self.refs:
                continue
            attached: Any = (memory.attachment or {}).get("failure", {})
            ref = _failure_of(str(attached.get("excerpt", "")), failed)
            if ref is not None:
                refs.add(ref)
            self.refs[known] = ""
            # One that helped is a new version, for the team, with the same text.
            self.refs.setdefault(memory.id, ref or self.texts.get(memory.body or "", ""))
            self.texts.setdefault(memory.body or "", self.refs[memory.id])
        return refs


def _failure_of(excerpt: str, failed: Sequence[tuple[str, Step]]) -> str | None:
    """Return the failing command whose output an excerpt is of; the last of several."""
    read = read_failure(excerpt)
    for ref, step in reversed(failed):
        own = read_failure(step["output"])
        if read is not None and own is not None and not {*read.texts}.isdisjoint(own.texts):
            return ref
    return None


def payload_of(one: FailureSession, step: Step) -> tuple[str, dict[str, Any]]:
    """Return the event and the payload that a client sends of a step."""
    folder = f"/home/dev/{one.project}"
    shared: dict[str, Any] = {"session_id": one.session, "cwd": folder}
    if "edit" in step:
        path = f"{folder}/{step['edit']}"
        if one.client == "codex":
            patch = f"*** Begin Patch\n*** Update File: {path}\n*** End Patch"
            return TOOL_USED, shared | {
                "tool_name": "apply_patch",
                "tool_input": {"command": patch},
            }
        return TOOL_USED, shared | {"tool_name": "Edit", "tool_input": {"file_path": path}}
    shared |= {"tool_name": "Bash", "tool_input": {"command": step["run"]}}
    return _RESULTS[one.client](step, shared)


def _of_claude(step: Step, shared: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if step["exit"]:
        error = f"Exit code {step['exit']}\n{step['output']}"
        return TOOL_FAILED, shared | {"error": error, "is_interrupt": False}
    read = {"stdout": step["output"], "stderr": "", "interrupted": False}
    return TOOL_USED, shared | {"tool_response": read}


def _of_gemini(step: Step, shared: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    status = f"\nExit Code: {step['exit']}" if step["exit"] else ""
    text = f"<untrusted_context>\nOutput: {step['output']}{status}\n</untrusted_context>"
    return TOOL_USED, shared | {"tool_response": {"llmContent": text}}


_RESULTS: Final[Mapping[str, Callable[[Step, dict[str, Any]], tuple[str, dict[str, Any]]]]] = {
    "claude-code": _of_claude,
    "gemini": _of_gemini,
    # It gives the output alone.
    "codex": lambda step, shared: (TOOL_USED, shared | {"tool_response": step["output"]}),
}


def read_sessions() -> Mapping[CalibrationSplit, Sequence[FailureSession]]:
    """Read the sessions that ship with the package, by half."""
    return {half: read_rows(FailureSession, file) for half, file in _FILES.items()}


def evaluate(
    sessions: Mapping[CalibrationSplit, Sequence[FailureSession]],
    embedder: Embedder,
    *,
    on_progress: Progress = ignore_progress,
) -> FailureReport:
    """Play the sessions of each half in a store of its own."""
    rows: list[FailureResult] = []
    whole, done = sum(map(len, sessions.values())), 0
    for half, each in sessions.items():
        clock = FakeClock()
        with open_scratch_brain(embedder, clock) as brain, TemporaryDirectory() as folder:
            player = _Player(brain=brain.as_model(), runs=HookRuns(Path(folder)), clock=clock)
            for one in each:
                rows += player.play(one, half=half)
                done += 1
                on_progress(done / whole)
    return FailureReport(
        data=_DATA.format(sessions=whole),
        sha256=digest_of(*(_FILES[half] for half in sessions)),
        figures=tuple(_figures(rows)),
        rows=tuple(rows),
    )


def _figures(rows: Sequence[FailureResult]) -> Iterator[Figure]:
    for half in dict.fromkeys(row.half for row in rows):
        group = [row for row in rows if row.half is half]
        yield {"half": str(half), "language": "all", **_counts(group)}
        for language in dict.fromkeys(row.language for row in group):
            counts = _counts([row for row in group if row.language == language])
            yield {"half": str(half), "language": language, **counts}


def _counts(rows: Sequence[FailureResult]) -> Figure:
    tokens = [row.tokens for row in rows if row.tokens]
    return {
        "failures": len(rows),
        "shown": share(row.is_right for row in rows if row.expected),
        "wrong": share(row.shown is not None and not row.is_right for row in rows),
        "captured": share(row.is_captured for row in rows if row.has_lesson),
        "right": share(row.has_lesson for row in rows if row.is_captured),
        "tokens": round(mean(tokens)) if tokens else None,
        "most": max(tokens, default=None),
    }


def show_failures(report: FailureReport) -> None:
    """Print the figures, and the failures of the half calibrate."""
    columns = (*("half", "language", "failures", "shown", "wrong"), "captured", "right", "tokens")
    show_figures("Failures", report.figures, columns=(*columns, "most"), digits=1)
    own = [row for row in report.rows if row.half is CalibrationSplit.CALIBRATE]
    show_lines(
        f"{row.ref}: {row.command!r}, expected {row.expected}, shown {row.shown}"
        for row in own
        if not row.is_right
    )
    show_lines(
        f"{row.ref}: {row.command!r}, {'stored' if row.is_captured else 'not stored'}"
        for row in own
        if row.is_captured is not row.has_lesson
    )
    show_lines([report.data, f"sha256 {report.sha256}"])
