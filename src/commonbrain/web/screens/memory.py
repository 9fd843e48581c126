"""One memory: what holds, what held before, where it comes from, and what can be done with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from commonbrain.api.operations.audit import AUDIT, AuditRequest
from commonbrain.api.operations.get import GetRequest
from commonbrain.api.operations.recalls import RECALLS, RecallsRequest
from commonbrain.history.audit import AuditEntryView
from commonbrain.model.limits import IDS_PER_GET_MAX
from commonbrain.model.memory import full_text
from commonbrain.retrieval.get import MemoryView, View
from commonbrain.retrieval.log import RecallView
from commonbrain.web.reading import READ_GET, read_headlines, revision_ids
from commonbrain.web.screens.screen import Screen
from commonbrain.web.visit import Visit

_AUDIT_LINES: Final = 20
_RECALLS: Final = 5
_VIEWS: Final = [str(one) for one in View]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionRow:
    """One text of a memory's chain of revisions."""

    id: str
    text: str | None
    """None if it was forgotten."""
    memory: MemoryView


@dataclass(frozen=True, slots=True, kw_only=True)
class OneMemoryView:
    """A memory with everything that the store has about it."""

    memory: MemoryView
    text: str | None
    """The headline and body; None if it was forgotten."""
    revisions: tuple[RevisionRow, ...]
    """All texts of its chain of revisions, oldest first; only its own if it was never revised."""
    headlines: Mapping[str, str]
    """The headlines of the memories that it disagrees with, by id."""
    audit: tuple[AuditEntryView, ...]
    """The newest lines of the audit about it; empty unless the person is an admin."""
    recalls: tuple[RecallView, ...]
    """The latest recalls that returned it, of those that the person may read."""


def _load(visit: Visit) -> OneMemoryView:
    id_ = visit.path["id"]
    memory = visit.call(READ_GET, GetRequest.model_validate({"id": id_, "views": _VIEWS}))
    audit = ()
    if visit.can(AUDIT.role):
        audit = visit.call(AUDIT, AuditRequest(memory=id_, limit=_AUDIT_LINES)).lines
    request = RecallsRequest(memory=memory.id, limit=_RECALLS)
    return OneMemoryView(
        memory=memory,
        text=_text(memory),
        revisions=_revisions(visit, memory),
        headlines=read_headlines(visit, (id_ for one in memory.conflicts or () for id_ in one.ids)),
        audit=audit,
        recalls=visit.call(RECALLS, request).recalls,
    )


def _revisions(visit: Visit, memory: MemoryView) -> tuple[RevisionRow, ...]:
    chain = revision_ids(memory)[-IDS_PER_GET_MAX:]
    if not chain:
        return ()
    shown = visit.call(READ_GET, GetRequest(id=chain))
    return tuple(
        RevisionRow(id=one.id, text=_text(one), memory=one) for one in (shown, *shown.more)
    )


def _text(memory: MemoryView) -> str | None:
    return None if memory.body is None else full_text(memory.headline, memory.body)


MEMORY: Final = Screen(name="memory", path="/memory/{id}", title="Memory", load=_load)
