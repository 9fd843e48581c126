from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.distributed.cluster import PROGRAMS, CitusServer, cluster


@pytest.fixture(scope="session")
def citus() -> Iterator[CitusServer]:
    """A cluster that keeps what it has acknowledged when one of its servers is killed."""
    with cluster(Path(os.environ[PROGRAMS]), is_durable=True) as server:
        yield server
