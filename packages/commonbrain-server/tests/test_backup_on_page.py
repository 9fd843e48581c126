"""The page shows when the store was last copied, where reads are audited."""

import pytest
from commonbrain_server.tenants import admin_of

from commonbrain.client import Brain
from tests.web.people import visiting


@pytest.mark.of_a_file
def test_health_page_shows_the_time_of_the_last_backup(
    brain: Brain, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # The audit has a line for each copy of the store if reads are audited.
    admin_of(brain).policy(are_reads_audited=True)
    brain.backup(tmp_path_factory.mktemp("copies") / "copy.db")
    with visiting(brain) as ann:
        upkeep = ann.read("/health")["upkeep"]

    assert upkeep["backed_up_at"] is not None
    assert upkeep["maintained_at"] is None
