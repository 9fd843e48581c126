"""The tables of memories, the same on every engine.

Every primary and foreign key begins with the tenant, except in the reference tables `tenants` and
`spaces`. Instants are whole milliseconds since 1970 in UTC; words of closed sets are text that
`EnumText` checks when it is written. Full text is not here: each engine has its own.
"""

from collections import abc
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import SchemaItem

from commonbrain.embeddings.interface import SpaceState
from commonbrain.model.kind_columns import KindColumn, columns_of
from commonbrain.model.kinds import KINDS, CausalField, Kind
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.messages import ThreadStatus
from commonbrain.model.revision import Action
from commonbrain.model.scope import Authority, Scope, Trust
from commonbrain.model.support import InvalidationReason
from commonbrain.storage.schema.types import (
    METADATA,
    EnumText,
    Instant,
    Names,
    authority_column,
    fraction,
    only,
    tenant_table,
)

OURS: Final = frozenset({"alembic_version", "memories", "spaces", "tenants"})
"""Tables that every version of a store has."""


class EntityType(StrEnum):
    """The type of a name in a text."""

    TAG = "tag"
    PERSON = "person"
    TOPIC = "topic"
    REFERENCE = "reference"


tenants = Table(
    "tenants",
    METADATA,
    Column("id", String(128), primary_key=True),
    Column("created_at", Instant, nullable=False),
    Column("audit_key", LargeBinary, nullable=False),
    Column("policy", JSON, nullable=False, server_default=text("'{}'")),
    Column("suspended_at", Instant),
)
spaces = Table(
    "spaces",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", String(128), nullable=False, unique=True),
    Column("dimensions", Integer, nullable=False),
    Column(
        "state",
        EnumText(SpaceState),
        nullable=False,
        server_default=text(f"'{SpaceState.CURRENT}'"),
    ),
    # One space serves; a switch writes the index again, see `Dialect.mark_switch`.
    Index("uq_spaces_current", "state", unique=True, **only("state = 'current'")),
)

memories = tenant_table(
    "memories",
    Column("id", BigInteger, primary_key=True),
    Column("kind", EnumText(Kind), nullable=False),
    Column("label", String(128)),
    Column("headline", String(120), nullable=False),
    Column("state", EnumText(State), nullable=False),
    Column("scope", EnumText(Scope), nullable=False),
    Column("project", String(128)),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("trust", EnumText(Trust), nullable=False),
    authority_column(Authority.MODEL),
    Column("confidence", Float, nullable=False),
    Column("salience", Float, nullable=False),
    Column("rating", Integer, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("source_ref", String(512)),
    Column("source_message_id", BigInteger),
    Column("auto_captured", Boolean, nullable=False),
    Column("semantic_hash", String(32), nullable=False),
    Column("recorded_at", Instant, nullable=False),
    Column("occurred_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("access_count", Integer, nullable=False),
    Column("last_access_at", Instant),
    Column("believed_since", Instant),
    Column("superseded_at", Instant),
    Column("superseded_by", BigInteger),
    Column("superseded_count", Integer, nullable=False),
    Column("payload", JSON, nullable=False),
    # Derived from the text, see `repositories.memory_rows`; rows of programs before 0023 have none.
    Column("reading", Text),
    # Lets a detail row name the kind with the key, so that it can only belong to its own kind.
    UniqueConstraint("tenant_id", "id", "kind"),
    ForeignKeyConstraint(["tenant_id", "superseded_by"], ["memories.tenant_id", "memories.id"]),
    ForeignKeyConstraint(["tenant_id", "source_message_id"], ["memories.tenant_id", "memories.id"]),
    fraction("confidence"),
    fraction("salience"),
    CheckConstraint("(superseded_by IS NULL) = (superseded_at IS NULL)", name="superseded"),
    Index(None, "tenant_id", "kind", "semantic_hash", "source_ref"),
    Index(None, "tenant_id", "occurred_at"),
    Index(None, "tenant_id", "project", "kind", "state"),
    # One head per chain: no two memories are replaced by the same one.
    Index(None, "tenant_id", "superseded_by", unique=True),
    Index("ix_memories_session", "tenant_id", "session", "id", **only("session IS NOT NULL")),
    # Has the columns by which lists of memories are filtered and counted, so that counting them
    # reads no rows; grouped by the first ones, nothing is sorted. The condition always holds: only
    # lists state it, because SQLite would use the index for recall too, which takes four times as
    # long.
    Index(
        "ix_memories_listed",
        *("tenant_id", "project", "kind", "state", "label", "agent", "scope", "trust", "pinned"),
        *("expires_at", "occurred_at", "recorded_at", "id"),
        **only("scope <> ''"),
    ),
    # SQLite uses these only for a query that states the condition in these words, see `indexed`.
    Index(
        "ix_memories_awaiting",
        *("tenant_id", "occurred_at", "id"),
        **only("state IN ('candidate', 'quarantined')"),
    ),
    Index("ix_memories_rules", "tenant_id", "occurred_at", "id", **only("kind = 'rule'")),
    Index("ix_memories_pinned", "tenant_id", "id", **only("pinned")),
    Index("ix_memories_source", "tenant_id", "source_ref", **only("source_ref IS NOT NULL")),
)

# Tags, and the people, topics and references that rules find in the text. The person at position 0
# is the speaker.
entities = tenant_table(
    "entities",
    Column("memory_id", BigInteger, primary_key=True),
    Column("type", EnumText(EntityType), primary_key=True),
    Column("name", String(128), primary_key=True),
    Column("position", SmallInteger, nullable=False),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "type", "name"),
    Index("ix_entities_tags", "tenant_id", "name", "memory_id", **only("type = 'tag'")),
)

threads = tenant_table(
    "threads",
    Column("id", BigInteger, primary_key=True),
    Column("key", String(512), nullable=False),
    Column("subject", String(512), nullable=False),
    Column("project", String(128)),
    Column("created_at", Instant, nullable=False),
    # Its newest message, stored here so that listing threads reads no messages.
    Column("last_id", BigInteger),
    # Programs before 0016 leave these out: such a thread is open.
    Column("agent", String(128)),
    Column("status", EnumText(ThreadStatus)),
    Column("tags", Names),
    UniqueConstraint("tenant_id", "key"),
    Index("ix_threads_last", "tenant_id", "last_id"),
)


_TYPES: Final[Mapping[type, Any]] = {
    bool: Boolean,
    int: BigInteger,
    float: Float,
    str: Text,
    datetime: Instant,
    tuple: Names,
    abc.Mapping: JSON(none_as_null=True),
}
_COUNT: Final = "recurrences"
"""A small number, where others are ids and seconds."""


def _column_of(column: KindColumn) -> Column[Any]:
    """Make the column of a table; it may be NULL if the default is None."""
    if issubclass(column.value_type, StrEnum):
        type_: Any = EnumText(column.value_type)
    elif column.is_agent:
        type_ = String(128)
    else:
        type_ = Integer if column.name == _COUNT else _TYPES[column.value_type]
    return Column(column.name, type_, nullable=column.default is None)


def _detail(kind: Kind, *constraints: SchemaItem) -> Table:
    """Make a kind's detail table: the body, the kind's own columns, tied to rows of that kind."""
    return tenant_table(
        f"{kind}s",
        Column("memory_id", BigInteger, primary_key=True),
        Column("kind", EnumText(Kind), nullable=False, default=kind),
        Column("body", Text, nullable=False),
        *map(_column_of, columns_of(kind)),
        *constraints,
        ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
        ),
        CheckConstraint(f"kind = '{kind}'", name="kind"),
    )


