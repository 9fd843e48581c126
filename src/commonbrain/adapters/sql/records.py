"""The shelf of what happened: audit, outbox, replies, and how a recall trace is written."""

import hashlib
import hmac
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import bindparam, delete, select

from commonbrain.adapters.sql.tables import audit, idempotency, outbox, tenants
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.query import Candidate, LeftOut, Trace
from commonbrain.domain.times import to_millis
from commonbrain.ports.records import AuditEntry, Reply

_AUDIT_KEY: Final = select(tenants.c.audit_key).where(tenants.c.id == bindparam("tenant"))
_REPLY: Final = select(*(idempotency.c[field.name] for field in fields(Reply))).where(
    idempotency.c.tenant_id == bindparam("tenant"),
    idempotency.c.agent == bindparam("agent"),
    idempotency.c.key == bindparam("key"),
)
_DROP_REPLIES: Final = delete(idempotency).where(
    idempotency.c.tenant_id == bindparam("tenant"), idempotency.c.at < bindparam("before")
)
_CONSIDERED_MAX: Final = 100
"""Candidates kept of one trace, best first: as many as two full arms bring."""


@dataclass(frozen=True, slots=True)
class RecordShelf:
    """Records of one tenant in one transaction."""

    work: Work

    def audit(self, entry: AuditEntry) -> None:
        """Append one line, with a keyed digest in place of the content."""
        given = {"tenant": self.work.tenant}
        key = self.work.connection.execute(_AUDIT_KEY, given).scalar_one()
        values = {
            "at": entry.at,
            "action": entry.action,
            "memory_id": entry.memory_id,
            "agent": entry.agent,
            "session": entry.session,
            "reason": entry.reason,
            "content_hmac": hmac.digest(key, entry.content.encode(), hashlib.sha256),
        }
        self.work.append(audit, values, at=entry.at)

    def publish(self, topic: str, memory_id: int, *, at: datetime) -> None:
        """Put an event into the outbox."""
        self.work.append(outbox, {"topic": topic, "memory_id": memory_id, "at": at}, at=at)

    def reply(self, agent: str, key: str) -> Reply | None:
        """Find what a call of this agent with this idempotency key was answered."""
        given = {"tenant": self.work.tenant, "agent": agent, "key": key}
        row = self.work.connection.execute(_REPLY, given).mappings().first()
        if row is None:
            return None
        known = Reply(**row)
        return replace(known, memory_ids=tuple(known.memory_ids))

    def drop_replies(self, *, before: datetime) -> None:
        """Drop every answer that was kept before a moment."""
        given = {"tenant": self.work.tenant, "before": before}
        self.work.connection.execute(_DROP_REPLIES, given)

    def keep_reply(self, reply: Reply) -> None:
        """Keep an answer under its idempotency key."""
        row = asdict(reply) | {"memory_ids": list(reply.memory_ids)}
        self.work.add(idempotency, {"tenant_id": self.work.tenant, **row})


def trace_row(trace: Trace) -> list[Any]:
    """Give a trace as JSON values, in the order of its columns after the tenant."""
    return [
        trace.id,
        to_millis(trace.asked_at),
        trace.caller.agent,
        trace.caller.session,
        trace.query,
        trace.verdict,
        [
            _considered(one, trace.left_out.get(one.memory.id))
            for one in trace.considered[:_CONSIDERED_MAX]
        ],
        list(trace.packed),
        list(trace.degraded),
        dict(trace.stages_ms),
    ]


def _considered(candidate: Candidate, left_out: LeftOut | None) -> dict[str, Any]:
    features = {name: round(value, 4) for name, value in candidate.features.items()}
    return {
        "id": candidate.memory.id,
        "score": round(candidate.score, 4),
        "features": features,
        "left_out": left_out,
    }
