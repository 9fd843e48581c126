"""Copies of stores: every row of every tenant, to the other engine and back, or a refusal."""

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from commonbrain_server.copying import TABLES, Rows, comparable, copy_rows, plan_copy
from sqlalchemy import inspect, select, text

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError, StoreCorruptError
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.schema.memories import tenants
from commonbrain.storage.sqlite.engine import open_sqlite
from commonbrain.storage.store import Store
from commonbrain.testing.builders import FakeClock, a_brain, a_memory
from tests.asking import stored
from tests.laid_out_stores import lay_out_store
from tests.postgres import Database
from tests.security.world import a_world
from tests.storage.store_steps import SPACE, put

pytestmark = pytest.mark.of_a_file

DISK = "@atom the disk of the broker | ran full overnight | orders were lost | customers left us"
FARS = [0.02, 0.1, 0.3, 0.6, 0.9]
"""While rows are written, full text is made, or all is read again."""
LEFT_OUT = (
    "memory_text",
    "atom_text",
    "alembic_version",
    "tenants",
    "spaces",
    "page_sessions",
    "sqlite_",
)
"""Tables that are no rows of tenants or are written anew from them, and logins to the web page."""


class Interrupted(Exception):
    """The machine went down."""


@dataclass(slots=True)
class Once:
    """Does something when a copy has come so far."""

    far: float
    act: Callable[[], object]
    is_done: bool = False

    def __call__(self, fraction: float) -> None:
        if fraction >= self.far and not self.is_done:
            self.is_done = True
            self.act()


def interrupt() -> None:
    raise Interrupted


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that calls have filled: three tenants, and something of every kind."""
    path = tmp_path_factory.mktemp("copying") / "filled.db"
    with a_brain(path) as brain:
        a_world(brain, path)
        old = stored(brain, "The nightly build runs on two cores", kind="fact")
        new = brain.revise.supersede(old, "The nightly build runs on four cores", reason="more").id
        stored(brain, "The build is fast enough", kind="fact", depends_on=[str(new)])
        erased = stored(brain, "The build was red on Monday", kind="event")
        brain.erase(erased, reason="not ours", confirm=brain.erase(erased, reason="no").count)
        atom = stored(brain, DISK)
        brain.revise.link(atom, str(new), type="relates_to")
        brain.forget(stored(brain, "Nobody needs this fact", kind="fact"), reason="nobody")
        brain.jobs.run("maintain")
        brain.acting_as(session="s1").session.note("door", "it sticks", pinned=True)
        brain.recall("How many cores has the build?")
        brain.services.journal.flush()
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A store with two memories, for tests of what a copy refuses."""
    path = tmp_path / "small.db"
    with closing(opened(path)) as store:
        put(store, a_memory(1, "The kettle is on", tags=("tea",)), a_memory(2, "The cups are out"))
    return path


@pytest.fixture(scope="module")
def rows_of_filled(filled: Path) -> Mapping[tuple[str, str], list[str]]:
    """Every row of the filled store."""
    with closing(opened(filled)) as store:
        return held(store)


def opened(path: Path) -> Store:
    lay_out_store(path)
    return open_sqlite(
        path, space=SPACE, clock=FakeClock(), is_durable=False, lock_timeout_s=LOCK_TIMEOUT_S
    )


def held(store: Store) -> dict[tuple[str, str], list[str]]:
    """Every row of every tenant, to be compared."""
    rows_by_table: dict[tuple[str, str], list[str]] = {}
    for tenant in store.tenants():
        with store.snapshot(tenant) as tx:
            tenant_row = select(tenants.c.created_at, tenants.c.audit_key, tenants.c.policy)
            sealed = tx.work.connection.execute(tenant_row.where(tenants.c.id == tenant)).one()
            rows_by_table[tenant, "tenants"] = [repr((sealed[0], bytes(sealed[1]), sealed[2]))]
            for table in TABLES:
                pages = Rows.of(tx, table).pages()
                rows = sorted(
                    repr(sorted(comparable(row).items())) for page in pages for row in page
                )
                rows_by_table[tenant, table.name] = rows
    return rows_by_table


def recalled(store: Store, query: str) -> list[str]:
    with a_brain(Path(store.location).parent / "unused.db") as brain:
        asking = Brain(replace(brain.services, store=store), brain.caller)
        return [item.id for item in asking.recall(query, bump=False, max_items=12).items]


