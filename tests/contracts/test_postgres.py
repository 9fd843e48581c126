"""Every contract of a store, held by Postgres under row-level security."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from commonbrain.testing.board_contract import BoardContract
from commonbrain.testing.cascade_contract import CascadeContract
from commonbrain.testing.credentials_contract import CredentialsContract
from commonbrain.testing.disputes_contract import DisputesContract
from commonbrain.testing.duties_contract import DutiesContract
from commonbrain.testing.events_contract import EventsContract
from commonbrain.testing.field_contract import FieldContract
from commonbrain.testing.history_contract import HistoryContract
from commonbrain.testing.index_contract import IndexContract
from commonbrain.testing.jobs_contract import JobsContract
from commonbrain.testing.learning_contract import LearningContract
from commonbrain.testing.mail_contract import MailContract
from commonbrain.testing.session_contract import SessionContract
from commonbrain.testing.store_contract import StoreContract
from commonbrain.testing.store_steps import SPACE, OpenStore
from commonbrain.testing.upkeep_contract import UpkeepContract
from tests.postgres import Server


@pytest.fixture
def open_store(postgres: Server) -> Iterator[OpenStore]:
    lent = postgres.lend(SPACE)
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(lent.database.opened()))
    postgres.take_back(lent)


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


class TestPostgresDisputes(DisputesContract):
    pass


class TestPostgresDuties(DutiesContract):
    pass


class TestPostgresEvents(EventsContract):
    pass


class TestPostgresFields(FieldContract):
    pass


class TestPostgresHistory(HistoryContract):
    pass


class TestPostgresSessions(SessionContract):
    pass


class TestPostgresIndex(IndexContract):
    pass


class TestPostgresJobs(JobsContract):
    pass


class TestPostgresLearning(LearningContract):
    pass


class TestPostgresMail(MailContract):
    pass
