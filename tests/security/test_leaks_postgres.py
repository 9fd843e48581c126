"""Two layers separate tenants in Postgres: the filter of each statement, and row-level security.

One at a time is taken away, in a database of the test's own, and the suite of leaks is held against
what is left. The probe finds each layer that is missing, even where another still holds.
"""

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import LiteralString, cast

import psycopg
import pytest
from commonbrain_server.postgres.citus import session_settings
from commonbrain_server.postgres.schema import SEARCH
from psycopg import sql

from tests.postgres import Database
from tests.security.attempts import drawn, mixed
from tests.security.test_leaks import with_hole
from tests.security.transports import Tried, asking, tried
from tests.security.world import OURS, World, mark

pytestmark = pytest.mark.part("server")

_TABLES = (
    "SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
    "WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') "
    "AND NOT c.relispartition "
    "AND a.attname = CASE c.relname WHEN 'tenants' THEN 'id' ELSE 'tenant_id' END"
)
_FILTER, _FORGOTTEN = "'t.tenant_id = $1 AND ($2", "'$1 IS NOT NULL AND ($2"
"""How the functions of the full text keep to a tenant, and how they would not."""
_MARKS = [mark(number) for number in range(11, 17)]
"""Words that the other tenant alone has."""
SECURITY, FOUND = "row-level security", "words_found"


@dataclass(frozen=True, slots=True)
class Confined:
    """A database with both tenants."""

    world: World
    database: Database

    def run(self, *statements: sql.Composed | sql.SQL) -> None:
        """Change the database as its owner."""
        with closing(psycopg.connect(self.database.owner, autocommit=True)) as connection:
            for statement in statements:
                connection.execute(statement)

    def take_away(self, layer: str) -> None:
        """Plant a hole in the database."""
        if layer == SECURITY:
            off = sql.SQL("ALTER TABLE {} DISABLE ROW LEVEL SECURITY")
            self.run(*(off.format(sql.Identifier(table)) for table, _ in self.tables()))
            return
        [written] = [
            one for one in SEARCH if one.lstrip().startswith(f"CREATE OR REPLACE FUNCTION {layer}(")
        ]
        assert _FILTER in written
        open_ended = written.replace(_FILTER, _FORGOTTEN).replace("{schema}", "public")
        self.run(sql.SQL(cast("LiteralString", open_ended)))

    def tables(self) -> list[tuple[str, str]]:
        """List the tables of tenants, and which column says whose a row is."""
        with closing(psycopg.connect(self.database.owner)) as connection:
            return connection.execute(_TABLES).fetchall()

    def missing(self) -> set[str]:
        """Ask what no statement of ours asks, as a program of one tenant; name what lets it."""
        foreign = sql.SQL("SELECT count(*) FROM {} WHERE {} <> %s")
        queries = {
            SECURITY: [
                (foreign.format(sql.Identifier(table), sql.Identifier(column)), [OURS])
                for table, column in self.tables()
            ],
            FOUND: [(_FIND, [_MARKS, len(_MARKS), [1.0] * len(_MARKS)])],
        }
        with (
            closing(psycopg.connect(self.database.program, autocommit=True)) as program,
            program.transaction(),
        ):
            program.execute(sql.SQL("DO {}").format(sql.Literal(session_settings(OURS))))
            return {
                layer
                for layer, statements in queries.items()
                if any(program.execute(*one).fetchone() != (0,) for one in statements)
            }


_FIND = sql.SQL("SELECT count(*) FROM words_found(%s, %s, %s, NULL, 9, 5, NULL, 100, NULL)")


@pytest.fixture
def confined(world_database: tuple[World, Database]) -> Confined:
    return Confined(*world_database)


def attacked(world: World, *, is_first_enough: bool = False) -> Tried:
    """Try a part of what the suite tries: every operation, and each way several times."""
    among = mixed(world) if is_first_enough else islice(drawn(world), 0, None, 7)
    return tried(world, asking(world.attacker), among=among, is_first_enough=is_first_enough)


@pytest.mark.requirement("DM-16")
def test_filters_let_nothing_out_where_both_layers_are_missing(confined: Confined) -> None:
    assert confined.missing() == set()
    confined.take_away(SECURITY)
    assert confined.missing() == {SECURITY}
    confined.take_away(FOUND)
    assert confined.missing() == {SECURITY, FOUND}

    results = attacked(confined.world)

    # What a search of words finds too much of is joined back to rows under both layers.
    assert results.leaks == []
    assert results.answered


def test_missing_filter_of_the_word_search_is_found_under_row_level_security(
    confined: Confined,
) -> None:
    confined.take_away(FOUND)

    assert confined.missing() == {FOUND}


@pytest.mark.parametrize("hole", ["memories", "everything"])
@pytest.mark.requirement("ST-07")
def test_missing_filter_lets_nothing_out_under_row_level_security(
    confined: Confined, hole: str
) -> None:
    results = attacked(with_hole(confined.world, hole))

    assert results.leaks == []
    assert results.answered


@pytest.mark.parametrize("hole", ["memories", "sessions", "jobs", "everything"])
def test_missing_filter_is_found_where_row_level_security_is_off(
    confined: Confined, hole: str
) -> None:
    confined.take_away(SECURITY)

    results = attacked(with_hole(confined.world, hole), is_first_enough=True)

    assert results.leaks, f"{results.count} attempts results nothing"
