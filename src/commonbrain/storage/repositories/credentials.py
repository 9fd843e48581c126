"""Tenants and the audit of access."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, delete, select, update

from commonbrain.model import ids
from commonbrain.model.scope import Policy
from commonbrain.model.values import asdict, dataclass, fields
from commonbrain.storage.interface import AccessEntry, Tenant
from commonbrain.storage.schema.activity import access_audit, page_sessions
from commonbrain.storage.schema.memories import tenants
from commonbrain.storage.sql.context import SqlContext

_NOTED: Final = select(*(access_audit.c[one.name] for one in fields(AccessEntry)))
TENANTS: Final = select(
    tenants.c.id.label("name"), tenants.c.created_at, tenants.c.policy, tenants.c.suspended_at
)
_POLICY: Final = frozenset(one.name for one in fields(Policy))


def a_tenant(row: RowMapping) -> Tenant:
    """Read a tenant; policy fields of a newer program are ignored."""
    known = {name: value for name, value in row["policy"].items() if name in _POLICY}
    for name in ("retention", "parameters"):
        known[name] = tuple(known.get(name, ()))
    given: dict[str, Any] = {**row, "policy": Policy(**known)}
    return Tenant(**given)


@dataclass(slots=True)
class CredentialRepository:
    """The tenant and the access audit."""

    work: SqlContext
    _noted: set[str] | None = None
    """The threads that the access audit names, once one is asked for."""

    def tenant(self) -> Tenant | None:
        """Return the tenant; None if it does not exist."""
        rows = self.work.connection.execute(TENANTS.where(tenants.c.id == self.work.tenant))
        row = rows.mappings().first()
        return None if row is None else a_tenant(row)

    def set_policy(self, policy: Policy) -> None:
        """Replace the tenant's policy."""
        known = select(tenants.c.policy).where(tenants.c.id == self.work.tenant)
        before = self.work.connection.execute(known).scalar_one()
        self._change_tenant(policy={**before, **asdict(policy)})

    def suspend(self, at: datetime | None) -> None:
        """Suspend the tenant for all network transports, or lift the suspension with None."""
        self._change_tenant(suspended_at=at)

    def note(self, entry: AccessEntry, *, id_: int | None = None) -> None:
        """Append an entry to the access audit.

        Args:
            entry: what was denied or done.
            id_: its id, if it was generated when that happened; the next free one is taken.

        """
        self.work.append(access_audit, self.work.row_of(entry), at=entry.at, drawn=id_)
        if self._noted is not None:
            self._noted.add(entry.subject or "")

    def audit_entries(self, *, limit: int) -> list[AccessEntry]:
        """List entries of the access audit, newest first."""
        here = _NOTED.where(self.work.here(access_audit))
        ordered = here.order_by(access_audit.c.id.desc()).limit(limit)
        return [AccessEntry(**row) for row in self.work.connection.execute(ordered).mappings()]

    def is_noted(self, thread: str) -> bool:
        """Check whether the access audit, which a transaction reads once, names a thread."""
        if self._noted is None:
            subject = access_audit.c.subject
            here = self.work.here(access_audit, subject.startswith(ids.THREAD, autoescape=True))
            self._noted = set(self.work.scalars(select(subject).where(here), {}))
        return thread in self._noted

    def drop_ended_logins(self, *, now: datetime, limit: int) -> int:
        """Delete ended sessions of the web page; return the number deleted."""
        row = page_sessions.c
        old = select(row.digest).where(self.work.here(page_sessions, row.ends_at <= now))
        some = old.order_by(row.ends_at).limit(limit).scalar_subquery()
        here = self.work.here(page_sessions, row.digest.in_(some))
        return self.work.connection.execute(delete(page_sessions).where(here)).rowcount

    def _change_tenant(self, **values: Any) -> None:  # noqa: ANN401 columns are of any sort
        here = tenants.c.id == self.work.tenant
        self.work.connection.execute(update(tenants).where(here).values(**values))
