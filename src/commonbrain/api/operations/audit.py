"""The operation audit: who changed what and when, refusals, and administrative changes."""

from commonbrain.api.operation import Cursor, Name, Operation, Profile, Request, TimeBound, argument
from commonbrain.history.audit import AuditEntryView, AuditPage
from commonbrain.model.escaping import inert_line
from commonbrain.model.limits import AUDIT_PAGE_DEFAULT, AUDIT_PAGE_MAX
from commonbrain.model.paging import more_line
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant


class AuditRequest(Request):
    """The filters and the page."""

    agent: Name = argument("Only what this agent did")
    action: Name = argument("create, supersede, forget, recall, ...")
    memory: Name = argument("mem_...: only lines about it")
    request_id: Name = argument(
        "Only the lines of one call; over HTTP, its X-Request-Id",
        agents="Of one call; over HTTP its X-Request-Id",
    )
    since: TimeBound = argument(
        "Only lines from then on: ISO 8601, or words such as 'yesterday'",
        agents="ISO 8601 or words: 'yesterday'",
    )
    until: TimeBound = argument("Only lines until then", agents="At this time or before")
    limit: int = argument(
        "How many lines at most, 1 to 200",
        AUDIT_PAGE_DEFAULT,
        agents=f"1 to {AUDIT_PAGE_MAX} lines",
    )
    cursor: Cursor = None


def _render(reply: AuditPage) -> str:
    lines = [_render_entry(one) for one in reply.lines]
    return "\n".join([*lines, *more_line(reply.more, reply.next)]) or "The audit has no such line."


def _render_entry(one: AuditEntryView) -> str:
    parts = (
        show_instant(one.at),
        one.agent or "unknown",
        one.action,
        one.memory,
        one.subject,
        f"refused: {one.refused}" if one.refused else None,
        f"{one.count:,} {'times' if one.refused else 'memories'}" if one.count > 1 else None,
        f"session {one.session}" if one.session else None,
        f"request {one.request_id}" if one.request_id else None,
        one.reason,
    )
    return inert_line(" | ".join(part for part in parts if part))


AUDIT = Operation(
    name="audit",
    title="Audit",
    purpose="List who changed what and when, by agent, action, request or time; with refusals.",
    request=AuditRequest,
    reply=AuditPage,
    handle=lambda brain, request: brain.audit(**request.model_dump()),
    render_text=_render,
    role=Role.ADMIN,
    profile=Profile.OPERATOR,
    is_read_only=True,
    is_idempotent=True,
)