_CONSTRAINTS: Final[Mapping[Kind, tuple[SchemaItem, ...]]] = {
    Kind.RULE: (
        Index("ix_rules_must_ack", "tenant_id", "memory_id", **only("must_ack")),
        # Few rules have a trigger, and every recall looks them up.
        Index("ix_rules_skill", "tenant_id", "memory_id", **only("skill IS NOT NULL")),
    ),
    Kind.FACT: (CheckConstraint("ttl_s > 0", name="ttl_s"),),
    Kind.TASK: (
        Index("ix_tasks_given", "tenant_id", "memory_id", **only("assignee IS NOT NULL")),
        Index("ix_tasks_must_ack", "tenant_id", "memory_id", **only("must_ack")),
        # Every boot and write looks up unfinished tasks, among many that are done.
        Index("ix_tasks_owed", "tenant_id", "memory_id", **only("status IN ('open', 'blocked')")),
    ),
    Kind.EVENT: (
        fraction("importance"),
        CheckConstraint("recurrences >= 0", name="recurrences"),
    ),
    Kind.EPISODE: (CheckConstraint("ended_at >= started_at", name="span"),),
    Kind.MESSAGE: (
        ForeignKeyConstraint(["tenant_id", "thread_id"], ["threads.tenant_id", "threads.id"]),
        ForeignKeyConstraint(["tenant_id", "parent_id"], ["memories.tenant_id", "memories.id"]),
        Index("ix_messages_thread", "tenant_id", "thread_id", "memory_id"),
    ),
}
# The detail table of each kind; its columns beside the body are the fields of the kind's detail.
DETAILS: Final[Mapping[Kind, Table]] = {
    kind: _detail(kind, *_CONSTRAINTS.get(kind, ())) for kind in KINDS
}

