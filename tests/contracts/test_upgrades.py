from contextlib import closing
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from commonbrain.model.kinds import CausalField
from commonbrain.model.limits import LOCK_TIMEOUT_S
from commonbrain.model.memory import State
from commonbrain.model.revision import Action, BeliefPeriod
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.timestamps import to_millis
from commonbrain.storage.sql.schema_version import MIGRATIONS
from commonbrain.storage.sqlite.engine import Sqlite
from commonbrain.storage.sqlite.opening import open_sqlite
from commonbrain.testing.builders import NOON
from commonbrain.testing.clock import FakeClock
from tests.contracts.store_steps import LATER, SPACE, lexical, look

MEMORY = (
    "INSERT INTO memories (tenant_id, id, kind, headline, state, scope, agent, trust, confidence, "
    "salience, rating, pinned, auto_captured, semantic_hash, recorded_at, occurred_at, "
    "access_count, superseded_at, superseded_by, superseded_count, payload) VALUES "
    "('default', :id, :kind, :said, :state, 'team', 'ann', 'user_claim', .6, .7, 0, 0, 0, :said, "
    ":at, :at, 0, :over, :by, 0, '{}')"
)
AUDIT = (
    "INSERT INTO audit (tenant_id, id, at, action, memory_id, agent, content_hmac) "
    "VALUES ('default', :id, :at, :action, :memory, 'ann', x'00')"
)


def as_of_version_one(path: Path) -> None:
    """A store as the first release left it: one memory superseded by another, one forgotten."""
    dialect = Sqlite(path=path, space=SPACE, is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S)
    dialect.prepare()
    with dialect.writer("default") as connection, connection.begin():
        migrate(connection, to="0001")
        fill(connection)
    dialect.engine.dispose()


def migrate(connection: Connection, *, to: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def fill(connection: Connection) -> None:
    def run(statement: str, **given: object) -> None:
        connection.execute(text(statement), given)

    noon, later = to_millis(NOON), to_millis(LATER)
    run("INSERT INTO tenants (id, created_at, audit_key) VALUES ('default', 0, x'00')")
    space = {"name": SPACE.name, "size": SPACE.dimensions}
    run("INSERT INTO spaces (name, dimensions) VALUES (:name, :size)", **space)
    states = ((2, "active", None, None), (1, "superseded", later, 2), (3, "forgotten", None, None))
    for id_, state, over, by in states:
        said = f"the port is 808{id_}"
        run(MEMORY, id=id_, kind="fact", said=said, state=state, at=noon, over=over, by=by)
        run("INSERT INTO facts (tenant_id, memory_id, kind, body) VALUES "
            "('default', :id, 'fact', :said)", id=id_, said=said)  # fmt: skip
        run(AUDIT, id=id_, at=noon, action="create", memory=id_)
        if state != "forgotten":
            run("INSERT INTO memory_text (rowid, text, keywords) VALUES (:id, :said, '')",
                id=id_, said=said)  # fmt: skip
    atom = {"id": 4, "kind": "atom", "said": "the kettle | boiled dry", "state": "active"}
    run(MEMORY, **atom, at=noon, over=None, by=None)
    run(
        "INSERT INTO atoms (tenant_id, memory_id, kind, body, subject, outcome) VALUES "
        "('default', 4, 'atom', 'the kettle | boiled dry', 'the kettle', 'boiled dry')"
    )
    run("INSERT INTO memory_text (rowid, text, keywords) VALUES (4, 'the kettle boiled dry', '')")
    run(AUDIT, id=11, at=later, action="supersede", memory=1)
    run(AUDIT, id=13, at=later, action="forget", memory=3)


def test_a_store_of_the_first_release_is_upgraded_with_its_past(path: Path) -> None:
    as_of_version_one(path)

    with closing(
        open_sqlite(
            path, space=SPACE, clock=FakeClock(), is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
        )
    ) as store:
        assert [finding for finding in store.examine() if not finding.is_sound] == []
        assert lexical(store, "port") == [2]
        assert lexical(store, "8081", wanted=look(as_of=NOON)) == [1]
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.changes.believed([1, 2, 3]) == {
                1: [BeliefPeriod(since=NOON, until=LATER)],
                3: [BeliefPeriod(since=NOON, until=LATER)],
            }
            done = tx.changes.by(agent="ann", session=None, since=LATER, until=None, limit=9)
            assert [(one.memory_id, one.action) for one in done] == [
                (3, Action.FORGET),
                (1, Action.SUPERSEDE),
            ]
            assert done[1].before == {
                "state": State.ACTIVE,
                "superseded_by": None,
                "superseded_at": None,
            }


def test_atoms_of_the_first_release_are_found_by_their_fields_and_wait_for_vectors(
    path: Path,
) -> None:
    as_of_version_one(path)

    with closing(
        open_sqlite(
            path, space=SPACE, clock=FakeClock(), is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
        )
    ) as store:
        assert lexical(store, "kettle", wanted=look(field=CausalField.SUBJECT)) == [4]
        assert lexical(store, "kettle", wanted=look(field=CausalField.OUTCOME)) == []
        with store.snapshot(LOCAL_TENANT) as tx:
            assert 4 in tx.index.unembedded(limit=9)


def test_of_several_spaces_the_one_with_most_vectors_serves_after_an_upgrade(path: Path) -> None:
    as_of_version_one(path)
    dialect = Sqlite(path=path, space=SPACE, is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S)
    with dialect.writer("default") as connection, connection.begin():
        # A copy brought the space of another embedder along.
        connection.execute(text("UPDATE spaces SET id = 2"))
        connection.execute(text("INSERT INTO spaces VALUES (1, 'elsewhere/8', 8)"))
        connection.execute(text("INSERT INTO vectors VALUES ('default', 2, 2, 0, 1, x'00')"))
    dialect.engine.dispose()

    with closing(
        open_sqlite(
            path, space=SPACE, clock=FakeClock(), is_durable=True, lock_timeout_s=LOCK_TIMEOUT_S
        )
    ) as store:
        known = {one.name: one.state for one in store.spaces.listed()}
        assert known == {SPACE.name: "current", "elsewhere/8": "retired"}
