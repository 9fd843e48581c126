"""Every contract of a store, held by Postgres under row-level security."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from commonbrain_server.postgres.schema import POSTGRES
from keys_contract import KeysContract
from page_sessions_contract import PageSessionsContract

from commonbrain.storage.sql.schema_version import MIGRATIONS
from commonbrain.testing.builders import FakeClock
from tests.older_stores import make_older
from tests.postgres import Server, tenants_by_path
from tests.storage.action_items_contract import ActionItemsContract
from tests.storage.board_contract import BoardContract
from tests.storage.cascade_contract import CascadeContract
from tests.storage.credentials_contract import CredentialsContract
from tests.storage.disputes_contract import DisputesContract
from tests.storage.events_contract import EventsContract
from tests.storage.field_contract import FieldContract
from tests.storage.history_contract import HistoryContract
from tests.storage.index_contract import IndexContract
from tests.storage.jobs_contract import JobsContract
from tests.storage.learning_contract import LearningContract
from tests.storage.listing_contract import ListingContract
from tests.storage.mail_contract import MailContract
from tests.storage.readings_contract import ReadingsContract
from tests.storage.session_contract import SessionContract
from tests.storage.store_contract import StoreContract
from tests.storage.store_steps import SPACE, OpenStore
from tests.storage.test_schema import described
from tests.storage.trends_contract import TrendsContract
from tests.storage.upkeep_contract import UpkeepContract


@pytest.fixture
def open_store(postgres: Server) -> Iterator[OpenStore]:
    with tenants_by_path(postgres) as opened:
        yield partial(opened, Path("store"), space=SPACE, clock=FakeClock())


@pytest.mark.requirement("PF-02", "EV-01")
class TestPostgres(StoreContract):
    pass


class TestPostgresCascade(CascadeContract):
    pass


class TestPostgresUpkeep(UpkeepContract):
    pass


class TestPostgresBoard(BoardContract):
    pass


class TestPostgresCredentials(CredentialsContract):
    pass


class TestPostgresKeys(KeysContract):
    pass


class TestPostgresDisputes(DisputesContract):
    pass


class TestPostgresActionItems(ActionItemsContract):
    pass


class TestPostgresEvents(EventsContract):
    pass


class TestPostgresFields(FieldContract):
    pass


class TestPostgresHistory(HistoryContract):
    pass


class TestPostgresPageSessions(PageSessionsContract):
    pass


class TestPostgresReadings(ReadingsContract):
    pass


class TestPostgresSessions(SessionContract):
    pass


class TestPostgresIndex(IndexContract):
    # All numbers up to 10,000 take the same path here: every vector is compared.
    many = 300


class TestPostgresJobs(JobsContract):
    pass


class TestPostgresLearning(LearningContract):
    pass


class TestPostgresListing(ListingContract):
    pass


class TestPostgresTrends(TrendsContract):
    pass


class TestPostgresMail(MailContract):
    pass


def test_upgraded_store_has_the_schema_of_a_new_one_in_postgres(postgres: Server) -> None:
    with postgres.database(is_empty=True) as database:
        engine = sa.create_engine(sa.make_url(database.owner).set(drivername="postgresql+psycopg"))
        with engine.begin() as connection:
            MIGRATIONS.upgrade(connection, POSTGRES, version=None)
            created = described(connection)
            make_older(connection)
            assert described(connection) != created

            MIGRATIONS.upgrade(connection, POSTGRES, version=MIGRATIONS.oldest)

            assert described(connection) == created
        engine.dispose()