def test_store_copied_to_postgres_and_back_is_unchanged(
    filled: Path,
    rows_of_filled: Mapping[tuple[str, str], list[str]],
    tmp_path: Path,
    database: Database,
) -> None:
    fractions: list[float] = []
    with (
        closing(opened(filled)) as source,
        closing(database.opened()) as server,
        closing(opened(tmp_path / "back.db")) as back,
    ):
        there = copy_rows(source, server, on_progress=fractions.append)
        again = copy_rows(server, back)

        assert sum(map(len, rows_of_filled.values())) > 200
        assert held(server) == rows_of_filled
        assert held(back) == rows_of_filled
        assert all(finding.is_sound for one in (server, back) for finding in one.examine())
        queries = ["How many cores has the build?", "orders", "", "the kettle"]
        replies = [[recalled(one, query) for query in queries] for one in (source, server, back)]
    assert {(one.tenant, one.table, one.digest) for one in there.tables} == {
        (one.tenant, one.table, one.digest) for one in again.tables
    }
    assert replies[0] == replies[1] == replies[2]
    assert all(replies[0][:2])
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_every_table_of_a_store_is_copied(filled: Path) -> None:
    with closing(opened(filled)) as store, store.snapshot(LOCAL_TENANT) as tx:
        names = inspect(tx.work.connection).get_table_names()

    assert {name for name in names if not name.startswith(LEFT_OUT)} == {
        table.name for table in TABLES
    }


def test_interrupted_copy_resumes_where_it_stopped(
    filled: Path,
    rows_of_filled: Mapping[tuple[str, str], list[str]],
    tmp_path: Path,
    database: Database,
) -> None:
    with (
        closing(opened(filled)) as source,
        closing(database.opened()) as server,
        closing(opened(tmp_path / "to.db")) as back,
    ):
        for origin, target in ((source, server), (server, back)):
            with pytest.raises(Interrupted):
                copy_rows(origin, target, on_progress=Once(0.3, interrupt))
            plan = plan_copy(origin, target)
            done = copy_rows(origin, target)

            assert 0 < plan.there < plan.rows
            assert (done.rows, done.there) == (plan.rows, plan.there)
            assert held(target) == rows_of_filled
            assert plan_copy(origin, target).there == plan.rows


def test_copy_survives_repeated_interruptions_at_any_point(
    filled: Path, rows_of_filled: Mapping[tuple[str, str], list[str]], tmp_path: Path
) -> None:
    with closing(opened(filled)) as source, closing(opened(tmp_path / "to.db")) as target:
        for far in FARS:
            with pytest.raises(Interrupted):
                copy_rows(source, target, on_progress=Once(far, interrupt))
        copy_rows(source, target)

        assert held(target) == rows_of_filled


def test_copy_into_a_store_with_other_data_is_refused(small: Path, tmp_path: Path) -> None:
    with closing(opened(small)) as source, closing(opened(tmp_path / "to.db")) as other:
        put(other, a_memory(1, "The tea is ready"))
        before = held(other)
        with pytest.raises(RejectedError, match="another tenant default") as refusal:
            copy_rows(source, other)

        assert refusal.value.code == "copy_other_data"
        assert held(other) == before


def test_copy_into_a_store_with_another_tenant_is_refused(small: Path, tmp_path: Path) -> None:
    with closing(opened(small)) as source, closing(opened(tmp_path / "to.db")) as other:
        other.make_tenant("strangers", at=FakeClock().now())
        copy_rows(source, other)
        with other.begin("strangers") as tx:
            tx.memories.add(a_memory(9, "The tea is ready"))

        with pytest.raises(RejectedError, match="tenant strangers, which"):
            plan_copy(source, other)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE facts SET body = 'The tea is cold'", "rows of facts"),
        ("DELETE FROM entities", "has 0 rows of entities"),
        ("UPDATE vectors SET vector = zeroblob(4)", "rows of vectors"),
    ],
)
def test_row_changed_during_the_copy_is_reported(
    small: Path, tmp_path: Path, change: str, told: str
) -> None:
    with closing(opened(small)) as source, closing(opened(tmp_path / "to.db")) as target:

        def meddle(_fraction: float) -> None:
            # Again and again, and so at the last moment before all is read again.
            with target.begin(LOCAL_TENANT) as tx:
                tx.work.connection.execute(text(change))

        with pytest.raises(StoreCorruptError, match=told) as failure:
            copy_rows(source, target, on_progress=meddle)

        assert failure.value.code == "copy_differs"


def test_copy_never_overwrites_a_different_row(small: Path, tmp_path: Path) -> None:
    with closing(opened(small)) as source, closing(opened(tmp_path / "to.db")) as target:
        copy_rows(source, target)
        with target.begin(LOCAL_TENANT) as tx:
            tx.work.connection.execute(text("UPDATE facts SET body = 'The tea is cold'"))

        with pytest.raises(RejectedError, match="rows of facts of tenant default"):
            copy_rows(source, target)


def test_row_that_does_not_fit_is_reported_with_its_table(
    tmp_path: Path, database: Database
) -> None:
    with closing(opened(tmp_path / "from.db")) as source, closing(database.opened()) as server:
        put(source, a_memory(1, "The tea is ready", agent="a" * 129))

        with pytest.raises(
            StoreCorruptError, match="A row of memories of tenant default"
        ) as failure:
            copy_rows(source, server)

        assert failure.value.code == "copy_unfit"
        assert "aaa" not in str(failure.value)
