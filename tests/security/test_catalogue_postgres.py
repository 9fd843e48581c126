"""What Postgres says of who may do what: no table of tenants is left out, new or upgraded."""

from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa
from commonbrain_server.postgres.opening import upgrade_postgres
from commonbrain_server.postgres.schema import POSTGRES
from sqlalchemy import make_url

from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.storage.schema.types import METADATA
from commonbrain.storage.sql.schema_version import MIGRATIONS
from commonbrain.testing.builders import FakeClock
from tests.postgres import Database, Server
from tests.storage.store_steps import SPACE

pytestmark = pytest.mark.part("server")

APPENDED, LASTING = {"INSERT", "SELECT"}, {"INSERT", "SELECT", "UPDATE"}
RIGHTS = {
    "alembic_version": {"SELECT"},
    "access_audit": APPENDED,
    "audit": APPENDED,
    "tenants": LASTING,
    # Of its columns only some may be updated, which is no right to the table.
    "spaces": APPENDED,
}
"""What programs may do with a table where that is less than to read and write its rows."""
EVERY = LASTING | {"DELETE"}
POLICIES = """
SELECT c.relname, c.relrowsecurity, p.permissive, p.cmd, p.roles::text, p.qual = p.with_check,
    p.qual LIKE '((' || a.attname || ')::text = NULLIF(current_setting(''commonbrain.tenant''%'
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    AND a.attname = CASE c.relname WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END
LEFT JOIN pg_policies p ON p.tablename = c.relname AND p.schemaname = 'public'
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
"""
GRANTS = """
SELECT c.relname, array_remove(array_agg(a.privilege_type::text), NULL) FROM pg_class c
LEFT JOIN aclexplode(c.relacl) a ON a.grantee IN (0, %(program)s::regrole)
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
GROUP BY c.relname
"""
HELD = """
SELECT d.classid::regclass, d.objid FROM pg_shdepend d
WHERE d.refobjid = %(program)s::regrole AND d.deptype = 'o'
UNION ALL SELECT 'pg_auth_members'::regclass, m.roleid FROM pg_auth_members m
WHERE m.member = %(program)s::regrole
"""


def check_confined(database: Database) -> None:
    """Hold the catalogue to what programs may see and do."""
    program = {"program": make_url(database.program).username}
    with closing(psycopg.connect(database.owner)) as owner:
        policies = owner.execute(POLICIES).fetchall()
        rights = {name: set(held) for name, held in owner.execute(GRANTS, program).fetchall()}
        assert owner.execute(HELD, program).fetchall() == []
    known = {table.name for table in METADATA.sorted_tables}
    assert known >= {"recall_traces", "feedback", "models", "evaluations"}
    assert {name for name, *_ in policies} >= known - {"spaces"}
    confined = (True, "PERMISSIVE", "ALL", "{public}", True, True)
    assert [one for one in policies if one[1:] != confined] == []
    assert rights == {name: RIGHTS.get(name, EVERY) for name in rights}
    assert rights.keys() >= known


def test_each_table_of_tenants_has_a_policy_and_programs_own_nothing(
    database: Database,
) -> None:
    check_confined(database)


def test_upgrade_confines_and_grants_each_table_of_the_migrations(
    postgres: Server,
) -> None:
    with postgres.database(is_empty=True) as database:
        role = make_url(database.program).username
        assert role
        engine = sa.create_engine(make_url(database.owner).set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            MIGRATIONS.upgrade(connection, POSTGRES, version=None)
            # By this right an upgrade knows which role gets the others.
            connection.exec_driver_sql(f"GRANT INSERT ON memories TO {role}")
        engine.dispose()
        upgrade_postgres(
            database.owner, space=SPACE, clock=FakeClock(), lock_timeout_s=LOCK_TIMEOUT_S
        )

        check_confined(database)
        with closing(database.opened()) as store:
            assert [finding for finding in store.examine() if not finding.is_sound] == []
