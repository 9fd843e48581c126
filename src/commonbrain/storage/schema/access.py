"""The tables of access: agents, their keys, and what was refused or decided about them."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
)

from commonbrain.model.scope import Role
from commonbrain.model.trust import Trust
from commonbrain.storage.schema.types import METADATA, EnumText, Instant, Names, tenant

agents = Table(
    "agents",
    METADATA,
    tenant(),
    Column("name", String(128), nullable=False),
    Column("role", EnumText(Role), nullable=False),
    Column("trust_default", EnumText(Trust), nullable=False),
    Column("trust_ceiling", EnumText(Trust), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("disabled_at", Instant),
    PrimaryKeyConstraint("tenant_id", "name"),
)

api_keys = Table(
    "api_keys",
    METADATA,
    tenant(),
    Column("prefix", String(8), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("label", String(128)),
    Column("scopes", Names, nullable=False),
    Column("networks", Names, nullable=False),
    # Never the secret: an argon2id hash with its salt and parameters.
    Column("seal", String(255), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("last_used_at", Instant),
    PrimaryKeyConstraint("tenant_id", "prefix"),
    ForeignKeyConstraint(["tenant_id", "agent"], ["agents.tenant_id", "agents.name"]),
    Index(None, "tenant_id", "agent"),
)

# Apart from `audit`, whose every line is of a memory and has a digest of its content.
access_audit = Table(
    "access_audit",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("action", String(64), nullable=False),
    Column("code", String(64)),
    Column("agent", String(128)),
    Column("credential", String(160)),
    Column("request_id", String(128)),
    Column("subject", String(160)),
    Column("count", Integer, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
    CheckConstraint("count >= 1", name="count"),
)
