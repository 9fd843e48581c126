"""The audit across memories: who changed what and when, refusals, and administrative changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from commonbrain.model import ids
from commonbrain.model.errors import RejectedError, check_names
from commonbrain.model.limits import AUDIT_PAGE_DEFAULT, AUDIT_PAGE_MAX
from commonbrain.model.paging import Listing
from commonbrain.model.scope import Role
from commonbrain.services import Capability
from commonbrain.storage.interface import AuditFilter, AuditLine
from commonbrain.text.time_expressions.parser import parse_time_expression


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntryView:
    """One line: a change of a memory, a read of it, a refusal, or an administrative change."""

    at: datetime
    action: str
    """The change, such as supersede, or the operation that was refused."""
    agent: str | None
    """None if the credential identifies no agent."""
    memory: str | None = None
    session: str | None = None
    reason: str | None = None
    refused: str | None = None
    """The error code of a refusal."""
    subject: str | None = None
    """The agent, key or thread that was changed, or the file of an export."""
    credential: str | None = None
    request_id: str | None = None
    count: int = 1
    """Equal refusals that this line represents, or exported memories."""


class AuditCriteria(TypedDict, total=False):
    """Which lines to list."""

    agent: str | None
    """Who acted."""
    action: str | None
    """create, supersede, forget, recall and so on, or an operation that was refused."""
    memory: str | None
    """Only lines about this memory."""
    request_id: str | None
    """Only lines of this call; over HTTP its X-Request-Id."""
    since: datetime | str | None
    """At this time or later: ISO 8601, or words such as yesterday."""
    until: datetime | str | None
    """At this time or before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """Lines of the audit, newest first."""

    lines: tuple[AuditEntryView, ...]
    next: str | None = None
    """The cursor of the next page; None on the last one."""
    more: int = 0
    """Lines after this page; 1,000 means 1,000 or more."""


class ListAudit(Capability):
    """Lists the audit of the caller's tenant, for admins; it holds no text of memories."""

    def __call__(
        self,
        *,
        limit: int = AUDIT_PAGE_DEFAULT,
        cursor: str | None = None,
        **criteria: Unpack[AuditCriteria],
    ) -> AuditPage:
        """List lines, newest first.

        Args:
            limit: 1 to 200 lines.
            cursor: `next` of the page before.
            criteria: which lines, as `AuditCriteria` explains.

        Raises:
            RejectedError: `insufficient_role`, only an admin may read it; `limit_exceeded`.
            InvalidInputError: an id, a time or the cursor is malformed.

        """
        self._check_role()
        now = self.services.clock.now()
        names = AuditCriteria.__annotations__
        check_names(criteria, names, message="The audit has no filter {}.")
        filters = {name: criteria.get(name) for name in names}
        listing = Listing(name="audit", limit=limit, cursor=cursor, filters=filters)
        memory, since, until = criteria.get("memory"), criteria.get("since"), criteria.get("until")
        only = AuditFilter(
            agent=criteria.get("agent"),
            action=criteria.get("action"),
            request_id=criteria.get("request_id"),
            memory_id=ids.parse(ids.MEMORY, memory) if memory else None,
            since=parse_time_expression(since, now) if since else None,
            until=parse_time_expression(until, now, ends=True) if until else None,
        )
        return self._page(only, listing=listing.checked(AUDIT_PAGE_MAX))

    def _page(self, criteria: AuditFilter, *, listing: Listing) -> AuditPage:
        after = listing.after(int)
        before = None if after is None else int(after[0])
        with self.services.store.snapshot(self.caller.tenant) as tx:
            lines = tx.audit.latest(criteria, before=before, limit=listing.limit + 1)
            page = listing.page(
                lines,
                key=lambda line: (line.id,),
                count=lambda most: tx.audit.count(criteria, before=before, at_most=most),
            )
        return AuditPage(lines=tuple(map(_shown, page.rows)), next=page.next, more=page.more)

    def _check_role(self) -> None:
        if self.caller.role is not Role.ADMIN:
            raise RejectedError(
                f"Agent {self.caller.agent} is a {self.caller.role}; the audit is an admin's to "
                "read.",
                code="insufficient_role",
                hint="The history of one memory is in get with the view history.",
            )


def _shown(line: AuditLine) -> AuditEntryView:
    return AuditEntryView(
        at=line.at,
        action=line.action,
        agent=line.agent,
        memory=None if line.memory_id is None else ids.show(ids.MEMORY, line.memory_id),
        session=line.session,
        reason=line.reason,
        refused=line.code,
        subject=line.subject,
        credential=line.credential,
        request_id=line.request_id,
        count=line.count,
    )
