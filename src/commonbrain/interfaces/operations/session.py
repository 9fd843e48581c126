"""The operation session: who else is at work, and what one's own session is at."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from pydantic import Field

from commonbrain.brain import Brain
from commonbrain.domain.scope import Role
from commonbrain.flows.sessions.pipeline import Sessions
from commonbrain.flows.sessions.told import Peer, Told
from commonbrain.interfaces.operations.operation import Name, Operation, Request

Op = Literal["list", "task", "end"]


class SessionRequest(Request):
    """What to say or ask; each op reads its own fields."""

    op: Op = Field(description="list: who else is at work; task: say what you do now")
    text: str = Field(default="", description="task: in a sentence")
    project: Name = Field(default=None, description="list")


_Call = Callable[[Sessions, SessionRequest], Told]
_CALLS: Final[Mapping[Op, _Call]] = {
    "list": lambda sessions, told: sessions.list(project=told.project),
    "task": lambda sessions, told: sessions.task(told.text),
    "end": lambda sessions, _: sessions.end(),
}


def _handle(brain: Brain, request: SessionRequest) -> Told:
    return _CALLS[request.op](brain.session, request)


def _tell(reply: Told) -> str:
    lines = [f"{reply.op} {reply.session or ''} {reply.task or ''}".strip()]
    if reply.sessions is not None:
        lines += [_line(one) for one in reply.sessions] or ["Nobody else is at work."]
    return "\n".join(lines)


def _line(one: Peer) -> str:
    where = f" in {one.project}" if one.project else ""
    heard = f"idle {one.heartbeat_age_s} s" if one.is_idle else "active"
    return f"{one.session} {one.agent}{where} ({heard}): {one.task or 'no task told'}"


SESSION = Operation(
    name="session",
    title="Session",
    purpose="See who else is at work on what; say what you are at; end.",
    request=SessionRequest,
    reply=Told,
    handle=_handle,
    tell=_tell,
    role=Role.READER,
    positional=("op", "text"),
)
