"""Roles in Postgres: the owner migrates, the program sees one tenant at a time.

Row-level security restricts the program's role, whatever a statement omits. It does not apply to
superusers, owners of the tables or roles with BYPASSRLS, so these may not open a store.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from commonbrain.model.errors import RejectedError
from commonbrain_server.postgres.schema import SEARCH

# ruff: noqa: S608 identifiers are quoted by Postgres itself
UPGRADE: Final = "An owner of the database runs `brain store upgrade --grant ROLE`."
_OWN: Final = "nullif(current_setting(''commonbrain.tenant'', true), '''')"
# Every table with a tenant, partitions included; `tenants` has its own id.
CONFINE: Final = f"""
DO $$
DECLARE one record;
BEGIN
    FOR one IN
        SELECT c.oid::regclass AS name, a.attname AS owner FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
        AND a.attname = CASE c.relname WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END
        AND NOT EXISTS (SELECT 1 FROM pg_policy p WHERE p.polrelid = c.oid)
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', one.name);
        EXECUTE format('CREATE POLICY own_tenant ON %s USING (%I = {_OWN}) '
            'WITH CHECK (%I = {_OWN})', one.name, one.owner, one.owner);
    END LOOP;
END $$
"""
_TENANTS: Final = """
CREATE OR REPLACE FUNCTION every_tenant() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, {schema}, pg_temp
AS $$ SELECT id FROM tenants ORDER BY id $$
"""
_PARENTS: Final = text(
    "SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace "
    "AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY 1"
)
_READ_ONLY: Final = frozenset({"alembic_version"})
_APPENDED: Final = frozenset({"access_audit", "audit"})
"""Append-only tables."""
_LASTING: Final = {"tenants": "UPDATE", "spaces": "UPDATE (name, state)"}
"""Tables without deletes, and the columns that may be updated."""
FUNCTIONS: Final = (
    "words_found(text[], integer, float8[], text, float8, float8, bigint, integer, bigint)",
    "every_tenant()",
)
_MISSING: Final = text(
    "SELECT one FROM unnest(CAST(:functions AS text[])) AS one WHERE to_regprocedure(one) IS NULL"
)
_GRANTED: Final = text(
    "SELECT DISTINCT r.rolname FROM pg_class c, aclexplode(c.relacl) a JOIN pg_roles r "
    "ON r.oid = a.grantee WHERE c.oid = to_regclass('memories') AND a.privilege_type = 'INSERT' "
    "AND a.grantee <> c.relowner"
)
_ROLE: Final = text(
    "SELECT r.rolname, r.rolsuper, r.rolbypassrls, EXISTS (SELECT 1 FROM pg_class c "
    "WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') "
    "AND pg_has_role(r.oid, c.relowner, 'MEMBER')) AS owns "
    "FROM pg_roles r WHERE r.rolname = current_user"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRole:
    """The connected role, and why row-level security may not apply to it."""

    name: str
    is_superuser: bool
    bypasses: bool
    owns: bool

    @property
    def is_confined(self) -> bool:
        """Whether row-level security applies to it."""
        return not (self.is_superuser or self.bypasses or self.owns)

    @property
    def why_not(self) -> str:
        """Return why no program should use this role."""
        if self.is_superuser:
            return "is a superuser"
        return "has BYPASSRLS" if self.bypasses else "owns the tables"


def role_of(connection: Connection) -> DatabaseRole:
    """Return the connected role."""
    name, is_superuser, bypasses, owns = connection.execute(_ROLE).one()
    return DatabaseRole(name=name, is_superuser=is_superuser, bypasses=bypasses, owns=owns)


def missing_functions(connection: Connection) -> list[str]:
    """List functions that the program calls and the database lacks, because it was not upgraded."""
    return list(connection.execute(_MISSING, {"functions": list(FUNCTIONS)}).scalars())


def unconfined(location: str, role: DatabaseRole) -> RejectedError:
    """Return the error for a database that was not opened under this role."""
    return RejectedError(
        f"{location} was opened as {role.name}, which {role.why_not}: row-level security does not "
        "hold for it, and every tenant would be open to a mistake.",
        code="role_unconfined",
        hint=f"Open it as a login role without rights of its own. {UPGRADE}",
    )


def confine(connection: Connection) -> None:
    """Put every table of tenants under row-level security, and recreate the functions."""
    schema = _quoted(connection, "current_schema()")
    for statement in (CONFINE, *SEARCH, _TENANTS):
        # As it is: a percent sign in it is not a parameter.
        as_it_is = {"no_parameters": True}
        written = statement.replace("{schema}", schema)
        connection.exec_driver_sql(written, execution_options=as_it_is)
    for function in FUNCTIONS:
        connection.exec_driver_sql(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC")


def grant(connection: Connection, role: str) -> None:
    """Let a role use the store: rows of one tenant at a time, and no schema changes."""
    run = connection.exec_driver_sql
    to = _quoted(connection, "CAST(:value AS text)", value=role)
    schema = _quoted(connection, "current_schema()")
    run(f"GRANT USAGE ON SCHEMA {schema} TO {to}")
    for table in connection.execute(_PARENTS).scalars().all():
        name = _quoted(connection, "CAST(:value AS text)", value=table)
        run(f"GRANT {_rights(table)} ON {name} TO {to}")
    run(f"GRANT USAGE ON SEQUENCE spaces_id_seq TO {to}")
    for function in FUNCTIONS:
        run(f"GRANT EXECUTE ON FUNCTION {function} TO {to}")


def granting(connection: Connection, tables: Sequence[str]) -> list[str]:
    """Return the statements that let the roles of the store use these tables."""
    quoted = text("SELECT quote_ident(:role)")
    roles = [connection.execute(quoted, {"role": one}).scalar_one() for one in granted(connection)]
    return [f"GRANT {_rights(table)} ON {table} TO {role}" for table in tables for role in roles]


def granted(connection: Connection) -> list[str]:
    """List the roles that may open the store."""
    return list(connection.execute(_GRANTED).scalars())


def _rights(table: str) -> str:
    if table in _READ_ONLY:
        return "SELECT"
    if table in _APPENDED:
        # An erase empties reasons; the trigger rejects every other change.
        return "SELECT, INSERT, UPDATE (reason)" if table == "audit" else "SELECT, INSERT"
    return f"SELECT, INSERT, {_LASTING.get(table, 'UPDATE, DELETE')}"


def _quoted(connection: Connection, what: str, *, value: str = "") -> str:
    """Let Postgres quote a name."""
    statement = text(f"SELECT quote_ident({what})")
    return connection.execute(statement, {"value": value} if value else {}).scalar_one()
