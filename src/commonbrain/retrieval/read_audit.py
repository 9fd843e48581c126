"""The audit of reads, for tenants whose policy says that reads are audited."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from commonbrain.model.scope import Caller
from commonbrain.storage.interface import AuditEntry

if TYPE_CHECKING:
    from commonbrain.services import Services


def audit_read(
    services: Services, caller: Caller, *, action: str, texts: Mapping[int, str], at: datetime
) -> None:
    """Append a line for each memory that a caller is about to be shown, if the policy says so.

    It is written before the reply, so that nothing is read without a line.

    Raises:
        UnavailableError: it cannot be written; the reply must not be given.

    """
    if not texts or not services.policies.of(caller).are_reads_audited:
        return
    entry = AuditEntry(
        action=action,
        memory_id=0,
        agent=caller.agent,
        session=caller.session,
        reason=None,
        content="",
        at=at,
        request_id=caller.request_id,
    )
    with services.store.begin(caller.tenant) as tx:
        tx.records.audit_alike(entry, texts)
