"""Two layers keep tenants apart in Postgres: the filter of each statement, row-level security.

One at a time is taken away, in a database of the test's own, and the suite of leaks is held against
what is left. The probe finds each layer that is missing, even where another still holds.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import LiteralString, cast

import psycopg
import pytest
from psycopg import sql

from commonbrain.client import Brain
from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.storage.postgres.citus import session_settings
from commonbrain.storage.postgres.schema import SEARCH
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, a_brain, use_store_opener
from tests.postgres import Database, Server
from tests.security.attempts import drawn, mixed
from tests.security.doors import Tried, asking, tried
from tests.security.test_leaks import Holed
from tests.security.world import OURS, World, a_world, mark

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
class Kept:
    """A database with both tenants, and the brain of its owner."""

    database: Database
    owner: Brain
    path: Path

    def world(self, hole: str | None = None) -> World:
        """Fill it; the attacker's store may have a hole."""
        store = cast("Store", Holed(self.owner.services.store, hole)) if hole else None
        return a_world(self.owner, self.path, attackers=store)

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
        asked = {
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
                for layer, statements in asked.items()
                if any(program.execute(*one).fetchone() != (0,) for one in statements)
            }


_FIND = sql.SQL("SELECT count(*) FROM words_found(%s, %s, %s, NULL, 9, 5, NULL, 100, NULL)")


@pytest.fixture
def kept(postgres: Server, path: Path) -> Iterator[Kept]:
    with ExitStack() as stack:
        database = stack.enter_context(postgres.database())

        def opened(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:  # noqa: ARG001 one database
            return database.opened(space=space, clock=clock)

        stack.enter_context(use_store_opener(opened))
        owner = stack.enter_context(a_brain(path, clock=FakeClock()))
        yield Kept(database, owner, path)


def attacked(world: World, *, is_first_enough: bool = False) -> Tried:
    """Try a part of what the suite tries: every operation, and each way several times."""
    among = mixed(world) if is_first_enough else islice(drawn(world), 0, None, 7)
    return tried(world, asking(world.attacker), among=among, is_first_enough=is_first_enough)


@pytest.mark.requirement("DM-16")
def test_no_layer_is_missing(kept: Kept) -> None:
    kept.world()

    assert kept.missing() == set()


@pytest.mark.parametrize("layer", [SECURITY, FOUND])
def test_a_layer_that_is_missing_is_found_alone_while_the_filters_let_nothing_out(
    kept: Kept, layer: str
) -> None:
    world = kept.world()
    kept.take_away(layer)

    assert kept.missing() == {layer}
    found = attacked(world)
    # What a search of words finds too much of is joined back to rows under both layers.
    assert found.leaks == []
    assert found.answered


@pytest.mark.parametrize("hole", ["memories", "everything"])
@pytest.mark.requirement("ST-07")
def test_a_missing_filter_lets_nothing_out_under_row_level_security(kept: Kept, hole: str) -> None:
    found = attacked(kept.world(hole))

    assert found.leaks == []
    assert found.answered


@pytest.mark.parametrize("hole", ["memories", "sessions", "jobs", "everything"])
def test_a_missing_filter_is_found_where_row_level_security_is_off(kept: Kept, hole: str) -> None:
    world = kept.world(hole)
    kept.take_away(SECURITY)

    found = attacked(world, is_first_enough=True)

    assert found.leaks, f"{found.count} attempts found nothing"


def test_the_search_of_words_lets_nothing_out_where_it_alone_is_left_to_the_filters(
    kept: Kept,
) -> None:
    world = kept.world()
    for layer in (SECURITY, FOUND):
        kept.take_away(layer)

    assert attacked(world).leaks == []
