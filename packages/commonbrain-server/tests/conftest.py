from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_output import output_of

from tests.citus import PROGRAMS, CitusServer, cluster
from tests.postgres import Database


@pytest.fixture(scope="session")
def citus() -> Iterator[CitusServer]:
    """A cluster that keeps what it has acknowledged when one of its servers is killed."""
    with cluster(Path(os.environ[PROGRAMS]), is_durable=True) as server:
        yield server


@pytest.fixture
def distributed_store(citus: CitusServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A store distributed by `brain store distribute`, which commands and servers then open."""
    with citus.database(is_empty=True) as database:
        output_of("--store", database.owner, "store", "upgrade", "--grant", citus.program)
        output_of("--store", database.owner, "store", "distribute")
        monkeypatch.setenv("COMMONBRAIN_STORE", database.program)
        yield database
