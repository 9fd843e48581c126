"""Erasure: removes the text of one memory from every table that may hold it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import Row, String, Table, bindparam, cast, delete, null, or_, select, update

from commonbrain.model.ids import make_id
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import ERASED, State
from commonbrain.model.revision import Action
from commonbrain.storage.schema.activity import acks, feedback, recall_traces, receipts
from commonbrain.storage.schema.memories import (
    DETAILS,
    annotations,
    audit,
    changes,
    entities,
    falls,
    field_vectors,
    idempotency,
    links,
    memories,
    reviews,
    threads,
    vectors,
)
from commonbrain.storage.sql.context import SqlContext

_TRACES_AT_ONCE: Final = 200
"""Recalls whose candidates are held in memory together."""
_CALL_AT_MOST: Final = timedelta(minutes=1)
"""Ids of the lines of one call begin with its time, or follow that of a line written before it."""
_IMAGES: Final = (changes.c.before, changes.c.after)
_REWRITE: Final = (
    update(recall_traces)
    .where(
        recall_traces.c.tenant_id == bindparam("tenant"),
        recall_traces.c.id == bindparam("trace"),
    )
    .values(query="", considered=bindparam("without"), packed=bindparam("rest"))
)


def erase_text(work: SqlContext, memory_id: int, *, kind: Kind) -> Mapping[str, int]:
    """Empty or delete every row that holds text of a memory; return the rows by place.

    The row of the memory stays, forgotten and without text, because others may reference its id.
    A reason goes from every record of its call, whichever memory the record is of; the audit keeps
    the reasons of erases only.
    """
    return {
        "memories": _empty_row(work, memory_id),
        DETAILS[kind].name: _empty_detail(work, memory_id, kind=kind),
        "threads": _empty_thread(work, memory_id),
        "entities": _delete(work, memory_id, table=entities),
        "annotations": _delete(work, memory_id, table=annotations),
        # One end after the other, since for "from or to" SQLite reads every link of the tenant.
        "links": sum(
            _delete(work, memory_id, table=links, column=end) for end in ("from_id", "to_id")
        ),
        "audit": _empty_reasons(work, memory_id),
        "changes": _empty_changes(work, memory_id),
        "vectors": _empty_vectors(work, memory_id, table=vectors),
        "field_vectors": _empty_vectors(work, memory_id, table=field_vectors),
        "recall_traces": _empty_traces(work, memory_id),
        "feedback": _delete(work, memory_id, table=feedback),
        "idempotency": _delete_replies(work, memory_id),
        "acks": _delete(work, memory_id, table=acks),
        # Reviews that it caused stay: they hold only its id.
        "reviews": _delete(work, memory_id, table=reviews),
        "falls": _delete(work, memory_id, table=falls),
        "receipts": _delete(work, memory_id, table=receipts, column="message_id"),
    }


def _empty_row(work: SqlContext, memory_id: int) -> int:
    emptied: dict[str, Any] = {
        "state": State.FORGOTTEN,
        "headline": ERASED,
        "label": None,
        "project": None,
        "source_ref": None,
        "semantic_hash": "",
        "payload": {},
        "reading": None,
    }
    here = work.here(memories, id=memory_id)
    return work.connection.execute(update(memories).where(here).values(**emptied)).rowcount


def _empty_detail(work: SqlContext, memory_id: int, *, kind: Kind) -> int:
    table, policy = DETAILS[kind], KINDS[kind]
    blank = policy.detail()
    # A message keeps its place in its thread, which would otherwise begin with the next one.
    emptied = {name: getattr(blank, name) for name in policy.columns if name != "thread_id"}
    statement = update(table).where(work.here(table, memory_id=memory_id))
    return work.connection.execute(statement.values(body="", **emptied)).rowcount


def _empty_thread(work: SqlContext, memory_id: int) -> int:
    """Empty the subject and tags of the thread that a message began."""
    messages = DETAILS[Kind.MESSAGE]
    own, earlier = messages.alias(), messages.alias()
    begun = (
        select(own.c.thread_id)
        .where(own.c.tenant_id == work.tenant, own.c.memory_id == memory_id)
        .scalar_subquery()
    )
    is_older = (
        select(1)
        .where(earlier.c.tenant_id == work.tenant, earlier.c.thread_id == threads.c.id)
        .where(earlier.c.memory_id < memory_id)
        .correlate(threads)
        .exists()
    )
    here = threads.c.tenant_id == work.tenant, threads.c.id == begun, ~is_older
    statement = update(threads).where(*here).values(subject=ERASED, tags=())
    return work.connection.execute(statement).rowcount


def _delete(work: SqlContext, memory_id: int, *, table: Table, column: str = "memory_id") -> int:
    here = work.here(table, table.c[column] == memory_id)
    return work.connection.execute(delete(table).where(here)).rowcount


def _empty_changes(work: SqlContext, memory_id: int) -> int:
    here = work.here(changes, memory_id=memory_id)
    emptied: dict[str, Any] = {"before": {}, "after": {}, "reason": None}
    return work.connection.execute(update(changes).where(here).values(**emptied)).rowcount


def _empty_reasons(work: SqlContext, memory_id: int) -> int:
    """Empty the reasons of calls that changed a memory or reviewed what depends on it."""
    is_reason = audit.c.action != Action.ERASE, audit.c.reason.is_not(None)
    about = work.here(audit, *is_reason, memory_id=memory_id)
    caused = work.here(reviews, cause_id=memory_id)
    decided = (caused, reviews.c.reason.is_not(None), reviews.c.settled_at.is_not(None))
    run = work.connection.execute
    calls = [
        *run(select(audit.c.at, audit.c.reason).where(about).distinct()).all(),
        *run(select(reviews.c.settled_at, reviews.c.reason).where(*decided).distinct()).all(),
    ]
    emptied = run(update(audit).where(about).values(reason=None)).rowcount
    for at, reason in calls:
        # Ids begin with the time, and the primary key finds them.
        near = audit.c.id.between(make_id(at, 0), make_id(at + _CALL_AT_MOST, 0))
        for table, *more in ((audit, near), (changes,)):
            here = work.here(table, table.c.action != Action.ERASE, *more, at=at, reason=reason)
            emptied += run(update(table).where(here).values(reason=None)).rowcount
    _empty_review_images(work, memory_id)
    # These reviews stay with its id alone.
    run(update(reviews).where(caused).values(reason=None))
    return emptied


def _empty_review_images(work: SqlContext, memory_id: int) -> None:
    """Empty the reasons in before-images of reviews that a memory caused."""
    dependents = select(reviews.c.memory_id).where(work.here(reviews, cause_id=memory_id))
    own = changes.c.tenant_id == work.tenant
    rows = work.connection.execute(
        select(changes.c.id, changes.c.before, changes.c.after).where(
            own,
            changes.c.memory_id.in_(dependents),
            or_(*(cast(one, String).like(f"%{memory_id}%") for one in _IMAGES)),
        )
    ).all()
    for id_, *images in rows:
        emptied = [
            {**image, "review": {**image["review"], "reason": None}} if "review" in image else image
            for image in images
        ]
        here = update(changes).where(own, changes.c.id == id_)
        values = dict(zip(("before", "after"), emptied, strict=True))
        work.connection.execute(here.values(**values))


def _empty_vectors(work: SqlContext, memory_id: int, *, table: Table) -> int:
    """Count what `index.drop` has emptied already: a vector reveals what its text was about."""
    here = work.here(table, memory_id=memory_id)
    return work.connection.execute(update(table).where(here).values(vector=null())).rowcount


def _empty_traces(work: SqlContext, memory_id: int) -> int:
    """Remove a memory from every recall that considered it, and blank the query.

    The query may repeat its text, whichever memory answered it.
    """
    table = recall_traces.c
    # An id has 19 digits, so that no other number of a trace holds it by accident.
    name = f"%{memory_id}%"
    names_it = or_(*(cast(one, String).like(name) for one in (table.considered, table.packed)))
    here = table.tenant_id == work.tenant
    naming = work.connection.execute(select(table.id).where(here, names_it)).scalars().all()
    for at in range(0, len(naming), _TRACES_AT_ONCE):
        some = naming[at : at + _TRACES_AT_ONCE]
        question = select(table.id, table.considered, table.packed).where(here, table.id.in_(some))
        rows = [_without(row, memory_id) for row in work.connection.execute(question).all()]
        work.connection.execute(_REWRITE, [{"tenant": work.tenant, **row} for row in rows])
    return len(naming)


def _without(row: Row[int, Any, Any], memory_id: int) -> dict[str, Any]:
    return {
        "trace": row.id,
        "without": [one for one in row.considered if one["id"] != memory_id],
        "rest": [one for one in row.packed if one != memory_id],
    }


def _delete_replies(work: SqlContext, memory_id: int) -> int:
    names_it = cast(idempotency.c.memory_ids, String).like(f"%{memory_id}%")
    here = work.here(idempotency, names_it)
    return work.connection.execute(delete(idempotency).where(here)).rowcount