# A vector that was dropped stays as a row without its value under a new `seq`, so that readers
# which keep vectors in memory learn of it the way they learn of new ones.
vectors = tenant_table(
    "vectors",
    Column("memory_id", BigInteger, primary_key=True),
    Column("space_id", Integer, ForeignKey("spaces.id"), primary_key=True),
    Column("part", SmallInteger, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("vector", LargeBinary),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "space_id", "seq"),
    Index(
        "ix_vectors_dropped",
        *("tenant_id", "space_id", "memory_id"),
        **only("vector IS NULL"),
    ),
)

links = tenant_table(
    "links",
    Column("from_id", BigInteger, primary_key=True),
    Column("to_id", BigInteger, primary_key=True),
    Column("type", EnumText(LinkType), primary_key=True),
    Column("strength", Float, nullable=False),
    Column("observations", Integer, nullable=False),
    Column("basis", Text),
    Column("agent", String(128), nullable=False),
    Column("trust", EnumText(Trust), nullable=False),
    authority_column(Authority.MODEL),
    Column("created_at", Instant, nullable=False),
    Column("observed_at", Instant, nullable=False),
    ForeignKeyConstraint(["tenant_id", "from_id"], ["memories.tenant_id", "memories.id"]),
    ForeignKeyConstraint(["tenant_id", "to_id"], ["memories.tenant_id", "memories.id"]),
    # Covers all columns that a walk reads; otherwise SQLite uses the primary key for every step.
    Index(None, "tenant_id", "to_id", "type", "from_id"),
    fraction("strength"),
    CheckConstraint("from_id <> to_id", name="ends"),
    CheckConstraint("observations >= 1", name="observations"),
)

annotations = tenant_table(
    "annotations",
    Column("id", BigInteger, primary_key=True),
    Column("memory_id", BigInteger, nullable=False),
    Column("text", Text, nullable=False),
    Column("agent", String(128), nullable=False),
    Column("trust", EnumText(Trust), nullable=False),
    authority_column(Authority.MODEL),
    Column("at", Instant, nullable=False),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "memory_id"),
)

# Before-images: the changed fields before and after a change and, if it ended a belief, the period
# of that belief.
changes = tenant_table(
    "changes",
    Column("id", BigInteger, primary_key=True),
    Column("memory_id", BigInteger, nullable=False),
    Column("action", EnumText(Action), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    authority_column(Authority.PERSON),
    Column("reason", Text),
    Column("at", Instant, nullable=False),
    Column("before", JSON, nullable=False),
    Column("after", JSON, nullable=False),
    Column("believed_since", Instant),
    Column("believed_until", Instant),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "at"),
    Index(None, "tenant_id", "memory_id"),
    CheckConstraint("(believed_since IS NULL) = (believed_until IS NULL)", name="believed"),
)

# Replies to calls with an idempotency key, so that a repeated call gets the same reply.
idempotency = tenant_table(
    "idempotency",
    Column("agent", String(128), primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("body", JSON, nullable=False),
    Column("memory_ids", JSON, nullable=False),
    Column("at", Instant, nullable=False),
)

audit = tenant_table(
    "audit",
    Column("id", BigInteger, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("action", String(24), nullable=False),
    # No foreign key: the line outlives an erased memory.
    Column("memory_id", BigInteger, nullable=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("reason", Text),
    Column("content_hmac", LargeBinary, nullable=False),
    Column("request_id", String(128)),
    Index(None, "tenant_id", "memory_id"),
    # Of a long audit, the lines of one agent or request are few.
    Index("ix_audit_agent", "tenant_id", "agent", "id"),
    Index("ix_audit_request", "tenant_id", "request_id", **only("request_id IS NOT NULL")),
)

outbox = tenant_table(
    "outbox",
    Column("id", BigInteger, primary_key=True),
    Column("topic", String(64), nullable=False),
    Column("memory_id", BigInteger, nullable=False),
    Column("at", Instant, nullable=False),
)


reviews = tenant_table(
    "reviews",
    Column("memory_id", BigInteger, primary_key=True),
    Column("cause_id", BigInteger, primary_key=True),
    Column("fall", EnumText(InvalidationReason), nullable=False),
    Column("via_id", BigInteger, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("earlier", EnumText(State)),
    Column("settled_at", Instant),
    Column("settled_by", String(128)),
    Column("reason", Text),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    ForeignKeyConstraint(["tenant_id", "cause_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "cause_id", "depth"),
)

# Memories whose invalidation, or return, has yet to be propagated: at once, or when they expire. A
# row is deleted in the transaction that finishes it, so that a crash loses none.
falls = tenant_table(
    "falls",
    Column("memory_id", BigInteger, primary_key=True),
    Column("due_at", Instant, nullable=False),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "due_at"),
)


field_vectors = tenant_table(
    "field_vectors",
    Column("memory_id", BigInteger, primary_key=True),
    Column("space_id", Integer, ForeignKey("spaces.id"), primary_key=True),
    Column("field", EnumText(CausalField), primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("vector", LargeBinary),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "space_id", "field", "seq"),
)
