"""The operation session: who else is at work, and what one's own session is at."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from pydantic import Field

from commonbrain.brain import Brain
from commonbrain.domain.errors import Invalid
from commonbrain.domain.lease import LEASE_MINUTES_DEFAULT
from commonbrain.domain.scope import Role
from commonbrain.domain.times import show_instant
from commonbrain.flows.sessions.pipeline import Sessions
from commonbrain.flows.sessions.told import Checked, Lease, Noted, Peer, Told
from commonbrain.interfaces.operations.operation import PLAIN, Name, Operation, Request

Op = Literal["list", "task", "end", "note", "notes", "checkpoint", "claim", "release"]


class SessionRequest(Request):
    """What to say or ask; each op reads its own fields."""

    op: Op = Field(
        description="list: who else is at work; task: say what you do now; checkpoint: which rules "
        "bind a risky action; claim: a task for minutes"
    )
    text: str = Field(default="", description="task, checkpoint: in a sentence; note: its value")
    key: Name = Field(default=None, description="Of the note", json_schema_extra=PLAIN)
    pinned: bool = Field(default=False, description="note: shown by boot")
    id: Name = Field(default=None, description="claim, release: mem_...")
    minutes: int = Field(
        default=LEASE_MINUTES_DEFAULT, description="Of the claim", json_schema_extra=PLAIN
    )
    project: Name = Field(default=None, description="list")


_Call = Callable[[Sessions, SessionRequest], Told]
_CALLS: Final[Mapping[Op, _Call]] = {
    "list": lambda sessions, told: sessions.list(project=told.project),
    "task": lambda sessions, told: sessions.task(told.text),
    "end": lambda sessions, _: sessions.end(),
    "note": lambda sessions, told: sessions.note(
        _needed(told, "key"), told.text, pinned=told.pinned
    ),
    "notes": lambda sessions, _: sessions.notes(),
    "checkpoint": lambda sessions, told: sessions.checkpoint(told.text),
    "claim": lambda sessions, told: sessions.claim(_needed(told, "id"), minutes=told.minutes),
    "release": lambda sessions, told: sessions.release(_needed(told, "id")),
}


def _needed(told: SessionRequest, field: Literal["key", "id"]) -> str:
    given: str | None = getattr(told, field)
    if not given:
        raise Invalid(f"{told.op} needs {field}.", hint="See the tool's schema.")
    return given


def _handle(brain: Brain, request: SessionRequest) -> Told:
    return _CALLS[request.op](brain.session, request)


def _tell(reply: Told) -> str:
    lines = [f"{reply.op} {reply.session or ''} {reply.task or ''}".strip()]
    if reply.sessions is not None:
        lines += [_line(one) for one in reply.sessions] or ["Nobody else is at work."]
    lines += [_note_line(one) for one in reply.notes or ()]
    if reply.lease is not None:
        lines += [_lease_line(reply.lease)]
    if reply.checked is not None:
        lines += _checked_lines(reply.checked)
    return "\n".join(lines)


def _note_line(one: Noted) -> str:
    return f"{one.key}{f' (pinned by {one.agent})' if one.pinned else ''}: {one.value}"


def _lease_line(one: Lease) -> str:
    whose = f" by {one.holder} until {show_instant(one.until)}" if one.until else ""
    return f"{one.id} {one.status}{whose}: {one.headline}"


def _checked_lines(checked: Checked) -> list[str]:
    if checked.is_repeated:
        return [f"Already checked at {show_instant(checked.at)}, nothing changed since."]
    lines = [f"BLOCKER {one.id}: {one.headline}" for one in checked.blockers]
    lines += ["More blockers: recall, kinds rule."] if checked.is_more else []
    lines += [f"PATTERN {one.id}: {one.headline}" for one in checked.patterns]
    lines += [f"skill:{one.skill} {one.id}: {one.headline}" for one in checked.skills]
    return lines or ["No rule binds this."]


def _line(one: Peer) -> str:
    where = f" in {one.project}" if one.project else ""
    heard = f"idle {one.heartbeat_age_s} s" if one.is_idle else "active"
    return f"{one.session} {one.agent}{where} ({heard}): {one.task or 'no task told'}"


SESSION = Operation(
    name="session",
    title="Session",
    purpose="See who else is at work on what; say what you are at; keep notes; claim tasks; end.",
    request=SessionRequest,
    reply=Told,
    handle=_handle,
    tell=_tell,
    role=Role.READER,
    positional=("op", "text"),
)
